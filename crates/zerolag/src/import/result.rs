//! The result of an import: what the scenario is worth, as text and as JSON.

use super::{BaseError, GroupError, Import, RequestError, TaskError, wakings};
use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use zerolag_report::json::{Skipped, Waking};
use zerolag_trace::{Source, Trace};

/// The result of `zerolag import`.
pub(crate) const DOCUMENT: Document = Document::of::<Imported<'_>>(SCHEMA, "import");
const SCHEMA: &str = "zerolag.import.v1";

/// A workload that was made of a trace, and how far its simulation is from it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Imported<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The kernel preset of the scenario.
    kernel: String,
    /// Whether the trace or the user names it; if not it is a guess.
    kernel_known: bool,
    /// The number of tasks of the trace that the scenario has.
    tasks: usize,
    /// The number of events that the recorder lost.
    lost_events: u64,
    /// The number of intervals from which events of a CPU are missing.
    gaps: Option<usize>,
    /// Of a damaged recording: the part that could not be read.
    dropped: Option<&'a str>,
    /// The parts that were left out, by kind; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped<'a>>,
    /// How far the simulation is from the recording, under the same settings.
    base_error: Error,
    /// The group that `base_error` is of; left out if it is of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<&'a str>,
    /// The error of the whole machine, beside that of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine_error: Option<Error>,
    /// The groups whose counters were saved before and after the recording, by path; left out if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    group_errors: Vec<OfGroup<'a>>,
    /// The requests of services whose messages were recorded; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    request_errors: Vec<OfRequests<'a>>,
    /// Each task of the scenario, those with the most recorded CPU time first.
    task_errors: Vec<OfTask<'a>>,
    /// Which task woke which, and by what; the numbers are those of the trace, as in `report`.
    wakings: Vec<Waking>,
}

/// How much a group was throttled, recorded and simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct OfGroup<'a> {
    /// Its path.
    path: &'a str,
    /// The number of throttled periods.
    nr_throttled: u64,
    /// The same, simulated.
    nr_throttled_simulated: u64,
    /// The time for which it was throttled, added up over CPUs.
    throttled_ns: u64,
    /// The same, simulated.
    throttled_simulated_ns: u64,
}

impl<'a> OfGroup<'a> {
    fn of(error: &'a GroupError) -> Self {
        let GroupError { path, recorded, simulated } = error;
        Self {
            path,
            nr_throttled: recorded.periods,
            nr_throttled_simulated: simulated.periods,
            throttled_ns: recorded.time.as_nanos(),
            throttled_simulated_ns: simulated.time.as_nanos(),
        }
    }
}

/// How long the requests of a service took until the answer was sent, recorded and simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct OfRequests<'a> {
    /// The name of the service.
    service: &'a str,
    /// The number of answered requests.
    completed: usize,
    /// The same, simulated.
    completed_simulated: usize,
    /// Their median.
    p50_ns: u64,
    /// The same, simulated.
    p50_simulated_ns: u64,
    /// One in a hundred is longer.
    p99_ns: u64,
    /// The same, simulated.
    p99_simulated_ns: u64,
}

impl<'a> OfRequests<'a> {
    fn of(error: &'a RequestError) -> Self {
        let RequestError { service, count, p50, p99 } = error;
        Self {
            service,
            completed: count.0,
            completed_simulated: count.1,
            p50_ns: p50.0.as_nanos(),
            p50_simulated_ns: p50.1.as_nanos(),
            p99_ns: p99.0.as_nanos(),
            p99_simulated_ns: p99.1.as_nanos(),
        }
    }
}

/// Recorded times, and the sums of the differences of all tasks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Error {
    /// The recorded CPU time.
    run_ns: u64,
    /// The differences of CPU times.
    run_apart_ns: u64,
    /// The recorded time for which tasks were runnable and did not run.
    wait_ns: u64,
    /// The differences of waits.
    wait_apart_ns: u64,
    /// The simulated waits of all tasks.
    wait_simulated_ns: u64,
    /// The recorded medians of wakeup latencies, each times the number of wakeups.
    latency_ns: u64,
    /// The differences of these.
    latency_apart_ns: u64,
}

/// A task, recorded and simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct OfTask<'a> {
    /// Its name.
    name: &'a str,
    /// Its CPU time.
    run_ns: u64,
    /// Its simulated CPU time.
    run_simulated_ns: u64,
    /// The time for which it was runnable and did not run.
    wait_ns: u64,
    /// The same, simulated.
    wait_simulated_ns: u64,
    /// The median of its wakeup latencies; null if it has none on either side.
    latency_p50_ns: Option<u64>,
    /// The same, simulated.
    latency_p50_simulated_ns: Option<u64>,
}

/// Returns the result as JSON.
#[must_use]
pub fn to_json(trace: &Trace, import: &Import, base: &BaseError) -> String {
    document::text(&Imported {
        schema: SCHEMA,
        kernel: import.kernel.name(),
        kernel_known: import.is_kernel_known,
        tasks: import.tasks.iter().map(Vec::len).sum(),
        lost_events: trace.meta.lost_events,
        gaps: (trace.meta.source == Source::Text).then_some(trace.meta.recorded.gaps.len()),
        dropped: trace.meta.recorded.dropped.as_deref(),
        skipped: Skipped::all(&trace.meta.recorded.skipped),
        base_error: error(base),
        work: base.work.as_deref(),
        machine_error: base.work.as_ref().map(|_| error(&base.machine())),
        group_errors: base.groups.iter().map(OfGroup::of).collect(),
        request_errors: base.requests.iter().map(OfRequests::of).collect(),
        task_errors: base.tasks.iter().chain(&base.others).map(of_task).collect(),
        wakings: Waking::all(&trace.meta.recorded.wakings),
    })
}

fn error(base: &BaseError) -> Error {
    let (run, wait, latency) = (base.run(), base.wait(), base.latency());
    Error {
        run_ns: run.0.as_nanos(),
        run_apart_ns: run.1.as_nanos(),
        wait_ns: wait.0.as_nanos(),
        wait_apart_ns: wait.1.as_nanos(),
        wait_simulated_ns: base.wait_totals().1.as_nanos(),
        latency_ns: latency.0.as_nanos(),
        latency_apart_ns: latency.1.as_nanos(),
    }
}

fn of_task(task: &TaskError) -> OfTask<'_> {
    OfTask {
        name: &task.name,
        run_ns: task.run.0.as_nanos(),
        run_simulated_ns: task.run.1.as_nanos(),
        wait_ns: task.wait.0.as_nanos(),
        wait_simulated_ns: task.wait.1.as_nanos(),
        latency_p50_ns: task.latency.map(|((recorded, _), _)| recorded.as_nanos()),
        latency_p50_simulated_ns: task.latency.map(|((_, simulated), _)| simulated.as_nanos()),
    }
}

/// Returns the result as text: the base error, and by what tasks were woken.
#[must_use]
pub fn text(trace: &Trace, base: &BaseError) -> String {
    format!("{base}{}\n", wakings::sentence(&trace.meta.recorded.wakings))
}
