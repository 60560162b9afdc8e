//! The figures as JSON.
//!
//! The version in `schema` is raised when a key changes its meaning or is removed; new keys do not
//! raise it. All times are integers in nanoseconds, and their keys say so; figures of groups have
//! the kernel's names and units (`throttled_usec`). Keys are in a fixed order and nothing depends
//! on the host, so equal runs give equal bytes. Data that describes the run and not its result is
//! under `meta`.

use crate::figure::{self, Keys, Subject};
use crate::summary::{Migrations, Summary, WaitEnd, policy_text};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use zerolag_model::{CpuLayer, CpuMax, Duration, MigrateReason};
use zerolag_trace::{Machine, Source};

/// The name and version of the schema.
pub const SCHEMA: &str = "zerolag.figures.v2";

/// Renders a summary as JSON with indentation, without a newline at the end.
///
/// # Errors
/// None in practice: every value has a JSON form.
pub fn render(summary: &Summary) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Figures::of(summary))
}

/// The figures of a simulation, of a run on the host, or of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figures<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// What was run or recorded, and where.
    meta: Meta<'a>,
    /// The time from the first to the last instant.
    elapsed_ns: u64,
    /// The figures of the machine.
    #[serde(flatten)]
    machine: Keys<'a, figure::Machine>,
    /// The number of trace events behind the figures.
    records: u64,
    /// The number of events that the recorder lost.
    lost_events: u64,
    /// Of a recording: where events of a CPU are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<Vec<Gap>>,
    /// Of a damaged recording: the part that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<&'a str>,
    /// Of a recording: the parts that were left out, by kind; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped<'a>>,
    /// Of a recording: which task woke which, and by what.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakings: Option<Vec<Waking>>,
    /// The number of migrations by reason; reasons without one are left out.
    migrations: BTreeMap<&'static str, u64>,
    /// The tasks, in order of their ids.
    tasks: Vec<Task<'a>>,
    /// The CPUs, in order of their numbers.
    cpus: Vec<Cpu<'a>>,
    /// The services of the workload.
    services: Vec<Service<'a>>,
    /// The task groups with a limit or a quota.
    groups: Vec<Group<'a>>,
    /// The longest waits for a CPU, the longest first.
    worst_waits: Vec<Wait>,
}

/// What was run or recorded, and where.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Meta<'a> {
    /// The program that made the trace.
    producer: &'a str,
    /// The kind of trace: `simulation`, `runtime`, `text` (a kernel's recording) and others.
    source: &'static str,
    /// Of a recording: the format that was read, `text`, `perf.data`, `trace.dat` or `Perfetto`.
    #[serde(skip_serializing_if = "str::is_empty")]
    format: &'a str,
    /// The seed; null for a recording.
    seed: Option<u64>,
    /// The kernel, or its preset.
    kernel: &'a str,
    /// The name of the cost profile.
    costs: &'a str,
    /// The number of CPUs.
    nr_cpus: usize,
    /// Sockets, LLCs per socket, cores per LLC, threads per core; null if not known.
    topology: Option<[u32; 4]>,
    /// The first instant.
    start_ns: u64,
    /// The last instant.
    end_ns: u64,
    /// The settings of the scheduler that are known.
    settings: Vec<Setting<'a>>,
}

/// A setting of the scheduler.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Setting<'a> {
    /// Its name, as in `zerolag settings`.
    key: &'a str,
    /// Its value, as written after `--set KEY=`.
    value: &'a str,
}

/// Parts of a recording of one kind that were left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Skipped<'a> {
    /// The kind, in the plural.
    what: &'a str,
    /// How many there are.
    count: u64,
    /// The place of the first one.
    first: &'a str,
}

impl<'a> Skipped<'a> {
    /// Returns all of a recording.
    #[must_use]
    pub fn all(skipped: &'a [zerolag_trace::Skipped]) -> Vec<Self> {
        skipped
            .iter()
            .map(|skipped| Self { what: &skipped.what, count: skipped.count, first: &skipped.first })
            .collect()
    }
}

/// Where events of a CPU are missing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Gap {
    /// The CPU.
    cpu: u32,
    /// The last instant before the gap.
    from_ns: u64,
    /// The first instant after the gap.
    until_ns: u64,
    /// The number of missing events; null if the recorder does not tell.
    events: Option<u64>,
}

/// How often a task woke another one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Waking {
    /// The number of the task that woke it; null for an interrupt, or if it is not known.
    waker: Option<u32>,
    /// The number of the task that was woken.
    woken: u32,
    /// By what: `futex`, `pipe`, `socket`, `room` (in a full pipe or socket), `eventfd`, `signal`,
    /// `exit`, `timer`, `disk`, `kernel`, or `unknown` if the recording does not tell.
    by: &'static str,
    /// How often.
    count: u64,
}

