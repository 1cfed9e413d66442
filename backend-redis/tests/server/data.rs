//! Lost data, lost scripts, and what others leave under our keys.

use std::time::Duration;

use leasehold_api::{Acquired, Names, Renewal, Token};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::{RedisTruth, Value};
use leasehold_conformance::{Failure, Verdict, ensure};

use crate::common::{claim, connect, name, take, ttl};

/// The key of a name's record.
pub(crate) async fn record_of(truth: &RedisTruth, name: &str) -> Result<String, Failure> {
    let end = format!("}}:lock:{name}");
    let key = truth.keys("").await?.into_keys().find(|key| key.ends_with(end.as_bytes()));
    key.and_then(|key| String::from_utf8(key).ok())
        .ok_or_else(|| Failure::failed(format!("{name} has no record")))
}

pub(crate) async fn tokens_rise_over_each_flush_to_the_last_digit() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let mut last = 0;
    for round in 0..200 {
        let lease = take(&*client, &claim("a")).await?;
        let token = lease.token.get();
        ensure!(token > last, "round {round}: {token} follows {last}");
        let key = record_of(&truth, "a").await?;
        let Some(record) = truth.entry(key).await? else { panic!("it has a record") };
        let stored = record.value.text().unwrap().split(' ').nth(2).unwrap().to_owned();
        ensure!(stored == token.to_string(), "{token} is stored as {stored}");
        ensure!(client.fencing_token(&lease.name).await? == Some(lease.token), "the counter");
        last = token;
        truth.flush_all().await?;
    }
    Ok(())
}

pub(crate) async fn tokens_rise_over_a_restart_without_data() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let client = connect(server.url(), "").await?;
    let mut last = 0;
    for _ in 0..3 {
        let claim = claim("a");
        let granted = loop {
            // The first call may find out that the connection is gone.
            match client.acquire(&claim).await {
                Ok(Acquired::Granted(grant)) => break grant.token.get(),
                Ok(held) => return Err(Failure::failed(format!("{held:?}"))),
                Err(error) if error.is_retryable() => continue,
                Err(error) => return Err(error.into()),
            }
        };
        ensure!(granted > last, "{granted} follows {last}");
        last = granted;
        server.restart_empty().await?;
    }
    Ok(())
}

pub(crate) async fn f28_a_flushed_script_cache_is_not_noticed() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    for round in 0..5 {
        let flush = || truth.script_flush();
        let waiter = claim("a").with_queue(true);
        flush().await?;
        let lease = take(&*client, &claim("a")).await?;
        flush().await?;
        let held = client.acquire(&waiter).await?;
        ensure!(matches!(held, Acquired::Held { .. }), "round {round}: {held:?}");
        flush().await?;
        let renewed = client.renew(&lease).await?;
        ensure!(matches!(renewed, Renewal::Renewed(_)), "round {round}: {renewed:?}");
        flush().await?;
        ensure!(client.fencing_token(&lease.name).await? == Some(lease.token), "round {round}");
        flush().await?;
        ensure!(client.inspect(&lease.name).await?.is_some(), "round {round}");
        flush().await?;
        client.raise_tokens(Names::One(&lease.name), lease.token).await?;
        flush().await?;
        client.hand_over(&lease, &claim("a"), true).await?;
        client.wake(&waiter).await;
        flush().await?;
        let lease = take(&*client, &waiter).await?;
        flush().await?;
        ensure!(client.evict(&lease.name, lease.token).await?, "round {round}");
        flush().await?;
        ensure!(client.release(&lease.ticket(), None).await?.outcome.is_err(), "evicted");
        truth.flush_all().await?;
    }
    Ok(())
}

pub(crate) async fn f28_scripts_flushed_under_pipelines_are_sent_again() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let claims: Vec<_> = (0..600).map(|n| claim(&format!("a{n}"))).collect();
    let flushing = async {
        loop {
            truth.script_flush().await.unwrap();
        }
    };
    let working = async {
        // Three scripts in one pipeline, and single ones beside them on the same connection.
        let taken = claims.iter().map(|claim| take(&*client, claim));
        let leases = futures_util::future::try_join_all(taken).await?;
        for round in 0..10 {
            let (renewed, looked) =
                tokio::join!(client.renew_all(&leases), client.fencing_token(&leases[0].name));
            looked?;
            for renewal in renewed {
                ensure!(matches!(renewal?, Renewal::Renewed(_)), "round {round}");
            }
        }
        Ok::<_, Failure>(())
    };
    tokio::select! {
        worked = working => worked?,
        () = flushing => {}
    }
    let flushed = truth.commands().await?;
    ensure!(flushed.calls("eval") > 3, "no script had to be sent again: {flushed:?}");
    Ok(())
}

pub(crate) async fn all_counters_are_raised_and_none_is_lowered() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let high = Token::new(8_000_000_000_000_001)?;
    let higher = Token::new(8_000_000_000_000_003)?;
    client.raise_tokens(Names::One(&name("a")), higher).await?;
    client.raise_tokens(Names::All, high).await?;
    let counters = truth.keys("leasehold:").await?;
    ensure!(counters.len() == 256, "{} counters", counters.len());
    let raised = |value: u64| {
        let text = Value::String(value.to_string().into_bytes());
        counters.values().filter(|entry| entry.value == text && entry.ttl.is_none()).count()
    };
    ensure!(raised(high.get()) == 255 && raised(higher.get()) == 1, "{counters:?}");
    let lease = take(&*client, &claim("a")).await?;
    ensure!(lease.token.get() == higher.get() + 1, "{}", lease.token);
    Ok(())
}

