//! Mistakes of names.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, HandedOver, Lease, LockName, Released, Renewal, Ticket,
    async_trait,
};

use super::twist::Twist;
use super::{Wrong, twisted};

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "names_cut_at_16",
        "keeps 16 bytes of a name",
        &["names::f69_names_are_told_apart_to_the_last_byte", "base::two_names_are_independent"],
        || twisted(|| Renamed { rename: |name| cut(name, 16) }),
    ),
    Wrong::new(
        "names_cut_at_255",
        "keeps 255 bytes of a name",
        &["names::f69_longest_names_are_told_apart"],
        || twisted(|| Renamed { rename: |name| cut(name, 255) }),
    ),
    Wrong::new(
        "names_folded",
        "compares names without regard to case",
        &[
            "names::f69_names_are_told_apart_to_the_last_byte",
            "names::f69_random_names_are_told_apart",
        ],
        || twisted(|| Renamed { rename: str::to_lowercase }),
    ),
    Wrong::new(
        "names_hashed_to_11_bits",
        "keeps a short hash in place of a name",
        &["names::c88_numbered_names_are_told_apart"],
        || twisted(|| Renamed { rename: hashed }),
    ),
    Wrong::new(
        "names_trimmed",
        "takes the spaces off a name",
        &["names::f69_names_are_told_apart_to_the_last_byte"],
        || twisted(|| Renamed { rename: |name| name.trim().to_owned() }),
    ),
    Wrong::new(
        "names_by_hash_tag",
        "keeps only what stands within braces",
        &["names::f69_names_are_told_apart_to_the_last_byte"],
        || twisted(|| Renamed { rename: within_braces }),
    ),
    Wrong::new(
        "names_nested",
        "takes a slash for the end of a name",
        &["names::f69_names_are_told_apart_to_the_last_byte"],
        || twisted(|| Renamed { rename: |name| name.split('/').next().unwrap_or("").to_owned() }),
    ),
];

fn cut(name: &str, bytes: usize) -> String {
    name[..name.floor_char_boundary(bytes)].to_owned()
}

/// The lowest 11 bits of an FNV-1a hash: fewer values than the check has names, so that two meet
/// whatever they are called.
fn hashed(name: &str) -> String {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{:03x}", name.bytes().fold(0x811c_9dc5, fold) & 0x7ff)
}

fn within_braces(name: &str) -> String {
    let inner = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inner.map_or(name, |(inner, _)| inner).to_owned()
}

/// Stores another name than it was given.
#[derive(Debug)]
struct Renamed {
    rename: fn(&str) -> String,
}

impl Renamed {
    fn name(&self, name: &LockName) -> LockName {
        LockName::new(&(self.rename)(name.as_str())).unwrap_or_else(|_| name.clone())
    }

    fn claim(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        claim.name = self.name(&claim.name);
        claim
    }

    fn lease(&self, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        lease.name = self.name(&lease.name);
        lease
    }
}

#[async_trait]
impl Twist for Renamed {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        right.acquire(&self.claim(claim)).await
    }

    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        right.renew(&self.lease(lease)).await
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let mut ticket = ticket.clone();
        ticket.name = self.name(&ticket.name);
        right.release(&ticket, reopen_after).await
    }

    async fn wake(&self, right: &Arc<dyn Backend>, claim: &Claim) {
        right.wake(&self.claim(claim)).await;
    }

    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        right.hand_over(&self.lease(lease), &self.claim(claim), yield_to_others).await
    }
}
