//! What the processes do that the tests start. The first words of a process are its server's URL
//! and its lock's name.

use std::collections::VecDeque;
use std::io::BufRead;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use leasehold::{Guard, Lock, Locks};
use leasehold_api::{Error, Lease, Renewal, Token, Ttl};
use leasehold_conformance::{Failure, Verdict};
use tokio::sync::mpsc;

pub(crate) use crate::driver::connect;
use crate::store::Store;

/// Plays a role to its end.
pub(crate) fn play(role: &str) -> ExitCode {
    let words = Words(std::env::args().skip(1).collect());
    let verdict = match role {
        "client" => on_runtime(client(words)),
        "cycle" => on_runtime(cycle(words)),
        "drops" => crate::drops::play(words),
        "load" => on_runtime(crate::load::play(words)),
        "packets" => on_runtime(crate::packets::play(words)),
        _ => Err(Failure::failed(format!("no role {role}"))),
    };
    match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.why());
            ExitCode::FAILURE
        }
    }
}

/// The words of a process.
pub(crate) struct Words(VecDeque<String>);

impl Words {
    pub(crate) fn next(&mut self) -> Result<String, Failure> {
        self.0.pop_front().ok_or_else(|| Failure::failed("a word is missing"))
    }

    pub(crate) fn millis(&mut self) -> Result<Duration, Failure> {
        Ok(Duration::from_millis(self.next()?.parse()?))
    }
}

/// The lines of the standard input, read beside the runtime; none after its end.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (told, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if told.send(line).is_err() {
                return;
            }
        }
    });
    orders
}

fn on_runtime(role: impl Future<Output = Verdict>) -> Verdict {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?
        .block_on(role)
}

/// Acquires and releases without end, a moment between the two.
async fn cycle(mut words: Words) -> Verdict {
    let locks = connect(&words.next()?).await?;
    let lock = locks.lock(&words.next()?)?.ttl(words.millis()?);
    println!("ready");
    loop {
        let guard = lock.acquire().await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        // A late answer may make it lost; that is seen by who acquires next.
        let _ = guard.release().await;
    }
}

/// Does what it is told, a line an answer.
async fn client(mut words: Words) -> Verdict {
    let url = words.next()?;
    let locks = connect(&url).await?;
    let store = Store::open(&url).await?;
    let name = words.next()?;
    let ttl = words.millis()?;
    let lock = locks.lock(&name)?.ttl(ttl);
    let mut client = Client { locks, lock, ttl: Ttl::new(ttl)?, store, held: None };
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        println!("{}", client.obey(&order).await?);
    }
    Ok(())
}

struct Client {
    locks: Locks,
    lock: Lock,
    ttl: Ttl,
    store: Store,
    /// With its token, which the guard does not tell any more once it is lost.
    held: Option<(Guard, Token)>,
}

impl Client {
    async fn obey(&mut self, order: &str) -> Result<String, Failure> {
        let mut words = order.split(' ');
        Ok(match words.next().unwrap_or_default() {
            "acquire" => {
                let wait = words.next().map_or(Ok(30_000), str::parse)?;
                let acquired = self.lock.acquire_within(Duration::from_millis(wait)).await;
                self.keep(acquired.map(Some))?
            }
            "try" => {
                let acquired = self.lock.try_acquire().await;
                self.keep(acquired)?
            }
            "look" => match self.guard()?.0.token() {
                Ok(_) => format!("held {}", self.guard()?.0.remaining().as_millis()),
                Err(error) => format!("lost {:?}", error.kind()),
            },
            "renew" => match self.locks.backend().renew(&self.lease()?).await? {
                Renewal::Renewed(_) => "renewed".into(),
                _ => "not-mine".into(),
            },
            "write" => match self.store.write(self.guard()?.1).await? {
                true => "written".into(),
                false => "refused".into(),
            },
            "release" => match self.held.take() {
                Some((guard, _)) => match guard.release().await {
                    Ok(()) => "released".into(),
                    Err(error) => told(&error),
                },
                None => "nothing".into(),
            },
            "clock" => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
                format!("clock {}", since.as_secs())
            }
            _ => return Err(Failure::failed(format!("what is {order:?}?"))),
        })
    }

    fn keep(&mut self, acquired: Result<Option<Guard>, Error>) -> Result<String, Failure> {
        Ok(match acquired {
            Ok(Some(guard)) => {
                let token = guard.token()?;
                self.held = Some((guard, token));
                format!("granted {token}")
            }
            Ok(None) => "held".into(),
            Err(error) => told(&error),
        })
    }

    fn guard(&self) -> Result<&(Guard, Token), Failure> {
        self.held.as_ref().ok_or_else(|| Failure::failed("nothing is held"))
    }

    fn lease(&self) -> Result<Lease, Failure> {
        let (guard, token) = self.guard()?;
        Ok(Lease::new(guard.name().clone(), guard.owner(), *token, self.ttl))
    }
}

fn told(error: &Error) -> String {
    format!("failed {:?}", error.kind())
}
