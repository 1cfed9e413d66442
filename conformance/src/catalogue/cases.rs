//! The cases.

use super::{Excuse, NETWORKED, Number, Row};

const POSTGRES: Excuse = Excuse::Issue(6, "the Postgres driver");
const QUORUM: Excuse = Excuse::Later("a quorum of independent Redis nodes");
const CLUSTER: Excuse =
    Excuse::Later("Redis Cluster (that all keys of a lock share a slot is F35 already)");

/// Over every store of a network.
const fn shown(number: u16, what: &'static str) -> Row {
    Row::shown(Number::case(number), what, NETWORKED)
}

/// What only Redis has, or does in this way.
const fn redis(number: u16, what: &'static str) -> Row {
    Row::shown(Number::case(number), what, &["redis"])
}

/// What only etcd has, or does in this way.
const fn etcd(number: u16, what: &'static str) -> Row {
    Row::shown(Number::case(number), what, &["etcd"])
}

const fn excused(number: u16, what: &'static str, excuse: Excuse) -> Row {
    Row::excused(Number::case(number), what, excuse)
}

pub(super) const ROWS: &[Row] = &[
    shown(
        1,
        "released the moment it is granted, by fast renewals and slow grants: nothing is left renewed",
    ),
    shown(3, "held again after a dead link, by the same client: nobody else gets in"),
    shown(
        4,
        "held again after its record was deleted, by the same client: it is renewed, the first guard is lost",
    ),
    shown(6, "a dead link past the TTL: the holder is told before another holds, and stays lost"),
    shown(7, "a renewal after another got the name: not mine, and the other's TTL is as it was"),
    shown(9, "a process is stopped for three TTLs: the first thing it sees is the loss"),
    shown(10, "a process is killed: a waiter has the name within the TTL and one poll"),
    shown(
        12,
        "every handle is dropped, aborted or forgotten: freed, the forgotten one when the client closes",
    ),
    shown(13, "the only worker of a runtime is blocked past the TTL: the check says lost"),
    shown(15, "a renewal after another had the name and left: lost, and the name stays free"),
    shown(16, "the same by every public way to renew"),
    shown(18, "an endless task under a maximum hold: lost at it, and another gets the name"),
    shown(19, "the record is deleted under a holder: not held within one renewal, and never again"),
    shown(21, "all answers come after most of the TTL: no late guard, and nothing stays"),
    shown(22, "64 waiters on 64 names over one subscription: each wait ends in time"),
    shown(24, "a release between subscription and look: the waiter looks again at once"),
    shown(
        25,
        "500 names with 4 waiters each over one subscription: each is served in its own line",
    ),
    shown(27, "a holder that never releases: the waiter has the name at its TTL and one poll"),
    shown(28, "a record that is deleted while three wait: one is served, without a message"),
    shown(
        30,
        "a release in the gap before the subscription stands: the waiter has the name at once",
    ),
    shown(
        31,
        "two clients hand one lock to and fro while the link is cut: they go on after each heal",
    ),
    shown(33, "a renewal slower than the TTL is a loss; one that succeeds counts from its start"),
    excused(34, "quorum: one of five nodes answers a renewal with an error", QUORUM),
    shown(36, "a release after expiry: the error names the operation and the reason"),
    shown(37, "a grant after many tries: it has its whole TTL, as the store has it"),
    shown(
        39,
        "the work ends in a renewal and leaves no timer; its error is not masked by that of the release",
    ),
    excused(40, "quorum: contention and too few nodes are told apart", QUORUM),
    // An etcd that refuses writes for want of space takes releases (F50).
    redis(42, "Redis: a server that refuses writes: a release says so"),
    shown(43, "the answer to an acquire is lost: it is freed by owner once the link is usable"),
    redis(45, "Redis: a promoted replica that knows no script: renewals go on"),
    redis(
        46,
        "Redis: a replica that grants need is killed, and comes back: they fail by type, and then go on",
    ),
    // Streams of HTTP/2 have numbers: no network makes a request over it arrive twice.
    redis(48, "an acquire is delivered twice: one release frees it"),
    excused(49, "the whole suite over a cluster: no script spans slots", CLUSTER),
    redis(51, "Redis: policies that evict: told at connect; holders of evicted keys are lost"),
    shown(52, "connections are killed: what is held by TTL stays held by the same owner"),
    shown(54, "after each operation the store's own state is what a model says"),
    shown(55, "a release is dropped at each await: repeated or finished, the name is free"),
    shown(57, "a guard is sent to other tasks, threads and runtimes, and released there"),
    shown(58, "a holder overruns, another holds, the first releases: the other's lock stays"),
    shown(60, "every way to acquire uses the one key of the name"),
    shown(61, "a grant that arrives past its validity: an error, and freed at once"),
    shown(63, "thousands of releases under contention: none fails falsely"),
    shown(64, "a release that fails, in every way: the next task of the client gets the name"),
    shown(66, "durations that go to a server are kept to the millisecond"),
    shown(67, "the same table over every driver, none rounded to nothing"),
    shown(69, "for any TTL, the store keeps more than nothing and no more than asked"),
    shown(70, "durations that overflow: a typed error, no wrap"),
    shown(72, "a process is killed at random points: every name is free again"),
    shown(73, "10,000 names expire: the store keeps nothing of them"),
    excused(75, "Postgres: a transaction's beginning is dropped", POSTGRES),
    excused(76, "Postgres: a pooler in transaction mode", POSTGRES),
    shown(78, "a guard is dropped without a release: free for others"),
    excused(79, "Postgres: one session locks, checks and unlocks", POSTGRES),
    excused(81, "Postgres: a session that dies is a loss", POSTGRES),
    excused(82, "Postgres: idle sessions are ended", POSTGRES),
    shown(84, "200 names, many rounds, random cancellations: a release fails only as lost"),
    shown(85, "two tasks on one thread contend: they exclude each other"),
    // The etcd driver hashes no names: its keys have them whole. So C165, too.
    redis(87, "Redis: the bits of a name's hash are even"),
    shown(88, "a hundred thousand numbered names: all apart"),
    shown(90, "an acquire that failed leaves nothing: the next one succeeds"),
    excused(91, "Postgres: the caller's own transaction", POSTGRES),
    shown(93, "every combination of the options that change how a lock is held excludes"),
    excused(94, "many processes at once create the schema", POSTGRES),
    excused(96, "Postgres: sessions of other time zones", POSTGRES),
    excused(97, "Postgres: a zone with a gap", POSTGRES),
    shown(99, "each third renewal fails: still held, lost at the deadline only"),
    shown(100, "released at random points of a renewal: never a failure"),
    shown(102, "a job of many TTLs is never doubled; after a crash one TTL frees it"),
    shown(103, "a short wait with a long TTL and the reverse: each figure does its own work"),
    shown(105, "a partitioned holder is lost before it heals, and its token is refused"),
    etcd(106, "etcd: compaction while somebody waits"),
    etcd(108, "etcd: the leader is stopped and goes on"),
    etcd(109, "etcd: leader changes prolong a dead holder's lease"),
    etcd(111, "etcd: a password is changed while locks are held"),
    etcd(112, "etcd: authentication runs out while idle"),
    shown(114, "the guarded task panics, or is aborted: renewal stops, the name is free"),
    shown(115, "every loss is told by a future and by a look"),
    etcd(117, "etcd: restored from a snapshot, tokens fall"),
    // Elsewhere a lease is the record of a name, which F73 and F74 take away.
    etcd(118, "a lease that is gone at its renewal, spent, in error or silent: the guard is lost"),
    etcd(120, "etcd: all members restart with authentication on"),
    shown(121, "one answer comes later than its request's bound: later renewals go through"),
    shown(123, "a waiter with a TTL shorter than the holder's: it waits on"),
    shown(124, "every way to acquire gives the store the same TTL"),
    shown(126, "one lost renewal is no loss"),
    shown(127, "over a dead link the loss comes by the deadline, whatever TCP does"),
    shown(129, "the work is stopped at the loss"),
    shown(130, "held for five TTLs: no second holder"),
    shown(132, "connections are cut for their age: no false loss"),
    shown(133, "a late renewal revives nothing; nothing of the client outlives the last release"),
    shown(135, "the holder is killed: after two TTLs the first try of a fresh process succeeds"),
    shown(136, "a thousand acquisitions by various clients: tokens rise strictly"),
    shown(138, "an acquire is dropped at each poll, contended or not: others are served"),
    shown(
        139,
        "the answer to, or the request of, a release is lost: the same client can acquire again",
    ),
    shown(141, "the link is cut at each message of an acquire: one record at most"),
    shown(142, "all keys are deleted under a waiter and a holder: typed errors, no panic"),
    excused(
        144,
        "readers and writers in a random mix",
        Excuse::CannotApply(
            "no store is asked for anything but one exclusive lease a name: there is no shared mode",
        ),
    ),
    shown(145, "the answer to a claim is lost: the retry knows its own record"),
    shown(147, "100 waits time out: the next acquire is immediate, nothing stays in line"),
    shown(148, "the record is overwritten: lost at the next renewal, not at a later deadline"),
    shown(
        150,
        "a server that accepts and never answers: every call is bounded, the guard lost in time",
    ),
    shown(151, "locally a lock ends before its release is sent"),
    shown(153, "acquires that fail by each kind of error leave no connection and no task"),
    shown(154, "groups of clients are cut off and heal: every acquire after that ends in time"),
    shown(156, "a dropped guard frees its name, whatever is built in"),
    shown(
        157,
        "guards are dropped off the runtime, at its end, in a destructor, in an unwind: no panic",
    ),
    shown(159, "a client is dropped inside runtimes of both kinds: at once"),
    shown(160, "a connection that goes dead: every call ends by its own deadline"),
    shown(162, "the server stops and starts many times under load: no panic"),
    shown(163, "every release fails: after the TTL the same client acquires again"),
    redis(165, "Redis: no two of a million names collide"),
];
