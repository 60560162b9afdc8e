//! Writes records as the text that tracefs prints.
//!
//! Task `n` gets process id `n + 1000`, so that 0 stays the idle task. Events for which the kernel
//! has no trace point (marks, totals, run-queue locks, overload marks, affinities) are dropped: the
//! text is a view, our own format is the archive. A parent with process id 0 means "none".
//!
//! The lines are code and not derived from the table of events: each trace point has its own names
//! of fields, and most need state that the event does not have (a name, the priority of the
//! previous task, whether a wakeup is the first).
//!
//! Source: Linux v6.12 `kernel/trace/trace_output.c, trace_print_context`;
//! `include/trace/events/{sched,irq,ipi}.h`.

use crate::container::Trace;
use crate::table::IdTable;
use core::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use zerolag_model::attr::Prio;
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::{CpuId, Instant, PrevState, Record, TaskId, TraceEvent, text};

/// The resolution of printed times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TimeDigits {
    /// Six digits, as tracefs does; rounded to the nearest microsecond, as there.
    #[default]
    Micros,
    /// Nine digits, as `perf script --ns` and `trace-cmd report -t` do: exact.
    Nanos,
}

/// Writes a trace in the format of tracefs.
///
/// # Errors
/// The error of the output.
pub fn write(out: &mut impl Write, trace: &Trace, digits: TimeDigits) -> io::Result<()> {
    write_with(out, trace, digits, |_| Vec::new())
}

/// As [`write()`], with lines that tasks write through `trace_marker`. `marks` returns the lines
/// that belong to a record, and for `None` those at the end; each line is of a task, or of no
/// particular task.
///
/// # Errors
/// The error of the output.
pub fn write_with(
    out: &mut impl Write,
    trace: &Trace,
    digits: TimeDigits,
    mut marks: impl FnMut(Option<&Record>) -> Vec<(Option<TaskId>, String)>,
) -> io::Result<()> {
    let mut body = Vec::new();
    let mut printer =
        Printer { names: IdTable::default(), tasks: IdTable::default(), cpus: IdTable::default(), digits };
    let mut lines = 0_u64;
    for record in &trace.records {
        if let TraceEvent::TaskNew { task, name, .. } = &record.event {
            // A line break in a name would end the line.
            *printer.names.entry(*task) = Some(text::name(name).into());
        }
        lines += u64::from(printer.print(&mut body, record)?);
        for (task, text) in marks(Some(record)) {
            printer.mark(&mut body, record.at, record.cpu, task, &text)?;
            lines += 1;
        }
    }
    for (task, text) in marks(None) {
        printer.mark(&mut body, trace.meta.end, CpuId(0), task, &text)?;
        lines += 1;
    }
    let written = lines.saturating_add(trace.meta.lost_events);
    write_head(out, lines, written, trace.meta.machine.nr_cpus())?;
    out.write_all(&body)
}

fn write_head(out: &mut impl Write, kept: u64, written: u64, cpus: usize) -> io::Result<()> {
    write!(
        out,
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}\n#\n\
         #                                _-----=> irqs-off/BH-disabled\n\
         #                               / _----=> need-resched\n\
         #                              | / _---=> hardirq/softirq\n\
         #                              || / _--=> preempt-depth\n\
         #                              ||| / _-=> migrate-disable\n\
         #                              |||| /     delay\n\
         #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
         #              | |         |   |||||     |         |\n"
    )
}

struct Printer {
    names: IdTable<TaskId, Option<Arc<str>>>,
    tasks: IdTable<TaskId, TaskState>,
    cpus: IdTable<CpuId, CpuState>,
    digits: TimeDigits,
}

#[derive(Default)]
struct TaskState {
    prio: Option<Prio>,
    /// Its first wakeup is under way: the kernel has one event for both halves.
    new: bool,
}

#[derive(Default)]
struct CpuState {
    current: Option<TaskId>,
    in_irq: u32,
}

