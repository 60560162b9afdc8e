//! [`Origin`]: the recording that a workload was imported from, and how close its simulation comes.
//!
//! A simulation of an imported workload differs from the recording also under the same settings:
//! by its base error. So an effect of a changed setting that is smaller says nothing, and is
//! answered with "cannot tell".

use std::fmt;
use std::sync::Arc;
use zerolag_model::figure::{Figure, Quantity};

/// The recording that a workload was imported from.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    /// Its name.
    pub trace: Arc<str>,
    /// How far the simulation is from it under the same settings.
    pub base_error: BaseErrors,
}

/// Sums of the differences between recorded and simulated figures of tasks, as percent of the
/// recorded sums.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BaseErrors {
    /// Of CPU times.
    pub run_percent: f64,
    /// Of the times for which tasks were runnable and did not run.
    pub wait_percent: f64,
    /// Of median wakeup latencies.
    pub latency_percent: f64,
}

impl BaseErrors {
    /// Returns the base error of a figure as a share. Those of CPU time and of wakeup latency have
    /// their own; what else changes does so by waits.
    #[must_use]
    pub fn of(&self, figure: Figure) -> f64 {
        let percent = match figure.quantity {
            Quantity::Run | Quantity::Share | Quantity::Exec => self.run_percent,
            Quantity::WakeupLatency => self.latency_percent,
            _ => self.wait_percent,
        };
        percent / 100.0
    }
}

/// Returns whether two values differ by no more than this share of the larger one: then it is not
/// known that they differ.
///
/// ```
/// use zerolag_workload::origin::is_within;
///
/// assert!(is_within(0.25, 80.0, 100.0) && is_within(0.25, 100.0, 75.0));
/// assert!(!is_within(0.25, 74.0, 100.0));
/// ```
#[must_use]
pub fn is_within(base_error: f64, before: f64, after: f64) -> bool {
    (before - after).abs() <= base_error * before.max(after)
}

/// The answer where an effect is smaller than the base error.
pub const CANNOT_TELL: &str = "cannot tell";

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, errors) = (zerolag_model::text::name(&self.trace), &self.base_error);
        write!(f, "imported from {name}, base error {errors}: of a smaller effect nothing is known (\"{CANNOT_TELL}\")")
    }
}

impl fmt::Display for BaseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_percent, wait_percent, latency_percent } = self;
        write!(
            f,
            "{run_percent:.1} % of CPU time, {wait_percent:.1} % of waits, {latency_percent:.1} % of wakeup latencies"
        )
    }
}

/// Reads a percentage.
pub(crate) fn percent(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent.is_finite() && percent >= 0.0).then_some(percent)
}

#[cfg(test)]
mod tests {
    use crate::{LoadOptions, load};
    use zerolag_model::figure::Figure;

    #[test]
    fn a_scenario_has_its_base_error() {
        let text = |origin: &str| format!("{origin}[task.a]\nsteps = [{{ run = \"1ms\" }}]\n");
        let read = |origin: &str| {
            load("a.toml", text(origin).as_bytes(), &LoadOptions::default())
                .map(|scenario| scenario.program.origin)
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("").expect("valid"), None);
        let origin = "[origin]\ntrace = \"perf.data\"\nbase_error = { run = \"0.5%\", wait = \"150 %\" }\n";
        let found = read(origin).expect("valid").expect("an origin");
        let of = |figure: &str| found.base_error.of(Figure::parse(figure).expect("a figure").1);
        assert_eq!((&*found.trace, of("*.run"), of("*.wakeup_latency.p99")), ("perf.data", 0.005, 0.0));
        assert_eq!((of("*.wait.max"), of("request_latency.p99")), (1.5, 1.5));
        for wrong in [
            "[origin]\ntrace = \"x\"\n",
            "[origin]\nbase_error = 3\n",
            "[origin]\nbase_error = { run = \"-1%\" }\n",
            "[origin]\nbase_error = { run = \"nan%\" }\n",
            "[origin]\nbase_error = { walk = \"1%\" }\n",
            "[origin]\nfile = \"x\"\nbase_error = {}\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
