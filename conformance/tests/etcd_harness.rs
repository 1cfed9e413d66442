//! Proxy and truth reader together with a real etcd and a real client.

#![expect(clippy::unwrap_used, reason = "the tests are plain functions, run by `tests!`")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_api::{LockName, Owner, Token};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Error, Etcd, Kind, Missing, Server};
use leasehold_conformance::truth::{EtcdError, EtcdKeys, EtcdTruth};
use leasehold_conformance::{Failure, Verdict, ensure};

leasehold_conformance::tests! {
    pairs_are_read_by_an_exact_prefix_in_the_order_of_their_creation,
    claims_of_a_name_are_told_with_their_tokens_and_what_their_leases_have,
    leases_are_told_and_revoked,
    calls_of_clients_are_counted_without_the_readers_own,
    what_is_older_is_forgotten_when_told,
    space_runs_out_and_is_made,
    users_come_and_change_their_passwords,
    a_cluster_is_read_whoever_is_down,
    a_reader_says_when_nobody_is_there,
    a_request_whose_answer_is_dropped_has_taken_effect,
    a_held_request_takes_effect_when_delivered_though_its_caller_is_gone,
    pushed_events_are_told_from_answers,
    renewals_are_seen_one_by_one_and_a_cut_ends_them,
    a_black_hole_swallows_everything_and_a_refusal_is_seen_at_once,
    what_is_not_grpc_passes_as_it_is,
}

const SECOND: Duration = Duration::from_secs(1);

/// A client of its own, by gRPC.
#[derive(Clone)]
struct Ctl {
    endpoint: String,
}

impl Ctl {
    fn new(server: &Server) -> Result<Self, Failure> {
        Self::at(server.addr().to_string())
    }

    fn at(endpoint: String) -> Result<Self, Failure> {
        if Command::new("etcdctl").arg("version").output().is_err() {
            let missing = Missing { kind: Kind::Etcd, why: "no etcdctl in PATH".into() };
            return Err(Error::from(missing).into());
        }
        Ok(Self { endpoint })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint]).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

async fn setting(etcd: Etcd) -> Result<(Server, EtcdTruth), Failure> {
    // These tests fill, count and compact: a server that is somebody else's will not do.
    let server = etcd.controlled().start().await?;
    let truth = EtcdTruth::connect(server.url()).await?;
    Ok((server, truth))
}

async fn pairs_are_read_by_an_exact_prefix_in_the_order_of_their_creation() -> Verdict {
    let (_server, truth) = setting(Etcd::new()).await?;
    assert_eq!(truth.revision().await?, 1);
    for key in ["p/b", "p/a", "p0", "q", "p/é"] {
        truth.put(key, format!("of {key}"), 0).await?;
    }
    truth.put("p/b", [0, 255], 0).await?;
    let pairs = truth.pairs("p/").await?;
    let keys: Vec<_> = pairs.iter().map(|pair| pair.key_text()).collect();
    assert_eq!(keys, ["p/b", "p/a", "p/é"]);
    let first = &pairs[0];
    assert_eq!(first.value, [0, 255]);
    assert_eq!((first.create_revision, first.mod_revision, first.version), (2, 7, 2));
    assert_eq!((pairs[1].text().as_str(), pairs[1].lease), ("of p/a", 0));
    assert_eq!(truth.pairs("").await?.len(), 5);
    assert_eq!(truth.revision().await?, 7);

    assert!(truth.delete("q").await?);
    assert!(!truth.delete("q").await?);
    assert_eq!(truth.pair("q").await?, None);
    assert_eq!(truth.pair("p0").await?.unwrap().text(), "of p0");
    assert_eq!(truth.delete_all("p/").await?, 3);
    assert_eq!(truth.delete_all("").await?, 1);
    let within = SECOND / 10;
    assert!(truth.pairs_until("", within, |pairs| !pairs.is_empty()).await?.is_empty());
    Ok(())
}

async fn claims_of_a_name_are_told_with_their_tokens_and_what_their_leases_have() -> Verdict {
    let (_server, truth) = setting(Etcd::new()).await?;
    let keys = EtcdKeys::new("t");
    let name = LockName::new("a").unwrap();
    assert_eq!(truth.holder(&keys, &name).await?, None);
    let (first, second) = (Owner::random(), Owner::random());
    let lease = truth.grant(10 * SECOND).await?;
    truth.put(keys.claim(&name, first), "held 1000 7 0 host the label", lease).await?;
    truth.put(keys.claim(&LockName::new("a/b").unwrap(), second), "{}", 0).await?;
    truth.put(keys.claim(&name, second), "closed 7 7 0 host", 0).await?;
    let claims = truth.claims(&keys, &name).await?;
    let [holder, waiter] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(truth.holder(&keys, &name).await?.as_ref(), Some(holder));
    assert_eq!((holder.owner, waiter.owner), (Some(first), Some(second)));
    let token = Token::new(1000 + holder.pair.create_revision).unwrap();
    assert_eq!(holder.token(), Some(token));
    assert_eq!(holder.words.last().unwrap(), "the label");
    assert!(!holder.is_closed() && waiter.is_closed());
    let left = holder.remaining.unwrap();
    assert!(left >= 8 * SECOND && left <= 10 * SECOND, "{left:?}");
    assert_eq!(waiter.remaining, None);
    Ok(())
}

