//! Runs a workload on the host's own kernel, with the figures of a simulation.
//!
//! [`measure`] converts the result of [`zerolag_linux::run()`] into the [`Summary`] that a
//! simulation ends in. If the kernel's own events were recorded, the figures are computed from
//! them. Otherwise they come from the kernel's counters per thread (`schedstat`) and from the
//! tasks' own records: then only waits after wakeups are known, and the worst waits are not.

use zerolag::results as document;
use zerolag::simulation::figures::{HostFigures, HostGroup, OfCpu, RunEnd, RunFigures};
use zerolag_check::Report as Checks;
use zerolag_linux::{Figures, TaskFigures};
use zerolag_model::{Duration, GroupId, MigrateReason, TraceEvent};
use zerolag_report::quantiles::Quantiles;
use zerolag_report::{Latency, Metrics, Summary, TaskSummary};

/// The result of a run on the host.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// The host's counters.
    pub figures: Figures,
    /// The figures in the form of a simulation's.
    pub summary: Summary,
    /// The monitors' verdicts on the recorded events, if events were recorded.
    pub checks: Option<Checks>,
}

impl HostReport {
    /// Returns the CPU time that other programs used on the CPUs of the run, and the total time; 10
    /// ms grain.
    #[must_use]
    pub fn others(&self) -> (Duration, Duration) {
        let busy: Duration = self.figures.busy.iter().map(|(_, time)| *time).sum();
        let own: Duration = self.figures.tasks.iter().map(|task| task.run).sum();
        (busy.saturating_sub(own), self.figures.busy.iter().map(|_| self.figures.busy_over).sum())
    }

    /// Returns the part of the CPUs that other programs used, in thousandths.
    #[must_use]
    pub fn others_permille(&self) -> u64 {
        let (others, available) = self.others();
        others.as_nanos() * 1000 / available.as_nanos().max(1)
    }
}

/// Converts the figures of a run.
#[must_use]
pub fn measure(figures: Figures) -> HostReport {
    let mut summary = Metrics::of(&figures.trace);
    let checks = figures.is_recorded.then(|| zerolag_check::check(&figures.trace, &zerolag_check::Options::default()));
    for task in &figures.tasks {
        let Ok(at) = summary.tasks.binary_search_by_key(&task.task, |summary| summary.task) else { continue };
        let row = &mut summary.tasks[at];
        row.exec = Some(task.run);
        if !figures.is_recorded {
            fill(row, task, figures.elapsed);
        }
    }
    if !figures.is_recorded {
        summary.switches = figures.tasks.iter().map(|task| task.switches_in).sum();
        for task in &figures.tasks {
            (0..task.migrations).for_each(|_| summary.migrations.count(MigrateReason::Unknown));
        }
        summary.cpus.retain(|row| figures.busy.iter().any(|(cpu, _)| *cpu == row.cpu));
        for row in &mut summary.cpus {
            let busy = figures.busy.iter().find(|(cpu, _)| *cpu == row.cpu).map_or(Duration::ZERO, |(_, time)| *time);
            row.busy = busy.min(figures.elapsed);
            row.idle = figures.busy_over.saturating_sub(busy).min(figures.elapsed.saturating_sub(row.busy));
        }
        summary.worst_waits.clear();
    }
    for group in &figures.groups {
        let Some(row) = summary.groups.iter_mut().find(|row| *row.path == *group.path) else { continue };
        row.max = group.max;
        (row.usage, row.stat, row.local_throttled) = group.counters();
        if row.usage.is_zero() {
            // v1 has CPU time in another controller.
            row.usage = run_below(&figures, &row.path);
        }
    }
    HostReport { figures, summary, checks }
}

/// Returns the CPU time of the tasks that started in a group or below it.
fn run_below(figures: &Figures, path: &str) -> Duration {
    let records = || figures.trace.records.iter().map(|record| &record.event);
    let is_below = |group: GroupId| {
        records().any(|event| match event {
            TraceEvent::GroupNew { group: known, path: of, .. } if *known == group => {
                of.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            _ => false,
        })
    };
    let members = records().filter_map(|event| match event {
        TraceEvent::TaskNew { task, group, .. } if *group != GroupId::ROOT && is_below(*group) => Some(*task),
        _ => None,
    });
    let run = |task| figures.tasks.iter().find(|known| known.task == task).map_or(Duration::ZERO, |task| task.run);
    members.map(run).sum()
}

fn fill(row: &mut TaskSummary, task: &TaskFigures, elapsed: Duration) {
    row.run = task.run;
    row.wait = task.wait;
    row.sleep = elapsed.saturating_sub(task.run).saturating_sub(task.wait);
    row.activations = task.wakeups;
    row.switches_in = task.switches_in;
    row.preemptions = task.preemptions;
    (0..task.migrations).for_each(|_| row.migrations.count(MigrateReason::Unknown));
    row.latency = latency(task);
    row.wait_max = row.latency.as_ref().map_or(Duration::ZERO, |latency| latency.max);
}

fn latency(task: &TaskFigures) -> Option<Latency> {
    let quantile = |thousandths| task.latency(thousandths);
    Some(Latency {
        count: task.latencies.len() as u64,
        p50: quantile(500)?,
        p99: quantile(990)?,
        max: quantile(1000)?,
        quantiles: Quantiles::of_sorted(task.latencies.iter().copied()),
    })
}

impl HostReport {
    /// Returns the result as JSON: the figures of a simulation's, how the run ended, and the
    /// properties of the host. The form is that of `zerolag run --on linux --json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let figures = &self.figures;
        let groups = figures.groups.iter().map(|group| HostGroup {
            path: &group.path,
            stat: group.stat.iter().map(|(key, value)| (&**key, *value)).collect(),
        });
        let host = HostFigures {
            release: &figures.host.release,
            kernel_events_recorded: figures.is_recorded,
            loop_ps: figures.speeds.iter().map(|(cpu, ps)| OfCpu { cpu: cpu.0, value: *ps }).collect(),
            drift_permille: figures.drift.iter().map(|(cpu, drift)| OfCpu { cpu: cpu.0, value: *drift }).collect(),
            busy_ns: figures.busy.iter().map(|(cpu, busy)| OfCpu { cpu: cpu.0, value: busy.as_nanos() }).collect(),
            other_programs_ns: self.others().0.as_nanos(),
            work_ns: figures.tasks.iter().map(|task| task.work.as_nanos()).collect(),
            groups: groups.collect(),
            notes: &figures.notes,
        };
        let why = match figures.end {
            zerolag_linux::End::Duration => "duration",
            zerolag_linux::End::Finished => "finished",
            zerolag_linux::End::Interrupted => "interrupted",
            zerolag_linux::End::Deadlock(_) => "deadlock",
            zerolag_linux::End::Failed(_) => "failed",
        };
        let ended = RunEnd {
            at_ns: figures.elapsed.as_nanos(),
            why,
            says: figures.end.to_string(),
            policy_exit: None,
            refused: None,
            refusals: Vec::new(),
            counts: None,
        };
        let all = RunFigures { host: Some(host), ..RunFigures::of(&self.summary) };
        document::text(&all.ended(ended, self.checks.as_ref()))
    }
}
