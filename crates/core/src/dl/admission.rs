//! Admission: which deadline parameters a task may have, and whether its root domain has that much bandwidth left.
//!
//! The sum of runtime/period of all deadline tasks of a root domain is at most 95 % of its capacity: the share that real-time tasks
//! have (`sched_rt_runtime_us` of `sched_rt_period_us`, [`Scheduler::set_rt_bandwidth`]). What a task asks for
//! is reserved when it asks, not when it runs, and given back at its 0-lag time after it has ended or left the class: until
//! then it has had more than its share. Global EDF does not
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
//! | [`DeadlineForks`](TaskError::DeadlineForks) | EAGAIN | a deadline task forks |
//!
//! O(words of a CPU mask + CPUs of the domain + tasks that left less than a 0-lag time ago), under one inner lock.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`__checkparam_dl`, `sched_dl_overflow`, `__dl_overflow`), `core.c`
//! (`dl_task_check_affinity`), `syscalls.c` (`__sched_setscheduler`); `deadline.c` (`inactive_task_timer`,
//! `switched_from_dl`). differs: no timer gives bandwidth back, but whoever asks next does ([`Booked`]); a CPU that goes
//! offline takes its share without being asked for it.

use super::entity::DlState;
use crate::scheduler::{Scheduler, TaskError};
use crate::shared::rt_runtime::RtLimit;
use crate::task::{DomainId, Task};
use alloc::vec::Vec;
use core::fmt;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, Instant, RtBandwidth, SchedAttr, TaskId};

/// A share of one CPU in units of 2^-20 (`BW_SHIFT`), rounded down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Bandwidth(pub(crate) u64);

impl Bandwidth {
    /// Returns runtime/period: `to_ratio`.
    pub(crate) const fn of(params: DlParams) -> Self {
        Self::ratio(params.runtime, params.period)
    }

    const fn ratio(runtime: Duration, period: Duration) -> Self {
        Self((runtime.as_nanos() << 20) / period.as_nanos())
    }
}

/// The share of each CPU that the deadline tasks of a root domain may have, and at which rate those that reclaim spend their budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DlLimit {
    /// `dl_bw.bw`; `None` is no limit: nobody is refused.
    admitted: Option<Bandwidth>,
    /// The inverse of [`share`](Self::share) in units of 2^-8 (`bw_ratio`, `RATIO_SHIFT`).
    pub(super) inverse: u64,
}

impl DlLimit {
    /// Returns the limit that follows from that of real-time tasks: Linux v6.12 `kernel/sched/deadline.c`, `sched_dl_do_global`,
    /// `init_dl_rq_bw_ratio`.
    pub(crate) fn of(global: RtBandwidth) -> Self {
        let Some(runtime) = global.runtime else { return Self { admitted: None, inverse: 1 << 8 } };
        let inverse = if runtime.is_zero() { 0 } else { Bandwidth::ratio(global.period, runtime).0 >> 12 };
        Self { admitted: Some(Bandwidth::ratio(runtime, global.period)), inverse }
    }

    /// Returns the share that is counted with; a whole CPU if there is no limit (`max_bw`).
    pub(super) fn share(self) -> Bandwidth {
        self.admitted.unwrap_or(Bandwidth(1 << 20))
    }
}

/// Why what real-time tasks may run cannot be set so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RtBandwidthError {
    /// The runtime is above the period, or there is no period (EINVAL).
    Params,
    /// Deadline tasks and servers of a root domain have been promised more (EBUSY).
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

/// What a task has of a root domain's bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reserved {
    /// Where it is booked.
    pub(crate) domain: DomainId,
    pub(crate) bandwidth: Bandwidth,
}

/// What a root domain has promised (`dl_bw.total_bw`).
#[derive(Debug)]
pub(crate) struct Booked {
    total: Bandwidth,
    pub(super) limit: DlLimit,
    /// Bandwidth that is given back at its task's 0-lag time.
    leaving: Vec<Leaving>,
}

#[derive(Debug)]
struct Leaving {
    task: TaskId,
    bandwidth: Bandwidth,
    at: Instant,
}

