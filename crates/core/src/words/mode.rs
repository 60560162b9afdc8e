//! [`TaskMode`]: whether a task is in user mode or in kernel mode. The rules are those of
//! [`crate::entry::mode`].

/// Where a task's own code is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskMode {
    /// In its program.
    #[default]
    User,
    /// In a system call, waiting, or on the way back from that.
    Kernel,
}
