//! The store's own state after each operation, against a model of one name.

use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, HandedOver, Instant, Lease, Renewal, Ticket, Ttl, Validity,
};

use super::dice::Dice;
use super::steps::{kept, lease, now, pass, promised};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    c54_store_is_what_the_model_says_after_each_operation [private], "1.2, 4.1, 5.1, 7.1", "after each of a hundred random operations of three clients the store's own record is the model's: no operation does another's work";
}

/// What the store must have of the name.
#[derive(Debug, Clone)]
enum Model {
    Free,
    Held(Lease, Window),
}

/// When a lease ends: no earlier and no later than so.
#[derive(Debug, Clone, Copy)]
struct Window {
    earliest: Instant,
    latest: Instant,
}

async fn c54_store_is_what_the_model_says_after_each_operation(bench: &Bench) -> Verdict {
    let clients = bench.clients::<3>().await?;
    let mut dice = Dice::seeded(54);
    let name = bench.name();
    let mut model = Model::Free;
    let mut past: Vec<Lease> = Vec::new();
    let mut history = Vec::new();
    for _ in 0..rounds(100, 2_000) {
        let client = &*clients[dice.index(clients.len())];
        // So long that none ends by itself between two steps.
        let claim = bench.long_claim(&name, 40 + u32::try_from(dice.below(20)).expect("small"));
        let mine = match &model {
            Model::Held(lease, _) if dice.below(3) > 0 => Some(lease.clone()),
            _ => past.get(dice.index(past.len() + 1)).cloned(),
        };
        let (what, next) = match (dice.below(5), mine) {
            (0, _) | (_, None) => ("acquire", acquire(client, &model, &claim).await?),
            (1 | 2, Some(lease)) => ("renew", renew(client, &model, &lease).await?),
            (3, Some(lease)) => ("release", release(client, &model, &lease.ticket()).await?),
            (_, Some(lease)) => ("hand over", hand_over(client, &model, &lease, &claim).await?),
        };
        history.push(what);
        if let Model::Held(lease, _) = &next
            && past.last() != Some(lease)
        {
            past.push(lease.clone());
        }
        model = next;
        agrees(bench, client, &name, &model).await.map_err(|failure| {
            let last = &history[history.len().saturating_sub(5)..];
            Failure::failed(format!("after {last:?}: {}", failure.why()))
        })?;
        pass(client, dice.part_of(Duration::from_millis(3))).await;
    }
    Ok(())
}

async fn acquire(client: &dyn Backend, model: &Model, claim: &Claim) -> Result<Model, Failure> {
    match (model, client.acquire(claim).await?) {
        (Model::Held(..), Acquired::Held { .. }) => Ok(model.clone()),
        (Model::Free, Acquired::Granted(grant)) => {
            let window = window(client, &grant.validity, claim.ttl);
            Ok(Model::Held(lease(claim, grant), window))
        }
        (model, answer) => Err(Failure::failed(format!("it answers {answer:?} to {model:?}"))),
    }
}

async fn renew(client: &dyn Backend, model: &Model, lease: &Lease) -> Result<Model, Failure> {
    let renewal = client.renew(lease).await?;
    let renewed = matches!(renewal, Renewal::Renewed(_));
    ensure!(renewed == is_mine(model, &lease.ticket()), "renewed: {renewed}, in {model:?}");
    Ok(match renewal {
        Renewal::Renewed(validity) => {
            Model::Held(lease.clone(), window(client, &validity, lease.ttl))
        }
        Renewal::NotMine(_) => model.clone(),
    })
}

async fn release(client: &dyn Backend, model: &Model, ticket: &Ticket) -> Result<Model, Failure> {
    let released = client.release(ticket, None).await?.outcome.is_ok();
    ensure!(released == is_mine(model, ticket), "released: {released}, in {model:?}");
    Ok(if released { Model::Free } else { model.clone() })
}

async fn hand_over(
    client: &dyn Backend,
    model: &Model,
    old: &Lease,
    claim: &Claim,
) -> Result<Model, Failure> {
    match (client.hand_over(old, claim, false).await?, is_mine(model, &old.ticket())) {
        (HandedOver::Granted(grant), true) => {
            let window = window(client, &grant.validity, claim.ttl);
            Ok(Model::Held(lease(claim, grant), window))
        }
        (HandedOver::NotMine(_), false) => Ok(model.clone()),
        (answer, _) => Err(Failure::failed(format!("it answers {answer:?} to {model:?}"))),
    }
}

fn is_mine(model: &Model, ticket: &Ticket) -> bool {
    matches!(model, Model::Held(lease, _)
        if lease.owner == ticket.owner && Some(lease.token) == ticket.token)
}

/// When what was armed before now may end.
fn window(client: &dyn Backend, validity: &Validity, ttl: Ttl) -> Window {
    let latest = now(client).saturating_add(kept(client, ttl));
    Window { earliest: promised(validity, ttl), latest }
}

/// What the store rounds by, where that is more than a millisecond.
fn granularity(client: &dyn Backend) -> Duration {
    let granularity = client.profile().ttl_granularity;
    if granularity > Duration::from_millis(1) { granularity } else { Duration::ZERO }
}

async fn agrees(
    bench: &Bench,
    client: &dyn Backend,
    name: &leasehold_api::LockName,
    model: &Model,
) -> Verdict {
    const ROUNDING: Duration = Duration::from_millis(1);
    let before = now(client);
    let record = bench.store().record(name).await?;
    let after = now(client);
    match (model, record) {
        (Model::Free, None) => Ok(()),
        (Model::Held(lease, window), Some(record)) => {
            let token = record.token.unwrap_or(lease.token);
            ensure!(token == lease.token, "the store has token {token}, not {}", lease.token);
            let remaining = record.remaining.unwrap_or(Duration::MAX);
            // What is read is as coarse as what is kept.
            let most = window.latest.since(before) + granularity(client);
            ensure!(remaining <= most, "the store keeps it for {remaining:?}, at most {most:?}");
            let least = window.earliest.since(after.saturating_add(ROUNDING));
            ensure!(remaining >= least, "the store keeps it for {remaining:?}, at least {least:?}");
            Ok(())
        }
        (model, record) => Err(Failure::failed(format!("the store has {record:?} in {model:?}"))),
    }
}
