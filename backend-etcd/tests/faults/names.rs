//! Which locks are one.

use futures_util::future::try_join_all;
use leasehold_conformance::{Verdict, ensure};

use crate::place::Place;

pub(crate) async fn prefixes_and_names_do_not_meet() -> Verdict {
    let mut guards = Vec::new();
    let mut places = Vec::new();
    for prefix in ["names", "names/a", "name"] {
        let place = Place::shared(prefix).await?;
        let locks = place.locks().await?;
        for name in ["a", "a/b", "a/", "a%2Fb", "A", "lock/a", "floor"] {
            let guard = locks.lock(name)?.try_acquire().await?;
            ensure!(guard.is_some(), "{prefix} {name} meets another: {guard:?}");
            guards.extend(guard);
        }
        places.push(place);
    }
    for (n, guard) in guards.iter().enumerate() {
        let place = &places[n * places.len() / guards.len()];
        let claims = place.claims(guard.name()).await?;
        ensure!(claims.len() == 1 && claims[0].owner == Some(guard.owner()), "{claims:?}");
    }
    try_join_all(guards.into_iter().map(leasehold::Guard::release)).await?;
    Ok(())
}
