//! Programs built in code: periodic task sets from CSV, for tools, benchmarks and comparisons with
//! other simulators.
//!
//! A set is a table of independent periodic tasks. The first line names the columns, in any order:
//!
//! | column | meaning | default |
//! |---|---|---|
//! | `task` | name | required |
//! | `runtime_us` | CPU time per period, C | required |
//! | `period_us` | P | required |
//! | `deadline_us` | relative deadline, D | P |
//! | `first_release_us`, `offset_us` | first release | 0 |
//!
//! `_ns`, `_ms` and `_s` name other units; without a unit the column is in microseconds, as in
//! rt-audit's files. Each task becomes: delay until the first release, then forever `Run(C)` and
//! an absolute timer of period P.
//!
//! Source of rate monotonic order: Liu & Layland 1973, sec. 4.

use crate::diagnostic::{Diagnostic, Diagnostics, Report, Source, Span};
use crate::input;
use crate::program::{Action, Program, TaskDef, TimerMode, TimerRef};
use crate::random::{Dist, MAX_TIME};
use crate::rtapp::deadline_error;
use crate::{INSTANCES_MAX, LoadOptions, Scenario};
use std::collections::BTreeMap;
use zerolag_model::settings::nearest;
use zerolag_model::{DlParams, Duration, RtPriority, SchedAttr};

/// 20 tasks for 4 CPUs (formula: `data/README.md`).
pub const W4: &str = include_str!("../data/w4.csv");
/// 100 tasks for 8 CPUs.
pub const W8: &str = include_str!("../data/w8.csv");
/// 1000 tasks for 64 CPUs.
pub const W64: &str = include_str!("../data/w64.csv");

/// The scheduling of the tasks of a periodic set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeriodicPolicy {
    /// SCHED_FIFO, the shorter the period the more urgent: the distinct periods get 99, 98, ... in
    /// this order.
    RateMonotonicFifo,
    /// SCHED_DEADLINE with runtime, deadline and period of the table.
    #[default]
    Deadline,
}

/// Reads a table as a workload file. See [`crate::load`].
///
/// # Errors
/// As [`periodic`].
pub fn load(name: &str, text: &str, options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let mut report = Report::default();
    let program = read(text, options.task_set, &mut report);
    let program = if program.tasks.is_empty() && !report.has_errors() {
        report.error(Span::default(), "the table has no tasks");
        program
    } else {
        program
    };
    let said = |report: Report| report.finish(Source::new(name, text));
    if report.has_errors() {
        return Err(said(report));
    }
    Ok(Scenario { program, machine: options.machine_override.clone(), ..Scenario::empty(said(report)) })
}

/// The columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskSetColumn {
    Task,
    Runtime,
    Period,
    Deadline,
    Offset,
}

const COLUMNS: [(&str, TaskSetColumn); 6] = [
    ("task", TaskSetColumn::Task),
    ("runtime", TaskSetColumn::Runtime),
    ("period", TaskSetColumn::Period),
    ("deadline", TaskSetColumn::Deadline),
    ("first_release", TaskSetColumn::Offset),
    ("offset", TaskSetColumn::Offset),
];

/// One row.
#[derive(Debug)]
struct TaskSetRow<'a> {
    name: &'a str,
    span: Span,
    params: DlParams,
    offset: Duration,
}

/// Returns the program of a periodic task set.
///
/// # Errors
/// All mistakes in the table. For [`PeriodicPolicy::RateMonotonicFifo`] also more than 99 distinct
/// periods, for [`PeriodicPolicy::Deadline`] parameters that the kernel refuses.
///
/// ```
/// use zerolag_workload::builtin::{self, PeriodicPolicy};
/// let program = builtin::periodic(builtin::W4, PeriodicPolicy::RateMonotonicFifo)?;
/// assert_eq!(program.tasks.len(), 20);
/// # Ok::<(), zerolag_workload::Diagnostics>(())
/// ```
pub fn periodic(csv: &str, policy: PeriodicPolicy) -> Result<Program, Diagnostics> {
    const NAME: &str = "periodic.csv";
    let text = input::text_of(NAME, csv.as_bytes())?;
    let mut report = Report::default();
    let program = read(text, policy, &mut report);
    if report.has_errors() { Err(report.finish(Source::new(NAME, text))) } else { Ok(program) }
}

