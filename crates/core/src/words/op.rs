//! Operations for the host ([`Op`]), and the costs of a call in counts ([`Costs`]). Operations are
//! data: the core never calls back.

use crate::words::ids::DomainId;
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, GroupId, Instant, ServerKind};

/// The purpose of an interrupt that the core sends. The receiver passes it to
/// [`Scheduler::remote`].
///
/// [`Scheduler::remote`]: crate::Scheduler::remote
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Push the receiver's waiting RT tasks, then pass on the IPI of that root domain. The receiver
    /// can have left the domain meanwhile.
    RtPush(DomainId),
    /// Push the receiver's waiting RT tasks, then pass on the chain of this CPU.
    RtPushFor(CpuId),
    /// Pull the waiting RT tasks of this CPU that can run on the receiver (`pull_claimed`).
    RtPullFrom(CpuId),
    /// The receiver is idle: look for work.
    IdleBalance,
    /// A policy has work for the receiver, which schedules if it idles (`scx_bpf_kick_cpu`).
    ExtKick {
        /// Also if it runs a task of the policy.
        even_if_busy: bool,
    },
}

impl Work {
    /// Returns the reason that traces record.
    #[must_use]
    pub const fn reason(self) -> IpiReason {
        match self {
            Self::RtPush(_) | Self::RtPushFor(_) | Self::RtPullFrom(_) => IpiReason::RtPush,
            Self::IdleBalance => IpiReason::IdleBalance,
            Self::ExtKick { .. } => IpiReason::Resched,
        }
    }
}

/// A timer of a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RqTimer {
    /// The current task's slice or budget ends (`enforce = exact`; the kernel's hrtick).
    Slice,
    /// A throttled deadline task is due for replenishment. Set to the earliest of them; fires again
    /// at once while more are due.
    Replenish,
    /// A deadline server is due: its zero-laxity instant, its next period, or the end of its
    /// runtime (`enforce = exact`).
    Server(ServerKind),
    /// A period of RT throttling ends.
    RtPeriod,
    /// The server of a group is due, as that of a class (`rt_group_sched = hcbs`). Set to the
    /// earliest of them.
    GroupServers,
}

impl RqTimer {
    /// All timers of a run queue.
    pub const ALL: [Self; 4 + ServerKind::ALL.len()] = {
        let mut all = [Self::RtPeriod; 4 + ServerKind::ALL.len()];
        (all[0], all[1]) = (Self::Slice, Self::Replenish);
        let mut kind = 0;
        while kind < ServerKind::ALL.len() {
            all[2 + kind] = Self::Server(ServerKind::ALL[kind]);
            kind += 1;
        }
        all[3 + ServerKind::ALL.len()] = Self::GroupServers;
        all
    };

    /// Returns its index in [`ALL`](Self::ALL), for hosts that keep an array of timers.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Slice => 0,
            Self::Replenish => 1,
            Self::Server(kind) => 2 + kind as usize,
            Self::RtPeriod => 2 + ServerKind::ALL.len(),
            Self::GroupServers => 3 + ServerKind::ALL.len(),
        }
    }
}

/// A timer of a limited group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupTimer {
    /// Its period ends.
    Period,
    /// Quota that CPUs have returned is distributed.
    Slack,
}

/// An operation for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `need_resched` was set on this CPU: make it schedule soon. Nothing need be done if it is the
    /// calling CPU.
    Kick {
        /// The CPU to kick.
        cpu: CpuId,
    },
    /// Interrupt this CPU and make it call `remote` with the work.
    Ipi {
        /// The CPU to interrupt.
        cpu: CpuId,
        /// The purpose of the interrupt.
        work: Work,
    },
    /// Call `timer` on this run queue at this wall time. The call replaces an earlier one for the
    /// same timer.
    ArmTimer {
        /// The CPU of the run queue.
        cpu: CpuId,
        /// The timer.
        timer: RqTimer,
        /// The wall time.
        at: Instant,
    },
    /// Call `group_timer` at this wall time, on the CPU of this call or any other. The call
    /// replaces an earlier one for the same group and timer.
    ArmGroupTimer {
        /// The group.
        group: GroupId,
        /// The timer.
        timer: GroupTimer,
        /// The wall time.
        at: Instant,
    },
    /// This timer is no longer needed.
    CancelTimer {
        /// The CPU of the run queue.
        cpu: CpuId,
        /// The timer.
        timer: RqTimer,
    },
    /// The policy has been unloaded: give every task of its class a fair policy
    /// ([`Scheduler::ext_exit`](crate::Scheduler::ext_exit)).
    ExtExit,
    /// A timer of a policy of the user is due at this time
    /// ([`Scheduler::fire_policy_timers`](crate::Scheduler::fire_policy_timers)). Earlier requests
    /// stay: a call at which no timer is due does no harm.
    PolicyTimer {
        /// The wall time.
        at: Instant,
    },
}

/// The maximum number of operations that one call appends.
pub const MAX_OPS: usize = 8;

/// The costs of a call, in counts. The host decides how long each takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Published states of other CPUs that were read.
    pub cpus_scanned: u32,
    /// Published states of other CPUs that a search for an imbalance read. The kernel holds no
    /// run-queue lock meanwhile (`sched_balance_newidle`, `sched_balance_find_src_group`); here the
    /// search is a part of its call, so a host that counts time adds this time after the lock.
    pub cpus_searched: u32,
    /// Queued tasks that were examined, beyond the first.
    pub tasks_scanned: u32,
    /// Tasks moved to another run queue.
    pub tasks_moved: u32,
    /// Locks inside the shared state that were taken, without the lock of a root domain's IPI.
    pub inner_locks: u32,
    /// Atomics and locks of the root domain's IPI state that were accessed (`ipi_root_domain`).
    pub rto_accesses: u32,
    /// Accesses to the word by which CPUs claim the right to pull from another (`pull_claimed`).
    pub claim_accesses: u32,
    /// The CPU whose word was accessed last: each has a cache line of its own.
    pub claimed: Option<CpuId>,
    /// Rounds of RT balancing begun (pushes or pulls that looked for a partner). It is zero without
    /// RT overload.
    pub rt_balance: u32,
    /// Rounds of fair balancing begun.
    pub fair_balance: u32,
    /// Group queues that were throttled or unthrottled.
    pub throttles: u32,
    /// Pushes that ended because their targets were taken three times, by other CPUs at the same
    /// time. A CPU can be left on which the task could run (`RT_MAX_TRIES`).
    pub pushes_given_up: u32,
    /// Calls of a policy of the user.
    pub policy_calls: u32,
    /// Accesses to lines that were appended ([`Observer::Lines`](crate::Observer::Lines)).
    pub lines: u32,
}

impl Costs {
    /// Returns whether all counts are zero. Calls of a policy do not count here: each event of one
    /// has some, and mostly they cost nothing.
    #[must_use]
    #[inline]
    pub const fn is_zero(&self) -> bool {
        let Self {
            cpus_scanned,
            cpus_searched,
            tasks_scanned,
            tasks_moved,
            inner_locks,
            rto_accesses,
            claim_accesses,
            claimed: _,
            rt_balance,
            fair_balance,
            throttles,
            pushes_given_up,
            policy_calls: _,
            lines,
        } = *self;
        let searched = cpus_scanned | cpus_searched | tasks_scanned | inner_locks | rto_accesses | claim_accesses;
        searched | tasks_moved | rt_balance | fair_balance | throttles | pushes_given_up | lines == 0
    }
}
