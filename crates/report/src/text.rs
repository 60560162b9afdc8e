//! The figures as tables, readable at 100 columns: first the run times, then the waits, then their
//! causes.

mod recorded;

use crate::figure::{Amount, Figure, P50, P90, P99, P999, Quantity, Stat, Subject};
use crate::human::{Human, Percent};
use crate::summary::{
    Blocker, CpuSummary, GroupSummary, NAME_WIDTH, Summary, TaskSummary, Wait, WaitEnd, policy_text, prio_text,
};
use crate::table::{Align, Table, shorten};
use core::fmt::{self, Write};
use zerolag_model::{CpuLayer, CpuMax, Duration, MigrateReason, TaskId};

/// The number of rows of each table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Tasks; those with the longest run time are shown.
    pub tasks: usize,
    /// CPUs; the busiest are shown.
    pub cpus: usize,
    /// Task groups; those with the most CPU time are shown.
    pub groups: usize,
    /// Tasks that ran during one wait.
    pub blockers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tasks: 40, cpus: 32, groups: 32, blockers: 6 }
    }
}

/// Renders the whole report.
#[must_use]
pub fn render(summary: &Summary, limits: Limits) -> String {
    let mut out = String::new();
    write_report(&mut out, summary, limits).expect("invariant: writing to a String cannot fail");
    out
}

fn write_report(out: &mut String, summary: &Summary, limits: Limits) -> fmt::Result {
    write_head(out, summary)?;
    let tasks = longest(&summary.tasks, limits.tasks, |task| task.run);
    let more = |out: &mut String, all: usize, shown: usize, what: &str| match all - shown {
        0 => Ok(()),
        more => writeln!(out, "({more} more {what} that ran less)"),
    };
    if !summary.services.is_empty() {
        write!(out, "\nrequests, from their intended arrival to their end\n{}", service_table(summary))?;
        write_service_notes(out, summary)?;
    }
    write!(out, "\nrun time\n{}", run_table(summary, &tasks))?;
    more(out, summary.tasks.len(), tasks.len(), "tasks")?;
    let waiters: Vec<&TaskSummary> =
        tasks.iter().copied().filter(|task| !task.wait.is_zero() || !task.sleep.is_zero()).collect();
    if !waiters.is_empty() {
        write!(out, "\nwait and sleep time\n{}", wait_table(summary, &waiters))?;
    }
    recorded::write_wakings(out, summary)?;
    let groups = longest(&summary.groups, limits.groups, |group| group.usage);
    if !groups.is_empty() {
        write!(out, "\ngroups (cpu.stat)\n{}", group_table(summary, &groups))?;
        more(out, summary.groups.len(), groups.len(), "groups")?;
    }
    let cpus = longest(&summary.cpus, limits.cpus, |cpu| cpu.busy);
    write!(out, "\ncpus\n{}", cpu_table(summary, &cpus))?;
    more(out, summary.cpus.len(), cpus.len(), "CPUs")?;
    if cpus.iter().any(|cpu| cpu.layers.is_some()) {
        write!(out, "\nCPU time by layer\n{}", layer_table(&cpus))?;
    }
    if !summary.worst_waits.is_empty() {
        writeln!(out, "\nworst waits, and the tasks that ran meanwhile")?;
        for wait in &summary.worst_waits {
            write_wait(out, summary, wait, limits.blockers)?;
        }
    }
    Ok(())
}

/// Returns the `limit` entries with the longest times, in their own order.
fn longest<T>(all: &[T], limit: usize, time: impl Fn(&T) -> Duration) -> Vec<&T> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (core::cmp::Reverse(time(&all[*at])), *at));
    order.truncate(limit);
    order.sort_unstable();
    order.into_iter().map(|at| &all[at]).collect()
}

