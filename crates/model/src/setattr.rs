//! [`RawAttr`]: the arguments of `sched_setattr` as a program passes them, and the kernel's checks
//! that do not depend on the machine.
//!
//! The order of the checks is the kernel's: of two mistakes the same one is reported.
//!
//! Sources: Linux v6.12 `kernel/sched/syscalls.c` (`sched_setattr`, `sched_copy_attr`,
//! `__sched_setscheduler`, `user_check_sched_setscheduler`), `deadline.c` (`__checkparam_dl`).
//! differs: utilisation clamps are never supported, as in a kernel without `CONFIG_UCLAMP_TASK`;
//! SCHED_EXT is no policy, as without `CONFIG_SCHED_CLASS_EXT`; no process has rights by
//! `RLIMIT_RTPRIO` or `RLIMIT_NICE`.

use crate::attr::{DlFlags, DlParams, FairPolicy, Nice, RtPolicy, RtPriority, SchedAttr};
use crate::time::Duration;

/// An error of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Errno {
    /// The arguments are invalid.
    Einval,
    /// The caller has no permission.
    Eperm,
    /// Not enough bandwidth.
    Ebusy,
    /// The structure is too large, or too small.
    E2big,
    /// The kernel was built without this feature.
    Eopnotsupp,
    /// Not possible now: a deadline task forks.
    Eagain,
}

impl Errno {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Einval => "EINVAL",
            Self::Eperm => "EPERM",
            Self::Ebusy => "EBUSY",
            Self::E2big => "E2BIG",
            Self::Eopnotsupp => "EOPNOTSUPP",
            Self::Eagain => "EAGAIN",
        }
    }
}

/// The privileges of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// With `CAP_SYS_NICE`.
    Privileged,
    /// Without it.
    Unprivileged,
}

/// `struct sched_attr` and the flags of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawAttr {
    /// `size`: 0 means 48.
    pub size: u32,
    /// `sched_policy`.
    pub policy: u32,
    /// `sched_flags`.
    pub flags: u64,
    /// `sched_nice`.
    pub nice: i32,
    /// `sched_priority`.
    pub priority: u32,
    /// `sched_runtime`, nanoseconds.
    pub runtime: u64,
    /// `sched_deadline`, nanoseconds.
    pub deadline: u64,
    /// `sched_period`, nanoseconds; 0 means the deadline.
    pub period: u64,
    /// `flags` of the call itself.
    pub call_flags: u32,
}

const SIZE_MIN: u32 = 48;
const SIZE_MAX: u32 = 4096;
const KEEP_POLICY: u64 = 0x08;
const KEEP_PARAMS: u64 = 0x10;
const UTIL_CLAMP: u64 = 0x60;
const ALL: u64 = 0x7f;
/// Reserved for the kernel: not for programs.
const SUGOV: u64 = 0x1000_0000;

/// The numbers of policies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolicyNumber {
    Fair(FairPolicy),
    Rt(RtPolicy),
    Deadline,
}

