//! [`smallest`]: the smallest value of a knob with which a workload meets its goals.
//!
//! Trying all values would take thousands of runs. Bisection needs fewer than twenty values, and
//! ends with one that the seeds of the search let pass. That it meets the goals is the statement of
//! other seeds: the [`judge`](super::judge) has the rule. Between the tried values the search
//! assumes that a larger value is never worse. That holds for quota, burst and weight up to the
//! noise of schedules, which common random numbers keep small. All tried values are part of the
//! result.

use super::judge::{Judge, Judged};
use super::{Knob, RunError};
use crate::document::{self, Document};
use crate::error::Error;
use crate::goals::{self, GoalResult, Verdict};
use crate::knob::Part;
use crate::limit::Limit;
use crate::risk::{Below, CONFIDENCE, Misses, Rule, Settled};
use crate::simulation::Plan;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use zerolag_report::plot::{Axis, Mark, Plot};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_workload::limits::LimitPart;

/// The result of `zerolag sweep --smallest`.
pub(crate) const DOCUMENT: Document = Document::of::<SmallestValue<'_>>(SCHEMA, "sweep --smallest");
const SCHEMA: &str = "zerolag.sweep.smallest.v2";

/// The smallest value that meets the goals.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SmallestValue<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The seeds of the search. A value that they let pass is judged by further seeds.
    runs: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The share of all seeds that may miss a goal.
    risk: f64,
    /// The confidence of the answer.
    confidence: f64,
    /// The most fresh seeds of a value.
    most: u64,
    /// The key that was searched for.
    key: &'a str,
    /// The smallest value of which fresh seeds say that it meets the goals often enough; null if
    /// there is none.
    least: Option<&'a str>,
    /// Whether there is no value because more runs than allowed would be needed.
    not_settled: bool,
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
    /// Whether fresh seeds say that the goals are met often enough.
    met: bool,
    /// What is known: `met`, `missed` or `not settled` by fresh seeds; `passed` or `missed` by the
    /// seeds of the search alone.
    state: &'static str,
    /// The runs with the seeds of the search. It ends when the value has missed too often.
    searched: Misses,
    /// The runs with fresh seeds; no runs if the search passed the value over.
    fresh: Misses,
    /// What the true share of misses is below, by the fresh seeds; null without any.
    share_below: Option<f64>,
    /// The goals, with the figure of the worst run.
    goals: Vec<GoalResult<'a>>,
    /// The limits and weights of groups.
    limits: &'a [Limit],
}

/// A tried value.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// The value: microseconds, threads or a weight.
    pub value: u64,
    /// The value as written into the file.
    pub written: String,
    /// The limits of groups with this value.
    pub limits: Vec<Limit>,
    /// What its runs gave.
    pub judged: Judged,
    /// The result of each goal: that of the run with the worst figure.
    pub verdicts: Vec<Verdict>,
    /// Whether the seeds of the search let it pass.
    passes: bool,
}

impl Trial {
    /// Returns whether the goals are met as often as asked, by fresh seeds.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.judged.is_met()
    }

    /// Returns what is known of it in a word.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        match self.judged.settled {
            Some(settled) => settled.name(),
            None if self.passes => "passed",
            None => Settled::Missed.name(),
        }
    }
}

/// The result of the search.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The smallest value that meets the goals; `None` if no value does.
    pub least: Option<Trial>,
    /// Whether there is none because more runs than allowed would be needed.
    pub is_open: bool,
    /// All tried values, in order of value.
    pub trials: Vec<Trial>,
}

/// A search and its result, as text and as JSON.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// The name of the knob, as written.
    pub key: String,
    /// What the answer promises, and the seeds of the search.
    pub rule: Rule,
    /// The seed of the first run.
    pub seed: u64,
    /// The result.
    pub found: Found,
}

impl Search {
    /// Finds the knob of this name, and searches for its smallest value with which the plan meets
    /// the goals, written as in scenarios, as often as the rule asks.
    ///
    /// # Errors The key is no knob or has no smallest value, a goal is wrong, about a figure that
    /// does not exist, about the waits of a service's threads or for less work, a run failed, or
    /// `progress` ended it.
    pub fn run(
        plan: &Plan,
        key: &str,
        goals: &[String],
        rule: Rule,
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
        let goals = goals::read(goals, &plan.program)?;
        let group = matches!(knob.part, Part::Limit(_)).then_some(knob.index);
        let work = goals::work_of(&plan.program, &goals, group)?;
        let mut judge = Judge::new(plan, &goals, rule, progress).counting_work(work);
        let found = smallest(&mut judge, plan, knob)?;
        judge.refuse_unmeasured()?;
        Ok(Self { key: key.to_owned(), rule, seed: plan.config.seed, found })
    }

    /// Returns the search as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let variants = self.found.trials.iter().map(|trial| TriedValue {
            name: &trial.written,
            values: [(&*self.key, &*trial.written)].into(),
            met: trial.is_met(),
            state: trial.state(),
            searched: trial.judged.searched.misses,
            fresh: trial.judged.fresh.misses,
            share_below: trial.judged.share_below(),
            goals: trial.verdicts.iter().map(Verdict::data).collect(),
            limits: &trial.limits,
        });
        document::value(&SmallestValue {
            schema: SCHEMA,
            runs: self.rule.search(),
            seed: self.seed,
            risk: self.rule.risk(),
            confidence: CONFIDENCE,
            most: self.rule.most(),
            key: &self.key,
            least: self.found.least.as_ref().map(|trial| &*trial.written),
            not_settled: self.found.is_open,
            variants: variants.collect(),
        })
    }
}

