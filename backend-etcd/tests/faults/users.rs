//! Clusters that want a user: passwords that change, tokens that end, members that restart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_api::{Backend, ErrorKind, HandedOver, Names, Renewal, Token};
use leasehold_conformance::{Failure, Verdict, ensure, long};
use leasehold_etcd::{Etcd, Options};
use tokio::time::timeout;

use crate::common::subject::quick;
use crate::place::{LATE, Place, SECOND, claim, name, own, take};
use crate::turns::enter;

const PASSWORD: &str = "first";
const TTL: Duration = Duration::from_secs(2);

async fn locks(members: &[SocketAddr], password: &str) -> Result<Locks, Failure> {
    Ok(Locks::with_backend(Arc::new(client(members, password).await?)))
}

async fn client(members: &[SocketAddr], password: &str) -> Result<Etcd, Failure> {
    let options = Options::new(members.iter().map(ToString::to_string));
    let options = options.with_prefix("faults").with_user("root", password);
    Ok(Etcd::connect(options).await?)
}

pub(crate) async fn c111_a_changed_password_leaves_no_lock_behind() -> Verdict {
    let (_server, place) = own(quick().root_password(PASSWORD)).await?;
    let old = locks(&place.members, PASSWORD).await?;
    let holder = old.lock("a")?.ttl(TTL).acquire().await?;
    place.truth.change_password("root", "second").await?;
    let begun = Instant::now();
    while begun.elapsed() < 2 * TTL {
        let claims = place.claims(&name("a")).await?;
        let stands = claims.first().is_some_and(|claim| claim.owner == Some(holder.owner()));
        ensure!(stands || !holder.is_held(), "{holder:?} believes in what is gone: {claims:?}");
        tokio::time::sleep(TTL / 40).await;
    }
    // What it can't do any more is told as what it is.
    let error = old.lock("b")?.ttl(TTL).acquire().await.expect_err("the password is another");
    ensure!(error.kind() == ErrorKind::Auth, "{error}");
    // Its process ends.
    std::mem::forget(holder);
    drop(old);
    let new = locks(&place.members, "second").await?;
    let guard = new.lock("a")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    Ok(guard.release().await?)
}

pub(crate) async fn c112_tokens_that_end_while_idle_cost_neither_holder_nor_waiter() -> Verdict {
    let ends = Duration::from_secs(5);
    let idle = if long() { 6 * ends } else { ends + ends / 2 };
    let (_server, place) = own(quick().root_password(PASSWORD).signed_tokens(ends)).await?;
    let (one, two) =
        (locks(&place.members, PASSWORD).await?, locks(&place.members, PASSWORD).await?);
    let holder = one.lock("a")?.ttl(TTL).acquire().await?;
    let lock = two.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    place.claims_are(&name("a"), 2, SECOND).await?;
    let begun = Instant::now();
    while begun.elapsed() < idle {
        ensure!(holder.is_held(), "renewals go on: {holder:?} after {:?}", begun.elapsed());
        tokio::time::sleep(TTL / 40).await;
    }
    holder.release().await?;
    let guard = timeout(SECOND, waiter).await???;
    Ok(guard.release().await?)
}