async fn leases_are_told_and_revoked() -> Verdict {
    let (_server, truth) = setting(Etcd::new()).await?;
    assert_eq!(truth.leases().await?, []);
    let lease = truth.grant(SECOND).await?;
    let long = truth.grant(60 * SECOND).await?;
    truth.put("k", "v", long).await?;
    assert_eq!(truth.pair("k").await?.unwrap().lease, long);
    let told = truth.lease(long).await?.unwrap();
    assert_eq!((told.id, told.granted, told.keys), (long, 60 * SECOND, vec!["k".to_owned()]));
    assert_eq!(truth.lease(lease).await?.unwrap().granted, 2 * SECOND, "the least there is");
    assert!(truth.revoke(long).await?);
    assert!(!truth.revoke(long).await?);
    assert_eq!(truth.pair("k").await?, None);
    let started = Instant::now();
    while !truth.leases().await?.is_empty() {
        ensure!(started.elapsed() < 10 * SECOND, "a lease of 2 s has no end");
    }
    assert_eq!(truth.remaining(lease).await?, None);
    Ok(())
}

async fn calls_of_clients_are_counted_without_the_readers_own() -> Verdict {
    let (server, truth) = setting(Etcd::new()).await?;
    let ctl = Ctl::new(&server)?;
    let before = truth.calls().await?;
    truth.put("own", "v", 0).await?;
    truth.pairs("").await?;
    assert_eq!(truth.calls().await?.since(&before).total(), 0);
    for _ in 0..3 {
        ctl.run(&["put", "k", "v"]);
    }
    let calls = truth.calls().await?.since(&before);
    assert_eq!((calls.requests("Put"), calls.opened("Put"), calls.answers("Put")), (3, 3, 3));
    assert_eq!(calls.requests("Range"), 0, "{calls:?}");
    assert_eq!(calls.by_method()["Put"], 3);

    // Two watches on one stream.
    let mut watch = ctl.command(&["watch", "-i"]);
    let mut watch = watch.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut words = watch.stdin.take().unwrap();
    std::io::Write::write_all(&mut words, b"watch a\nwatch b\n")?;
    let started = Instant::now();
    while truth.usage().await?.watches < 2 {
        ensure!(started.elapsed() < 10 * SECOND, "the watches are not told");
    }
    assert_eq!(truth.usage().await?.watch_streams, 1);
    let calls = truth.calls().await?.since(&before);
    assert_eq!((calls.opened("Watch"), calls.requests("Watch")), (1, 2), "{calls:?}");
    let usage = truth.usage().await?;
    assert!(usage.memory > 1 << 20 && usage.sent > 0 && usage.received > 0, "{usage:?}");
    watch.kill()?;
    watch.wait()?;

    server.restart().await?;
    truth.pairs("").await?;
    let fresh = truth.calls().await?;
    assert_eq!(fresh.requests("Put"), 0, "{fresh:?}");
    truth.put("own", "v", 0).await?;
    assert_eq!(truth.calls().await?.since(&fresh).total(), 0);

    // This process's own, and no other's.
    assert_eq!(truth.connections()?, 0);
    let _one = std::net::TcpStream::connect(server.addr())?;
    assert_eq!(truth.connections()?, 1);
    Ok(())
}

async fn what_is_older_is_forgotten_when_told() -> Verdict {
    let (server, truth) = setting(Etcd::new()).await?;
    let ctl = Ctl::new(&server)?;
    for n in 0..10 {
        truth.put("k", n.to_string(), 0).await?;
    }
    assert_eq!(ctl.run(&["get", "k", "--rev=5", "--print-value-only"]), "3\n");
    assert_eq!(truth.compact().await?, 11);
    assert_eq!(truth.compact().await?, 11);
    let gone = ctl.command(&["get", "k", "--rev=5"]).output()?;
    assert!(String::from_utf8_lossy(&gone.stderr).contains("compacted"));
    Ok(())
}