impl RawAttr {
    /// Returns the attributes that this call gives to a task with the attributes `present`.
    ///
    /// # Errors
    /// The kernel's error, except for errors that depend on the machine: bandwidth, affinity.
    pub fn check(&self, present: SchedAttr, caller: Caller) -> Result<SchedAttr, Errno> {
        if self.call_flags != 0 {
            return Err(Errno::Einval);
        }
        let size = if self.size == 0 { SIZE_MIN } else { self.size };
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) || self.flags & UTIL_CLAMP != 0 && size < SIZE_MIN + 8 {
            return Err(if (SIZE_MIN..=SIZE_MAX).contains(&size) { Errno::Einval } else { Errno::E2big });
        }
        let policy = if self.flags & KEEP_POLICY != 0 { policy_of(present) } else { self.policy()? };
        let (nice, priority) = self.params(present);
        if self.flags & !(ALL | SUGOV) != 0 || priority > 99 {
            return Err(Errno::Einval);
        }
        let is_special = self.flags & SUGOV != 0;
        if policy == PolicyNumber::Deadline && !is_special && !self.is_deadline() {
            return Err(Errno::Einval);
        }
        if matches!(policy, PolicyNumber::Rt(_)) != (priority != 0) {
            return Err(Errno::Einval);
        }
        self.may(policy, nice, priority, present, caller)?;
        if is_special {
            return Err(Errno::Einval);
        }
        if self.flags & UTIL_CLAMP != 0 {
            return Err(Errno::Eopnotsupp);
        }
        Ok(match policy {
            PolicyNumber::Fair(policy) => {
                let slice =
                    (self.runtime != 0 && policy != FairPolicy::Idle).then(|| Duration::from_nanos(self.runtime));
                SchedAttr::Fair { policy, nice, slice }
            }
            PolicyNumber::Rt(policy) => {
                let priority = RtPriority::new(i64::from(priority)).ok_or(Errno::Einval)?;
                SchedAttr::Rt { policy, priority }
            }
            PolicyNumber::Deadline => SchedAttr::Deadline(self.deadline()),
        })
    }

    const fn policy(&self) -> Result<PolicyNumber, Errno> {
        Ok(match self.policy {
            0 => PolicyNumber::Fair(FairPolicy::Other),
            1 => PolicyNumber::Rt(RtPolicy::Fifo),
            2 => PolicyNumber::Rt(RtPolicy::Rr),
            3 => PolicyNumber::Fair(FairPolicy::Batch),
            5 => PolicyNumber::Fair(FairPolicy::Idle),
            6 => PolicyNumber::Deadline,
            _ => return Err(Errno::Einval),
        })
    }

    /// Returns nice value, in range, and priority; with KEEP_PARAMS those of the task, as far as
    /// its policy has them.
    fn params(&self, present: SchedAttr) -> (Nice, u32) {
        let given = Nice::new(i64::from(self.nice.clamp(-20, 19))).unwrap_or(Nice::ZERO);
        match present {
            SchedAttr::Fair { nice, .. } | SchedAttr::Ext { nice, .. } if self.flags & KEEP_PARAMS != 0 => {
                (nice, self.priority)
            }
            SchedAttr::Rt { priority, .. } if self.flags & KEEP_PARAMS != 0 => (given, u32::from(priority.value())),
            SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Rt { .. } | SchedAttr::Deadline(_) => {
                (given, self.priority)
            }
        }
    }

    const fn deadline(&self) -> DlParams {
        let period = if self.period == 0 { self.deadline } else { self.period };
        let ns = Duration::from_nanos;
        let params = DlParams::new(ns(self.runtime), ns(self.deadline), ns(period));
        params.with_flags(DlFlags::from_bits(self.flags))
    }

    /// `__checkparam_dl`.
    fn is_deadline(&self) -> bool {
        let DlParams { runtime, deadline, period, flags: _ } = self.deadline();
        let in_range = (self.deadline | self.period) >> 63 == 0 && runtime >= DlParams::RUNTIME_MIN;
        let in_order = runtime <= deadline && deadline <= period && !deadline.is_zero();
        in_range && in_order && period >= DlParams::PERIOD_MIN && period <= DlParams::PERIOD_MAX
    }

    /// `user_check_sched_setscheduler`.
    fn may(
        &self,
        policy: PolicyNumber,
        nice: Nice,
        priority: u32,
        present: SchedAttr,
        caller: Caller,
    ) -> Result<(), Errno> {
        if caller == Caller::Privileged {
            return Ok(());
        }
        let is_more = match (policy, present) {
            (PolicyNumber::Fair(_), SchedAttr::Fair { nice: before, .. } | SchedAttr::Ext { nice: before, .. }) => {
                nice.value() < before.value()
            }
            (PolicyNumber::Fair(_), SchedAttr::Rt { .. } | SchedAttr::Deadline(_)) => nice.value() < 0,
            (PolicyNumber::Rt(_), SchedAttr::Rt { priority: before, .. }) => priority > u32::from(before.value()),
            (PolicyNumber::Rt(_), SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Deadline(_))
            | (PolicyNumber::Deadline, _) => true,
        };
        if is_more { Err(Errno::Eperm) } else { Ok(()) }
    }
}

const fn policy_of(attr: SchedAttr) -> PolicyNumber {
    match attr {
        SchedAttr::Fair { policy, .. } | SchedAttr::Ext { policy, .. } => PolicyNumber::Fair(policy),
        SchedAttr::Rt { policy, .. } => PolicyNumber::Rt(policy),
        SchedAttr::Deadline(_) => PolicyNumber::Deadline,
    }
}
