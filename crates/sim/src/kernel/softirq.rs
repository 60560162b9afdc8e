//! Softirqs: work that an interrupt leaves for later, with interrupts enabled.
//!
//! Without threads a CPU does it at the end of the interrupt, before it goes on with a task or
//! switches. Other interrupts are served meanwhile. In the books of a path that is a stretch whose
//! end moves: an interrupt takes the rest of the work out of the path, is served, and the rest
//! follows it.
//!
//! ```text
//!   handler ---> raise ---> begin ---------------------------> end ---> switch or task
//!                             |  interrupted: the rest waits     ^
//!                             +---> handler, its jobs -----------+
//! ```
//!
//! A task in a section with softirqs disabled keeps them waiting to its end.
//!
//! Interrupts that raise more than their CPU gets done would keep every task from it. So a CPU does
//! the softirqs that wait, a *round* of two ticks at most, and those that were raised meanwhile in
//! further rounds only for two milliseconds, counted in ticks, for ten rounds, and while no task is
//! to preempt. Then it wakes `ksoftirqd`, a fair task, and goes on. The next interrupt, or the end
//! of a section with softirqs disabled, does them too. That thread does rounds by the same rule;
//! each time it stops, the scheduler can choose another task.
//!
//! ```text
//!   [1] none ---> round ---> [2] none waits: over
//!                   ^ |----> [3] more wait, and there is time: the next round --+
//!                   +-----------------------------------------------------------+
//!                     |----> [4] more wait: ksoftirqd is woken; the next interrupt can do them
//! ```
//!
//! From 4.9 to 6.4 the next interrupt does not: softirqs wait for the thread as long as it is to
//! run (`softirq.wait_for_thread`).
//!
//! Sources: Linux v7.3 `kernel/softirq.c`, `handle_softirqs` (`MAX_SOFTIRQ_TIME`,
//! `MAX_SOFTIRQ_RESTART`), `run_ksoftirqd`; v6.4 `ksoftirqd_running`; `net/core/dev.c`,
//! `net_rx_action` (`netdev_budget_usecs`, two ticks). differs: softirqs of all kinds wait in one
//! line, in the order in which they were raised, and a handler of any kind stops after two ticks; a
//! device interrupts also while its softirqs wait (under NAPI it does not). A thread of
//! `preempt = rt` has no rounds: it is preempted anyway.

use crate::kernel::cpu::{Ends, Round};
use crate::kernel::softirq_threads::SoftirqThreads;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Begun, Left, Turn};
use zerolag_core::Resched;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

impl Kernel {
    /// Softirqs are done by threads, or at the end of interrupts and by these threads only what is
    /// left. The threads wait at these semaphores, by CPU.
    pub(crate) fn use_softirq_threads(&mut self, for_all: bool, threads: &[ResourceId]) {
        self.softirq_threads = SoftirqThreads { do_all: for_all, semaphores: threads.into() };
    }

    /// Returns the entry and exit of a handler that does no more.
    pub(crate) const fn handler_cost(&self) -> Duration {
        self.costs.timer_irq
    }

    /// Raises a softirq on a CPU.
    pub(crate) fn raise(&mut self, cpu: CpuId, work: Duration) {
        self.cpus[cpu.index()].raised.push_back(work);
    }

    /// Returns what the thread of a CPU does next.
    pub(crate) fn thread_softirq(&mut self, cpu: CpuId, is_bounded: bool) -> Turn {
        let place = &self.cpus[cpu.index()];
        let round = place.thread_round.filter(|_| is_bounded);
        let (jiffy, asked) = (self.jiffy(), place.rq.need_resched() == Resched::Now);
        let round = match round {
            _ if place.raised.is_empty() => None,
            None => Some(self.first_round(cpu)),
            Some(round) => round.goes_on(place.raised.len(), jiffy, asked),
        };
        let place = &mut self.cpus[cpu.index()];
        place.thread_round = round.map(Round::less_one);
        match round {
            Some(_) => Turn::Work(place.raised.pop_front().expect("invariant: one waits")),
            None if place.raised.is_empty() => {
                place.is_thread_asked = false;
                Turn::Over
            }
            None => {
                place.leaves_softirqs = true;
                Turn::Pause
            }
        }
    }

    /// Returns the number of ticks since the start (`jiffies`).
    pub(crate) const fn jiffy(&self) -> u64 {
        self.time.now.as_nanos() / self.ticks.period.as_nanos()
    }

    /// Returns when the ticks since the start are so many.
    pub(crate) fn instant_of(&self, jiffy: u64) -> Instant {
        Instant::ZERO.saturating_add(self.ticks.period * jiffy)
    }

    /// \[1\] The softirqs that wait are the first round.
    fn first_round(&self, cpu: CpuId) -> Round {
        let until = self.jiffy() + MAX_TIME.as_nanos().div_ceil(self.ticks.period.as_nanos());
        Round::first(self.cpus[cpu.index()].raised.len(), self.jiffy(), until)
    }

