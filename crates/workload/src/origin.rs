//! [`Origin`]: the recording that a workload was imported from, and how close its simulation comes.
//!
//! A simulation of an imported workload differs from the recording also under the same settings:
//! by its base error. So an effect of a changed setting that is smaller says nothing, and is
//! answered with "cannot tell".
//!
//! And a recording leaves open what would have happened under other settings. Each seed is one
//! answer to that ([`Unknown`]), so the range of a figure over seeds has all of them, and a search
//! that wants a goal met with nearly all seeds chooses by the bad end.

use crate::program::{Action, Program, Resource, ResourceKind, is_below};
use crate::random::Dist;
use std::fmt;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_model::figure::{Figure, Quantity};

/// The recording that a workload was imported from.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    /// Its name.
    pub trace: Arc<str>,
    /// How far the simulation is from it under the same settings.
    pub base_error: BaseErrors,
    /// In which way groups are throttled otherwise than recorded, as half a sentence, if they are:
    /// then the simulation promises nothing of the recorded settings, nor of less.
    pub unlike: Option<Arc<str>>,
    /// What it leaves open.
    pub unknown: Unknown,
}

/// What a recording leaves open: each seed draws it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Unknown {
    /// The semaphores at which threads of open clients wait for answers of the work. A client that
    /// sends at times of its own has threads that wait for answers; whether what they would have
    /// sent meanwhile is late, or another thread sends it, no recording tells. With an even seed
    /// they wait, so that delays of the work delay its requests; with an odd one they do not.
    pub answers: Vec<Arc<str>>,
    /// By which share the demands of the work can be smaller or larger: as far as those of parts of
    /// the recording are from each other. Zero with seed 0.
    pub demand: f64,
    /// The group of the work, of whose tasks the demand is.
    pub work: Arc<str>,
}

impl Unknown {
    /// Returns whether there is nothing to be drawn.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.answers.is_empty() && self.demand == 0.0
    }

    /// Returns by how much a seed multiplies demands: seeds in a row are spread evenly.
    fn factor(&self, seed: u64) -> f64 {
        // The golden ratio's fraction of 2^64: multiples of it, as fractions, fill the unit
        // interval evenly, however many there are.
        let place = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1 << 63) as f64 / 2_f64.powi(64);
        1.0 + self.demand * (2.0 * place - 1.0)
    }

    /// Returns the program as this seed draws it. O(its actions).
    pub(crate) fn drawn(&self, program: &Program, seed: u64) -> Program {
        let mut drawn = program.clone();
        let named = |(of, _): &(&Resource, usize)| {
            matches!(of.kind, ResourceKind::Semaphore { .. }) && self.answers.contains(&of.name)
        };
        let ignored: Vec<usize> = match seed % 2 {
            0 => Vec::new(),
            _ => program.resources.iter().zip(0..).filter(named).map(|(_, index)| index).collect(),
        };
        let factor = self.factor(seed);
        for task in &mut drawn.tasks {
            let path = task.group.map_or("/", |group| &*program.groups[group].path);
            let is_work = is_below(path, &self.work);
            for phase in &mut task.phases {
                let has_others =
                    |action: &Action| !matches!(action, Action::SemWait(of) if ignored.contains(&of.index()));
                if !ignored.is_empty() && phase.actions.iter().any(has_others) {
                    phase.actions.retain(has_others);
                }
                for action in phase.actions.iter_mut().filter(|_| is_work && factor != 1.0) {
                    if let Action::Run(Dist::Constant(demand)) = action {
                        *demand = Duration::from_nanos((demand.as_nanos() as f64 * factor).round() as u64);
                    }
                }
            }
        }
        drawn
    }
}

/// Differences between recorded and simulated figures. Of times of tasks: the sum over tasks, as
/// percent of the recorded sum; `None` is unknown: nothing of the kind was recorded, so that
/// nothing can be said of any effect. Of throttling: as it is counted, for a share of no throttled
/// period hides every effect.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BaseErrors {
    /// Of CPU times.
    pub run_percent: Option<f64>,
    /// Of the times for which tasks were runnable and did not run.
    pub wait_percent: Option<f64>,
    /// Of median wakeup latencies.
    pub latency_percent: Option<f64>,
    /// Of the periods in which groups were throttled; `None` if their counters were not recorded:
    /// then waits stand for them.
    pub nr_throttled: Option<u64>,
    /// The same of the time for which they were throttled.
    pub throttled: Option<Duration>,
}

/// How far a figure can be from what would be measured, so that a smaller effect says nothing.
///
/// ```
/// use zerolag_workload::origin::Apart;
///
/// let quarter = Apart::Share(0.25);
/// assert!(quarter.hides(80.0, 100.0) && quarter.hides(100.0, 75.0) && !quarter.hides(74.0, 100.0));
/// assert!(Apart::By(9.0).hides(0.0, 9.0) && !Apart::By(9.0).hides(0.0, 10.0));
/// assert!(Apart::UNKNOWN.hides(0.0, 1e9));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Apart {
    /// By this share of the larger value.
    Share(f64),
    /// By so much, in the smallest unit of the figure.
    By(f64),
}

impl Apart {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self::Share(f64::INFINITY);

    /// Returns the share, if it is one.
    #[must_use]
    pub const fn share(self) -> Option<f64> {
        match self {
            Self::Share(share) => Some(share),
            Self::By(_) => None,
        }
    }

