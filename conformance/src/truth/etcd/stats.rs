//! What etcd counts: calls, watches, bytes, memory.

use std::collections::BTreeMap;

use super::{ANSWER, EtcdError, EtcdTruth};

/// What was called, as the servers counted, by gRPC's names for the methods (`Txn`, `LeaseGrant`,
/// `LeaseKeepAlive`, `Watch`, ..).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdCalls(BTreeMap<(usize, String), Call>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Call {
    started: u64,
    received: u64,
    sent: u64,
}

impl EtcdCalls {
    /// What was called since an earlier look at the same servers. One that restarted meanwhile
    /// counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = self.0.iter().filter_map(|(key, now)| {
            let before = earlier.0.get(key).copied().unwrap_or_default();
            let call = Call {
                started: now.started.saturating_sub(before.started),
                received: now.received.saturating_sub(before.received),
                sent: now.sent.saturating_sub(before.sent),
            };
            (call != Call::default()).then(|| (key.clone(), call))
        });
        Self(more.collect())
    }

    /// The requests to one method: calls, and where it is a stream, messages that clients sent on
    /// it.
    pub fn requests(&self, method: &str) -> u64 {
        self.sum(method, |call| call.received)
    }

    /// How often it was called: of a stream, how many were opened.
    pub fn opened(&self, method: &str) -> u64 {
        self.sum(method, |call| call.started)
    }

    /// The answers of one method: where it is a stream, messages that were sent to clients.
    pub fn answers(&self, method: &str) -> u64 {
        self.sum(method, |call| call.sent)
    }

    /// The requests to all.
    pub fn total(&self) -> u64 {
        self.0.values().map(|call| call.received).sum()
    }

    /// Each method that got requests, by name, with their number.
    pub fn by_method(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for ((_, method), call) in &self.0 {
            *all.entry(method.as_str()).or_default() += call.received;
        }
        all.retain(|_, requests| *requests > 0);
        all
    }

    fn sum(&self, method: &str, of: impl Fn(&Call) -> u64) -> u64 {
        self.0.iter().filter(|((_, name), _)| name == method).map(|(_, call)| of(call)).sum()
    }
}

/// What the servers use now, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EtcdUse {
    /// Watches that are open.
    pub watches: u64,
    /// Streams with watches on them.
    pub watch_streams: u64,
    /// Bytes of messages that clients sent since the start, this reader's among them.
    pub received: u64,
    /// Bytes of messages that were sent to clients, likewise.
    pub sent: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Seconds of processor since the start.
    pub processor: f64,
}

impl EtcdTruth {
    /// What was called since each server started, without this reader's calls. A server that is down
    /// is left out.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says, if none tells.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn calls(&self) -> Result<EtcdCalls, EtcdError> {
        let mut started = self.started.lock().await;
        let mut all = EtcdCalls::default();
        for (index, page) in self.pages().await? {
            let start = value(&page, "process_start_time_seconds");
            if started[index] != start {
                if started[index] != 0.0 {
                    // Another start of the server: it counts from zero.
                    self.members[index].calls().clear();
                }
                started[index] = start;
            }
            for (name, of) in [
                (
                    "grpc_server_started_total",
                    (|call| &mut call.started) as fn(&mut Call) -> &mut u64,
                ),
                ("grpc_server_msg_received_total", |call| &mut call.received),
                ("grpc_server_msg_sent_total", |call| &mut call.sent),
            ] {
                for (labels, count) in samples(&page, name) {
                    if let Some(method) = label(labels, "grpc_method") {
                        let call = all.0.entry((index, method.to_owned())).or_default();
                        *of(call) += count as u64;
                    }
                }
            }
            for (method, own) in self.members[index].calls().iter() {
                if let Some(call) = all.0.get_mut(&(index, (*method).to_owned())) {
                    call.started = call.started.saturating_sub(*own);
                    call.received = call.received.saturating_sub(*own);
                    call.sent = call.sent.saturating_sub(*own);
                }
            }
        }
        all.0.retain(|_, call| *call != Call::default());
        Ok(all)
    }

    /// What the servers use. One that is down is left out.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says, if none tells.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn usage(&self) -> Result<EtcdUse, EtcdError> {
        let mut all = EtcdUse::default();
        for (_, page) in self.pages().await? {
            let count = |name| value(&page, name) as u64;
            all.watches += count("etcd_debugging_mvcc_watcher_total");
            all.watch_streams += count("etcd_debugging_mvcc_watch_stream_total");
            all.received += count("etcd_network_client_grpc_received_bytes_total");
            all.sent += count("etcd_network_client_grpc_sent_bytes_total");
            all.memory += count("process_resident_memory_bytes");
            all.processor += value(&page, "process_cpu_seconds_total");
        }
        Ok(all)
    }

    /// The sum of one of the servers' own counters over its labels and all servers that are up.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says, if none tells.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn metric(&self, name: &str) -> Result<f64, EtcdError> {
        Ok(self.pages().await?.iter().map(|(_, page)| value(page, name)).sum())
    }

    async fn pages(&self) -> Result<Vec<(usize, String)>, EtcdError> {
        let mut pages = Vec::new();
        let mut failed = None;
        for (index, member) in self.members.iter().enumerate() {
            match member.page("/metrics", ANSWER).await {
                Ok(page) => pages.push((index, page)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if pages.is_empty() => Err(error),
            _ => Ok(pages),
        }
    }
}

/// The samples of one metric: labels and value
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
fn samples<'a>(page: &'a str, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        // Else it is a longer name.
        let ours = labels.is_empty() || labels.starts_with('{');
        ours.then(|| Some((labels, value.parse().ok()?)))?
    })
}

fn value(page: &str, name: &str) -> f64 {
    samples(page, name).map(|(_, value)| value).sum()
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::{label, samples, value};

    #[test]
    fn samples_are_read_with_their_labels_and_longer_names_are_others() {
        let page = "# HELP n words\n# TYPE n counter\n\
                    n{a=\"x\",grpc_method=\"Txn\"} 3\nn{grpc_method=\"Put\"} 1.5e+06\n\
                    n_more 9\nm 0.25\n";
        let found: Vec<_> = samples(page, "n").collect();
        assert_eq!(found.len(), 2);
        assert_eq!(label(found[0].0, "grpc_method"), Some("Txn"));
        assert_eq!((value(page, "n"), value(page, "m")), (1_500_003.0, 0.25));
        assert_eq!(value(page, "none"), 0.0);
    }
}
