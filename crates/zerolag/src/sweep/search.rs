//! [`smallest`]: the smallest value of a knob with which a workload meets its goals.
//!
//! Trying all values would take thousands of runs. Bisection needs fewer than twenty values: it
//! ends with a value that meets the goals in every run and, one step below it, one that does not.
//! Between the tried values it assumes that a larger value is never worse. That holds for quota,
//! burst and weight up to the noise of schedules, which common random numbers keep small. All tried
//! values are part of the result.

use super::{Knob, RunError, run_all};
use crate::document::{self, Document};
use crate::error::{Error, ValueError};
use crate::goals::{self, GoalResult, Verdict};
use crate::knob::Part;
use crate::limit::Limit;
use crate::simulation::Plan;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_report::plot::{Axis, Mark, Plot};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_workload::goal::Goal;
use zerolag_workload::limits::LimitPart;

/// The result of `zerolag sweep --smallest`.
pub(crate) const DOCUMENT: Document = Document::of::<SmallestValue<'_>>(SCHEMA, "sweep --smallest");
const SCHEMA: &str = "zerolag.sweep.smallest.v1";

/// The smallest value that meets the goals.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SmallestValue<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The runs of each value.
    runs: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The key that was searched for.
    key: &'a str,
    /// The smallest value that meets the goals in every run; null if none does.
    least: Option<&'a str>,
    /// All tried values, in order of value.
    variants: Vec<TriedValue<'a>>,
}

/// A tried value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TriedValue<'a> {
    /// The value, as written.
    name: &'a str,
    /// The value by its key.
    values: BTreeMap<&'a str, &'a str>,
    /// Whether every goal was met in every run.
    met: bool,
    /// The goals, with the figure of the worst run.
    goals: Vec<GoalResult<'a>>,
    /// The limits and weights of groups.
    limits: &'a [Limit],
}

/// A tried value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The value: microseconds, threads or a weight.
    pub value: u64,
    /// The value as written into the file.
    pub written: String,
    /// The limits of groups with this value.
    pub limits: Vec<Limit>,
    /// The result of each goal: that of the run with the worst figure.
    pub verdicts: Vec<Verdict>,
}

impl Trial {
    /// Returns whether every goal was met in every run.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.verdicts.iter().all(Verdict::is_met)
    }
}

/// The result of the search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The smallest value that meets the goals; `None` if no value does.
    pub least: Option<Trial>,
    /// The value one step below, which misses them; or the largest, if no value meets them.
    pub miss: Option<Trial>,
    /// All tried values, in order of value.
    pub trials: Vec<Trial>,
}

/// A search and its result, as text and as JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    /// The name of the knob, as written.
    pub key: String,
    /// Runs per value.
    pub runs: u64,
    /// The seed of the first run.
    pub seed: u64,
    /// The result.
    pub found: Found,
}

impl Search {
    /// Finds the knob of this name, and searches for its smallest value with which the plan meets
    /// the goals, written as in scenarios, with each of `runs` seeds.
    ///
    /// # Errors
    /// The key is no knob or has no smallest value, a goal is wrong, a run failed, or `progress`
    /// ended it.
    pub fn run(
        plan: &Plan,
        key: &str,
        goals: &[String],
        runs: u64,
        progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let known = &*format!("known are {}", Part::ordered_keys());
        let wrong = |message: String, help: &str| Error::input_help(format!("smallest {key}: {message}"), help);
        let knob = match Knob::find(key, &plan.program) {
            None => return Err(Error::input_help(format!("smallest: cannot search for `{key}`"), known)),
            Some(found) => found.map_err(|error| wrong(error.to_string(), &error.help))?,
        };
        if knob.range(&plan.program, plan.config.topology.nr_cpus()).is_none() {
            let help =
                if knob.part == Part::Limit(LimitPart::Burst) { "a burst needs a quota: set cpu.max" } else { known };
            return Err(wrong("it has no smallest value".to_owned(), help));
        }
        let mut refused = Vec::new();
        let mut read = Vec::new();
        for text in goals {
            match Goal::parse(text) {
                Ok(goal) => read.push(goal),
                Err((message, help)) => refused.push(ValueError { help, ..ValueError::new("goal", text, message) }),
            }
        }
        if !refused.is_empty() {
            return Err(Error::Values(refused));
        }
        let found = smallest(plan, knob, &read, runs, progress)?;
        Ok(Self { key: key.to_owned(), runs, seed: plan.config.seed, found })
    }

