//! How a server is come by.

use std::fmt;

/// The variable that allows one way only.
const VARIABLE: &str = "LEASEHOLD_SERVERS";

/// How a server is come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// In a container of a Docker engine, through testcontainers.
    Container,
    /// As a child process of the test.
    Process,
    /// It runs already; the environment says where.
    Url,
}

impl Way {
    const ALL: [Self; 3] = [Self::Container, Self::Process, Self::Url];

    /// The ways to try, best first.
    ///
    /// # Errors
    ///
    /// With words for the user if `LEASEHOLD_SERVERS` names no way.
    pub(super) fn allowed() -> Result<Vec<Self>, String> {
        match std::env::var(VARIABLE) {
            Ok(word) if !word.is_empty() => Self::parse(&word).map(|way| vec![way]),
            _ => Ok(Self::ALL.to_vec()),
        }
    }

    fn parse(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|way| way.to_string() == word)
            .ok_or_else(|| format!("{VARIABLE} is {word:?}; it can be container, process or url"))
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container => "container",
            Self::Process => "process",
            Self::Url => "url",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Way;

    #[test]
    fn each_way_is_read_by_its_own_word_and_no_other_word_is_one() {
        for way in Way::ALL {
            assert_eq!(Way::parse(&way.to_string()), Ok(way));
        }
        assert!(Way::parse("docker").unwrap_err().contains("container, process or url"));
    }
}
