//! Timelines: which tasks ran and which waited, as text that a person can check and a diff can
//! compare.
//!
//! ```text
//! 1 column = 1.00ms, from 0.000000000
//!      |0         10        |
//! cpu0 |aaaaffaabb..........|
//! cpu1 |....................|
//!
//! a    |####--##------------|  OTHER 0
//! ```
//!
//! A column shows the state *at its first instant*, after all events of that instant; a run that
//! begins and ends between two columns is not visible. So a timeline is exact if every event falls
//! on a column, and a picture otherwise; the list of [`switches`] is always exact. Per CPU: a
//! letter is the running task, `.` idle, `?` unknown. Per task: `#` running, `-` waiting, blank
//! asleep, `x` ended.
//!
//! Letters: the first free letter of the task's name, then any free one, in order of id. So adding
//! a task at the end changes no other task's letter. A legend is printed where a letter is not the
//! name.

use crate::events::{Names, why_left};
use crate::human::Human;
use crate::summary::policy_text;
use core::fmt::Write;
use std::collections::BTreeMap;
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::replay::{Current, Replay, TaskState};
use zerolag_trace::{IdTable, Trace};

/// The window and rows of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The instant of the first column.
    pub from: Instant,
    /// Columns begin before this instant.
    pub to: Instant,
    /// The time of one column.
    pub step: Duration,
    /// Whether there is a row for each task, too.
    pub rows: Rows,
}

/// Which rows are shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rows {
    /// One per CPU.
    Cpus,
    /// One per CPU and one per task.
    CpusAndTasks,
}

/// The most columns that are drawn: more would not be read, and a short step must not fill the
/// memory.
pub const MAX_COLUMNS: usize = 10_000;

/// Draws a timeline.
///
/// The window is cut to [`MAX_COLUMNS`]. A step of zero draws one column.
#[must_use]
pub fn timeline(trace: &Trace, window: Window) -> String {
    let letters = TaskLetters::of(&trace.records);
    let mut replay = Replay::new(&trace.meta);
    let mut cpus: IdTable<CpuId, String> = IdTable::default();
    let mut tasks: IdTable<TaskId, String> = IdTable::default();
    let mut records = trace.records.iter().peekable();
    let mut columns = 0;
    let mut at = window.from;
    while at < window.to && columns < MAX_COLUMNS {
        while let Some(record) = records.next_if(|record| record.at <= at) {
            replay.apply(record);
        }
        for (cpu, view) in replay.cpus() {
            let row = pad(cpus.entry(cpu), columns);
            row.push(match view.current {
                Current::Unknown => '?',
                Current::Idle => '.',
                Current::Task(task) => letters.of_task(task),
            });
        }
        for (task, view) in replay.tasks() {
            let row = pad(tasks.entry(task), columns);
            row.push(match view.state {
                TaskState::Unknown => '?',
                TaskState::Blocked => ' ',
                TaskState::Waking { .. } | TaskState::Queued { .. } => '-',
                TaskState::Running { .. } => '#',
                TaskState::Dead => 'x',
            });
        }
        columns += 1;
        if window.step.is_zero() {
            break;
        }
        at = at.saturating_add(window.step);
    }
    let mut out = String::new();
    let drawn = DrawnTimeline { window, columns, letters: &letters, replay: &replay };
    drawn.write(&mut out, &cpus, &tasks).expect("invariant: writing to a String cannot fail");
    out
}

/// Lists every switch exactly: `0.004000000 cpu0 a -> f (preempted)`.
#[must_use]
pub fn switches(trace: &Trace) -> String {
    let mut names = Names::of_trace(trace);
    let mut out = String::new();
    for record in &trace.records {
        names.learn(&record.event);
        if let TraceEvent::Switch { prev, prev_state, next, .. } = &record.event {
            let (at, cpu, prev, next) = (record.at, record.cpu, names.of_current(*prev), names.of_current(*next));
            writeln!(out, "{at} cpu{cpu} {prev} -> {next}{}", why_left(*prev_state))
                .expect("invariant: writing to a String cannot fail");
        }
    }
    out
}

/// Fills a row that appeared late: its task was unknown in the columns before.
fn pad(row: &mut String, columns: usize) -> &mut String {
    let missing = columns.saturating_sub(row.chars().count());
    row.extend(core::iter::repeat_n(' ', missing));
    row
}

/// One letter per task.
struct TaskLetters {
    of: BTreeMap<TaskId, char>,
    names: BTreeMap<TaskId, String>,
}

impl TaskLetters {
    fn of(records: &[Record]) -> Self {
        let mut letters = Self { of: BTreeMap::new(), names: BTreeMap::new() };
        for record in records {
            if let TraceEvent::TaskNew { task, name, .. } = &record.event {
                letters.names.insert(*task, name.to_string());
            }
        }
        let mut free: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
        for (task, name) in &letters.names {
            let wanted = name.chars().find_map(|letter| free.iter().position(|other| *other == letter));
            let letter = if free.is_empty() { MANY } else { free.remove(wanted.unwrap_or(0)) };
            letters.of.insert(*task, letter);
        }
        letters
    }

    fn of_task(&self, task: TaskId) -> char {
        self.of.get(&task).copied().unwrap_or(MANY)
    }

