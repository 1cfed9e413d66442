//! The harness itself: each verb on a real etcd, alone and in a cluster, as processes and in
//! containers.

#![expect(clippy::unwrap_used, reason = "the tests are plain functions, run by `tests!`")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use leasehold_conformance::proxy::Action;
use leasehold_conformance::servers::{Error, Etcd, EtcdCluster, Server, Snapshot, Way};
use leasehold_conformance::{Failure, Verdict, ensure};
use serde_json::{Value, json};

leasehold_conformance::tests! {
    a_process_goes_down_and_comes_back_with_and_without_data,
    a_container_goes_down_and_comes_back_with_and_without_data,
    a_paused_process_answers_nothing_and_later_everything,
    a_paused_container_answers_nothing_and_later_everything,
    a_process_takes_a_quota_a_password_and_serves_tls,
    a_container_takes_a_quota_a_password_and_serves_tls,
    a_server_that_refuses_an_option_says_which,
    tokens_end_as_the_test_has_asked,
    a_snapshot_is_restored_by_a_process,
    a_snapshot_is_restored_by_a_container,
    a_cluster_of_processes_loses_a_member_its_leader_and_its_majority,
    a_cluster_of_containers_loses_a_member_its_leader_and_its_majority,
    a_member_is_isolated_from_its_peers_and_rejoins,
    a_container_is_isolated_from_its_peers_and_rejoins,
    a_snapshot_is_restored_by_a_cluster,
    a_cluster_goes_down_and_comes_back_with_and_without_data,
    the_shared_server_and_the_shared_cluster_are_one_each,
}

const SECOND: Duration = Duration::from_secs(1);

fn of_way(way: Way, error: Error) -> Failure {
    let allowed = std::env::var("LEASEHOLD_SERVERS").unwrap_or_default();
    match error {
        Error::Missing(missing) if !allowed.is_empty() && allowed != way.to_string() => {
            Failure::not_applicable(format!("{missing} (LEASEHOLD_SERVERS={allowed})"))
        }
        error => error.into(),
    }
}

async fn by(way: Way, etcd: Etcd) -> Result<Server, Failure> {
    etcd.start_by(way).await.map_err(|error| of_way(way, error))
}

async fn three_by(way: Way, etcd: Etcd) -> Result<EtcdCluster, Failure> {
    etcd.cluster_by(3, way).await.map_err(|error| of_way(way, error))
}