fn read(text: &str, policy: PeriodicPolicy, report: &mut Report) -> Program {
    let rows = rows(text, report);
    let mut ranks: BTreeMap<Duration, i64> = rows.iter().map(|row| (row.params.period, 0)).collect();
    for (rank, priority) in ranks.values_mut().zip((i64::MIN..=99).rev()) {
        *rank = priority;
    }
    let mut program = Program::default();
    for row in &rows {
        let attr = match policy {
            PeriodicPolicy::Deadline => match deadline_error(row.params) {
                None => SchedAttr::Deadline(row.params),
                Some(message) => {
                    report.error(row.span, format!("task {}: {message}", row.name));
                    continue;
                }
            },
            PeriodicPolicy::RateMonotonicFifo => {
                match ranks.get(&row.params.period).and_then(|rank| RtPriority::new(*rank)) {
                    Some(priority) => SchedAttr::fifo(priority),
                    None => {
                        let message = format!("{} distinct periods are more than the 99 priorities", ranks.len());
                        report.error(row.span, message);
                        break;
                    }
                }
            }
        };
        program.tasks.push(task(row, attr));
    }
    program
}

fn task(row: &TaskSetRow<'_>, attr: SchedAttr) -> TaskDef {
    let release =
        Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(row.params.period), mode: TimerMode::Absolute };
    let actions = vec![Action::Run(Dist::Constant(row.params.runtime)), release];
    TaskDef { delay: row.offset, ..TaskDef::looping(row.name, attr, actions) }
}

/// Reads the table; invalid lines are reported and skipped.
fn rows<'a>(text: &'a str, report: &mut Report) -> Vec<TaskSetRow<'a>> {
    let mut lines = lines(text);
    let Some((at, head)) = lines.next() else {
        report.error(Span::default(), "the table is empty");
        return Vec::new();
    };
    let Some(columns) = columns(at, head, report) else { return Vec::new() };
    let mut rows: Vec<TaskSetRow<'a>> = Vec::new();
    for (at, line) in lines {
        let cells: Vec<(&str, Span)> = cells(at, line).collect();
        let here = Span::new(at..at + line.len());
        if cells.len() != columns.len() {
            report.error(here, format!("{} cells under {} columns", cells.len(), columns.len()));
            continue;
        }
        rows.extend(row(&cells, &columns, here, report));
    }
    if rows.len() as u64 > INSTANCES_MAX {
        report.error(Span::default(), format!("there are {} tasks; at most {INSTANCES_MAX} are simulated", rows.len()));
    }
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for row in &rows {
        if let Some(first) = seen.insert(row.name, row.span) {
            let message = format!("there are two tasks {}", row.name);
            report.push(Diagnostic::error(row.span, message).label(first, "the other one"));
        }
    }
    rows
}

fn row<'a>(
    cells: &[(&'a str, Span)],
    columns: &[(TaskSetColumn, Duration)],
    here: Span,
    report: &mut Report,
) -> Option<TaskSetRow<'a>> {
    let cell =
        |column| columns.iter().position(|(known, _)| *known == column).map(|place| (cells[place], columns[place].1));
    let mut time = |column| -> Option<Option<Duration>> {
        let Some(((text, span), unit)) = cell(column) else { return Some(None) };
        let count: Option<u64> = text.parse().ok();
        let time = count.and_then(|count| count.checked_mul(unit.as_nanos())).map(Duration::from_nanos);
        match time.filter(|time| *time <= MAX_TIME) {
            Some(time) => Some(Some(time)),
            None => {
                report.error(span, format!("`{text}` is not a whole number of 0 up to 10 years"));
                None
            }
        }
    };
    let (runtime, period) = (time(TaskSetColumn::Runtime), time(TaskSetColumn::Period));
    let (deadline, offset) = (time(TaskSetColumn::Deadline), time(TaskSetColumn::Offset));
    let ((name, span), _) = cell(TaskSetColumn::Task)?;
    let (runtime, period) = (runtime??, period??);
    if period.is_zero() {
        report.error(here, format!("task {name} has a period of zero"));
        return None;
    }
    let params = DlParams::new(runtime, deadline?.unwrap_or(period), period);
    Some(TaskSetRow { name, span, params, offset: offset?.unwrap_or(Duration::ZERO) })
}

/// Reads the first line: the kind and unit of each column.
fn columns(at: usize, head: &str, report: &mut Report) -> Option<Vec<(TaskSetColumn, Duration)>> {
    let mut found: Vec<(TaskSetColumn, Duration)> = Vec::new();
    for (name, span) in cells(at, head) {
        let units = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];
        let (bare, unit) = units
            .into_iter()
            .find_map(|(suffix, ns)| name.strip_suffix(suffix).map(|bare| (bare, ns)))
            .unwrap_or((name, 1_000));
        match COLUMNS.into_iter().find(|(known, _)| *known == bare) {
            Some((_, column)) if found.iter().any(|(other, _)| *other == column) => {
                report.error(span, format!("column {name} appears twice"));
                return None;
            }
            Some((_, column)) => found.push((column, Duration::from_nanos(unit))),
            None => {
                let diagnostic = Diagnostic::error(span, format!("unknown column `{name}`"));
                let known = || COLUMNS.into_iter().map(|(name, _)| name);
                report.push(match nearest(bare, known()) {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None => diagnostic.help(format!("known are {}", known().collect::<Vec<_>>().join(", "))),
                });
                return None;
            }
        }
    }
    for (name, column) in &COLUMNS[..3] {
        if !found.iter().any(|(known, _)| known == column) {
            report.error(Span::new(at..at + head.len()), format!("there is no column `{name}`"));
            return None;
        }
    }
    Some(found)
}

