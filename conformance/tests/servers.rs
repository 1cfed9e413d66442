//! The harness itself: each verb on a real Redis, as a process and in a container.

#![allow(clippy::unwrap_used, reason = "its helpers are part of the tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_conformance::servers::{Error, Redis, Server, Way, or_skip};

/// The server, unless this machine has not got this way.
async fn by(way: Way, redis: Redis) -> Option<Server> {
    match redis.start_by(way).await {
        Err(Error::Missing(missing)) => {
            eprintln!("ignored: {missing}");
            None
        }
        started => Some(started.unwrap()),
    }
}

/// One command, one line of answer, on a connection of its own.
fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn get(address: SocketAddr) -> String {
    ask(address, "STRLEN key").unwrap()
}

async fn goes_down_and_comes_back(way: Way) {
    let Some(redis) = by(way, Redis::new().controlled()).await else { return };
    let address = redis.addr();
    assert_eq!(redis.way(), way);
    assert!(address.ip().is_loopback());
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    assert_eq!(ask(address, "SET key value").unwrap(), "+OK");

    redis.stop().await.unwrap();
    assert!(!redis.is_running().await);
    assert!(ask(address, "PING").is_err());
    redis.stop().await.unwrap();
    redis.start().await.unwrap();
    assert_eq!(get(address), ":5", "SIGTERM keeps data");

    redis.restart().await.unwrap();
    assert_eq!(get(address), ":5", "a restart keeps data");

    redis.kill().await.unwrap();
    assert!(!redis.is_running().await);
    assert!(ask(address, "PING").is_err());
    redis.start().await.unwrap();
    assert_eq!(ask(address, "SET key longer-value").unwrap(), "+OK");
    redis.kill().await.unwrap();
    redis.start().await.unwrap();
    assert_eq!(get(address), ":5", "SIGKILL loses what was not on disk");

    redis.restart_empty().await.unwrap();
    assert_eq!(get(address), ":0", "it knows nothing");
    assert_eq!(redis.addr(), address);
    assert!(redis.log().await.contains("Ready to accept connections"));
}

#[tokio::test]
async fn a_process_goes_down_and_comes_back_with_and_without_data() {
    goes_down_and_comes_back(Way::Process).await;
}

#[tokio::test]
async fn a_container_goes_down_and_comes_back_with_and_without_data() {
    goes_down_and_comes_back(Way::Container).await;
}

async fn keeps_data_over_a_kill(way: Way) {
    let redis = Redis::new().append_only().controlled();
    let Some(redis) = by(way, redis).await else { return };
    assert_eq!(ask(redis.addr(), "SET key value").unwrap(), "+OK");
    redis.kill().await.unwrap();
    redis.start().await.unwrap();
    assert_eq!(get(redis.addr()), ":5");
}

#[tokio::test]
async fn a_process_with_an_append_only_file_keeps_data_over_a_kill() {
    keeps_data_over_a_kill(Way::Process).await;
}

#[tokio::test]
async fn a_container_with_an_append_only_file_keeps_data_over_a_kill() {
    keeps_data_over_a_kill(Way::Container).await;
}

async fn answers_nothing_while_paused(way: Way) {
    let Some(redis) = by(way, Redis::new().controlled()).await else { return };
    let mut stream = TcpStream::connect(redis.addr()).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();

    redis.pause().await.unwrap();
    redis.pause().await.unwrap();
    assert!(redis.is_running().await);
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    assert!(stream.read(&mut answer).is_err(), "nothing comes");
    assert!(TcpStream::connect(redis.addr()).is_ok(), "the kernel still accepts");

    redis.resume().await.unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n", "the answer comes late, on the same connection");

    redis.pause().await.unwrap();
    redis.kill().await.unwrap();
    redis.start().await.unwrap();
    redis.pause().await.unwrap();
    redis.stop().await.unwrap();

    redis.start().await.unwrap();
    redis.pause().await.unwrap();
    let address = redis.addr();
    drop(redis);
    assert!(TcpStream::connect(address).is_err(), "a paused one goes too");
}

#[tokio::test]
async fn a_paused_process_answers_nothing_and_later_everything() {
    answers_nothing_while_paused(Way::Process).await;
}

#[tokio::test]
async fn a_paused_container_answers_nothing_and_later_everything() {
    answers_nothing_while_paused(Way::Container).await;
}

