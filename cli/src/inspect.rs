//! `leasehold status`, `list` and `evict`: what an operator asks.

use std::time::{Duration, SystemTime};

use leasehold::{Error, Holder, LockName, Token};
use serde::Serialize;

use crate::args::{Evict, List, Status};
use crate::exit::{Failure, USAGE};
use crate::output::{print, print_json};
use crate::target::Settings;

/// One lock, as `--json` prints it. All but the name and `held` are null where nobody holds it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    held: bool,
    owner: Option<String>,
    token: Option<u64>,
    /// Null for a held lock whose record has no expiry.
    remaining_ms: Option<u64>,
    label: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    /// RFC 3339, by the holder's wall clock.
    since: Option<String>,
}

impl<'a> Row<'a> {
    fn new(name: &'a LockName, holder: Option<&'a Holder>) -> Self {
        let metadata = holder.and_then(|holder| holder.metadata.as_ref());
        let millis = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Self {
            name: name.as_str(),
            held: holder.is_some(),
            owner: holder.map(|holder| holder.owner.to_string()),
            token: holder.map(|holder| holder.token.get()),
            remaining_ms: holder.and_then(|holder| holder.remaining).map(millis),
            label: metadata.and_then(|metadata| metadata.label.as_ref()).map(|l| l.as_str()),
            host: metadata.map(|metadata| &*metadata.host).filter(|host| !host.is_empty()),
            pid: metadata.map(|metadata| metadata.pid),
            since: metadata.map(|metadata| time(metadata.since)),
        }
    }
}

/// Prints who holds one lock.
pub(crate) async fn status(asked: &Status) -> Result<u8, Failure> {
    let settings = Settings::find(&asked.target, None)?;
    let name = name(&asked.name)?;
    let locks = settings.connect().await.map_err(|error| settings.unconnected(error))?;
    let holder = locks.backend().inspect(&name).await.map_err(|error| error.with_lock(&name))?;
    if asked.output.json {
        print_json(&Row::new(&name, holder.as_ref()))?;
    } else {
        print(line(&name, holder.as_ref()))?;
    }
    Ok(0)
}

/// Prints all locks that are held.
pub(crate) async fn list(asked: &List) -> Result<u8, Failure> {
    let settings = Settings::find(&asked.target, None)?;
    if !asked.prefix.is_empty() {
        name(&asked.prefix)?; // no name begins with what none can be
    }
    let locks = settings.connect().await.map_err(|error| settings.unconnected(error))?;
    let held = locks.backend().list(&asked.prefix).await?;
    if asked.output.json {
        let rows: Vec<_> = held.iter().map(|(name, holder)| Row::new(name, Some(holder))).collect();
        print_json(&rows)?;
    } else {
        for (name, holder) in &held {
            print(line(name, Some(holder)))?;
        }
    }
    Ok(0)
}

/// Ends somebody's lease.
pub(crate) async fn evict(asked: &Evict) -> Result<u8, Failure> {
    const NOTHING_ENDED: u8 = 1;
    let settings = Settings::find(&asked.target, None)?;
    let name = name(&asked.name)?;
    let token = Token::new(asked.token).map_err(usage)?;
    let locks = settings.connect().await.map_err(|error| settings.unconnected(error))?;
    let evicted =
        locks.backend().evict(&name, token).await.map_err(|error| error.with_lock(&name))?;
    if evicted {
        print(format!(
            "{name}: the lease with token {token} was ended; its holder learns of it at its next \
             renewal at the latest, within a third of its TTL, and its command runs until then"
        ))?;
        return Ok(0);
    }
    let message = format!("nobody holds `{name}` under the token {token}");
    Err(Failure::new(NOTHING_ENDED, message))
}

/// A holder for people: where it runs, since when, and what it says of itself.
pub(crate) fn describe(holder: &Holder) -> String {
    let mut text = String::new();
    match &holder.metadata {
        Some(metadata) => {
            text += &format!("pid {}", metadata.pid);
            if !metadata.host.is_empty() {
                text += &format!(" on {}", plain(&metadata.host));
            }
            if let Some(label) = &metadata.label {
                text += &format!(" ({})", plain(label.as_str()));
            }
            text += &format!(" since {}", time(metadata.since));
        }
        None => text += &format!("owner {}", holder.owner),
    }
    text += &format!(", token {}", holder.token);
    match holder.remaining {
        Some(left) => text += &format!(", for {:.1} s unless renewed", left.as_secs_f64()),
        None => text += ", for ever (its record has no expiry)",
    }
    text
}

fn line(name: &LockName, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("{name}: held by {}", describe(holder)),
        None => format!("{name}: free"),
    }
}

fn name(text: &str) -> Result<LockName, Failure> {
    LockName::new(text).map_err(usage)
}

fn usage(error: Error) -> Failure {
    Failure::from(error).with_status(USAGE)
}

/// For people and programs: RFC 3339, in UTC.
pub(crate) fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

/// What others wrote into the store, without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