fn write_head(out: &mut String, summary: &Summary) -> fmt::Result {
    let meta = &summary.meta;
    write!(out, "{} on {}", Human(summary.elapsed), meta.machine)?;
    for (what, value) in [("kernel", &meta.kernel), ("costs", &meta.costs)] {
        if !value.is_empty() {
            write!(out, ", {what} {value}")?;
        }
    }
    if let Some(seed) = meta.seed {
        write!(out, ", seed {seed}")?;
    }
    writeln!(out, " ({}, {})", meta.origin(), meta.producer)?;
    let (idle, all) = summary.idle();
    write!(out, "idle {}, {} switches, ", Percent { part: idle, whole: all }, summary.switches)?;
    write!(out, "{} migrations", summary.migrations.total())?;
    let mut separator = " (";
    for reason in MigrateReason::ALL {
        let count = summary.migrations.of(reason);
        if count > 0 {
            write!(out, "{separator}{} {count}", reason.name())?;
            separator = ", ";
        }
    }
    if separator == ", " {
        out.push(')');
    }
    if meta.lost_events > 0 && meta.recorded.gaps.is_empty() {
        write!(out, ", {} EVENTS LOST: the figures are too low", meta.lost_events)?;
    }
    writeln!(out)?;
    recorded::write(out, summary)
}

/// Columns of figures, each with its name in a table where it needs another one than its own: the
/// column beside it has said the rest.
#[derive(Clone, Copy)]
struct FigureColumn(Figure, Option<&'static str>);

const fn of(quantity: Quantity) -> FigureColumn {
    FigureColumn(Figure::new(quantity, Stat::Value), None)
}

const fn stat(quantity: Quantity, stat: Stat, name: &'static str) -> FigureColumn {
    FigureColumn(Figure::new(quantity, stat), Some(name))
}

fn heads(columns: &[FigureColumn]) -> impl Iterator<Item = (String, Align)> + '_ {
    columns.iter().map(|FigureColumn(figure, name)| (name.map_or_else(|| figure.label(), str::to_owned), Align::Right))
}

fn cells<'a>(columns: &'a [FigureColumn], subject: Subject<'a>) -> impl Iterator<Item = String> + 'a {
    columns.iter().map(move |FigureColumn(figure, _)| Amount::of(*figure, subject).to_string())
}

fn table_of(first: &[(&str, Align)], more: impl Iterator<Item = (String, Align)>) -> Table {
    let first = first.iter().map(|(name, align)| ((*name).to_owned(), *align));
    let all: Vec<(String, Align)> = first.chain(more).collect();
    Table::new(&all.iter().map(|(name, align)| (name.as_str(), *align)).collect::<Vec<_>>())
}

fn run_table(summary: &Summary, tasks: &[&TaskSummary]) -> Table {
    let has_timers = tasks.iter().any(|task| task.timers > 0);
    let has_overruns = tasks.iter().any(|task| task.dl_overruns.is_some());
    let ids = recorded::Ids::of(tasks);
    let mut first = vec![("task", Align::Left)];
    first.extend(ids.columns());
    first.extend([("policy", Align::Left), (Quantity::Run.row().label, Align::Right), ("of a cpu", Align::Right)]);
    let mut columns =
        vec![of(Quantity::Wakeups), of(Quantity::SwitchesIn), of(Quantity::Preemptions), of(Quantity::Migrations)];
    columns.extend(has_overruns.then_some(of(Quantity::Overruns)));
    let has_turns = tasks.iter().any(|task| task.turns.is_some_and(|turns| turns > 0));
    columns.extend(has_turns.then_some(of(Quantity::TurnRate)));
    if has_timers {
        columns.extend([of(Quantity::Timers), of(Quantity::TimersMissed), of(Quantity::LatenessMax)]);
    }
    let mut table = table_of(&first, heads(&columns));
    for task in tasks {
        let mut row = vec![recorded::name(summary, task)];
        row.extend(ids.cells(task));
        row.extend([
            policy_text(task.attr),
            recorded::unsure(task.run, task.run_unsure),
            Percent { part: task.run, whole: summary.elapsed }.to_string(),
        ]);
        row.extend(cells(&columns, Subject::Task(task, summary.elapsed)));
        table.push(row);
    }
    table
}

