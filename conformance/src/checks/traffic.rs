//! Requests that were never sent, arrive twice, or are cut off at one message or another.

use leasehold_api::{Acquired, Ttl};

use super::faults::{again, warm};
use super::steps::{
    by_owner, free_between, hand_over, held, is_free, is_held_by, kept, lease, now, pass, release,
    release_in_vain, renew, take,
};
use crate::bench::Bench;
use crate::cancel::drop_after;
use crate::ensure;
use crate::subject::Link;
use crate::table::checks;
use crate::verdict::{End, Failure, Verdict};

checks! { Faults:
    f6_acquire_dropped_before_it_is_sent_leaves_nothing [private], "8.1, 1.1", "an acquire that is dropped before its first poll, or while there is no link, never lands";
    f16_c48_request_that_arrives_twice_holds_once [private], "1.3, 4.1, 5.2", "with every request delivered twice a name is held once, and one release frees it";
    c141_link_cut_at_each_message_leaves_one_record [private], "8.1, 8.3, 1.3", "with the link cut at each message of an acquire, the same owner holds one lease at most, and a release leaves nothing";
    c58_overrun_owner_changes_nothing_of_the_next_lease, "5.2, 4.3", "what an expired owner sends leaves the next holder's lease as it was";
}

async fn f6_acquire_dropped_before_it_is_sent_leaves_nothing(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    warm(bench, &*far).await?;
    let mut names = Vec::new();
    for (client, queued) in [(&far, false), (&far, true), (&near, false), (&near, true)] {
        let claim = bench.long_claim(&bench.name(), 200).with_queue(queued);
        drop(client.acquire(&claim));
        names.push(claim.name);
    }
    bench.store().link(Link::Refused).await?;
    pass(&*near, bench.late()).await;
    for polls in 1..6 {
        let claim = bench.long_claim(&bench.name(), 200);
        drop_after(polls, far.acquire(&claim)).await;
        names.push(claim.name);
    }
    bench.store().link(Link::Healthy).await?;
    again(bench, &*far, || far.fencing_token(&names[0])).await?;
    pass(&*near, bench.late()).await;
    for name in &names {
        match bench.store().leftovers(name).await {
            Ok(left) => ensure!(left.is_empty(), "of {name} the store has {left:?}"),
            Err(failure) if failure.end() == End::NotApplicable => {}
            Err(failure) => return Err(failure),
        }
        is_free(bench, &*near, name).await?;
    }
    Ok(())
}

async fn f16_c48_request_that_arrives_twice_holds_once(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    warm(bench, &*far).await?;
    bench.store().link(Link::RequestsDoubled).await?;
    let claim = bench.long_claim(&bench.name(), 20);
    let once = take(&*far, &claim).await?;
    is_held_by(bench, &*near, &once).await?;
    renew(&*far, &once).await?;
    bench.store().link(Link::Healthy).await?;
    release(&*far, &once.ticket()).await?;
    is_free(bench, &*near, &claim.name).await?;
    bench.store().link(Link::RequestsDoubled).await?;
    for open in [None, Some(bench.ttl())] {
        let first = take(&*far, &bench.long_claim(&bench.name(), 20)).await?;
        let second = hand_over(&*far, &first, &bench.long_claim(&first.name, 20)).await?;
        ensure!(second.token > first.token, "token {} follows {}", second.token, first.token);
        is_held_by(bench, &*near, &second).await?;
        let start = now(&*near);
        let outcome = far.release(&second.ticket(), open.map(Ttl::get)).await?.outcome;
        ensure!(outcome.is_ok(), "a release that arrives twice answers {outcome:?}");
        let Some(open) = open else {
            is_free(bench, &*near, &first.name).await?;
            continue;
        };
        let latest = now(&*near).saturating_add(kept(&*near, open));
        let earliest = start.saturating_add(open.get());
        free_between(bench, &*near, &first.name, earliest, latest).await?;
    }
    Ok(())
}

async fn c141_link_cut_at_each_message_leaves_one_record(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    for queued in [false, true] {
        for after in 0..4 {
            for cut in [Link::CutAtRequest(after), Link::CutAtAnswer(after)] {
                warm_again(bench, &*far).await?;
                let claim = bench.long_claim(&bench.name(), 200).with_queue(queued);
                bench.store().link(cut).await?;
                let first = far.acquire(&claim).await;
                let found = again(bench, &*far, || far.acquire(&claim)).await?;
                bench.store().link(Link::Healthy).await?;
                let Acquired::Granted(grant) = found else {
                    let why = format!("{cut:?}: after {first:?} the same owner finds {found:?}");
                    return Err(Failure::failed(why));
                };
                if let Ok(Acquired::Granted(first)) = &first {
                    let (was, is) = (first.token, grant.token);
                    ensure!(was == is, "{cut:?}: token {was} became {is}");
                }
                let lease = lease(&claim, grant);
                is_held_by(bench, &*near, &lease).await?;
                let ticket = by_owner(&claim);
                again(bench, &*far, || far.release(&ticket, None)).await?;
                is_free(bench, &*near, &claim.name).await?;
                release_in_vain(&*near, &lease.ticket()).await?;
            }
        }
    }
    Ok(())
}

/// The connection may be cut from the round before.
async fn warm_again(bench: &Bench, far: &dyn leasehold_api::Backend) -> Verdict {
    let claim = bench.long_claim(&bench.name(), 20);
    again(bench, far, || far.acquire(&claim)).await?;
    release(far, &by_owner(&claim)).await
}

async fn c58_overrun_owner_changes_nothing_of_the_next_lease(bench: &Bench) -> Verdict {
    let [client, other, third] = bench.clients().await?;
    let claim = bench.claim(&bench.name());
    let old = take(&*client, &claim).await?;
    pass(&*client, kept(&*client, old.ttl) + bench.late()).await;
    let next = bench.claim(&old.name);
    let earliest = now(&*other).saturating_add(next.ttl.get());
    let lease = take(&*other, &next).await?;
    let latest = now(&*other).saturating_add(kept(&*other, next.ttl));
    for ticket in [old.ticket(), by_owner(&claim)] {
        release_in_vain(&*client, &ticket).await?;
        let closed = client.release(&ticket, Some(bench.ttls(40).get())).await?.outcome;
        ensure!(closed.is_err(), "an expired owner closed the next holder's name");
    }
    held(&*third, &bench.claim(&old.name)).await?;
    is_held_by(bench, &*other, &lease).await?;
    free_between(bench, &*third, &old.name, earliest, latest).await?;
    Ok(())
}
