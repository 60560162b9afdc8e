//! Tables of tasks: the first line names the columns, in any order.
//!
//! [`COLUMNS`] has every name. `_ns`, `_us`, `_ms` and `_s` behind a name are the unit of its
//! times; without one they are in microseconds. `#` begins a comment line.
//!
//! Sources: rt-audit, `simple_taskset.py`, `csv_to_taskset` (`task_name,runtime_us,period_us,
//! deadline_us`; a deadline can be missing or empty); `data/README.md` has our own.

use super::{SetTask, TaskSet};
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::random::MAX_TIME;
use zerolag_model::settings::nearest;
use zerolag_model::{DlParams, Duration};

/// A kind of column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskSetColumn {
    Task,
    Runtime,
    Period,
    Deadline,
    Offset,
}

/// The names of columns without their unit. Of each kind that is required the first name is the
/// one that an error asks for.
const COLUMNS: [(&str, TaskSetColumn); 10] = [
    ("task", TaskSetColumn::Task),
    ("task_name", TaskSetColumn::Task),
    ("name", TaskSetColumn::Task),
    ("runtime", TaskSetColumn::Runtime),
    ("wcet", TaskSetColumn::Runtime),
    ("period", TaskSetColumn::Period),
    ("deadline", TaskSetColumn::Deadline),
    ("first_release", TaskSetColumn::Offset),
    ("offset", TaskSetColumn::Offset),
    ("phase", TaskSetColumn::Offset),
];

/// The kinds that a table must have.
const REQUIRED: [TaskSetColumn; 3] = [TaskSetColumn::Task, TaskSetColumn::Runtime, TaskSetColumn::Period];

/// Returns the kind and the unit of a column.
fn column_of(name: &str) -> Option<(TaskSetColumn, Duration)> {
    let (bare, unit) = bare_of(name);
    COLUMNS.into_iter().find(|(known, _)| *known == bare).map(|(_, column)| (column, unit))
}

/// Returns the name of a column without its unit, and the unit.
fn bare_of(name: &str) -> (&str, Duration) {
    let units = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];
    let found = units.into_iter().find_map(|(suffix, ns)| name.strip_suffix(suffix).map(|bare| (bare, ns)));
    let (bare, ns) = found.unwrap_or((name, 1_000));
    (bare, Duration::from_nanos(ns))
}

/// Returns whether a text begins with the head of such a table.
pub(crate) fn is_table(text: &str) -> bool {
    lines(text).next().is_some_and(|(at, head)| {
        let found: Vec<_> = cells(at, head).map(|(name, _)| column_of(name).map(|(column, _)| column)).collect();
        REQUIRED.into_iter().all(|required| found.contains(&Some(required)))
    })
}

/// Reads a table; invalid lines are reported and skipped.
pub(crate) fn read(text: &str, report: &mut Report) -> TaskSet {
    let mut set = TaskSet::default();
    let mut lines = lines(text);
    let Some((at, head)) = lines.next() else {
        report.error(Span::default(), "the table is empty");
        return set;
    };
    let Some(columns) = columns(at, head, report) else { return set };
    for (at, line) in lines {
        let cells: Vec<(&str, Span)> = cells(at, line).collect();
        let here = Span::new(at..at + line.len());
        if cells.len() != columns.len() {
            report.error(here, format!("{} cells under {} columns", cells.len(), columns.len()));
            continue;
        }
        set.tasks.extend(row(&cells, &columns, here, report));
    }
    set
}

fn row(
    cells: &[(&str, Span)],
    columns: &[(TaskSetColumn, Duration)],
    here: Span,
    report: &mut Report,
) -> Option<SetTask> {
    let cell =
        |column| columns.iter().position(|(known, _)| *known == column).map(|place| (cells[place], columns[place].1));
    let mut time = |column| -> Option<Option<Duration>> {
        let Some(((text, span), unit)) = cell(column) else { return Some(None) };
        if text.is_empty() && !REQUIRED.contains(&column) {
            return Some(None);
        }
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
    Some(SetTask { offset: offset?.unwrap_or(Duration::ZERO), ..SetTask::new(name, span, params) })
}

/// Reads the first line: the kind and unit of each column.
fn columns(at: usize, head: &str, report: &mut Report) -> Option<Vec<(TaskSetColumn, Duration)>> {
    let mut found: Vec<(TaskSetColumn, Duration)> = Vec::new();
    for (name, span) in cells(at, head) {
        match column_of(name) {
            Some((column, _)) if found.iter().any(|(other, _)| *other == column) => {
                report.error(span, format!("column {name} appears twice"));
                return None;
            }
            Some(column) => found.push(column),
            None => {
                let diagnostic = Diagnostic::error(span, format!("unknown column `{name}`"));
                let known = || COLUMNS.into_iter().map(|(name, _)| name);
                report.push(match nearest(bare_of(name).0, known()) {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None => diagnostic.help(format!("known are {}", known().collect::<Vec<_>>().join(", "))),
                });
                return None;
            }
        }
    }
    for required in REQUIRED {
        if !found.iter().any(|(known, _)| *known == required) {
            let name = COLUMNS.into_iter().find(|(_, column)| *column == required).map_or("", |(name, _)| name);
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
        let bare = if start == 0 { line.trim_start_matches('\u{feff}') } else { line };
        let start = start + line.len() - bare.len();
        (!bare.trim().is_empty() && !bare.starts_with('#')).then_some((start, bare))
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
