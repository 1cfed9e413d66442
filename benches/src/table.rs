//! The tables of `docs/performance.md`.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::report::{HandOver, Ratio, Report};
use crate::under::Kind;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Writes the tables between the markers of a file.
///
/// # Errors
///
/// If the file can't be read or written, or has no markers.
pub fn write(reports: &[Report], file: &Path) -> io::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| {
        let why = format!("{} has no lines {BEGIN} and {END}", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })?;
    let tables: String = reports.iter().map(ToString::to_string).collect();
    std::fs::write(file, format!("{before}{BEGIN}\n{tables}{END}{after}"))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caption(f)?;
        self.uncontended(f)?;
        let within = "Hand-over within a process";
        let (local, over) = match self.kind {
            Kind::Redis => ("0.70", "0.35"),
            Kind::Etcd => ("0.80", "0.80"),
        };
        hand_over(f, within, local, &self.local)?;
        let between = format!("Hand-over over {} processes", self.over);
        hand_over(f, &between, over, &self.processes)?;
        self.held_locks(f)
    }
}

/// The ratio, and between what it was from turn to turn.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.between;
        write!(f, "{:.2} ({least:.2} to {most:.2})", self.ratio())
    }
}

impl Report {
    fn caption(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let build = if cfg!(debug_assertions) { "a debug" } else { "a release" };
        writeln!(f, "## {}\n", self.version)?;
        writeln!(
            f,
            "Measured on {}: {} over loopback, {cores} cores for server and clients together, \
             leasehold {} in {build} build; other virtual machines took {:.0} % of the cores.\n",
            today(),
            self.version,
            env!("CARGO_PKG_VERSION"),
            self.stolen * 100.0,
        )
    }

    fn uncontended(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### Uncontended acquire and release\n")?;
        writeln!(
            f,
            "| tasks | limit, pairs/s | leasehold, pairs/s | of the limit | reach | client's \
             processor time, of the limit's | reach | requests a pair |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for pair in &self.pairs {
            let (Ratio { limit, lock, .. }, judged) = (pair.speed, pair.tasks > 1);
            writeln!(
                f,
                "| {} | {limit:.0} | {lock:.0} | {} | {} | {} | {} | {:.2} |",
                pair.tasks,
                pair.speed,
                if judged { "0.90" } else { "" },
                pair.processor,
                if judged { "1.25" } else { "" },
                pair.requests,
            )?;
        }
        writeln!(f)
    }

    fn held_locks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held;
        let (alone, beside_raw, beside_lock) = held.bystander;
        writeln!(f, "### {} held locks\n", held.locks)?;
        writeln!(f, "| | limit | leasehold | reach |")?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        let (limit, lock) = (millis(held.round.0), millis(held.round.1));
        // A tick of etcd is one keepalive; the figure of its time is the limit's.
        let (round, requests) = match self.kind {
            Kind::Redis => ("14 ms", held.locks.div_ceil(256)),
            Kind::Etcd => ("", 1),
        };
        writeln!(f, "| one round of renewals | {limit} | {lock} | {round} |")?;
        writeln!(f, "| requests a round | {requests} | {:.0} | {requests} |", held.requests)?;
        let (second, ttl) = (held.requests_per_second, held.ttl.as_secs_f64());
        let least = requests as f64 * 3.0 / ttl;
        writeln!(f, "| requests a second (TTL {ttl} s) | | {second:.1} | {least:.1} |")?;
        writeln!(f, "| client's memory a lock | | {} bytes | 1024 bytes |", held.bytes)?;
        if let Some(bytes) = held.server_bytes {
            writeln!(f, "| server's memory a lock, and its watch | | {bytes} bytes | |")?;
        }
        writeln!(
            f,
            "| another client's acquire meanwhile, p99 (alone: {}) | {} | {} | 2 ms |\n",
            millis(alone),
            millis(beside_raw),
            millis(beside_lock),
        )
    }
}

fn hand_over(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    reach: &str,
    rows: &[HandOver],
) -> fmt::Result {
    writeln!(f, "### {title}\n")?;
    writeln!(
        f,
        "| waiters | limit, /s | leasehold, /s | of the limit | reach | p50 | p99 (limit's) | \
         fairness (limit's) | requests each |"
    )?;
    writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for row in rows {
        let (Ratio { limit, lock, .. }, (limit_fair, fair)) = (row.speed, row.fairness);
        writeln!(
            f,
            "| {} | {limit:.0} | {lock:.0} | {} | {reach} | {} | {} ({}) | {fair:.3} \
             ({limit_fair:.3}) | {:.2} |",
            row.waiters,
            row.speed,
            millis(row.gap.0),
            millis(row.gap.1),
            millis(row.limit_gap),
            row.requests,
        )?;
    }
    writeln!(f)
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Today's date in UTC.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}
