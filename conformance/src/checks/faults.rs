//! Lost answers, dead links, restarts, operators. Each needs a hook of the subject's store.

use std::future::Future;
use std::time::Duration;

use leasehold_api::{Backend, Error, ErrorKind};

use super::steps::{
    by_owner, free_between, grant, held, is_free, is_held_by, kept, now, pass, release,
    release_in_vain, renew, renew_in_vain, take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::subject::{Data, Link};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    f25_restart_with_data_keeps_leases_and_tokens [private], "3.1, 1.2", "over a restart the lease holds and tokens rise";
    f26_restart_without_data_revives_nothing [private], "4.3, 3.1", "after an empty restart a renewal says not mine, and tokens rise";
    f26_losing_data_revives_nothing [private], "4.3, 3.1", "after the store forgot all, the same";
    f73_deleted_record_is_a_loss, "4.3", "a renewal of a record that an operator deleted says not mine";
    f74_overwritten_record_is_a_loss, "4.2, 5.1", "what an operator put in its place is neither renewed nor released";
    truth_agrees_with_the_driver, "1.4, 3.3", "the store's own record has the token and the time left";
    f15_c145_lost_answer_to_acquire_is_found_again [private], "1.3, 8.3", "the error says indeterminate, and a retry finds the grant";
    f17_lost_answer_to_release_does_no_harm [private], "5.2, 8.3", "the error says indeterminate, and a repeat is safe";
    lost_answer_to_renewal_is_mended [private], "8.3, 4.1", "the error says indeterminate, and the next one re-arms";
    c33_slow_answer_counts_from_its_start [private], "2.2", "a grant and a renewal that take long count from their start";
    late_claim_is_not_called_settled [private], "5.4", "what lands after its clean-up was not called settled, and ends at its TTL";
    f19_c133_late_renewal_revives_nothing [private], "4.3", "a renewal that lands after the release leaves the name free";
    dead_link_can_be_left [private], "8.1", "calls into a black hole can be dropped, and the client works once it heals";
    refused_connection_has_no_effect [private], "8.3", "an error of a link that was down is not indeterminate, and the client works again";
    cut_connection_is_replaced [private], "8.1", "after a cut an idle client goes on without a new one";
}

async fn f25_restart_with_data_keeps_leases_and_tokens(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().restart(Data::Kept).await?;
    let fresh = bench.client().await?;
    is_held_by(bench, &*fresh, &lease).await?;
    again(bench, &*client, || client.renew(&lease)).await?;
    release(&*client, &lease.ticket()).await?;
    let next = take(&*fresh, &bench.claim(&lease.name)).await?;
    ensure!(next.token > lease.token, "token {} follows {}", next.token, lease.token);
    Ok(())
}

async fn f26_restart_without_data_revives_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().restart(Data::Lost).await?;
    again(bench, &*client, || client.fencing_token(&lease.name)).await?;
    lost_data(bench, &*client, &lease).await
}

async fn f26_losing_data_revives_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().lose_data().await?;
    lost_data(bench, &*client, &lease).await
}

async fn lost_data(bench: &Bench, client: &dyn Backend, lease: &leasehold_api::Lease) -> Verdict {
    renew_in_vain(client, lease).await?;
    release_in_vain(client, &lease.ticket()).await?;
    let next = take(client, &bench.claim(&lease.name)).await?;
    ensure!(next.token > lease.token, "token {} follows {}", next.token, lease.token);
    renew_in_vain(client, lease).await?;
    is_held_by(bench, client, &next).await
}

async fn f73_deleted_record_is_a_loss(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    bench.store().delete_record(&lease.name).await?;
    renew_in_vain(&*client, &lease).await?;
    release_in_vain(&*client, &lease.ticket()).await?;
    let next = take(&*other, &bench.claim(&lease.name)).await?;
    ensure!(next.token > lease.token, "token {} follows {}", next.token, lease.token);
    Ok(())
}

async fn f74_overwritten_record_is_a_loss(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    bench.store().overwrite_record(&lease.name).await?;
    let before = bench.store().record(&lease.name).await?;
    renew_in_vain(&*client, &lease).await?;
    release_in_vain(&*client, &lease.ticket()).await?;
    release_in_vain(&*client, &by_owner(&bench.claim(&lease.name))).await?;
    let after = bench.store().record(&lease.name).await?;
    ensure!(after == before, "the record was {before:?} and is {after:?}");
    held(&*other, &bench.claim(&lease.name)).await?;
    Ok(())
}

