//! Admission: which deadline parameters a task may have, and whether its root domain has that much
//! bandwidth left.
//!
//! The sum of runtime/period of all deadline tasks of a root domain is at most 95 % of its
//! capacity: the share that real-time tasks have (`sched_rt_runtime_us` of `sched_rt_period_us`,
//! [`Scheduler::set_rt_bandwidth`]). What a task asks for is reserved when it asks, not when it
//! runs, and given back at its 0-lag time after it has ended or left the class: until then it has
//! had more than its share. Global EDF does not promise that an admitted set meets its deadlines on
//! several CPUs, only that tardiness is bounded; on one CPU it does.
//!
//! Where a deadline task may run is not its own choice: affinity and cpuset must cover its root
//! domain, for the test would mean nothing otherwise. To confine one, give it a root domain.
//!
//! | error | errno | when |
//! |---|---|---|
//! | [`DeadlineParams`](TaskError::DeadlineParams) | EINVAL | parameters out of range or order |
//! | [`NotWholeDomain`](TaskError::NotWholeDomain) | EPERM | it asks for the class, but may not use each CPU of the domain |
//! | [`DeadlineAffinity`](TaskError::DeadlineAffinity) | EBUSY | a deadline task asks for fewer CPUs |
//! | [`NoBandwidth`](TaskError::NoBandwidth) | EBUSY | the domain is booked up |
//! | [`DeadlineForks`](TaskError::DeadlineForks) | EAGAIN | a deadline task forks |
//!
//! O(words of a CPU mask + CPUs of the domain + tasks that left less than a 0-lag time ago), under
//! one inner lock.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`__checkparam_dl`, `sched_dl_overflow`,
//! `__dl_overflow`), `core.c` (`dl_task_check_affinity`), `syscalls.c` (`__sched_setscheduler`);
//! `deadline.c` (`inactive_task_timer`, `switched_from_dl`). differs: no timer gives bandwidth
//! back, but whoever asks next does ([`Booked`]); a CPU that goes offline takes its share without
//! being asked for it.

use crate::entity::dl::DlState;
use crate::entry::scheduler::Scheduler;
use crate::shared::booked::{BookedUp, Leaving};
use crate::task::body::Task;
use crate::words::bandwidth::{Bandwidth, DlLimit, Reserved, RtLimit};
use crate::words::error::{RtBandwidthError, TaskError};
use crate::words::ids::DomainId;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, Instant, RtBandwidth, SchedAttr, TaskId};

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
    /// Reserves what a task needs to be of this class, in place of what it has; `None` for other
    /// classes, which keeps what it has booked: [`give_back`](Self::give_back). The caller keeps
    /// the answer in the task.
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
        let wanted = booked.total(now).0 - old.0 + new.0;
        let is_too_much = |limit: Bandwidth| (limit.0 * capacity) >> 10 < wanted;
        if new != old && booked.limit.admitted.is_some_and(is_too_much) {
            return Err(BookedUp);
        }
        booked.total.0 = wanted;
        Ok(())
    }

    /// Sets what real-time tasks of each CPU may run per period (`sched_rt_runtime_us`,
    /// `sched_rt_period_us`), and with it what deadline tasks are admitted to from now on. Every
    /// CPU, offline ones too, then calls [`follow_rt_limit`](Self::follow_rt_limit) for itself.
    /// O(CPUs).
    ///
    /// Linux v6.6 `kernel/sched/rt.c`, `sched_rt_handler`, `sched_rt_global_validate`;
    /// `deadline.c`, `sched_dl_global_validate`, `sched_dl_do_global`; commit a57415f5d1e4 (5.11:
    /// all CPUs of a root domain count, not one). differs: offline CPUs count, as when a task asks.
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

    /// A task is put on a CPU. If all CPUs have left the root domain where its bandwidth is booked,
    /// it is booked here.
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
