//! The scripts, one an operation, and how they are called.

use std::sync::LazyLock;

use redis::Cmd;

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

    /// The call by SHA-1.
    pub(crate) fn by_sha(&self, keys: &[&str], args: &[&str]) -> Cmd {
        command("EVALSHA", &self.sha, keys, args)
    }

    /// The call with its text, after which the server knows it.
    pub(crate) fn by_text(&self, keys: &[&str], args: &[&str]) -> Cmd {
        command("EVAL", self.text, keys, args)
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

fn command(verb: &str, script: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let bytes: usize = keys.iter().chain(args).map(|part| part.len()).sum();
    let mut command =
        Cmd::with_capacity(3 + keys.len() + args.len(), bytes + verb.len() + script.len() + 4);
    command.arg(verb).arg(script).arg(keys.len());
    for part in keys.iter().chain(args) {
        command.arg(*part);
    }
    command
}
