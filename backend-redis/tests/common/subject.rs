//! The driver as the conformance suite sees it.

use std::sync::Arc;

use async_trait::async_trait;
use leasehold_api::{Backend, LockName, Owner, Token};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::{Entry, RedisTruth};
use leasehold_conformance::{Data, Failure, Link, Record, Share, Store, Subject, Verdict};
use tokio::sync::OnceCell;

const PREFIX: &str = "conformance";

/// The driver over a server of its kind.
pub(crate) struct RedisSubject;

#[async_trait]
impl Subject for RedisSubject {
    fn name(&self) -> &str {
        "redis"
    }

    async fn store(&self, share: Share) -> Result<Box<dyn Store>, Failure> {
        let server = match share {
            Share::Shared => Place::Shared(Redis::shared().await?),
            Share::Private => Place::Private(Box::new(Redis::new().controlled().start().await?)),
        };
        let truth = RedisTruth::connect(server.server().url()).await?;
        Ok(Box::new(RedisStore { server, truth, proxy: OnceCell::new() }))
    }
}

enum Place {
    Shared(&'static Server),
    Private(Box<Server>),
}

impl Place {
    fn server(&self) -> &Server {
        match self {
            Self::Shared(server) => server,
            Self::Private(server) => server,
        }
    }
}

struct RedisStore {
    server: Place,
    truth: RedisTruth,
    proxy: OnceCell<Proxy>,
}

impl RedisStore {
    async fn proxy(&self) -> Result<&Proxy, Failure> {
        let start = || Proxy::start(self.server.server().addr(), Framing::Resp);
        Ok(self.proxy.get_or_try_init(start).await?)
    }

    /// The keys of a name, by the words between tag and name.
    async fn of(&self, name: &LockName) -> Result<Vec<(String, Entry)>, Failure> {
        let keys = self.truth.keys(&format!("{PREFIX}:")).await?;
        let of_name = |key: &[u8]| {
            let key = std::str::from_utf8(key).ok()?;
            let (_, rest) = key.split_once("}:")?;
            let (kind, of) = rest.split_once(':')?;
            (of == name.as_str()).then(|| (key.to_owned(), kind.to_owned()))
        };
        Ok(keys
            .into_iter()
            .filter_map(|(key, entry)| of_name(&key).map(|(key, _)| (key, entry)))
            .collect())
    }

    async fn lock(&self, name: &LockName) -> Result<Option<(String, Entry)>, Failure> {
        Ok(self.of(name).await?.into_iter().find(|(key, _)| key.contains("}:lock:")))
    }

    async fn must_have(&self, name: &LockName) -> Result<String, Failure> {
        match self.lock(name).await? {
            Some((key, _)) => Ok(key),
            None => Err(Failure::failed(format!("{name} has no record"))),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Failure> {
        let query = format!("prefix={PREFIX}");
        Ok(super::connect(self.server.server().url(), &query).await?)
    }

    async fn restart(&self, data: Data) -> Verdict {
        match data {
            Data::Kept => self.server.server().restart().await?,
            Data::Lost => self.server.server().restart_empty().await?,
        }
        Ok(())
    }

    async fn lose_data(&self) -> Verdict {
        Ok(self.truth.flush_all().await?)
    }

    async fn delete_record(&self, name: &LockName) -> Verdict {
        let key = self.must_have(name).await?;
        self.truth.delete(key).await?;
        Ok(())
    }

    async fn overwrite_record(&self, name: &LockName) -> Verdict {
        let key = self.must_have(name).await?;
        let record = format!("held {} 7 1 0 ", Owner::random());
        Ok(self.truth.set(key, record, None).await?)
    }

    async fn record(&self, name: &LockName) -> Result<Option<Record>, Failure> {
        Ok(self.lock(name).await?.map(|(_, entry)| {
            let token = entry.value.text().and_then(|text| text.split(' ').nth(2)?.parse().ok());
            let token = token.and_then(|token| Token::new(token).ok());
            Record { remaining: entry.ttl, token }
        }))
    }

    async fn leftovers(&self, name: &LockName) -> Result<Vec<String>, Failure> {
        Ok(self.of(name).await?.into_iter().map(|(key, _)| key).collect())
    }

    async fn connections(&self) -> Result<usize, Failure> {
        Ok(self.truth.connected("leasehold").await?)
    }

    async fn connect_by_link(&self) -> Result<Arc<dyn Backend>, Failure> {
        let url = self.proxy().await?.url(self.server.server().url());
        Ok(super::connect(&url, &format!("prefix={PREFIX}")).await?)
    }

    async fn link(&self, link: Link) -> Verdict {
        use Direction::{ToClient, ToServer};
        let proxy = self.proxy().await?;
        match link {
            Link::Healthy => {
                proxy.heal();
                proxy.accept().await?;
            }
            Link::Refused => {
                proxy.refuse().await;
                proxy.reset();
            }
            Link::Blackholed => {
                proxy.set(ToServer, Action::Silence);
                proxy.set(ToClient, Action::Silence);
            }
            Link::AnswersLost => proxy.set(ToClient, Action::Silence),
            Link::AnswersHeld => proxy.set(ToClient, Action::Hold),
            Link::RequestsHeld => proxy.set(ToServer, Action::Hold),
            Link::RequestsDoubled => proxy.set(ToServer, Action::Duplicate),
            Link::CutAtRequest(after) => {
                proxy.on(ToServer, Match::answers().skip(after), Action::Cut);
            }
            Link::CutAtAnswer(after) => {
                proxy.on(ToClient, Match::answers().skip(after), Action::Cut);
            }
            other => {
                let why = format!("the proxy has no state {other:?}");
                return Err(Failure::not_applicable(why));
            }
        }
        Ok(())
    }
}
