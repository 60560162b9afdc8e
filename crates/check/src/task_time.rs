//! [`TaskTime`]: the time of a CPU that its tasks get ([`TaskClock`]), and how late its timers can
//! be.
//!
//! A task that disables interrupts is charged, but the timer that ends its budget waits for the end
//! of the section. So does a timer that is due in a handler, or in several without a gap, for which
//! the task is charged. [`TaskTime::deaf`] and [`TaskTime::deaf_on`] tell by how much.

use crate::monitor::Context;
use zerolag_model::event::Disables;
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, TraceEvent};
pub(crate) use zerolag_trace::Moment;
use zerolag_trace::{IdTable, TaskClock};

#[derive(Clone, Copy, Default)]
struct InterruptedCpu {
    /// The time of the present stretch of handlers without a gap that is the task's.
    stretch: Duration,
    /// When the last handler ended.
    left: Instant,
    /// The last switch.
    switched: Moment,
    /// The last request to reschedule.
    asked: Moment,
    /// Since when its task has disabled interrupts.
    deaf: Option<(Instant, TaskId)>,
    longest: Duration,
}

/// Follows a trace. Complexity: O(1) per record.
#[derive(Default)]
pub(crate) struct TaskTime {
    clock: TaskClock,
    cpus: IdTable<CpuId, InterruptedCpu>,
    /// Of each task its longest section with interrupts disabled.
    longest: IdTable<TaskId, Duration>,
    /// The longest stretch of handlers and standstills of any CPU whose time is the task's.
    handlers: Duration,
}

impl TaskTime {
    /// Returns the time by the rule of a trace.
    pub(crate) fn new(context: &Context<'_>) -> Self {
        let mut clock = TaskClock::new(context.settings());
        clock.leaves_out_spins = true;
        Self { clock, ..Self::default() }
    }

    /// Follows a record, after it was judged.
    pub(crate) fn apply(&mut self, record: &Record) {
        let at = record.at;
        if self.clock.open(record.cpu).is_none() {
            let cpu = self.cpus.entry(record.cpu);
            if cpu.left != at {
                cpu.stretch = Duration::ZERO;
            }
        }
        if let Some(ended) = self.clock.apply(record) {
            let cpu = self.cpus.entry(record.cpu);
            cpu.left = at;
            if ended.is_charged {
                cpu.stretch += at.since(ended.since);
                self.handlers = self.handlers.max(cpu.stretch);
            }
        }
        match record.event {
            TraceEvent::Switch { .. } => {
                let now = self.now(record.cpu, at);
                self.cpus.entry(record.cpu).switched = now;
                self.hear(record.cpu, at);
            }
            TraceEvent::NeedResched { .. } => {
                let now = self.now(record.cpu, at);
                self.cpus.entry(record.cpu).asked = now;
            }
            TraceEvent::NoPreempt { task, disables } => {
                self.hear(record.cpu, at);
                if disables == Some(Disables::Interrupts) {
                    self.cpus.entry(record.cpu).deaf = Some((at, task));
                }
            }
            // No other event begins or ends a time that is no task's.
            _ => {}
        }
    }

    /// A section with interrupts disabled is over, if there was one.
    fn hear(&mut self, cpu: CpuId, at: Instant) {
        let cpu = self.cpus.entry(cpu);
        if let Some((since, task)) = cpu.deaf.take() {
            let lasted = at.since(since);
            cpu.longest = cpu.longest.max(lasted);
            let longest = self.longest.entry(task);
            *longest = (*longest).max(lasted);
        }
    }

    /// Returns this instant of a CPU. It must not be before the last record.
    pub(crate) fn now(&self, cpu: CpuId, at: Instant) -> Moment {
        self.clock.now(cpu, at)
    }

    /// Returns the moment of a CPU's last switch.
    pub(crate) fn switched(&self, cpu: CpuId) -> Moment {
        self.cpus.get(cpu).map_or_else(Moment::default, |cpu| cpu.switched)
    }

    /// Returns the moment at which a CPU was last asked to reschedule.
    pub(crate) fn asked(&self, cpu: CpuId) -> Moment {
        self.cpus.get(cpu).map_or_else(Moment::default, |cpu| cpu.asked)
    }

    /// Returns the longest section with interrupts disabled of a task that runs on this CPU, up to
    /// now, or the longest stretch of handlers that are its time: what it can run beyond its
    /// budget.
    pub(crate) fn deaf(&self, task: TaskId, on: CpuId, at: Instant) -> Duration {
        let open = self.cpus.get(on).and_then(|cpu| cpu.deaf).filter(|(_, of)| *of == task);
        let open = open.map_or(Duration::ZERO, |(since, _)| at.since(since));
        self.longest.get(task).copied().unwrap_or_default().max(open).max(self.in_handlers(on, at))
    }

    /// As [`deaf`](Self::deaf), of any task of a CPU.
    pub(crate) fn deaf_on(&self, cpu: CpuId, at: Instant) -> Duration {
        let handlers = self.in_handlers(cpu, at);
        let Some(cpu) = self.cpus.get(cpu) else { return handlers };
        cpu.longest.max(cpu.deaf.map_or(Duration::ZERO, |(since, _)| at.since(since))).max(handlers)
    }

