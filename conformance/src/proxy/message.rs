//! What the proxy sees of one message.

use super::protocol::Framing;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: answers, and what the server sends of itself.
    ToClient,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];

    pub(super) fn index(self) -> usize {
        match self {
            Self::ToServer => 0,
            Self::ToClient => 1,
        }
    }
}

/// One message, as a [`Match`](super::Match) sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The whole message.
    pub bytes: &'a [u8],
    /// Where it goes.
    pub direction: Direction,
    /// The connection, counted from 1 in the order of acceptance.
    pub connection: u64,
    /// The message, counted from 1 in this direction over all connections.
    pub number: u64,
    /// The request that this message is, or that it answers.
    pub request: Option<&'a [u8]>,
    /// Whether the server sent it of itself (a pushed message of a subscription).
    pub push: bool,
    /// The stream of the connection that it belongs to; zero where the protocol has no such.
    pub stream: u32,
    pub(super) command: Option<&'a str>,
    pub(super) framing: Framing,
}

impl Message<'_> {
    /// The name of the command that this is or answers, in capitals; of gRPC, the method without its
    /// service (`TXN`).
    pub fn command(&self) -> Option<String> {
        if let Some(command) = self.command {
            return Some(command.to_owned());
        }
        self.request.and_then(|request| self.framing.command(request))
    }

    /// Whether the request that this is or answers has these bytes in it; of a pushed message,
    /// whether it has them itself.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        let text = self.request.unwrap_or(self.bytes);
        bytes.is_empty() || text.windows(bytes.len()).any(|window| window == bytes)
    }
}
