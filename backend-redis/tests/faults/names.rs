//! Where the keys of a name lie.

use std::collections::BTreeMap;

use leasehold_api::{Ticket, Token};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure, rounds};

use crate::common::{claim, connect, take};
use crate::dice::{self, Dice};

/// Parts that a rule for slots could trip over.
const PARTS: [&str; 12] =
    ["{", "}", "{}", "{a}", "}{", ":", "lock:", ":token", "{v1:00}", "a", "é", " "];

pub(crate) async fn f35_all_keys_of_a_lock_share_a_slot() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    // It has no cluster to be in, and knows the rule.
    let ruler = Redis::new().arg("--cluster-enabled", "yes").start().await?;
    let ruler = RedisTruth::connect(ruler.url()).await?;
    let client = connect(server.url(), "prefix=slots").await?;
    let seed = dice::asked().unwrap_or_else(dice::fresh);
    let mut dice = Dice::new(seed);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds(100, 2_000) {
        let part = |_| PARTS[dice.below(PARTS.len() as u64) as usize];
        let name: String = (0..5).map(part).collect();
        // A record, a counter, and a wait list with its entries.
        let claimed = claim(&name).with_above(Some(Token::new(7)?));
        take(&*client, &claimed).await?;
        let waiting = claim(&name).with_queue(true);
        client.acquire(&waiting).await?;
        let mut slots = Vec::new();
        for key in truth.keys("slots:").await?.into_keys() {
            let key = String::from_utf8(key)?;
            slots.push((format!("{:?}", ruler.command(&["CLUSTER", "KEYSLOT", &key]).await?), key));
        }
        let same = slots.windows(2).all(|pair| pair[0].0 == pair[1].0);
        ensure!(same && slots.len() == 4, "LEASEHOLD_SEED={seed}, round {round}: {slots:?}");
        *kinds.entry(slots[0].0.clone()).or_default() += 1;
        client.release(&Ticket::by_owner(waiting.name, waiting.owner), None).await?;
        truth.flush_all().await?;
    }
    ensure!(kinds.len() > 20, "names are spread over slots: {kinds:?}");
    Ok(())
}