async fn takes_settings(way: Way) {
    let redis = Redis::new().password("s3cret/?").arg("--maxmemory", "10mb").tls();
    let Some(redis) = by(way, redis).await else { return };
    assert!(redis.url().starts_with("redis://:s3cret%2F%3F@127.0.0.1:"), "{}", redis.url());
    assert!(!format!("{redis:?}").contains("s3cret"));
    assert!(ask(redis.addr(), "GET key").unwrap().starts_with("-NOAUTH"));
    assert_eq!(ask(redis.addr(), "AUTH s3cret/?").unwrap(), "+OK");

    let tls = redis.tls().unwrap();
    assert!(tls.url.starts_with("rediss://:s3cret%2F%3F@localhost:"), "{}", tls.url);
    assert_eq!(std::fs::read_to_string(&tls.ca_file).unwrap(), tls.ca_pem);
    let trusting = handshake(tls.port, &["-CAfile", tls.ca_file.to_str().unwrap()]);
    assert!(trusting.contains("Verify return code: 0 (ok)"), "{trusting}");
    let ignorant = handshake(tls.port, &[]);
    assert!(!ignorant.contains("Verify return code: 0 (ok)"), "{ignorant}");
}

fn handshake(port: u16, more: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(["-verify_hostname", "localhost", "-brief", "-no-CApath", "-no-CAstore"])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    // `-brief` words it so.
    String::from_utf8(text).unwrap().replace("Verification: OK", "Verify return code: 0 (ok)")
}

#[tokio::test]
async fn a_process_takes_settings_and_serves_tls() {
    takes_settings(Way::Process).await;
}

#[tokio::test]
async fn a_container_takes_settings_and_serves_tls() {
    takes_settings(Way::Container).await;
}

async fn says_what_it_refuses(way: Way) {
    match Redis::new().arg("--maxmemory", "much").start_by(way).await {
        Err(Error::Missing(missing)) => eprintln!("ignored: {missing}"),
        Err(error) => assert!(error.to_string().contains("maxmemory"), "{error}"),
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test]
async fn a_process_that_refuses_a_setting_says_which() {
    says_what_it_refuses(Way::Process).await;
}

#[tokio::test]
async fn a_container_that_refuses_a_setting_says_which() {
    says_what_it_refuses(Way::Container).await;
}

async fn is_gone_when_dropped(way: Way) {
    let Some(redis) = by(way, Redis::new()).await else { return };
    let address = redis.addr();
    let panicked = std::thread::spawn(move || {
        let _redis = redis;
        panic!("as a failing test does");
    });
    assert!(panicked.join().is_err());
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_process_is_gone_when_a_test_panics() {
    is_gone_when_dropped(Way::Process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_gone_when_a_test_panics() {
    is_gone_when_dropped(Way::Container).await;
}

const CHILD: &str = "LEASEHOLD_TEST_CHILD";

/// Run by the two tests below in a process of its own, which is then killed; else it does nothing.
#[tokio::test]
async fn child_that_is_killed() {
    let way = match std::env::var(CHILD).unwrap_or_default().as_str() {
        "container" => Way::Container,
        "process" => Way::Process,
        _ => return,
    };
    if let Some(redis) = by(way, Redis::new()).await {
        println!("serves {}", redis.addr());
        std::future::pending::<()>().await;
    }
    println!("missing");
}

fn leaves_nothing_when_killed(way: Way) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_is_killed", "--nocapture"])
        .env(CHILD, way.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The runner's own words stand before it on the line.
    let said = lines.find(|line| line.contains("serves ") || line.contains("missing")).unwrap();
    let Some((_, address)) = said.split_once("serves ") else {
        child.wait().unwrap();
        return;
    };
    let address: SocketAddr = address.parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(10), "it still serves");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_test_process_leaves_no_server_process() {
    leaves_nothing_when_killed(Way::Process);
}

#[test]
fn a_killed_test_process_leaves_no_container() {
    leaves_nothing_when_killed(Way::Container);
}

#[tokio::test]
async fn some_way_works_and_the_shared_server_is_one() {
    let Some(first) = or_skip(Redis::shared().await) else { return };
    let second = Redis::shared().await.unwrap();
    assert_eq!(first.addr(), second.addr());
    assert_eq!(ask(first.addr(), "PING").unwrap(), "+PONG");
}
