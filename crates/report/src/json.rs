//! The figures as JSON.
//!
//! The version in `schema` is raised when a key changes its meaning or is removed; new keys do not
//! raise it. All times are integers in nanoseconds, and their keys say so; figures of groups have
//! the kernel's names and units (`throttled_usec`). Keys are in a fixed order and nothing depends
//! on the host, so equal runs give equal bytes. Data that describes the run and not its result is
//! under `meta`.

use crate::summary::{Migrations, Summary, WaitEnd, policy_text};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use zerolag_model::event::Irq;
use zerolag_model::{CpuLayer, CpuMax, Duration, MigrateReason};
use zerolag_trace::{Machine, Source};

/// The name and version of the schema.
pub const SCHEMA: &str = "zerolag.figures.v1";

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
    /// The idle time of all CPUs.
    idle_ns: u64,
    /// The number of context switches.
    switches: u64,
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
    /// Of a recording: which task woke which, and by what.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakings: Option<Vec<Waking>>,
    /// The number of migrations by reason; reasons without one are left out.
    migrations: BTreeMap<&'static str, u64>,
    /// The tasks, in order of their ids.
    tasks: Vec<Task<'a>>,
    /// The CPUs, in order of their numbers.
    cpus: Vec<Cpu>,
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
    /// The time for which it was the current task of a CPU.
    run_ns: u64,
    /// The part of `run_ns` in which it executed, without interrupts; null if not known.
    exec_ns: Option<u64>,
    /// How often it was woken.
    wakeups: u64,
    /// How often it was switched to.
    switches_in: u64,
    /// How often it was preempted.
    preemptions: u64,
    /// The number of its migrations by reason.
    migrations: BTreeMap<&'static str, u64>,
    /// The time for which it was runnable and did not run.
    wait_ns: u64,
    /// The longest such wait.
    wait_ns_max: u64,
    /// The time for which it slept or was blocked.
    sleep_ns: u64,
    /// From the wakeup until it runs; null without a wakeup.
    wakeup_latency: Option<Latency>,
    /// The number of expiries of its timers.
    timers: u64,
    /// The number of expiries that it was too late for.
    timers_missed: u64,
    /// The longest time from an expiry until it continued.
    lateness_ns_max: u64,
    /// How often it overran its deadline budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    dl_overruns: Option<u64>,
}

/// Quantiles of wakeup latencies.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Latency {
    /// The number of samples.
    count: u64,
    /// The median.
    p50_ns: u64,
    /// The 99th percentile.
    p99_ns: u64,
    /// The largest.
    max_ns: u64,
}

/// The figures of a CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Cpu {
    /// Its number.
    id: u32,
    /// The time in tasks, interrupts and the scheduler.
    busy_ns: u64,
    /// The time without work.
    idle_ns: u64,
    /// The time in gaps of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen_ns: Option<u64>,
    /// The number of context switches.
    switches: u64,
    /// The time by layer (task, interrupt, scheduler and others); null for a recording.
    layers_ns: Option<BTreeMap<&'static str, u64>>,
    /// The time spent waiting for run-queue locks.
    lock_wait_ns: u64,
    /// The longest wait for a run-queue lock.
    lock_wait_ns_max: u64,
    /// The number of IPIs sent.
    ipis_sent: u64,
    /// The number of IPIs received.
    ipis_received: u64,
    /// The time in handlers of IPIs.
    ipi_work_ns: u64,
    /// The longest time in one handler of an IPI.
    ipi_work_ns_max: u64,
}

/// The figures of a service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Service<'a> {
    /// Its name.
    name: &'a str,
    /// The path of its workers' group.
    group: Option<&'a str>,
    /// The number of requests that arrived.
    arrived: u64,
    /// The number of requests that were completed.
    completed: u64,
    /// The number of requests under way at the end.
    unfinished: u64,
    /// The number of requests that a full queue refused.
    dropped: u64,
    /// From the intended arrival to the end.
    request_latency: Option<RequestTimes>,
    /// From the intended arrival until a worker took it.
    queued: Option<RequestTimes>,
}

/// Quantiles of request times.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RequestTimes {
    /// The number of requests.
    count: u64,
    /// The mean.
    mean_ns: u64,
    /// The median.
    p50_ns: u64,
    /// The 90th percentile.
    p90_ns: u64,
    /// The 99th percentile.
    p99_ns: u64,
    /// The 99.9th percentile.
    p999_ns: u64,
    /// The largest.
    max_ns: u64,
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
    /// The kernel's counters of the group and the groups below it.
    #[serde(rename = "cpu.stat")]
    stat: CpuStat,
    /// The kernel's counters of the group alone.
    #[serde(rename = "cpu.stat.local")]
    local: CpuStatLocal,
}

/// The kernel's `cpu.stat`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CpuStat {
    /// CPU time.
    usage_usec: u64,
    /// The number of periods in which the group was active.
    nr_periods: u64,
    /// The number of periods in which it was throttled.
    nr_throttled: u64,
    /// The time for which it was throttled, added up over CPUs.
    throttled_usec: u64,
    /// The number of periods in which it used burst.
    nr_bursts: u64,
    /// The CPU time above the quota.
    burst_usec: u64,
}

