//! The kernel path of a CPU: interrupts and jobs, the run-queue locks they need and the time they take.
//!
//! ```text
//!   interrupt ---> enter_kernel ---> jobs, each under its locks ---> settle
//!                       ^                |  lock held elsewhere: spin, interrupts off, first come first served
//!                       |                v
//!                       +--- pending interrupts, preemption, the task's next action <--- path end
//! ```
//!
//! Decisions are taken when a job gets its locks; the time it takes is spent from there on and holds the locks. A path that
//! changes nothing for its task costs no event: the task's completion moves.

use crate::kernel::cpu::{Interrupt, Job, Segment, WakeKind};
use crate::kernel::ipi::Stretch;
use crate::kernel::lock::Lock;
use crate::machine::{Event, Machine};
use crate::program::task::State;
use crate::queue::{Phase, Source};
use zerolag_core::{CpuMode, Home, Leave, Left, Next, Op, PairClock, Parcel, Placement, Resched, RqTimer, Step};
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::{CpuId, CpuLayer, Distance, Duration, Record, TaskId, TraceEvent};

/// Whether a job could be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    Yes,
    /// Another CPU holds a lock: this one spins and will be called again.
    Spinning,
}

impl Machine {
    /// An interrupt reaches a CPU.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, what: Interrupt) {
        let place = &mut self.cpus[cpu.index()];
        if place.is_in_kernel(self.now) {
            place.pending.push_back(what);
            if place.jobs.is_empty() {
                self.queue_path_end(cpu);
            }
            return;
        }
        let idled = self.now.since(place.busy_until);
        place.enter_kernel(self.now);
        place.advance_segment(self.now);
        if place.current.is_none() {
            place.spend(CpuLayer::Irq, self.costs.exit_after(idled));
        }
        let job = self.handle(cpu, what);
        if job.is_none_or(|job| self.execute(cpu, job) == Done::Yes) {
            self.drive(cpu);
        }
    }

    /// The tick of a CPU. Most change nothing: these are done here without ceremony.
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        let (now, next_tick) = (self.now, self.next_tick());
        let place = &mut self.cpus[cpu.index()];
        let is_plain = !place.is_in_kernel(now) && place.segment != Segment::None && place.lock.is_free(now);
        if !is_plain || self.tracer.is_on() {
            self.interrupt(cpu, Interrupt::Tick);
            return;
        }
        place.enter_kernel(now);
        place.advance_segment(now);
        place.stretch = Stretch::Free;
        place.spend(CpuLayer::Irq, self.costs.tick);
        let clock = place.clock(now);
        let step = self.scheduler.tick(&mut place.rq, clock, &mut self.io);
        if step == Step::Done && place.rq.need_resched() == Resched::No && self.io.is_quiet() {
            place.segment_since = place.busy_until;
            if place.segment_end(place.busy_until) <= next_tick {
                self.arm_completion(cpu);
            }
            return;
        }
        self.after_call(cpu);
        self.release(cpu, cpu);
        self.raise_softirq(cpu, step);
        self.drive(cpu);
    }

    /// Notes the balancing that a tick asks for. It is a softirq (`SCHED_SOFTIRQ`): it comes after the tick's handler, and so after what other
    /// CPUs that ticked at the same instant have made of theirs.
    fn raise_softirq(&mut self, cpu: CpuId, step: Step) {
        if step != Step::Done {
            let place = &mut self.cpus[cpu.index()];
            debug_assert!(place.softirq == Step::Done, "a tick comes after the softirq of the one before");
            place.softirq = step;
            place.pending.push_back(Interrupt::Softirq);
        }
    }

    /// Spends an interrupt's own time and answers with the work it brings.
    #[inline(always)]
    fn handle(&mut self, cpu: CpuId, what: Interrupt) -> Option<Job> {
        let (irq, cost) = match what {
            Interrupt::Tick => (Irq::Tick, self.costs.tick),
            Interrupt::RemoteTick(_) => (Irq::Softirq, self.costs.tick),
            Interrupt::TaskTimer(_) | Interrupt::RqTimer(_) | Interrupt::GroupTimer(..) => {
                (Irq::Timer, self.costs.timer_irq)
            }
            Interrupt::Softirq
            | Interrupt::Rebuild
            | Interrupt::Change(_)
            | Interrupt::Ended(_)
            | Interrupt::Noticed => (Irq::Softirq, Duration::ZERO),
            Interrupt::Arrival(_) => (Irq::Device, self.costs.timer_irq),
            Interrupt::Resched | Interrupt::Works => (Irq::Ipi, self.costs.ipi_handler),
            Interrupt::PagesRead { .. } => (Irq::Device, self.costs.timer_irq),
            Interrupt::Source(index) => {
                self.serve_source(cpu, index);
                return None;
            }
        };
        let place = &mut self.cpus[cpu.index()];
        match irq {
            Irq::Ipi => place.stretch.begin(place.busy_until),
            Irq::Tick | Irq::Timer | Irq::Device | Irq::Softirq | Irq::Hardware | Irq::Nmi => {
                place.stretch = Stretch::Free;
            }
        }
        place.spend(CpuLayer::Irq, cost);
        if self.tracer.is_on() && (!cost.is_zero() || what == Interrupt::Works) {
            self.emit(cpu, TraceEvent::IrqEnter { irq });
            if what != Interrupt::Works {
                let at = self.cpus[cpu.index()].busy_until;
                self.tracer.push_later(Record { at, cpu, event: TraceEvent::IrqExit { irq } });
            }
        }
        match what {
            Interrupt::Tick => Some(Job::Tick),
            Interrupt::Softirq => {
                let step = core::mem::replace(&mut self.cpus[cpu.index()].softirq, Step::Done);
                Some(Job::Carry { step, then_pick: false })
            }
            Interrupt::RemoteTick(of) => Some(Job::RemoteTick(of)),
            Interrupt::TaskTimer(task) => self.timer_job(task),
            Interrupt::RqTimer(timer) => Some(Job::Timer(timer)),
            Interrupt::GroupTimer(group, timer) => Some(Job::GroupTimer(group, timer)),
            Interrupt::Rebuild => Some(Job::Rebuild),
            Interrupt::Change(change) => Some(Job::Change(change)),
            Interrupt::Ended(task) => {
                self.hear_of_end(cpu, task);
                None
            }
            Interrupt::Arrival(source) => self.accept_request(cpu, source),
            Interrupt::PagesRead { file, window } => self.pages_read(cpu, file, window),
            Interrupt::Resched | Interrupt::Source(_) => None,
            Interrupt::Works => {
                self.cpus[cpu.index()].in_works = true;
                self.take_works(cpu)
            }
            Interrupt::Noticed => self.take_works(cpu),
        }
    }

    /// Does everything that a CPU has to do at this instant. The CPU is in the kernel.
    pub(crate) fn drive(&mut self, cpu: CpuId) {
        // Each turn consumes a job, an interrupt, a preemption or a program action; actions without end are stopped in
        // `interpret`.
        loop {
            while let Some(job) = self.cpus[cpu.index()].jobs.pop_front() {
                if self.execute(cpu, job) == Done::Spinning {
                    return;
                }
            }
            if self.cpus[cpu.index()].in_works {
                self.works_done(cpu);
            }
            if self.stop.is_some() {
                return;
            }
            let place = &mut self.cpus[cpu.index()];
            if place.busy_until > self.now {
                self.settle(cpu);
                return;
            }
            if let Some(what) = place.next_interrupt() {
                let job = self.handle(cpu, what);
                if job.is_some_and(|job| self.execute(cpu, job) == Done::Spinning) {
                    return;
                }
            } else if self.wants_switch(cpu) {
                if self.switch(cpu, Leave::Preempted) == Done::Spinning {
                    return;
                }
            } else if self.cpus[cpu.index()].waits_for_program() {
                self.interpret(cpu);
            } else {
                self.cpus[cpu.index()].segment_since = self.now;
                self.arm_completion(cpu);
                return;
            }
        }
    }

    fn wants_switch(&self, cpu: CpuId) -> bool {
        let place = &self.cpus[cpu.index()];
        if place.rq.need_resched() == Resched::No {
            return false;
        }
        let mode = match (place.current, place.segment) {
            (None, _) => CpuMode::Idle,
            (Some(task), _) if self.tasks[task.index()].cursor.spin_locks > 0 => CpuMode::KernelLocked,
            (Some(_), Segment::Work { layer: CpuLayer::Kernel, .. }) => CpuMode::Kernel,
            (Some(task), Segment::None) if self.tasks[task.index()].cursor.in_syscall => CpuMode::Kernel,
            (Some(_), _) => CpuMode::User,
        };
        self.scheduler.preempts(place.rq.need_resched(), mode)
    }

    /// The path takes time: sees that somebody looks at the CPU when it ends, if there is anything to look at.
    #[inline(always)]
    fn settle(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        if !place.pending.is_empty() || place.rq.need_resched() != Resched::No || place.waits_for_program() {
            self.queue_path_end(cpu);
        } else {
            place.segment_since = place.busy_until;
            self.arm_completion(cpu);
        }
    }

    fn queue_path_end(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        if !place.path_end_queued {
            place.path_end_queued = true;
            let (at, count) = (place.busy_until, place.next_count());
            self.queue.push(at, Phase::PathEnd, Source::cpu(cpu), count, Event::PathEnd { cpu });
        }
    }

    /// Sees that an event comes up when the current computation ends, if that is before the next tick; the tick asks
    /// again. So a computation that is often interrupted leaves no trail of void events.
    pub(crate) fn arm_completion(&mut self, cpu: CpuId) {
        let next_tick = self.next_tick();
        let place = &mut self.cpus[cpu.index()];
        if place.current.is_none() || place.segment == Segment::None {
            return;
        }
        let end = place.segment_end(place.segment_since.max(place.busy_until));
        if place.ticking && end > next_tick || place.completion_at.is_some_and(|at| at <= end) {
            return; // It comes up, finds that there is work left, and is set again.
        }
        place.completion = place.completion.wrapping_add(1);
        place.completion_at = Some(end);
        let (generation, count) = (place.completion, place.next_count());
        let event = Event::Completion { cpu, generation };
        self.queue.push(end, Phase::Completion, Source::cpu(cpu), count, event);
    }

    /// A computation ends, unless it was interrupted since.
    pub(crate) fn completion(&mut self, cpu: CpuId, generation: u32) {
        let now = self.now;
        let place = &mut self.cpus[cpu.index()];
        if place.completion != generation || place.completion_at.is_none() {
            return;
        }
        place.completion_at = None;
        if !place.jobs.is_empty() {
            return; // The path that is under way sets it again.
        }
        let end = place.segment_end(place.segment_since.max(place.busy_until));
        if end > now {
            self.arm_completion(cpu);
            return;
        }
        place.enter_kernel(now);
        place.segment = Segment::None;
        self.stats.completions += 1;
        self.drive(cpu);
    }

    /// Does one job if its locks can be had. The job is given back to the CPU if not.
    fn execute(&mut self, cpu: CpuId, job: Job) -> Done {
        match job {
            Job::Switch(why) => self.switch(cpu, why),
            Job::Pick => self.pick(cpu),
            Job::Carry { step, then_pick } => self.carry(cpu, step, then_pick),
            Job::Wake { task, why, target } => self.wake(cpu, task, why, target),
            Job::Inherit { holder, depth } => self.inherit(cpu, holder, depth),
            Job::Lend { task } => self.lend(cpu, task),
            Job::SetAttr(attr) => self.set_attr(cpu, attr),
            Job::SetAffinity => self.set_affinity(cpu),
            Job::SetGroup(group) => self.set_group(cpu, group),
            Job::GroupTimer(group, timer) => self.group_timer(cpu, group, timer),
            Job::Rebuild => self.rebuild_domains(cpu),
            Job::RemoteTick(of) => self.remote_tick(cpu, of),
            Job::Change(change) => self.change(cpu, change),
            Job::ChangeTask { task, change } => self.change_task(cpu, task, change),
            Job::Tick | Job::Timer(_) | Job::Remote(_) => self.own_event(cpu, job),
        }
    }

    /// Puts a job back that could not be done.
    pub(crate) fn spin(&mut self, cpu: CpuId, job: Job) -> Done {
        self.cpus[cpu.index()].jobs.push_front(job);
        Done::Spinning
    }

    #[inline(always)]
    fn own_event(&mut self, cpu: CpuId, job: Job) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, job);
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let step = match job {
            Job::Tick => self.scheduler.tick(&mut place.rq, clock, &mut self.io),
            Job::Timer(timer) => self.scheduler.timer(&mut place.rq, clock, timer, &mut self.io),
            Job::Remote(work) => self.scheduler.remote(&mut place.rq, clock, work, &mut self.io),
            Job::Switch(_)
            | Job::Pick
            | Job::Carry { .. }
            | Job::Wake { .. }
            | Job::SetAttr(_)
            | Job::SetAffinity
            | Job::SetGroup(_)
            | Job::GroupTimer(..)
            | Job::Rebuild
            | Job::RemoteTick(_)
            | Job::Change(_)
            | Job::ChangeTask { .. }
            | Job::Inherit { .. }
            | Job::Lend { .. } => unreachable!("not an event of the run queue"),
        };
        if matches!(job, Job::Tick) {
            // The tick's own cost covers its lock and bookkeeping.
            self.unlock(cpu, cpu, Duration::ZERO);
            self.raise_softirq(cpu, step);
            return Done::Yes;
        }
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        self.carry(cpu, step, false)
    }

    /// Notes what remains of a step as the next job.
    pub(crate) fn push_step(&mut self, cpu: CpuId, step: Step) {
        if step != Step::Done {
            self.cpus[cpu.index()].jobs.push_front(Job::Carry { step, then_pick: false });
        }
    }

    /// Leaves the current task and chooses the next one, under one hold of the lock.
    fn switch(&mut self, cpu: CpuId, why: Leave) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Switch(why));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let left = self.scheduler.leave(&mut place.rq, clock, why, &mut self.io);
        place.completion = place.completion.wrapping_add(1);
        place.completion_at = None;
        let segment = core::mem::replace(&mut place.segment, Segment::None);
        if let Some(task) = place.current.take() {
            let body = &mut self.tasks[task.index()];
            body.segment = segment;
            body.last_ran_on = Some(cpu);
        }
        match left {
            Left::Queued | Left::Delayed => {}
            Left::Parked(parcel) => self.park_waiter(cpu, parcel),
            Left::Displaced(parcel) => {
                // The CPU is switched away from it under the same lock, and only then is it placed elsewhere: nobody can run it
                // while this CPU still does, however long the lock of the other run queue is waited for.
                let task = parcel.id();
                self.park(parcel);
                let wake = Job::Wake { task, why: WakeKind::Displaced, target: None };
                self.cpus[cpu.index()].jobs.push_front(wake);
            }
            Left::Dead(parcel) => {
                let task = parcel.id();
                self.park(parcel);
                self.emit(cpu, TraceEvent::TaskExit { task });
                self.tasks[task.index()].state = State::Dead;
                self.alive -= 1;
                self.remove_emptied_groups(cpu);
            }
        }
        self.pick_locked(cpu)
    }

    pub(crate) fn park(&mut self, parcel: Parcel) {
        let task = parcel.id();
        let place = &mut self.tasks[task.index()].parcel;
        assert!(place.is_none(), "task {task} has one body");
        *place = Some(parcel);
    }

    fn pick(&mut self, cpu: CpuId) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Pick);
        }
        self.pick_locked(cpu)
    }

    /// Chooses the next task. The CPU has the lock of its run queue, and gives it back.
    fn pick_locked(&mut self, cpu: CpuId) -> Done {
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let switches = place.rq.nr_switches();
        let next = self.scheduler.pick(&mut place.rq, clock, &mut self.io);
        let switched = place.rq.nr_switches() != switches;
        let task = match next {
            Next::Balance(step) => {
                self.unlock(cpu, cpu, self.costs.rq_lock_hold);
                return self.carry(cpu, step, true);
            }
            Next::Idle => None,
            Next::Run(task) => Some(task),
        };
        place.current = task;
        // Also when the same task goes on: its priority may have changed, and others may wait behind it.
        let step =
            if task.is_some() { self.scheduler.switched(&mut place.rq, clock, &mut self.io) } else { Step::Done };
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        if switched {
            self.cpus[cpu.index()].spend(CpuLayer::Sched, self.costs.context_switch);
        }
        if let Some(task) = task {
            self.load_segment(cpu, task);
        }
        self.share_core(cpu);
        self.carry(cpu, step, false)
    }

    /// Gives a task's computation to the CPU that will run it.
    fn load_segment(&mut self, cpu: CpuId, task: TaskId) {
        let body = &mut self.tasks[task.index()];
        let distance = body.last_ran_on.map_or(Distance::Same, |last| self.topology.distance(last, cpu));
        body.refill += self.costs.cache_refill.at(distance);
        body.last_ran_on = Some(cpu);
        let mut segment = core::mem::replace(&mut body.segment, Segment::None);
        if let Segment::Work { left, .. } = &mut segment {
            *left += core::mem::take(&mut body.refill);
        }
        let place = &mut self.cpus[cpu.index()];
        place.segment = segment;
        place.segment_since = place.busy_until;
        if segment == Segment::None {
            self.peek_work(cpu, task);
        }
    }

    /// Sets the speed of a core's SMT siblings by how many of them are busy.
    #[inline]
    fn share_core(&mut self, cpu: CpuId) {
        let siblings = self.topology.span(cpu, Distance::Smt);
        if siblings.len() > 1 {
            self.share_among(cpu, siblings);
        }
    }

    fn share_among(&mut self, cpu: CpuId, siblings: core::ops::Range<u32>) {
        let busy = siblings.clone().filter(|sibling| self.cpus[*sibling as usize].current.is_some()).count();
        for sibling in siblings.map(CpuId) {
            let full = u64::from(self.topology.capacity(sibling));
            let speed = if busy > 1 { (full * self.costs.smt_speed_percent / 100).max(1) } else { full };
            let place = &mut self.cpus[sibling.index()];
            if place.speed == speed {
                continue;
            }
            if !place.is_in_kernel(self.now) {
                place.advance_segment(self.now);
            }
            place.speed = speed;
            place.completion_at = None;
            if sibling != cpu && place.jobs.is_empty() {
                self.arm_completion(sibling);
            }
        }
    }

    /// Carries a step out, and what follows from it, then chooses the next task if that is what it was for. A CPU that must
    /// spin for a lock notes the rest as its next job.
    #[inline(always)]
    fn carry(&mut self, cpu: CpuId, step: Step, then_pick: bool) -> Done {
        if step == Step::Done && !then_pick { Done::Yes } else { self.carry_on(cpu, step, then_pick) }
    }

    fn carry_on(&mut self, cpu: CpuId, mut step: Step, then_pick: bool) -> Done {
        loop {
            step = match step {
                Step::Done => {
                    if then_pick {
                        self.cpus[cpu.index()].jobs.push_front(Job::Pick);
                    }
                    return Done::Yes;
                }
                Step::Again { own, then } => {
                    if self.lock(cpu, own) == Lock::Busy {
                        return self.spin(cpu, Job::Carry { step, then_pick });
                    }
                    let place = &mut self.cpus[own.index()];
                    let clock = place.clock(self.now);
                    let step = self.scheduler.resume(&mut place.rq, clock, then, &mut self.io);
                    self.unlock(cpu, own, self.costs.rq_lock_hold);
                    step
                }
                Step::Pair { own, other, then } => {
                    if self.lock_pair(cpu, own, other) == Lock::Busy {
                        return self.spin(cpu, Job::Carry { step, then_pick });
                    }
                    let [a, b] = self
                        .cpus
                        .get_disjoint_mut([own.index(), other.index()])
                        .expect("invariant: a pair is two CPUs of this machine");
                    let now = PairClock { own: a.clock(self.now), other: b.clock(self.now) };
                    let step = self.scheduler.resume_pair(&mut a.rq, &mut b.rq, now, then, &mut self.io);
                    self.unlock_pair(cpu, own, other);
                    step
                }
            };
        }
    }

    fn wake(&mut self, cpu: CpuId, task: TaskId, why: WakeKind, target: Option<CpuId>) -> Done {
        let now = self.now;
        let placement = match why {
            WakeKind::Wakeup => Placement::Wakeup,
            WakeKind::Fork => Placement::Fork,
            WakeKind::Displaced => Placement::Displaced,
        };
        let Some(parcel) = &self.tasks[task.index()].parcel else { return self.wake_queued(cpu, task) };
        let target = match target {
            Some(target) => target,
            None => {
                let clock = self.cpus[cpu.index()].clock(now);
                let target = self.scheduler.select_cpu(clock, parcel, cpu, placement, &mut self.io);
                self.spend_costs(cpu);
                let distance = self.topology.distance(cpu, target);
                let cost = if distance <= Distance::Llc { self.costs.wakeup_local } else { self.costs.wakeup_remote };
                self.cpus[cpu.index()].spend(CpuLayer::Sched, cost);
                target
            }
        };
        if self.lock(cpu, target) == Lock::Busy {
            return self.spin(cpu, Job::Wake { task, why, target: Some(target) });
        }
        let parcel = self.tasks[task.index()].parcel.take().expect("invariant: just seen");
        let place = &mut self.cpus[target.index()];
        let clock = place.clock(now);
        let step = self.scheduler.wake(&mut place.rq, clock, parcel, cpu, placement, &mut self.io);
        self.stats.wakeups += 1;
        self.unlock(cpu, target, self.costs.rq_lock_hold);
        self.lend_to(cpu, task);
        self.carry(cpu, step, false)
    }

    /// Wakes a task that is blocked but still queued.
    fn wake_queued(&mut self, cpu: CpuId, task: TaskId) -> Done {
        let Home::Rq(home) = self.scheduler.home(task) else {
            unreachable!("a task without a body in hand is on a run queue")
        };
        if self.lock(cpu, home) == Lock::Busy {
            return self.spin(cpu, Job::Wake { task, why: WakeKind::Wakeup, target: None });
        }
        let place = &mut self.cpus[home.index()];
        let clock = place.clock(self.now);
        let woken = self.scheduler.wake_queued(&mut place.rq, clock, task, cpu, &mut self.io);
        self.unlock(cpu, home, self.costs.rq_lock_hold);
        match woken {
            Ok(step) => {
                self.stats.wakeups += 1;
                self.push_step(cpu, step);
                self.lend_to(cpu, task);
            }
            // It has not left its CPU yet, which spins for another lock first: that one wakes it then (`ttwu_queue_wakelist`).
            Err(_) if self.cpus[home.index()].current == Some(task) => {
                self.cpus[home.index()].jobs.push_back(Job::Wake { task, why: WakeKind::Wakeup, target: None });
            }
            // It was taken off meanwhile: its body is in hand now.
            Err(_) => {
                self.cpus[cpu.index()].jobs.push_front(Job::Wake { task, why: WakeKind::Wakeup, target: None });
            }
        }
        Done::Yes
    }

    fn set_attr(&mut self, cpu: CpuId, attr: zerolag_model::SchedAttr) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::SetAttr(attr));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let task = place.current.expect("invariant: a task changes itself");
        let result = self.scheduler.set_attr(&mut place.rq, clock, task, attr, &mut self.io);
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        match result {
            Ok(step) => self.push_step(cpu, step),
            Err(error) => self.fail(task, error),
        }
        Done::Yes
    }

    fn set_affinity(&mut self, cpu: CpuId) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::SetAffinity);
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let task = place.current.expect("invariant: a task changes itself");
        let mask = self.tasks[task.index()].new_affinity.take();
        let result = self.scheduler.set_affinity(&mut place.rq, clock, task, mask, &mut self.io);
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        match result {
            Ok((displaced, step)) => {
                assert!(displaced.is_none(), "a running task is displaced when it leaves");
                self.push_step(cpu, step);
            }
            Err(error) => self.fail(task, error),
        }
        Done::Yes
    }

    /// Lets a lock holder inherit from its waiters, and whoever it waits for from it.
    fn inherit(&mut self, cpu: CpuId, holder: TaskId, depth: u32) -> Done {
        let lent = self.lent_to(holder);
        let clock = self.cpus[cpu.index()].clock(self.now);
        if let Some(parcel) = &mut self.tasks[holder.index()].parcel {
            self.scheduler.inherit_parked(clock, parcel, lent, cpu, &mut self.io);
            self.tracer.take(&mut self.io.trace);
        } else if let Home::Rq(home) = self.scheduler.home(holder) {
            if self.lock(cpu, home) == Lock::Busy {
                return self.spin(cpu, Job::Inherit { holder, depth });
            }
            let place = &mut self.cpus[home.index()];
            let clock = place.clock(self.now);
            let changed = self.scheduler.inherit(&mut place.rq, clock, holder, lent, &mut self.io);
            self.unlock(cpu, home, self.costs.rq_lock_hold);
            let Ok(step) = changed else {
                // It sleeps and was still queued: it has been taken off, and its body is in hand now.
                self.cpus[cpu.index()].jobs.push_front(Job::Inherit { holder, depth });
                return Done::Yes;
            };
            self.push_step(cpu, step);
        }
        self.inherit_further(cpu, holder, depth);
        Done::Yes
    }

    pub(crate) fn fail(&mut self, task: TaskId, error: zerolag_core::TaskError) {
        let name = std::sync::Arc::clone(&self.tasks[task.index()].name);
        self.stop = Some(crate::outcome::End::Failed(crate::outcome::SimError::Task { name, error }));
    }

    /// After a call of the core: its costs, its operations, its records, its parcels.
    #[inline(always)]
    pub(crate) fn after_call(&mut self, cpu: CpuId) {
        if !self.io.is_quiet() {
            self.drain_io(cpu);
        }
    }

    fn drain_io(&mut self, cpu: CpuId) {
        self.spend_costs(cpu);
        while let Some(parcel) = self.io.parked.pop() {
            self.park_waiter(cpu, parcel);
        }
        if self.tracer.is_on() {
            self.tracer.take(&mut self.io.trace);
        }
        for index in 0..self.io.ops.len() {
            self.operate(cpu, self.io.ops[index]);
        }
        self.io.ops.clear();
    }

    pub(crate) fn operate(&mut self, cpu: CpuId, op: Op) {
        match op {
            Op::Kick { cpu: to } if to == cpu => {}
            Op::Kick { cpu: to } => {
                if self.polls(to) {
                    self.set_flag(cpu, to);
                    return;
                }
                if self.tracer.is_on() {
                    self.emit(cpu, TraceEvent::IpiSend { to, reason: IpiReason::Resched });
                }
                self.send(cpu, to, Interrupt::Resched);
            }
            Op::Ipi { cpu: to, work } => self.queue_work(cpu, to, work),
            Op::ArmTimer { cpu: of, timer, at } => {
                let place = &mut self.cpus[of.index()];
                let generation = place.timer_generation(timer).wrapping_add(1);
                *place.timer_generation(timer) = generation;
                let count = place.next_count();
                let event = Event::RqTimer { cpu: of, timer, generation };
                let at = match timer {
                    // A slice or budget is task time, which stands still until the CPU's present path ends. A timer that took no
                    // notice would fire before the slice is over, take time itself, and so on: an interrupt storm.
                    RqTimer::Slice | RqTimer::Server(_) => at.max(self.now) + place.busy_until.since(self.now),
                    RqTimer::Replenish | RqTimer::RtPeriod => at.max(self.now),
                };
                self.queue.push(at, Phase::RqTimer, Source::cpu(of), count, event);
            }
            Op::ArmGroupTimer { group, timer, at } => self.arm_group_timer(cpu, group, timer, at),
            Op::CancelTimer { cpu: of, timer } => {
                let generation = self.cpus[of.index()].timer_generation(timer);
                *generation = generation.wrapping_add(1);
            }
        }
    }

    /// Turns what the core counted into time.
    #[inline]
    fn spend_costs(&mut self, cpu: CpuId) {
        if !self.io.costs.is_zero() {
            self.spend_counted(cpu);
        }
    }

    fn spend_counted(&mut self, cpu: CpuId) {
        let counts = core::mem::take(&mut self.io.costs);
        self.stats.migrations += u64::from(counts.tasks_moved);
        self.stats.rt_balance += u64::from(counts.rt_balance);
        let time = self.costs.scan_per_cpu * u64::from(counts.cpus_scanned)
            + self.costs.scan_per_task * u64::from(counts.tasks_scanned)
            + self.costs.migrate_task * u64::from(counts.tasks_moved)
            + self.costs.throttle * u64::from(counts.throttles)
            + self.costs.inner_lock * u64::from(counts.inner_locks);
        self.cpus[cpu.index()].spend(CpuLayer::Sched, time);
        if counts.rto_accesses > 0 {
            let time = self.queue_for_rto(cpu, counts.rto_accesses);
            self.cpus[cpu.index()].spend(CpuLayer::Sched, time);
        }
    }
}
