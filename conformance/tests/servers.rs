//! The harness itself: each verb on a real Redis, as a process and in a container.

#![expect(clippy::unwrap_used, reason = "the tests are plain functions, run by `tests!`")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_conformance::servers::{Error, Redis, Server, Way};
use leasehold_conformance::{Failure, Verdict, ensure};

leasehold_conformance::tests! {
    a_process_goes_down_and_comes_back_with_and_without_data,
    a_container_goes_down_and_comes_back_with_and_without_data,
    a_process_with_an_append_only_file_keeps_data_over_a_kill,
    a_container_with_an_append_only_file_keeps_data_over_a_kill,
    a_paused_process_answers_nothing_and_later_everything,
    a_paused_container_answers_nothing_and_later_everything,
    a_process_takes_settings_and_serves_tls,
    a_container_takes_settings_and_serves_tls,
    a_process_that_refuses_a_setting_says_which,
    a_container_that_refuses_a_setting_says_which,
    a_process_is_gone_when_a_test_panics,
    a_container_is_gone_when_a_test_panics,
    child_that_is_killed,
    a_killed_test_process_leaves_no_server_process,
    a_killed_test_process_leaves_no_container,
    some_way_works_and_the_shared_server_is_one,
}

/// The server by this way. Where `LEASEHOLD_SERVERS` allows another way only, this one need not
/// work here.
async fn by(way: Way, redis: Redis) -> Result<Server, Failure> {
    redis.start_by(way).await.map_err(|error| of_way(way, error))
}

fn of_way(way: Way, error: Error) -> Failure {
    let allowed = std::env::var("LEASEHOLD_SERVERS").unwrap_or_default();
    match error {
        Error::Missing(missing) if !allowed.is_empty() && allowed != way.to_string() => {
            Failure::not_applicable(format!("{missing} (LEASEHOLD_SERVERS={allowed})"))
        }
        error => error.into(),
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

async fn goes_down_and_comes_back(way: Way) -> Verdict {
    let redis = by(way, Redis::new().controlled()).await?;
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
    Ok(())
}

async fn a_process_goes_down_and_comes_back_with_and_without_data() -> Verdict {
    goes_down_and_comes_back(Way::Process).await
}

async fn a_container_goes_down_and_comes_back_with_and_without_data() -> Verdict {
    goes_down_and_comes_back(Way::Container).await
}

async fn keeps_data_over_a_kill(way: Way) -> Verdict {
    let redis = Redis::new().append_only().controlled();
    let redis = by(way, redis).await?;
    assert_eq!(ask(redis.addr(), "SET key value").unwrap(), "+OK");
    redis.kill().await.unwrap();
    redis.start().await.unwrap();
    assert_eq!(get(redis.addr()), ":5");
    Ok(())
}

async fn a_process_with_an_append_only_file_keeps_data_over_a_kill() -> Verdict {
    keeps_data_over_a_kill(Way::Process).await
}

async fn a_container_with_an_append_only_file_keeps_data_over_a_kill() -> Verdict {
    keeps_data_over_a_kill(Way::Container).await
}

async fn answers_nothing_while_paused(way: Way) -> Verdict {
    let redis = by(way, Redis::new().controlled()).await?;
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
    Ok(())
}

async fn a_paused_process_answers_nothing_and_later_everything() -> Verdict {
    answers_nothing_while_paused(Way::Process).await
}

async fn a_paused_container_answers_nothing_and_later_everything() -> Verdict {
    answers_nothing_while_paused(Way::Container).await
}

async fn takes_settings(way: Way) -> Verdict {
    let redis = Redis::new().password("s3cret/?").arg("--maxmemory", "10mb").tls();
    let redis = by(way, redis).await?;
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
    Ok(())
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

async fn a_process_takes_settings_and_serves_tls() -> Verdict {
    takes_settings(Way::Process).await
}

async fn a_container_takes_settings_and_serves_tls() -> Verdict {
    takes_settings(Way::Container).await
}

async fn says_what_it_refuses(way: Way) -> Verdict {
    match Redis::new().arg("--maxmemory", "much").start_by(way).await {
        Err(Error::Failed { why, .. }) => {
            ensure!(why.contains("maxmemory"), "it does not say which: {why}");
            Ok(())
        }
        Err(other) => Err(of_way(way, other)),
        Ok(_) => Err(Failure::failed("it started")),
    }
}

async fn a_process_that_refuses_a_setting_says_which() -> Verdict {
    says_what_it_refuses(Way::Process).await
}

async fn a_container_that_refuses_a_setting_says_which() -> Verdict {
    says_what_it_refuses(Way::Container).await
}

async fn is_gone_when_dropped(way: Way) -> Verdict {
    let redis = by(way, Redis::new()).await?;
    let address = redis.addr();
    let panicked = std::thread::spawn(move || {
        let _redis = redis;
        // As a failing test does, without its words.
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.join().is_err());
    assert!(TcpStream::connect(address).is_err());
    Ok(())
}

async fn a_process_is_gone_when_a_test_panics() -> Verdict {
    is_gone_when_dropped(Way::Process).await
}

async fn a_container_is_gone_when_a_test_panics() -> Verdict {
    is_gone_when_dropped(Way::Container).await
}

const CHILD: &str = "LEASEHOLD_TEST_CHILD";

/// Run by the two tests below in a process of its own, which is then killed.
#[expect(clippy::print_stdout, reason = "its parent reads the address there")]
async fn child_that_is_killed() -> Verdict {
    let way = match std::env::var(CHILD).unwrap_or_default().as_str() {
        "container" => Way::Container,
        "process" => Way::Process,
        _ => return Err(Failure::not_applicable("it is for other tests to run")),
    };
    let redis = by(way, Redis::new()).await?;
    println!("serves {}", redis.addr());
    std::future::pending().await
}

async fn leaves_nothing_when_killed(way: Way) -> Verdict {
    // Whether this way works here is for this process to say.
    drop(by(way, Redis::new()).await?);
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "child_that_is_killed"])
        .env(CHILD, way.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.split_once("serves ")?.1.to_owned()));
    child.kill()?;
    child.wait()?;
    let address: SocketAddr = address.ok_or(Failure::failed("the child had no server"))?.parse()?;
    let killed = Instant::now();
    while TcpStream::connect(address).is_ok() {
        ensure!(killed.elapsed() < Duration::from_secs(10), "it still serves");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

async fn a_killed_test_process_leaves_no_server_process() -> Verdict {
    leaves_nothing_when_killed(Way::Process).await
}

async fn a_killed_test_process_leaves_no_container() -> Verdict {
    leaves_nothing_when_killed(Way::Container).await
}

async fn some_way_works_and_the_shared_server_is_one() -> Verdict {
    let first = Redis::shared().await?;
    let second = Redis::shared().await?;
    assert_eq!(first.addr(), second.addr());
    assert_eq!(ask(first.addr(), "PING")?, "+PONG");
    Ok(())
}
