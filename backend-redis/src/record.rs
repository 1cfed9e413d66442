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

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_api::{Holder, Label, Metadata, Owner, Token};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use redis::{RedisWrite, ToRedisArgs};

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

/// The first words of a held record, as far as they are known.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) owner: Owner,
    pub(crate) token: Option<Token>,
}

impl ToRedisArgs for Head {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        let mut words = out.writer_for_next_arg();
        let written = words.write_all(b"held ").and_then(|()| words.write_all(&hex(self.owner)));
        let written = written.and_then(|()| match self.token {
            Some(token) => write!(words, " {token} "),
            None => words.write_all(b" "),
        });
        written.expect("a command takes all that is written");
    }
}

/// An owner as it is written everywhere. On the way of each request, so without `format!`.
fn hex(owner: Owner) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = owner.bits().to_be_bytes();
    std::array::from_fn(|at| {
        let byte = bytes[at / 2];
        DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}

/// The rest of a record, after the token and before the mark.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a>(pub(crate) &'a Metadata);

impl ToRedisArgs for Rest<'_> {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        let Metadata { label, host, pid, since, .. } = self.0;
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut end = host.len().min(HOST_MAX_BYTES);
        while !host.is_char_boundary(end) {
            end -= 1;
        }
        let host = utf8_percent_encode(&host[..end], IN_HOST);
        let mut words = out.writer_for_next_arg();
        let written = write!(words, " {pid} {since} {host}").and_then(|()| match label {
            Some(label) => write!(words, " {}", label.as_str()),
            None => Ok(()),
        });
        written.expect("a command takes all that is written");
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
    use super::{Head, Record, Rest, read};
    use leasehold_api::{Label, Metadata, Owner, Token};
    use redis::ToRedisArgs;
    use std::time::{Duration, UNIX_EPOCH};

    fn said(host: &str, label: Option<&str>) -> Metadata {
        let mut said = Metadata::of_this_process();
        said.pid = 42;
        said.since = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        said.host = host.into();
        said.label = label.map(|label| Label::new(label).unwrap());
        said
    }

    fn text(part: &impl ToRedisArgs) -> String {
        String::from_utf8(part.to_redis_args().concat()).unwrap()
    }

    fn head(owner: Owner, token: Option<Token>) -> String {
        text(&Head { owner, token })
    }

    #[test]
    fn an_owner_is_written_as_it_is_shown() {
        for bits in [0, 7, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, u128::MAX] {
            let owner = Owner::from_bits(bits);
            assert_eq!(head(owner, None), format!("held {owner} "));
            assert_eq!(head(owner, Some(Token::MAX)), format!("held {owner} {} ", Token::MAX));
        }
    }

    #[test]
    fn metadata_survives_the_record() {
        let owner = Owner::from_bits(7);
        let token = Token::MAX;
        for host in ["", "db1", "a b%20c", "é\n"] {
            for label in [None, Some(""), Some("nightly"), Some(" a  b -")] {
                let said = said(host, label);
                let text = format!("{}{token}{}-", head(owner, None), text(&Rest(&said)));
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
        let text = text(&Rest(&said(&"é".repeat(200), None)));
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
