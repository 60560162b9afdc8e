//! The figures as tables of a page.

use super::About;
use crate::simulation::Plan;
use zerolag_html::page::{Body, Section};
use zerolag_model::{Duration, KernelVersion};
use zerolag_report::Summary;
use zerolag_report::human::{Human, Percent};
use zerolag_report::summary::policy_text;
use zerolag_trace::Meta;

/// The most tasks of the table.
const TASKS: usize = 200;

/// Returns the tables of tasks, CPUs, groups and services.
pub(super) fn figures(summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    if !summary.services.is_empty() {
        sections.push(Section::new("Services", "", Body::Table(services(summary))));
    }
    if !summary.groups.is_empty() {
        sections.push(Section::new("Groups", "", Body::Table(groups(summary))));
    }
    let more = summary.tasks.len().saturating_sub(TASKS);
    let text =
        if more > 0 { format!("The {TASKS} tasks that ran longest; {more} more are left out.") } else { String::new() };
    sections.push(Section::new("Tasks", &text, Body::Table(tasks(summary))));
    sections.push(Section::new("CPUs", "", Body::Table(cpus(summary))));
    sections
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn time(time: Duration) -> String {
    Human(time).to_string()
}

/// Returns a time of which a part lies in gaps of a recording.
fn unsure(all: Duration, in_gaps: Duration) -> String {
    let mark = if in_gaps.is_zero() { "" } else { "~" };
    format!("{mark}{}", Human(all))
}

fn tasks(summary: &Summary) -> Vec<Vec<String>> {
    let mut rows = head(&[
        "task",
        "tid",
        "policy",
        "run",
        "share",
        "wait",
        "longest wait",
        "latency p50",
        "p99",
        "max",
        "wakeups",
        "preempted",
        "moves",
        "missed timers",
    ]);
    let mut tasks: Vec<_> = summary.tasks.iter().collect();
    tasks.sort_by(|a, b| b.run.cmp(&a.run).then(a.task.cmp(&b.task)));
    let some = |value: Option<Duration>| value.map_or_else(|| "-".to_owned(), time);
    rows.extend(tasks.into_iter().take(TASKS).map(|task| {
        vec![
            task.name.to_string(),
            task.thread.as_ref().map_or_else(String::new, |thread| thread.tid.to_string()),
            policy_text(task.attr),
            unsure(task.run, task.run_unsure),
            Percent { part: task.run, whole: summary.elapsed }.to_string(),
            unsure(task.wait, task.wait_unsure),
            time(task.wait_max),
            some(task.latency.map(|latency| latency.p50)),
            some(task.latency.map(|latency| latency.p99)),
            some(task.latency.map(|latency| latency.max)),
            task.activations.to_string(),
            task.preemptions.to_string(),
            task.migrations.total().to_string(),
            if task.timers == 0 { "-".to_owned() } else { format!("{} of {}", task.missed, task.timers) },
        ]
    }));
    // Only threads of a recording have ids.
    if summary.tasks.iter().all(|task| task.thread.is_none()) {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    rows
}

fn cpus(summary: &Summary) -> Vec<Vec<String>> {
    let has_gaps = !summary.meta.recorded.gaps.is_empty();
    let mut names = vec!["cpu", "busy", "idle", "switches", "spun for run queues", "IPIs sent", "IPIs received"];
    names.extend(has_gaps.then_some("unseen"));
    let mut rows = head(&names);
    rows.extend(summary.cpus.iter().map(|cpu| {
        let mut row = vec![
            cpu.cpu.to_string(),
            Percent { part: cpu.busy, whole: summary.elapsed }.to_string(),
            time(cpu.idle),
            cpu.switches.to_string(),
            time(cpu.lock_wait),
            cpu.ipis_sent.to_string(),
            cpu.ipis_received.to_string(),
        ];
        row.extend(has_gaps.then(|| time(cpu.unseen)));
        row
    }));
    rows
}

fn groups(summary: &Summary) -> Vec<Vec<String>> {
    let mut rows = head(&["group", "cpu.max", "usage", "periods", "throttled in", "throttled for", "burst"]);
    rows.extend(summary.groups.iter().map(|group| {
        vec![
            group.path.to_string(),
            group.max.to_string(),
            time(group.usage),
            group.stat.nr_periods.to_string(),
            group.stat.nr_throttled.to_string(),
            time(group.stat.throttled),
            time(group.stat.burst),
        ]
    }));
    rows
}

fn services(summary: &Summary) -> Vec<Vec<String>> {
    let mut rows = head(&["service", "arrived", "done", "dropped", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    rows.extend(summary.services.iter().map(|service| {
        let some = |of: fn(zerolag_report::RequestTimes) -> Duration| {
            service.latency.map_or_else(|| "-".to_owned(), |times| time(of(times)))
        };
        vec![
            service.name.to_string(),
            service.arrived.to_string(),
            service.completed.to_string(),
            service.dropped.to_string(),
            some(|times| times.mean),
            some(|times| times.p50),
            some(|times| times.p90),
            some(|times| times.p99),
            some(|times| times.p999),
            some(|times| times.max),
        ]
    }));
    rows
}

/// Returns what the run depends on: the conditions, settings and costs.
pub(super) fn conditions(about: &About, meta: &Meta, plan: Option<&Plan>) -> Vec<Section> {
    let mut facts = vec![
        ("command".to_owned(), about.command.clone()),
        ("version".to_owned(), meta.producer.clone()),
        ("source".to_owned(), meta.source.name().to_owned()),
        ("machine".to_owned(), meta.machine.to_string()),
    ];
    let mut push = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((name.to_owned(), value));
        }
    };
    push("kernel", meta.kernel.clone());
    push("seed", meta.seed.map(|seed| seed.to_string()).unwrap_or_default());
    push("costs", meta.costs.clone());
    let duration = plan.and_then(|plan| plan.config.duration);
    push("duration", duration.map(|duration| duration.to_string()).unwrap_or_default());
    if meta.lost_events > 0 {
        push("lost events", meta.lost_events.to_string());
    }
    let mut sections = vec![Section::new("Conditions", "", Body::Facts(facts))];
    if !meta.settings.is_empty() {
        sections.push(settings(meta, plan.map(|plan| plan.kernel)));
    }
    if let Some(plan) = plan {
        let costs = plan.config.costs.shown().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        sections.push(Section::new(
            "Costs",
            "The time that each operation takes on the simulated machine.",
            Body::Facts(costs),
        ));
    }
    sections
}

/// Returns the settings; those that differ from their kernel's come first.
fn settings(meta: &Meta, kernel: Option<KernelVersion>) -> Section {
    let usual: Vec<(&str, String)> = kernel.map(|kernel| kernel.settings().recorded().collect()).unwrap_or_default();
    let of_kernel = |key: &str| usual.iter().find(|(other, _)| *other == key).map(|(_, value)| value);
    let (changed, same): (Vec<_>, Vec<_>) =
        meta.settings.iter().partition(|(key, value)| of_kernel(key).is_some_and(|usual| usual != value));
    let text = match (kernel, changed.len()) {
        (None, _) => String::new(),
        (Some(kernel), 0) => format!("All are those of {kernel}."),
        (Some(kernel), n) => format!("{n} differ from those of {kernel}; they come first."),
    };
    let changed = changed.into_iter().map(|(key, value)| {
        let usual = of_kernel(key).cloned().unwrap_or_default();
        (key.clone(), format!("{value} (instead of {usual})"))
    });
    let all = changed.chain(same.into_iter().cloned()).collect();
    Section::new("Settings", &text, Body::Facts(all))
}
