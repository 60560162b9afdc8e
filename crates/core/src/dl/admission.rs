//! Admission: which deadline parameters a task may have, and whether its root domain has that much bandwidth left.
//!
//! The sum of runtime/period of all deadline tasks of a root domain is at most 95 % of its capacity. What a task asks for
//! is reserved when it asks, not when it runs, and given back when it ends or leaves the class. Global EDF does not
//! promise that an admitted set meets its deadlines on several CPUs, only that tardiness is bounded; on one CPU it does.
//!
//! Where a deadline task may run is not its own choice: affinity and cpuset must cover its root domain, for the test
//! would mean nothing otherwise. To confine one, give it a root domain.
//!
//! | error | errno | when |
//! |---|---|---|
//! | [`DeadlineParams`](TaskError::DeadlineParams) | EINVAL | parameters out of range or order |
//! | [`NotWholeDomain`](TaskError::NotWholeDomain) | EPERM | it asks for the class, but may not use each CPU of the domain |
//! | [`DeadlineAffinity`](TaskError::DeadlineAffinity) | EBUSY | a deadline task asks for fewer CPUs |
//! | [`NoBandwidth`](TaskError::NoBandwidth) | EBUSY | the domain is booked up |
//!
//! O(words of a CPU mask + CPUs of the domain), under one inner lock.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`__checkparam_dl`, `sched_dl_overflow`, `__dl_overflow`), `core.c`
//! (`dl_task_check_affinity`), `syscalls.c` (`__sched_setscheduler`). differs: bandwidth is given back at once, the kernel
//! waits for the 0-lag time; a CPU that goes offline takes its share without being asked for it.

use crate::scheduler::{Scheduler, TaskError};
use crate::task::Task;
use core::fmt;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, DlParams, SchedAttr, TaskId};

/// A share of one CPU in units of 2^-20 (`BW_SHIFT`), rounded down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Bandwidth(pub(crate) u64);

impl Bandwidth {
    /// Returns runtime/period: `to_ratio`.
    pub(crate) const fn of(params: DlParams) -> Self {
        Self((params.runtime.as_nanos() << 20) / params.period.as_nanos())
    }
}

/// What a task has of a root domain's bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reserved {
    /// Index of the root domain.
    pub(crate) domain: u32,
    pub(crate) bandwidth: Bandwidth,
}

/// The root domain has not that much left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BookedUp;

/// What is wrong with deadline parameters (EINVAL).
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
    let DlParams { runtime, deadline, period } = params;
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

impl<L: RawMutex> Scheduler<L> {
    /// Reserves what a task needs to be of this class, in place of what it has; `None` for other classes.
    /// The caller keeps the answer in the task.
    pub(crate) fn reserve(
        &self,
        task: TaskId,
        attr: SchedAttr,
        had: Option<Reserved>,
        allowed: Option<&CpuMask>,
        near: CpuId,
    ) -> Result<Option<Reserved>, TaskError> {
        let SchedAttr::Deadline(params) = attr else {
            self.give_back(had);
            return Ok(None);
        };
        let near = match (had, allowed) {
            (Some(had), _) => self.shared.domains[had.domain as usize].span.first().unwrap_or(near),
            (None, Some(mask)) if !mask.contains(near) => mask.first().unwrap_or(near),
            (None, _) => near,
        };
        if !self.covers_domain(allowed, near) {
            return Err(TaskError::NotWholeDomain(task));
        }
        let bandwidth = Bandwidth::of(params);
        let old = had.map_or(Bandwidth::default(), |had| had.bandwidth);
        self.rebook(near, old, bandwidth).map_err(|BookedUp| TaskError::NoBandwidth(task))?;
        Ok(Some(Reserved { domain: self.shared.domain_index(near), bandwidth }))
    }

    /// Books `new` in place of `old` in the root domain of a CPU. A change that keeps the bandwidth is always granted.
    pub(super) fn rebook(&self, near: CpuId, old: Bandwidth, new: Bandwidth) -> Result<(), BookedUp> {
        let domain = self.shared.domain(near);
        let capacity: u64 = domain.span.iter().map(|cpu| u64::from(self.config.topology.capacity(cpu))).sum();
        let mut booked = domain.dl_booked.lock();
        let wanted = booked.0 - old.0 + new.0;
        if new != old && (Bandwidth::of(DlParams::LIMIT).0 * capacity) >> 10 < wanted {
            return Err(BookedUp);
        }
        booked.0 = wanted;
        Ok(())
    }

    /// Gives back what a task had.
    pub(crate) fn give_back(&self, had: Option<Reserved>) {
        if let Some(had) = had {
            let mut booked = self.shared.domains[had.domain as usize].dl_booked.lock();
            assert!(booked.0 >= had.bandwidth.0, "what is given back was booked");
            booked.0 -= had.bandwidth.0;
        }
    }

    /// Checks that a deadline task may be confined so: `dl_task_check_affinity`.
    pub(crate) fn check_deadline_affinity(&self, task: &Task, allowed: Option<&CpuMask>) -> Result<(), TaskError> {
        let span = task.dl.reserved.map(|had| &self.shared.domains[had.domain as usize].span);
        match span.and_then(CpuMask::first) {
            Some(near) if !self.covers_domain(allowed, near) => Err(TaskError::DeadlineAffinity(task.id)),
            Some(_) | None => Ok(()),
        }
    }

    fn covers_domain(&self, allowed: Option<&CpuMask>, near: CpuId) -> bool {
        let span = &self.shared.domain(near).span;
        allowed.is_none_or(|mask| span.iter().all(|cpu| mask.contains(cpu)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    #[test]
    fn parameters_are_refused_as_the_kernel_refuses_them() {
        let check = |runtime, deadline, period| {
            let ns = Duration::from_nanos;
            check_params(DlParams { runtime: ns(runtime), deadline: ns(deadline), period: ns(period) })
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
