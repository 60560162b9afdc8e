//! [`TaskMode`]: whether a task is in user mode or in kernel mode. [`crate::entry::mode`] has the
//! rules.

/// The mode of a task's own code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskMode {
    /// In its program.
    #[default]
    User,
    /// In a system call, waiting, or returning from either.
    Kernel,
}