/// Returns the lines with content, and their positions. `#` starts a comment line.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let line = line.trim_end();
        let line = if start == 0 { line.trim_start_matches('\u{feff}') } else { line };
        (!line.trim().is_empty() && !line.starts_with('#')).then_some((start, line))
    })
}

/// Returns the cells of a line, trimmed, and their positions.
fn cells(at: usize, line: &str) -> impl Iterator<Item = (&str, Span)> {
    let mut at = at;
    line.split(',').map(move |cell| {
        let start = at;
        at += cell.len() + 1;
        (cell.trim(), Span::new(start..start + cell.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of `data/README.md`.
    fn made(cpus: u64, tasks: u64) -> String {
        let periods = [5000, 8000, 10000, 12000, 15000, 20000, 25000, 30000, 40000, 50000];
        let head = "task,first_release_us,runtime_us,deadline_us,period_us\n".to_string();
        (0..tasks).fold(head, |table, i| {
            let period = periods[usize::try_from(i % 10).expect("small")];
            table + &format!("t{i},{},{},{period},{period}\n", 137 * i % period, period * 8 * cpus / (10 * tasks))
        })
    }

    #[test]
    fn the_data_are_what_the_formula_makes() {
        for (data, cpus, tasks) in [(W4, 4, 20), (W8, 8, 100), (W64, 64, 1000)] {
            let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
            assert_eq!(lines(data), lines(&made(cpus, tasks)));
        }
    }

    #[test]
    fn rate_monotonic_order_is_by_period() {
        let program = periodic(W4, PeriodicPolicy::RateMonotonicFifo).expect("valid");
        let attr = |task: usize| program.tasks[task].attr;
        let fifo = SchedAttr::fifo_at;
        assert_eq!([attr(0), attr(1), attr(9), attr(10)], [fifo(99), fifo(98), fifo(90), fifo(99)]);
        assert_eq!(program.tasks[1].delay, Duration::from_micros(137));
        let actions = &program.tasks[1].phases[0].actions;
        assert_eq!(actions[0], Action::Run(Dist::Constant(Duration::from_micros(1280))));
        assert!(matches!(actions[1], Action::Timer { mode: TimerMode::Absolute, .. }));
        assert_eq!(program.tasks[1].turns, None);
    }

    #[test]
    fn deadline_tasks_take_the_table_as_it_is() {
        let csv = "# ms and defaults\nperiod_ms, task, runtime_us\n10, a, 2500\n";
        let program = periodic(csv, PeriodicPolicy::Deadline).expect("valid");
        let (runtime, period) = (Duration::from_micros(2500), Duration::from_millis(10));
        assert_eq!(program.tasks[0].attr, SchedAttr::Deadline(DlParams::new(runtime, period, period)));
        assert_eq!(program.tasks[0].delay, Duration::ZERO);
    }

    #[test]
    fn every_line_that_is_wrong_is_named() {
        let csv = "task,runtime_us,period_us\na,1,x\nb,5000,4000\nc,1\nd,2000,0\nb,2000,4000\n";
        let errors = periodic(csv, PeriodicPolicy::Deadline).expect_err("wrong").to_string();
        let expected = [
            "periodic.csv:2:5: error: `x` is not a whole number of 0 up to 10 years",
            "periodic.csv:3:1: error: task b: runtime 5ms is above deadline 4ms",
            "periodic.csv:4:1: error: 2 cells under 3 columns",
            "periodic.csv:5:1: error: task d has a period of zero",
            "periodic.csv:6:1: error: there are two tasks b",
            "  periodic.csv:3:1: the other one",
        ];
        assert_eq!(errors.lines().collect::<Vec<_>>(), expected);
        let head = periodic("task,runtime,perod\n", PeriodicPolicy::Deadline).expect_err("wrong").to_string();
        assert_eq!(head, "periodic.csv:1:14: error: unknown column `perod`\n  help: did you mean `period`?");
        let many: String = (1..=100).map(|i| format!("t{i},1,{i}\n")).collect();
        let errors = periodic(&format!("task,runtime,period\n{many}"), PeriodicPolicy::RateMonotonicFifo);
        assert!(
            errors.expect_err("wrong").to_string().contains("100 distinct periods are more than the 99 priorities")
        );
    }
}
