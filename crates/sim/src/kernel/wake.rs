//! Waking tasks, and carrying out what a call of the core leaves to be done.
//!
//! A call of the core holds one run queue. If it needs another one it returns a [`Step`], and the
//! CPU takes the next lock ([`Kernel::carry`]). Where that lock is busy the CPU keeps the rest as
//! its next job.

use crate::kernel::rq_lock::Lock;
use crate::kernel::spread::Drawn;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Event, Job, Spins, WakeKind};
use crate::queue::Phase;
use zerolag_core::{Home, Lent, PairClock, Placement, Step};
use zerolag_model::{CpuId, CpuLayer, Distance, Duration, TaskId};

impl Kernel {
    /// Carries a step out, and the steps that follow from it, then notes the choice of the next
    /// task if that is the purpose. A CPU that must spin for a lock notes the rest as its next job.
    #[inline(always)]
    pub(crate) fn carry(&mut self, cpu: CpuId, step: Step, then_pick: bool) -> Done {
        if step == Step::Done && !then_pick { Ok(()) } else { self.carry_on(cpu, step, then_pick) }
    }

    fn carry_on(&mut self, cpu: CpuId, mut step: Step, then_pick: bool) -> Done {
        loop {
            let at = self.cpus[cpu.index()].busy_until;
            if self.calls.searched == Some((cpu, at)) && at > self.time.now && step != Step::Done {
                self.calls.searched = None;
                self.queue_event(at, Phase::LockFree, cpu, Event::SearchEnds { cpu });
                return self.spin(cpu, Job::Carry { step, then_pick });
            }
            step = match step {
                Step::Done => {
                    if then_pick {
                        self.push_next_job(cpu, Job::Pick);
                    }
                    return Ok(());
                }
                Step::Again { own, then } => {
                    self.locked(cpu, own, Job::Carry { step, then_pick }, |scheduler, rq, clock, io| {
                        scheduler.resume(rq, clock, then, io)
                    })?
                }
                Step::Pair { own, other, then } => {
                    if self.lock_pair(cpu, own, other) == Lock::Busy {
                        return self.spin(cpu, Job::Carry { step, then_pick });
                    }
                    let [a, b] = self
                        .cpus
                        .get_disjoint_mut([own.index(), other.index()])
                        .expect("invariant: a pair is two CPUs of this machine");
                    let now = PairClock {
                        wall: self.time.now,
                        own: a.clock(self.time.now).task,
                        other: b.clock(self.time.now).task,
                    };
                    let step = self.scheduler.resume_pair(&mut a.rq, &mut b.rq, now, then, &mut self.calls.io);
                    self.unlock_pair(cpu, own, other);
                    step
                }
            };
        }
    }

    /// Puts a task on a run queue.
    pub(crate) fn wake(&mut self, cpu: CpuId, task: TaskId, why: WakeKind, target: Option<CpuId>) -> Done {
        let placement = match why {
            WakeKind::Wakeup => Placement::Wakeup,
            WakeKind::SyncWakeup => Placement::SyncWakeup,
            WakeKind::Fork => Placement::Fork,
            WakeKind::Displaced => Placement::Displaced,
        };
        let Some(parcel) = &self.bodies[task.index()].parcel else { return self.wake_queued(cpu, task) };
        // The CPU that it sleeps on gives its lock back while it searches for other tasks, and has
        // not switched away yet: that CPU wakes it then (v5.8 `ttwu_queue_wakelist`; older kernels
        // spin for `on_cpu` in `try_to_wake_up`).
        if let Some(on) = self.bodies[task.index()].last_ran_on
            && self.cpus[on.index()].rq.is_leaving(task)
        {
            self.push_job(on, Job::Wake { task, why, target: Some(on) });
            return Ok(());
        }
        // The waker may have spun for the lock of that CPU, and the task may have been confined
        // meanwhile. Linux: both hold `pi_lock`, so that the change comes before or after.
        let target = match target.filter(|&target| parcel.may_run_on(target)) {
            Some(target) => target,
            None => {
                // Only fair tasks have timer slack.
                let is_fair = parcel.lends().has_timer_slack();
                let of_groups = match self.costs.group_wakeup {
                    each if is_fair && !each.is_zero() => each * self.scheduler.levels(parcel),
                    _ => Duration::ZERO,
                };
                let clock = self.cpus[cpu.index()].clock_in_path(self.time.now);
                let target = self.scheduler.select_cpu(clock, parcel, cpu, placement, &mut self.calls.io);
                self.spend_costs(cpu);
                let distance = self.topology.distance(cpu, target);
                let cost = if distance <= Distance::Llc { self.costs.wakeup_local } else { self.costs.wakeup_remote };
                let of_class = if is_fair { self.costs.fair_wakeup + of_groups } else { Duration::ZERO };
                self.cpus[cpu.index()].spend(CpuLayer::Sched, cost + of_class);
                if self.draws.has_spreads() {
                    self.spend_more(cpu, Drawn::Wakeup, 1);
                }
                target
            }
        };
        self.lock_for(cpu, target, Job::Wake { task, why, target: Some(target) })?;
        let parcel = self.bodies[task.index()].parcel.take().expect("invariant: just seen");
        let step =
            self.under_lock(target, |scheduler, rq, clock, io| scheduler.wake(rq, clock, parcel, cpu, placement, io));
        self.books.stats.wakeups += 1;
        self.unlock(cpu, target, self.costs.rq_lock_hold);
        self.end_call(cpu);
        self.lend_to(cpu, task);
        self.carry(cpu, step, false)
    }

