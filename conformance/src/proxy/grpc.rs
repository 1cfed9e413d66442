//! gRPC on one connection: which stream calls what, and what of it is a message.
//!
//! The module's documentation says what a message is. Why it can be held, dropped or overtaken
//! without a word to either side:
//!
//! * **Headers.** Each header block changes a table that both ends keep, so none could be left out or
//!   moved. The proxy therefore is an end itself: it decodes every block, in the order of arrival, and
//!   writes it anew without the table (literals that are not indexed). What it writes can be read
//!   alone.
//! * **Numbers of streams** must rise as a server sees them first. Headers of a request therefore
//!   always pass at once; what is held or dropped of a request is its data, without which the server
//!   does nothing. The caller's deadline, which the server would count from the headers, is left out of
//!   them.
//! * **Flow control.** Data that a receiver never sees would be missing from its window for ever: for
//!   what is dropped, the proxy gives the sender that much back.
//! * **Cancelling.** A client that gives up resets the stream. Behind a held request that would race
//!   with it, so if the request is delivered, its reset is not: the request takes effect. What the
//!   server answers then is kept from the client, which has forgotten the stream. Likewise, a client
//!   that leaves is seen to have left only when the server has answered what was held.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use loona_hpack::Decoder;

use super::http2::{self, DATA, Frame, HEADERS, PREFACE, RST_STREAM};
use super::message::Direction;
use super::protocol::{End, Paired, Part, Protocol, Role};

/// The methods whose messages stand each for itself; all others have one request and one answer.
const STREAMING: &[&str] = &[
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.Maintenance/Snapshot",
    "/v3electionpb.Election/Observe",
    "/grpc.health.v1.Health/Watch",
];

/// What the server tells of itself on its streams, but for the answers to requests.
const WATCH: &str = "WATCH";

/// One connection.
#[derive(Default)]
pub(super) struct Grpc {
    /// It is not HTTP/2.
    raw: bool,
    /// The client's preface is past.
    begun: bool,
    decoders: [Decoder<'static>; 2],
    streams: HashMap<u32, Stream>,
}

/// One call.
#[derive(Debug)]
struct Stream {
    /// The method without its service, in capitals.
    command: Arc<str>,
    streaming: bool,
    /// Requests without an answer; of a call with one request, that for good.
    requests: VecDeque<Arc<[u8]>>,
    asked: bool,
    answered: bool,
    cancelled: bool,
}

impl Stream {
    fn new(path: &[u8]) -> Self {
        let path = String::from_utf8_lossy(path);
        let method = path.rsplit('/').next().unwrap_or_default();
        Self {
            command: method.to_ascii_uppercase().into(),
            streaming: STREAMING.contains(&&*path),
            requests: VecDeque::new(),
            asked: false,
            answered: false,
            cancelled: false,
        }
    }

    /// What a part that the client sent is.
    fn request(&mut self, frame: &Frame<'_>, bytes: &Arc<[u8]>) -> Role {
        match frame.kind {
            RST_STREAM if !self.streaming => {
                self.cancelled = true;
                Role::Cancel
            }
            DATA if self.asked && !self.streaming => Role::More,
            DATA if !frame.payload.is_empty() => {
                self.asked = true;
                self.requests.push_back(bytes.clone());
                Role::Message(self.paired(Some(bytes.clone())))
            }
            _ => Role::Control,
        }
    }

    /// What a part that the server sent is.
    fn answer(&mut self, frame: &Frame<'_>) -> Role {
        if !self.streaming {
            if std::mem::replace(&mut self.answered, true) {
                return Role::More;
            }
            let request = self.requests.front().cloned();
            return Role::Message(self.paired(request));
        }
        if frame.kind != DATA || frame.payload.is_empty() {
            return Role::Control;
        }
        if *self.command == *WATCH && !answers_a_request(frame.payload) {
            return Role::Message(Paired { push: true, ..Paired::default() });
        }
        let request = self.requests.pop_front();
        Role::Message(self.paired(request))
    }

