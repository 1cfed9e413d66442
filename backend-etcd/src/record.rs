//! What stands in a claim's key, version 1.
//!
//! ```text
//! held FLOOR PID SINCE HOST[ LABEL]
//! closed FLOOR PID SINCE HOST[ LABEL]
//! ```
//!
//! `FLOOR` is the token floor that the claim compared, decimal: its token is that plus the key's
//! create revision. `SINCE` is milliseconds since 1970 by the holder's clock, `HOST`
//! percent-encoded and perhaps empty; the label is the rest. The owner is in the key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_api::{Label, Metadata, Token};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

const IN_HOST: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
const HOST_MAX_BYTES: usize = 255;

/// What a claim's key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) closed: bool,
    pub(crate) floor: u64,
    pub(crate) said: Option<Metadata>,
}

/// Writes the record of a claim.
pub(crate) fn write(floor: u64, metadata: &Metadata) -> String {
    let Metadata { label, host, pid, since, .. } = metadata;
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut end = host.len().min(HOST_MAX_BYTES);
    while !host.is_char_boundary(end) {
        end -= 1;
    }
    let host = utf8_percent_encode(&host[..end], IN_HOST);
    match label {
        Some(label) => format!("held {floor} {pid} {since} {host} {}", label.as_str()),
        None => format!("held {floor} {pid} {since} {host}"),
    }
}

/// Writes the record of a name that its last holder keeps closed.
pub(crate) fn write_closed(floor: u64) -> String {
    let metadata = Metadata::of_this_process();
    write(floor, &metadata).replacen("held", "closed", 1)
}

/// Reads a record; `None` if it is none of ours.
pub(crate) fn read(record: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(record).ok()?;
    let mut words = text.splitn(6, ' ');
    let closed = match words.next()? {
        "held" => false,
        "closed" => true,
        _ => return None,
    };
    let floor = words.next()?.parse().ok()?;
    let said = (|| {
        let mut said = Metadata::of_this_process();
        said.pid = words.next()?.parse().ok()?;
        let since = Duration::from_millis(words.next()?.parse().ok()?);
        said.since = UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
        said.host = percent_decode_str(words.next()?).decode_utf8_lossy().into();
        said.label = words.next().and_then(|label| Label::new(label).ok());
        Some(said)
    })();
    Some(Record { closed, floor, said })
}

/// The token of a key that was created at `created` over `floor`; `None` past the highest.
pub(crate) fn token(floor: u64, created: i64) -> Option<Token> {
    Token::new(floor.checked_add(u64::try_from(created).ok()?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{read, token, write, write_closed};
    use leasehold_api::{Label, Metadata, Token};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let mut metadata = Metadata::of_this_process();
        metadata.since = UNIX_EPOCH + Duration::from_millis(1_796_056_181_567);
        for (host, label) in [("", None), ("a host%", Some("the label: x y")), ("h", Some(""))] {
            metadata.host = host.into();
            metadata.label = label.map(|label| Label::new(label).unwrap());
            let record = read(write(42, &metadata).as_bytes()).unwrap();
            assert_eq!((record.closed, record.floor), (false, 42));
            assert_eq!(record.said.unwrap(), metadata);
        }
        assert!(read(write_closed(42).as_bytes()).unwrap().closed);
        for foreign in ["", "held", "held x", "mine", "{}"] {
            assert_eq!(read(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn a_token_is_floor_and_revision_and_ends_at_the_highest() {
        assert_eq!(token(1_796_056_181_567_121, 5).unwrap().get(), 1_796_056_181_567_126);
        assert_eq!(token(Token::MAX.get() - 5, 5), Some(Token::MAX));
        assert_eq!(token(Token::MAX.get() - 5, 6), None);
        assert_eq!(token(u64::MAX, 6), None);
    }
}
