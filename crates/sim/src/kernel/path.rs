//! The kernel path of a CPU: how it begins, what comes next on it, and how it ends.
//!
//! ```text
//!   interrupt ---> enter_kernel ---> jobs, each under its locks ---> settle
//!                       ^                |  lock held elsewhere: spin, interrupts off
//!                       |                v
//!                       +--- pending interrupts, preemption, the task's next action <--- path end
//! ```
//!
//! A job decides when it gets its locks. The time that it takes is spent from there on, and holds
//! the locks. A path that changes nothing for its task costs no event: the task's completion moves.
//!
//! Half of the path ends of a small machine are the very next event of all. Such a path goes on to
//! its end where it is, without an event ([`Kernel::ahead`]), if nothing else is to be done
//! ([`Time`]).
//!
//! The main loop drives the path, because handlers and jobs can belong to any part of the machine.
//! Here is what concerns the CPU alone: [`Kernel::ahead`] says what comes next on it.
//!
//! [`Time`]: crate::kernel::time::Time

use crate::kernel::cpu::{Completion, Ends, Segment, Stretch};
use crate::kernel::menu::OWN_TIMERS;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Begun, Event, Interrupt, Job, Left, Stands};
use crate::queue::Phase;
use zerolag_core::Resched;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, Record, TaskId, TraceEvent};

/// What comes next on a CPU that is in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead {
    /// Nothing at this instant.
    Nothing,
    /// What is to be asked again: something that is not usual has been done.
    Again,
    Job(Job),
    Interrupt(Interrupt),
    /// What the handler of a device has left to be done.
    Left(Left),
    /// The current task is preempted.
    Switch,
    /// The program of the current task says what it does.
    Program,
}

impl Kernel {
    /// Returns whether this interrupt waits at a CPU. O(waiting interrupts).
    pub(crate) fn has_pending(&self, cpu: CpuId, what: Interrupt) -> bool {
        self.cpus[cpu.index()].pending.contains(&what)
    }