    /// Returns the search as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let variants = self.found.trials.iter().map(|trial| TriedValue {
            name: &trial.written,
            values: [(&*self.key, &*trial.written)].into(),
            met: trial.is_met(),
            goals: trial.verdicts.iter().map(Verdict::data).collect(),
            limits: &trial.limits,
        });
        document::value(&SmallestValue {
            schema: SCHEMA,
            runs: self.runs,
            seed: self.seed,
            key: &self.key,
            least: self.found.least.as_ref().map(|trial| &*trial.written),
            variants: variants.collect(),
        })
    }
}

impl Search {
    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        self.found.least.as_ref().map_or_else(
            || format!("No {} meets the goals.", self.key),
            |least| format!("The smallest {} is {}.", self.key, least.written),
        )
    }

    /// Returns the tried values under a heading.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let table = self.table();
        // Behind the value, and the limit that it gives if there is one.
        let column = table.to_rows()[0].iter().position(String::is_empty).unwrap_or(1);
        let table = table.name(column, "goals");
        let limits = self.found.least.iter().flat_map(|least| &least.limits).map(|limit| format!(" Limit of {limit}."));
        let how = self.how();
        let how = [how[..1].to_uppercase(), how[1..].to_owned(), ".".to_owned()].concat();
        Titled::new("Tried values", [how].into_iter().chain(limits).collect::<String>(), table)
    }

    /// Returns a plot per goal: the worst run of each tried value.
    #[must_use]
    pub fn plots(&self) -> Vec<Plot> {
        let trials = &self.found.trials;
        let goals = trials.first().map(|trial| &trial.verdicts[..]).unwrap_or_default();
        let names: Vec<&str> = trials.iter().map(|trial| &*trial.written).collect();
        let plot = |(at, verdict): (usize, &Verdict)| {
            let goal = &verdict.goal;
            let (unit, scale) = goals::drawn(goal.figure.unit());
            let figure = |trial: &Trial| Some(trial.verdicts.get(at)?.figure? as f64 * scale);
            let figures: Vec<(f64, f64)> =
                trials.iter().enumerate().filter_map(|(place, trial)| Some((place as f64, figure(trial)?))).collect();
            let all = || figures.iter().map(|(_, figure)| *figure).chain([goal.value as f64 * scale]);
            let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
            // The search begins far from the goal.
            let is_wide = least > 0.0 && most > 20.0 * least;
            let axis = if is_wide { Axis::log("worst run", unit) } else { Axis::linear("worst run", unit) };
            let line = (0..names.len()).map(|place| (place as f64, goal.value as f64 * scale)).collect();
            Plot::new(&goal.text, Axis::categories(&self.key, &names), axis)
                .with("worst run", Mark::Points, figures)
                .with("goal", Mark::Dashed, line)
        };
        goals.iter().enumerate().map(plot).collect()
    }

    fn how(&self) -> String {
        let (tried, runs) = (self.found.trials.len(), self.runs);
        format!(
            "{tried} values tried, {runs} runs each; the worst run decides; the search assumes that a larger value is never worse"
        )
    }

    fn table(&self) -> Table {
        let found = &self.found;
        let goals = found.trials.first().map(|trial| &trial.verdicts[..]).unwrap_or_default();
        // Searches for `cpu.max` have it already.
        let limit_of = |trial: &Trial| match &trial.limits[..] {
            [only] if only.cpu_max != trial.written && only.quota_us.is_some() => Some(only.cpu_max.clone()),
            _ => None,
        };
        let has_limit = found.trials.iter().any(|trial| limit_of(trial).is_some());
        let limit = has_limit.then_some(("cpu.max", Align::Left));
        let heads = [(&*self.key, Align::Left)].into_iter().chain(limit).chain([("", Align::Left)]);
        let heads = heads.chain(goals.iter().map(|verdict| (&*verdict.goal.text, Align::Right)));
        let mut table = Table::new(&heads.collect::<Vec<_>>());
        for trial in &found.trials {
            let met = if trial.is_met() { "met" } else { "missed" };
            let figures = trial.verdicts.iter().map(Verdict::figure_text);
            let limit = has_limit.then(|| limit_of(trial).unwrap_or_default());
            table.push([trial.written.clone()].into_iter().chain(limit).chain([met.to_owned()]).chain(figures));
        }
        table
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, found, .. } = self;
        match &found.least {
            Some(least) => {
                writeln!(f, "the smallest {key} is {}", least.written)?;
                for limit in &least.limits {
                    writeln!(f, "limit of {limit}")?;
                }
                writeln!(f)?;
            }
            None => writeln!(f, "no {key} meets the goals\n")?,
        }
        writeln!(f, "{}\n{}", self.table(), self.how())
    }
}