impl Waking {
    /// Returns the wakings of a recording.
    #[must_use]
    pub fn all(wakings: &[zerolag_trace::Wakings]) -> Vec<Self> {
        let of = |waking: &zerolag_trace::Wakings| Self {
            waker: waking.waker.map(|waker| waker.0),
            woken: waking.woken.0,
            by: waking.means.name(),
            count: waking.count,
        };
        wakings.iter().map(of).collect()
    }
}

/// The figures of a task that only a recording of a kernel has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Recorded<'a> {
    /// The thread id.
    tid: u32,
    /// The process id.
    pid: Option<u32>,
    /// The name of the process.
    process: Option<&'a str>,
    /// The CPU time that the kernel charged (`sched_stat_runtime`).
    charged_ns: Option<u64>,
    /// The part of `run_ns` in gaps of the recording.
    run_ns_in_gaps: u64,
    /// The part of `wait_ns` in gaps of the recording.
    wait_ns_in_gaps: u64,
}

/// The figures of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Task<'a> {
    /// Its number in the trace.
    id: u32,
    /// Its name: `TASK-INSTANCE` in a simulation.
    name: &'a str,
    /// The figures of a kernel's recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Recorded<'a>>,
    /// Its policy with nice value, priority, or reservation.
    policy: String,
    /// The number of its migrations by reason.
    migrations: BTreeMap<&'static str, u64>,
    /// Its figures.
    #[serde(flatten)]
    figures: Keys<'a, figure::Task>,
}

/// The figures of a CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Cpu<'a> {
    /// Its number.
    id: u32,
    /// The time by layer (task, interrupt, scheduler and others); null for a recording.
    layers_ns: Option<BTreeMap<&'static str, u64>>,
    /// Its figures.
    #[serde(flatten)]
    figures: Keys<'a, figure::Cpu>,
}

/// The figures of a service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Service<'a> {
    /// Its name.
    name: &'a str,
    /// The path of its workers' group.
    group: Option<&'a str>,
    /// Its figures.
    #[serde(flatten)]
    figures: Keys<'a, figure::Service>,
}

/// A task group under the kernel's own names, which contain the units.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Group<'a> {
    /// Its path.
    path: &'a str,
    /// Quota and period in microseconds, as in the kernel's file.
    #[serde(rename = "cpu.max")]
    max: String,
    /// The burst in microseconds, as in the kernel's file.
    #[serde(rename = "cpu.max.burst")]
    burst_max_usec: u64,
    /// The kernel's counters: of the group and the groups below it, and of the group alone.
    #[serde(flatten)]
    figures: Keys<'a, figure::Group>,
}

/// A wait for a CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Wait {
    /// The number of the task.
    task: u32,
    /// Its priority, as the kernel numbers them: smaller is more urgent.
    prio: i16,
    /// Start of the wait.
    from_ns: u64,
    /// The instant at which it ran, or the trace ended.
    to_ns: u64,
    /// The CPU on which it waited last.
    cpu: u32,
    /// How the wait began: a wakeup, a preemption and others.
    cause: &'static str,
    /// `ran` or `trace_ended`.
    ended_by: &'static str,
    /// What the CPU did meanwhile.
    blocked_by: Vec<Blocker>,
    /// The part of the wait that no entry of `blocked_by` accounts for.
    unexplained_ns: u64,
    /// The part of the wait in gaps of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_gaps_ns: Option<u64>,
}

/// What the CPU did while a task waited.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Blocker {
    /// The number of the task that ran; null if the CPU was idle, or a group was throttled.
    task: Option<u32>,
    /// The number of the throttled group.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    /// Its priority, as the kernel numbers them.
    prio: i16,
    /// Its priority compared with that of the waiting task: `higher`, `equal`, `lower` and others.
    relation: &'static str,
    /// The time.
    time_ns: u64,
}

impl<'a> Figures<'a> {
    /// Returns the figures of a summary.
    #[must_use]
    pub fn of(summary: &'a Summary) -> Self {
        Self {
            schema: SCHEMA,
            meta: meta(&summary.meta),
            elapsed_ns: summary.elapsed.as_nanos(),
            machine: Keys::of(Subject::Machine(summary)),
            records: summary.records,
            lost_events: summary.meta.lost_events,
            gaps: (summary.meta.source == Source::Text).then(|| summary.meta.recorded.gaps.iter().map(gap).collect()),
            dropped: summary.meta.recorded.dropped.as_deref(),
            skipped: Skipped::all(&summary.meta.recorded.skipped),
            wakings: (summary.meta.source == Source::Text).then(|| Waking::all(&summary.meta.recorded.wakings)),
            migrations: migrations(&summary.migrations),
            tasks: summary.task_subjects().map(|(of, subject)| task(of, subject)).collect(),
            cpus: summary.cpus.iter().map(cpu).collect(),
            services: summary.service_subjects().map(|(of, subject)| service(of, subject)).collect(),
            groups: summary.group_subjects().map(|(of, subject)| group(of, subject)).collect(),
            worst_waits: summary.worst_waits.iter().map(wait).collect(),
        }
    }
}

