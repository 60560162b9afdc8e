//! The JSON of `timerlat` and `osnoise`, and what all tools say of their simulation.
//!
//! The tools print whole microseconds (with `-n` nanoseconds, `timerlat` only). Here all times of
//! `timerlat` are in nanoseconds, rounded as the tool rounds them.

use super::osnoise;
use super::rtla::{Histogram, Latencies};
use super::timerlat;
use schemars::JsonSchema;
use serde::Serialize;
use zerolag::results::{self as document, Document};
use zerolag::simulation::Plan;
use zerolag_model::Duration;

/// The simulation under a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolSimulation")]
pub struct Simulated {
    /// The seed.
    seed: u64,
    /// The name of the cost profile.
    costs: String,
    /// The settings of the scheduler: key and value, as after `--set`.
    settings: Vec<(String, String)>,
}

impl Simulated {
    /// Returns that of a plan.
    #[must_use]
    pub fn by(plan: &Plan) -> Self {
        let meta = plan.meta();
        let settings = meta.settings.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        Self { seed: plan.config.seed, costs: meta.costs.to_string(), settings: settings.collect() }
    }
}

/// The result of `zerolag timerlat`.
pub(crate) const TIMERLAT: Document = Document::of::<TimerlatFigures>(TIMERLAT_SCHEMA, "timerlat");
const TIMERLAT_SCHEMA: &str = "zerolag.timerlat.v1";

/// Latency of a periodic real-time thread per CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TimerlatFigures {
    /// The name and version of this form.
    #[schemars(extend("const" = TIMERLAT_SCHEMA))]
    schema: &'static str,
    /// For how long figures were collected.
    elapsed_ns: u64,
    /// The CPU that passed a threshold and ended the run; null if none did.
    threshold_passed_cpu: Option<u32>,
    /// The CPUs with a thread.
    cpus: Vec<TimerlatCpu>,
    /// The simulation.
    simulation: Simulated,
}

/// The thread of a CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TimerlatCpu {
    /// The CPU.
    cpu: u32,
    /// Lateness of the timer's interrupt.
    irq: LatencyFigures,
    /// Lateness of the thread.
    thread: LatencyFigures,
    /// Lateness of its return to user mode; null without `-u`.
    user: Option<LatencyFigures>,
}

/// Latencies of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LatencyFigures {
    /// The number of samples.
    count: u64,
    /// The smallest; null without samples.
    min_ns: Option<u64>,
    /// The mean, rounded down.
    avg_ns: Option<u64>,
    /// The largest.
    max_ns: Option<u64>,
    /// The classes with samples.
    histogram: Vec<LatencyClass>,
    /// The number of samples beyond the last class.
    over: u64,
}

/// A class of latencies.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct LatencyClass {
    /// The smallest latency of the class.
    from_ns: u64,
    /// The latency at which the next class begins.
    below_ns: u64,
    /// The number of samples.
    count: u64,
}

impl LatencyFigures {
    fn of(of: &Latencies, histogram: Histogram) -> Self {
        let unit = histogram.unit;
        let known = |value: u64| (of.count > 0).then_some(value * unit);
        let width = histogram.bucket * unit;
        let class =
            |(at, count): (u64, &u64)| LatencyClass { from_ns: at * width, below_ns: (at + 1) * width, count: *count };
        let classes = (0..).zip(&of.classes).filter(|(_, count)| **count > 0).map(class);
        Self {
            count: of.count,
            min_ns: known(of.min),
            avg_ns: known(of.avg()),
            max_ns: known(of.max),
            histogram: classes.collect(),
            over: of.over,
        }
    }
}

