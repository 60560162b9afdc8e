//! Text of ftrace and its tools.
//!
//! Three programs print the same trace points in four ways; [`read`] accepts them all, [`write()`]
//! writes the first:
//!
//! ```text
//! tracefs `trace`          rt-app-193   [000] dNs3.    23.940016: sched_waking: comm=rcu_preempt pid=18 prio=120 target_cpu=000
//! perf script --ns         rt-app   193 [000]    23.940016123: sched:sched_waking: comm=rcu_preempt pid=18 prio=120 target_cpu=000
//! trace-cmd report         rt-app-193   [000]    23.940016: sched_switch:  rt-app:193 [120] S ==> rcu_preempt:18 [120]
//! trace-cmd report -R      rt-app-193   [000]    23.940016: sched_switch:  prev_comm=rt-app prev_pid=193 prev_prio=120 prev_state=0x1 next_comm=...
//! ```
//!
//! The stages, one file each: a line into CPU, time, event and arguments; arguments into an event
//! of the kernel; events into [`Record`](zerolag_model::Record)s (with the identity of tasks, and
//! defaults for missing data). A command's name can contain spaces, dashes, colons and equal signs,
//! so names are cut at the *last* position where the rest still fits.
//!
//! The gaps of a recorded text, and how they are filled:
//!
//! * **Ids.** A process id can be reused; every fork creates a new task. Tasks are numbered in
//!   order of appearance.
//! * **Names.** A task has its last name: a shell forks, then the program sets its own name.
//! * **Attributes.** Only the effective priority is recorded: FIFO stands for both real-time
//!   policies, a deadline task has parameters of zero. A priority that changes without a
//!   `sched_pi_setprio` is treated as a `sched_setattr`.
//! * **Affinities** are not recorded; checks see that from [`Meta::source`](crate::Meta).
//! * **Target of a waking:** the kernel prints the CPU where the task last was. The migration that
//!   follows within the wakeup gets [`MigrateReason::Wakeup`](zerolag_model::MigrateReason).
//! * **Interrupts** of a kind of which only the start was recorded are dropped.
//! * **Lost events** are counted in the metadata.
//!
//! Sources: Linux v6.12 `kernel/trace/trace_output.c` (lines, flags),
//! `include/trace/events/sched.h` (fields), libtraceevent `plugin_sched_switch.c` (the second
//! spelling). Time of waking is `sched_waking`, as in Perfetto.

mod build;
mod event;
mod line;
mod write;

use crate::container::Trace;
use crate::error::{LineError, ReadError};
use line::Parsed;

pub use write::{TimeDigits, write, write_with};

/// Reads a text of tracefs, `perf script` or `trace-cmd report`.
///
/// Events other than scheduling, interrupts and IPIs are skipped. Lines need not be sorted.
/// Complexity: O(n log n) in lines, linear if they are sorted.
///
/// # Errors
/// Invalid lines (the first of them, and their number), or no scheduler event at all.
pub fn read(text: &str) -> Result<Trace, ReadError> {
    read_with_pids(text).map(|(trace, _)| trace)
}

/// As [`read`]; also returns each task's process id, in order of task.
///
/// # Errors
/// As [`read`].
pub fn read_with_pids(text: &str) -> Result<(Trace, Vec<u32>), ReadError> {
    let mut errors = Errors::default();
    let mut events = Vec::new();
    let mut head = build::Head::default();
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        match line::parse(text) {
            Ok(Parsed::Event(line)) => match event::parse(line.event, line.args) {
                Ok(Some(event)) => events.push(build::Event { at: line.at, cpu: line.cpu, event }),
                Ok(None) => head.saw_cpu(line.cpu),
                Err(reason) => errors.push(number, column_of(text, line.args), reason),
            },
            Ok(Parsed::Lost(count)) => head.lost = head.lost.saturating_add(count),
            Ok(Parsed::Cpus(cpus)) => head.cpus = head.cpus.max(cpus),
            Ok(Parsed::Nothing) => {}
            Err(reason) => errors.push(number, 0, reason),
        }
    }
    if errors.total > 0 {
        return Err(ReadError::Text { errors: errors.first, total: errors.total });
    }
    if events.is_empty() {
        let reason = "no scheduler event found; known are tracefs `trace`, `perf script`, `trace-cmd report`";
        let error = LineError { line: 0, column: 0, reason: reason.to_owned() };
        return Err(ReadError::Text { errors: vec![error], total: 1 });
    }
    // Stable: lines of one instant stay in their printed order.
    events.sort_by_key(|event| event.at);
    Ok(build::build(&head, &events))
}

/// Returns the column, from 1, at which a part of a line begins.
fn column_of(line: &str, part: &str) -> usize {
    let before = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..before).map_or(0, |before| before.chars().count() + 1)
}

/// The first errors of a text and their number: a binary file would have one per line.
#[derive(Default)]
struct Errors {
    first: Vec<LineError>,
    total: u64,
}

impl Errors {
    fn push(&mut self, line: usize, column: usize, reason: String) {
        self.total += 1;
        if self.first.len() < MAX_ERRORS {
            self.first.push(LineError { line, column, reason });
        }
    }
}

const MAX_ERRORS: usize = 20;

#[cfg(test)]
mod tests;