    /// Leaves the expiry of a task's timer to a thread.
    pub(crate) fn defer_timer(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu.index()].late_timers.push_back(task);
    }

    /// Takes the timer that has waited longest on a CPU.
    pub(crate) fn take_late_timer(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].late_timers.pop_front()
    }

    /// Moves what waits for the threads of a CPU to those of another one; returns whether softirqs,
    /// and whether timers were among it. Without threads the CPU does it itself.
    pub(crate) fn hand_over_softirqs(&mut self, from: CpuId, to: CpuId) -> [bool; 2] {
        let is_left = core::mem::take(&mut self.cpus[from.index()].is_thread_asked);
        if !self.softirq_threads.do_all && !is_left {
            return [false, false];
        }
        let place = &mut self.cpus[from.index()];
        let (mut raised, mut timers) = (core::mem::take(&mut place.raised), core::mem::take(&mut place.late_timers));
        let has = [!raised.is_empty(), !timers.is_empty()];
        let place = &mut self.cpus[to.index()];
        place.is_thread_asked |= is_left && has[0];
        place.raised.append(&mut raised);
        place.late_timers.append(&mut timers);
        has
    }

    /// Returns whether the timers of a task expire in the interrupt under every preemption model.
    pub(crate) fn has_hard_timers(&self, task: TaskId) -> bool {
        // A task that sleeps and is still queued is of the fair class: none other is left queued.
        self.bodies[task.index()].parcel.as_ref().is_some_and(zerolag_core::Parcel::has_hard_timers)
    }

    /// The current task of a CPU enters a section with softirqs disabled; at its end they are done,
    /// also those that were left to the thread.
    pub(crate) fn disable_softirqs(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu.index()].leaves_softirqs = false;
        self.bodies[task.index()].bh_sections += 1;
    }

    /// The current task leaves it.
    pub(crate) fn enable_softirqs(&mut self, task: TaskId) {
        self.bodies[task.index()].bh_sections -= 1;
    }

    /// Begins the next softirq at the end of an interrupt, if this CPU does now one that waits.
    pub(super) fn begin_raised(&mut self, cpu: CpuId) -> Begun {
        let (jiffy, waits_for_thread) = (self.jiffy(), self.rules.softirqs_wait_for_thread);
        let place = &self.cpus[cpu.index()];
        if place.leaves_softirqs || place.current.is_some_and(|task| self.bodies[task.index()].bh_sections > 0) {
            return Begun::Nothing;
        }
        let asked = place.rq.need_resched() == Resched::Now;
        let round = match place.round {
            Some(round) => round.goes_on(place.raised.len(), jiffy, asked),
            None if waits_for_thread && place.is_thread_asked => return Begun::Nothing,
            None => Some(self.first_round(cpu)),
        };
        let place = &mut self.cpus[cpu.index()];
        place.round = round.map(Round::less_one);
        let Some(work) = round.and_then(|_| place.raised.pop_front()) else { return self.leave_to_thread(cpu) };
        place.begin_interrupt();
        place.spend(CpuLayer::Softirq, work);
        let is_noted = !work.is_zero();
        place.ends = Ends::Softirq { is_noted };
        if is_noted {
            self.emit(cpu, TraceEvent::IrqEnter { irq: Irq::Softirq });
        }
        Begun::Softirq
    }

    /// \[4\] The thread of a CPU does the softirqs that wait, unless the next interrupt does.
    #[cold]
    fn leave_to_thread(&mut self, cpu: CpuId) -> Begun {
        let place = &mut self.cpus[cpu.index()];
        place.leaves_softirqs = true;
        if core::mem::replace(&mut place.is_thread_asked, true) {
            return Begun::Nothing;
        }
        let wakes = Some(self.softirq_threads.semaphores[cpu.index()]);
        if self.books.tracer.is_on() {
            self.enter_handler(self.time.now, cpu, Irq::Softirq);
        }
        Begun::Left(Left { softirq: None, wakes })
    }

    /// A softirq is done, or a section with interrupts disabled, or the handler of a device: then
    /// returns what that leaves to be done.
    pub(super) fn end_with_path(&mut self, cpu: CpuId) -> Option<Left> {
        let place = &mut self.cpus[cpu.index()];
        if place.raised.is_empty() {
            place.round = None; // [2]
        }
        match core::mem::take(&mut place.ends) {
            Ends::Softirq { is_noted: true } => self.emit(cpu, TraceEvent::IrqExit { irq: Irq::Softirq }),
            Ends::IrqsOff(task) => self.irqs_on(cpu, task),
            Ends::Handler(left) => {
                let place = &mut self.cpus[cpu.index()];
                place.in_handler = place.noted.is_some();
                return Some(left);
            }
            Ends::Softirq { is_noted: false } | Ends::Nothing => {}
        }
        None
    }

    /// The handler of a device leaves something to be done. Returns that if it is to be done now,
    /// else it is done at the end of the path.
    ///
    /// A handler takes no run-queue lock before it wakes, and that is the last thing it does. If it
    /// woke when it begins, the lock would be held for all its time, and other CPUs would spin.
    pub(crate) fn after_handler(&mut self, cpu: CpuId, left: Left) -> Option<Left> {
        let place = &mut self.cpus[cpu.index()];
        if left == Left::default() || place.busy_until <= self.time.now {
            return Some(left);
        }
        debug_assert!(place.ends == Ends::Nothing, "what ended with the path has ended");
        place.ends = Ends::Handler(left);
        None
    }

    /// An interrupt reaches a CPU in a softirq: the rest of the work waits for the end of its
    /// handler.
    #[cold]
    pub(super) fn interrupt_softirq(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        let rest = place.busy_until.since(self.time.now);
        place.unspend(CpuLayer::Softirq, rest);
        place.raised.push_front(rest);
        place.round = place.round.map(Round::cut);
        place.clock(self.time.now);
        let left = self.end_with_path(cpu);
        debug_assert_eq!(left, None, "it is a softirq that ends");
    }
}

/// `MAX_SOFTIRQ_TIME`, rounded up to ticks.
const MAX_TIME: Duration = Duration::from_millis(2);