impl Booked {
    pub(crate) const fn new(total: Bandwidth, limit: DlLimit) -> Self {
        Self { total, limit, leaving: Vec::new() }
    }

    /// Returns what is promised at a time.
    pub(super) fn total(&mut self, now: Instant) -> Bandwidth {
        let total = &mut self.total;
        self.leaving.retain(|leaving| {
            if leaving.at <= now {
                total.0 -= leaving.bandwidth.0;
            }
            now < leaving.at
        });
        *total
    }

    /// Returns what is promised to those that are there; for checks.
    pub(crate) fn of_members(&self) -> Bandwidth {
        Bandwidth(self.total.0 - self.leaving.iter().map(|leaving| leaving.bandwidth.0).sum::<u64>())
    }

    /// A task that has left is back: what it had does not count twice.
    fn forget(&mut self, task: TaskId) {
        let total = &mut self.total;
        self.leaving.retain(|leaving| {
            if leaving.task == task {
                total.0 -= leaving.bandwidth.0;
            }
            leaving.task != task
        });
    }
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

/// Who asks for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) task: TaskId,
    pub(crate) attr: SchedAttr,
    pub(crate) had: Option<Reserved>,
    /// Where it may run; `None` is every CPU.
    pub(crate) allowed: Option<&'a CpuMask>,
    /// Where its root domain is looked for.
    pub(crate) near: CpuId,
}

impl<L: RawMutex> Scheduler<L> {
    /// Reserves what a task needs to be of this class, in place of what it has; `None` for other classes, which keeps what
    /// it has booked: [`give_back`](Self::give_back). The caller keeps the answer in the task.
    pub(crate) fn reserve(&self, request: Request<'_>, now: Instant) -> Result<Option<Reserved>, TaskError> {
        let Request { task, attr, had, allowed, near } = request;
        let SchedAttr::Deadline(params) = attr else { return Ok(None) };
        let domain = match (had, allowed) {
            (Some(had), _) => had.domain,
            (None, Some(mask)) if !mask.contains(near) => self.shared.domain_of(mask.first().unwrap_or(near)),
            (None, _) => self.shared.domain_of(near),
        };
        if !self.covers_domain(allowed, domain) {
            return Err(TaskError::NotWholeDomain(task));
        }
        let bandwidth = Bandwidth::of(params);
        let old = had.map_or(Bandwidth::default(), |had| had.bandwidth);
        self.rebook(domain, old, bandwidth, now).map_err(|BookedUp| TaskError::NoBandwidth(task))?;
        if had.is_none() {
            self.shared.domains[domain.index()].dl_booked.lock().forget(task);
        }
        Ok(Some(Reserved { domain, bandwidth }))
    }

    /// Books `new` in place of `old` in a root domain. A change that keeps the bandwidth is always granted.
    pub(super) fn rebook(
        &self,
        domain: DomainId,
        old: Bandwidth,
        new: Bandwidth,
        now: Instant,
    ) -> Result<(), BookedUp> {
        let domain = &self.shared.domains[domain.index()];
        let capacity: u64 = domain.span.iter().map(|cpu| u64::from(self.config.topology.capacity(cpu))).sum();
        let mut booked = domain.dl_booked.lock();
        let wanted = booked.total(now).0 - old.0 + new.0;
        let is_too_much = |limit: Bandwidth| (limit.0 * capacity) >> 10 < wanted;
        if new != old && booked.limit.admitted.is_some_and(is_too_much) {
            return Err(BookedUp);
        }
        booked.total.0 = wanted;
        Ok(())
    }

