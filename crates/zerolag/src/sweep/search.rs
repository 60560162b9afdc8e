//! [`smallest`]: the smallest value of a knob with which a workload meets its goals.
//!
//! Trying all values would take thousands of runs. Bisection needs fewer than twenty values: it
//! ends with a value that meets the goals in every run and, one step below it, one that does not.
//! Between the tried values it assumes that a larger value is never worse. That holds for quota,
//! burst and weight up to the noise of schedules, which common random numbers keep small. All tried
//! values are part of the result.

use super::{Knob, RunError, run_all};
use crate::goals::{self, Verdict};
use crate::simulation::Plan;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_workload::goal::Goal;

/// A tried value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The value: microseconds, threads or a weight.
    pub value: u64,
    /// The value as written into the file.
    pub written: String,
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
    knob.set(&mut program, &value.to_string()).map_err(|error| failed(error.message))?;
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
    Ok(Trial { value, written, verdicts: worst })
}

fn is_worse(verdict: &Verdict, than: &Verdict) -> bool {
    match (verdict.figure, than.figure) {
        (None, _) => true,
        (_, None) => false,
        // The goal's relation decides which figure is the worse one.
        (Some(figure), Some(other)) => figure != other && !verdict.goal.relation.holds(figure, other),
    }
}