impl Printer {
    /// Prints a record; returns whether it has a line.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    fn print(&mut self, out: &mut Vec<u8>, record: &Record) -> io::Result<bool> {
        let line = match &record.event {
            TraceEvent::TaskNew { task, parent, attr, .. } => {
                self.tasks.entry(*task).prio = Some(attr.prio());
                let (parent, child) = (self.named(*parent, record.cpu), self.named(Some(*task), record.cpu));
                let line = format!(
                    "sched_process_fork: comm={} pid={} child_comm={} child_pid={}",
                    parent.0, parent.1, child.0, child.1
                );
                line
            }
            TraceEvent::TaskExit { task } => {
                let (name, pid) = self.named(Some(*task), record.cpu);
                format!("sched_process_exit: comm={name} pid={pid} prio={}", self.prio_of(Some(*task)))
            }
            TraceEvent::Waking { task, prio, new: true, .. } => {
                let state = self.tasks.entry(*task);
                state.prio = Some(*prio);
                state.new = true;
                return Ok(false);
            }
            TraceEvent::Waking { task, prio, target, new: false } => {
                self.tasks.entry(*task).prio = Some(*prio);
                let (name, pid) = self.named(Some(*task), record.cpu);
                format!("sched_waking: comm={name} pid={pid} prio={prio} target_cpu={:03}", target.0)
            }
            TraceEvent::Wakeup { task, prio } => {
                let state = self.tasks.entry(*task);
                state.prio = Some(*prio);
                let event = if core::mem::take(&mut state.new) { "sched_wakeup_new" } else { "sched_wakeup" };
                let (name, pid) = self.named(Some(*task), record.cpu);
                format!("{event}: comm={name} pid={pid} prio={prio} target_cpu={:03}", record.cpu.0)
            }
            TraceEvent::Switch { prev, prev_state, next, next_prio } => {
                let (prev_name, prev_pid) = self.named(*prev, record.cpu);
                let (next_name, next_pid) = self.named(*next, record.cpu);
                let next_prio = if next.is_some() { *next_prio } else { IDLE_AS_PRINTED };
                let line = format!(
                    "sched_switch: prev_comm={prev_name} prev_pid={prev_pid} prev_prio={} prev_state={} ==> \
                     next_comm={next_name} next_pid={next_pid} next_prio={next_prio}",
                    self.prio_of(*prev),
                    state_letter(*prev_state),
                );
                self.put_line(out, record, &line, "d..2.")?;
                if let Some(next) = next {
                    self.tasks.entry(*next).prio = Some(next_prio);
                }
                self.cpus.entry(record.cpu).current = *next;
                return Ok(true);
            }
            TraceEvent::Migrate { task, prio, from, to, .. } => {
                let (name, pid) = self.named(Some(*task), record.cpu);
                format!("sched_migrate_task: comm={name} pid={pid} prio={prio} orig_cpu={from} dest_cpu={to}")
            }
            TraceEvent::AttrChange { task, attr } => {
                self.tasks.entry(*task).prio = Some(attr.prio());
                return Ok(false);
            }
            TraceEvent::PrioInherit { task, from, to } => {
                self.tasks.entry(*task).prio = Some(*to);
                let (name, pid) = self.named(Some(*task), record.cpu);
                format!("sched_pi_setprio: comm={name} pid={pid} oldprio={from} newprio={to}")
            }
            TraceEvent::IpiSend { to, reason } => {
                let callback = match reason {
                    IpiReason::Resched => "0x0",
                    IpiReason::RtPush => "rto_push_irq_work_func+0x0/0x0",
                    IpiReason::IdleBalance => "nohz_csd_func+0x0/0x0",
                    IpiReason::ActiveBalance => "cpu_stopper_thread+0x0/0x0",
                };
                format!("ipi_send_cpu: cpu={to} callsite=resched_curr+0x0/0x0 callback={callback}")
            }
            TraceEvent::IrqEnter { irq } => {
                self.cpus.entry(record.cpu).in_irq += 1;
                match irq_line(*irq, "entry") {
                    Some(line) => line,
                    None => return Ok(false),
                }
            }
            TraceEvent::IrqExit { irq } => {
                let cpu = self.cpus.entry(record.cpu);
                cpu.in_irq = cpu.in_irq.saturating_sub(1);
                match irq_line(*irq, "exit") {
                    Some(line) => line,
                    None => return Ok(false),
                }
            }
            // The kernel has no trace point for these.
            _ => return Ok(false),
        };
        let flags = match &record.event {
            TraceEvent::TaskNew { .. } | TraceEvent::TaskExit { .. } => ".....",
            _ if self.cpus.entry(record.cpu).in_irq > 0 => "d.h2.",
            _ => "d..2.",
        };
        self.put_line(out, record, &line, flags)?;
        Ok(true)
    }

    /// Prints a line that a task wrote into `trace_marker`.
    fn mark(&self, out: &mut Vec<u8>, at: Instant, cpu: CpuId, task: Option<TaskId>, text: &str) -> io::Result<()> {
        let (name, pid) = match task {
            Some(_) => self.named(task, cpu),
            None => ("<idle>".into(), 0),
        };
        let time = Time { at, digits: self.digits };
        writeln!(out, "{name:>16}-{pid:<7} [{:03}] ..... {time}: tracing_mark_write: {text}", cpu.0)
    }

    fn put_line(&self, out: &mut Vec<u8>, record: &Record, line: &str, flags: &str) -> io::Result<()> {
        let current = self.cpus.get(record.cpu).and_then(|cpu| cpu.current);
        let (name, pid) = match current {
            Some(_) => self.named(current, record.cpu),
            None => ("<idle>".into(), 0),
        };
        let time = Time { at: record.at, digits: self.digits };
        writeln!(out, "{name:>16}-{pid:<7} [{:03}] {flags} {time}: {line}", record.cpu.0)
    }

    fn named(&self, task: Option<TaskId>, cpu: CpuId) -> (Arc<str>, u64) {
        let Some(task) = task else { return (format!("swapper/{cpu}").into(), 0) };
        let name = self.names.get(task).and_then(|name| name.as_ref().map(Arc::clone));
        (name.unwrap_or_else(|| "<...>".into()), u64::from(task.0) + PID_OFFSET)
    }

    fn prio_of(&self, task: Option<TaskId>) -> Prio {
        let known = task.and_then(|task| self.tasks.get(task).and_then(|state| state.prio));
        known.unwrap_or(IDLE_AS_PRINTED)
    }
}