async fn truth_agrees_with_the_driver(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    ensure!(bench.store().record(&name).await?.is_none(), "a fresh name has a record");
    let claim = bench.long_claim(&name, 4);
    let start = now(&*client);
    let lease = take(&*client, &claim).await?;
    let Some(record) = bench.store().record(&name).await? else {
        return Err(Failure::failed("a held name has no record"));
    };
    ensure!(record.token.is_none_or(|token| token == lease.token), "the store has {record:?}");
    let remaining = record.remaining.unwrap_or(Duration::MAX);
    let passed = now(&*client).since(start) + Duration::from_millis(2);
    ensure!(remaining <= kept(&*client, claim.ttl), "the store keeps it for {remaining:?}");
    ensure!(remaining + passed >= claim.ttl.get(), "the store keeps it for {remaining:?}");
    release(&*client, &lease.ticket()).await?;
    let left = bench.store().record(&name).await?;
    ensure!(left.is_none(), "a released name has {left:?}");
    Ok(())
}

async fn f15_c145_lost_answer_to_acquire_is_found_again(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    let claim = bench.long_claim(&bench.name(), 200);
    warm(bench, &*far).await?;
    bench.store().link(Link::AnswersLost).await?;
    unanswered(bench, &*far, far.acquire(&claim)).await?;
    bench.store().link(Link::Healthy).await?;
    let token = grant(&*near, &claim).await?.token;
    let found = again(bench, &*far, || far.acquire(&claim)).await?;
    let same = matches!(found, leasehold_api::Acquired::Granted(grant) if grant.token == token);
    ensure!(same, "the grant of token {token} is found as {found:?}");
    release(&*far, &by_owner(&claim)).await?;
    is_free(bench, &*near, &claim.name).await
}

