//! The scripts, one an operation, and how they are called.

use std::sync::LazyLock;

use redis::{Arg, Cmd, ToRedisArgs};

/// A script and its SHA-1, by which the server knows it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    sha: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, sha: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A call of it with so many keys; the keys are to be given next, and then the arguments.
    pub(crate) fn call(&'static self, keys: usize) -> Call {
        Call::new(self, keys, Cmd::with_capacity(PARTS, BYTES))
    }

    /// The same for many keys: with room for so many bytes a key and its arguments.
    pub(crate) fn call_for_many(&'static self, keys: usize, parts: usize, bytes: usize) -> Call {
        Call::new(self, keys, Cmd::with_capacity(PARTS + keys * parts, BYTES + keys * bytes))
    }
}

/// Room for the parts of a usual call.
const PARTS: usize = 12;
const BYTES: usize = 384;

/// A call of a script, written straight into the command that is sent.
pub(crate) struct Call {
    script: &'static Script,
    by_sha: Cmd,
}

impl Call {
    fn new(script: &'static Script, keys: usize, mut by_sha: Cmd) -> Self {
        by_sha.arg("EVALSHA").arg(&script.sha).arg(keys);
        Self { script, by_sha }
    }

    /// Adds a key, or an argument.
    pub(crate) fn part(&mut self, part: impl ToRedisArgs) -> &mut Self {
        self.by_sha.arg(part);
        self
    }

    /// The call by SHA-1.
    pub(crate) fn by_sha(&self) -> &Cmd {
        &self.by_sha
    }

    /// The call with its text, after which the server knows it.
    pub(crate) fn by_text(&self) -> Cmd {
        let mut by_text = redis::cmd("EVAL");
        by_text.arg(self.script.text);
        for part in self.by_sha.args_iter().skip(2) {
            if let Arg::Simple(part) = part {
                by_text.arg(part);
            }
        }
        by_text
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)+) => {
        $(
            $(#[$doc])*
            pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new(concat!($(include_str!(concat!("scripts/", $file, ".lua")), "\n"),+))
            });
        )+

        /// All of them, to be loaded at connect.
        pub(crate) fn all() -> Vec<&'static Script> {
            vec![$(&$name),+]
        }
    };
}

scripts! {
    ACQUIRE = "token" "acquire" "record" "waiters" "acquire_rest";
    RENEW = "record" "renew";
    RELEASE = "release" "record" "waiters" "release_rest";
    HAND_OVER = "record" "token" "waiters" "hand_over";
    RAISE = "raise";
    FENCING = "record" "fencing";
    INSPECT = "record" "inspect";
    EVICT = "record" "waiters" "evict";
}

#[cfg(test)]
mod tests {
    use super::FENCING;
    use redis::cmd;

    #[test]
    fn by_text_a_call_has_the_same_parts() {
        let mut call = FENCING.call(1);
        call.part("key").part(7).part("");
        let packed = cmd("EVALSHA").arg(&FENCING.sha).arg(1).arg("key").arg("7").arg("").clone();
        assert_eq!(call.by_sha().get_packed_command(), packed.get_packed_command());
        let packed = cmd("EVAL").arg(FENCING.text).arg(1).arg("key").arg("7").arg("").clone();
        assert_eq!(call.by_text().get_packed_command(), packed.get_packed_command());
    }
}
