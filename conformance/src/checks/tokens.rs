//! Fencing tokens.

use leasehold_api::{Backend, ErrorKind, LockName, Names, Token};

use super::steps::{
    grant, hand_over, is_free, kept, lease, pass, release, release_in_vain, renew, take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

/// 2020 in microseconds since 1970.
const MICROS_2020: u64 = 1_577_836_800_000_000;

checks! { Tokens:
    c136_tokens_rise_over_release, "3.1", "each of 1,000 grants of a name to various clients has a higher token than the last";
    tokens_rise_over_expiry, "3.1", "so has the grant after an expired lease";
    tokens_rise_over_eviction, "3.1", "so has the grant after an evicted lease";
    tokens_rise_over_reconnect, "3.1", "so has the grant of each fresh client";
    tokens_rise_over_closing, "3.1", "so has the grant after a closed name opens";
    tokens_rise_over_hand_over, "7.1", "so has the claim that is handed the name";
    token_is_above_what_the_claim_asks, "3.2", "a claim's `above` is beaten, and stays beaten";
    high_tokens_are_kept_to_the_last_digit [private], "3.3", "near 2^53 each token is exact wherever it is answered";
    used_up_tokens_are_refused [private], "3.3", "past 2^53 - 1 a claim is refused and holds nothing";
    tokens_start_at_microseconds, "3.4", "the first token of a name is at least today in microseconds";
    raised_name_grants_above, "3.5", "after raise_tokens of a name its grants are above that";
    raised_prefix_grants_above, "3.5", "after raise_tokens of all names, grants of old and new ones are above that";
    raising_never_lowers, "3.5", "raise_tokens with a low number lowers nothing";
    fencing_token_covers_the_grants, "3.6", "fencing_token is at least each token granted before";
}

async fn c136_tokens_rise_over_release(bench: &Bench) -> Verdict {
    let clients = bench.clients::<4>().await?;
    let name = bench.name();
    let mut last = None;
    for round in 0..1_000 {
        // In no order that repeats soon.
        let client = &*clients[round * round / 7 % 4];
        let lease = take(client, &bench.claim(&name)).await?;
        rises(&mut last, lease.token)?;
        release(client, &lease.ticket()).await?;
    }
    Ok(())
}

async fn tokens_rise_over_expiry(bench: &Bench) -> Verdict {
    let clients = bench.clients::<2>().await?;
    let name = bench.name();
    let mut last = None;
    for client in &clients {
        let lease = take(&**client, &bench.claim(&name)).await?;
        rises(&mut last, lease.token)?;
        pass(&**client, kept(&**client, lease.ttl) + bench.late()).await;
    }
    rises(&mut last, take(&*clients[0], &bench.claim(&name)).await?.token)
}

async fn tokens_rise_over_eviction(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    match other.evict(&lease.name, lease.token).await {
        Ok(evicted) => ensure!(evicted, "the lease was not evicted"),
        Err(error) => {
            ensure!(error.kind() == ErrorKind::Unsupported, "evict: {error}");
            return Ok(()); // nothing can be evicted: `base` asserts that this is as announced
        }
    }
    rises(&mut Some(lease.token), take(&*other, &bench.claim(&lease.name)).await?.token)
}

async fn tokens_rise_over_reconnect(bench: &Bench) -> Verdict {
    let name = bench.name();
    let mut last = None;
    for _ in 0..3 {
        let client = bench.client().await?;
        let lease = take(&*client, &bench.claim(&name)).await?;
        rises(&mut last, lease.token)?;
        release(&*client, &lease.ticket()).await?;
    }
    Ok(())
}

async fn tokens_rise_over_closing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    client.release(&lease.ticket(), Some(bench.ttl().get())).await?;
    pass(&*client, kept(&*client, lease.ttl) + bench.late()).await;
    rises(&mut Some(lease.token), take(&*client, &bench.claim(&lease.name)).await?.token)
}

async fn tokens_rise_over_hand_over(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let mut lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let mut last = Some(lease.token);
    for _ in 0..5 {
        lease = hand_over(&*client, &lease, &bench.long_claim(&lease.name, 10)).await?;
        rises(&mut last, lease.token)?;
    }
    release(&*client, &lease.ticket()).await
}

async fn token_is_above_what_the_claim_asks(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let first = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let above = Token::new(first.token.get() + 1_000_000)?;
    let claim = bench.long_claim(&first.name, 10).with_above(Some(above));
    let second = hand_over(&*client, &first, &claim).await?;
    rises(&mut Some(above), second.token)?;
    release(&*client, &second.ticket()).await?;
    let above = Token::new(second.token.get() + 1_000_000)?;
    let third = take(&*client, &claim.clone().with_above(Some(above))).await?;
    rises(&mut Some(above), third.token)?;
    release(&*client, &third.ticket()).await?;
    let low = bench.claim(&first.name).with_above(Some(Token::new(1)?));
    rises(&mut Some(third.token), take(&*client, &low).await?.token)
}

