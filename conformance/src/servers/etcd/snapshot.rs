//! A copy of the data, and the way back to it.

use std::path::PathBuf;

use futures_util::future::try_join_all;
use tempfile::TempDir;
use tokio::process::Command;

use super::cluster::EtcdCluster;
use super::member::Member;
use crate::gateway::Credentials;
use crate::servers::error::Error;
use crate::servers::missing::Kind;
use crate::servers::process::find;
use crate::servers::server::Server;

/// What the server held at one instant, as `etcdctl snapshot save` writes it.
///
/// A restored server is an older one that does not know it: with the cluster id of before, and at
/// an older revision.
#[derive(Debug)]
pub struct Snapshot {
    directory: TempDir,
}

impl Snapshot {
    /// Copies what this server, or member, holds.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where there is no `etcdctl`; [`Error::Failed`] if it fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind.
    pub async fn take(server: &Server) -> Result<Self, Error> {
        let snapshot = Self { directory: directory("snapshot")? };
        let mut tool = Command::new(tool(&["etcdctl"])?);
        tool.arg(format!("--endpoints=http://{}", server.addr()));
        if let Some(Credentials { user, password }) = Credentials::of_url(server.url()) {
            // Not among its arguments, which everybody sees.
            tool.env("ETCDCTL_USER", format!("{user}:{password}"));
        }
        tool.args(["snapshot", "save"]).arg(snapshot.file());
        run(tool).await?;
        Ok(snapshot)
    }

    /// Kills the server, puts this in the place of its data, and starts it again.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take) and [`Server::start`]; [`Error::Unsupported`] by
    /// [`Way::Url`](super::super::Way::Url).
    ///
    /// # Cancel safety
    ///
    /// The server may be down, with these data or the other.
    pub async fn restore(&self, server: &Server) -> Result<(), Error> {
        server.replace_data(Some(self.data(server).await?)).await?;
        server.start().await
    }

    /// The same with all members of a cluster.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    ///
    /// # Cancel safety
    ///
    /// As [`restore`](Self::restore), each member.
    pub async fn restore_cluster(&self, cluster: &EtcdCluster) -> Result<(), Error> {
        let members = cluster.members();
        let data = try_join_all(members.iter().map(|member| self.data(member))).await?;
        // All are down before one is up again: it would take the others for newer.
        cluster.kill().await?;
        let replaced =
            members.iter().zip(data).map(|(member, data)| member.replace_data(Some(data)));
        try_join_all(replaced).await?;
        cluster.start().await
    }

    /// A data directory made from it for this server.
    async fn data(&self, server: &Server) -> Result<TempDir, Error> {
        let directory = directory("restore")?;
        let mut tool = Command::new(tool(&["etcdutl", "etcdctl"])?);
        tool.args(["snapshot", "restore"]).arg(self.file());
        tool.arg("--data-dir").arg(Member::data(directory.path())).args(server.identity());
        run(tool).await?;
        Ok(directory)
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("snapshot.db")
    }
}

fn directory(what: &str) -> Result<TempDir, Error> {
    let directory = tempfile::Builder::new().prefix(&format!("leasehold-{what}-")).tempdir();
    directory.map_err(|error| failed(format!("no temporary directory: {error}")))
}

/// The first of these that is in `PATH`: etcd 3.6 has two in the place of one.
fn tool(names: &[&str]) -> Result<PathBuf, Error> {
    let found = names.iter().find_map(|name| find(name));
    found.ok_or_else(|| Error::missing(Kind::Etcd, format!("no {} in PATH", names.join(" or "))))
}

async fn run(mut tool: Command) -> Result<(), Error> {
    // Before 3.4 the other version of the API was the default.
    tool.env("ETCDCTL_API", "3").kill_on_drop(true);
    let output = tool.output().await.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(failed(format!("a tool of etcd failed: {said}")))
}

fn failed(why: String) -> Error {
    Error::failed(Kind::Etcd, why)
}