pub(crate) async fn a_record_without_expiry_is_held_for_ever() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    truth.persist(record_of(&truth, "a").await?).await?;
    let Acquired::Held { holder: Some(holder), free_in: None } =
        client.acquire(&claim("a").with_queue(true)).await?
    else {
        return Err(Failure::failed("it is held, for ever"));
    };
    ensure!((holder.token, holder.remaining) == (lease.token, None), "{holder:?}");
    // Its owner may still renew it, which gives it an end again.
    client.renew(&lease).await?;
    let inspected = client.inspect(&lease.name).await?.unwrap();
    ensure!(inspected.remaining.is_some(), "{inspected:?}");
    Ok(())
}

pub(crate) async fn what_is_none_of_ours_is_held_by_nobody() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    let key = record_of(&truth, "a").await?;
    let minute = Some(Duration::from_secs(60));
    for (words, end) in [
        (vec!["SET", &*key, "1", "PX", "60000"], minute),
        (vec!["SET", &*key, ""], None),
        (vec!["SET", &*key, "held by me"], None),
        (vec!["RPUSH", &*key, "x"], None),
        (vec!["HSET", &*key, "x", "y"], None),
    ] {
        truth.delete(&key).await?;
        truth.command(&words).await?;
        let before = truth.entry(&key).await?.unwrap();
        for queue in [false, true] {
            let held = client.acquire(&claim("a").with_queue(queue)).await?;
            let Acquired::Held { holder: None, free_in } = held else {
                return Err(Failure::failed(format!("{words:?}: {held:?}")));
            };
            ensure!(free_in.is_some() == end.is_some(), "{words:?}: {free_in:?}");
        }
        let renewed = client.renew(&lease).await?;
        ensure!(matches!(renewed, Renewal::NotMine(_)), "{words:?}: {renewed:?}");
        let released = client.release(&lease.ticket(), None).await?;
        ensure!(released.outcome.is_err(), "{words:?}: {released:?}");
        ensure!(!client.evict(&lease.name, lease.token).await?, "{words:?}");
        ensure!(client.list("").await?.is_empty(), "{words:?}");
        let looked = client.inspect(&lease.name).await;
        ensure!(looked.is_err_and(|error| error.code() == Some("FOREIGN")), "{words:?}");
        ensure!(truth.entry(&key).await?.unwrap().value == before.value, "{words:?}");
    }
    Ok(())
}

pub(crate) async fn a_wait_list_of_another_type_breaks_nothing() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    let key = record_of(&truth, "a").await?;
    for kind in ["wait", "from"] {
        truth.set(key.replace(":lock:", &format!(":{kind}:")), "x", None).await?;
    }
    let held = client.acquire(&claim("a").with_queue(true)).await?;
    ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
    let next = claim("a");
    client.hand_over(&lease, &next, true).await?;
    let lease = take(&*client, &next).await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "it is released");
    Ok(())
}

pub(crate) async fn f35_braces_in_names_are_harmless() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    for odd in ["{}", "{a}", "}{", "a{b}c", "{v1:00}:lock:a", "}:lock:a", ":token", "*", "[a]"] {
        take(&*client, &claim(odd)).await?;
    }
    for key in truth.keys("").await?.into_keys() {
        let key = String::from_utf8(key).unwrap();
        // By the rule of the cluster: what is in the first braces decides of the slot.
        let (_, rest) = key.split_once('{').unwrap();
        let (tag, _) = rest.split_once('}').unwrap();
        ensure!(tag.starts_with("v1:") && tag.len() == 5, "{key}");
    }
    ensure!(client.list("").await?.len() == 9, "each has its name again");
    Ok(())
}

pub(crate) async fn a_closed_record_keeps_its_own_time() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let mut short = claim("a");
    short.ttl = ttl(1_000);
    let lease = take(&*client, &short).await?;
    let minute = Duration::from_secs(60);
    ensure!(client.release(&lease.ticket(), Some(minute)).await?.outcome.is_ok(), "closed");
    let key = record_of(&truth, "a").await?;
    let left = truth.entry(&key).await?.unwrap().ttl.unwrap();
    ensure!(left > Duration::from_secs(50), "{left:?}");
    let again = Some(Duration::from_secs(1));
    ensure!(client.release(&lease.ticket(), again).await?.outcome.is_ok(), "a repeat");
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "a repeat");
    let left = truth.entry(&key).await?.unwrap().ttl.unwrap();
    ensure!(left > Duration::from_secs(50), "a repeat changes nothing: {left:?}");
    let Acquired::Held { holder: None, free_in: Some(_) } = client.acquire(&short).await? else {
        return Err(Failure::failed("closed to all, also to who closed it"));
    };
    ensure!(client.inspect(&lease.name).await?.is_none(), "nobody holds it");
    Ok(())
}
