//! [`Body`]: the kernel's part of a task.
//!
//! Where the scheduler's body of the task is, which computation it will continue, and whether it is
//! in kernel mode. Why it waits and what it does next is its program's, and the kernel cannot see
//! it: the program says what a task waits *on* ([`Body::blocked_on`]) when it blocks it.

use crate::kernel::cpu::Segment;
use std::sync::Arc;
use zerolag_core::{LockId, Parcel};
use zerolag_model::{CpuId, CpuMask, Duration};

/// What a task's program does in kernel mode. Waiting is not meant: there the core knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// Nothing: the costs of its calls are part of user mode's steps.
    None,
    /// A step of kernel mode outside system calls. It ends before the next step.
    Step,
    /// It is between the beginning and the end of a system call.
    Syscall,
}

/// What a task has of a time slice extension ([`extension`](crate::kernel::extension)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Extension {
    #[default]
    Nothing,
    Asked,
    /// The number of the grant.
    Granted(u32),
}

/// The time slice extensions of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extensions {
    /// Whether any task has asked for one.
    pub(super) are_asked: bool,
    pub(super) granted: u32,
}

/// The kernel's part of a task.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) name: Arc<str>,
    /// The scheduler's body, while the task is on no run queue.
    pub(super) parcel: Option<Parcel>,
    /// The computation that it had not finished when it last left a CPU.
    pub(super) segment: Segment,
    /// Cache refill to be paid before it makes progress.
    pub(super) refill: Duration,
    /// Where its cache is warm.
    pub(super) last_ran_on: Option<CpuId>,
    /// The affinity that [`Job::SetAffinity`](crate::kernel::words::Job::SetAffinity) sets.
    pub(super) new_affinity: Option<Arc<CpuMask>>,
    pub(super) visit: Visit,
    /// Spinning locks that it holds or spins for (`preempt_count`): nothing preempts its CPU.
    pub(super) spin_locks: u32,
    /// Sections with softirqs disabled that it is in.
    pub(super) bh_sections: u32,
    /// The lock for whose holder it may lend its turn (`blocked_on`); only with `proxy_exec`.
    pub(super) blocked_on: Option<LockId>,
    /// Its time slice extension (`rseq`).
    pub(super) extension: Extension,
}

impl Clone for Body {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            parcel: self.parcel.as_ref().map(Parcel::snapshot),
            new_affinity: self.new_affinity.clone(),
            ..*self
        }
    }
}

impl Body {
    pub(super) const fn new(name: Arc<str>, parcel: Parcel) -> Self {
        Self {
            name,
            parcel: Some(parcel),
            segment: Segment::None,
            refill: Duration::ZERO,
            last_ran_on: None,
            new_affinity: None,
            visit: Visit::None,
            spin_locks: 0,
            bh_sections: 0,
            blocked_on: None,
            extension: Extension::Nothing,
        }
    }
}
