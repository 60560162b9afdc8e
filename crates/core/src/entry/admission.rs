//! Admission: the deadline parameters that a task can have, and whether its root domain has enough
//! bandwidth left for them.
//!
//! The sum of runtime/period of all deadline tasks of a root domain is at most 95 % of its
//! capacity: the share that real-time tasks have (`sched_rt_runtime_us` of `sched_rt_period_us`,
//! [`Scheduler::set_rt_bandwidth`]). Bandwidth is reserved when a task requests it, not when the
//! task runs. It is given back at the 0-lag time of a task that has ended or left the class: until
//! then the task has received more than its share. With global EDF an admitted set is not
//! guaranteed to meet its deadlines on several CPUs; only its tardiness is bounded. On one CPU it
//! meets them.
//!
//! A deadline task cannot choose its CPUs: affinity and cpuset must cover its root domain, because
//! the admission test would mean nothing otherwise. To confine a deadline task, give it a root
//! domain.
//!
//! | error | errno | when |
//! |---|---|---|
//! | [`DeadlineParams`] | EINVAL | parameters out of range or order |
//! | [`NotWholeDomain`] | EPERM | it requests the class, but cannot use every CPU of the domain |
//! | [`DeadlineAffinity`] | EBUSY | a deadline task requests fewer CPUs |
//! | [`NoBandwidth`] | EBUSY | the domain is booked up |
//! | [`DeadlineForks`] | EAGAIN | a deadline task forks |
//!
//! O(words of a CPU mask + CPUs of the domain + tasks that left less than a 0-lag time ago), under
//! one inner lock.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`__checkparam_dl`, `sched_dl_overflow`,
//! `__dl_overflow`), `core.c` (`dl_task_check_affinity`), `syscalls.c` (`__sched_setscheduler`);
//! `deadline.c` (`inactive_task_timer`, `switched_from_dl`). differs: no timer gives bandwidth
//! back; the next request does ([`Booked`]). A CPU goes offline without a check of the booked
//! bandwidth.
//!
//! [`Booked`]: crate::shared::booked::Booked
//! [`DeadlineParams`]: TaskError::DeadlineParams
//! [`NotWholeDomain`]: TaskError::NotWholeDomain
//! [`DeadlineAffinity`]: TaskError::DeadlineAffinity
//! [`NoBandwidth`]: TaskError::NoBandwidth
//! [`DeadlineForks`]: TaskError::DeadlineForks

use crate::entity::dl::{DlState, Faults};
use crate::entry::scheduler::Scheduler;
use crate::shared::booked::Leaving;
use crate::task::body::Task;
use crate::words::bandwidth::{Bandwidth, DlLimit, Reserved, RtLimit};
use crate::words::error::{BookedUp, Confined, RtBandwidthError, TaskError};
use crate::words::ids::DomainId;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, Instant, RtBandwidth, SchedAttr, TaskId};

/// A request for the parameters of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) task: TaskId,
    pub(crate) attr: SchedAttr,
    pub(crate) had: Option<Reserved>,
    /// The CPUs where the task is allowed; `None` is every CPU.
    pub(crate) allowed: Option<&'a CpuMask>,
    /// The CPU that determines its root domain.
    pub(crate) near: CpuId,
}

impl<L: RawMutex> Scheduler<L> {
    /// Reserves the bandwidth that a task needs for this class, in place of its old reservation.
    /// Returns `None` for other classes and keeps the old booking; see
    /// [`give_back`](Self::give_back). The caller stores the result in the task.
    pub(crate) fn reserve(&self, request: AdmissionRequest<'_>, now: Instant) -> Result<Option<Reserved>, TaskError> {
        let AdmissionRequest { task, attr, had, allowed, near } = request;
        let SchedAttr::Deadline(params) = attr else { return Ok(None) };
        let domain = match (had, allowed) {
            (Some(had), _) => had.domain,
            (None, Some(mask)) if !mask.contains(near) => self.shared.domain_of(mask.first().unwrap_or(near)),
            (None, _) => self.shared.domain_of(near),
        };
        self.check_covers(allowed, domain).map_err(|confined| TaskError::NotWholeDomain(task, confined))?;
        let bandwidth = Bandwidth::of(params);
        let old = had.map_or(Bandwidth::default(), |had| had.bandwidth);
        self.rebook(domain, old, bandwidth, now).map_err(|booked| TaskError::NoBandwidth(task, booked))?;
        if had.is_none() {
            self.shared.domains[domain.index()].dl_booked.lock().forget(task);
        }
        Ok(Some(Reserved { domain, bandwidth }))
    }

    /// Books `new` in place of `old` in a root domain. A change that keeps the bandwidth is always
    /// granted.
    pub(crate) fn rebook(
        &self,
        domain: DomainId,
        old: Bandwidth,
        new: Bandwidth,
        now: Instant,
    ) -> Result<(), BookedUp> {
        let domain = &self.shared.domains[domain.index()];
        let capacity: u64 = domain.span.iter().map(|cpu| u64::from(self.config.topology.capacity(cpu))).sum();
        let mut booked = domain.dl_booked.lock();
        let reserved = booked.total(now).0 - old.0;
        let by_groups = self.booked_by_groups(capacity);
        let limit = booked.limit.admitted.map(|limit| (limit.0 * capacity) >> 10);
        if let Some(limit) = limit.filter(|limit| new != old && *limit < reserved + by_groups + new.0) {
            return Err(BookedUp { wants: new.0, reserved: reserved + by_groups, limit });
        }
        booked.total.0 = reserved + new.0;
        Ok(())
    }