/// One call of the JSON gateway, on a connection of its own.
fn ask(address: SocketAddr, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let body = body.to_string();
    let head = format!("POST /v3/{path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(serde_json::from_str(body)?)
}

// base64 of "key".
const KEY: &str = "a2V5";

fn put(address: SocketAddr) -> std::io::Result<Value> {
    ask(address, "kv/put", &json!({"key": KEY, "value": KEY}))
}

/// Whether a read fails because of an election.
fn is_unavailable(address: SocketAddr) -> bool {
    const UNAVAILABLE: u64 = 14;
    ask(address, "kv/range", &json!({"key": KEY})).unwrap()["code"] == UNAVAILABLE
}

/// How often the key was written since it is there.
fn version(address: SocketAddr) -> u64 {
    let answer = ask(address, "kv/range", &json!({"key": KEY})).unwrap();
    assert!(answer["header"].is_object(), "{answer}");
    answer["kvs"][0]["version"].as_str().map_or(0, |version| version.parse().unwrap())
}

async fn goes_down_and_comes_back(way: Way) -> Verdict {
    let etcd = by(way, Etcd::new().controlled()).await?;
    let address = etcd.addr();
    assert_eq!(etcd.way(), way);
    assert_eq!(etcd.url(), format!("etcd://127.0.0.1:{}", etcd.port()));
    assert_eq!(etcd.peer_addr().await.unwrap(), address);
    put(address).unwrap();

    etcd.stop().await.unwrap();
    assert!(!etcd.is_running().await);
    assert!(put(address).is_err());
    etcd.start().await.unwrap();
    assert_eq!(version(address), 1, "SIGTERM keeps data");
    put(address).unwrap();
    etcd.kill().await.unwrap();
    assert!(put(address).is_err());
    etcd.start().await.unwrap();
    assert_eq!(version(address), 2, "SIGKILL keeps data");
    etcd.restart().await.unwrap();
    assert_eq!(version(address), 2, "a restart keeps data");
    etcd.restart_empty().await.unwrap();
    assert_eq!(version(address), 0, "it knows nothing");
    assert_eq!(etcd.addr(), address);
    Ok(())
}

async fn a_process_goes_down_and_comes_back_with_and_without_data() -> Verdict {
    goes_down_and_comes_back(Way::Process).await
}

async fn a_container_goes_down_and_comes_back_with_and_without_data() -> Verdict {
    goes_down_and_comes_back(Way::Container).await
}

async fn answers_nothing_while_paused(way: Way) -> Verdict {
    let etcd = by(way, Etcd::new().controlled()).await?;
    let address = etcd.addr();
    etcd.pause().await.unwrap();
    let asking = std::thread::spawn(move || put(address));
    tokio::time::sleep(SECOND / 5).await;
    assert!(!asking.is_finished());
    etcd.resume().await.unwrap();
    asking.join().unwrap().unwrap();
    assert_eq!(version(address), 1);
    Ok(())
}

async fn a_paused_process_answers_nothing_and_later_everything() -> Verdict {
    answers_nothing_while_paused(Way::Process).await
}

async fn a_paused_container_answers_nothing_and_later_everything() -> Verdict {
    answers_nothing_while_paused(Way::Container).await
}

async fn takes_settings(way: Way) -> Verdict {
    let etcd = Etcd::new().quota(300_000).root_password("se:cret/@").tls().controlled();
    let etcd = by(way, etcd).await?;
    let address = etcd.addr();
    assert_eq!(etcd.url(), format!("etcd://root:se%3Acret%2F%40@127.0.0.1:{}", etcd.port()));
    assert!(!format!("{etcd:?}").contains("cret"));
    let refused = put(address).unwrap();
    assert_eq!(refused["code"], 3, "{refused}");

    let tls = etcd.tls().unwrap();
    assert!(tls.url.starts_with("etcds://root:") && tls.url.contains("@localhost:"));
    let ctl = |words: &[&str]| {
        let mut ctl = std::process::Command::new("etcdctl");
        ctl.env("ETCDCTL_API", "3").env("ETCDCTL_USER", "root:se:cret/@");
        ctl.arg(format!("--endpoints=https://127.0.0.1:{}", tls.port));
        ctl.arg("--cacert").arg(&tls.ca_file).args(words).output().unwrap()
    };
    let large = "x".repeat(50_000);
    let failed = (0..40).map(|n| ctl(&["put", &format!("k{n}"), &large]));
    let failed = failed.map(|out| String::from_utf8(out.stderr).unwrap()).find(|e| !e.is_empty());
    let failed = failed.unwrap();
    assert!(failed.contains("space exceeded"), "{failed}");

    // Authentication is there already, and with the alarm it serves what it can.
    let read = || ask(address, "kv/range", &json!({"key": KEY})).unwrap();
    etcd.restart().await.unwrap();
    assert_eq!(read()["code"], 3);
    etcd.restart_empty().await.unwrap();
    assert_eq!(read()["code"], 3);
    assert!(ctl(&["put", "k", "v"]).status.success());
    Ok(())
}

async fn a_process_takes_a_quota_a_password_and_serves_tls() -> Verdict {
    takes_settings(Way::Process).await
}

async fn a_container_takes_a_quota_a_password_and_serves_tls() -> Verdict {
    takes_settings(Way::Container).await
}

async fn a_server_that_refuses_an_option_says_which() -> Verdict {
    match Etcd::new().arg("--heartbeat-interval", "soon").start().await {
        Err(Error::Failed { why, .. }) => {
            ensure!(why.contains("heartbeat-interval"), "it does not say which: {why}");
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(Failure::failed("it started")),
    }
}

/// The user's token, and whether the server still takes it.
struct Session {
    address: SocketAddr,
    token: String,
}

impl Session {
    fn new(address: SocketAddr) -> Self {
        let ask = ask(address, "auth/authenticate", &json!({"name": "root", "password": "pw"}));
        let token = ask.unwrap()["token"].as_str().unwrap().to_owned();
        Self { address, token }
    }

    fn is_taken(&self) -> bool {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let body = json!({"key": KEY}).to_string();
        let (token, length) = (&self.token, body.len());
        let head = format!("Authorization: {token}\r\nContent-Length: {length}\r\n\r\n");
        let request = format!("POST /v3/kv/range HTTP/1.0\r\n{head}{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.0 200")
    }
}

async fn tokens_end_as_the_test_has_asked() -> Verdict {
    let simple = Etcd::new().root_password("pw").token_ttl(SECOND).start().await?;
    let signed = Etcd::new().root_password("pw").signed_tokens(2 * SECOND).start().await?;
    let (simple, signed) = (Session::new(simple.addr()), Session::new(signed.addr()));
    assert!(simple.is_taken() && signed.is_taken());
    let started = Instant::now();
    while signed.is_taken() {
        ensure!(started.elapsed() < 10 * SECOND, "a signed token that is used has no end");
        tokio::time::sleep(SECOND / 10).await;
    }
    let started = Instant::now();
    loop {
        // Looking at it makes it last.
        tokio::time::sleep(SECOND * 3).await;
        if !simple.is_taken() {
            return Ok(());
        }
        ensure!(started.elapsed() < 20 * SECOND, "a token that is not used has no end");
    }
}

async fn a_snapshot_is_restored(way: Way) -> Verdict {
    let etcd = by(way, Etcd::new().root_password("pw").controlled()).await?;
    let revision = |etcd: &Server| {
        let ctl = std::process::Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--user=root:pw", "--write-out=json", "put", "k", "v"])
            .arg(format!("--endpoints={}", etcd.addr()))
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&ctl.stdout).unwrap();
        let header = &answer["header"];
        (header["cluster_id"].as_u64().unwrap(), header["revision"].as_u64().unwrap())
    };
    let (cluster, first) = revision(&etcd);
    let snapshot = Snapshot::take(&etcd).await?;
    assert_eq!(revision(&etcd), (cluster, first + 1));
    for _ in 0..2 {
        snapshot.restore(&etcd).await?;
        assert_eq!(revision(&etcd), (cluster, first + 1), "it goes back, and is the same cluster");
        assert_eq!(revision(&etcd), (cluster, first + 2));
    }
    etcd.restart().await?;
    assert_eq!(revision(&etcd), (cluster, first + 3));
    Ok(())
}

async fn a_snapshot_is_restored_by_a_process() -> Verdict {
    a_snapshot_is_restored(Way::Process).await
}

async fn a_snapshot_is_restored_by_a_container() -> Verdict {
    a_snapshot_is_restored(Way::Container).await
}

async fn loses_members(way: Way) -> Verdict {
    let cluster = three_by(way, Etcd::new().controlled()).await?;
    let at = |index: usize| cluster.member(index).addr();
    let hosts: Vec<_> = (0..3).map(|index| at(index).to_string()).collect();
    assert_eq!(cluster.url(), format!("etcd://{}", hosts.join(",")));
    put(at(0)).unwrap();
    for index in 0..3 {
        assert_eq!(version(at(index)), 1);
    }
    let leader = cluster.leader().await?;
    assert_ne!(cluster.follower().await?, leader);
    cluster.member(leader).kill().await?;
    let next = cluster.leader().await?;
    assert_ne!(next, leader);
    put(at(next)).unwrap();
    cluster.member(leader).start().await?;
    assert_eq!(version(at(leader)), 2);

    cluster.lead(leader).await?;
    assert_eq!(cluster.leader().await?, leader);
    put(at(leader)).unwrap();

    let paused = cluster.leader().await?;
    cluster.member(paused).pause().await?;
    let next = cluster.leader().await?;
    assert_ne!(next, paused);
    put(at(next)).unwrap();
    let third = (0..3).find(|index| *index != paused && *index != next).unwrap();
    cluster.member(third).pause().await?;
    let address = at(next);
    let asking = std::thread::spawn(move || put(address));
    tokio::time::sleep(SECOND).await;
    assert!(!asking.is_finished(), "no majority, no write");
    cluster.member(paused).resume().await?;
    cluster.member(third).resume().await?;
    asking.join().unwrap().unwrap();
    cluster.leader().await?;
    Ok(())
}

async fn a_cluster_of_processes_loses_a_member_its_leader_and_its_majority() -> Verdict {
    loses_members(Way::Process).await
}

async fn a_cluster_of_containers_loses_a_member_its_leader_and_its_majority() -> Verdict {
    loses_members(Way::Container).await
}

/// A lease's id.
fn grant(address: SocketAddr, seconds: u64) -> Value {
    ask(address, "lease/grant", &json!({"TTL": seconds})).unwrap()["ID"].clone()
}

/// Whether a renewal by this member is answered at once, and the lease is there.
fn renews(address: SocketAddr, lease: &Value) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SECOND)).unwrap();
    let body = json!({"ID": lease}).to_string();
    let head =
        format!("POST /v3/lease/keepalive HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).is_ok() && answer.contains("TTL")
}

