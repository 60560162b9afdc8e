//! [`ExitInfo`]: why a kernel unloads a policy (`scx_exit_info`).

use crate::words::Callback;
use alloc::format;
use alloc::string::String;
use core::fmt;
use zerolag_model::{CpuId, Instant};

/// The kind of an exit (`scx_exit_kind`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExitKind {
    /// The user unloaded it (`SCX_EXIT_UNREG`).
    Unreg,
    /// The policy asked for it ([`Scx::exit`](crate::Scx::exit), `SCX_EXIT_UNREG_BPF`).
    UnregPolicy,
    /// The policy broke a rule (`SCX_EXIT_ERROR`).
    Error,
    /// The policy said that it cannot go on ([`Scx::error`](crate::Scx::error),
    /// `SCX_EXIT_ERROR_BPF`).
    ErrorPolicy,
    /// A runnable task did not run (`SCX_EXIT_ERROR_STALL`).
    Stall,
}

impl ExitKind {
    /// Returns the kernel's words: Linux v7.3 `kernel/sched/ext/ext.c`, `scx_exit_reason`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Unreg => "unregistered from user space",
            Self::UnregPolicy => "unregistered from BPF",
            Self::Error => "runtime error",
            Self::ErrorPolicy => "scx_bpf_error",
            Self::Stall => "runnable task stall",
        }
    }

    /// Returns whether it is a fault of the policy.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::ErrorPolicy | Self::Stall)
    }
}

/// Why a policy was unloaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExitInfo {
    /// The policy.
    pub policy: String,
    /// The kind.
    pub kind: ExitKind,
    /// The kernel's message.
    pub msg: String,
    /// When.
    pub at: Instant,
    /// The callback in which it happened, if it did in one.
    pub callback: Option<Callback>,
    /// The task that the callback was about, or that did not run: `comm[pid]`.
    pub task: Option<String>,
    /// The CPU of the callback.
    pub cpu: Option<CpuId>,
}

impl ExitInfo {
    /// Returns where it happened: `ops.enqueue() of web[3] on CPU 1 at 1.5 s`.
    #[must_use]
    pub fn place(&self) -> String {
        let callback = self.callback.map_or_else(String::new, |callback| format!("{}() ", callback.name()));
        let task = self.task.as_ref().map_or_else(String::new, |task| format!("of {task} "));
        let cpu = self.cpu.map_or_else(String::new, |cpu| format!("on CPU {cpu} "));
        format!("{callback}{task}{cpu}at {}", self.at)
    }
}

/// The lines that a kernel prints: v7.3 `kernel/sched/ext/ext.c`, `scx_root_disable`.
impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policy, reason) = (&self.policy, self.kind.reason());
        write!(f, "sched_ext: BPF scheduler \"{policy}\" disabled ({reason})")?;
        if self.msg.is_empty() { Ok(()) } else { write!(f, "\nsched_ext: {policy}: {}", self.msg) }
    }
}