    /// Sets the time that real-time tasks of every CPU can run per period (`sched_rt_runtime_us`,
    /// `sched_rt_period_us`), and with it the limit of deadline admission from now on. Every CPU,
    /// also an offline one, then calls [`follow_rt_limit`](Self::follow_rt_limit) for itself.
    /// O(CPUs).
    ///
    /// Linux v6.6 `kernel/sched/rt.c`, `sched_rt_handler`, `sched_rt_global_validate`;
    /// `deadline.c`, `sched_dl_global_validate`, `sched_dl_do_global`; commit a57415f5d1e4 (5.11:
    /// all CPUs of a root domain count, not one). differs: offline CPUs count, as in the admission
    /// of a task.
    ///
    /// # Errors
    /// The limit is invalid, or a root domain has promised more; nothing is changed then.
    pub fn set_rt_bandwidth(&self, now: Instant, bandwidth: RtBandwidth) -> Result<(), RtBandwidthError> {
        if !bandwidth.is_valid() {
            return Err(RtBandwidthError::Params);
        }
        self.check_global_rt(bandwidth)?;
        let limit = DlLimit::of(bandwidth);
        for domain in &self.shared.domains {
            let cpus = domain.span.iter().count() as u64;
            let (limit, reserved) = (limit.share().0 * cpus, domain.dl_booked.lock().total(now).0);
            let reserved = reserved + self.booked_by_groups(cpus << 10);
            if cpus > 0 && limit < reserved {
                return Err(RtBandwidthError::Promised { reserved, limit });
            }
        }
        for domain in &self.shared.domains {
            domain.dl_booked.lock().limit = limit;
        }
        self.shared.rt_groups.set_limited(bandwidth.runtime.is_some());
        let mut global = self.shared.rt_limit.lock();
        *global = RtLimit { bandwidth, round: global.round + 1 };
        Ok(())
    }

    /// Returns the time that real-time tasks of every CPU can run per period.
    pub fn rt_bandwidth(&self) -> RtBandwidth {
        self.shared.rt_limit.lock().bandwidth
    }

    /// Gives back a task's reservation at its 0-lag time: the task has ended or left the class.
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

    /// Returns the faults of the deadline state of tasks.
    pub(crate) fn dl_faults(&self) -> Faults {
        Faults::of(&self.config.settings)
    }

    /// Gives back a task's reservation at the 0-lag time of its current job.
    pub(crate) fn give_back_all(&self, task: &Task, now: Instant) {
        let at = match task.attr {
            SchedAttr::Deadline(params) if task.dl.state != DlState::Fresh => task.dl.zero_lag(params),
            SchedAttr::Deadline(_) | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Rt { .. } => now,
        };
        self.give_back(task.id, task.dl.reserved, at, now);
    }

    /// Moves a booking from one root domain to another, whether or not there is room.
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

    /// Moves a task's booking to the root domain of the CPU where the task is placed, if all CPUs
    /// have left the domain where the bandwidth is booked.
    pub(crate) fn follow(&self, task: &mut Task, cpu: CpuId) {
        if let Some(had) = task.dl.get_mut().and_then(|dl| dl.reserved.as_mut())
            && self.shared.domains[had.domain.index()].span.is_empty()
        {
            let to = self.shared.domain_of(cpu);
            self.move_booking(had.bandwidth, Some(had.domain), Some(to));
            had.domain = to;
        }
    }

    /// Checks that a deadline task is allowed to have this affinity (`dl_task_check_affinity`).
    pub(crate) fn check_deadline_affinity(&self, task: &Task, allowed: Option<&CpuMask>) -> Result<(), TaskError> {
        let Some(had) = task.dl.reserved else { return Ok(()) };
        self.check_covers(allowed, had.domain).map_err(|confined| TaskError::DeadlineAffinity(task.id, confined))
    }

    /// Checks that CPUs cover a root domain. Without admission (`sched_rt_runtime_us` = -1) a
    /// deadline task can be confined: Linux v6.12 `dl_bandwidth_enabled` in
    /// `__sched_setscheduler` and `dl_task_check_affinity`.
    fn check_covers(&self, allowed: Option<&CpuMask>, domain: DomainId) -> Result<(), Confined> {
        let domain = &self.shared.domains[domain.index()];
        let span = &domain.span;
        let Some(mask) = allowed.filter(|mask| !span.iter().all(|cpu| mask.contains(cpu))) else { return Ok(()) };
        if domain.dl_booked.lock().limit.admitted.is_none() {
            return Ok(());
        }
        Err(Confined { allowed: mask.clone(), domain: span.iter().collect() })
    }
}