    fn name(&self, task: TaskId) -> String {
        self.names.get(&task).cloned().unwrap_or_else(|| format!("task {task}"))
    }
}

/// The letter of tasks once no letter is free.
const MANY: char = '*';

/// A complete timeline, ready to be written.
struct DrawnTimeline<'a> {
    window: Window,
    columns: usize,
    letters: &'a TaskLetters,
    replay: &'a Replay,
}

impl DrawnTimeline<'_> {
    fn write(
        &self,
        out: &mut String,
        cpus: &IdTable<CpuId, String>,
        tasks: &IdTable<TaskId, String>,
    ) -> core::fmt::Result {
        let shows_tasks = self.window.rows == Rows::CpusAndTasks;
        let rows: Vec<(String, &String)> = cpus.iter().map(|(cpu, row)| (format!("cpu{cpu}"), row)).collect();
        let task_rows: Vec<(TaskId, String, &String)> = tasks
            .iter()
            .filter(|(task, _)| self.letters.names.contains_key(task))
            .map(|(task, row)| (task, self.letters.name(task), row))
            .collect();
        let labels = rows.iter().map(|(label, _)| label.chars().count());
        let task_labels = task_rows.iter().filter(|_| shows_tasks).map(|(_, name, _)| name.chars().count());
        let width = labels.chain(task_labels).max().unwrap_or(0);
        writeln!(out, "1 column = {}, from {}", Human(self.window.step), self.window.from)?;
        writeln!(out, "{:width$} |{}|", "", axis(self.columns))?;
        for (label, row) in &rows {
            writeln!(out, "{label:width$} |{row}|")?;
        }
        if shows_tasks {
            writeln!(out)?;
            for (task, name, row) in &task_rows {
                let policy = self.replay.task(*task).map(|view| policy_text(view.attr)).unwrap_or_default();
                writeln!(out, "{name:width$} |{row:columns$}|  {policy}", columns = self.columns)?;
            }
        }
        let legend: Vec<String> = task_rows
            .iter()
            .map(|(task, name, _)| (self.letters.of_task(*task), name))
            .filter(|(letter, name)| **name != letter.to_string())
            .map(|(letter, name)| format!("{letter} = {name}"))
            .collect();
        if !legend.is_empty() {
            writeln!(out, "{:width$}  {}", "", legend.join(", "))?;
        }
        Ok(())
    }
}

/// The numbers of the columns, every ten.
fn axis(columns: usize) -> String {
    let mut axis = String::new();
    for column in (0..columns).step_by(10) {
        write!(axis, "{column:<10}").expect("invariant: writing to a String cannot fail");
    }
    axis.chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::two_hogs_and_a_fifo;
    use zerolag_trace::script::Script;

    fn window(to_us: u64, step_us: u64, rows: Rows) -> Window {
        let to = Instant::from_nanos(to_us * 1000);
        Window { from: Instant::ZERO, to, step: Duration::from_micros(step_us), rows }
    }

    #[test]
    fn a_column_is_what_was_true_at_its_first_instant() {
        assert_eq!(
            timeline(&two_hogs_and_a_fifo(), window(12_000, 1000, Rows::CpusAndTasks)),
            "\
1 column = 1.00ms, from 0.000000000
     |0         10|
cpu0 |aaaaffaabbbb|
cpu1 |............|

a    |####--##----|  OTHER 0
b    |--------####|  OTHER 0
f    |    ##      |  FIFO 5
"
        );
    }

    #[test]
    fn letters_are_unique_and_explained() {
        let mut script = Script::new(1);
        let tasks = ["hog", "hub", "a", "hog", "-"].map(|name| script.fair(name));
        script.wake(0, 0, tasks[0]).run(0, 0, None, Some(tasks[0]));
        for (at, task) in tasks.iter().enumerate().skip(1) {
            script.wake(at as u64, 0, *task).run(at as u64, 0, Some(tasks[at - 1]), Some(*task));
        }
        assert_eq!(
            timeline(&script.end(5), window(5, 1, Rows::Cpus)),
            "1 column = 1.00us, from 0.000000000\n     |0    |\ncpu0 |huaob|\n      h = hog, u = hub, o = hog, b = -\n"
        );
    }

    #[test]
    fn the_list_of_switches_is_exact() {
        assert_eq!(
            switches(&two_hogs_and_a_fifo()),
            "\
0.000000000 cpu0 idle -> a
0.004000000 cpu0 a -> f (preempted)
0.006000000 cpu0 f -> a (blocked)
0.008000000 cpu0 a -> b (preempted)
"
        );
    }

    #[test]
    fn absurd_windows_are_bounded() {
        let trace = two_hogs_and_a_fifo();
        let tiny = timeline(&trace, window(u64::MAX / 1000, 1, Rows::Cpus));
        assert_eq!(tiny.lines().nth(2).map(|line| line.chars().count()), Some(MAX_COLUMNS + "cpu0 ||".len()));
        assert!(timeline(&trace, window(10, 0, Rows::Cpus)).contains("cpu0 |a|"));
        assert!(timeline(&trace, window(0, 1, Rows::Cpus)).contains("1 column"));
    }
}
