//! Lengths of time of the standard library and of the model.

use std::time::Duration;

/// Converts a length of time, at most 584 years.
pub(crate) fn to_model(time: Duration) -> zerolag_model::Duration {
    zerolag_model::Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Converts a length of time.
pub(crate) const fn to_std(time: zerolag_model::Duration) -> Duration {
    Duration::from_nanos(time.as_nanos())
}
