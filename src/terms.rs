//! What a lock is asked to be, and the check of it.

use std::time::Duration;

use leasehold_api::{Error, Label, Operation, Ttl};

/// The caller's wishes, unchecked: setters don't fail.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) min_hold: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) keep_alive: bool,
    pub(crate) label: Option<String>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(30),
            min_hold: Duration::ZERO,
            max_hold: None,
            keep_alive: true,
            label: None,
        }
    }
}

/// Checked wishes.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) ttl: Ttl,
    pub(crate) min_hold: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) keep_alive: bool,
    pub(crate) label: Option<Label>,
}

impl Wishes {
    /// Checks everything at once, before any network traffic; `floor` is the backend's for TTLs.
    pub(crate) fn check(&self, backend: &str, floor: Duration) -> Result<Terms, Error> {
        let refuse = |what: String| Err(Error::bad_input(Operation::Configure, what));
        let longest = Ttl::MAX;
        let ttl = match Ttl::new(self.ttl) {
            Ok(ttl) if self.ttl >= floor => ttl,
            _ => {
                let asked = self.ttl;
                return refuse(format!(
                    "a TTL of {asked:?} is not within {floor:?} to 30 days, which {backend} keeps"
                ));
            }
        };
        if self.min_hold > longest.get() {
            return refuse(format!("a min_hold of {:?} is over 30 days", self.min_hold));
        }
        if let Some(max_hold) = self.max_hold {
            if max_hold < floor || max_hold > longest.get() {
                return refuse(format!(
                    "a max_hold of {max_hold:?} is not within {floor:?} to 30 days"
                ));
            }
            if self.min_hold > max_hold {
                return refuse(format!(
                    "a min_hold of {:?} is over the max_hold of {max_hold:?}",
                    self.min_hold
                ));
            }
        }
        let label = self.label.as_deref().map(Label::new).transpose()?;
        let Self { min_hold, max_hold, keep_alive, .. } = *self;
        Ok(Terms { ttl, min_hold, max_hold, keep_alive, label })
    }
}

#[cfg(test)]
mod tests {
    use super::Wishes;
    use leasehold_api::ErrorKind;
    use std::time::Duration;

    #[test]
    fn bad_durations_and_labels_are_refused_with_what_is_allowed() {
        const FLOOR: Duration = Duration::from_millis(10);
        const DAYS_31: Duration = Duration::from_secs(31 * 24 * 60 * 60);
        type Change = fn(&mut Wishes);
        let bad: [(&str, Change); 9] = [
            ("10ms to 30 days", |w| w.ttl = Duration::ZERO),
            ("10ms to 30 days", |w| w.ttl = Duration::from_millis(9)),
            ("10ms to 30 days", |w| w.ttl = Duration::MAX),
            ("10ms to 30 days", |w| w.ttl = DAYS_31),
            ("over 30 days", |w| w.min_hold = DAYS_31),
            ("10ms to 30 days", |w| w.max_hold = Some(Duration::ZERO)),
            ("10ms to 30 days", |w| w.max_hold = Some(DAYS_31)),
            ("over the max_hold", |w| {
                (w.min_hold, w.max_hold) = (Duration::from_secs(2), Some(Duration::from_secs(1)));
            }),
            ("up to 128 bytes", |w| w.label = Some("x".repeat(129))),
        ];
        for (says, change) in bad {
            let mut wishes = Wishes::default();
            change(&mut wishes);
            let error = wishes.check("test", FLOOR).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadInput);
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(Wishes::default().check("test", FLOOR).is_ok());
    }
}
