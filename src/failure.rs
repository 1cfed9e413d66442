//! What a driver's error means for what comes next.

use leasehold_api::{Error, ErrorKind};

/// Whether the request behind this error may have taken effect, or still may.
pub(crate) fn may_have_landed(error: &Error) -> bool {
    use ErrorKind::{Closed, Indeterminate, TooLate, Unclassified};
    matches!(error.kind(), Closed | Indeterminate | TooLate | Unclassified)
}

/// Whether a waiter or a clean-up asks again. (A caller may retry more: `Error::is_retryable`.)
pub(crate) fn may_mend(error: &Error) -> bool {
    use ErrorKind::{Busy, Indeterminate, NotPrimary, Unreachable};
    matches!(error.kind(), Busy | Indeterminate | NotPrimary | Unreachable)
}