/// Searches for the smallest value of `knob` with which `plan` meets `goals` with each of `runs`
/// seeds.
///
/// # Errors
/// A run failed, or `progress` ended it.
///
/// # Panics
/// If the knob's values have no order of more and less ([`Knob::range`]).
pub fn smallest(
    plan: &Plan,
    knob: Knob,
    goals: &[Goal],
    runs: u64,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Found, RunError> {
    let nr_cpus = plan.config.topology.nr_cpus();
    let (low, high, step) = knob.range(&plan.program, nr_cpus).expect("the caller has asked for the range");
    let mut trials: Vec<Trial> = Vec::new();
    let mut done = 0;
    let mut meets = |place: u64, trials: &mut Vec<Trial>| -> Result<bool, RunError> {
        let value = (low + place * step).min(high);
        let trial = attempt(plan, knob, value, goals, runs, |runs| progress(done + runs))?;
        done += usize::try_from(runs).unwrap_or(usize::MAX);
        let met = trial.is_met();
        trials.push(trial);
        Ok(met)
    };
    let last = high.saturating_sub(low).div_ceil(step);
    // [missing, meeting]: first the ends, then halves.
    let answer = if meets(0, &mut trials)? {
        Some(0)
    } else if last == 0 {
        None
    } else {
        // Doubling from below: the answer is rarely large, and large values take longest to run.
        let (mut missing, mut meeting) = (0, None);
        let mut place = 1;
        while meeting.is_none() && missing < last {
            place = (place * 2).min(last);
            if meets(place, &mut trials)? {
                meeting = Some(place);
            } else {
                missing = place;
            }
        }
        while let Some(known) = meeting.filter(|known| known - missing > 1) {
            let middle = missing.midpoint(known);
            if meets(middle, &mut trials)? {
                meeting = Some(middle);
            } else {
                missing = middle;
            }
        }
        meeting
    };
    let value_at = |place: u64| (low + place * step).min(high);
    let at = |place: u64| trials.iter().find(|trial| trial.value == value_at(place)).cloned();
    let least = answer.and_then(at);
    let miss = answer.map_or(Some(last), |place| place.checked_sub(1)).and_then(at);
    trials.sort_by_key(|trial| trial.value);
    Ok(Found { least, miss, trials })
}

/// Runs one value with all seeds.
fn attempt(
    plan: &Plan,
    knob: Knob,
    value: u64,
    goals: &[Goal],
    runs: u64,
    progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Trial, RunError> {
    let mut program = (*plan.program).clone();
    let written = knob.written(&program, value);
    let failed = |why: String| RunError::Failed { values: written.clone(), why };
    knob.set(&mut program, &written).map_err(|error| failed(error.message))?;
    let limits = Limit::all(&program);
    let plan = Plan { program: Arc::new(program), ..plan.clone() };
    let seeded: Vec<Plan> = (0..runs).map(|run| plan.clone().with_seed(plan.config.seed.wrapping_add(run))).collect();
    let outcomes = run_all(&seeded, |summary| goals::judge(goals, summary), progress)?;
    let mut worst: Vec<Verdict> = Vec::new();
    for outcome in outcomes {
        let verdicts = outcome.map_err(&failed)?;
        if worst.is_empty() {
            worst = verdicts;
            continue;
        }
        for (worst, verdict) in worst.iter_mut().zip(verdicts) {
            if is_worse(&verdict, worst) {
                *worst = verdict;
            }
        }
    }
    Ok(Trial { value, written, limits, verdicts: worst })
}

fn is_worse(verdict: &Verdict, than: &Verdict) -> bool {
    match (verdict.figure, than.figure) {
        (None, _) => true,
        (_, None) => false,
        // The goal's relation decides which figure is the worse one.
        (Some(figure), Some(other)) => figure != other && !verdict.goal.relation.holds(figure, other),
    }
}
