//! The figures as tables of a page.

use super::About;
use crate::simulation::Plan;
use zerolag_html::page::{Body, Section};
use zerolag_model::{Duration, KernelVersion};
use zerolag_report::Summary;
use zerolag_report::figure::{Amount, Figure, Owner, P50, P99, Quantity, Stat, Subject};
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

/// Returns a time of which a part lies in gaps of a recording.
fn unsure(all: Duration, in_gaps: Duration) -> String {
    let mark = if in_gaps.is_zero() { "" } else { "~" };
    format!("{mark}{}", Human(all))
}

/// Returns the head and the cells of figures.
fn columns(figures: &[Figure]) -> impl Iterator<Item = String> + '_ {
    figures.iter().map(|figure| figure.label())
}

fn cells<'a>(figures: &'a [Figure], subject: Subject<'a>) -> impl Iterator<Item = String> + 'a {
    figures.iter().map(move |figure| Amount::of(*figure, subject).to_string())
}

fn tasks(summary: &Summary) -> Vec<Vec<String>> {
    let latency = |stat: Stat| Figure::new(Quantity::WakeupLatency, stat);
    let figures = [
        Quantity::WaitMax.into(),
        latency(P50),
        latency(P99),
        latency(Stat::Max),
        Quantity::Wakeups.into(),
        Quantity::Preemptions.into(),
        Quantity::Migrations.into(),
    ];
    let own = [Quantity::Run, Quantity::Share, Quantity::Wait].map(|quantity| quantity.row().label);
    let mut rows = head(&["task", "tid", "policy"]);
    rows[0].extend(own.map(str::to_owned));
    rows[0].extend(columns(&figures).chain(["missed timers".to_owned()]));
    let mut tasks: Vec<_> = summary.tasks.iter().collect();
    tasks.sort_by(|a, b| b.run.cmp(&a.run).then(a.task.cmp(&b.task)));
    rows.extend(tasks.into_iter().take(TASKS).map(|task| {
        let mut row = vec![
            task.name.to_string(),
            task.thread.as_ref().map_or_else(String::new, |thread| thread.tid.to_string()),
            policy_text(task.attr),
            unsure(task.run, task.run_unsure),
            Percent { part: task.run, whole: summary.elapsed }.to_string(),
            unsure(task.wait, task.wait_unsure),
        ];
        row.extend(cells(&figures, Subject::Task(task, summary.elapsed)));
        row.push(if task.timers == 0 { "-".to_owned() } else { format!("{} of {}", task.missed, task.timers) });
        row
    }));
    // Only threads of a recording have ids.
    if summary.tasks.iter().all(|task| task.thread.is_none()) {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    rows
}

fn cpus(summary: &Summary) -> Vec<Vec<String>> {
    let has_gaps = !summary.meta.recorded.gaps.is_empty();
    let mut figures: Vec<Figure> =
        [Quantity::CpuIdle, Quantity::CpuSwitches, Quantity::LockWait, Quantity::IpisSent, Quantity::IpisReceived]
            .map(Figure::from)
            .to_vec();
    figures.extend(has_gaps.then_some(Figure::from(Quantity::CpuUnseen)));
    let mut rows = head(&["cpu", Quantity::CpuBusy.row().label]);
    rows[0].extend(columns(&figures));
    rows.extend(summary.cpus.iter().map(|cpu| {
        let mut row = vec![cpu.cpu.to_string(), Percent { part: cpu.busy, whole: summary.elapsed }.to_string()];
        row.extend(cells(&figures, Subject::Cpu(cpu)));
        row
    }));
    rows
}

fn groups(summary: &Summary) -> Vec<Vec<String>> {
    let is_zero = |quantity: Quantity| {
        let of = |(_, subject): (_, Subject<'_>)| subject.value(quantity.into()).is_none_or(|value| value == 0);
        summary.group_subjects().all(of)
    };
    let all_in_user_mode = is_zero(Quantity::System) && is_zero(Quantity::NiceTime);
    // Pressure is measured where it is asked for. A column of zeros makes the others too narrow on
    // paper.
    let is_shown = |figure: &Figure| match figure.quantity {
        Quantity::User | Quantity::System | Quantity::NiceTime => !all_in_user_mode,
        Quantity::RtThrottled => !is_zero(Quantity::RtThrottled),
        quantity => summary.pressure.is_some() || !quantity.is_of_pressure(),
    };
    let figures: Vec<Figure> = Figure::of(Owner::Group).filter(is_shown).collect();
    let mut rows = head(&["group", "cpu.max"]);
    rows[0].extend(columns(&figures));
    rows.extend(summary.group_subjects().map(|(group, subject)| {
        [group.path.to_string(), group.max.to_string()].into_iter().chain(cells(&figures, subject)).collect()
    }));
    rows
}

fn services(summary: &Summary) -> Vec<Vec<String>> {
    let is_shown = |figure: &Figure| figure.stat != Stat::Count && figure.quantity != Quantity::Queued;
    let mut figures: Vec<Figure> = Figure::of(Owner::Service).filter(is_shown).collect();
    figures.push(Figure::new(Quantity::Queued, P99));
    let mut rows = head(&["service"]);
    rows[0].extend(columns(&figures));
    rows.extend(summary.service_subjects().map(|(service, subject)| {
        core::iter::once(service.name.to_string()).chain(cells(&figures, subject)).collect()
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
    let mut sections = vec![Section::new("Conditions", "", Body::Facts(facts)).folded()];
    if !meta.settings.is_empty() {
        sections.push(settings(meta, plan.map(|plan| plan.kernel)));
    }
    if let Some(plan) = plan {
        let costs = plan.config.costs.shown().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let text = "The time that each operation takes on the simulated machine.";
        sections.push(Section::new("Costs", text, Body::Facts(costs)).folded());
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
    Section::new("Settings", &text, Body::Facts(all)).folded()
}
