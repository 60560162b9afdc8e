//! [`Stays`]: for how long CPUs stay with a task that they cannot leave.
//!
//! Without preemption of kernel mode a CPU leaves a task at the end of its system call, and under
//! any preemption model at the end of a section without preemption or with interrupts disabled, or
//! of an interrupt. A server's time goes on meanwhile: its own task overruns, and the tasks of
//! others get theirs later.
//!
//! Source: Linux v6.18 `include/linux/preempt.h`, `kernel/entry/common.c`, `irqentry_exit`.

use std::collections::BTreeMap;
use zerolag_model::settings::{Preempt, Settings};
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::Replay;

/// Follows which tasks are in the kernel.
#[derive(Debug)]
pub(crate) struct Stays {
    /// Whether kernel mode is left for a real-time task.
    is_preempted: bool,
    /// Since when a task is in a system call.
    inside: BTreeMap<TaskId, Instant>,
    /// Since when a CPU is in an interrupt.
    interrupted: BTreeMap<CpuId, Instant>,
    /// Until when the stay of a CPU is accounted for.
    counted: BTreeMap<CpuId, Instant>,
}

impl Stays {
    /// Begins before the first record.
    pub(crate) fn new(settings: &Settings) -> Self {
        let is_preempted = matches!(settings.preempt, Preempt::Full | Preempt::Lazy | Preempt::Rt);
        Self { is_preempted, inside: BTreeMap::new(), interrupted: BTreeMap::new(), counted: BTreeMap::new() }
    }

    /// Returns from when on the CPU of a record has stayed with its task, if the record ends that:
    /// a switch, the end of a system call, of a section or of an interrupt. Called before the
    /// replay follows it.
    pub(crate) fn ended(&mut self, before: &Replay, record: &Record) -> Option<Instant> {
        let ends = match record.event {
            TraceEvent::Switch { .. } | TraceEvent::Syscall { enters: false, .. } => true,
            TraceEvent::NoPreempt { disables, .. } => disables.is_none(),
            TraceEvent::IrqExit { .. } => before.cpu(record.cpu).irq_depth <= 1,
            // No other event lets a CPU go.
            _ => false,
        };
        ends.then(|| self.at(before, record.cpu, record.at)).flatten()
    }

    /// Returns from when on a CPU has stayed with its task, or in an interrupt, until now.
    pub(crate) fn at(&mut self, before: &Replay, cpu: CpuId, now: Instant) -> Option<Instant> {
        let place = before.cpu(cpu);
        let call = place.current.task().and_then(|task| self.inside.get(&task)).copied();
        let call = call.filter(|_| !self.is_preempted);
        let interrupt = self.interrupted.get(&cpu).copied();
        let since = [call, place.no_preempt_since, interrupt].into_iter().flatten().min()?;
        let counted = self.counted.insert(cpu, now).unwrap_or(Instant::ZERO);
        Some(since.max(place.since).max(counted))
    }

    /// Follows a record, before or behind the replay.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record.event {
            TraceEvent::IrqEnter { .. } => {
                self.interrupted.entry(record.cpu).or_insert(record.at);
            }
            // Of nested ones the inner end ends it early: the outer goes on as a new one.
            TraceEvent::IrqExit { .. } => {
                self.interrupted.remove(&record.cpu);
            }
            TraceEvent::Syscall { task, enters: true } => {
                self.inside.insert(task, record.at);
            }
            TraceEvent::Syscall { task, enters: false } | TraceEvent::TaskExit { task } => {
                self.inside.remove(&task);
            }
            // No other event enters the kernel, or leaves it.
            _ => {}
        }
    }
}

/// The longest stay of each CPU.
#[derive(Debug)]
pub(crate) struct LongestStays {
    stays: Stays,
    longest: BTreeMap<CpuId, Duration>,
}

impl LongestStays {
    /// Begins before the first record.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { stays: Stays::new(settings), longest: BTreeMap::new() }
    }

    /// Follows a record, before the replay does.
    pub(crate) fn apply(&mut self, before: &Replay, record: &Record) {
        if let Some(since) = self.stays.ended(before, record) {
            let longest = self.longest.entry(record.cpu).or_default();
            *longest = (*longest).max(record.at.since(since));
        }
        self.stays.apply(record);
    }

    /// Returns the longest so far.
    pub(crate) fn of(&self, cpu: CpuId) -> Duration {
        self.longest.get(&cpu).copied().unwrap_or_default()
    }
}
