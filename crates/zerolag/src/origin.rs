//! The base error of an imported workload in results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zerolag_workload::origin::{BaseErrors, Origin};

/// The recording that a workload was imported from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Origin")]
pub struct OriginData {
    /// Its name.
    trace: String,
    /// How far a simulation under the same settings is from it: the sums of the differences of all
    /// tasks as percent of the recorded sums.
    base_error: Percents,
}

/// Base errors, as percent of the recorded sums; null if nothing of the kind was recorded: unknown.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BaseErrors")]
struct Percents {
    /// Of CPU times.
    run_percent: Option<f64>,
    /// Of waits; it stands for all figures that have none of their own.
    wait_percent: Option<f64>,
    /// Of wakeup latencies.
    latency_percent: Option<f64>,
    /// Of the number of throttled periods, as percent of the larger number; left out if it was not
    /// recorded: waits stand for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nr_throttled_percent: Option<f64>,
    /// The same of the throttled time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    throttled_percent: Option<f64>,
}

impl From<&Origin> for OriginData {
    fn from(origin: &Origin) -> Self {
        let BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent } =
            origin.base_error;
        let base_error =
            Percents { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent };
        Self { trace: origin.trace.to_string(), base_error }
    }
}

impl From<&OriginData> for Origin {
    fn from(data: &OriginData) -> Self {
        let Percents { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent } =
            data.base_error;
        let base_error =
            BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent };
        Self { trace: data.trace.as_str().into(), base_error }
    }
}
