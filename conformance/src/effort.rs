//! How much a test does: the short form, or the long one.

use std::env;

/// Whether the long forms of tests are asked for: `LEASEHOLD_LONG` is set, and neither empty nor
/// `0`. `scripts/test --long` sets it. Each check's time limit is ten times as long then.
#[must_use]
pub fn long() -> bool {
    is_set(env::var("LEASEHOLD_LONG").ok().as_deref())
}

/// How often a test repeats what chance decides: `long` where the long forms are asked for
/// ([`long`](crate::long)), else `short`.
///
/// # Examples
///
/// ```
/// for _round in 0..leasehold_conformance::rounds(3, 100) {
///     // Two clients contend ...
/// }
/// ```
#[must_use]
pub fn rounds(short: usize, long: usize) -> usize {
    if self::long() { long } else { short }
}

fn is_set(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0"))
}

#[cfg(test)]
mod tests {
    use super::is_set;

    #[test]
    fn unset_empty_and_zero_ask_for_the_short_form() {
        assert!([None, Some(""), Some("0")].into_iter().all(|value| !is_set(value)));
        assert!(is_set(Some("1")));
    }
}
