//! [`Context`]: what a CPU does at an event.

/// What a CPU does at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    /// The recorder does not tell.
    Unknown,
    /// It runs its task.
    Task,
    /// It is in an interrupt handler.
    Interrupt,
    /// It does the rest of an interrupt, or delivers what its task sends over loopback.
    Softirq,
}

impl Context {
    /// Returns the context of the flags in a binary payload: bits 3 and 4 are interrupts and
    /// softirqs.
    #[cfg(feature = "recordings")]
    pub(crate) const fn of_flags(flags: u64) -> Self {
        match (flags & 0x08 != 0, flags & 0x10 != 0) {
            (true, _) => Self::Interrupt,
            (false, true) => Self::Softirq,
            (false, false) => Self::Task,
        }
    }
}
