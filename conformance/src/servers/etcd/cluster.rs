//! Several members.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use serde_json::json;

use super::member::{Member, Status, url};
use super::peers::Peers;
use super::settings::Settings;
use crate::gateway::Gateway;
use crate::proxy::{Action, Direction, Proxy};
use crate::servers::error::Error;
use crate::servers::missing::Kind;
use crate::servers::server::Server;
use crate::servers::way::Way;

/// How long a member may take to say who leads.
const ANSWER: Duration = Duration::from_millis(500);

/// How long an election may take.
const ELECTION: Duration = Duration::from_secs(30);

/// How often the members are asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A running cluster. Its members are [`Server`]s: each can be stopped, killed, paused, resumed and
/// started by itself.
///
/// A member that is started waits until it serves, and it serves only with a majority: start those
/// that make one together, by [`start`](Self::start). A member without its data is another member,
/// which etcd refuses under the old one's name: only all together can be
/// [emptied](Self::restart_empty).
#[must_use = "the cluster ends when this is dropped"]
pub struct EtcdCluster {
    members: Vec<Server>,
    recipes: Vec<Arc<Member>>,
    /// Each member's id.
    ids: Vec<u64>,
    url: String,
    password: Option<String>,
    // After the members, which talk through it.
    peers: Arc<Peers>,
}

impl EtcdCluster {
    pub(super) async fn launch(
        settings: &Settings,
        count: usize,
        way: Option<Way>,
    ) -> Result<Self, Error> {
        let failed = |why: String| Error::failed(Kind::Etcd, why);
        let peers = Peers::new(count, settings.separable).await;
        let peers = Arc::new(peers.map_err(|error| failed(error.to_string()))?);
        let recipe = |index| Arc::new(Member::new(settings.clone(), index, peers.clone()));
        let recipes: Vec<_> = (0..count).map(recipe).collect();
        // Together: none serves without the others.
        let members = recipes.iter().map(|recipe| Server::launch(recipe.clone(), way));
        let members = try_join_all(members).await?;
        let addresses: Vec<_> = members.iter().map(Server::addr).collect();
        let url = url(&addresses, settings.password.as_deref());
        let statuses = try_join_all(
            addresses.iter().map(|at| async { Gateway::new(*at, None).status(ELECTION).await }),
        )
        .await
        .map_err(|error| failed(error.to_string()))?;
        let ids = statuses.iter().map(|status| status.member).collect();
        let password = settings.password.clone();
        Ok(Self { members, recipes, ids, url, password, peers })
    }

