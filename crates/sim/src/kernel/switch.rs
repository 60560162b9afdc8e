//! Switching: leaving the current task and choosing the next one, under one hold of the lock.
//!
//! Between the two the parts above note where the left task is now, and before the CPU goes on the
//! program of the next task is asked for its first computation. So a switch comes in pieces, which
//! the main loop puts together: [`leave`](Kernel::leave), [`pick_locked`](Kernel::pick_locked),
//! [`load`](Kernel::load), [`share_core`](Kernel::share_core), [`carry`](Kernel::carry).

use crate::kernel::cpu::Segment;
use crate::kernel::spread::Drawn;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Job, Spins, WakeKind};
use zerolag_core::{Clock, Leave, Left, Next, Step};
use zerolag_model::state::CpuState;
use zerolag_model::{CpuId, CpuLayer, Distance, Duration, Record, TaskId, TraceEvent};

impl Kernel {
    /// Leaves the current task. The CPU keeps the lock of its run queue, for
    /// [`pick_locked`](Self::pick_locked). Returns the task if it has ended.
    #[inline]
    pub(crate) fn leave(&mut self, cpu: CpuId, clock: Clock, why: Leave) -> Option<TaskId> {
        let place = &mut self.cpus[cpu.index()];
        let left = self.scheduler.leave(&mut place.rq, clock, why, &mut self.calls.io);
        self.store(cpu);
        match left {
            Left::Queued | Left::Delayed => {}
            Left::Parked(parcel) => self.park_waiter(cpu, parcel),
            Left::Displaced(parcel) => {
                // The CPU is switched away from it under the same lock, and only then is it placed
                // elsewhere: no CPU can run it while this one still does, however long the wait for
                // the other run queue's lock is.
                let task = parcel.id();
                self.park(parcel);
                self.push_next_job(cpu, Job::wake(task, WakeKind::Displaced));
            }
            Left::Dead(parcel) => {
                let task = parcel.id();
                self.park(parcel);
                self.emit(cpu, TraceEvent::TaskExit { task });
                self.time.share(); // It can have been the last.
                return Some(task);
            }
        }
        None
    }

    /// Keeps the computation of the task that a CPU leaves.
    #[inline(always)]
    fn store(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        place.completion = place.completion.wrapping_add(1);
        place.completion_at = None;
        let segment = core::mem::replace(&mut place.segment, Segment::None);
        if let Some(task) = place.current.take() {
            let body = &mut self.bodies[task.index()];
            body.segment = segment;
            body.last_ran_on = Some(cpu);
        }
    }

