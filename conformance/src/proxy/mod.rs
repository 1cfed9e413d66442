//! A TCP proxy that goes wrong on demand, put between a driver and its server.
//!
//! It takes the stream apart into messages ([`Framing`]) and decides of each, at the moment it
//! arrives, what becomes of it: by the first [rule](Proxy::on) that takes it, else by the
//! direction's standing [`Action`]. Order is kept: what comes after a held message on the same
//! connection and in the same direction waits behind it.
//!
//! Everything that happens can be awaited ([`Proxy::held`], [`Rule::fired`], [`Proxy::until`]), so
//! a test needs no sleep. These waits have no limit of their own.
//!
//! # What it can do
//!
//! Per direction, of one message ([`Proxy::on`]) or of all ([`Proxy::set`]):
//!
//! | mode | by |
//! | --- | --- |
//! | pass | [`Action::Pass`], and [`Proxy::heal`] for all |
//! | hold and deliver later | [`Action::Hold`], then [`Proxy::deliver`], [`Proxy::deliver_next`] or [`Proxy::discard`] |
//! | drop the next message | [`Action::Drop`], by a rule |
//! | send twice | [`Action::Duplicate`] |
//! | delay, with jitter | [`Action::Delay`], [`Action::Jitter`] |
//! | cut before a message, or after n bytes of it | [`Action::Cut`], [`Action::Truncate`] |
//! | black hole without a reset, from a message on | [`Action::Silence`] |
//! | half-close | [`Action::HalfClose`], [`Proxy::half_close`] |
//!
//! Of all connections at once:
//!
//! | mode | by |
//! | --- | --- |
//! | black hole without a reset | [`Proxy::blackhole`] |
//! | close, close the client's side alone, reset | [`Proxy::cut`], [`Proxy::cut_clients`], [`Proxy::reset`] |
//! | refuse new connections | [`Proxy::refuse`], until [`Proxy::accept`] |
//! | lead new connections elsewhere | [`Proxy::aim`] |
//!
//! # A lost answer
//!
//! RESP answers carry no number; a client gives the next answer to its oldest request. A network
//! never loses one answer and delivers the next, so [`Action::Drop`] on a single answer makes a
//! client take every later answer for the one before, which no client can notice. An answer that is
//! lost as networks lose it is [`Action::Silence`] (nothing arrives on this connection any more) or
//! [`Action::Cut`] (the connection ends before it).
//!
//! # gRPC
//!
//! With `Framing::Grpc` (feature `etcd`) a message is what a call sends or gets, whatever frames it
//! is in; [`Match::command`] is the method without its service, like `Txn`.
//!
//! * A call with one request and one answer has two messages. The answer is all that the server
//!   sends for it: headers, data, status. Dropped, the caller hears nothing of that call, and other
//!   calls on the connection go on.
//! * A call that is a stream (`Watch`, `LeaseKeepAlive`, ..) has one message a frame of data, each
//!   way. What a watch tells of changes is [pushed](Match::pushes); that it was created or cancelled
//!   answers a request.
//! * Calls do not wait for each other: what is held holds back only its own call.
//! * Everything else (settings, pings, windows, a call's opening) is no message: it passes, also
//!   where messages are held; a black hole swallows it.
//! * A client that gives up a call whose request is held takes it back; if the request is delivered
//!   all the same, that is lost, and so is the answer: the request takes effect after its caller is
//!   gone.
//! * [`Action::Duplicate`] passes a message once. A second copy in the same call would be a second
//!   message of it, which no network makes; a repeated call is another stream.
//!
//! A [lost answer](#a-lost-answer) is a plain [`Action::Drop`] here.
//!
//! # Examples
//!
//! ```no_run
//! use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let server = ([127, 0, 0, 1], 6379).into();
//! let proxy = Proxy::start(server, Framing::Resp).await.unwrap();
//! let url = proxy.url("redis://127.0.0.1:6379/0");
//!
//! // The next script arrives and is held; its caller gives up; only then the server sees it.
//! proxy.on(Direction::ToServer, Match::command("EVALSHA"), Action::Hold);
//! // .. the driver at `url` is asked to acquire ..
//! proxy.held(Direction::ToServer, 1).await;
//! // .. the future is dropped ..
//! proxy.deliver(Direction::ToServer);
//! # }
//! ```

#[cfg(feature = "etcd")]
mod grpc;
mod handle;
#[cfg(feature = "etcd")]
mod http2;
mod link;
mod message;
mod pairing;
mod protocol;
mod resp;
mod rule;
mod state;
mod writer;

#[cfg(test)]
#[cfg(feature = "etcd")]
mod grpc_tests;
#[cfg(test)]
mod tests;

#[cfg(feature = "etcd")]
pub(crate) use self::handle::Carrier;
pub use self::handle::Proxy;
pub use self::message::{Direction, Message};
pub use self::protocol::Framing;
pub use self::rule::{Action, Match, Rule};
pub use self::state::{Counts, Flow};
