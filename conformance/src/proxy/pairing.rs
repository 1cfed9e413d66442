//! Redis' protocol on one connection: which request an answer belongs to.

use std::collections::VecDeque;
use std::sync::Arc;

use super::message::Direction;
use super::protocol::{End, Paired, Protocol};
use super::resp;

/// The requests that the server has and has not answered.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    waiting: VecDeque<Asked>,
    /// A subscription was asked for: in version 2 of the protocol, arrays may be pushed from now on.
    subscribed: bool,
    /// Pushed messages have a form of their own here: version 3.
    version_3: bool,
}

#[derive(Debug)]
struct Asked {
    request: Arc<[u8]>,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Wanted,
    /// Of the second copy of a duplicated request: the client knows of one.
    Surplus,
    /// A subscription's, which comes as pushed messages unless it is an error.
    Pushed,
}

impl Protocol for Pairing {
    fn end(&mut self, _: Direction, buffer: &[u8]) -> End {
        resp::end(buffer)
    }

    fn asked(&mut self, request: &Arc<[u8]>, surplus: bool) {
        let answer = match resp::command(request) {
            Some(command) if command.ends_with("SUBSCRIBE") => {
                self.subscribed = true;
                Answer::Pushed
            }
            _ if surplus => Answer::Surplus,
            _ => Answer::Wanted,
        };
        self.waiting.push_back(Asked { request: request.clone(), answer });
    }

    fn came(&mut self, message: &[u8]) -> Paired {
        self.version_3 |= message.first() == Some(&b'>');
        if self.is_push(message) {
            let confirms = resp::word(message, 0).is_some_and(|word| word.ends_with(b"subscribe"));
            if confirms && self.next_is(Answer::Pushed) {
                self.waiting.pop_front();
            }
            return Paired { push: true, ..Paired::default() };
        }
        if !matches!(message.first(), Some(b'-' | b'!')) {
            // A subscription without channels is answered by nothing.
            while self.next_is(Answer::Pushed) {
                self.waiting.pop_front();
            }
        }
        let asked = self.waiting.pop_front();
        let surplus = asked.as_ref().is_some_and(|asked| asked.answer == Answer::Surplus);
        Paired { request: asked.map(|asked| asked.request), surplus, ..Paired::default() }
    }

    fn pairs(&self) -> bool {
        true
    }
}

impl Pairing {
    fn next_is(&self, answer: Answer) -> bool {
        self.waiting.front().is_some_and(|asked| asked.answer == answer)
    }

    fn is_push(&self, message: &[u8]) -> bool {
        match message.first() {
            Some(b'>') => true,
            Some(b'*') if self.subscribed && !self.version_3 => resp::word(message, 0)
                .is_some_and(|word| word.ends_with(b"subscribe") || word.ends_with(b"message")),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Protocol;
    use super::Pairing;
    use std::sync::Arc;

    fn request(text: &str) -> Arc<[u8]> {
        Arc::from(format!("{text}\r\n").into_bytes())
    }

    fn answers(pairing: &mut Pairing, message: &str) -> Option<String> {
        let paired = pairing.came(message.as_bytes());
        paired.request.map(|request| String::from_utf8_lossy(&request).trim_end().to_owned())
    }

    #[test]
    fn answers_pair_in_order_and_pushed_messages_with_nothing() {
        let mut pairing = Pairing::default();
        pairing.asked(&request("GET a"), false);
        pairing.asked(&request("SUBSCRIBE c"), false);
        pairing.asked(&request("GET b"), false);
        assert_eq!(answers(&mut pairing, "$1\r\n1\r\n").as_deref(), Some("GET a"));
        assert_eq!(answers(&mut pairing, ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"), None);
        assert_eq!(answers(&mut pairing, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"), None);
        assert_eq!(answers(&mut pairing, "$1\r\n2\r\n").as_deref(), Some("GET b"));
    }

    #[test]
    fn a_refused_subscription_is_answered_by_its_error() {
        let mut pairing = Pairing::default();
        pairing.asked(&request("SUBSCRIBE c"), false);
        pairing.asked(&request("GET b"), false);
        assert_eq!(answers(&mut pairing, "-NOPERM\r\n").as_deref(), Some("SUBSCRIBE c"));
        assert_eq!(answers(&mut pairing, "_\r\n").as_deref(), Some("GET b"));
    }

    #[test]
    fn version_2_pushes_arrays_once_subscribed() {
        let mut pairing = Pairing::default();
        pairing.asked(&request("LRANGE l 0 -1"), false);
        let list = "*1\r\n$7\r\nmessage\r\n";
        assert_eq!(answers(&mut pairing, list).as_deref(), Some("LRANGE l 0 -1"));
        pairing.asked(&request("SUBSCRIBE c"), false);
        assert!(pairing.came(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n").push);
        assert!(pairing.came(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").push);
    }

    #[test]
    fn the_answer_to_a_second_copy_is_surplus() {
        let mut pairing = Pairing::default();
        let twice = request("INCR n");
        pairing.asked(&twice, false);
        pairing.asked(&twice, true);
        assert!(!pairing.came(b":1\r\n").surplus);
        assert!(pairing.came(b":2\r\n").surplus);
    }
}
