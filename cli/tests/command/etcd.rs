//! The same over etcd: what the driver decides of it.

use std::time::Duration;

use leasehold_api::LockName;
use leasehold_conformance::servers::{Etcd, Server};
use leasehold_conformance::truth::{EtcdClaim, EtcdKeys, EtcdTruth};
use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, first_line, leasehold, now, run, send, status, told, told_by, until, with, within,
};
use crate::ending::{beating, lost, next};

/// Elections so short that a lease may be.
fn quick() -> Etcd {
    Etcd::new().ticks(Duration::from_millis(50), Duration::from_millis(500))
}

async fn start() -> Result<(Server, String), Failure> {
    let server = quick().controlled().start().await?;
    let url = with(server.url(), "guarantee=correctness");
    Ok((server, url))
}

pub(crate) async fn two_commands_never_overlap_and_the_status_tells_who() -> Verdict {
    let (_server, url) = start().await?;
    let say = "echo up; sleep 2; date +%s.%N";
    let mut first =
        run(&url, &["--ttl", "2s", "--label", "a", "job", "--", "sh", "-c", say]).spawn()?;
    let out = first.stdout.as_mut().unwrap();
    ensure!(first_line(out) == "up", "it did not come up");
    let pid = first.id();
    let second = run(&url, &["--ttl", "2s", "job", "--", "date", "+%s.%N"]).spawn()?;
    let told_of = status(&url, "job").await;
    ensure!(told_of["held"] == true && told_of["pid"] == pid, "{told_of}");
    ensure!(told_of["label"] == "a" && told_of["token"].is_u64(), "{told_of}");
    let (first, second) = (told_by(first).await, told_by(second).await);
    ensure!(first.code == Some(0) && second.code == Some(0), "{first:?}, {second:?}");
    let (end, begin) = (first.out.trim().parse::<f64>()?, second.out.trim().parse::<f64>()?);
    ensure!(begin >= end, "the second began at {begin}, the first ended at {end}");
    ensure!(begin - end < 1.0, "it was woken {} s later only", begin - end);
    let mut check = leasehold(&url);
    check.arg("check");
    let check = told(check).await;
    ensure!(check.code == Some(0) && check.out.contains("correctness\n"), "{check:?}");
    Ok(())
}

/// As any other bad input.
pub(crate) async fn a_ttl_below_what_the_server_takes_is_64() -> Verdict {
    let server = Etcd::new().start().await?;
    let told = told(run(server.url(), &["--ttl", "1s", "short", "--", "echo", "it runs"])).await;
    ensure!(told.code == Some(64) && told.out.is_empty(), "{told:?}");
    ensure!(told.err == "leasehold: --ttl 1s: the lock server takes 2s or more\n", "{told:?}");
    Ok(())
}

pub(crate) async fn f1_c10_a_killed_leasehold_leaves_no_command_and_a_free_lock() -> Verdict {
    let (_server, url) = start().await?;
    let heart = Heart::new();
    let child = beating(&url, "killed", &heart).await?;
    send(&child, Signal::KILL);
    let killed = now();
    next(&url, "killed", &heart).await?;
    let waited = now() - killed;
    // The TTL is 2 s: after two of them it is late.
    ensure!(waited < 4.0, "the lock was free after {waited} s");
    told_by(child).await;
    Ok(())
}

pub(crate) async fn f2_c9_a_stopped_leasehold_ends_its_command_and_is_76_when_continued() -> Verdict
{
    let (_server, url) = start().await?;
    let heart = Heart::new();
    let child = beating(&url, "stopped", &heart).await?;
    send(&child, Signal::STOP);
    next(&url, "stopped", &heart).await?;
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    let other = Heart::new();
    let second = beating(&url, "stopped", &other).await?;
    let before = status(&url, "stopped").await;
    send(&child, Signal::CONT);
    lost(&told_by(child).await)?;
    let after = status(&url, "stopped").await;
    ensure!(before["token"] == after["token"] && after["held"] == true, "{before} and {after}");
    send(&second, Signal::KILL);
    told_by(second).await;
    Ok(())
}