    /// Returns whether it is worth trying to preempt the current task of a CPU in one step:
    /// [`preempt`](Self::preempt).
    #[inline(always)]
    pub(crate) fn may_preempt_at_once(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].rq.is_current_fair() && self.books.states.is_none()
    }

    /// The same, and whether the lock for it is free. Where switches are not all alike, or the
    /// state between the two is kept, the lock is taken apart.
    #[inline(always)]
    pub(crate) fn is_ready_to_preempt(&self, cpu: CpuId) -> bool {
        let place = &self.cpus[cpu.index()];
        let is_plain = !self.rules.has_other_switches && self.books.states.is_none();
        place.rq.is_current_fair() && place.lock.is_free(place.busy_until) && is_plain
    }

    /// Leaves the current task, which is preempted, and chooses the next one, if that is one step.
    /// Returns whether it was; if not, nothing has been done.
    #[inline(always)]
    pub(crate) fn preempt(&mut self, cpu: CpuId) -> bool {
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock_in_path(self.time.now);
        let switches = place.rq.nr_switches();
        let Some(next) = self.scheduler.preempt(&mut place.rq, clock, &mut self.calls.io) else { return false };
        let switched = place.rq.nr_switches() != switches;
        self.store(cpu);
        self.cpus[cpu.index()].current = Some(next);
        self.end_pick(cpu, switched);
        true
    }

    #[cold]
    #[inline(never)]
    fn state_of(&self, cpu: CpuId) -> Box<CpuState> {
        Box::new(self.cpus[cpu.index()].rq.inspect().state())
    }

    /// Keeps the scheduler's numbers at the decision of a CPU. Cold and out of line: few runs keep
    /// them.
    #[cold]
    #[inline(never)]
    fn note_state(&mut self, cpu: CpuId, clock: Clock, before: &CpuState) {
        let mut state = self.state_of(cpu);
        state.way = state.picked.and_then(|task| self.scheduler.policy_way(task));
        let pools = self.scheduler.quota_left();
        if let Some(states) = &mut self.books.states {
            states.note(clock.wall, (before, &state), &pools);
        }
    }

    /// Gives the lock of the run queue back, and spends the time of a switch.
    #[inline(always)]
    fn end_pick(&mut self, cpu: CpuId, switched: bool) {
        if self.rules.has_other_switches {
            return self.end_other_pick(cpu, switched);
        }
        self.unlock_own(cpu, self.costs.rq_lock_hold);
        if switched {
            self.cpus[cpu.index()].spend(CpuLayer::Sched, self.costs.context_switch);
            if self.has_spinners() {
                self.after_switch(cpu);
            }
        }
    }

    /// The same where switches to fair tasks cost more, costs of switches are drawn, or switches
    /// set a timer when they are over. Out of line, for the others.
    #[inline(never)]
    fn end_other_pick(&mut self, cpu: CpuId, switched: bool) {
        let of_class =
            if self.cpus[cpu.index()].rq.is_current_fair() { self.costs.fair_switch } else { Duration::ZERO };
        let cost =
            if switched { self.costs.context_switch + of_class + self.more(Drawn::Switch) } else { Duration::ZERO };
        let pick = if switched { self.delay_event(cpu) } else { self.pick_time(cpu) };
        self.calls.switch_ahead = cost;
        self.unlock_own(cpu, self.costs.rq_lock_hold + pick);
        self.calls.switch_ahead = Duration::ZERO;
        if switched {
            self.cpus[cpu.index()].spend(CpuLayer::Sched, cost);
            if self.has_spinners() {
                self.after_switch(cpu);
            }
        }
    }

    /// Returns how long a decision takes, also one that leaves the task where it is.
    fn pick_time(&self, cpu: CpuId) -> Duration {
        let place = &self.cpus[cpu.index()];
        let is_fair = place.leaves_fair || place.rq.is_current_fair();
        self.costs.pick + if is_fair { self.costs.fair_pick } else { Duration::ZERO }
    }

    /// Writes the event of a switch later than the switch: the CPU has then picked the next task.
    /// Returns by how much. The decision, and the task to which the time counts, are those of the
    /// beginning: the kernel reads the clock when it enters the scheduler, and holds the lock up to
    /// the event. So no event that needs the lock comes in between
    /// ([`Tracer`](crate::trace::Tracer)).
    fn delay_event(&mut self, cpu: CpuId) -> Duration {
        let pick = self.pick_time(cpu);
        if !pick.is_zero() && self.books.tracer.is_on() {
            let is_switch = |record: &Record| matches!(record.event, TraceEvent::Switch { .. });
            if let Some(place) = self.calls.io.trace.iter().rposition(is_switch) {
                let mut after = self.calls.io.trace.split_off(place);
                // Those before it were made before the decision.
                self.books.tracer.take(&mut self.calls.io.trace);
                let mut record = after.remove(0);
                record.at += pick;
                self.books.tracer.push_switch(record);
                self.calls.io.trace = after;
            }
        }
        pick
    }

    /// Takes the lock of the CPU's own run queue, to leave the current task, unless that has been
    /// done, and to choose the next one.
    #[inline(always)]
    pub(crate) fn lock_to_switch(&mut self, cpu: CpuId, leaves: Option<Leave>) -> Result<(), Spins> {
        self.lock_for(cpu, cpu, leaves.map_or(Job::Pick, Job::Switch))?;
        if self.extensions.are_asked && leaves.is_some() {
            self.take_extension(cpu);
        }
        if self.rules.has_other_switches && leaves.is_some() {
            let place = &mut self.cpus[cpu.index()];
            place.leaves_fair = place.rq.is_current_fair();
        }
        Ok(())
    }

    /// Chooses the next task and gives the lock of the run queue back. Returns the step to be
    /// carried out; `Err` with one that must be carried out before a task can be chosen.
    #[inline(always)]
    pub(crate) fn pick_locked(&mut self, cpu: CpuId, clock: Clock) -> Result<Step, Step> {
        let before = self.books.states.is_some().then(|| self.state_of(cpu));
        let place = &mut self.cpus[cpu.index()];
        let switches = place.rq.nr_switches();
        let next = self.scheduler.pick(&mut place.rq, clock, &mut self.calls.io);
        let switched = place.rq.nr_switches() != switches;
        let task = match next {
            Next::Balance(step) => {
                self.unlock_own(cpu, self.costs.rq_lock_hold);
                return Err(step);
            }
            Next::Idle => None,
            Next::Run(task) => Some(task),
        };
        place.current = task;
        if let Some(before) = before {
            self.note_state(cpu, clock, &before);
        }
        let place = &mut self.cpus[cpu.index()];
        // Also when the same task goes on: its priority may have changed, and others may wait
        // behind it.
        let step = if task.is_some() || self.scheduler.leaves_tasks_behind_idle() {
            self.scheduler.switched(&mut place.rq, clock, &mut self.calls.io)
        } else {
            Step::Done
        };
        self.end_pick(cpu, switched);
        Ok(step)
    }

    /// Gives the computation of the chosen task to the CPU. Returns the task if it has none, and
    /// its program must say what comes next.
    #[inline(always)]
    pub(crate) fn load(&mut self, cpu: CpuId) -> Option<TaskId> {
        let task = self.cpus[cpu.index()].current?;
        let body = &mut self.bodies[task.index()];
        if let Some(last) = body.last_ran_on.replace(cpu).filter(|last| *last != cpu) {
            body.refill += self.costs.cache_refill.at(self.topology.distance(last, cpu));
        }
        let mut segment = core::mem::replace(&mut body.segment, Segment::None);
        if let Segment::Work { left, .. } = &mut segment {
            *left += core::mem::take(&mut body.refill);
        }
        self.set_segment(cpu, segment);
        Some(task).filter(|_| segment == Segment::None)
    }

    /// Sets the speed of a core's SMT siblings by how many of them are busy.
    #[inline(always)]
    pub(crate) fn share_core(&mut self, cpu: CpuId) {
        if self.topology.has_smt() {
            self.share_among(cpu);
        }
    }

    fn share_among(&mut self, cpu: CpuId) {
        let siblings = self.topology.span(cpu, Distance::Smt);
        let busy = siblings.clone().filter(|sibling| self.cpus[*sibling as usize].current.is_some()).count();
        for sibling in siblings.map(CpuId) {
            let full = u64::from(self.topology.capacity(sibling));
            let speed = if busy > 1 { (full * self.costs.smt_speed_percent / 100).max(1) } else { full };
            let place = &mut self.cpus[sibling.index()];
            if place.speed == speed {
                continue;
            }
            if !place.is_in_kernel(self.time.now) {
                place.advance_segment(self.time.now);
            }
            place.speed = speed;
            place.completion_at = None;
            if sibling != cpu && place.jobs.is_empty() {
                self.arm_completion(sibling);
            }
        }
    }
}
