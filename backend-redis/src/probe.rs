//! What is looked at once, at connect: whether this server will do, and what its operator should
//! know.

use leasehold_api::{Error, ErrorKind, Operation};
use redis::{Pipeline, Value};

use crate::driver::NAME;
use crate::error::Failure;
use crate::keys::Keys;
use crate::scripts::{INSPECT, all};
use crate::wire::Wire;

/// The oldest server that is supported.
const OLDEST: (u32, u32) = (6, 2);

/// Why a server won't do.
pub(crate) enum Unfit {
    /// The server's own error; another attempt may go better.
    Failed(Failure),
    /// It is no server for us.
    Refused(Error),
}

/// Looks at the server in one round trip, and loads the scripts. Answers warnings.
pub(crate) async fn probe(wire: &Wire, keys: &Keys) -> Result<Vec<String>, Unfit> {
    let mut asked = Pipeline::new();
    asked.cmd("INFO");
    asked.cmd("CONFIG").arg("GET").arg("appendfsync");
    // Scripting, and reading under our prefix: what is forbidden shows now and not at the first
    // lock.
    asked.add_command(INSPECT.call(1).part(keys.probe()).by_text());
    for script in all() {
        asked.cmd("SCRIPT").arg("LOAD").arg(script.text); // saves a round trip, and no more
    }
    let answers = wire.commands(&asked).await.map_err(Unfit::Failed)?;
    let mut answers = answers.into_iter().map(Value::extract_error);
    let (info, fsync) = (answers.next(), answers.next());
    let info = info.and_then(Result::ok).map(text);
    if let Some(info) = &info {
        fits(info).map_err(Unfit::Refused)?;
    }
    match answers.next() {
        Some(Err(error)) => return Err(Unfit::Failed(Failure::Call(error))),
        Some(Ok(_)) => {}
        None => return Err(Unfit::Failed(Failure::Answer("the server answered too little"))),
    }
    let fsync = match fsync.and_then(Result::ok) {
        Some(Value::Array(pair)) => pair.into_iter().nth(1).map(text),
        _ => None,
    };
    Ok(warnings(info.as_deref(), fsync.as_deref()))
}

fn fits(info: &str) -> Result<(), Error> {
    let refuse = |kind, message: String| {
        Err(Error::new(kind, Operation::Connect, message).with_backend(NAME))
    };
    let version = field(info, "redis_version").unwrap_or("0.0");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        let (major, minor) = OLDEST;
        return refuse(
            ErrorKind::Unsupported,
            format!("the server is version {version}; supported are {major}.{minor} and newer"),
        );
    }
    if let Some(mode @ ("cluster" | "sentinel")) = field(info, "redis_mode") {
        return refuse(
            ErrorKind::Unsupported,
            format!("the server runs in {mode} mode; supported is a single server"),
        );
    }
    if field(info, "role") == Some("slave") {
        return refuse(
            ErrorKind::NotPrimary,
            "the server is a replica; name its primary".to_owned(),
        );
    }
    Ok(())
}

fn warnings(info: Option<&str>, fsync: Option<&str>) -> Vec<String> {
    let Some(info) = info else {
        return vec![
            "could not check version, role, eviction and persistence: INFO is not permitted"
                .to_owned(),
        ];
    };
    let mut warnings = Vec::new();
    match field(info, "maxmemory_policy") {
        Some("noeviction") => {}
        Some(policy) => warnings.push(format!(
            "maxmemory-policy is {policy}, which may evict locks when memory is short; set it to \
             noeviction"
        )),
        None => warnings.push("could not check maxmemory-policy".to_owned()),
    }
    match (field(info, "aof_enabled"), fsync) {
        (Some("1"), Some("always")) => {}
        (Some("1"), Some(fsync)) => warnings.push(format!(
            "appendfsync is {fsync}: a crash may lose the last locks, which are then granted again"
        )),
        (Some("1"), None) => warnings.push("could not check appendfsync".to_owned()),
        _ => warnings.push(
            "appendonly is off: a restart may lose locks, which are then granted again".to_owned(),
        ),
    }
    warnings
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{fits, warnings};
    use leasehold_api::ErrorKind;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
                        maxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n";

    #[test]
    fn old_servers_clusters_sentinels_and_replicas_are_refused_by_name() {
        assert!(fits(INFO).is_ok());
        assert!(fits(&INFO.replace("7.0.15", "6.2.0")).is_ok());
        for (from, to, kind, says) in [
            ("7.0.15", "6.0.16", ErrorKind::Unsupported, "version 6.0.16; supported are 6.2"),
            ("7.0.15", "5.0.7", ErrorKind::Unsupported, "5.0.7"),
            ("standalone", "cluster", ErrorKind::Unsupported, "cluster mode"),
            ("standalone", "sentinel", ErrorKind::Unsupported, "sentinel mode"),
            ("master", "slave", ErrorKind::NotPrimary, "a replica"),
        ] {
            let error = fits(&INFO.replace(from, to)).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn what_can_lose_locks_is_a_warning_and_so_is_what_can_not_be_checked() {
        assert!(warnings(Some(INFO), Some("always")).is_empty());
        let evicting = INFO.replace("noeviction", "volatile-lru");
        assert!(warnings(Some(&evicting), Some("always"))[0].contains("volatile-lru"));
        assert!(warnings(Some(INFO), Some("everysec"))[0].contains("everysec"));
        assert!(warnings(Some(INFO), None)[0].contains("could not check appendfsync"));
        let volatile = INFO.replace("aof_enabled:1", "aof_enabled:0");
        assert!(warnings(Some(&volatile), Some("always"))[0].contains("appendonly is off"));
        assert!(warnings(None, None)[0].contains("could not check"));
    }
}
