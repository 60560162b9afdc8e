//! The errors of the entry points, each with the kernel's errno.

use crate::words::ids::{CpusetId, ProcessId};
use core::fmt;
use zerolag_model::{DlParams, GroupId, ServerParams, TaskId};

/// The task is not on the run queue that was given: look up its home again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotHere(pub TaskId);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} is not on this run queue", self.0)
    }
}

impl core::error::Error for NotHere {}

/// Why a task cannot be created or changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// The affinity and the cpuset have no CPU in common.
    NoCpu(TaskId),
    /// There is no such cpuset.
    NoSuchCpuset(CpusetId),
    /// There is no such group.
    NoSuchGroup(GroupId),
    /// There is no such process.
    NoSuchProcess(ProcessId),
    /// The id is beyond the reserved ids.
    NotReserved(TaskId),
    /// The deadline parameters are invalid (EINVAL).
    DeadlineParams(TaskId, DlParamError),
    /// The affinity or the cpuset does not cover the root domain, so the task cannot be a deadline
    /// task (EPERM).
    NotWholeDomain(TaskId),
    /// A deadline task must be allowed on its whole root domain (EBUSY).
    DeadlineAffinity(TaskId),
    /// The root domain has too little bandwidth left (EBUSY).
    NoBandwidth(TaskId),
    /// A deadline task forks: its child would be a deadline task that was not admitted (EAGAIN).
    DeadlineForks(TaskId),
    /// The task is not on the given run queue: look up its home again.
    NotHere(NotHere),
}

impl From<NotHere> for TaskError {
    fn from(error: NotHere) -> Self {
        Self::NotHere(error)
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpu(task) => write!(f, "no CPU left for task {task}: its affinity and its cpuset share none"),
            Self::NoSuchCpuset(cpuset) => write!(f, "there is no cpuset {}", cpuset.0),
            Self::NoSuchGroup(group) => write!(f, "there is no group {group}"),
            Self::NoSuchProcess(process) => write!(f, "there is no process {}", process.0),
            Self::NotReserved(task) => write!(f, "task id {task} is beyond what was reserved"),
            Self::DeadlineParams(task, wrong) => write!(f, "task {task}: {wrong} (EINVAL)"),
            Self::NotWholeDomain(task) => {
                write!(f, "task {task} may not use every CPU of its root domain, as a deadline task must (EPERM)")
            }
            Self::DeadlineAffinity(task) => {
                write!(f, "deadline task {task} cannot be confined to a part of its root domain (EBUSY)")
            }
            Self::NoBandwidth(task) => {
                write!(f, "the root domain of task {task} has not enough bandwidth left (EBUSY)")
            }
            Self::DeadlineForks(task) => write!(f, "deadline task {task} cannot fork (EAGAIN)"),
            Self::NotHere(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TaskError {}

/// Why a server cannot be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The runtime is above the period, or the period is out of range (EINVAL).
    Params,
    /// The root domain has too little bandwidth left (EBUSY).
    NoBandwidth,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params => write!(
                f,
                "runtime is above period, or period is outside {} to {} (EINVAL)",
                ServerParams::PERIOD_MIN,
                ServerParams::PERIOD_MAX
            ),
            Self::NoBandwidth => f.write_str("the root domain has not enough bandwidth left (EBUSY)"),
        }
    }
}

impl core::error::Error for ServerError {}

/// Why the bandwidth of real-time tasks cannot be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RtBandwidthError {
    /// The runtime is above the period, or there is no period (EINVAL).
    Params,
    /// Deadline tasks and servers of a root domain have reserved more (EBUSY).
    Promised,
}

impl fmt::Display for RtBandwidthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Params => "sched_rt_runtime_us is above sched_rt_period_us (EINVAL)",
            Self::Promised => "deadline tasks and servers of a root domain have been promised more (EBUSY)",
        })
    }
}

impl core::error::Error for RtBandwidthError {}

/// Why deadline parameters are invalid (EINVAL).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DlParamError {
    /// The runtime is below 1024 ns.
    Runtime,
    /// The runtime is above the deadline.
    Deadline,
    /// The deadline is above the period.
    Order,
    /// The period is outside 100 us to 4.194304 s.
    Period,
}

impl fmt::Display for DlParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime => write!(f, "runtime is below {}", DlParams::RUNTIME_MIN),
            Self::Deadline => f.write_str("runtime is above deadline"),
            Self::Order => f.write_str("deadline is above period"),
            Self::Period => write!(f, "period is outside {} to {}", DlParams::PERIOD_MIN, DlParams::PERIOD_MAX),
        }
    }
}

/// Checks deadline parameters: `__checkparam_dl`.
pub(crate) fn check_params(params: DlParams) -> Result<(), DlParamError> {
    let DlParams { runtime, deadline, period, flags: _ } = params;
    if runtime < DlParams::RUNTIME_MIN {
        return Err(DlParamError::Runtime);
    }
    if period < deadline {
        return Err(DlParamError::Order);
    }
    if deadline < runtime {
        return Err(DlParamError::Deadline);
    }
    if period < DlParams::PERIOD_MIN || period > DlParams::PERIOD_MAX { Err(DlParamError::Period) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{DlParams, Duration};

    #[test]
    fn parameters_are_refused_as_the_kernel_refuses_them() {
        let check = |runtime, deadline, period| {
            let ns = Duration::from_nanos;
            check_params(DlParams::new(ns(runtime), ns(deadline), ns(period)))
        };
        assert_eq!(check(1024, 100_000, 100_000), Ok(()));
        assert_eq!(check(1023, 100_000, 100_000), Err(DlParamError::Runtime));
        assert_eq!(check(100_001, 100_000, 100_000), Err(DlParamError::Deadline));
        assert_eq!(check(2000, 100_001, 100_000), Err(DlParamError::Order));
        assert_eq!(check(2000, 90_000, 99_999), Err(DlParamError::Period));
        assert_eq!(check(2000, 90_000, 4_194_304_000), Ok(()));
        assert_eq!(check(2000, 90_000, 4_194_304_001), Err(DlParamError::Period));
    }
}
