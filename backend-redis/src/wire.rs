//! One connection, over a stream of our own: so that TLS needs nothing installed, and what passes
//! is seen.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{BootClock, Clock};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    ServerErrorKind, Value,
};
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::Failure;
use crate::link::{Answer, Target};
use crate::opening::Step;
use crate::options::Options;
use crate::pulse::{GATHER, Pulse, Pulsed};
use crate::scripts::Call;

/// The name of our connections in the server's list of clients.
pub(crate) const CLIENT_NAME: &str = "leasehold";
/// How many commands may wait for the socket before callers wait for a place.
const BUFFER: usize = 1024;

/// One connection.
pub(crate) struct Wire {
    connection: MultiplexedConnection,
    /// The server takes requests of one generation in order; of two, in any.
    pub(crate) generation: u64,
    pulse: Arc<Pulse>,
    place: Arc<str>,
    timeout: Duration,
    _task: Running,
}

impl Wire {
    pub(crate) async fn open(target: &Target, generation: u64) -> Result<Self, Failure> {
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let options = &target.options;
        let until = Instant::now() + options.connect_timeout;
        let Socket { mut connection, pulse, task } = open(target, &info, None, until).await?;
        // A silent connection is ended by ourselves, which must not look like the server's doing.
        let unopened = |step, source| match pulse.is_silent(options.timeout) {
            true => target.unopened(step, io::Error::from(io::ErrorKind::TimedOut).into()),
            false => target.unopened(step, source),
        };
        let told = by(until, authenticate(&mut connection, options)).await;
        told.map_err(|source| unopened(Step::Auth, source))?;
        let greeted = by(until, greet(&mut connection, options)).await;
        greeted.map_err(|source| unopened(Step::Greet, source))?;
        let (place, timeout) = (target.place.clone(), options.timeout);
        Ok(Self { connection, generation, pulse, place, timeout, _task: task })
    }

    /// Runs a script: by its SHA-1, and by its text where the server doesn't know it (yet, or any
    /// more).
    pub(crate) async fn script(&self, call: &Call) -> Result<Answer, Failure> {
        let from = BootClock.now();
        let value = match self.command(call.by_sha()).await {
            Err(Failure::Call(error)) if is_noscript(&error) => {
                self.command(&call.by_text()).await?
            }
            answer => answer?,
        };
        Ok(Answer { value, from, generation: self.generation })
    }

    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = self.connection.clone();
        let (_under_way, writes) = (self.pulse.request(), self.pulse.writes());
        let answer = connection.send_packed_command(command).await;
        self.judge(writes, answer.and_then(Value::extract_error))
    }

    /// Sends several commands at once; an error that one is answered with stays its answer.
    pub(crate) async fn commands(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection.clone();
        let (_under_way, writes) = (self.pulse.request(), self.pulse.writes());
        self.judge(writes, connection.send_packed_commands(commands, 0, commands.len()).await)
    }

    /// Whether it has to be replaced.
    pub(crate) fn is_lost(&self) -> bool {
        self.pulse.is_lost(self.timeout)
    }

    /// Gives the connection up after an error that another one may not have.
    fn judge<T>(&self, writes: u64, answer: RedisResult<T>) -> Result<T, Failure> {
        answer.map_err(|error| {
            let unsent = error.is_io_error() && self.pulse.writes() == writes;
            let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
            if demoted || error.is_io_error() || error.kind() == ErrorKind::Parse {
                self.pulse.end();
            }
            if unsent { Failure::Unsent(self.place.clone(), error) } else { Failure::Call(error) }
        })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A connection that runs in a task of its own.
pub(crate) struct Socket {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) task: Running,
}

/// The task of a connection; dropped, it ends the connection at once. (The client library would
/// first wait for the answers, which may never come.)
pub(crate) struct Running(JoinHandle<()>);

impl Running {
    /// Ends when the connection does.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a connection, by then.
pub(crate) async fn open(
    target: &Target,
    info: &RedisConnectionInfo,
    pushes: Option<Pushes>,
    until: Instant,
) -> Result<Socket, Failure> {
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None) // policy bounds each call, and the pulse sees a silent peer
        .set_pipeline_buffer_size(BUFFER)
        .set_write_backpressure_boundary(2 * GATHER);
    if let Some(pushes) = pushes {
        config = config.set_push_sender(move |push| {
            pushes(push);
            Ok::<_, ()>(())
        });
    }
    let limit = target.options.timeout;
    let dialled = by(until, async { Ok(dial(&target.options).await?) }).await;
    let tcp = dialled.map_err(|source| target.unopened(Step::Dial, source))?;
    #[cfg(feature = "tls")]
    if let Some(tls) = &target.tls {
        let mut step = Step::NoTls;
        let shaking = async {
            let stream = tls.connector.connect(tls.name.clone(), tcp).await;
            stream.inspect_err(|error| step = crate::tls::step(error)).map_err(RedisError::from)
        };
        let stream = by(until, shaking).await;
        let stream = stream.map_err(|source| target.unopened(step, source))?;
        let attached = by(until, attach(stream, info, config, limit)).await;
        return attached.map_err(|source| target.unopened(Step::Auth, source));
    }
    let attached = by(until, attach(tcp, info, config, limit)).await;
    // Where the client library greets, it says a password too.
    attached.map_err(|source| target.unopened(Step::Auth, source))
}

async fn dial(options: &Options) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect((&*options.host, options.port)).await?;
    tcp.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5));
    socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
    Ok(tcp)
}

/// What is done with a push, in the connection's own task.
pub(crate) type Pushes = Box<dyn Fn(redis::PushInfo) + Send + Sync>;

async fn attach<S>(
    stream: S,
    info: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
    limit: Duration,
) -> RedisResult<Socket>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let pulse = Pulse::new();
    let stream = Pulsed::new(stream, pulse.clone());
    let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config).await?;
    let (end, watched) = (EndOnDrop(pulse.clone()), pulse.clone());
    let task = tokio::spawn(async move {
        let _end = end; // also when the runtime drops this task
        // With the driver end the requests under way, whose answers would never come.
        tokio::select! {
            () = driver => {}
            () = watched.lost(limit) => {}
        }
    });
    Ok(Socket { connection, pulse, task: Running(task) })
}

struct EndOnDrop(Arc<Pulse>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Says who we are. Done here, since the client library would keep the server's own code from us.
async fn authenticate(
    connection: &mut MultiplexedConnection,
    options: &Options,
) -> RedisResult<()> {
    let Some(password) = &options.password else { return Ok(()) };
    let mut auth = redis::cmd("AUTH");
    if let Some(user) = &options.user {
        auth.arg(user);
    }
    auth.arg(password.expose_secret());
    connection.send_packed_command(&auth).await?.extract_error().map(drop)
}

/// Says what we want; a step at a time, since after a refusal the server may say no more.
async fn greet(connection: &mut MultiplexedConnection, options: &Options) -> RedisResult<()> {
    let mut ask =
        async |command: &Cmd| connection.send_packed_command(command).await?.extract_error();
    if options.database != 0 {
        ask(redis::cmd("SELECT").arg(options.database)).await?;
    }
    match ask(redis::cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME)).await {
        // A name is for people; but what says that we may do nothing at all, says it here.
        Err(error) if error.code() == Some("NOPERM") => Ok(()),
        answer => answer.map(drop),
    }
}

/// The work, or at `until` the error of a connection that timed out.
pub(crate) async fn by<T>(
    until: Instant,
    work: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    match tokio::time::timeout_at(until, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

fn is_noscript(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