async fn space_runs_out_and_is_made() -> Verdict {
    let (_server, truth) = setting(Etcd::new().quota(1 << 20)).await?;
    let lease = truth.grant(60 * SECOND).await?;
    truth.put("k", "v", lease).await?;
    let count = truth.fill("fill/").await?;
    assert!(count > 0);
    assert_eq!(truth.alarms().await?[0]["alarm"], "NOSPACE");
    let refused = truth.put("k", "v", 0).await.unwrap_err();
    assert!(matches!(refused, EtcdError::Refused { code: 8, .. }), "{refused}");
    assert!(truth.revoke(lease).await?);
    truth.make_room("fill/").await?;
    assert!(truth.alarms().await?.is_empty());
    truth.put("k", "v", 0).await?;
    Ok(())
}

async fn users_come_and_change_their_passwords() -> Verdict {
    let (server, root) = setting(Etcd::new().root_password("first").token_ttl(SECOND)).await?;
    root.put("k", "v", 0).await?;
    root.add_user("u", "pw", "ours/").await?;
    let as_u = server.url().replace("root:first@", "u:pw@");
    // What every user may do not.
    let refused = EtcdTruth::connect(&as_u).await.unwrap_err();
    assert!(matches!(refused, EtcdError::Refused { code: 7, .. }), "{refused}");
    // An idle token ends, and the reader gets another.
    tokio::time::sleep(3 * SECOND).await;
    root.put("k", "v", 0).await?;
    root.change_password("root", "second").await?;
    root.put("k", "v", 0).await?;
    let refused = EtcdTruth::connect(server.url()).await.unwrap_err();
    assert!(matches!(refused, EtcdError::Refused { .. }), "{refused}");
    let words = format!("{root:?} {refused} {server:?}");
    assert!(!words.contains("first") && !words.contains("second"), "{words}");
    Ok(())
}

async fn a_cluster_is_read_whoever_is_down() -> Verdict {
    let cluster = Etcd::new().controlled().cluster(3).await?;
    let truth = EtcdTruth::connect(cluster.url()).await?;
    let ctl = Ctl::new(cluster.member(2))?;
    let before = truth.calls().await?;
    ctl.run(&["put", "k", "v"]);
    assert_eq!(truth.calls().await?.since(&before).requests("Put"), 1);
    for index in 0..3 {
        cluster.member(index).kill().await?;
        assert_eq!(truth.pair("k").await?.unwrap().text(), "v");
        truth.put("other", "v", 0).await?;
        cluster.member(index).start().await?;
        let leader = cluster.leader().await?;
        cluster.member(leader).pause().await?;
        truth.put("other", "v", 0).await?;
        cluster.member(leader).resume().await?;
    }
    Ok(())
}

async fn a_reader_says_when_nobody_is_there() -> Verdict {
    let (server, truth) = setting(Etcd::new()).await?;
    server.kill().await?;
    let started = Instant::now();
    let error = truth.pairs("").await.unwrap_err();
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
    assert!(started.elapsed() < SECOND);
    assert!(truth.calls().await.is_err());
    server.start().await?;
    truth.pairs("").await?;
    Ok(())
}

/// A server, its truth, and a client that reaches it through a proxy.
async fn by_proxy() -> Result<(Server, EtcdTruth, Proxy, Ctl), Failure> {
    let (server, truth) = setting(Etcd::new()).await?;
    let proxy = Proxy::start(server.addr(), Framing::Grpc).await?;
    let ctl = Ctl::at(proxy.addr().to_string())?;
    assert_eq!(ctl.run(&["put", "k0", "v"]), "OK\n");
    assert_eq!(ctl.run(&["get", "k0", "--print-value-only"]), "v\n");
    Ok((server, truth, proxy, ctl))
}

async fn a_request_whose_answer_is_dropped_has_taken_effect() -> Verdict {
    let (_server, truth, proxy, ctl) = by_proxy().await?;
    let before = proxy.counts();
    let rule = proxy.on(Direction::ToClient, Match::command("Put"), Action::Drop);
    let put = ctl.command(&["--command-timeout=500ms", "put", "k", "v"]).output()?;
    assert!(String::from_utf8_lossy(&put.stderr).contains("deadline"), "{put:?}");
    assert_eq!(rule.count(), 1);
    assert_eq!(truth.pair("k").await?.unwrap().text(), "v");
    let after = proxy.counts();
    assert_eq!(after.to_server.messages - before.to_server.messages, 1, "one request");
    assert_eq!(after.to_client.dropped - before.to_client.dropped, 1, "one answer");
    // By what it has in it.
    let rule = proxy.on(Direction::ToServer, Match::contains("other-key"), Action::Drop);
    ctl.run(&["put", "k", "v"]);
    let put = ctl.command(&["--command-timeout=500ms", "put", "other-key", "v"]).output()?;
    assert!(!put.status.success());
    assert_eq!(rule.count(), 1);
    assert_eq!(truth.pair("other-key").await?, None);
    Ok(())
}

