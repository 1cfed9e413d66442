//! Names and numbers at their limits.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_api::{Claim, Error, ErrorKind, Label, LockName, Metadata, Owner, Ttl};

use super::dice::Dice;
use super::steps::{held, is_free, is_held_by, needs_waking, queue, release, stays_asleep, take};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Names:
    f69_names_are_told_apart_to_the_last_byte, "1.5", "names that differ in case, form, spaces, signs or nesting are held at once";
    f69_longest_names_are_told_apart, "1.5", "names of 512 bytes that differ in the last one are held at once";
    f69_random_names_are_told_apart, "1.5", "random names of an alphabet of traps, also one within another, are held at once";
    c88_numbered_names_are_told_apart [private], "1.5", "thousands of names that differ in their number are held at once";
    odd_names_survive_the_round_trip, "1.5", "list gives each odd name back byte by byte";
    f69_nested_names_do_not_wait_for_each_other, "1.5", "a release of `a/b` wakes no waiter of `a`";
    f67_ttl_below_the_floor_is_refused, "9.3", "it is bad input that says what is allowed, and holds nothing";
    longest_label_survives_the_round_trip, "inspect", "128 bytes of label, quotes and braces among them, come back";
    f71_owners_are_told_apart_to_the_last_bit, "5.1", "owners that differ in one bit are two";
}

/// What follows a name that no other check uses.
const ODD: [&str; 34] = [
    "",
    "/",
    "/b",
    "/b/",
    "/B",
    "//b",
    ":",
    ":b",
    " ",
    "  ",
    " b",
    "b ",
    "b",
    "B",
    "\u{f1}",
    "n\u{303}",
    "\u{df}",
    "ss",
    "{",
    "}",
    "{}",
    "{x}",
    "{x}{y}",
    "*",
    "?",
    "[b]",
    "%",
    "_",
    "\\",
    "'",
    "\"",
    ".",
    "..",
    "\u{1f512}",
];

async fn f69_names_are_told_apart_to_the_last_byte(bench: &Bench) -> Verdict {
    let root = bench.name();
    let mut names: Vec<_> = ODD.iter().map(|odd| format!("{root}{odd}")).collect();
    names.extend(["{}", "{x}", " ", "/"].map(|odd| format!("{odd}{root}")));
    names.push(root.as_str().to_uppercase());
    all_held_at_once(bench, &names).await
}

async fn f69_longest_names_are_told_apart(bench: &Bench) -> Verdict {
    let root = bench.name();
    let ascii = format!("{root}{}", "x".repeat(LockName::MAX_BYTES));
    let wide = format!("{root}{}", "\u{e9}".repeat(LockName::MAX_BYTES));
    let mut names: Vec<String> =
        ["a", "b"].iter().map(|end| ascii[..LockName::MAX_BYTES - 1].to_owned() + end).collect();
    names.push(ascii[..LockName::MAX_BYTES - 1].to_owned());
    let cut = wide.floor_char_boundary(LockName::MAX_BYTES);
    names.push(wide[..cut].to_owned());
    for bytes in [16, 32, 64, 128, 255, 256] {
        names.push(ascii[..bytes.max(root.as_str().len() + 1)].to_owned());
    }
    names.sort();
    names.dedup();
    all_held_at_once(bench, &names).await
}

async fn f69_random_names_are_told_apart(bench: &Bench) -> Verdict {
    const LETTERS: [&str; 16] = [
        "a", "A", "b", "/", ":", "{", "}", " ", ".", "-", "\\", "*", "%", "\u{e9}", "e\u{301}",
        "\u{df}",
    ];
    let root = bench.name();
    let mut dice = Dice::seeded(69);
    let mut names = BTreeSet::new();
    for _ in 0..rounds(150, 3_000) {
        let mut name = root.as_str().to_owned();
        for _ in 0..=dice.below(6) {
            name.push_str(LETTERS[dice.index(LETTERS.len())]);
            // Each beginning of it is a name too.
            names.insert(name.clone());
        }
    }
    all_held_at_once(bench, &names.into_iter().collect::<Vec<_>>()).await
}

async fn c88_numbered_names_are_told_apart(bench: &Bench) -> Verdict {
    const AT_ONCE: usize = 500;
    let [client, other] = bench.clients().await?;
    let root = bench.name();
    let names = rounds(3_000, 100_000);
    let claims = (1..=names)
        .map(|number| Ok(bench.long_claim(&LockName::new(&format!("{root}-{number}"))?, 600)))
        .collect::<Result<Vec<Claim>, Failure>>()?;
    let mut leases = Vec::with_capacity(names);
    for claims in claims.chunks(AT_ONCE) {
        let taken = try_join_all(claims.iter().map(|claim| take(&*client, claim))).await;
        leases.extend(taken?);
    }
    for lease in leases.iter().step_by(names / 100) {
        is_held_by(bench, &*other, lease).await?;
    }
    for leases in leases.chunks(AT_ONCE) {
        let released = leases.iter().map(|lease| async {
            // Not of another name's lease: each is mine to release, once.
            release(&*client, &lease.ticket()).await
        });
        try_join_all(released).await?;
    }
    Ok(())
}

