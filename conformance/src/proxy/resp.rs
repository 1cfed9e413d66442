//! Where a message of Redis' protocol ends, versions 2 and 3
//! (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).

use super::protocol::End;

/// Finds the end of the first message.
///
/// It starts anew each time more has arrived: messages in tests are small.
pub(super) fn end(buffer: &[u8]) -> End {
    let mut at = 0;
    // The values still to come at each level of nesting; `None` where only a mark ends them.
    let mut open: Vec<Option<u64>> = vec![Some(1)];
    while let Some(level) = open.last_mut() {
        match level {
            Some(0) => {
                open.pop();
                continue;
            }
            Some(left) => *left -= 1,
            None => (),
        }
        let Some((line, next)) = line(buffer, at) else { return End::Unknown };
        at = next;
        let Some((kind, rest)) = line.split_first() else {
            // An empty line between inline commands is one.
            if at == 2 && open.len() == 1 {
                continue;
            }
            return End::Malformed;
        };
        let streamed = rest == b"?";
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => (),
            // The end of a streamed aggregate: one level less.
            b'.' if open.last() == Some(&None) => {
                open.pop();
            }
            // A part of a streamed string; the empty one ends it.
            b';' if open.last() == Some(&None) => match number(rest) {
                Some(0) => {
                    open.pop();
                }
                Some(length) if length > 0 => at += length as usize + 2,
                _ => return End::Malformed,
            },
            b'$' | b'!' | b'=' if streamed => open.push(None),
            b'$' | b'!' | b'=' => match number(rest) {
                Some(-1) => (),
                Some(length) if length >= 0 => at += length as usize + 2,
                _ => return End::Malformed,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' if streamed => open.push(None),
            b'*' | b'~' | b'>' => match number(rest) {
                Some(-1) => (),
                Some(count) if count >= 0 => open.push(Some(count as u64)),
                _ => return End::Malformed,
            },
            b'%' | b'|' => match number(rest) {
                Some(pairs) if pairs >= 0 => {
                    // An attribute stands before its value and does not count as one.
                    if let (b'|', Some(Some(left))) = (kind, open.last_mut()) {
                        *left += 1;
                    }
                    open.push(Some(2 * pairs as u64));
                }
                _ => return End::Malformed,
            },
            // An inline command is one line.
            _ if open.len() == 1 && line.is_ascii() => (),
            _ => return End::Malformed,
        }
        if at > buffer.len() {
            return End::Unknown;
        }
    }
    End::At(at)
}

/// The command's name in capitals, of a request.
pub(super) fn command(request: &[u8]) -> Option<String> {
    let word = word(request, 0)?;
    Some(String::from_utf8_lossy(word).to_ascii_uppercase())
}

/// The word at this place of an array or pushed message of bulk strings, or of an inline command.
pub(super) fn word(message: &[u8], index: usize) -> Option<&[u8]> {
    let (first, mut at) = line(message, 0)?;
    if !matches!(first.first(), Some(b'*' | b'>')) {
        let words = first.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        return words.into_iter().nth(index);
    }
    for place in 0.. {
        let (head, start) = line(message, at)?;
        let length = match head.split_first()? {
            (b'$', rest) => usize::try_from(number(rest)?).ok()?,
            _ => return None,
        };
        if place == index {
            return message.get(start..start.checked_add(length)?);
        }
        at = start.checked_add(length)?.checked_add(2)?;
    }
    None
}

/// The line that starts there, without its end, and where the next starts.
fn line(buffer: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = buffer.get(at..)?;
    let length = rest.windows(2).position(|two| two == b"\r\n")?;
    Some((&rest[..length], at + length + 2))
}

/// A length, at most what a server accepts (512 MiB), or -1.
fn number(digits: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (-1..=512 << 20).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::End;
    use super::{command, end, word};

    /// One message of every form.
    const FORMS: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":-7\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$6\r\na\r\n*2b\r\n",
        "!5\r\nERR x\r\n",
        "=7\r\ntxt:abc\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        "*3\r\n:1\r\n*2\r\n+a\r\n$1\r\nb\r\n*0\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
        "|1\r\n+ttl\r\n:3600\r\n*1\r\n$1\r\nx\r\n",
        "*2\r\n|1\r\n+ttl\r\n:1\r\n:2\r\n:3\r\n",
        "$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n",
        "*?\r\n:1\r\n*?\r\n.\r\n:2\r\n.\r\n",
        "%?\r\n+a\r\n:1\r\n.\r\n",
        "PING\r\n",
        "SET key value\r\n",
    ];

    #[test]
    fn each_form_ends_where_it_ends_whatever_follows() {
        for form in FORMS {
            for next in ["", "+NEXT\r\n", "*1\r\n"] {
                let buffer = format!("{form}{next}");
                assert_eq!(end(buffer.as_bytes()), End::At(form.len()), "{form:?} + {next:?}");
            }
        }
    }

    #[test]
    fn no_beginning_of_a_message_is_taken_for_the_whole() {
        for form in FORMS {
            for length in 0..form.len() {
                assert_eq!(end(&form.as_bytes()[..length]), End::Unknown, "{form:?} at {length}");
            }
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_malformed() {
        for bytes in ["$x\r\n", "*2\r\nhello\r\n", "$99999999999\r\n", "*-5\r\n", "\u{fffd}\r\n"] {
            assert_eq!(end(bytes.as_bytes()), End::Malformed, "{bytes:?}");
        }
    }

    #[test]
    fn a_request_names_its_command_in_capitals() {
        assert_eq!(command(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n").as_deref(), Some("GET"));
        assert_eq!(command(b"evalsha abc 1 k\r\n").as_deref(), Some("EVALSHA"));
        assert_eq!(word(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n", 1), Some(&b"k"[..]));
        assert_eq!(word(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n", 2), None);
    }
}