    /// The call of a task that has woken another one goes on to where its CPU can switch. The first
    /// wakeup of a call spends what is left of it, unless the call waits next: it is begun again
    /// after the wait, and has it then.
    #[inline(always)]
    fn end_call(&mut self, cpu: CpuId) {
        if let Some(left) = self.calls.left(cpu)
            && self.cpus[cpu.index()].is_in_call()
        {
            let left = core::mem::take(left);
            let place = &mut self.cpus[cpu.index()];
            if place.jobs.iter().all(|job| matches!(job, Job::Wake { .. })) {
                place.spend(CpuLayer::Kernel, left);
            }
        }
    }

    /// Notes what is left of the call that the current task of a CPU makes.
    #[inline(always)]
    pub(crate) fn set_left_of_call(&mut self, cpu: CpuId, left: Duration) {
        if let Some(place) = self.calls.left(cpu) {
            *place = left;
        }
    }

    /// Returns what is left of a call that has had its effect, unless a wakeup is to spend it. A
    /// call that waits instead is begun again after the wait, and has it then.
    pub(crate) fn take_left_of_call(&mut self, cpu: CpuId) -> Duration {
        let jobs = &self.cpus[cpu.index()].jobs;
        if jobs.iter().any(|job| matches!(job, Job::Wake { .. })) {
            return Duration::ZERO;
        }
        let waits = !jobs.is_empty();
        let left = self.calls.left(cpu).map_or(Duration::ZERO, core::mem::take);
        if waits { Duration::ZERO } else { left }
    }

    /// Wakes a task that is blocked but still queued.
    fn wake_queued(&mut self, cpu: CpuId, task: TaskId) -> Done {
        let Home::Rq(home) = self.scheduler.home(task) else {
            unreachable!("a task without a body in hand is on a run queue")
        };
        let again = Job::wakeup(task);
        let woken =
            self.locked(cpu, home, again, |scheduler, rq, clock, io| scheduler.wake_queued(rq, clock, task, cpu, io))?;
        match woken {
            Ok(step) => {
                self.books.stats.wakeups += 1;
                self.cpus[cpu.index()].spend(CpuLayer::Sched, self.costs.queued_wakeup);
                self.end_call(cpu);
                self.push_step(cpu, step);
                self.lend_to(cpu, task);
            }
            // It has not left its CPU yet, which spins for another lock first: that CPU wakes it
            // then (`ttwu_queue_wakelist`).
            Err(_) if self.current(home) == Some(task) => self.push_job(home, again),
            // It was taken off meanwhile: its body is in hand now.
            Err(_) => self.push_next_job(cpu, again),
        }
        Ok(())
    }

    /// Returns what a task lends: how urgent it is to those that wait with it.
    pub(crate) fn lends(&self, task: TaskId) -> Option<Lent> {
        if let Some(parcel) = &self.bodies[task.index()].parcel {
            return Some(parcel.lends());
        }
        let Home::Rq(cpu) = self.scheduler.home(task) else { return None };
        self.scheduler.lends(&self.cpus[cpu.index()].rq, task).ok()
    }

    /// Lets a lock holder inherit from its waiters. Returns whether it does so now; if not, a job
    /// is noted that does.
    pub(crate) fn inherit(&mut self, cpu: CpuId, holder: TaskId, lent: Option<Lent>, job: Job) -> Result<bool, Spins> {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        if let Some(parcel) = &mut self.bodies[holder.index()].parcel {
            self.scheduler.inherit_parked(clock, parcel, lent, cpu, &mut self.calls.io);
            self.take_records();
        } else if let Home::Rq(home) = self.scheduler.home(holder) {
            let changed =
                self.locked(cpu, home, job, |scheduler, rq, clock, io| scheduler.inherit(rq, clock, holder, lent, io))?;
            let Ok(step) = changed else {
                // It sleeps and was still queued: it has been taken off, and its body is in hand
                // now.
                self.push_next_job(cpu, job);
                return Ok(false);
            };
            self.push_step(cpu, step);
        }
        Ok(true)
    }
}
