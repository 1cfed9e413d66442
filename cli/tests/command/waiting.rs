//! Waiting for the lock, and for the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_conformance::proxy::{Action, Direction, Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::{Entry, RedisTruth, Value};
use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, LONG, Shared, leasehold, read_to, run, send, shared, status, told, told_by, with,
};

pub(crate) async fn two_commands_never_overlap_and_the_second_runs() -> Verdict {
    let server = shared().await?;
    let script = "date +%s.%N; sleep 0.3; date +%s.%N";
    let words = ["both", "--", "sh", "-c", script];
    let (first, second) = (run(server.url(), &words).spawn()?, run(server.url(), &words).spawn()?);
    let mut spans = Vec::new();
    for child in [first, second] {
        let told = told_by(child).await;
        ensure!(told.code == Some(0), "{told:?}");
        let times: Vec<f64> = told.out.lines().map(|line| line.parse().unwrap()).collect();
        spans.push((times[0], times[1]));
    }
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    ensure!(spans[0].1 < spans[1].0, "they overlap: {spans:?}");
    Ok(())
}

pub(crate) async fn a_wait_that_ends_is_75_and_names_the_holder() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child =
        run(server.url(), &["--label", "the first", "waited"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let start = Instant::now();
    let other = told(run(server.url(), &["--wait", "300ms", "waited", "--", "true"])).await;
    ensure!(other.code == Some(75), "{other:?}");
    ensure!(start.elapsed() >= Duration::from_millis(300), "it waited {:?}", start.elapsed());
    let pid = format!("pid {}", child.id());
    ensure!(other.err.contains("the first") && other.err.contains(&pid), "{other:?}");
    send(&child, Signal::KILL);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn no_wait_is_75_at_once() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--label", "early", "at once"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let other = told(run(server.url(), &["--no-wait", "at once", "--", "true"])).await;
    ensure!(other.code == Some(75) && other.err.contains("(early)"), "{other:?}");
    send(&child, Signal::KILL);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn c147_a_wait_ended_by_a_signal_leaves_nothing_behind() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let holder = run(server.url(), &["given up"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let alone = truth.keys(server.prefix()).await?.len();
    let mut waiters = Vec::new();
    for _ in 0..5 {
        waiters.push(run(server.url(), &["given up", "--", "true"]).spawn()?);
    }
    in_line(&server, waiters.len()).await?;
    for (waiter, signal) in waiters.iter().zip([Signal::TERM, Signal::USR1].into_iter().cycle()) {
        send(waiter, signal);
    }
    for (waiter, code) in waiters.into_iter().zip([143, 138].into_iter().cycle()) {
        let told = told_by(waiter).await;
        ensure!(told.code == Some(code) && told.err.is_empty(), "{told:?}");
    }
    let left = truth.keys(server.prefix()).await?;
    ensure!(left.len() == alone, "left behind: {left:?}");
    send(&holder, Signal::KILL);
    told_by(holder).await;
    Ok(())
}

/// Waits until so many wait at the server. Only there all of them can be seen.
async fn in_line(server: &Shared, waiters: usize) -> Verdict {
    let truth = RedisTruth::connect(server.url()).await?;
    let places = |keys: &BTreeMap<Vec<u8>, Entry>| {
        let lines = keys.values().map(|entry| match &entry.value {
            Value::Sorted(places) => places.len(),
            _ => 0,
        });
        lines.sum::<usize>()
    };
    let keys = truth.keys_until(server.prefix(), LONG, |keys| places(keys) == waiters).await?;
    ensure!(places(&keys) == waiters, "not {waiters} are in line: {keys:?}");
    Ok(())
}

pub(crate) async fn f21_c150_an_unreachable_server_is_69_by_the_end_of_the_wait() -> Verdict {
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let silent = proxy.url(server.url());
    proxy.blackhole();
    let closed = "redis://127.0.0.1:1";
    for url in [silent.as_str(), closed] {
        let start = Instant::now();
        let told = told(run(url, &["--wait", "1500ms", "away", "--", "true"])).await;
        let took = start.elapsed();
        ensure!(told.code == Some(69) && !told.err.is_empty(), "{told:?}");
        ensure!(took < Duration::from_millis(1500) + LONG / 4, "{url}: it took {took:?}");
    }
    Ok(())
}

/// What does not wait for a lock does not wait for a store either, but for the driver's own limits.
pub(crate) async fn an_unreachable_server_is_69_for_every_verb() -> Verdict {
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let silent = proxy.url(server.url());
    proxy.blackhole();
    let mut all = Vec::new();
    for url in [silent.as_str(), "redis://127.0.0.1:1"] {
        for words in [
            &["status", "away"][..],
            &["list"],
            &["evict", "away", "--token", "1"],
            &["check"],
            &["run", "--no-wait", "away", "--", "true"],
            &["run", "--wait", "0s", "away", "--", "true"],
        ] {
            let mut command = leasehold(url);
            all.push((url, words, command.args(words).spawn()?));
        }
    }
    let start = Instant::now();
    for (url, words, child) in all {
        let told = told_by(child).await;
        ensure!(told.code == Some(69), "{url}, {words:?}: {told:?}");
        ensure!(told.err.starts_with("leasehold: ") && told.out.is_empty(), "{words:?}: {told:?}");
    }
    ensure!(start.elapsed() < LONG, "it took {:?}", start.elapsed());
    Ok(())
}

/// It never hears of a grant in time, so a longer TTL is what helps.
pub(crate) async fn a_link_too_slow_for_the_ttl_is_told() -> Verdict {
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let slow = proxy.url(server.url());
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.set(direction, Action::Delay(Duration::from_millis(400)));
    }
    let start = Instant::now();
    let short = told(run(&slow, &["--ttl", "2s", "--wait", "6s", "far", "--", "true"])).await;
    ensure!(short.code == Some(69), "{short:?}");
    ensure!(start.elapsed() < Duration::from_secs(6) + LONG / 4, "{short:?}");
    let says = "to answer; a lock with a TTL of 2s needs answers within 670ms\n";
    ensure!(short.err.matches(says).count() == 1, "{short:?}");
    let long = told(run(&slow, &["--ttl", "20s", "--wait", "20s", "far", "--", "true"])).await;
    ensure!(long.code == Some(0) && long.err.is_empty(), "{long:?}");
    Ok(())
}

pub(crate) async fn f24_a_server_that_comes_up_during_the_wait_is_used() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    server.stop().await?;
    // The driver gives up long before the wait does.
    let url = with(server.url(), "connect_timeout=200ms");
    let mut command = run(&url, &["--wait", "20s", "early bird", "--", "echo", "done"]);
    let mut child = command.env("LEASEHOLD_LOG", "debug").spawn()?;
    let mut log = child.stderr.take().unwrap();
    for _ in 0..2 {
        read_to(&mut log, "can't be reached, and is asked again");
    }
    // Nobody reads on, and it must not stop at a full pipe or at a broken one.
    let rest = std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    server.start().await?;
    let told = told_by(child).await;
    ensure!(told.code == Some(0) && told.out == "done\n", "{told:?}");
    rest.join().unwrap()?;
    Ok(())
}

/// A wait without limit, that is.
pub(crate) async fn a_server_that_stops_answering_while_it_is_waited_is_69() -> Verdict {
    const UNREACHABLE: Duration = Duration::from_secs(27); // 30 s since the last answer
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let heart = Heart::new();
    let holder = run(server.url(), &["deaf"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let waiter = run(&proxy.url(server.url()), &["deaf", "--", "true"]).spawn()?;
    in_line(&server, 1).await?;
    proxy.blackhole();
    let start = Instant::now();
    let told = told_by(waiter).await;
    ensure!(told.code == Some(69), "{told:?}");
    let took = start.elapsed();
    ensure!((UNREACHABLE..UNREACHABLE + LONG).contains(&took), "it took {took:?}");
    ensure!(status(server.url(), "deaf").await["held"] == true, "the holder lost it");
    send(&holder, Signal::KILL);
    told_by(holder).await;
    Ok(())
}