    /// Its members.
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// One of them.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn member(&self, index: usize) -> &Server {
        &self.members[index]
    }

    /// The URL with all members, and with root's password if one was set.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL with these addresses in the place of the members' own, for proxies before them.
    pub fn url_at(&self, addresses: &[SocketAddr]) -> String {
        url(addresses, self.password.as_deref())
    }

    /// In which way it was started.
    pub fn way(&self) -> Way {
        self.members[0].way()
    }

    /// Who leads, once those that answer agree on one of them; the newest term counts.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if nobody leads within 30 s.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn leader(&self) -> Result<usize, Error> {
        let started = Instant::now();
        loop {
            if let Some(leader) = self.leader_now().await {
                return Ok(leader);
            }
            if started.elapsed() > ELECTION {
                let why = format!("nobody leads within {ELECTION:?}");
                return Err(Error::failed(Kind::Etcd, why));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Who does not lead, the first of them.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn follower(&self) -> Result<usize, Error> {
        Ok(usize::from(self.leader().await? == 0))
    }

    /// Makes this member lead, and waits until it does.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader); also if the leader refuses, as it does without the member's
    /// answers.
    ///
    /// # Cancel safety
    ///
    /// It may come to lead or not.
    pub async fn lead(&self, member: usize) -> Result<(), Error> {
        let leader = self.leader().await?;
        if leader == member {
            return Ok(());
        }
        let gateway = self.recipes[leader].gateway(self.members[leader].addr());
        let ask = json!({"targetID": self.ids[member].to_string()});
        let told = gateway.call("/v3/maintenance/transfer-leadership", &ask, ELECTION).await;
        told.map_err(|error| Error::failed(Kind::Etcd, error.to_string()))?;
        let started = Instant::now();
        while self.leader().await? != member {
            if started.elapsed() > ELECTION {
                let why = format!("{member} does not lead within {ELECTION:?}");
                return Err(Error::failed(Kind::Etcd, why));
            }
        }
        Ok(())
    }

    async fn leader_now(&self) -> Option<usize> {
        let ask = |member: &Server| {
            let gateway = Gateway::new(member.addr(), None);
            async move { gateway.status(ANSWER).await.ok() }
        };
        let answers: Vec<Option<Status>> = join_all(self.members.iter().map(ask)).await;
        let newest = answers.iter().flatten().max_by_key(|status| status.term)?;
        let leader = self.ids.iter().position(|id| *id == newest.leader)?;
        // It must say so too: a member goes on naming a leader that is dead or paused until it misses
        // it.
        let itself = answers[leader]?;
        (itself.leader == itself.member && itself.term == newest.term).then_some(leader)
    }

    /// What becomes from now on of all that one member sends to another, but not back: for what
    /// [`isolate`](Self::isolate) does not do.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] unless the cluster is [separable](super::Etcd::separable), and if it is one
    /// member twice.
    pub fn link(&self, from: usize, to: usize, action: Action) -> Result<(), Error> {
        // A member reads its streams from connections that it opens itself.
        self.calls(from, to)?.set(Direction::ToServer, action);
        self.calls(to, from)?.set(Direction::ToClient, action);
        Ok(())
    }

    /// Cuts one member off from all others without a word: what they send each other disappears.
    /// Clients reach it as before.
    ///
    /// # Errors
    ///
    /// As [`link`](Self::link).
    pub fn isolate(&self, member: usize) -> Result<(), Error> {
        self.calls_of(member)?.into_iter().for_each(Proxy::blackhole);
        Ok(())
    }

    /// Lets it talk with the others again, over new connections, and ends what [`link`](Self::link)
    /// does to its links.
    ///
    /// # Errors
    ///
    /// As [`link`](Self::link).
    pub fn rejoin(&self, member: usize) -> Result<(), Error> {
        for calls in self.calls_of(member)? {
            calls.heal();
            calls.cut();
        }
        Ok(())
    }

    fn calls_of(&self, member: usize) -> Result<Vec<&Proxy>, Error> {
        let others = (0..self.members.len()).filter(|other| *other != member);
        let both = others.flat_map(|other| [self.calls(member, other), self.calls(other, member)]);
        both.collect()
    }

    /// The connections that one member opens to another.
    fn calls(&self, from: usize, to: usize) -> Result<&Proxy, Error> {
        let why = || format!("no proxy from {from} to {to}: the cluster was not made separable");
        self.peers.calls(from, to).ok_or_else(|| Error::failed(Kind::Etcd, why()))
    }

    /// [Stops](Server::stop) all members.
    ///
    /// # Errors
    ///
    /// As the same of a [`Server`].
    ///
    /// # Cancel safety
    ///
    /// Some may be down; call again to be certain.
    pub async fn stop(&self) -> Result<(), Error> {
        try_join_all(self.members.iter().map(Server::stop)).await.map(drop)
    }

    /// [Kills](Server::kill) all members.
    ///
    /// # Errors
    ///
    /// As the same of a [`Server`].
    ///
    /// # Cancel safety
    ///
    /// As [`stop`](Self::stop).
    pub async fn kill(&self) -> Result<(), Error> {
        try_join_all(self.members.iter().map(Server::kill)).await.map(drop)
    }

    /// [Starts](Server::start) all members that are down, and waits until all serve.
    ///
    /// # Errors
    ///
    /// As the same of a [`Server`].
    ///
    /// # Cancel safety
    ///
    /// Some may be down or starting; call again.
    pub async fn start(&self) -> Result<(), Error> {
        try_join_all(self.members.iter().map(Server::start)).await.map(drop)
    }

    /// [`stop`](Self::stop) and [`start`](Self::start): down and up again with its data.
    ///
    /// # Errors
    ///
    /// As those two.
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn restart(&self) -> Result<(), Error> {
        self.stop().await?;
        self.start().await
    }

    /// Ends all members, removes their data, and starts them again: a cluster that knows nothing of
    /// what was.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start), with their data or without.
    pub async fn restart_empty(&self) -> Result<(), Error> {
        self.kill().await?;
        try_join_all(self.members.iter().map(|member| member.replace_data(None))).await?;
        self.start().await
    }
}

impl fmt::Debug for EtcdCluster {
    // Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCluster").field("members", &self.members).finish_non_exhaustive()
    }
}