async fn is_isolated(way: Way) -> Verdict {
    let cluster = three_by(way, Etcd::new().separable().controlled()).await?;
    let at = |index: usize| cluster.member(index).addr();
    put(at(0)).unwrap();
    let leader = cluster.leader().await?;
    let follower = cluster.follower().await?;
    let lease = grant(at(leader), 60);
    assert!(renews(at(follower), &lease));
    cluster.isolate(follower)?;
    assert_eq!(cluster.leader().await?, leader);
    put(at(leader)).unwrap();
    assert!(renews(at(leader), &lease));
    assert!(!renews(at(follower), &lease), "renewals pass the links too");
    cluster.rejoin(follower)?;
    let started = Instant::now();
    while !renews(at(follower), &lease) {
        ensure!(started.elapsed() < 10 * SECOND, "it does not rejoin");
    }
    // Who comes back has a newer term: there is an election, which reads do not outlast.
    while is_unavailable(at(follower)) {
        ensure!(started.elapsed() < 10 * SECOND, "the election does not end");
    }
    assert_eq!(version(at(follower)), 2);

    let leader = cluster.leader().await?;
    cluster.isolate(leader)?;
    let started = Instant::now();
    let next = loop {
        let next = cluster.leader().await?;
        if next != leader {
            break next;
        }
        ensure!(started.elapsed() < 10 * SECOND, "an isolated leader leads on");
    };
    put(at(next)).unwrap();
    cluster.rejoin(leader)?;
    put(at(leader)).unwrap();

    // One way only, and slowly: what the member passes on to the leader, and the answer to it.
    let (follower, leader) = (cluster.follower().await?, cluster.leader().await?);
    let slow = Action::Delay(SECOND / 4);
    for (from, to) in [(follower, leader), (leader, follower)] {
        cluster.link(from, to, slow)?;
        let started = Instant::now();
        put(at(follower)).unwrap();
        let took = started.elapsed();
        ensure!(took >= SECOND / 4, "{from} to {to} took {took:?}");
        cluster.link(from, to, Action::Pass)?;
    }
    assert!(cluster.link(leader, leader, slow).is_err());
    Ok(())
}