    /// An interrupt reaches a CPU. Returns whether the CPU takes it now; if not, it is pending.
    #[inline(always)]
    pub(crate) fn takes_interrupt(&mut self, cpu: CpuId, what: Interrupt) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if place.is_in_kernel(self.time.now) || place.ends != Ends::Nothing {
            return self.interrupts_path(cpu, what);
        }
        self.take_interrupt(cpu, what);
        true
    }

    /// The same on a CPU in a path, or at its very end. One interrupt in seven or less finds one,
    /// and with this in the midst of [`takes_interrupt`](Self::takes_interrupt) all saved more
    /// registers.
    #[inline(never)]
    fn interrupts_path(&mut self, cpu: CpuId, what: Interrupt) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if matches!(place.ends, Ends::Softirq { .. }) && place.jobs.is_empty() && self.time.now < place.busy_until {
            self.interrupt_softirq(cpu);
            return true;
        }
        // At the very end of a handler its CPU first does what that leaves to be done.
        if place.is_in_kernel(self.time.now) || matches!(place.ends, Ends::Handler(_)) {
            self.leave_pending(cpu, what);
            return false;
        }
        self.take_interrupt(cpu, what);
        true
    }

    /// A CPU in no path takes an interrupt.
    #[inline(always)]
    fn take_interrupt(&mut self, cpu: CpuId, what: Interrupt) {
        let place = &mut self.cpus[cpu.index()];
        let idled = self.time.now.since(place.busy_until);
        place.enter_kernel(self.time.now);
        place.begin_interrupt();
        place.advance_segment(self.time.now);
        if place.current.is_none() {
            if self.costs.idle_states.is_empty() {
                return place.spend(CpuLayer::Irq, self.costs.idle_exit);
            }
            self.leave_state(cpu, idled, what);
        }
    }

    /// Leaves one of several idle states: that of the idle time, or the one that was guessed.
    #[inline(never)]
    fn leave_state(&mut self, cpu: CpuId, idled: Duration, by: Interrupt) {
        let expected = if by.is_timer() { idled } else { self.time_to_timer(cpu, idled) };
        let exit = match &mut self.menu {
            None => self.costs.exit_after(idled),
            Some(menu) => {
                let exit = self.costs.idle_states[menu.select(cpu, expected, &self.costs.idle_states)].exit;
                menu.reflect(cpu, expected, idled, exit);
                exit
            }
        };
        self.cpus[cpu.index()].spend(CpuLayer::Irq, exit);
    }

    /// Returns how far ahead the next timer of a CPU was when it began to idle. O(events).
    pub(super) fn time_to_timer(&self, cpu: CpuId, idled: Duration) -> Duration {
        if self.menu.is_none() {
            return OWN_TIMERS; // It does not matter.
        }
        let next = self.time.queue.iter().filter(|(_, event)| event.timer_of() == Some(cpu)).map(|(at, _)| at).min();
        next.map_or(OWN_TIMERS, |at| at.since(self.time.now).saturating_add(idled).min(OWN_TIMERS))
    }

    /// A task blocks on a CPU to wait for a disk.
    #[inline]
    pub(crate) fn waits_for_disk(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(menu) = &mut self.menu {
            menu.waits(cpu, task);
        }
    }

    /// A task no longer waits for a disk, if it has.
    #[inline]
    pub(crate) fn waits_for_disk_no_more(&mut self, task: TaskId) {
        if let Some(menu) = &mut self.menu {
            menu.waits_no_more(task);
        }
    }

    /// An interrupt waits for the end of the path.
    #[inline(always)]
    fn leave_pending(&mut self, cpu: CpuId, what: Interrupt) {
        let place = &mut self.cpus[cpu.index()];
        // The timer of the tick holds one, however many periods pass.
        let is_tick = |what: &Interrupt| matches!(what, Interrupt::Tick);
        if !is_tick(&what) || !place.pending.iter().any(is_tick) {
            place.pending.push_back(what);
        }
        if place.jobs.is_empty() {
            self.queue_path_end(cpu);
        }
    }

    /// Spends the time of an interrupt's handler.
    #[inline(always)]
    pub(crate) fn begin_handler(&mut self, cpu: CpuId, what: Interrupt) {
        let (irq, cost) = match what {
            Interrupt::Tick => (Irq::Tick, self.costs.tick_of(|| self.cpus[cpu.index()].rq.is_current_fair())),
            Interrupt::RemoteTick(_) | Interrupt::PolicyWatch => (Irq::Softirq, self.costs.tick),
            Interrupt::TaskTimer(_)
            | Interrupt::SlackTimer
            | Interrupt::RqTimer(_)
            | Interrupt::ExtensionOver
            | Interrupt::GroupTimer(..)
            | Interrupt::PolicyTimer => (Irq::Timer, self.costs.timer_irq),
            Interrupt::Softirq
            | Interrupt::Rebuild
            | Interrupt::Change(_)
            | Interrupt::Ended(_)
            | Interrupt::Noticed => (Irq::Softirq, Duration::ZERO),
            Interrupt::Arrival(_) | Interrupt::PagesRead { .. } => (Irq::Device, self.costs.timer_irq),
            Interrupt::Resched | Interrupt::Works => (Irq::Ipi, self.costs.ipi_handler),
            // They draw their times: see `serve` and `stand`.
            Interrupt::Source(_) | Interrupt::StandsStill(_) => return,
        };
        if what == Interrupt::ExtensionOver {
            self.take_extension(cpu);
        }
        let place = &mut self.cpus[cpu.index()];
        match irq {
            Irq::Ipi => place.stretch.begin(place.busy_until),
            Irq::Tick | Irq::Timer | Irq::Device | Irq::Softirq | Irq::Hardware | Irq::Nmi | Irq::Stolen => {
                place.stretch = Stretch::Free;
            }
        }
        place.spend(CpuLayer::Irq, cost);
        if self.books.tracer.is_on() {
            match what {
                Interrupt::Works => self.emit(cpu, TraceEvent::IrqEnter { irq }),
                // An idle CPU sees its flag: no interrupt.
                Interrupt::Noticed if self.cpus[cpu.index()].current.is_none() => {}
                _ => self.enter_handler(self.time.now, cpu, irq),
            }
        }
    }

    /// Tells the entry of a handler at an instant. The record of the exit follows its jobs:
    /// [`ahead`](Self::ahead).
    #[inline(never)]
    pub(super) fn enter_handler(&mut self, at: Instant, cpu: CpuId, irq: Irq) {
        let place = &mut self.cpus[cpu.index()];
        (place.in_handler, place.noted) = (true, Some(irq));
        self.emit_at(at, cpu, TraceEvent::IrqEnter { irq });
    }

    /// The jobs of a handler are done: tells its end, and watches that of queued work. One that
    /// took no time is not in the trace. One that leaves something to be done at the end of the
    /// path ends behind that.
    #[inline(never)]
    fn end_handler(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        if matches!(place.ends, Ends::Handler(_)) {
            return;
        }
        let at = place.busy_until;
        match place.noted.take() {
            None => self.end_works(cpu),
            Some(irq) => {
                let enter = Record { at, cpu, event: TraceEvent::IrqEnter { irq } };
                if !self.books.tracer.take_back(&enter) {
                    self.emit_at(at, cpu, TraceEvent::IrqExit { irq });
                }
            }
        }
    }

    /// Spends the time of a handler that draws how long it takes.
    pub(crate) fn serve(&mut self, cpu: CpuId, irq: Irq, time: Duration) {
        let layer = match irq {
            Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device | Irq::Nmi => CpuLayer::Irq,
            Irq::Softirq => CpuLayer::Softirq,
            Irq::Hardware => return self.stand(cpu, Stands::Smi, time),
            Irq::Stolen => return self.stand(cpu, Stands::Stolen, time),
        };
        if core::mem::take(&mut self.cpus[cpu.index()].in_handler) {
            self.end_handler(cpu); // The device's, whose softirq this is.
        }
        let place = &mut self.cpus[cpu.index()];
        let begins = place.busy_until.max(self.time.now);
        place.spend(layer, time);
        if self.books.tracer.is_on() {
            self.enter_handler(begins, cpu, irq);
        }
    }

    /// Says what comes next on a CPU that is in the kernel. If nothing does, what ends its path or
    /// its computation is queued.
    ///
    /// The CPU is looked up once for all questions: what is not usual is done by a function that is
    /// the last thing here, so that nothing must be looked up again after it.
    #[inline(always)]
    pub(crate) fn ahead(&mut self, cpu: CpuId) -> Ahead {
        let next_tick = self.ticks.next;
        let place = &mut self.cpus[cpu.index()];
        if let Some(job) = place.jobs.pop_front() {
            return Ahead::Job(job);
        }
        if core::mem::take(&mut place.in_handler)
            && (self.books.tracer.is_on() || place.stretch_so_far() > self.books.stats.ipi_stretch)
        {
            self.end_handler(cpu);
            return Ahead::Again;
        }
        if self.time.stop.is_some() {
            return Ahead::Nothing;
        }
        let at = place.busy_until;
        if at > self.time.now {
            if !place.has_more_to_do() {
                let completion = place.goes_on_computing(at, next_tick);
                self.arm(cpu, completion);
                return Ahead::Nothing;
            }
            let is_before_tick = at <= next_tick || self.ticks.cpus.is_empty();
            if !is_before_tick || place.path_end_at.is_some() || !self.time.may_go_on_to(at) {
                self.queue_path_end(cpu);
                return Ahead::Nothing;
            }
            // The path goes on to its end at once, as its event would: see `next_event` and
            // `path_ends`.
            place.next_count();
            self.books.stats.events += 1;
            self.time.now = at;
            place.enter_kernel(at);
        }
        if place.ends != Ends::Nothing {
            return self.end_with_path(cpu).map_or(Ahead::Again, Ahead::Left);
        }
        if let Some(what) = place.next_interrupt() {
            place.begin_interrupt();
            return Ahead::Interrupt(what);
        }
        if !place.raised.is_empty() && !self.softirq_threads.do_all {
            return self.softirqs_ahead(cpu);
        }
        self.task_ahead(cpu)
    }

    /// The same where softirqs wait.
    #[inline(never)]
    fn softirqs_ahead(&mut self, cpu: CpuId) -> Ahead {
        match self.begin_raised(cpu) {
            Begun::Nothing => self.task_ahead(cpu),
            Begun::Softirq => {
                self.queue_path_end(cpu);
                Ahead::Nothing
            }
            Begun::Left(left) => Ahead::Left(left),
        }
    }

    /// The same, when no interrupt and no softirq waits. A task that spins for the holder of a lock
    /// and is not preempted sees the request: its computation ends.
    #[inline(always)]
    fn task_ahead(&mut self, cpu: CpuId) -> Ahead {
        let next_tick = self.ticks.next;
        let place = &mut self.cpus[cpu.index()];
        let request = place.rq.need_resched();
        if request != Resched::No {
            if self.scheduler.preempts(request, Self::mode_on(place, &self.bodies))
                && !(self.extensions.are_asked && self.goes_on_extended(cpu, request))
            {
                self.cpus[cpu.index()].begin_own_path();
                return Ahead::Switch;
            }
            if !self.spinners.is_empty() && self.spinner_sees_request(cpu).is_some() {
                return Ahead::Program;
            }
        }
        let place = &mut self.cpus[cpu.index()];
        if place.waits_for_program() {
            place.begin_own_path();
            return Ahead::Program;
        }
        let completion = place.goes_on_computing(self.time.now, next_tick);
        self.arm(cpu, completion);
        Ahead::Nothing
    }

    /// Ends a path that takes time: queues its end, if anything is to be done then.
    fn settle(&mut self, cpu: CpuId) {
        let next_tick = self.ticks.next;
        let place = &mut self.cpus[cpu.index()];
        if place.has_more_to_do() {
            self.queue_path_end(cpu);
        } else {
            let completion = place.goes_on_computing(place.busy_until, next_tick);
            self.arm(cpu, completion);
        }
    }

    pub(super) fn queue_path_end(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        let at = place.busy_until;
        // A path can become longer, and then asks for its end again when this event comes up.
        if place.path_end_at.is_none_or(|queued| queued > at) {
            place.path_end_at = Some(at);
            self.queue_event(at, Phase::PathEnd, cpu, Event::PathEnd { cpu });
        }
    }

    /// A path ends. Returns whether the CPU must be driven on.
    #[inline]
    pub(crate) fn path_ends(&mut self, cpu: CpuId) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if place.path_end_at != Some(self.time.now) {
            return false; // The softirq that was to end here was interrupted.
        }
        place.path_end_at = None;
        if !place.is_in_kernel(self.time.now) {
            place.enter_kernel(self.time.now);
            return true;
        }
        // An interrupt of this very moment came first and has made the path longer. It queued no
        // end of its own: this one was queued.
        if place.busy_until > self.time.now && place.jobs.is_empty() {
            self.settle(cpu);
        }
        false
    }

    /// Schedules the completion event of the current computation, unless the next tick comes first,
    /// which asks again. So a computation that is often interrupted leaves no trail of void events.
    pub(super) fn arm_completion(&mut self, cpu: CpuId) {
        let completion = self.cpus[cpu.index()].next_completion(self.ticks.next);
        self.arm(cpu, completion);
    }

    #[inline(always)]
    fn arm(&mut self, cpu: CpuId, completion: Completion) {
        match completion {
            Completion::Stays => {}
            Completion::At(end) => self.queue_completion(cpu, end),
            Completion::Other => self.arm_other_completion(cpu),
        }
    }

    /// The same for a task that spins and for a CPU that is slower: out of line, because to compute
    /// its end takes calls.
    #[inline(never)]
    fn arm_other_completion(&mut self, cpu: CpuId) {
        let next_tick = self.ticks.next;
        let place = &self.cpus[cpu.index()];
        let end = place.segment_end(place.segment_since.max(place.busy_until));
        if place.ticking && end > next_tick || place.completion_at.is_some_and(|at| at <= end) {
            return;
        }
        self.queue_completion(cpu, end);
    }

    /// Out of line: the computation of a CPU seldom ends before its next tick.
    #[inline(never)]
    fn queue_completion(&mut self, cpu: CpuId, end: Instant) {
        let place = &mut self.cpus[cpu.index()];
        place.completion = place.completion.wrapping_add(1);
        place.completion_at = Some(end);
        let event = Event::Completion { cpu, generation: place.completion };
        self.queue_event(end, Phase::Completion, cpu, event);
    }

    /// A computation ends, unless it was interrupted since. Returns whether the CPU must be driven.
    #[inline]
    pub(crate) fn completes(&mut self, cpu: CpuId, generation: u32) -> bool {
        let now = self.time.now;
        let place = &mut self.cpus[cpu.index()];
        if place.completion != generation || place.completion_at.is_none() {
            return false;
        }
        place.completion_at = None;
        if !place.jobs.is_empty() {
            return false; // The path that is under way sets it again.
        }
        let end = place.segment_end(place.segment_since.max(place.busy_until));
        if end > now {
            self.arm_completion(cpu);
            return false;
        }
        place.enter_kernel(now);
        place.segment = Segment::None;
        self.books.stats.completions += 1;
        true
    }

    /// Returns whether a kernel path is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.is_in_kernel(self.time.now) || !cpu.pending.is_empty())
    }

    /// Goes to the end of the run.
    pub(crate) const fn go_to_end(&mut self, end: Instant) {
        self.time.now = end;
    }
}