    /// Returns whether it is not known that two values differ.
    #[must_use]
    pub fn hides(self, before: f64, after: f64) -> bool {
        self == Self::UNKNOWN
            || match self {
                Self::Share(share) => (before - after).abs() <= share * before.max(after),
                Self::By(by) => (before - after).abs() <= by,
            }
    }
}

impl BaseErrors {
    /// Returns the base error of a figure. CPU time, wakeup latency and, if it was recorded,
    /// throttling have their own; what else changes does so by waits.
    #[must_use]
    pub fn of(&self, figure: Figure) -> Apart {
        let percent = match figure.quantity {
            Quantity::Run | Quantity::Share | Quantity::Exec => self.run_percent,
            Quantity::WakeupLatency => self.latency_percent,
            Quantity::NrThrottled => match self.nr_throttled {
                Some(periods) => return Apart::By(periods as f64),
                None => self.wait_percent,
            },
            Quantity::Throttled | Quantity::LocalThrottled | Quantity::RtThrottled => match self.throttled {
                Some(time) => return Apart::By(time.as_nanos() as f64),
                None => self.wait_percent,
            },
            Quantity::GroupUsage | Quantity::GroupShare => self.run_percent,
            _ => self.wait_percent,
        };
        percent.map_or(Apart::UNKNOWN, |percent| Apart::Share(percent / 100.0))
    }
}

/// A base error that is not known, in a file.
pub const UNKNOWN: &str = "unknown";

/// The answer where an effect is smaller than the base error.
pub const CANNOT_TELL: &str = "cannot tell";

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, errors) = (zerolag_model::text::name(&self.trace), &self.base_error);
        write!(
            f,
            "imported from {name}, base error {errors}: of a smaller effect nothing is known (\"{CANNOT_TELL}\")"
        )?;
        let Unknown { answers, demand, .. } = &self.unknown;
        if !answers.is_empty() {
            let threads = answers.len();
            write!(f, "; each odd seed lets {threads} threads of open clients send without waiting for answers")?;
        }
        if *demand > 0.0 {
            write!(f, "; seeds draw demands of the work within {:.1} %", 100.0 * demand)?;
        }
        Ok(())
    }
}

impl fmt::Display for BaseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_percent, wait_percent, latency_percent, nr_throttled, throttled } = self;
        let text = |percent: &Option<f64>, of: &str| match percent {
            Some(percent) => format!("{percent:.1} % of {of}"),
            None => format!("unknown of {of}"),
        };
        let (run, wait) = (text(run_percent, "CPU time"), text(wait_percent, "waits"));
        write!(f, "{run}, {wait}, {}", text(latency_percent, "wakeup latencies"))?;
        if let Some(periods) = nr_throttled {
            write!(f, ", {periods} throttled periods")?;
        }
        match throttled {
            Some(time) => write!(f, ", {time} of throttled time"),
            None => Ok(()),
        }
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
    use super::Apart::{self, Share};
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
        assert_eq!(
            (&*found.trace, of("*.run"), of("*.wakeup_latency.p99")),
            ("perf.data", Share(0.005), Apart::UNKNOWN)
        );
        assert_eq!(
            (of("*.wait.max"), of("request_latency.p99"), of("/g.nr_throttled")),
            (Share(1.5), Share(1.5), Share(1.5))
        );
        let counted = read("[origin]\ntrace = \"x\"\nbase_error = { nr_throttled = 9, throttled = \"2ms\" }\n");
        let counted = counted.expect("valid").expect("an origin").base_error;
        let of = |figure: &str| counted.of(Figure::parse(figure).expect("a figure").1);
        assert_eq!((of("/g.nr_throttled"), of("/g.throttled")), (Apart::By(9.0), Apart::By(2e6)));
        let unknown = read("[origin]\ntrace = \"x\"\nbase_error = { run = \"unknown\", wait = \"0%\" }\n");
        let unknown = unknown.expect("valid").expect("an origin").base_error;
        assert_eq!((unknown.run_percent, unknown.wait_percent, unknown.latency_percent), (None, Some(0.0), None));
        assert!(unknown.to_string().starts_with("unknown of CPU time, 0.0 % of waits"), "{unknown}");
        assert!(!Share(0.0).hides(1.0, 2.0));
        let open = "[origin]\ntrace = \"x\"\nbase_error = {}\ndemand = \"4 %\"\nanswers = [\"s\"]\n\
                    [task.b]\nsteps = [{ sem_wait = \"s\" }]\n";
        let unknown = read(open).expect("valid").expect("an origin").unknown;
        assert_eq!((&*unknown.answers[0], unknown.demand, &*unknown.work), ("s", 0.04, "/"));
        for wrong in [
            "[origin]\nbase_error = {}\ndemand = \"51%\"\n",
            "[origin]\nbase_error = {}\nanswers = \"s\"\n",
            "[origin]\nbase_error = {}\nanswers = [\"none\"]\n",
            "[origin]\ntrace = \"x\"\n",
            "[origin]\nbase_error = 3\n",
            "[origin]\nbase_error = { run = \"-1%\" }\n",
            "[origin]\nbase_error = { run = \"nan%\" }\n",
            "[origin]\nbase_error = { walk = \"1%\" }\n",
            "[origin]\nbase_error = { nr_throttled = \"4%\" }\n",
            "[origin]\nfile = \"x\"\nbase_error = {}\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