    /// Returns the longest stretch of handlers that are a task's time, up to now. It is that of all
    /// CPUs: a task takes its overrun along.
    fn in_handlers(&self, on: CpuId, at: Instant) -> Duration {
        let open = self.clock.open(on).filter(|open| open.is_charged).map(|open| at.since(open.since));
        let stretch = self.cpus.get(on).map_or(Duration::ZERO, |cpu| cpu.stretch);
        self.handlers.max(open.map_or(Duration::ZERO, |open| stretch + open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::event::Irq;

    const CPU: CpuId = CpuId(0);
    const TASK: TaskId = TaskId(3);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn follow(events: &[(u64, TraceEvent)]) -> TaskTime {
        follow_by(TaskTime::default(), events)
    }

    fn follow_by(mut time: TaskTime, events: &[(u64, TraceEvent)]) -> TaskTime {
        for (ms, event) in events {
            time.apply(&Record { at: at(*ms), cpu: CPU, event: event.clone() });
        }
        time
    }

    fn charging(charges_interrupts: bool, charges_stolen: bool) -> TaskTime {
        let mut time = TaskTime::default();
        (time.clock.charges_interrupts, time.clock.charges_stolen) = (charges_interrupts, charges_stolen);
        time
    }

    #[test]
    fn interrupts_are_no_time_of_a_task_also_nested_and_open() {
        let enter = || TraceEvent::IrqEnter { irq: Irq::Device };
        let exit = || TraceEvent::IrqExit { irq: Irq::Device };
        let ask = TraceEvent::NeedResched { by: CPU };
        let time = follow(&[(2, enter()), (3, enter()), (4, exit()), (5, exit()), (6, ask), (10, enter())]);
        let start = Moment::default();
        assert_eq!(time.now(CPU, at(12)).since(start), Duration::from_millis(7));
        assert_eq!(time.asked(CPU).since(start), Duration::from_millis(3));
        assert_eq!(time.now(CPU, at(10)).since(time.asked(CPU)), Duration::from_millis(4));
    }

    #[test]
    fn interrupts_are_a_tasks_time_without_accounting() {
        let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device });
        let events = [(2, enter.clone()), (5, exit), (10, enter)];
        let time = follow_by(charging(true, false), &events);
        assert_eq!(time.now(CPU, at(12)).since(Moment::default()), Duration::from_millis(12));
        assert_eq!(follow(&events).now(CPU, at(12)).since(Moment::default()), Duration::from_millis(7));
    }

    #[test]
    fn a_standstill_is_a_tasks_time_unless_the_kernel_knows_it() {
        let stands = |irq| {
            let events = [(2, TraceEvent::IrqEnter { irq }), (5, TraceEvent::IrqExit { irq })];
            [true, false].map(|charges_stolen| {
                let time = follow_by(charging(false, charges_stolen), &events);
                (time.now(CPU, at(12)).since(Moment::default()).as_nanos() / 1_000_000, time.deaf(TASK, CPU, at(12)))
            })
        };
        let ms = Duration::from_millis;
        assert_eq!(stands(Irq::Stolen), [(12, ms(3)), (9, ms(0))]);
        assert_eq!(stands(Irq::Hardware), [(12, ms(3)); 2]);
    }

    /// Handlers from 2 to 5 and from 5 to 9 keep a timer waiting as one.
    #[test]
    fn a_timer_is_late_by_the_longest_handlers_that_are_the_tasks_time() {
        let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device });
        let events = [(2, enter.clone()), (5, exit.clone()), (5, enter.clone()), (9, exit), (20, enter)];
        let time = follow_by(charging(true, false), &events);
        assert_eq!(time.deaf(TASK, CPU, at(21)), Duration::from_millis(7));
        assert_eq!(time.deaf_on(CPU, at(28)), Duration::from_millis(8), "the open one");
        assert_eq!(time.deaf_on(CpuId(1), at(28)), Duration::from_millis(7), "a task takes its overrun along");
        assert_eq!(follow(&events).deaf(TASK, CPU, at(28)), Duration::ZERO, "no task is charged for it");
    }

    #[test]
    fn a_timer_is_late_by_the_longest_section_of_the_task_or_of_the_cpu() {
        let off = |what| TraceEvent::NoPreempt { task: TASK, disables: what };
        let (irqs, preemption) = (Some(Disables::Interrupts), Some(Disables::Preemption));
        let time =
            follow(&[(0, off(preemption)), (5, off(irqs)), (7, off(preemption)), (20, off(None)), (30, off(irqs))]);
        assert_eq!(time.deaf(TASK, CPU, at(31)), Duration::from_millis(2));
        assert_eq!(time.deaf(TASK, CPU, at(34)), Duration::from_millis(4), "the open one");
        assert_eq!(time.deaf(TaskId(0), CPU, at(34)), Duration::ZERO);
        assert_eq!(time.deaf_on(CPU, at(34)), Duration::from_millis(4));
    }
}