async fn a_held_request_takes_effect_when_delivered_though_its_caller_is_gone() -> Verdict {
    let (_server, truth, proxy, ctl) = by_proxy().await?;
    for round in 0..20 {
        let key = format!("k-{round}");
        proxy.on(Direction::ToServer, Match::command("Put"), Action::Hold);
        let answer = proxy.on(Direction::ToClient, Match::command("Put"), Action::Pass);
        // By its deadline it resets the stream and leaves; killed, it only leaves.
        let mut put = ctl.command(&["--command-timeout=300ms", "put", &key, "v"]);
        let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        proxy.held(Direction::ToServer, 1).await;
        if round % 2 == 0 {
            put.kill()?;
        }
        let ended = tokio::task::spawn_blocking(move || put.wait()).await??;
        assert!(!ended.success());
        assert_eq!(truth.pair(&key).await?, None);
        assert_eq!(proxy.deliver(Direction::ToServer), 1);
        answer.fired().await;
        assert_eq!(truth.pair(&key).await?.unwrap().text(), "v");
    }
    proxy.until(|counts| counts.open == 0).await;
    Ok(())
}

async fn pushed_events_are_told_from_answers() -> Verdict {
    let (_server, truth, proxy, ctl) = by_proxy().await?;
    let created = proxy.on(Direction::ToClient, Match::command("Watch"), Action::Pass);
    let second = proxy.on(Direction::ToClient, Match::pushes().skip(1), Action::Drop);
    let third = proxy.on(Direction::ToClient, Match::pushes().skip(1), Action::Pass);
    let mut watch = ctl.command(&["watch", "w", "--write-out=fields"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn()?;
    created.fired().await;
    let heard = watch.stdout.take().unwrap();
    for n in 1..=3 {
        truth.put("w", n.to_string(), 0).await?;
    }
    second.fired().await;
    third.fired().await;
    let values = std::io::BufRead::lines(std::io::BufReader::new(heard)).map_while(Result::ok);
    let values = values.filter(|line| line.starts_with("\"Value\""));
    let values: Vec<_> = values.take(2).collect();
    assert_eq!(values, ["\"Value\" : \"1\"", "\"Value\" : \"3\""]);
    watch.kill()?;
    watch.wait()?;
    Ok(())
}

async fn renewals_are_seen_one_by_one_and_a_cut_ends_them() -> Verdict {
    let (_server, truth, proxy, ctl) = by_proxy().await?;
    let lease = truth.grant(3 * SECOND).await?;
    let asked = Match::command("LeaseKeepAlive").always();
    let asked = proxy.on(Direction::ToServer, asked, Action::Pass);
    let cut = Match::command("LeaseKeepAlive").skip(1);
    let cut = proxy.on(Direction::ToClient, cut, Action::Cut);
    let mut keep = ctl.command(&["lease", "keep-alive", &format!("{lease:x}")]);
    let mut keep = keep.stdout(Stdio::null()).spawn()?;
    cut.fired().await;
    let seen = proxy.counts().accepted;
    assert_eq!(asked.count(), 2);
    // The client comes back by itself.
    asked.fired_times(3).await;
    assert!(proxy.counts().accepted > seen);
    assert!(truth.lease(lease).await?.is_some());
    keep.kill()?;
    keep.wait()?;
    Ok(())
}

async fn a_black_hole_swallows_everything_and_a_refusal_is_seen_at_once() -> Verdict {
    let (_server, _truth, proxy, ctl) = by_proxy().await?;
    proxy.blackhole();
    let words = ["--command-timeout=500ms", "--dial-timeout=500ms", "put", "k", "v"];
    assert!(!ctl.command(&words).output()?.status.success());
    proxy.heal();
    proxy.reset();
    ctl.run(&["put", "k", "v"]);
    proxy.refuse().await;
    assert!(!ctl.command(&words).output()?.status.success());
    proxy.accept().await?;
    ctl.run(&["put", "k", "v"]);
    Ok(())
}

async fn what_is_not_grpc_passes_as_it_is() -> Verdict {
    let (server, _truth, proxy, _ctl) = by_proxy().await?;
    let truth = EtcdTruth::connect(&proxy.url(server.url())).await?;
    assert_eq!(truth.pair("k0").await?.unwrap().text(), "v");
    assert!(truth.calls().await?.requests("Put") > 0);
    Ok(())
}
