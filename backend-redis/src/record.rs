//! What stands in a record, version 1 (the version is in the key).
//!
//! ```text
//! held OWNER TOKEN PID SINCE HOST[ LABEL]MARK
//! closed OWNER TOKEN PID SINCE HOST[ LABEL]MARK
//! ```
//!
//! `OWNER` is 32 hexadecimal digits, `TOKEN` decimal, `SINCE` milliseconds since 1970 by the
//! holder's clock, `HOST` percent-encoded and perhaps empty; the label is the rest but for the last
//! character, `-` or `+`, which tells a release whether somebody may wait. The scripts write the
//! first words and compare them; the rest is for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_api::{Holder, Label, Metadata, Owner, Token};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

const IN_HOST: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
const HOST_MAX_BYTES: usize = 255;

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Somebody holds the name.
    Held(Holder),
    /// The name is closed for a while.
    Closed,
    /// It is none of ours.
    Foreign,
}

/// The rest of a record, after the token and before the mark.
pub(crate) fn metadata(metadata: &Metadata) -> String {
    let since = metadata.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut end = metadata.host.len().min(HOST_MAX_BYTES);
    while !metadata.host.is_char_boundary(end) {
        end -= 1;
    }
    let host = utf8_percent_encode(&metadata.host[..end], IN_HOST);
    let mut words = format!(" {} {since} {host}", metadata.pid);
    if let Some(label) = &metadata.label {
        words.push(' ');
        words.push_str(label.as_str());
    }
    words
}

/// The first words of a held record, as far as they are known.
pub(crate) fn head(owner: Owner, token: Option<Token>) -> String {
    match token {
        Some(token) => format!("held {owner} {token} "),
        None => format!("held {owner} "),
    }
}

/// Reads a record; `left` is its time to live as PTTL answers it.
pub(crate) fn read(record: &[u8], left: i64) -> Record {
    let Ok(text) = std::str::from_utf8(record) else { return Record::Foreign };
    let text = text.strip_suffix(['-', '+']).unwrap_or(text);
    let mut words = text.splitn(7, ' ');
    let closed = match words.next() {
        Some("held") => false,
        Some("closed") => true,
        _ => return Record::Foreign,
    };
    let owner = words.next().and_then(|owner| owner.parse::<Owner>().ok());
    let token = words.next().and_then(|token| Token::new(token.parse().ok()?).ok());
    let (Some(owner), Some(token)) = (owner, token) else { return Record::Foreign };
    if closed {
        return Record::Closed;
    }
    let holder = Holder::new(owner, token, remaining(left));
    let said = (|| {
        let mut said = Metadata::of_this_process();
        said.pid = words.next()?.parse().ok()?;
        let since = Duration::from_millis(words.next()?.parse().ok()?);
        said.since = UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
        said.host = percent_decode_str(words.next()?).decode_utf8_lossy().into();
        said.label = words.next().and_then(|label| Label::new(label).ok());
        Some(said)
    })();
    Record::Held(match said {
        Some(said) => holder.with_metadata(said),
        None => holder,
    })
}

/// PTTL's answer as a duration; `None` is "for ever".
pub(crate) fn remaining(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::{Record, head, metadata, read};
    use leasehold_api::{Label, Metadata, Owner, Token};
    use std::time::{Duration, UNIX_EPOCH};

    fn said(host: &str, label: Option<&str>) -> Metadata {
        let mut said = Metadata::of_this_process();
        said.pid = 42;
        said.since = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        said.host = host.into();
        said.label = label.map(|label| Label::new(label).unwrap());
        said
    }

    #[test]
    fn metadata_survives_the_record() {
        let owner = Owner::from_bits(7);
        let token = Token::MAX;
        for host in ["", "db1", "a b%20c", "é\n"] {
            for label in [None, Some(""), Some("nightly"), Some(" a  b -")] {
                let said = said(host, label);
                let text = format!("{}{token}{}-", head(owner, None), metadata(&said));
                let Record::Held(holder) = read(text.as_bytes(), 1500) else { panic!("{text}") };
                assert!(text.starts_with(&head(owner, Some(token))));
                assert_eq!((holder.owner, holder.token), (owner, token));
                assert_eq!(holder.remaining, Some(Duration::from_millis(1500)));
                assert_eq!(holder.metadata, Some(said));
                let closed = text.replacen("held", "closed", 1);
                assert_eq!(read(closed.as_bytes(), 1), Record::Closed);
            }
        }
    }

    #[test]
    fn a_long_host_is_cut_at_a_character() {
        let text = metadata(&said(&"é".repeat(200), None));
        assert!(text.ends_with(&"é".repeat(127).replace('é', "%C3%A9")), "{text}");
    }

    #[test]
    fn what_is_none_of_ours_is_foreign() {
        let owner = Owner::from_bits(7);
        for text in ["", "held", "held x 1 ", "HELD", "1", "{\"json\":1}"] {
            assert_eq!(read(text.as_bytes(), 1), Record::Foreign, "{text}");
        }
        for token in ["0", "9007199254740992", "1e3", "-1", ""] {
            assert_eq!(read(format!("held {owner} {token} ").as_bytes(), 1), Record::Foreign);
        }
        assert_eq!(read(b"held \xff", 1), Record::Foreign);
    }

    #[test]
    fn a_record_without_expiry_or_metadata_still_names_its_holder() {
        let text = format!("held {} 5 ", Owner::from_bits(7));
        let Record::Held(holder) = read(text.as_bytes(), -1) else { panic!("{text}") };
        assert_eq!((holder.remaining, holder.metadata), (None, None));
    }
}