pub(crate) async fn c120_members_that_restart_with_users_keep_their_holders() -> Verdict {
    let ttl = Duration::from_secs(20);
    let cluster = quick().controlled().root_password(PASSWORD).cluster(3).await?;
    let place = Place::of_cluster(&cluster, "faults").await?;
    let locks = locks(&place.members, PASSWORD).await?;
    let guard = locks.lock("a")?.ttl(ttl).acquire().await?;
    let token = guard.token()?;
    cluster.restart().await?;
    let restarted = Instant::now();
    // Until it counts from a renewal that was asked after the restart.
    while guard.remaining() <= ttl.saturating_sub(restarted.elapsed()) {
        ensure!(guard.is_held(), "lost {:?} after the restart", restarted.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(guard.token()? == token, "the same token");
    let claims = place.claims(guard.name()).await?;
    ensure!(claims.len() == 1 && claims[0].owner == Some(guard.owner()), "{claims:?}");
    Ok(guard.release().await?)
}

pub(crate) async fn a_watch_that_an_old_token_is_refused_is_opened_by_a_new_one() -> Verdict {
    let (ends, long) = (Duration::from_secs(3), Duration::from_secs(30));
    let (_server, place) = own(quick().root_password(PASSWORD).signed_tokens(ends)).await?;
    let (near, far) =
        (client(&place.members, PASSWORD).await?, client(&place.members, PASSWORD).await?);
    take(&near, &claim("a", long)).await?;
    enter(&far, &claim("a", long).with_queue(true)).await?;
    // The stream stays open, and its token ends.
    tokio::time::sleep(ends + SECOND).await;
    let held = take(&near, &claim("b", long)).await?;
    let waits = claim("b", long).with_queue(true);
    let before = place.truth.calls().await?;
    enter(&far, &waits).await?;
    tokio::time::sleep(SECOND).await;
    let calls = place.truth.calls().await?.since(&before);
    ensure!(calls.requests("Watch") < 20, "it asks again and again: {calls:?}");
    // By now it is watched, so that its own entry proves its place.
    enter(&far, &waits).await?;
    near.release(&held.ticket(), None).await?;
    timeout(SECOND, far.wake(&waits)).await?;
    let before = place.truth.calls().await?;
    take(&far, &waits).await?;
    let calls = place.truth.calls().await?.since(&before);
    ensure!(calls.requests("Txn") == 0, "the watch has told its turn: {calls:?}");
    Ok(())
}

/// As the README says what a user needs.
pub(crate) async fn users_may_be_confined_to_a_prefix() -> Verdict {
    let (_server, place) = own(quick().root_password(PASSWORD)).await?;
    place.truth.add_user("confined", "pw", "faults:").await?;
    let connect = async |prefix: &str| {
        let options = Options::new(place.members.iter().map(ToString::to_string));
        Etcd::connect(options.with_prefix(prefix).with_user("confined", "pw")).await
    };
    let error = connect("theirs").await.expect_err("it is another's prefix");
    ensure!(error.kind() == ErrorKind::Auth, "{error:?}");
    ensure!(error.code() == Some("PERMISSION_DENIED"), "{error:?}");
    let client = connect("faults").await?;
    for keep_alive in [true, false] {
        let claim = |name| claim(name, 10 * TTL).with_keep_alive(keep_alive);
        let first = take(&client, &claim("a")).await?;
        let waiter = claim("a").with_queue(true);
        enter(&client, &waiter).await?;
        let renewal = client.renew(&first).await?;
        ensure!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        ensure!(client.inspect(&first.name).await?.is_some(), "it is held");
        ensure!(client.list("").await?.len() == 1, "it is listed");
        client.release(&first.ticket(), None).await?;
        timeout(10 * SECOND, client.wake(&waiter)).await?;
        let second = take(&client, &waiter).await?;
        let third = claim("a");
        let answer = client.hand_over(&second, &third, false).await?;
        ensure!(matches!(answer, HandedOver::Granted(_)), "{answer:?}");
        let third = take(&client, &third).await?;
        let above = Token::new(third.token.get() + 1_000)?;
        client.raise_tokens(Names::All, above).await?;
        ensure!(client.fencing_token(&third.name).await? >= Some(above), "it was raised");
        ensure!(client.evict(&third.name, third.token).await?, "it is evicted");
        client.release(&third.ticket(), None).await?;
        let closes = take(&client, &claim("b")).await?;
        client.release(&closes.ticket(), Some(TTL)).await?;
        place.claims_are(&closes.name, 0, TTL + LATE).await?;
    }
    // What it holds it is told of.
    let locks = Locks::with_backend(Arc::new(client));
    let guard = locks.lock("c")?.ttl(30 * TTL).acquire().await?;
    let claims = place.claims(guard.name()).await?;
    place.truth.delete(&claims[0].key).await?;
    timeout(10 * SECOND, guard.lost()).await?;
    Ok(())
}
