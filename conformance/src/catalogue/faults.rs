//! The faults.

use super::{Excuse, NETWORKED, Number, Row};

const POSTGRES: Excuse = Excuse::Issue(6, "the Postgres driver");
const QUORUM: Excuse = Excuse::Later("a quorum of independent Redis nodes");

/// Over every store of a network.
const fn shown(number: u16, what: &'static str) -> Row {
    Row::shown(Number::fault(number), what, NETWORKED)
}

/// What only Redis has, or does in this way.
const fn redis(number: u16, what: &'static str) -> Row {
    Row::shown(Number::fault(number), what, &["redis"])
}

/// What only etcd has, or does in this way.
const fn etcd(number: u16, what: &'static str) -> Row {
    Row::shown(Number::fault(number), what, &["etcd"])
}

const fn excused(number: u16, what: &'static str, excuse: Excuse) -> Row {
    Row::excused(Number::fault(number), what, excuse)
}

pub(super) const ROWS: &[Row] = &[
    shown(1, "a holder's process is killed: the name is free within its TTL"),
    shown(
        2,
        "a holder's process is stopped past its TTL and goes on: lost at its first look, and it harms nobody",
    ),
    shown(
        5,
        "the executor is starved past the TTL: the check says lost, and nothing lost is renewed",
    ),
    shown(6, "an acquire is dropped before anything is sent: the store keeps nothing"),
    shown(
        7,
        "an acquire is dropped before it is answered: it is freed by owner, at the latest by its TTL",
    ),
    shown(
        8,
        "waits are dropped: no place in line, no subscription stays, and the next acquire is immediate",
    ),
    shown(9, "a release is dropped: it is finished, or can be repeated"),
    shown(
        10,
        "a renewal is dropped or unanswered: the lease stays mine, and the older deadline counts",
    ),
    shown(
        11,
        "a guard is dropped without a runtime, at shutdown, in an unwind: no panic, no block",
    ),
    shown(12, "tasks that hold a guard are aborted at any time: renewal stops, the name is free"),
    shown(13, "a guard is leaked: max_hold ends it, and another gets the name"),
    shown(
        15,
        "the answer to an acquire is lost: indeterminate, and the grant is found again or freed",
    ),
    // Streams of HTTP/2 have numbers: no network makes a request over it arrive twice.
    redis(16, "a request arrives twice: one hold, and one release frees it"),
    shown(17, "the answer to a release is lost: indeterminate, and a repeat does no harm"),
    shown(19, "a renewal lands after the release: it revives nothing"),
    shown(20, "a holder's link swallows everything: lost in time, and another gets the name"),
    shown(21, "a contender's link swallows everything: its acquire ends with its wait"),
    shown(22, "the connection is reset again and again: what is held by TTL stays held"),
    shown(
        24,
        "the server is not there yet when the client starts: the same client works once it is",
    ),
    shown(25, "the server restarts with its data: locks stay held, tokens go on rising"),
    shown(26, "the server loses its data: lost in time, never held again, no token repeats"),
    redis(28, "Redis: the server forgets its scripts between any two calls: nobody notices"),
    redis(
        29,
        "Redis: a fail-over loses the key: lost at the next renewal, and the window is documented",
    ),
    redis(30, "Redis: the primary is demoted: a typed error, or the new one is found"),
    redis(31, "Redis: the server is busy with a long script: tried again within the wait"),
    redis(
        32,
        "Redis: the server is out of memory, or evicts: refused by type; what was evicted is lost",
    ),
    redis(
        33,
        "Redis: the server can't save, lacks replicas, loads, or forbids scripts: refused by type, no half state",
    ),
    redis(35, "Redis: names with braces: all keys of a lock share a slot"),
    // An etcd member counts leases by a clock that nobody sets.
    redis(
        36,
        "Redis: the server's clock jumps by an hour: deadlines stay, an early expiry is seen as a loss",
    ),
    excused(37, "quorum: every subset of five nodes down", QUORUM),
    excused(38, "quorum: a minority hangs", QUORUM),
    excused(39, "quorum: the grant of the deciding node comes late", QUORUM),
    excused(40, "quorum: a node restarts empty", QUORUM),
    etcd(42, "etcd: the keep-alive stream is cut"),
    etcd(43, "etcd: a lease is revoked from outside"),
    etcd(44, "etcd: a waiter's lease ends before the holder's"),
    etcd(46, "etcd: compaction while somebody waits"),
    etcd(47, "etcd: the leader changes"),
    etcd(48, "etcd: a minority, then the majority is lost"),
    etcd(49, "etcd: the holder's member is isolated"),
    etcd(50, "etcd: the database is full"),
    etcd(52, "etcd: restored from a snapshot"),
    etcd(53, "etcd: a TTL below the cluster's minimum"),
    excused(54, "Postgres: the backend is terminated", POSTGRES),
    excused(55, "Postgres: a waiting statement is cancelled", POSTGRES),
    excused(56, "Postgres: idle sessions are ended", POSTGRES),
    excused(57, "Postgres: a pooler in transaction mode", POSTGRES),
    excused(59, "Postgres: a cancelled connection is not used again", POSTGRES),
    excused(60, "Postgres: a standby is given as host", POSTGRES),
    excused(61, "Postgres: a standby is promoted", POSTGRES),
    excused(62, "Postgres: the server crashes", POSTGRES),
    excused(63, "Postgres: serialization failures and deadlocks", POSTGRES),
    shown(65, "the clients' clocks are hours apart, in other time zones: no effect"),
    shown(
        67,
        "TTLs of nothing, a millisecond, just below a second, the longest: refused, or kept as asked",
    ),
    shown(68, "waits of nothing and for ever: an answer at once, and no overflow"),
    shown(
        69,
        "names that are empty, huge, nested, odd, or differ in case or form: refused, or told apart",
    ),
    shown(71, "an owner is guessed, or a configured name shared: nobody releases another's lock"),
    shown(
        72,
        "released twice, or through another handle: not held, and the next holder is left alone",
    ),
    shown(73, "an operator deletes the record: lost at the next renewal, and waiters go on"),
    shown(74, "an operator overwrites the record: lost, and never written over"),
    shown(75, "different TTLs on one name: the holder's counts"),
    shown(77, "every wake-up is lost: waiters are served by time"),
    shown(78, "500 waiters: the commands of a hand-over are bounded, the whole takes linear time"),
    shown(79, "one waiter among many that only try: it gets the name within some hand-overs"),
    shown(80, "10,000 names: memory and connections are bounded, and all are freed"),
    shown(83, "two locks taken in opposite orders: both waits end in time, and nothing hangs"),
    shown(84, "the same task asks again: as documented, alike over all backends"),
    excused(
        85,
        "permits of a semaphore, shared holders",
        Excuse::CannotApply(
            "no store is asked for anything but one exclusive lease a name: shared and counted modes are not offered",
        ),
    ),
    shown(87, "one packet in five is lost: held locks are rarely lost, and never doubled"),
    shown(88, "a seeded mix of faults: the history stays that of a lock"),
];
