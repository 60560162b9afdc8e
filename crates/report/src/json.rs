//! The figures as JSON.
//!
//! The version in `schema` is raised when a key changes its meaning or is removed; new keys do not
//! raise it. All times are integers in nanoseconds, and their keys say so; figures of groups have
//! the kernel's names and units (`throttled_usec`). Keys are in a fixed order and nothing depends
//! on the host, so equal runs give equal bytes. Data that describes the run and not its result is
//! under `meta`.

use crate::summary::{Migrations, Summary, WaitEnd, policy_text};
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
    serde_json::to_string_pretty(&Document::of(summary))
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    meta: Meta<'a>,
    elapsed_ns: u64,
    idle_ns: u64,
    switches: u64,
    records: u64,
    lost_events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<Vec<Gap>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<&'a str>,
    migrations: BTreeMap<&'static str, u64>,
    tasks: Vec<Task<'a>>,
    cpus: Vec<Cpu>,
    services: Vec<Service<'a>>,
    groups: Vec<Group<'a>>,
    worst_waits: Vec<Wait>,
}

#[derive(Serialize)]
struct Meta<'a> {
    producer: &'a str,
    source: &'static str,
    seed: Option<u64>,
    kernel: &'a str,
    costs: &'a str,
    nr_cpus: usize,
    /// Sockets, LLCs per socket, cores per LLC, threads per core.
    topology: Option<[u32; 4]>,
    start_ns: u64,
    end_ns: u64,
    settings: Vec<Setting<'a>>,
}

#[derive(Serialize)]
struct Setting<'a> {
    key: &'a str,
    value: &'a str,
}

/// Where events of a CPU are missing.
#[derive(Serialize)]
struct Gap {
    cpu: u32,
    from_ns: u64,
    until_ns: u64,
    /// Null if the recorder does not tell.
    events: Option<u64>,
}

/// The figures of a task that only a recording of a kernel has.
#[derive(Serialize)]
struct Recorded<'a> {
    tid: u32,
    pid: Option<u32>,
    process: Option<&'a str>,
    charged_ns: Option<u64>,
    run_ns_in_gaps: u64,
    wait_ns_in_gaps: u64,
}

#[derive(Serialize)]
struct Task<'a> {
    id: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Recorded<'a>>,
    policy: String,
    run_ns: u64,
    exec_ns: Option<u64>,
    wakeups: u64,
    switches_in: u64,
    preemptions: u64,
    migrations: BTreeMap<&'static str, u64>,
    wait_ns: u64,
    wait_ns_max: u64,
    sleep_ns: u64,
    wakeup_latency: Option<Latency>,
    timers: u64,
    timers_missed: u64,
    lateness_ns_max: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dl_overruns: Option<u64>,
}

#[derive(Serialize)]
struct Latency {
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct Cpu {
    id: u32,
    busy_ns: u64,
    idle_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen_ns: Option<u64>,
    switches: u64,
    layers_ns: Option<BTreeMap<&'static str, u64>>,
    lock_wait_ns: u64,
    lock_wait_ns_max: u64,
    ipis_sent: u64,
    ipis_received: u64,
    ipi_work_ns: u64,
    ipi_work_ns_max: u64,
}

#[derive(Serialize)]
struct Service<'a> {
    name: &'a str,
    group: Option<&'a str>,
    arrived: u64,
    completed: u64,
    unfinished: u64,
    dropped: u64,
    /// From the intended arrival to the end.
    request_latency: Option<RequestTimes>,
    /// From the intended arrival until a worker took it.
    queued: Option<RequestTimes>,
}

#[derive(Serialize)]
struct RequestTimes {
    count: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// A task group under the kernel's own names, which contain the units.
#[derive(Serialize)]
struct Group<'a> {
    path: &'a str,
    #[serde(rename = "cpu.max")]
    max: String,
    #[serde(rename = "cpu.max.burst")]
    burst_max_usec: u64,
    #[serde(rename = "cpu.stat")]
    stat: CpuStat,
    #[serde(rename = "cpu.stat.local")]
    local: CpuStatLocal,
}

#[derive(Serialize)]
struct CpuStat {
    usage_usec: u64,
    nr_periods: u64,
    nr_throttled: u64,
    throttled_usec: u64,
    nr_bursts: u64,
    burst_usec: u64,
}

#[derive(Serialize)]
struct CpuStatLocal {
    throttled_usec: u64,
}

#[derive(Serialize)]
struct Wait {
    task: u32,
    prio: i16,
    from_ns: u64,
    to_ns: u64,
    cpu: u32,
    cause: &'static str,
    ended_by: &'static str,
    blocked_by: Vec<Blocker>,
    unexplained_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_gaps_ns: Option<u64>,
}

#[derive(Serialize)]
struct Blocker {
    /// Null if the CPU was idle, or a group was throttled.
    task: Option<u32>,
    /// The throttled group.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    prio: i16,
    relation: &'static str,
    time_ns: u64,
}

impl<'a> Document<'a> {
    fn of(summary: &'a Summary) -> Self {
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