fn wait_table(summary: &Summary, tasks: &[&TaskSummary]) -> Table {
    let ids = recorded::Ids::of(tasks);
    let mut first = vec![("task", Align::Left)];
    first.extend(ids.columns());
    first.extend([("policy", Align::Left), (Quantity::Wait.row().label, Align::Right)]);
    let columns = [
        stat(Quantity::WaitMax, Stat::Value, "longest"),
        of(Quantity::Sleep),
        stat(Quantity::WakeupLatency, P50, "wakeup to run: p50"),
        stat(Quantity::WakeupLatency, P99, "p99"),
        stat(Quantity::WakeupLatency, Stat::Max, "max"),
    ];
    let mut table = table_of(&first, heads(&columns));
    for task in tasks {
        let mut row = vec![recorded::name(summary, task)];
        row.extend(ids.cells(task));
        row.extend([policy_text(task.attr), recorded::unsure(task.wait, task.wait_unsure)]);
        row.extend(cells(&columns, Subject::Task(task, summary.elapsed)));
        table.push(row);
    }
    table
}

fn service_table(summary: &Summary) -> Table {
    let columns = [
        of(Quantity::RequestsCompleted),
        stat(Quantity::RequestLatency, P50, "p50"),
        stat(Quantity::RequestLatency, P90, "p90"),
        stat(Quantity::RequestLatency, P99, "p99"),
        stat(Quantity::RequestLatency, P999, "p99.9"),
        stat(Quantity::RequestLatency, Stat::Max, "max"),
        stat(Quantity::Queued, P99, "in queue: p99"),
    ];
    let last = [("group", Align::Left), ("throttled", Align::Right)];
    let last = last.map(|(name, align)| (name.to_owned(), align));
    let mut table = table_of(&[("service", Align::Left)], heads(&columns).chain(last));
    for (service, subject) in summary.service_subjects() {
        let group = service.group.as_deref();
        let limited = group.and_then(|path| summary.group_subjects().find(|(of, _)| *of.path == *path));
        let throttled = limited.map_or_else(
            || "-".to_owned(),
            |(_, subject)| Amount::of(Quantity::LocalThrottled.into(), subject).to_string(),
        );
        let mut row = vec![shorten(&service.name, NAME_WIDTH)];
        row.extend(cells(&columns, subject));
        row.extend([shorten(group.unwrap_or("/"), NAME_WIDTH), throttled]);
        table.push(row);
    }
    table
}

