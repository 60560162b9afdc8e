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
/// recorded sums. `None` is unknown: nothing of the kind was recorded, so that nothing can be said
/// of any effect.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BaseErrors {
    /// Of CPU times.
    pub run_percent: Option<f64>,
    /// Of the times for which tasks were runnable and did not run.
    pub wait_percent: Option<f64>,
    /// Of median wakeup latencies.
    pub latency_percent: Option<f64>,
    /// Of the periods in which groups were throttled, as percent of the larger number; `None` if
    /// their counters were not recorded: then waits stand for them.
    pub nr_throttled_percent: Option<f64>,
    /// The same of the time for which they were throttled.
    pub throttled_percent: Option<f64>,
}

impl BaseErrors {
    /// Returns the base error of a figure as a share; infinity if it is unknown. CPU time, wakeup
    /// latency and, if it was recorded, throttling have their own; what else changes does so by
    /// waits.
    #[must_use]
    pub fn of(&self, figure: Figure) -> f64 {
        let percent = match figure.quantity {
            Quantity::Run | Quantity::Share | Quantity::Exec => self.run_percent,
            Quantity::WakeupLatency => self.latency_percent,
            Quantity::NrThrottled => self.nr_throttled_percent.or(self.wait_percent),
            Quantity::Throttled | Quantity::LocalThrottled => self.throttled_percent.or(self.wait_percent),
            Quantity::GroupUsage | Quantity::GroupShare => self.run_percent,
            _ => self.wait_percent,
        };
        percent.map_or(f64::INFINITY, |percent| percent / 100.0)
    }
}

/// Returns whether two values differ by no more than this share of the larger one: then it is not
/// known that they differ. If the share is infinite it never is.
///
/// ```
/// use zerolag_workload::origin::is_within;
///
/// assert!(is_within(0.25, 80.0, 100.0) && is_within(0.25, 100.0, 75.0));
/// assert!(!is_within(0.25, 74.0, 100.0));
/// ```
#[must_use]
pub fn is_within(base_error: f64, before: f64, after: f64) -> bool {
    base_error == f64::INFINITY || (before - after).abs() <= base_error * before.max(after)
}

/// A base error that is not known, in a file.
pub const UNKNOWN: &str = "unknown";

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
        let Self { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent } = self;
        let text = |percent: &Option<f64>, of: &str| match percent {
            Some(percent) => format!("{percent:.1} % of {of}"),
            None => format!("unknown of {of}"),
        };
        let (run, wait) = (text(run_percent, "CPU time"), text(wait_percent, "waits"));
        write!(f, "{run}, {wait}, {}", text(latency_percent, "wakeup latencies"))?;
        for (percent, of) in [(nr_throttled_percent, "throttled periods"), (throttled_percent, "throttled time")] {
            if let Some(percent) = percent {
                write!(f, ", {percent:.1} % of {of}")?;
            }
        }
        Ok(())
    }
}

/// Reads a percentage, or that it is not known.
pub(crate) fn percent(text: &str) -> Option<Option<f64>> {
    if text.trim() == UNKNOWN {
        return Some(None);
    }
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (percent.is_finite() && percent >= 0.0).then_some(Some(percent))
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
        assert_eq!((&*found.trace, of("*.run"), of("*.wakeup_latency.p99")), ("perf.data", 0.005, f64::INFINITY));
        assert_eq!((of("*.wait.max"), of("request_latency.p99")), (1.5, 1.5));
        let unknown = read("[origin]\ntrace = \"x\"\nbase_error = { run = \"unknown\", wait = \"0%\" }\n");
        let unknown = unknown.expect("valid").expect("an origin").base_error;
        assert_eq!((unknown.run_percent, unknown.wait_percent, unknown.latency_percent), (None, Some(0.0), None));
        assert!(unknown.to_string().starts_with("unknown of CPU time, 0.0 % of waits"), "{unknown}");
        assert!(super::is_within(f64::INFINITY, 0.0, 1e9) && !super::is_within(0.0, 1.0, 2.0));
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