/// `%5lu.%06lu`, or nine digits.
struct Time {
    at: Instant,
    digits: TimeDigits,
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.at.as_nanos();
        match self.digits {
            TimeDigits::Micros => {
                let us = ns / 1_000 + u64::from(ns % 1_000 >= 500);
                write!(f, "{:5}.{:06}", us / 1_000_000, us % 1_000_000)
            }
            TimeDigits::Nanos => write!(f, "{:5}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        }
    }
}

const fn state_letter(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable => "R+",
        PrevState::Blocked => "S",
        PrevState::Dead => "X",
        PrevState::Idle => "R",
    }
}

fn irq_line(irq: Irq, edge: &str) -> Option<String> {
    Some(match irq {
        Irq::Tick | Irq::Timer => format!("local_timer_{edge}: vector=236"),
        Irq::Ipi => format!("reschedule_{edge}: vector=253"),
        Irq::Device if edge == "entry" => "irq_handler_entry: irq=24 name=device".to_owned(),
        Irq::Device => "irq_handler_exit: irq=24 ret=handled".to_owned(),
        Irq::Softirq => format!("softirq_{edge}: vec=1 [action=TIMER]"),
        // No trace point sees time that the hardware takes.
        Irq::Hardware | Irq::Nmi | Irq::Stolen => return None,
    })
}

/// Process ids start here: 0 belongs to the idle task.
const PID_OFFSET: u64 = 1000;
/// The idle task has priority 120 in the kernel's trace points.
const IDLE_AS_PRINTED: Prio = Prio::from_nice(zerolag_model::Nice::ZERO);