/// The kernel's `cpu.stat.local`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CpuStatLocal {
    /// The time for which the group was throttled by a limit of itself or of a group above.
    throttled_usec: u64,
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
            idle_ns: summary.idle().0.as_nanos(),
            switches: summary.switches,
            records: summary.records,
            lost_events: summary.meta.lost_events,
            gaps: (summary.meta.source == Source::Text).then(|| summary.meta.recorded.gaps.iter().map(gap).collect()),
            dropped: summary.meta.recorded.dropped.as_deref(),
            wakings: (summary.meta.source == Source::Text).then(|| Waking::all(&summary.meta.recorded.wakings)),
            migrations: migrations(&summary.migrations),
            tasks: summary.tasks.iter().map(task).collect(),
            cpus: summary.cpus.iter().map(cpu).collect(),
            services: summary.services.iter().map(service).collect(),
            groups: summary.groups.iter().map(group).collect(),
            worst_waits: summary.worst_waits.iter().map(wait).collect(),
        }
    }
}

fn meta(meta: &zerolag_trace::Meta) -> Meta<'_> {
    Meta {
        producer: &meta.producer,
        source: meta.source.name(),
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

fn task(task: &crate::TaskSummary) -> Task<'_> {
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
        run_ns: task.run.as_nanos(),
        exec_ns: task.exec.map(|exec| exec.as_nanos()),
        wakeups: task.activations,
        switches_in: task.switches_in,
        preemptions: task.preemptions,
        migrations: migrations(&task.migrations),
        wait_ns: task.wait.as_nanos(),
        wait_ns_max: task.wait_max.as_nanos(),
        sleep_ns: task.sleep.as_nanos(),
        wakeup_latency: task.latency.map(|latency| Latency {
            count: latency.count,
            p50_ns: latency.p50.as_nanos(),
            p99_ns: latency.p99.as_nanos(),
            max_ns: latency.max.as_nanos(),
        }),
        timers: task.timers,
        timers_missed: task.missed,
        lateness_ns_max: task.lateness_max.as_nanos(),
        dl_overruns: task.dl_overruns,
    }
}

fn cpu(cpu: &crate::CpuSummary) -> Cpu {
    let ipi = cpu.irq(Irq::Ipi);
    Cpu {
        id: cpu.cpu.0,
        busy_ns: cpu.busy.as_nanos(),
        idle_ns: cpu.idle.as_nanos(),
        unseen_ns: (!cpu.unseen.is_zero()).then(|| cpu.unseen.as_nanos()),
        switches: cpu.switches,
        layers_ns: cpu
            .layers
            .map(|times| CpuLayer::ALL.map(|layer| (layer.name(), times.of(layer).as_nanos())).into_iter().collect()),
        lock_wait_ns: cpu.lock_wait.as_nanos(),
        lock_wait_ns_max: cpu.lock_wait_max.as_nanos(),
        ipis_sent: cpu.ipis_sent,
        ipis_received: cpu.ipis_received,
        ipi_work_ns: ipi.time.as_nanos(),
        ipi_work_ns_max: ipi.max.as_nanos(),
    }
}

fn service(service: &crate::ServiceSummary) -> Service<'_> {
    let times = |times: crate::RequestTimes| RequestTimes {
        count: times.count,
        mean_ns: times.mean.as_nanos(),
        p50_ns: times.p50.as_nanos(),
        p90_ns: times.p90.as_nanos(),
        p99_ns: times.p99.as_nanos(),
        p999_ns: times.p999.as_nanos(),
        max_ns: times.max.as_nanos(),
    };
    Service {
        name: &service.name,
        group: service.group.as_deref(),
        arrived: service.arrived,
        completed: service.completed,
        unfinished: service.unfinished,
        dropped: service.dropped,
        request_latency: service.latency.map(times),
        queued: service.queued.map(times),
    }
}

fn group(group: &crate::GroupSummary) -> Group<'_> {
    let crate::GroupSummary { max, stat, .. } = group;
    Group {
        path: &group.path,
        max: CpuMax { burst: Duration::ZERO, slice: None, ..*max }.to_string(),
        burst_max_usec: max.burst.as_micros_floor(),
        stat: CpuStat {
            usage_usec: group.usage.as_micros_floor(),
            nr_periods: stat.nr_periods,
            nr_throttled: stat.nr_throttled,
            throttled_usec: stat.throttled.as_micros_floor(),
            nr_bursts: stat.nr_bursts,
            burst_usec: stat.burst.as_micros_floor(),
        },
        local: CpuStatLocal { throttled_usec: group.local_throttled.as_micros_floor() },
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
            "{\n  \"schema\": \"zerolag.figures.v1\",\n  \"meta\": {\n    \"producer\": \"zerolag script\","
        ));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tasks"][2]["policy"], "FIFO 5");
        assert_eq!(value["tasks"][0]["run_ns"], 6_000_000);
        assert_eq!(value["worst_waits"][0]["blocked_by"][1]["relation"], "higher");
        assert_eq!(value["meta"]["seed"], serde_json::Value::Null);
    }
}
