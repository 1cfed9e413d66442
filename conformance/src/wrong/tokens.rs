//! Mistakes of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, HandedOver, Lease, LockName, Names, Released, Renewal, Ticket,
    Token, async_trait,
};

use super::twist::Twist;
use super::{Wrong, twisted};

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "token_constant",
        "grants every lease with the same token",
        &[
            "tokens::c136_tokens_rise_over_release",
            "exclusion::contending_clients_leave_a_good_history",
        ],
        || twisted(|| Told { told: |_| 1_700_000_000_000_000 }),
    ),
    Wrong::new(
        "token_repeated",
        "grants two leases in a row with one token",
        &["tokens::c136_tokens_rise_over_release"],
        || twisted(TokenRepeated::default),
    ),
    Wrong::new(
        "token_cut_to_14_digits",
        "writes the token as a double with 14 digits",
        &["tokens::high_tokens_are_kept_to_the_last_digit"],
        || twisted(|| Told { told: |token| token / 100 * 100 }),
    ),
    Wrong::new(
        "token_counted_by_the_client",
        "each client counts for itself",
        &["tokens::tokens_rise_over_reconnect", "tokens::tokens_start_at_microseconds"],
        || twisted(CountedByTheClient::default),
    ),
    Wrong::new(
        "above_is_ignored",
        "does not look at what the claim asks",
        &["tokens::token_is_above_what_the_claim_asks"],
        || twisted(|| AboveIsIgnored),
    ),
    Wrong::new(
        "raising_is_ignored",
        "says that tokens are raised, and raises none",
        &["tokens::raised_name_grants_above", "tokens::raised_prefix_grants_above"],
        || twisted(|| RaisingIsIgnored),
    ),
    Wrong::new(
        "raises_one_name_for_all",
        "does nothing when all names are to be raised",
        &["tokens::raised_prefix_grants_above"],
        || twisted(|| RaisesOneNameForAll),
    ),
    Wrong::new(
        "fencing_token_forgets",
        "knows only of tokens that are held",
        &["tokens::fencing_token_covers_the_grants"],
        || twisted(|| FencingTokenForgets),
    ),
];

/// Tells a token of its own in place of the store's, which it finds again by the owner.
#[derive(Debug)]
struct Told {
    told: fn(u64) -> u64,
}

impl Told {
    fn tell(&self, token: &mut Token) -> Result<(), Error> {
        *token = Token::new((self.told)(token.get()))?;
        Ok(())
    }

    async fn real(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        token: Token,
    ) -> Result<Token, Error> {
        let held = right.inspect(name).await?.map(|holder| holder.token);
        Ok(held.filter(|held| (self.told)(held.get()) == token.get()).unwrap_or(token))
    }
}

#[async_trait]
impl Twist for Told {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        match &mut answer {
            Acquired::Granted(grant) => self.tell(&mut grant.token)?,
            Acquired::Held { holder, .. } => {
                holder.iter_mut().try_for_each(|holder| self.tell(&mut holder.token))?;
            }
        }
        Ok(answer)
    }

    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let mut real = lease.clone();
        real.token = self.real(right, &lease.name, lease.token).await?;
        right.renew(&real).await
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let mut real = ticket.clone();
        if let Some(token) = &mut real.token {
            *token = self.real(right, &ticket.name, *token).await?;
        }
        right.release(&real, reopen_after).await
    }

    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        let mut real = lease.clone();
        real.token = self.real(right, &lease.name, lease.token).await?;
        let mut answer = right.hand_over(&real, claim, yield_to_others).await?;
        if let HandedOver::Granted(grant) = &mut answer {
            self.tell(&mut grant.token)?;
        }
        Ok(answer)
    }
}

/// Every second grant of a client has the token of the one before it.
#[derive(Debug, Default)]
struct TokenRepeated {
    grants: AtomicU64,
    last: AtomicU64,
}

#[async_trait]
impl Twist for TokenRepeated {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        if let Acquired::Granted(grant) = &mut answer {
            if self.grants.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                grant.token = Token::new(self.last.load(Ordering::Relaxed))?;
            } else {
                self.last.store(grant.token.get(), Ordering::Relaxed);
            }
        }
        Ok(answer)
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let by_owner = Ticket::by_owner(ticket.name.clone(), ticket.owner);
        right.release(&by_owner, reopen_after).await
    }
}

#[derive(Debug, Default)]
struct CountedByTheClient {
    count: AtomicU64,
}

#[async_trait]
impl Twist for CountedByTheClient {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        if let Acquired::Granted(grant) = &mut answer {
            grant.token = Token::new(self.count.fetch_add(1, Ordering::Relaxed) + 1)?;
        }
        Ok(answer)
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let by_owner = Ticket::by_owner(ticket.name.clone(), ticket.owner);
        right.release(&by_owner, reopen_after).await
    }
}

#[derive(Debug)]
struct AboveIsIgnored;

#[async_trait]
impl Twist for AboveIsIgnored {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        right.acquire(&claim.clone().with_above(None)).await
    }

    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        right.hand_over(lease, &claim.clone().with_above(None), yield_to_others).await
    }
}

#[derive(Debug)]
struct RaisingIsIgnored;

#[async_trait]
impl Twist for RaisingIsIgnored {
    async fn raise_tokens(
        &self,
        _right: &Arc<dyn Backend>,
        _names: Names<'_>,
        _above: Token,
    ) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct RaisesOneNameForAll;

#[async_trait]
impl Twist for RaisesOneNameForAll {
    async fn raise_tokens(
        &self,
        right: &Arc<dyn Backend>,
        names: Names<'_>,
        above: Token,
    ) -> Result<(), Error> {
        match names {
            Names::One(_) => right.raise_tokens(names, above).await,
            Names::All => Ok(()),
        }
    }
}

#[derive(Debug)]
struct FencingTokenForgets;

#[async_trait]
impl Twist for FencingTokenForgets {
    async fn fencing_token(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
    ) -> Result<Option<Token>, Error> {
        Ok(right.inspect(name).await?.map(|holder| holder.token))
    }
}