    fn paired(&self, request: Option<Arc<[u8]>>) -> Paired {
        let command = Some(self.command.clone());
        Paired { request, command, unwanted: self.cancelled, ..Paired::default() }
    }
}

impl Grpc {
    fn frame(&mut self, direction: Direction, mut bytes: Arc<[u8]>) -> Option<Part> {
        let copy = bytes.clone();
        let frame = Frame::first(&copy)?;
        if frame.kind == HEADERS {
            let headers = http2::headers(&mut self.decoders[direction.index()], &bytes)?;
            if let (Direction::ToServer, Some(path)) = (direction, headers.get(":path")) {
                self.streams.insert(frame.stream, Stream::new(path));
            }
            bytes = headers.bytes;
        }
        let credit = if frame.kind == DATA { http2::credit(&frame) } else { None };
        let ours = matches!(frame.kind, DATA | HEADERS | RST_STREAM);
        // What is said of windows and of the connection waits behind nothing.
        let lane = if ours { frame.stream } else { 0 };
        let role = match self.streams.get_mut(&frame.stream) {
            Some(stream) if ours => match direction {
                Direction::ToServer => stream.request(&frame, &bytes),
                Direction::ToClient => stream.answer(&frame),
            },
            _ => Role::Control,
        };
        let over = frame.kind == RST_STREAM || (ours && frame.ends_stream());
        if over && direction == Direction::ToClient {
            self.streams.remove(&frame.stream);
        }
        Some(Part { bytes, lane, role, credit })
    }
}

impl Protocol for Grpc {
    fn end(&mut self, direction: Direction, buffer: &[u8]) -> End {
        if self.raw {
            return End::At(buffer.len());
        }
        if direction == Direction::ToServer && !self.begun {
            let known = buffer.len().min(PREFACE.len());
            return if buffer[..known] != PREFACE[..known] {
                self.raw = true;
                End::At(buffer.len())
            } else if known < PREFACE.len() {
                End::Unknown
            } else {
                End::At(known)
            };
        }
        http2::end(buffer).map_or(End::Unknown, End::At)
    }

    fn asked(&mut self, _: &Arc<[u8]>, _: bool) {}

    fn came(&mut self, _: &[u8]) -> Paired {
        Paired::default()
    }

    fn pairs(&self) -> bool {
        true
    }

    fn answered(&self, lane: u32) -> bool {
        self.streams.get(&lane).is_none_or(|stream| stream.streaming || stream.answered)
    }

    fn part(&mut self, direction: Direction, bytes: Arc<[u8]>) -> Part {
        let control = |bytes| Part { bytes, lane: 0, role: Role::Control, credit: None };
        if self.raw {
            return Part { role: Role::Message(Paired::default()), ..control(bytes) };
        }
        if direction == Direction::ToServer && !std::mem::replace(&mut self.begun, true) {
            return control(bytes);
        }
        match self.frame(direction, bytes.clone()) {
            Some(part) => part,
            None => {
                // Let the two sort it out.
                self.raw = true;
                control(bytes)
            }
        }
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc")
            .field("raw", &self.raw)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// Whether a message of a watch says that one was created or cancelled: fields 3 and 4 of
/// `WatchResponse`, which stand before its events (11).
fn answers_a_request(message: &[u8]) -> bool {
    // Compressed or not, and the length; etcd compresses nothing.
    let mut rest = message.get(5..).unwrap_or_default();
    while let Some((tag, after)) = varint(rest) {
        let Some((value, after)) = varint(after) else { return false };
        rest = match (tag >> 3, tag & 7) {
            (3 | 4, 0) => return value != 0,
            (_, 0) => after,
            (_, 2) => match usize::try_from(value).ok().and_then(|length| after.get(length..)) {
                Some(after) => after,
                None => return false,
            },
            _ => return false,
        };
    }
    false
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let number = bytes[..length]
        .iter()
        .rev()
        .fold(0_u64, |sum, byte| sum.wrapping_shl(7) | u64::from(byte & 0x7f));
    Some((number, &bytes[length..]))
}
