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

mod handle;
mod link;
mod message;
mod pairing;
mod protocol;
mod resp;
mod rule;
mod state;

#[cfg(test)]
mod tests;

#[cfg(feature = "etcd")]
pub(crate) use self::handle::Carrier;
pub use self::handle::Proxy;
pub use self::message::{Direction, Message};
pub use self::protocol::Framing;
pub use self::rule::{Action, Match, Rule};
pub use self::state::{Counts, Flow};
