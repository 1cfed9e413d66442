//! Values as people write them, in URLs and in configuration files.

use std::time::Duration;

use leasehold_api::{Guarantee, Scope};

const GUARANTEES: [Guarantee; 2] = [Guarantee::Efficiency, Guarantee::Correctness];
const SCOPES: [Scope; 3] = [Scope::Process, Scope::Host, Scope::Network];

/// # Errors
///
/// What is allowed.
pub(crate) fn read_duration(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text).map_err(|_| "a duration such as 500ms, 30s or 2m")
}

/// # Errors
///
/// What is allowed.
pub(crate) fn read_guarantee(text: &str) -> Result<Guarantee, String> {
    one_of(text, &GUARANTEES)
}

/// # Errors
///
/// What is allowed.
pub(crate) fn read_scope(text: &str) -> Result<Scope, String> {
    one_of(text, &SCOPES)
}

fn one_of<T: Copy + ToString>(text: &str, known: &[T]) -> Result<T, String> {
    known.iter().copied().find(|known| known.to_string() == text).ok_or_else(|| {
        let known: Vec<_> = known.iter().map(ToString::to_string).collect();
        format!("one of {}", known.join(", "))
    })
}

#[cfg(feature = "serde")]
mod with_serde {
    use std::fmt;
    use std::marker::PhantomData;
    use std::time::Duration;

    use leasehold_api::{Guarantee, Scope};
    use serde::de::{Deserializer, Error, Visitor};

    /// Reads a text by a function that says what is allowed.
    struct Text<T, W>(fn(&str) -> Result<T, W>, PhantomData<T>);

    impl<T, W: fmt::Display> Visitor<'_> for Text<T, W> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match (self.0)("") {
                Err(allowed) => write!(f, "{allowed}, as text"),
                Ok(_) => f.write_str("a text"),
            }
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            let refused = |allowed| E::custom(format_args!("`{text}` is not {allowed}"));
            (self.0)(text).map(Some).map_err(refused)
        }
    }

    pub(crate) fn duration<'de, D>(deserializer: D) -> Result<Option<Duration>, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_str(Text(super::read_duration, PhantomData))
    }

    pub(crate) fn guarantee<'de, D>(deserializer: D) -> Result<Option<Guarantee>, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_str(Text(super::read_guarantee, PhantomData))
    }

    pub(crate) fn scope<'de, D>(deserializer: D) -> Result<Option<Scope>, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_str(Text(super::read_scope, PhantomData))
    }
}

#[cfg(feature = "serde")]
pub(crate) use with_serde::{duration, guarantee, scope};