impl Search {
    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        match &self.found.least {
            Some(least) => format!("The smallest {} is {}: {}.", self.key, least.written, least.judged.says()),
            None if self.found.is_open => format!("{}.", capital(&self.not_settled())),
            None => format!("No {} meets the goals.", self.key),
        }
    }

    /// Says that there is no answer yet.
    fn not_settled(&self) -> String {
        let judged = self.found.trials.iter().rev().find(|trial| trial.judged.settled.is_some());
        let says = judged.map_or_else(String::new, |trial| {
            let runs = trial.judged.fresh.misses.runs;
            format!(" after {runs} runs of {}: {}", trial.written, trial.judged.says())
        });
        format!("not settled{says}, where it was to be below {}", Below(self.rule.risk()))
    }

    /// Returns the tried values under a heading.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let table = self.table();
        // Behind the value, and the limit that it gives if there is one.
        let column = table.to_rows()[0].iter().position(String::is_empty).unwrap_or(1);
        let table = table.name(column, "goals");
        let limits = self.found.least.iter().flat_map(|least| &least.limits).map(|limit| format!(" Limit of {limit}."));
        let how = format!("{}.", capital(&self.how()));
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
        let (tried, rule) = (self.found.trials.len(), self.rule);
        let values = if tried == 1 { "value" } else { "values" };
        format!(
            "{tried} {values} tried with up to {} seeds from {} on; a value that they let pass is judged by fresh seeds, {} \
             without a miss and at most {}; the search assumes that a larger value is never worse",
            rule.search(),
            self.seed,
            rule.needs(),
            rule.most()
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
        let states = [("", Align::Left), ("search", Align::Right), ("fresh seeds", Align::Right)];
        let heads = [(&*self.key, Align::Left)].into_iter().chain(limit).chain(states);
        let heads = heads.chain(goals.iter().map(|verdict| (&*verdict.goal.text, Align::Right)));
        let mut table = Table::new(&heads.collect::<Vec<_>>());
        for trial in &found.trials {
            let states =
                [trial.state().to_owned(), missed(trial.judged.searched.misses), missed(trial.judged.fresh.misses)];
            let figures = trial.verdicts.iter().map(Verdict::figure_text);
            let limit = has_limit.then(|| limit_of(trial).unwrap_or_default());
            table.push([trial.written.clone()].into_iter().chain(limit).chain(states).chain(figures));
        }
        table
    }
}

/// Returns how many runs missed, for a table.
pub(crate) fn missed(misses: Misses) -> String {
    if misses.runs == 0 { "-".to_owned() } else { format!("{} of {}", misses.missed, misses.runs) }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, found, .. } = self;
        match &found.least {
            Some(least) => {
                writeln!(f, "the smallest {key} is {}", least.written)?;
                writeln!(f, "{}", least.judged.says())?;
                for limit in &least.limits {
                    writeln!(f, "limit of {limit}")?;
                }
                writeln!(f)?;
            }
            None if found.is_open => writeln!(f, "{}\n", self.not_settled())?,
            None => writeln!(f, "no {key} meets the goals\n")?,
        }
        writeln!(f, "{}\n{}", self.table(), self.how())
    }
}

/// Searches for the smallest value of `knob` with which a plan meets the goals of its judge.
///
/// # Errors
/// A run failed, or the judge's `progress` ended it.
///
/// # Panics
/// If the knob's values have no order of more and less ([`Knob::range`]).
pub fn smallest<P: FnMut(usize) -> ControlFlow<()>>(
    judge: &mut Judge<'_, P>,
    plan: &Plan,
    knob: Knob,
) -> Result<Found, RunError> {
    let (low, high, step) =
        knob.range(&plan.program, plan.config.topology.nr_cpus()).expect("the caller has asked for the range");
    let value_at = |place: u64| (low + place * step).min(high);
    let program = |place: u64| {
        let mut program = (*plan.program).clone();
        let written = knob.written(&program, value_at(place));
        match knob.set(&mut program, &written) {
            Ok(()) => Ok(program),
            Err(error) => Err(RunError::Failed { values: written, why: error.message }),
        }
    };
    let found = judge.least(high.saturating_sub(low).div_ceil(step), program)?;
    let rule = judge.rule();
    let trial = |(place, judged): (&u64, &Judged)| Trial {
        value: value_at(*place),
        written: knob.written(&plan.program, value_at(*place)),
        limits: Limit::all(&judged.program),
        verdicts: judged.worst(),
        passes: judged.searched.misses.missed <= rule.tolerated(judged.searched.misses.runs),
        judged: judged.clone(),
    };
    let trials: Vec<Trial> = found.tried.iter().map(trial).collect();
    let least = found.answer.and_then(|place| trials.iter().find(|trial| trial.value == value_at(place)).cloned());
    Ok(Found { least, is_open: found.is_open, trials })
}
