//! The base error of an imported workload in results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zerolag_model::Duration;
use zerolag_workload::origin::{BaseErrors, Origin, Unknown};

/// The recording that a workload was imported from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Origin")]
pub struct OriginData {
    /// Its name.
    trace: String,
    /// How far a simulation under the same settings is from it: the sums of the differences of all
    /// tasks as percent of the recorded sums.
    base_error: Percents,
    /// In which way groups are throttled otherwise than recorded, if they are: then nothing of the
    /// recorded settings is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unlike: Option<String>,
    /// What it leaves open, so that each seed draws it; left out if that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown: Option<UnknownData>,
}

/// What a recording leaves open: each seed draws it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Unknown")]
struct UnknownData {
    /// The semaphores at which threads of open clients wait for answers; with an odd seed they do
    /// not.
    answers: Vec<String>,
    /// By how much demands of the work differ between seeds.
    demand_percent: f64,
    /// The group of the work.
    work: String,
}

/// Base errors: of times of tasks as percent of the recorded sums, null if nothing of the kind was
/// recorded (unknown); of throttling as it is counted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BaseErrors")]
struct Percents {
    /// Of CPU times.
    run_percent: Option<f64>,
    /// Of waits; it stands for all figures that have none of their own.
    wait_percent: Option<f64>,
    /// Of wakeup latencies.
    latency_percent: Option<f64>,
    /// By how many the numbers of throttled periods differ; left out if it was not recorded: waits
    /// stand for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nr_throttled: Option<u64>,
    /// The same of the throttled time, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    throttled_ns: Option<u64>,
}

impl From<&Origin> for OriginData {
    fn from(origin: &Origin) -> Self {
        let BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled, throttled } = origin.base_error;
        let throttled_ns = throttled.map(Duration::as_nanos);
        let base_error = Percents { run_percent, wait_percent, latency_percent, nr_throttled, throttled_ns };
        let Unknown { answers, demand, work } = &origin.unknown;
        let unknown = (!origin.unknown.is_nothing()).then(|| UnknownData {
            answers: answers.iter().map(ToString::to_string).collect(),
            demand_percent: demand * 100.0,
            work: work.to_string(),
        });
        let unlike = origin.unlike.as_ref().map(ToString::to_string);
        Self { trace: origin.trace.to_string(), base_error, unlike, unknown }
    }
}

impl From<&OriginData> for Origin {
    fn from(data: &OriginData) -> Self {
        let Percents { run_percent, wait_percent, latency_percent, nr_throttled, throttled_ns } = data.base_error;
        let throttled = throttled_ns.map(Duration::from_nanos);
        let base_error = BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled, throttled };
        let unknown = data.unknown.as_ref().map(|UnknownData { answers, demand_percent, work }| Unknown {
            answers: answers.iter().map(|name| name.as_str().into()).collect(),
            demand: demand_percent / 100.0,
            work: work.as_str().into(),
        });
        let unlike = data.unlike.as_deref().map(Into::into);
        Self { trace: data.trace.as_str().into(), base_error, unlike, unknown: unknown.unwrap_or_default() }
    }
}
