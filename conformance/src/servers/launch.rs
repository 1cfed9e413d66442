//! How a server comes to be: by which way, on which ports, until it serves.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use url::Url;

#[cfg(feature = "containers")]
use super::container::Container;
use super::error::Error;
use super::host::Host;
use super::process::{self, Process};
use super::recipe::Recipe;
use super::server::Server;
use super::way::Way;
use crate::ports::Port;

/// How long a server may take until it serves.
const READY: Duration = Duration::from_secs(30);

/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// How many ports are tried when another process that knows nothing of ours takes one.
const TRIES: usize = 5;

impl Server {
    /// Starts one by this way, or by the first that works.
    pub(super) async fn launch(recipe: Arc<dyn Recipe>, way: Option<Way>) -> Result<Self, Error> {
        let kind = recipe.kind();
        let ways = match way {
            Some(way) => vec![way],
            None => Way::allowed().map_err(|why| Error::failed(kind, why))?,
        };
        let mut reasons = Vec::new();
        for way in ways {
            let launched = match way {
                Way::Url => Self::running(recipe.clone()).await,
                _ => Self::own(recipe.clone(), way).await,
            };
            match launched {
                Err(Error::Missing(missing)) => reasons.push(format!("{way}: {}", missing.why)),
                other => return other,
            }
        }
        Err(Error::missing(kind, reasons.join("; ")))
    }

    /// A new one on free ports.
    async fn own(mut recipe: Arc<dyn Recipe>, way: Way) -> Result<Self, Error> {
        let kind = recipe.kind();
        let failed = |why: String| Error::failed(kind, why);
        let mut last = String::new();
        for _ in 0..TRIES {
            let ports =
                recipe.ports().iter().map(|_| Port::reserve()).collect::<Result<Vec<_>, _>>();
            let ports = ports.map_err(|error| failed(error.to_string()))?;
            let numbers: Vec<_> = ports.iter().map(Port::number).collect();
            let mut host = new_host(&recipe, way, numbers.clone()).await?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, numbers[0]));
            match bring_up(recipe.as_ref(), &mut host, address).await {
                Ok(()) => return Ok(Self::assemble(recipe, host, address, None, ports)),
                Err(why) if port_was_taken(&why) => last = why,
                Err(why) => match recipe.for_older(&why) {
                    Some(older) => (recipe, last) = (older, why),
                    None => return Err(failed(why)),
                },
            }
        }
        Err(failed(last))
    }

    /// The one that the environment names.
    async fn running(recipe: Arc<dyn Recipe>) -> Result<Self, Error> {
        let kind = recipe.kind();
        let missing = |why: String| Error::missing(kind, why);
        let variable = recipe.url_variable();
        let url = std::env::var(variable).map_err(|_| missing(format!("{variable} is not set")))?;
        // The message must not show the URL, which may hold a password.
        let address = address_of(&url, recipe.ports()[0]).ok_or_else(|| {
            Error::failed(kind, format!("{variable} does not name a host and a port"))
        })?;
        if let Some(why) = recipe.needs_its_own() {
            return Err(missing(format!("{why}, and {variable} names one that is not ours")));
        }
        let mut host = Host::Url;
        bring_up(recipe.as_ref(), &mut host, address).await.map_err(missing)?;
        Ok(Self::assemble(recipe, host, address, Some(url), Vec::new()))
    }
}

async fn new_host(recipe: &Arc<dyn Recipe>, way: Way, ports: Vec<u16>) -> Result<Host, Error> {
    let kind = recipe.kind();
    let missing = |why: String| Error::missing(kind, why);
    match way {
        Way::Process => {
            if process::find(recipe.program()).is_none() {
                return Err(missing(format!("no {} in PATH", recipe.program())));
            }
            let process = Process::new(recipe.as_ref(), ports);
            process.map(Host::Process).map_err(|why| Error::failed(kind, why))
        }
        #[cfg(feature = "containers")]
        Way::Container => {
            if let Some(why) = recipe.needs_a_process() {
                return Err(missing(why.into()));
            }
            let container = Container::new(recipe.clone(), ports).await;
            container.map(Host::Container).map_err(missing)
        }
        #[cfg(not(feature = "containers"))]
        Way::Container => Err(missing("the feature `containers` is off".into())),
        Way::Url => Err(missing("it is not ours to start".into())),
    }
}

/// Starts it and waits until it serves.
pub(super) async fn bring_up(
    recipe: &dyn Recipe,
    host: &mut Host,
    address: SocketAddr,
) -> Result<(), String> {
    host.start().await?;
    let started = Instant::now();
    loop {
        let why = match recipe.probe(address).await {
            Ok(()) => return recipe.settle(address).await,
            Err(why) => why,
        };
        let ended = !host.running().await;
        let patience = if host.commands() { READY } else { Duration::from_secs(2) };
        if ended || started.elapsed() > patience {
            let fate = if ended { "it ended at once" } else { "it does not serve" };
            return Err(format!("{fate}: {why}; it printed: {}", excerpt(&host.log().await)));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// The first lines and the last: a server that refuses an option may print its manual after that.
fn excerpt(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    match lines.len() {
        0..=12 => lines.join("\n"),
        count => format!("{}\n...\n{}", lines[..4].join("\n"), lines[count - 8..].join("\n")),
    }
}

fn port_was_taken(why: &str) -> bool {
    let why = why.to_lowercase();
    why.contains("address already in use") || why.contains("port is already allocated")
}

fn address_of(url: &str, default_port: u16) -> Option<SocketAddr> {
    // Of several servers, the first; a comma in a password is written as %2C.
    let url = Url::parse(url.split(',').next()?).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    (host, url.port().unwrap_or(default_port)).to_socket_addrs().ok()?.next()
}