pub(crate) async fn f20_c6_c127_a_frozen_member_ends_the_command_in_time() -> Verdict {
    let (server, url) = start().await?;
    let heart = Heart::new();
    let child = beating(&url, "frozen", &heart).await?;
    server.pause().await?;
    let frozen = now();
    until("the command is gone", || !heart.beating()).await?;
    let lived = heart.last().unwrap() - frozen;
    ensure!(lived < 2.0, "it lived for {lived} s, its TTL is 2 s");
    lost(&told_by(child).await)?;
    server.resume().await?;
    next(&url, "frozen", &heart).await
}

pub(crate) async fn f47_a_cluster_that_loses_its_leader_does_not_end_the_command() -> Verdict {
    let cluster = quick().controlled().cluster(3).await?;
    let words = ["--ttl", "8s", "led", "--", "sh", "-c", "echo up; sleep 5"];
    let mut child = run(cluster.url(), &words).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let token = status(cluster.url(), "led").await["token"].clone();
    ensure!(token.is_u64(), "it is not held: {token}");
    let leader = cluster.leader().await?;
    cluster.member(leader).kill().await?;
    cluster.leader().await?;
    ensure!(status(cluster.url(), "led").await["token"] == token, "it is not held any more");
    let told = told_by(child).await;
    ensure!(told.code == Some(0) && told.err.is_empty(), "{told:?}");
    let after = status(cluster.url(), "led").await;
    ensure!(after["held"] == false, "it was not released: {after}");
    Ok(())
}

pub(crate) async fn f25_a_member_that_restarts_with_its_data_does_not_end_the_command() -> Verdict {
    let (server, url) = start().await?;
    let words = ["--ttl", "8s", "restarted", "--", "sh", "-c", "echo up; sleep 5"];
    let mut child = run(&url, &words).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let token = status(&url, "restarted").await["token"].clone();
    ensure!(token.is_u64(), "it is not held: {token}");
    server.restart().await?;
    ensure!(status(&url, "restarted").await["token"] == token, "it is another's");
    let told = told_by(child).await;
    ensure!(told.code == Some(0), "{told:?}");
    ensure!(status(&url, "restarted").await["held"] == false, "it was not released");
    Ok(())
}

pub(crate) async fn f73_c19_an_evicted_lock_ends_the_command_within_a_second() -> Verdict {
    let (_server, url) = start().await?;
    ended_by(&url, async |_, _| {
        let token = status(&url, "taken").await["token"].to_string();
        let mut evict = leasehold(&url);
        evict.args(["evict", "taken", "--token", &token]);
        let told = told(evict).await;
        ensure!(told.code == Some(0), "{told:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn f74_c148_an_overwritten_lock_ends_the_command_within_a_second() -> Verdict {
    let (_server, url) = start().await?;
    ended_by(&url, async |truth, claim| Ok(truth.put(&claim.key, "an operator's", 0).await?))
        .await?;
    let (truth, claim) = claim_of(&url).await?;
    let pair = truth.pair(&claim.key).await?;
    let text = pair.as_ref().map(|pair| pair.text());
    ensure!(text.as_deref() == Some("an operator's"), "it was overwritten back: {pair:?}");
    Ok(())
}

pub(crate) async fn f43_a_revoked_lease_ends_the_command_within_a_second() -> Verdict {
    let (_server, url) = start().await?;
    ended_by(&url, async |truth, claim| {
        ensure!(truth.revoke(claim.pair.lease).await?, "there is no lease");
        Ok(())
    })
    .await
}

/// What somebody else does to a running command's lock ends it, though the next renewal is long to
/// come.
async fn ended_by(
    url: &str,
    taken: impl AsyncFnOnce(&EtcdTruth, &EtcdClaim) -> Verdict,
) -> Verdict {
    let heart = Heart::new();
    let child = run(url, &["--ttl", "60s", "taken"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let (truth, claim) = claim_of(url).await?;
    taken(&truth, &claim).await?;
    within(Duration::from_secs(1), "the command is gone", || !heart.beating()).await?;
    lost(&told_by(child).await)
}

async fn claim_of(url: &str) -> Result<(EtcdTruth, EtcdClaim), Failure> {
    let truth = EtcdTruth::connect(url.split('?').next().unwrap()).await?;
    let claims = truth.claims(&EtcdKeys::default(), &LockName::new("taken")?).await?;
    let claim = claims.into_iter().next();
    Ok((truth, claim.ok_or_else(|| Failure::failed("it has no key"))?))
}
