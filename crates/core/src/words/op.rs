//! Operations for the host ([`Op`]) and what a call cost, in counts ([`Costs`]). Operations are
//! data: the core calls nothing back.

use crate::words::ids::DomainId;
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, GroupId, Instant, ServerKind};

/// What an interrupt sent by the core is for; the receiver hands it to [`Scheduler::remote`].
///
/// [`Scheduler::remote`]: crate::Scheduler::remote
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Push your waiting RT tasks, then pass the IPI of that root domain on, which you may have
    /// left meanwhile.
    RtPush(DomainId),
    /// Push your waiting RT tasks, then pass this CPU's chain on.
    RtPushFor(CpuId),
    /// You are idle: look for work.
    IdleBalance,
}

impl Work {
    /// Returns the reason as traces name it.
    #[must_use]
    pub const fn reason(self) -> IpiReason {
        match self {
            Self::RtPush(_) | Self::RtPushFor(_) => IpiReason::RtPush,
            Self::IdleBalance => IpiReason::IdleBalance,
        }
    }
}

/// A timer of a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RqTimer {
    /// The current task's slice or budget ends (`enforce = exact`; the kernel's hrtick).
    Slice,
    /// A throttled deadline task gets its next budget. Set to the first of them; fires at once
    /// again while more are due.
    Replenish,
    /// A deadline server is due: its zero-laxity instant, its next period, or the end of its
    /// runtime (`enforce = exact`).
    Server(ServerKind),
    /// A period of RT throttling ends.
    RtPeriod,
}

impl RqTimer {
    /// Every timer that a run queue has.
    pub const ALL: [Self; 3 + ServerKind::ALL.len()] = {
        let mut all = [Self::RtPeriod; 3 + ServerKind::ALL.len()];
        (all[0], all[1]) = (Self::Slice, Self::Replenish);
        let mut kind = 0;
        while kind < ServerKind::ALL.len() {
            all[2 + kind] = Self::Server(ServerKind::ALL[kind]);
            kind += 1;
        }
        all
    };

    /// Returns its place in [`ALL`](Self::ALL), for hosts that keep one thing per timer.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Slice => 0,
            Self::Replenish => 1,
            Self::Server(kind) => 2 + kind as usize,
            Self::RtPeriod => 2 + ServerKind::ALL.len(),
        }
    }
}

/// A timer of a limited group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupTimer {
    /// Its period ends.
    Period,
    /// Quota that CPUs have given back is handed out.
    Slack,
}

/// An operation for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `need_resched` was set on this CPU: see that it schedules soon. Nothing to do if it is the
    /// calling CPU.
    Kick {
        /// The CPU to kick.
        cpu: CpuId,
    },
    /// Interrupt this CPU and have it call `remote` with the work.
    Ipi {
        /// The CPU to interrupt.
        cpu: CpuId,
        /// What for.
        work: Work,
    },
    /// Call `timer` on this run queue at this wall time; it replaces an earlier one of the same
    /// name.
    ArmTimer {
        /// Whose.
        cpu: CpuId,
        /// Which.
        timer: RqTimer,
        /// When.
        at: Instant,
    },
    /// Call `group_timer` at this wall time, on the CPU that made this call or any other; it
    /// replaces an earlier one of the same group and name.
    ArmGroupTimer {
        /// Whose.
        group: GroupId,
        /// Which.
        timer: GroupTimer,
        /// When.
        at: Instant,
    },
    /// That timer is not needed any more.
    CancelTimer {
        /// Whose.
        cpu: CpuId,
        /// Which.
        timer: RqTimer,
    },
}

/// The most operations that one call appends.
pub const MAX_OPS: usize = 8;

/// What a call cost, in counts; what a count takes in time is the host's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Published states of other CPUs that were looked at.
    pub cpus_scanned: u32,
    /// Queued tasks that were looked at beyond the first.
    pub tasks_scanned: u32,
    /// Tasks moved to another run queue.
    pub tasks_moved: u32,
    /// Locks inside the shared state that were taken, that of a root domain's IPI apart.
    pub inner_locks: u32,
    /// Atomics and locks of the root domain's IPI state that were accessed (`ipi_root_domain`).
    pub rto_accesses: u32,
    /// Rounds of RT balancing begun (a push or pull that looked for a partner). Zero without RT
    /// overload.
    pub rt_balance: u32,
    /// Rounds of fair balancing begun.
    pub fair_balance: u32,
    /// Group queues throttled or freed.
    pub throttles: u32,
}

impl Costs {
    /// Returns whether nothing was counted.
    #[must_use]
    #[inline]
    pub const fn is_zero(&self) -> bool {
        let Self {
            cpus_scanned,
            tasks_scanned,
            tasks_moved,
            inner_locks,
            rto_accesses,
            rt_balance,
            fair_balance,
            throttles,
        } = *self;
        cpus_scanned | tasks_scanned | tasks_moved | inner_locks | rto_accesses | rt_balance | fair_balance | throttles
            == 0
    }
}
