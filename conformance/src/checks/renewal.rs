//! Re-arming a lease.

use leasehold_api::{Backend, Lease, Owner, Renewal, Token};

use super::steps::{
    free_between, grant, is_free, is_held_by, kept, now, pass, release, renew, renew_in_vain, take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Renewal:
    renewal_re_arms_from_now, "4.1", "a renewed lease ends one TTL after the renewal";
    renewal_never_adds, "4.1", "three renewals at once keep one TTL, not three";
    renewal_never_creates, "4.3", "a renewal of what was never granted leaves the name free";
    c15_c16_renewal_never_revives_an_expired_lease, "4.2, 4.3", "a renewal past the end leaves the name free, by whatever verb, also when another had it meanwhile";
    renewal_never_revives_a_released_lease, "4.3", "a renewal after the release leaves the name free";
    c7_renewal_never_touches_anothers_lease, "4.3", "a renewal past the end leaves the next holder's lease as it was";
    renewal_compares_the_owner, "4.2", "another owner with the right token renews nothing";
    renewal_compares_the_token, "4.2", "the right owner with another token renews nothing";
    renewal_keeps_the_token, "3.7", "a renewed lease has the token it was granted with";
    renewal_by_another_client_works, "4.2", "owner and token are enough to renew";
    renew_all_answers_each_in_order, "4.4", "of 100 leases each gets its own answer, and bad ones spoil none";
}

async fn renewal_re_arms_from_now(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    pass(&*client, lease.ttl.get() / 2).await;
    let earliest = now(&*client).saturating_add(lease.ttl.get());
    let validity = renew(&*client, &lease).await?;
    let latest = now(&*client).saturating_add(kept(&*client, lease.ttl));
    let remaining = validity.remaining;
    ensure!(remaining <= kept(&*client, lease.ttl), "{remaining:?} of {} remain", lease.ttl);
    free_between(bench, &*other, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn renewal_never_adds(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    renew(&*client, &lease).await?;
    renew(&*client, &lease).await?;
    let earliest = now(&*client).saturating_add(lease.ttl.get());
    renew(&*client, &lease).await?;
    let latest = now(&*client).saturating_add(kept(&*client, lease.ttl));
    free_between(bench, &*other, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn renewal_never_creates(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = Lease::new(bench.name(), Owner::random(), Token::new(7)?, bench.ttls(4));
    renew_in_vain(&*client, &lease).await?;
    is_free(bench, &*other, &lease.name).await
}

async fn c15_c16_renewal_never_revives_an_expired_lease(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    pass(&*client, kept(&*client, lease.ttl) + bench.late()).await;
    every_renewal_is_in_vain(bench, &*client, &lease).await?;
    is_free(bench, &*other, &lease.name).await?;
    every_renewal_is_in_vain(bench, &*client, &lease).await?;
    is_free(bench, &*other, &lease.name).await
}

/// A renewal by itself, alone in a batch, and between two that are good.
async fn every_renewal_is_in_vain(bench: &Bench, client: &dyn Backend, lease: &Lease) -> Verdict {
    renew_in_vain(client, lease).await?;
    let good = take(client, &bench.long_claim(&bench.name(), 20)).await?;
    let batches = [vec![lease.clone()], vec![good.clone(), lease.clone(), good.clone()]];
    for batch in batches {
        for (asked, answer) in batch.iter().zip(client.renew_all(&batch).await) {
            let renewed = matches!(answer?, Renewal::Renewed(_));
            let good = asked.owner == good.owner;
            ensure!(renewed == good, "in a batch of {} it was renewed: {renewed}", batch.len());
        }
    }
    release(client, &good.ticket()).await
}

async fn renewal_never_revives_a_released_lease(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 4)).await?;
    release(&*client, &lease.ticket()).await?;
    renew_in_vain(&*client, &lease).await?;
    is_free(bench, &*other, &lease.name).await
}

async fn c7_renewal_never_touches_anothers_lease(bench: &Bench) -> Verdict {
    let [client, other, third] = bench.clients().await?;
    let name = bench.name();
    let old = take(&*client, &bench.claim(&name)).await?;
    pass(&*client, kept(&*client, old.ttl) + bench.late()).await;
    let claim = bench.claim(&name);
    let earliest = now(&*other).saturating_add(claim.ttl.get());
    let lease = take(&*other, &claim).await?;
    let latest = now(&*other).saturating_add(kept(&*other, claim.ttl));
    pass(&*other, bench.step()).await;
    renew_in_vain(&*client, &old).await?;
    is_held_by(bench, &*other, &lease).await?;
    free_between(bench, &*third, &name, earliest, latest).await?;
    Ok(())
}

async fn renewal_compares_the_owner(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.claim(&bench.name());
    let earliest = now(&*client).saturating_add(claim.ttl.get());
    let lease = take(&*client, &claim).await?;
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    pass(&*client, claim.ttl.get() / 2).await;
    let mut forged = lease.clone();
    forged.owner = Owner::random();
    renew_in_vain(&*other, &forged).await?;
    free_between(bench, &*other, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn renewal_compares_the_token(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.claim(&bench.name());
    let earliest = now(&*client).saturating_add(claim.ttl.get());
    let lease = take(&*client, &claim).await?;
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    pass(&*client, claim.ttl.get() / 2).await;
    for token in [lease.token.get() - 1, lease.token.get() + 1] {
        let mut forged = lease.clone();
        forged.token = Token::new(token)?;
        renew_in_vain(&*client, &forged).await?;
    }
    free_between(bench, &*other, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn renewal_keeps_the_token(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let claim = bench.long_claim(&bench.name(), 4);
    let lease = take(&*client, &claim).await?;
    renew(&*client, &lease).await?;
    let found = grant(&*client, &claim).await?.token;
    ensure!(found == lease.token, "token {} became {found}", lease.token);
    renew(&*client, &lease).await?;
    release(&*client, &lease.ticket()).await
}

async fn renewal_by_another_client_works(bench: &Bench) -> Verdict {
    let [client, other, third] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 4)).await?;
    pass(&*other, lease.ttl.get() / 2).await;
    // It would take the lease for lost that it has not renewed itself.
    drop(client);
    renew(&*other, &lease).await?;
    pass(&*other, lease.ttl.get() * 3 / 4).await;
    is_held_by(bench, &*third, &lease).await
}

async fn renew_all_answers_each_in_order(bench: &Bench) -> Verdict {
    const LEASES: usize = 100;
    let client = bench.client().await?;
    ensure!(client.renew_all(&[]).await.is_empty(), "no lease was renewed with an answer");
    let mut leases = Vec::with_capacity(LEASES);
    for number in 0..LEASES {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
        if number % 3 == 1 {
            release(&*client, &lease.ticket()).await?;
        }
        leases.push(lease);
    }
    let answers = client.renew_all(&leases).await;
    ensure!(answers.len() == LEASES, "{} answers to {LEASES} leases", answers.len());
    for (number, answer) in answers.into_iter().enumerate() {
        let mine = matches!(answer?, Renewal::Renewed(_));
        ensure!(mine == (number % 3 != 1), "lease {number} has another's answer");
    }
    let mut again = leases[0].clone();
    again.ttl = bench.ttls(40);
    for answer in client.renew_all(&[again.clone(), again]).await {
        ensure!(matches!(answer?, Renewal::Renewed(_)), "a lease twice in a batch is not mine");
    }
    Ok(())
}
