//! Lengths of time: those of `std` in interfaces, those of the scheduler inside.

/// Converts a length of the system; one beyond the range (584 years) becomes the longest.
pub(crate) fn to_model(length: std::time::Duration) -> zerolag_model::Duration {
    zerolag_model::Duration::from_nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// Converts a length of the scheduler.
pub(crate) fn to_std(length: zerolag_model::Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(length.as_nanos())
}