/// Takes every name, then shows that each is still held by its own lease.
async fn all_held_at_once(bench: &Bench, names: &[String]) -> Verdict {
    let [client, other] = bench.clients().await?;
    let mut leases = Vec::new();
    for name in names {
        leases.push(take(&*client, &bench.long_claim(&LockName::new(name)?, 40)).await?);
    }
    for lease in &leases {
        is_held_by(bench, &*other, lease).await?;
    }
    for lease in &leases {
        release(&*client, &lease.ticket()).await?;
        is_free(bench, &*other, &lease.name).await?;
    }
    Ok(())
}

async fn odd_names_survive_the_round_trip(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    Bench::needs_operator(client.profile())?;
    let root = bench.name();
    let mut want = Vec::new();
    for odd in ODD {
        let name = LockName::new(&format!("{root}{odd}"))?;
        take(&*client, &bench.long_claim(&name, 40)).await?;
        want.push(name);
    }
    let list = client.list(root.as_str()).await?;
    let mut got: Vec<_> = list.into_iter().map(|(name, _)| name).collect();
    want.sort();
    got.sort();
    ensure!(got == want, "the held names are listed as {got:?}");
    Ok(())
}

async fn f69_nested_names_do_not_wait_for_each_other(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let outer = bench.name();
    let inner = LockName::new(&format!("{outer}/b"))?;
    let outer = take(&*holder, &bench.long_claim(&outer, 20)).await?;
    let inner = take(&*holder, &bench.long_claim(&inner, 20)).await?;
    let claim = bench.long_claim(&outer.name, 20);
    queue(&*waiter, &claim).await?;
    release(&*holder, &inner.ticket()).await?;
    stays_asleep(bench, &*waiter, &claim).await?;
    held(&*waiter, &claim).await?;
    Ok(())
}

async fn f67_ttl_below_the_floor_is_refused(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let floor = client.profile().ttl_floor;
    if floor <= Duration::from_millis(1) {
        return Err(Failure::not_applicable("no TTL is below its floor"));
    }
    let short = Ttl::new(floor - Duration::from_millis(1))?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    for queued in [false, true] {
        let claim = Claim::new(bench.name(), Owner::random(), short).with_queue(queued);
        refused(client.acquire(&claim).await, floor)?;
        is_free(bench, &*client, &claim.name).await?;
        let next = Claim::new(lease.name.clone(), Owner::random(), short);
        refused(client.hand_over(&lease, &next, queued).await, floor)?;
        is_held_by(bench, &*client, &lease).await?;
    }
    Ok(())
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, floor: Duration) -> Verdict {
    let error = match answer {
        Err(error) => error,
        Ok(answer) => return Err(Failure::failed(format!("below the floor: {answer:?}"))),
    };
    ensure!(error.kind() == ErrorKind::BadInput, "below the floor: {error}");
    let (text, floor) = (error.to_string(), format!("{floor:?}"));
    ensure!(text.contains(&floor), "the message does not say that {floor} is allowed: {text}");
    Ok(())
}

async fn longest_label_survives_the_round_trip(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    Bench::needs_operator(client.profile())?;
    for label in [
        "x".repeat(Label::MAX_BYTES),
        "\u{e9}".repeat(Label::MAX_BYTES / 2),
        "\"'\\{}[]:,;|%$# \u{1f512}".to_owned(),
        String::new(),
    ] {
        let mut metadata = Metadata::of_this_process();
        metadata.label = Some(Label::new(&label)?);
        let claim = bench.long_claim(&bench.name(), 20).with_metadata(metadata.clone());
        take(&*client, &claim).await?;
        let holder = client.inspect(&claim.name).await?;
        let told = holder.and_then(|holder| holder.metadata).and_then(|metadata| metadata.label);
        let text = told.as_ref().map_or("", Label::as_str);
        ensure!(text == label, "the label {label:?} came back as {text:?}");
    }
    Ok(())
}

async fn f71_owners_are_told_apart_to_the_last_bit(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let mine = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    for bit in [0, 1, 63, 64, 127] {
        let owner = Owner::from_bits(mine.owner.bits() ^ (1 << bit));
        let claim = Claim::new(mine.name.clone(), owner, mine.ttl);
        held(&*client, &claim).await?;
        super::steps::release_in_vain(&*client, &super::steps::by_owner(&claim)).await?;
    }
    let zeros = Claim::new(bench.name(), Owner::from_bits(0), mine.ttl);
    let lease = take(&*client, &zeros).await?;
    is_held_by(bench, &*client, &lease).await?;
    release(&*client, &lease.ticket()).await
}
