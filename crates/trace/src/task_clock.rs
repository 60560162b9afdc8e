//! [`TaskClock`]: the time of a CPU that its tasks are charged for.
//!
//! Budgets, quotas and `cpu.stat` count what a task runs on the task clock of its run queue, and a
//! switch shows only wall time. The difference is the time of interrupt handlers and softirqs,
//! which a trace contains. So readers measure between two [`Moment`]s: instants of a CPU with the
//! time that interrupts took up to them. With `irq_time_accounting = off` a task is charged for the
//! interrupts that it meets, and there is no difference. A CPU that stands still is no interrupt:
//! the time that firmware takes is always the task's, and that of a hypervisor is with `steal_clock
//! = off`.
//!
//! Source: Linux v7.3 `kernel/sched/core.c`, `update_rq_clock_task`; `kernel/sched/fair.c`,
//! `update_se` (`cgroup_account_cputime` of what the task clock has advanced).

use crate::table::IdTable;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration, Instant, Record, Settings, TraceEvent};

/// An instant of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// The instant.
    pub at: Instant,
    /// The time in interrupts until then.
    interrupted: Duration,
}

impl Moment {
    /// Returns the start of a trace.
    #[must_use]
    pub const fn first(at: Instant) -> Self {
        Self { at, interrupted: Duration::ZERO }
    }

    /// Returns the time of tasks since an earlier moment of the same CPU.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let interrupted = self.interrupted.saturating_sub(earlier.interrupted);
        self.at.since(earlier.at).saturating_sub(interrupted)
    }
}

/// What keeps a CPU from its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Off {
    /// A handler, or a standstill.
    Irq(Irq),
    /// It spins for a run-queue lock.
    Spin,
}

#[derive(Clone, Debug, Default)]
struct InterruptedCpu {
    /// What the CPU is in, the outermost first. Their ends need not be in this order: of two that
    /// meet, the next can begin before the end of the first.
    inside: Vec<Off>,
    /// Since when the first of them is the outermost.
    since: Instant,
    interrupted: Duration,
}

/// Follows a trace. Complexity: O(1) per record.
#[derive(Clone, Debug, Default)]
pub struct TaskClock {
    /// Interrupts are the time of the task that they interrupt.
    pub charges_interrupts: bool,
    /// So is the time that a hypervisor takes.
    pub charges_stolen: bool,
    /// A CPU that spins for a run-queue lock is taken to be in an interrupt. In a handler it is. In
    /// a system call and in a switch the time is the task's, but no timer ends its budget then.
    pub leaves_out_spins: bool,
    cpus: IdTable<CpuId, InterruptedCpu>,
}

/// The end of what kept a CPU from its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Since when it did.
    pub since: Instant,
    /// Whether the time is the task's.
    pub is_charged: bool,
}

impl TaskClock {
    /// Returns the clock of a kernel with these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            charges_interrupts: !settings.irq_time_accounting,
            charges_stolen: !settings.steal_clock,
            ..Self::default()
        }
    }

    /// Returns whether the time of an interrupt, or of a standstill, is the task's.
    const fn charges(&self, off: Off) -> bool {
        match off {
            Off::Irq(Irq::Hardware) => true,
            Off::Irq(Irq::Stolen) => self.charges_stolen,
            Off::Irq(Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device | Irq::Softirq | Irq::Nmi) => {
                self.charges_interrupts
            }
            Off::Spin => false,
        }
    }

    /// Follows a record, after it was judged. Returns what the record ends, if that was the
    /// outermost.
    pub fn apply(&mut self, record: &Record) -> Option<Ended> {
        let (off, begins) = match record.event {
            TraceEvent::IrqEnter { irq } => (Off::Irq(irq), true),
            TraceEvent::IrqExit { irq } => (Off::Irq(irq), false),
            TraceEvent::LockContended { .. } if self.leaves_out_spins => (Off::Spin, true),
            TraceEvent::LockAcquired { .. } if self.leaves_out_spins => (Off::Spin, false),
            // No other event begins or ends a time that is no task's.
            _ => return None,
        };
        let cpu = self.cpus.entry(record.cpu);
        if begins {
            if cpu.inside.is_empty() {
                cpu.since = record.at;
            }
            if cpu.inside.len() < INSIDE_MAX {
                cpu.inside.push(off);
            }
            return None;
        }
        let place = cpu.inside.iter().rposition(|inside| *inside == off)?;
        cpu.inside.remove(place);
        if place > 0 {
            return None;
        }
        let since = core::mem::replace(&mut cpu.since, record.at);
        let is_charged = self.charges(off);
        if !is_charged {
            let cpu = self.cpus.entry(record.cpu);
            cpu.interrupted = cpu.interrupted.saturating_add(record.at.since(since));
        }
        Some(Ended { since, is_charged })
    }

    /// Returns this instant of a CPU. It must not be before the last record.
    #[must_use]
    pub fn now(&self, cpu: CpuId, at: Instant) -> Moment {
        let open = self.open(cpu).filter(|open| !open.is_charged).map_or(Duration::ZERO, |open| at.since(open.since));
        let interrupted = self.cpus.get(cpu).map_or(Duration::ZERO, |cpu| cpu.interrupted);
        Moment { at, interrupted: interrupted.saturating_add(open) }
    }

    /// Returns what keeps a CPU from its task now, if something does.
    #[must_use]
    pub fn open(&self, cpu: CpuId) -> Option<Ended> {
        let cpu = self.cpus.get(cpu)?;
        let outermost = cpu.inside.first()?;
        Some(Ended { since: cpu.since, is_charged: self.charges(*outermost) })
    }
}

/// Interrupts nest two or three deep. This bounds the list for a trace that never leaves them.
const INSIDE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A softirq begins where a standstill of a nanosecond ends, before its record.
    #[test]
    fn the_end_of_a_handler_can_follow_the_start_of_the_next_one() {
        let cpu = CpuId(0);
        let at = Instant::from_nanos;
        let (enter, exit) = (|irq| TraceEvent::IrqEnter { irq }, |irq| TraceEvent::IrqExit { irq });
        let mut clock = TaskClock::default();
        for (ns, event) in [
            (100, enter(Irq::Hardware)),
            (101, enter(Irq::Softirq)),
            (101, exit(Irq::Hardware)),
            (901, exit(Irq::Softirq)),
            (901, exit(Irq::Nmi)),
        ] {
            clock.apply(&Record { at: at(ns), cpu, event });
        }
        assert_eq!(clock.now(cpu, at(1000)).since(Moment::first(at(0))), Duration::from_nanos(200));
        assert_eq!(clock.open(cpu), None);
    }

    #[test]
    fn a_spin_can_go_on_behind_its_handler() {
        let cpu = CpuId(0);
        let at = Instant::from_nanos;
        let spent = |leaves_out_spins| {
            let mut clock = TaskClock { leaves_out_spins, ..TaskClock::default() };
            for (ns, event) in [
                (100, TraceEvent::IrqEnter { irq: Irq::Tick }),
                (100, TraceEvent::LockContended { rq: cpu }),
                (200, TraceEvent::IrqExit { irq: Irq::Tick }),
                (700, TraceEvent::LockAcquired { rq: cpu, waited: Duration::from_nanos(600) }),
            ] {
                clock.apply(&Record { at: at(ns), cpu, event });
            }
            clock.now(cpu, at(1000)).since(Moment::first(at(0))).as_nanos()
        };
        assert_eq!((spent(true), spent(false)), (400, 900));
    }
}
