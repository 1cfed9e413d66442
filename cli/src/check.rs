//! `leasehold check`: what the configured backend gives.

use std::time::{Duration, Instant};

use leasehold::{LockName, Profile};
use leasehold_api::{Order, Waking};
use serde::Serialize;

use crate::args::Check;
use crate::exit::Failure;
use crate::output::{print, print_json};
use crate::target::Settings;

/// How often the server is asked to measure round trips.
const ROUNDS: usize = 20;

/// What a backend gives, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    backend: &'a str,
    guarantee: String,
    because: &'a str,
    scope: String,
    ttl_floor_ms: u128,
    ttl_granularity_ms: u128,
    tokens_on_data_loss: &'a str,
    waking: &'static str,
    order: &'static str,
    expiry_clock: &'a str,
    warnings: &'a [String],
    round_trip_us: RoundTrip,
}

#[derive(Debug, Serialize)]
struct RoundTrip {
    min: u128,
    median: u128,
    max: u128,
}

/// Connects, and prints what the backend says of itself.
pub(crate) async fn check(asked: &Check) -> Result<u8, Failure> {
    let settings = Settings::find(&asked.target, asked.guarantee)?;
    let locks = settings.connect().await.map_err(|error| settings.unconnected(error))?;
    let name = LockName::new("leasehold check")?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        locks.backend().inspect(&name).await?;
        times.push(start.elapsed());
    }
    let report = Report::new(locks.profile(), times);
    if asked.output.json {
        print_json(&report)?;
    } else {
        report.print()?;
    }
    Ok(0)
}

impl<'a> Report<'a> {
    fn new(profile: &'a Profile, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            backend: profile.backend,
            guarantee: profile.guarantee.to_string(),
            because: &profile.because,
            scope: profile.scope.to_string(),
            ttl_floor_ms: profile.ttl_floor.as_millis(),
            ttl_granularity_ms: profile.ttl_granularity.as_millis(),
            tokens_on_data_loss: profile.tokens_on_data_loss,
            waking: waking(profile.waking),
            order: order(profile.order),
            expiry_clock: profile.expiry_clock,
            warnings: &profile.warnings,
            round_trip_us: RoundTrip {
                min: times[0].as_micros(),
                median: times[times.len() / 2].as_micros(),
                max: times[times.len() - 1].as_micros(),
            },
        }
    }

    /// The guarantee, and why it is not a higher one.
    fn guarantee(&self) -> String {
        match self.because {
            "" => self.guarantee.clone(),
            because => format!("{}: {because}", self.guarantee),
        }
    }

    fn print(&self) -> Result<(), Failure> {
        let RoundTrip { min, median, max } = self.round_trip_us;
        for (what, value) in [
            ("backend", self.backend.to_owned()),
            ("guarantee", self.guarantee()),
            ("scope", self.scope.clone()),
            ("shortest TTL", format!("{} ms", self.ttl_floor_ms)),
            ("expiry by", self.expiry_clock.to_owned()),
            ("waiters", format!("{}; {}", self.waking, self.order)),
            ("lost data", self.tokens_on_data_loss.to_owned()),
            ("round trip", format!("{min} to {max} us, median {median} us")),
        ] {
            print(format!("{what:13} {value}"))?;
        }
        for warning in self.warnings {
            print(format!("{:13} {warning}", "warning"))?;
        }
        Ok(())
    }
}

fn waking(waking: Waking) -> &'static str {
    match waking {
        Waking::Time => "woken by time only",
        Waking::Message => "woken by a message, and by time",
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::None => "in no order",
        Order::Woken => "first come, first woken",
        Order::Fifo => "first come, first served",
    }
}
