//! How a protocol is told to the proxy.
//!
//! Another protocol is a [`Protocol`] of its own and a row of [`Framing`]; nothing else of the
//! proxy knows one.

use std::fmt::Debug;
use std::sync::Arc;

#[cfg(feature = "etcd")]
use super::grpc::Grpc;
use super::message::Direction;
use super::pairing::Pairing;
use super::resp;

/// How a stream is taken apart into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Redis' protocol, versions 2 and 3, at its exact message ends.
    Resp,
    /// gRPC over HTTP/2 without TLS, as etcd speaks it; see
    /// [what a message is there](crate::proxy#grpc). A connection that begins otherwise is carried in
    /// chunks.
    #[cfg(feature = "etcd")]
    Grpc,
    /// Whatever one read gives: for TLS and for protocols that the proxy does not know. Answers are
    /// not paired with requests.
    Chunks,
}

impl Framing {
    /// What follows one connection.
    pub(super) fn open(self) -> Box<dyn Protocol> {
        match self {
            Self::Resp => Box::<Pairing>::default(),
            #[cfg(feature = "etcd")]
            Self::Grpc => Box::<Grpc>::default(),
            Self::Chunks => Box::new(Chunks),
        }
    }

    /// The name of a request's command in capitals, where the protocol has such in the request.
    pub(super) fn command(self, request: &[u8]) -> Option<String> {
        match self {
            Self::Resp => resp::command(request),
            #[cfg(feature = "etcd")]
            Self::Grpc => None,
            Self::Chunks => None,
        }
    }
}

/// Follows one connection. It may keep state of both directions: some protocols begin in another
/// form than they go on in, and some pair an answer with a request only by their order.
pub(super) trait Protocol: Debug + Send {
    /// Where the first message in the buffer of this direction ends. It is asked again with the
    /// same beginning and more behind it until it knows.
    fn end(&mut self, direction: Direction, buffer: &[u8]) -> End;

    /// A request is about to be written to the server, for a second time if it is surplus.
    fn asked(&mut self, request: &Arc<[u8]>, surplus: bool);

    /// A message came from the server.
    fn came(&mut self, message: &[u8]) -> Paired;

    /// Whether requests and answers are told apart from anything else at all.
    fn pairs(&self) -> bool;

    /// Whether the server has answered what was sent to it in this lane: one that cancels what it
    /// works on when its client leaves must not learn of that before.
    fn answered(&self, lane: u32) -> bool {
        let _ = lane;
        true
    }

    /// What is to be done with the bytes that ended there. By default, each of them is a message,
    /// and all are in one order.
    fn part(&mut self, direction: Direction, bytes: Arc<[u8]>) -> Part {
        let paired = match direction {
            Direction::ToClient => self.came(&bytes),
            Direction::ToServer => {
                let request = self.pairs().then(|| bytes.clone());
                Paired { request, ..Paired::default() }
            }
        };
        Part { bytes, lane: 0, role: Role::Message(paired), credit: None }
    }
}

/// What was taken out of a stream.
#[derive(Debug)]
pub(super) struct Part {
    /// As it goes on.
    pub(super) bytes: Arc<[u8]>,
    /// Parts of one lane stay in order; nothing waits behind what is held in another.
    pub(super) lane: u32,
    pub(super) role: Role,
    /// What its sender must get where it is lost, so that he can go on to send.
    pub(super) credit: Option<Arc<[u8]>>,
}

/// What it is to the rules.
#[derive(Debug)]
pub(super) enum Role {
    /// A message: rules decide of it.
    Message(Paired),
    /// More of the last message in its lane: it goes the same way.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only HTTP/2 has it"))]
    More,
    /// What the protocol needs besides: it passes unless all is swallowed.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only HTTP/2 has it"))]
    Control,
    /// Takes the last message in its lane back: it is lost if that was held or delayed and then went
    /// on, so that the message takes effect.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only HTTP/2 has it"))]
    Cancel,
}

/// What is known of the first message in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It ends before this byte.
    At(usize),
    /// More is needed.
    Unknown,
    /// This is not the protocol.
    Malformed,
}

/// What a message from the server is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paired {
    /// The request it answers.
    pub(super) request: Option<Arc<[u8]>>,
    /// It is pushed.
    pub(super) push: bool,
    /// The client must not see it, and no rule does.
    pub(super) surplus: bool,
    /// The client has cancelled the request: it must not see it, but rules do.
    pub(super) unwanted: bool,
    /// The command, where the request alone does not tell it.
    pub(super) command: Option<Arc<str>>,
}

/// Takes the first message out of the buffer, if it is there to its end.
pub(super) fn take(
    protocol: &mut dyn Protocol,
    direction: Direction,
    buffer: &mut Vec<u8>,
) -> Option<Arc<[u8]>> {
    let length = match protocol.end(direction, buffer) {
        End::At(length) => length,
        End::Unknown => 0,
        // Let the two sort it out.
        End::Malformed => buffer.len(),
    };
    (length > 0).then(|| buffer.drain(..length).collect())
}

/// No protocol.
#[derive(Debug)]
struct Chunks;

impl Protocol for Chunks {
    fn end(&mut self, _: Direction, buffer: &[u8]) -> End {
        End::At(buffer.len())
    }

    fn asked(&mut self, _: &Arc<[u8]>, _: bool) {}

    fn came(&mut self, _: &[u8]) -> Paired {
        Paired::default()
    }

    fn pairs(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::message::Direction;
    use super::{End, Paired, Protocol, take};

    /// Begins with one byte that stands alone, like the answer to a wish for TLS; then a byte says
    /// how long each message is.
    #[derive(Debug, Default)]
    struct Stateful {
        begun: bool,
    }

    impl Protocol for Stateful {
        fn end(&mut self, _: Direction, buffer: &[u8]) -> End {
            let length = match buffer.first() {
                Some(_) if !std::mem::replace(&mut self.begun, true) => 1,
                Some(length) => usize::from(*length) + 1,
                None => return End::Unknown,
            };
            if length <= buffer.len() { End::At(length) } else { End::Unknown }
        }

        fn asked(&mut self, _: &Arc<[u8]>, _: bool) {}

        fn came(&mut self, _: &[u8]) -> Paired {
            Paired::default()
        }

        fn pairs(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_protocol_may_change_its_form_on_the_way() {
        let mut protocol = Stateful::default();
        let mut buffer = b"S\x02ab\x03xy".to_vec();
        let mut next = |buffer: &mut Vec<u8>| take(&mut protocol, Direction::ToClient, buffer);
        assert_eq!(next(&mut buffer).as_deref(), Some(&b"S"[..]));
        assert_eq!(next(&mut buffer).as_deref(), Some(&b"\x02ab"[..]));
        assert_eq!(next(&mut buffer), None);
        buffer.push(b'z');
        assert_eq!(next(&mut buffer).as_deref(), Some(&b"\x03xyz"[..]));
    }
}