/// Describes the requests that are not done.
fn write_service_notes(out: &mut String, summary: &Summary) -> fmt::Result {
    for service in summary.services.iter().filter(|service| service.unfinished > 0 || service.dropped > 0) {
        write!(out, "{}: of {} requests", service.name, service.arrived)?;
        if service.unfinished > 0 {
            write!(out, " {} are unfinished and count with their age", service.unfinished)?;
        }
        if service.dropped > 0 {
            let and = if service.unfinished > 0 { "," } else { "" };
            write!(out, "{and} {} were dropped: the queue was full", service.dropped)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn group_table(summary: &Summary, groups: &[&GroupSummary]) -> Table {
    let has_bursts = groups.iter().any(|group| group.stat.nr_bursts > 0 || !group.max.burst.is_zero());
    let first = [("group", Align::Left), ("cpu.max", Align::Left), ("of a cpu", Align::Right)];
    let mut columns = vec![
        of(Quantity::NrPeriods),
        of(Quantity::NrThrottled),
        of(Quantity::Throttled),
        stat(Quantity::LocalThrottled, Stat::Value, "local"),
    ];
    if has_bursts {
        columns.extend([of(Quantity::NrBursts), of(Quantity::Burst)]);
    }
    if groups.iter().any(|group| !group.rt_throttled.is_zero()) {
        columns.push(of(Quantity::RtThrottled));
    }
    let mut table = table_of(&first, heads(&columns));
    for group in groups {
        let mut row = vec![
            shorten(&group.path, NAME_WIDTH),
            CpuMax { burst: Duration::ZERO, slice: None, ..group.max }.to_string(),
            Percent { part: group.usage, whole: summary.elapsed }.to_string(),
        ];
        row.extend(cells(&columns, Subject::Group(group, summary.elapsed)));
        table.push(row);
    }
    table
}

fn cpu_table(summary: &Summary, cpus: &[&CpuSummary]) -> Table {
    let has_unseen = cpus.iter().any(|cpu| !cpu.unseen.is_zero());
    let mut first = vec![("cpu", Align::Right), ("busy", Align::Right)];
    first.extend(has_unseen.then_some(("unseen", Align::Right)));
    let columns = [
        of(Quantity::CpuSwitches),
        of(Quantity::IpisSent),
        stat(Quantity::IpisReceived, Stat::Value, "received"),
        of(Quantity::IpiWork),
        stat(Quantity::IpiWorkMax, Stat::Value, "longest"),
        of(Quantity::LockWait),
        stat(Quantity::LockWaitMax, Stat::Value, "longest"),
    ];
    let mut table = table_of(&first, heads(&columns));
    for cpu in cpus {
        let of_run = |part: Duration| Percent { part, whole: summary.elapsed }.to_string();
        let mut row = vec![cpu.cpu.to_string(), of_run(cpu.busy)];
        row.extend(has_unseen.then(|| of_run(cpu.unseen)));
        row.extend(cells(&columns, Subject::Cpu(cpu)));
        table.push(row);
    }
    table
}

fn layer_table(cpus: &[&CpuSummary]) -> Table {
    let columns: Vec<(&str, Align)> =
        [("cpu", Align::Right)].into_iter().chain(CpuLayer::ALL.map(|layer| (layer.name(), Align::Right))).collect();
    let mut table = Table::new(&columns);
    for cpu in cpus {
        let Some(times) = cpu.layers else { continue };
        let cells = CpuLayer::ALL.map(|layer| Human(times.of(layer)).to_string());
        table.push([cpu.cpu.to_string()].into_iter().chain(cells));
    }
    table
}

fn write_wait(out: &mut String, summary: &Summary, wait: &Wait, limit: usize) -> fmt::Result {
    let name = name_of(summary, Some(wait.task));
    let end = match wait.end {
        WaitEnd::Ran => format!("ran at {}", wait.to),
        WaitEnd::TraceEnded => "still waits at the end".to_owned(),
    };
    writeln!(
        out,
        "{:>8}  {name} ({}) {} at {} on cpu {}, {end}",
        recorded::unsure(wait.length(), wait.unsure),
        prio_text(wait.prio),
        wait.cause.name(),
        wait.from,
        wait.cpu,
    )?;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left), ("", Align::Left)]);
    for by in wait.blocked_by.iter().take(limit) {
        table.push([String::new(), Human(by.time).to_string(), blocker_text(summary, by, wait), String::new()]);
    }
    let rest = wait.blocked_by.iter().skip(limit).fold(Duration::ZERO, |sum, by| sum.saturating_add(by.time));
    for (time, what) in [(rest, "others"), (wait.unexplained(), "(not known)")] {
        if !time.is_zero() {
            table.push([String::new(), Human(time).to_string(), what.to_owned()]);
        }
    }
    for line in table.to_string().lines().skip(1) {
        writeln!(out, "          {}", line.trim_start_matches("  "))?;
    }
    Ok(())
}

fn blocker_text(summary: &Summary, by: &Blocker, wait: &Wait) -> String {
    if let Some(group) = by.throttled {
        let group = summary.groups.iter().find(|known| known.group == group);
        return format!("throttled: {} has used up its limit", group.map_or("its group", |group| &*group.path));
    }
    let name = name_of(summary, by.task);
    match by.task {
        None => name,
        Some(_) => format!("{name} ({}): {}", prio_text(by.prio), by.relation(wait.prio).name()),
    }
}

fn name_of(summary: &Summary, task: Option<TaskId>) -> String {
    task.map_or_else(|| "idle".to_owned(), |task| summary.label(task))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn the_report_is_as_it_was() {
        let text = render(&Metrics::of(&two_hogs_and_a_fifo()), Limits::default());
        assert_eq!(text, include_str!("text/two-hogs-and-a-fifo.txt"));
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let text = render(&Metrics::of(&two_hogs_and_a_fifo()), Limits { tasks: 1, cpus: 1, groups: 1, blockers: 1 });
        assert!(text.contains("(2 more tasks that ran less)"), "{text}");
        assert!(text.contains("(1 more CPUs that ran less)"), "{text}");
        assert!(text.contains("2.00ms  others"), "{text}");
    }
}