async fn a_member_is_isolated_from_its_peers_and_rejoins() -> Verdict {
    is_isolated(Way::Process).await
}

async fn a_container_is_isolated_from_its_peers_and_rejoins() -> Verdict {
    is_isolated(Way::Container).await
}

async fn a_snapshot_is_restored_by_a_cluster() -> Verdict {
    let cluster = Etcd::new().separable().controlled().cluster(3).await?;
    let at = |index: usize| cluster.member(index).addr();
    put(at(0)).unwrap();
    let snapshot = Snapshot::take(cluster.member(1)).await?;
    put(at(1)).unwrap();
    snapshot.restore_cluster(&cluster).await?;
    for index in 0..3 {
        assert_eq!(version(at(index)), 1);
    }
    put(at(2)).unwrap();
    assert_eq!(version(at(0)), 2);
    Ok(())
}

async fn a_cluster_goes_down_and_comes_back_with_and_without_data() -> Verdict {
    let cluster = Etcd::new().root_password("pw").controlled().cluster(3).await?;
    assert!(cluster.url().starts_with("etcd://root:pw@127.0.0.1:"), "{}", cluster.url());
    let refused = || (0..3).all(|index| put(cluster.member(index).addr()).unwrap()["code"] == 3);
    assert!(refused());
    cluster.restart().await?;
    assert!(refused());
    cluster.kill().await?;
    cluster.start().await?;
    assert!(refused());
    cluster.restart_empty().await?;
    cluster.leader().await?;
    assert!(refused());
    assert!(cluster.isolate(0).is_err(), "it was not made separable");
    let elsewhere = cluster.url_at(&[([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()]);
    assert_eq!(elsewhere, "etcd://root:pw@127.0.0.1:1,127.0.0.1:2");
    assert!(!format!("{cluster:?}").contains("pw"));
    Ok(())
}

async fn the_shared_server_and_the_shared_cluster_are_one_each() -> Verdict {
    assert_eq!(Etcd::shared().await?.addr(), Etcd::shared().await?.addr());
    let url = Etcd::shared_cluster().await?.url();
    assert_eq!(url, Etcd::shared_cluster().await?.url());
    Ok(())
}