fn meta(meta: &zerolag_trace::Meta) -> Meta<'_> {
    Meta {
        producer: &meta.producer,
        source: meta.source.name(),
        format: &meta.recorded.format,
        seed: meta.seed,
        kernel: &meta.kernel,
        costs: &meta.costs,
        nr_cpus: meta.machine.nr_cpus(),
        topology: match &meta.machine {
            Machine::Known(topology) => Some(topology.shape()),
            Machine::Cpus(_) => None,
        },
        start_ns: meta.start.as_nanos(),
        end_ns: meta.end.as_nanos(),
        settings: meta.settings.iter().map(|(key, value)| Setting { key, value }).collect(),
    }
}

fn migrations(migrations: &Migrations) -> BTreeMap<&'static str, u64> {
    let counts = MigrateReason::ALL.map(|reason| (reason.name(), migrations.of(reason)));
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn gap(gap: &zerolag_trace::Gap) -> Gap {
    let events = Some(gap.events).filter(|events| *events > 0);
    Gap { cpu: gap.cpu.0, from_ns: gap.from.as_nanos(), until_ns: gap.until.as_nanos(), events }
}

fn task<'a>(task: &'a crate::TaskSummary, subject: Subject<'a>) -> Task<'a> {
    Task {
        id: task.task.0,
        name: &task.name,
        recorded: task.thread.as_ref().map(|thread| Recorded {
            tid: thread.tid,
            pid: thread.pid,
            process: thread.process.as_deref(),
            charged_ns: thread.charged.map(|charged| charged.as_nanos()),
            run_ns_in_gaps: task.run_unsure.as_nanos(),
            wait_ns_in_gaps: task.wait_unsure.as_nanos(),
        }),
        policy: policy_text(task.attr),
        migrations: migrations(&task.migrations),
        figures: Keys::of(subject),
    }
}

fn cpu(cpu: &crate::CpuSummary) -> Cpu<'_> {
    let layers = cpu.layers.map(|times| CpuLayer::ALL.map(|layer| (layer.name(), times.of(layer).as_nanos())));
    Cpu { id: cpu.cpu.0, layers_ns: layers.map(BTreeMap::from), figures: Keys::of(Subject::Cpu(cpu)) }
}

fn service<'a>(service: &'a crate::ServiceSummary, subject: Subject<'a>) -> Service<'a> {
    Service { name: &service.name, group: service.group.as_deref(), figures: Keys::of(subject) }
}

fn group<'a>(group: &'a crate::GroupSummary, subject: Subject<'a>) -> Group<'a> {
    Group {
        path: &group.path,
        max: CpuMax { burst: Duration::ZERO, slice: None, ..group.max }.to_string(),
        burst_max_usec: group.max.burst.as_micros_floor(),
        figures: Keys::of(subject),
    }
}

fn wait(wait: &crate::Wait) -> Wait {
    Wait {
        task: wait.task.0,
        prio: wait.prio.raw(),
        from_ns: wait.from.as_nanos(),
        to_ns: wait.to.as_nanos(),
        cpu: wait.cpu.0,
        cause: wait.cause.name(),
        ended_by: match wait.end {
            WaitEnd::Ran => "ran",
            WaitEnd::TraceEnded => "trace_ended",
        },
        blocked_by: wait
            .blocked_by
            .iter()
            .map(|by| Blocker {
                task: by.task.map(|task| task.0),
                group: by.throttled.map(|group| group.0),
                prio: by.prio.raw(),
                relation: by.relation(wait.prio).key(),
                time_ns: by.time.as_nanos(),
            })
            .collect(),
        unexplained_ns: wait.unexplained().as_nanos(),
        in_gaps_ns: (!wait.unsure.is_zero()).then(|| wait.unsure.as_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn equal_runs_give_equal_bytes_with_the_figures_in_them() {
        let text = render(&Metrics::of(&two_hogs_and_a_fifo())).unwrap();
        assert_eq!(text, render(&Metrics::of(&two_hogs_and_a_fifo())).unwrap());
        assert!(text.starts_with(
            "{\n  \"schema\": \"zerolag.figures.v2\",\n  \"meta\": {\n    \"producer\": \"zerolag script\","
        ));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tasks"][2]["policy"], "FIFO 5");
        assert_eq!(value["tasks"][0]["run_ns"], 6_000_000);
        assert_eq!(value["worst_waits"][0]["blocked_by"][1]["relation"], "higher");
        assert_eq!(value["meta"]["seed"], serde_json::Value::Null);
    }
}