async fn high_tokens_are_kept_to_the_last_digit(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    let mut last = Some(Token::new(Token::MAX.get() - 99)?);
    for _ in 0..10 {
        let claim = bench.long_claim(&name, 10).with_above(last);
        let lease = lease(&claim, grant(&*client, &claim).await?);
        rises(&mut last, lease.token)?;
        exact_everywhere(bench, &*other, &lease).await?;
        renew(&*client, &lease).await?;
        let mut off_by_one = lease.ticket();
        off_by_one.token = Some(Token::new(lease.token.get() - 1)?);
        release_in_vain(&*client, &off_by_one).await?;
        release(&*client, &lease.ticket()).await?;
    }
    Ok(())
}

/// The token of a lease, by each verb that tells it.
async fn exact_everywhere(
    bench: &Bench,
    client: &dyn Backend,
    lease: &leasehold_api::Lease,
) -> Verdict {
    let want = lease.token;
    let mine = leasehold_api::Claim::new(lease.name.clone(), lease.owner, lease.ttl);
    let mut told = vec![("acquire", grant(client, &mine).await?.token)];
    if let Some(holder) = super::steps::held(client, &bench.claim(&lease.name)).await?.holder {
        told.push(("the holder", holder.token));
    }
    if client.profile().operator {
        let holder = client.inspect(&lease.name).await?;
        told.extend(holder.map(|holder| ("inspect", holder.token)));
        let list = client.list(lease.name.as_str()).await?;
        told.extend(list.into_iter().map(|(_, holder)| ("list", holder.token)));
    }
    for (verb, token) in told {
        ensure!(token == want, "token {want} is {token} by {verb}");
    }
    let floor = client.fencing_token(&lease.name).await?;
    ensure!(floor >= Some(want), "token {want} was granted, fencing_token says {floor:?}");
    Ok(())
}

async fn used_up_tokens_are_refused(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    let last = Token::new(Token::MAX.get() - 1)?;
    let lease = take(&*client, &bench.long_claim(&name, 10).with_above(Some(last))).await?;
    ensure!(lease.token == Token::MAX, "above {last} comes {}", lease.token);
    release(&*client, &lease.ticket()).await?;
    for above in [None, Some(Token::MAX)] {
        let claim = bench.long_claim(&name, 10).with_above(above);
        match client.acquire(&claim).await {
            Ok(answer) => return Err(Failure::failed(format!("above 2^53 - 1: {answer:?}"))),
            Err(error) => {
                let kind = error.kind();
                ensure!(kind != ErrorKind::Indeterminate, "it has no effect, but: {error}");
            }
        }
        super::steps::release_in_vain(&*client, &super::steps::by_owner(&claim)).await?;
    }
    if client.profile().operator {
        let holder = client.inspect(&name).await?;
        ensure!(holder.is_none(), "a refused claim holds the name: {holder:?}");
    }
    Ok(())
}

async fn tokens_start_at_microseconds(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let token = take(&*client, &bench.claim(&bench.name())).await?.token;
    ensure!(token.get() > MICROS_2020, "the first token is {token}");
    Ok(())
}

async fn raised_name_grants_above(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    let above = above_the_last(&*client, bench, &name).await?;
    client.raise_tokens(Names::One(&name), above).await?;
    let floor = other.fencing_token(&name).await?;
    ensure!(floor >= Some(above), "raised to {above}, fencing_token says {floor:?}");
    rises(&mut Some(above), take(&*other, &bench.claim(&name)).await?.token)
}

async fn raised_prefix_grants_above(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let old = bench.name();
    let above = above_the_last(&*client, bench, &old).await?;
    client.raise_tokens(Names::All, above).await?;
    rises(&mut Some(above), take(&*other, &bench.claim(&old)).await?.token)?;
    for _ in 0..5 {
        rises(&mut Some(above), take(&*other, &bench.claim(&bench.name())).await?.token)?;
    }
    Ok(())
}

async fn raising_never_lowers(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    let above = above_the_last(&*client, bench, &name).await?;
    client.raise_tokens(Names::One(&name), above).await?;
    for names in [Names::One(&name), Names::All] {
        client.raise_tokens(names, Token::new(1)?).await?;
    }
    rises(&mut Some(above), take(&*client, &bench.claim(&name)).await?.token)
}

async fn fencing_token_covers_the_grants(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    for ended in [false, true, true] {
        let lease = take(&*client, &bench.long_claim(&name, 10)).await?;
        if ended {
            release(&*client, &lease.ticket()).await?;
        }
        let floor = other.fencing_token(&name).await?;
        ensure!(floor >= Some(lease.token), "{} was granted, it says {floor:?}", lease.token);
        if !ended {
            release(&*client, &lease.ticket()).await?;
        }
    }
    is_free(bench, &*other, &name).await
}

/// A number well above every token of the name.
async fn above_the_last(
    client: &dyn Backend,
    bench: &Bench,
    name: &LockName,
) -> Result<Token, Failure> {
    let lease = take(client, &bench.long_claim(name, 10)).await?;
    release(client, &lease.ticket()).await?;
    Ok(Token::new(lease.token.get() + 1_000_000)?)
}

/// `token` must be strictly above the last one, and is the last one then.
fn rises(last: &mut Option<Token>, token: Token) -> Verdict {
    ensure!(Some(token) > *last, "token {token} follows {last:?}");
    *last = Some(token);
    Ok(())
}