async fn f17_lost_answer_to_release_does_no_harm(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    let lease = take(&*far, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().link(Link::AnswersLost).await?;
    unanswered(bench, &*far, far.release(&lease.ticket(), None)).await?;
    bench.store().link(Link::Healthy).await?;
    let next = take(&*near, &bench.long_claim(&lease.name, 200)).await?;
    let ticket = lease.ticket();
    again(bench, &*far, || far.release(&ticket, None)).await?;
    is_held_by(bench, &*near, &next).await
}

async fn lost_answer_to_renewal_is_mended(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    let lease = take(&*far, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().link(Link::AnswersLost).await?;
    unanswered(bench, &*far, far.renew(&lease)).await?;
    bench.store().link(Link::Healthy).await?;
    again(bench, &*far, || far.renew(&lease)).await?;
    renew(&*far, &lease).await?;
    is_held_by(bench, &*near, &lease).await
}

async fn c33_slow_answer_counts_from_its_start(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    warm(bench, &*far).await?;
    let slow = bench.late();
    let claim = bench.long_claim(&bench.name(), 40);
    let (granted, begun) = slowly(bench, &*far, slow, far.acquire(&claim)).await?;
    let leasehold_api::Acquired::Granted(grant) = granted else {
        return Err(Failure::failed("a free name is held"));
    };
    let off = grant.validity.from.since(begun);
    ensure!(off < slow / 2, "a grant that took {slow:?} counts from {off:?} after its start");
    let lease = super::steps::lease(&claim, grant);
    let (renewed, begun) = slowly(bench, &*far, slow, far.renew(&lease)).await?;
    let leasehold_api::Renewal::Renewed(validity) = renewed else {
        return Err(Failure::failed("the lease is not mine"));
    };
    let off = validity.from.since(begun);
    ensure!(off < slow / 2, "a renewal that took {slow:?} counts from {off:?} after its start");
    Ok(())
}

async fn late_claim_is_not_called_settled(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    warm(bench, &*far).await?;
    let claim = bench.claim(&bench.name());
    bench.store().link(Link::RequestsHeld).await?;
    abandoned(bench, &*far, far.acquire(&claim)).await?;
    // Both requests are on their way, and may overtake each other.
    let ticket = by_owner(&claim);
    let heal = async {
        pass(&*near, bench.late()).await;
        bench.store().link(Link::Healthy).await
    };
    let start = now(&*near);
    let (released, healed) = tokio::join!(far.release(&ticket, None), heal);
    healed?;
    let settled = released.is_ok_and(|released| released.settled);
    pass(&*near, bench.late()).await;
    if settled {
        return is_free(bench, &*near, &claim.name).await;
    }
    let latest = now(&*near).saturating_add(kept(&*near, claim.ttl));
    free_between(bench, &*near, &claim.name, start, latest).await?;
    Ok(())
}

async fn f19_c133_late_renewal_revives_nothing(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    let lease = take(&*far, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().link(Link::RequestsHeld).await?;
    abandoned(bench, &*far, far.renew(&lease)).await?;
    release(&*near, &lease.ticket()).await?;
    bench.store().link(Link::Healthy).await?;
    pass(&*near, bench.late()).await;
    is_free(bench, &*near, &lease.name).await
}

async fn dead_link_can_be_left(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let near = bench.client().await?;
    let lease = take(&*far, &bench.long_claim(&bench.name(), 200)).await?;
    bench.store().link(Link::Blackholed).await?;
    abandoned(bench, &*far, far.renew(&lease)).await?;
    abandoned(bench, &*far, far.acquire(&bench.claim(&bench.name()))).await?;
    abandoned(bench, &*far, far.release(&lease.ticket(), None)).await?;
    is_held_by(bench, &*near, &lease).await?;
    bench.store().link(Link::Healthy).await?;
    again(bench, &*far, || far.renew(&lease)).await?;
    release(&*far, &lease.ticket()).await?;
    warm(bench, &*far).await
}

async fn refused_connection_has_no_effect(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    warm(bench, &*far).await?;
    bench.store().link(Link::Refused).await?;
    // The first call may find out that the connection is cut; from then on there is none.
    let claim = bench.long_claim(&bench.name(), 20);
    let _ = bounded(bench, &*far, far.acquire(&claim)).await;
    pass(&*far, bench.late()).await;
    if let Some(answer) = bounded(bench, &*far, far.acquire(&claim)).await {
        let error = match answer {
            Err(error) => error,
            Ok(answer) => return Err(Failure::failed(format!("with no link: {answer:?}"))),
        };
        ensure!(error.kind() == ErrorKind::Unreachable, "{:?}: {error}", error.kind());
        ensure!(error.is_retryable(), "an unreachable store is worth a retry");
    }
    bench.store().link(Link::Healthy).await?;
    again(bench, &*far, || far.acquire(&claim)).await?;
    release(&*far, &by_owner(&claim)).await
}

async fn cut_connection_is_replaced(bench: &Bench) -> Verdict {
    let far = bench.store().connect_by_link().await?;
    let lease = take(&*far, &bench.long_claim(&bench.name(), 200)).await?;
    for _ in 0..3 {
        bench.store().link(Link::Refused).await?;
        bench.store().link(Link::Healthy).await?;
        again(bench, &*far, || far.renew(&lease)).await?;
        is_held_by(bench, &*far, &lease).await?;
    }
    release(&*far, &lease.ticket()).await
}

/// A round on a name of its own, so that connections are open and scripts are known.
pub(super) async fn warm(bench: &Bench, client: &dyn Backend) -> Verdict {
    is_free(bench, client, &bench.name()).await
}

/// A call as policy makes it: bounded, and dropped then.
async fn bounded<T>(
    bench: &Bench,
    client: &dyn Backend,
    call: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        answer = call => Some(answer),
        () = pass(client, bench.ttl().get() * 2) => None,
    }
}

/// A call that gets no answer: it has to be dropped, or says that it may have taken effect.
async fn unanswered<T: std::fmt::Debug>(
    bench: &Bench,
    client: &dyn Backend,
    call: impl Future<Output = Result<T, Error>>,
) -> Verdict {
    match bounded(bench, client, call).await {
        None => Ok(()),
        Some(Err(error)) if error.kind() == ErrorKind::Indeterminate => Ok(()),
        Some(Err(error)) => Err(Failure::failed(format!(
            "the request arrived, but the error is {:?}: {error}",
            error.kind()
        ))),
        Some(Ok(answer)) => Err(Failure::failed(format!("an answer without a link: {answer:?}"))),
    }
}

/// A call whose answer nobody waits for.
async fn abandoned<T: std::fmt::Debug>(
    bench: &Bench,
    client: &dyn Backend,
    call: impl Future<Output = Result<T, Error>>,
) -> Verdict {
    tokio::select! {
        answer = call => match answer {
            Ok(answer) => Err(Failure::failed(format!("an answer without a link: {answer:?}"))),
            Err(_) => Ok(()),
        },
        () = pass(client, bench.late()) => Ok(()),
    }
}

/// A call whose answer is kept back for a while, and when it began.
async fn slowly<T>(
    bench: &Bench,
    client: &dyn Backend,
    time: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<(T, leasehold_api::Instant), Failure> {
    bench.store().link(Link::AnswersHeld).await?;
    let begun = now(client);
    let heal = async {
        pass(client, time).await;
        bench.store().link(Link::Healthy).await
    };
    let (answer, healed) = tokio::join!(call, heal);
    healed?;
    Ok((answer?, begun))
}

/// Repeats a call while its errors say that a retry may help, for as long as a reconnect takes.
pub(super) async fn again<T, F>(
    bench: &Bench,
    client: &dyn Backend,
    call: impl Fn() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Error>>,
{
    const RECONNECTS_WITHIN: Duration = Duration::from_secs(10);
    let end = now(client).saturating_add(RECONNECTS_WITHIN);
    loop {
        match bounded(bench, client, call()).await {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) if !error.is_retryable() || now(client) > end => {
                return Err(error.into());
            }
            None if now(client) > end => {
                return Err(Failure::failed("no answer over a link that healed"));
            }
            Some(Err(_)) | None => pass(client, bench.step()).await,
        }
    }
}