    /// Sets what real-time tasks of each CPU may run per period (`sched_rt_runtime_us`, `sched_rt_period_us`), and with it what deadline
    /// tasks are admitted to from now on. Every CPU, offline ones too, then calls [`follow_rt_limit`](Self::follow_rt_limit) for itself.
    /// O(CPUs).
    ///
    /// Linux v6.6 `kernel/sched/rt.c`, `sched_rt_handler`, `sched_rt_global_validate`; `deadline.c`, `sched_dl_global_validate`,
    /// `sched_dl_do_global`; commit a57415f5d1e4 (5.11: all CPUs of a root domain count, not one). differs: offline CPUs count, as when a task asks.
    ///
    /// # Errors
    /// It makes no sense, or a root domain has promised more; nothing is changed then.
    pub fn set_rt_bandwidth(&self, now: Instant, bandwidth: RtBandwidth) -> Result<(), RtBandwidthError> {
        if !bandwidth.is_valid() {
            return Err(RtBandwidthError::Params);
        }
        let limit = DlLimit::of(bandwidth);
        for domain in &self.shared.domains {
            let cpus = domain.span.iter().count() as u64;
            if cpus > 0 && limit.share().0 * cpus < domain.dl_booked.lock().total(now).0 {
                return Err(RtBandwidthError::Promised);
            }
        }
        for domain in &self.shared.domains {
            domain.dl_booked.lock().limit = limit;
        }
        let mut global = self.shared.rt_limit.lock();
        *global = RtLimit { bandwidth, round: global.round + 1 };
        Ok(())
    }

    /// Returns what real-time tasks of each CPU may run per period.
    pub fn rt_bandwidth(&self) -> RtBandwidth {
        self.shared.rt_limit.lock().bandwidth
    }

    /// Gives back what a task had at its 0-lag time: it has ended, or is of another class now.
    pub(crate) fn give_back(&self, task: TaskId, had: Option<Reserved>, at: Instant, now: Instant) {
        let Some(Reserved { domain, bandwidth }) = had else { return };
        let mut booked = self.shared.domains[domain.index()].dl_booked.lock();
        assert!(booked.total(now).0 >= bandwidth.0, "what is given back was booked");
        if at <= now {
            booked.total.0 -= bandwidth.0;
        } else {
            booked.leaving.push(Leaving { task, bandwidth, at });
        }
    }

    /// Gives back what a task has, at the 0-lag time of its present job.
    pub(crate) fn give_back_all(&self, task: &Task, now: Instant) {
        let at = match task.attr {
            SchedAttr::Deadline(params) if task.dl.state != DlState::Fresh => task.dl.zero_lag(params),
            SchedAttr::Deadline(_) | SchedAttr::Fair { .. } | SchedAttr::Rt { .. } => now,
        };
        self.give_back(task.id, task.dl.reserved, at, now);
    }

    /// Takes a booking out of a root domain and puts it into another, whether or not there is room.
    pub(crate) fn move_booking(&self, bandwidth: Bandwidth, from: Option<DomainId>, to: Option<DomainId>) {
        if let Some(from) = from {
            let mut booked = self.shared.domains[from.index()].dl_booked.lock();
            assert!(booked.total.0 >= bandwidth.0, "what is given back was booked");
            booked.total.0 -= bandwidth.0;
        }
        if let Some(to) = to {
            self.shared.domains[to.index()].dl_booked.lock().total.0 += bandwidth.0;
        }
    }

    /// A task is put on a CPU. If all CPUs have left the root domain where its bandwidth is booked, it is booked here.
    pub(crate) fn follow(&self, task: &mut Task, cpu: CpuId) {
        if let Some(had) = &mut task.dl.reserved
            && self.shared.domains[had.domain.index()].span.is_empty()
        {
            let to = self.shared.domain_of(cpu);
            self.move_booking(had.bandwidth, Some(had.domain), Some(to));
            had.domain = to;
        }
    }

    /// Checks that a deadline task may be confined so: `dl_task_check_affinity`.
    pub(crate) fn check_deadline_affinity(&self, task: &Task, allowed: Option<&CpuMask>) -> Result<(), TaskError> {
        match task.dl.reserved {
            Some(had) if !self.covers_domain(allowed, had.domain) => Err(TaskError::DeadlineAffinity(task.id)),
            Some(_) | None => Ok(()),
        }
    }

    fn covers_domain(&self, allowed: Option<&CpuMask>, domain: DomainId) -> bool {
        let span = &self.shared.domains[domain.index()].span;
        allowed.is_none_or(|mask| span.iter().all(|cpu| mask.contains(cpu)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
