//! The scripted driver does as it is told.

use super::{Delay, Effect, Gate, Landing, Scripted, Step, Verb};
use leasehold_api::{
    Acquired, Backend, Claim, Clock as _, ErrorKind, LockName, Owner, Ticket, TokioClock, Ttl,
};
use leasehold_memory::Memory;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn claim() -> Claim {
    let ttl = Ttl::new(10 * SECOND).unwrap();
    Claim::new(LockName::new("n").unwrap(), Owner::random(), ttl)
}

fn scripted() -> (Scripted, Memory) {
    let memory = Memory::new();
    (Scripted::new(Arc::new(memory.clone())), memory)
}

async fn is_held(memory: &Memory) -> bool {
    memory.inspect(&LockName::new("n").unwrap()).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn an_error_takes_effect_or_not_as_told() {
    for (effect, held) in [(Effect::Done, true), (Effect::Not, false)] {
        let (scripted, memory) = scripted();
        scripted.next(Verb::Acquire, [Step::Error(ErrorKind::Busy, effect)]);
        let error = scripted.acquire(&claim()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert_eq!(is_held(&memory).await, held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_error_takes_no_effect() {
    let (scripted, memory) = scripted();
    scripted.next(Verb::Acquire, [Step::LateError(Delay::For(SECOND), ErrorKind::Auth)]);
    let start = TokioClock.now();
    let error = scripted.acquire(&claim()).await.unwrap_err();
    assert_eq!((error.kind(), TokioClock.now().since(start)), (ErrorKind::Auth, SECOND));
    assert!(!is_held(&memory).await);
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_counts_from_the_start_of_its_call() {
    for landing in [Landing::Before, Landing::After, Landing::Surely] {
        let (scripted, memory) = scripted();
        scripted.always(Verb::Acquire, Step::Late(Delay::For(SECOND), landing));
        let start = TokioClock.now();
        let (call, held) = (scripted.clone(), claim());
        let call = tokio::spawn(async move { call.acquire(&held).await });
        scripted.made(Verb::Acquire, 1).await;
        tokio::task::yield_now().await;
        assert_eq!(is_held(&memory).await, landing == Landing::Before);
        let Acquired::Granted(grant) = call.await.unwrap().unwrap() else { panic!("held") };
        assert_eq!(grant.validity.from, start);
        assert_eq!(TokioClock.now().since(start), SECOND);
        assert!(is_held(&memory).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_lands_only_if_it_was_on_its_way() {
    for (landing, lands) in [(Landing::After, false), (Landing::Surely, true)] {
        let (scripted, memory) = scripted();
        let gate = Gate::closed();
        scripted.next(Verb::Acquire, [Step::Late(Delay::Until(gate.clone()), landing)]);
        let claim = claim();
        let ticket = Ticket::by_owner(claim.name.clone(), claim.owner);
        assert!(tokio::time::timeout(SECOND, scripted.acquire(&claim)).await.is_err());
        assert_eq!(scripted.release(&ticket, None).await.unwrap().settled, !lands);
        gate.open();
        tokio::time::sleep(SECOND).await;
        assert_eq!(is_held(&memory).await, lands);
        assert!(scripted.release(&ticket, None).await.unwrap().settled);
        assert!(!is_held(&memory).await);
    }
}

#[tokio::test(start_paused = true)]
async fn never_is_never_with_an_effect_or_without() {
    for (effect, held) in [(Effect::Done, true), (Effect::Not, false)] {
        let (scripted, memory) = scripted();
        scripted.next(Verb::Acquire, [Step::Never(effect)]);
        assert!(tokio::time::timeout(SECOND, scripted.acquire(&claim())).await.is_err());
        assert_eq!(is_held(&memory).await, held);
        assert_eq!(scripted.count(Verb::Acquire), 1);
    }
}