/// Returns the result of `timerlat` as JSON, with a line break at the end.
#[must_use]
pub fn timerlat(collector: &timerlat::Collector, histogram: Histogram, ran: Duration, plan: &Plan) -> String {
    let cpus = collector.threads().iter().map(|thread| TimerlatCpu {
        cpu: thread.cpu.0,
        irq: LatencyFigures::of(&thread.irq, histogram),
        thread: LatencyFigures::of(&thread.thread, histogram),
        user: collector.is_user().then(|| LatencyFigures::of(&thread.user, histogram)),
    });
    document::text(&TimerlatFigures {
        schema: TIMERLAT_SCHEMA,
        elapsed_ns: ran.as_nanos(),
        threshold_passed_cpu: collector.hit().map(|cpu| cpu.0),
        cpus: cpus.collect(),
        simulation: Simulated::by(plan),
    })
}

/// The result of `zerolag osnoise`.
pub(crate) const OSNOISE: Document = Document::of::<OsnoiseFigures>(OSNOISE_SCHEMA, "osnoise");
const OSNOISE_SCHEMA: &str = "zerolag.osnoise.v1";

/// Interruptions of a busy thread per CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct OsnoiseFigures {
    /// The name and version of this form.
    #[schemars(extend("const" = OSNOISE_SCHEMA))]
    schema: &'static str,
    /// For how long figures were collected.
    elapsed_ns: u64,
    /// The CPU that passed a threshold and ended the run; null if none did.
    threshold_passed_cpu: Option<u32>,
    /// The CPUs with a thread.
    cpus: Vec<OsnoiseCpu>,
    /// The simulation.
    simulation: Simulated,
}

/// The thread of a CPU, over its complete samples. Times are in whole microseconds, as the tracer
/// adds them up.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OsnoiseCpu {
    /// The CPU.
    cpu: u32,
    /// The number of samples.
    periods: u64,
    /// Their length together.
    runtime_us: u64,
    /// The noise in them together.
    noise_us: u64,
    /// The most noise in one sample.
    max_noise_us: u64,
    /// The longest gap.
    max_single_us: u64,
    /// The number of gaps without a recorded cause.
    hw: u64,
    /// The number of NMIs.
    nmi: u64,
    /// The number of interrupts.
    irq: u64,
    /// The number of softirqs.
    softirq: u64,
    /// The number of switches to other threads.
    thread: u64,
    /// The gaps by length, also those of a sample that is not complete.
    gaps: Vec<GapClass>,
    /// The number of gaps beyond the last class.
    gaps_over: u64,
}

/// A class of gaps.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct GapClass {
    /// The shortest gap of the class.
    from_us: u64,
    /// The length at which the next class begins.
    below_us: u64,
    /// The number of gaps.
    count: u64,
}

/// Returns the figures of each CPU.
#[must_use]
pub fn osnoise_cpus(collector: &osnoise::Collector, histogram: Option<Histogram>) -> Vec<OsnoiseCpu> {
    let width = histogram.map_or(1, |histogram| histogram.bucket);
    let class = |(at, count): (u64, &u64)| GapClass { from_us: at * width, below_us: (at + 1) * width, count: *count };
    let cpu = |row: &osnoise::Row| OsnoiseCpu {
        cpu: row.cpu.0,
        periods: row.periods,
        runtime_us: row.runtime,
        noise_us: row.noise.total,
        max_noise_us: row.max_noise,
        max_single_us: row.noise.max_single,
        hw: row.noise.hw,
        nmi: row.noise.nmi,
        irq: row.noise.irq,
        softirq: row.noise.softirq,
        thread: row.noise.thread,
        gaps: (0..).zip(&row.gaps.classes).filter(|(_, count)| **count > 0).map(class).collect(),
        gaps_over: row.gaps.over,
    };
    collector.rows().iter().map(cpu).collect()
}

/// Returns the result of `osnoise` as JSON, with a line break at the end.
#[must_use]
pub fn osnoise(collector: &osnoise::Collector, histogram: Histogram, ran: Duration, plan: &Plan) -> String {
    document::text(&OsnoiseFigures {
        schema: OSNOISE_SCHEMA,
        elapsed_ns: ran.as_nanos(),
        threshold_passed_cpu: collector.hit().map(|cpu| cpu.0),
        cpus: osnoise_cpus(collector, Some(histogram)),
        simulation: Simulated::by(plan),
    })
}
