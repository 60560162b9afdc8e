//! The figures as tables, readable at 100 columns: first the run times, then the waits, then their
//! causes.

mod recorded;

use crate::human::{Human, Percent};
use crate::summary::{
    Blocker, CpuSummary, GroupSummary, NAME_WIDTH, RequestTimes, Summary, TaskSummary, Wait, WaitEnd, policy_text,
    prio_text,
};
use crate::table::{Align, Table, shorten};
use core::fmt::{self, Write};
use zerolag_model::event::Irq;
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
    writeln!(out, " ({}, {})", meta.source, meta.producer)?;
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

fn run_table(summary: &Summary, tasks: &[&TaskSummary]) -> Table {
    let has_timers = tasks.iter().any(|task| task.timers > 0);
    let ids = recorded::Ids::of(tasks);
    let mut columns = vec![("task", Align::Left)];
    columns.extend(ids.columns());
    let before_overruns = columns.len() + 7;
    columns.extend([
        ("policy", Align::Left),
        ("run", Align::Right),
        ("of a cpu", Align::Right),
        ("wakeups", Align::Right),
        ("runs", Align::Right),
        ("preempted", Align::Right),
        ("moves", Align::Right),
    ]);
    if has_timers {
        columns.extend([("timers", Align::Right), ("missed", Align::Right), ("latest", Align::Right)]);
    }
    // Before the timer columns, which only some tasks have.
    let has_overruns = tasks.iter().any(|task| task.dl_overruns.is_some());
    if has_overruns {
        columns.insert(before_overruns, ("overruns", Align::Right));
    }
    let mut table = Table::new(&columns);
    for task in tasks {
        let mut row = vec![recorded::name(summary, task)];
        row.extend(ids.cells(task));
        row.extend([
            policy_text(task.attr),
            recorded::unsure(task.run, task.run_unsure),
            Percent { part: task.run, whole: summary.elapsed }.to_string(),
            task.activations.to_string(),
            task.switches_in.to_string(),
            task.preemptions.to_string(),
            task.migrations.total().to_string(),
        ]);
        if has_overruns {
            row.push(task.dl_overruns.map_or_else(|| "-".to_owned(), |count| count.to_string()));
        }
        if has_timers && task.timers > 0 {
            let late = if task.missed > 0 { Human(task.lateness_max).to_string() } else { "-".to_owned() };
            row.extend([task.timers.to_string(), task.missed.to_string(), late]);
        }
        table.push(row);
    }
    table
}

fn wait_table(summary: &Summary, tasks: &[&TaskSummary]) -> Table {
    let ids = recorded::Ids::of(tasks);
    let mut columns = vec![("task", Align::Left)];
    columns.extend(ids.columns());
    columns.extend([
        ("policy", Align::Left),
        ("waited", Align::Right),
        ("longest", Align::Right),
        ("slept", Align::Right),
        ("wakeup to run: p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ]);
    let mut table = Table::new(&columns);
    for task in tasks {
        let mut row = vec![recorded::name(summary, task)];
        row.extend(ids.cells(task));
        row.extend([
            policy_text(task.attr),
            recorded::unsure(task.wait, task.wait_unsure),
            Human(task.wait_max).to_string(),
            Human(task.sleep).to_string(),
        ]);
        if let Some(latency) = task.latency {
            row.extend([latency.p50, latency.p99, latency.max].map(|time| Human(time).to_string()));
        }
        table.push(row);
    }
    table
}

fn service_table(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        ("service", Align::Left),
        ("done", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("max", Align::Right),
        ("in queue: p99", Align::Right),
        ("group", Align::Left),
        ("throttled", Align::Right),
    ]);
    for service in &summary.services {
        let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| Human(time).to_string());
        let of = |pick: fn(RequestTimes) -> Duration| time(service.latency.map(pick));
        let group = service.group.as_deref();
        table.push([
            shorten(&service.name, NAME_WIDTH),
            service.completed.to_string(),
            of(|times| times.p50),
            of(|times| times.p90),
            of(|times| times.p99),
            of(|times| times.p999),
            of(|times| times.max),
            time(service.queued.map(|times| times.p99)),
            shorten(group.unwrap_or("/"), NAME_WIDTH),
            time(group.and_then(|path| summary.group_by_path(path)).map(|group| group.local_throttled)),
        ]);
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
    let mut columns = vec![
        ("group", Align::Left),
        ("cpu.max", Align::Left),
        ("of a cpu", Align::Right),
        ("nr_periods", Align::Right),
        ("nr_throttled", Align::Right),
        ("throttled", Align::Right),
        ("local", Align::Right),
    ];
    if has_bursts {
        columns.extend([("nr_bursts", Align::Right), ("burst", Align::Right)]);
    }
    let mut table = Table::new(&columns);
    for group in groups {
        let GroupSummary { max, stat, .. } = group;
        let mut row = vec![
            shorten(&group.path, NAME_WIDTH),
            CpuMax { burst: Duration::ZERO, slice: None, ..*max }.to_string(),
            Percent { part: group.usage, whole: summary.elapsed }.to_string(),
            stat.nr_periods.to_string(),
            stat.nr_throttled.to_string(),
            Human(stat.throttled).to_string(),
            Human(group.local_throttled).to_string(),
        ];
        if has_bursts {
            row.extend([stat.nr_bursts.to_string(), Human(stat.burst).to_string()]);
        }
        table.push(row);
    }
    table
}

fn cpu_table(summary: &Summary, cpus: &[&CpuSummary]) -> Table {
    let has_unseen = cpus.iter().any(|cpu| !cpu.unseen.is_zero());
    let mut columns = vec![
        ("cpu", Align::Right),
        ("busy", Align::Right),
        ("switches", Align::Right),
        ("IPIs sent", Align::Right),
        ("received", Align::Right),
        ("in IPI work", Align::Right),
        ("longest", Align::Right),
        ("lock wait", Align::Right),
        ("longest", Align::Right),
    ];
    if has_unseen {
        columns.insert(2, ("unseen", Align::Right));
    }
    let mut table = Table::new(&columns);
    for cpu in cpus {
        let ipi = cpu.irq(Irq::Ipi);
        let mut row = vec![
            cpu.cpu.to_string(),
            Percent { part: cpu.busy, whole: summary.elapsed }.to_string(),
            cpu.switches.to_string(),
            cpu.ipis_sent.to_string(),
            cpu.ipis_received.to_string(),
            Human(ipi.time).to_string(),
            Human(ipi.max).to_string(),
            Human(cpu.lock_wait).to_string(),
            Human(cpu.lock_wait_max).to_string(),
        ];
        if has_unseen {
            row.insert(2, Percent { part: cpu.unseen, whole: summary.elapsed }.to_string());
        }
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
