//! Why the longest waits were long, in a run and under a changed value.
//!
//! [`Answer`] is the result of `zerolag explain`: the explanation of a simulation or a trace, and
//! that of the same workload with one value changed, as text and as JSON.

use crate::document::{self, Document};
use crate::error::Error;
use crate::goals::Verdict;
use crate::simulation::{Plan, Prepared};
use crate::variant::Label;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use zerolag_model::{Duration, Record};
use zerolag_report::explain::{Bound, Bounded, Explained, ExplainedWaits, Explainer, Explanation, Options, explain};
use zerolag_report::figure::{Quantity, Unit};
use zerolag_report::frame::Frame;
use zerolag_report::human::Human;
use zerolag_sim::{NoTrace, Sink, Tracing};
use zerolag_trace::Trace;
use zerolag_workload::goal::Goal;

/// Explained waits, as they are and, if asked, with a value changed.
///
/// ```
/// use zerolag::explanation::Answer;
/// use zerolag::report::explain::Options;
/// use zerolag::{Simulation, Workload};
///
/// let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"10ms\" }]\nloop = 3\n";
/// let simulation = Simulation::new(Workload::toml(text));
/// let options = Options { worst: 1, ..Options::default() };
/// let answer = Answer::of(&simulation.plan()?, options.clone())?;
/// let answer = answer.what_if("hz", "100", &simulation.set("hz", 100).plan()?, options)?;
/// assert!(answer.to_string().contains("is queued behind a-"));
/// assert_eq!(answer.to_json()["variants"][1]["values"]["hz"], "100");
/// # Ok::<(), zerolag::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    /// The waits as they are.
    pub found: Explanation,
    /// The changed value, and the waits with it.
    pub changed: Option<(Label, Explanation)>,
    /// The seed of the run; `None` for a recorded trace.
    pub seed: Option<u64>,
}

/// The result of `zerolag explain`.
pub(crate) const DOCUMENT: Document = Document::of::<ExplainedVariants<'_>>(SCHEMA, "explain");
const SCHEMA: &str = "zerolag.explain.v4";

/// Explained waits, as they are and with a value changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ExplainedVariants<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The runs of each variant: 1.
    runs: u64,
    /// The seed; null for a recorded trace.
    seed: Option<u64>,
    /// The workload as it is and, with `--what-if`, with the changed value.
    variants: Vec<ExplainedVariant<'a>>,
}

/// The waits of a variant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ExplainedVariant<'a> {
    /// Its name.
    name: &'a str,
    /// The changed value by its key.
    values: BTreeMap<&'a str, &'a str>,
    /// Its waits.
    explanation: ExplainedWaits,
}

/// A sink that explains waits.
struct Listener(Explainer);

impl Sink for Listener {
    fn record(&mut self, record: &Record) {
        self.0.observe(record);
    }
}

impl Answer {
    /// Runs a simulation and explains its waits.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn of(prepared: &Prepared, options: Options) -> Result<Self, Error> {
        let plan = &prepared.plan;
        Ok(Self { found: simulate(plan, options)?, changed: None, seed: Some(plan.config.seed) })
    }

    /// Explains the waits of a trace.
    #[must_use]
    pub fn of_trace(trace: &Trace, options: Options) -> Self {
        Self { found: explain(trace, options), changed: None, seed: None }
    }

    /// Returns the answer with the waits of the same workload under a changed value.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn what_if(self, key: &str, value: &str, prepared: &Prepared, options: Options) -> Result<Self, Error> {
        let label = Label::of_values(vec![(key.to_owned(), value.to_owned())], "");
        Ok(Self { changed: Some((label, simulate(&prepared.plan, options)?)), ..self })
    }

    /// Returns the answer as a table: a row per variant, wait and cause.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let changed = self.changed.iter().map(|(label, found)| (&*label.name, found));
        let all = [(AS_IT_IS, &self.found)].into_iter().chain(changed);
        Explanation::frame(&all.collect::<Vec<_>>())
    }

    /// Returns the answer as JSON: a variant as it is and, if asked, one with the changed value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let first = Label::of_values(Vec::new(), AS_IT_IS);
        let changed = self.changed.iter().map(|(label, found)| (label, found));
        let all = [(&first, &self.found)].into_iter().chain(changed);
        let variants = all.map(|(label, found)| ExplainedVariant {
            name: &label.name,
            values: label.by_key(),
            explanation: found.data(),
        });
        document::value(&ExplainedVariants { schema: SCHEMA, runs: 1, seed: self.seed, variants: variants.collect() })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.found, f)?;
        let Some((change, _)) = &self.changed else { return Ok(()) };
        // The head of the two columns stands behind the first line.
        let heads = [format!(": {AS_IT_IS}, with {}", change.name)].into_iter().chain(std::iter::repeat(String::new()));
        self.changes().into_iter().zip(heads).try_for_each(|(Change { was, is, what }, head)| {
            writeln!(f, "{:>10} {:>10}  {what}{head}", Human(was).to_string(), Human(is).to_string())
        })
    }
}

/// Runs a plan and keeps its records.
///
/// # Errors
/// The program does not fit the machine.
pub fn record(plan: &Plan) -> Result<Trace, Error> {
    let mut machine = plan.build(Tracing::On)?;
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    let mut meta = plan.meta();
    meta.end = outcome.end;
    Ok(Trace { meta, records })
}

fn simulate(plan: &Plan, options: Options) -> Result<Explanation, Error> {
    explained(plan, Options { bounds: bounds(&plan.goals), ..options })
}

fn explained(plan: &Plan, options: Options) -> Result<Explanation, Error> {
    let mut machine = plan.build(Tracing::On)?;
    let mut listener = Listener(Explainer::new(&plan.meta(), options));
    let outcome = machine.run_with(&mut listener, |_, _| ControlFlow::Continue(()));
    let mut explanation = listener.0.finish(outcome.end);
    if plan.has_policy() && !explanation.waits.is_empty() {
        placed(plan, &mut explanation)?;
    }
    Ok(explanation)
}

/// Runs a plan again and notes where its policy had the tasks that waited: only now it is known
/// which.
fn placed(plan: &Plan, explanation: &mut Explanation) -> Result<(), Error> {
    let mut machine = plan.build(Tracing::Off)?;
    machine.keep_policy_steps(explanation.waits.iter().map(|wait| (wait.task, wait.from, wait.to)));
    let last = explanation.waits.iter().map(|wait| wait.to).max().unwrap_or_default();
    machine.run_until(last, &mut NoTrace);
    for (wait, window) in explanation.waits.iter_mut().zip(machine.take_policy_steps()) {
        wait.placed = window.steps;
    }
    Ok(())
}

/// Runs a plan again and returns why it misses goals, a sentence per service and one for waits:
/// the largest parts of the time of what is beyond the missed goals.
///
/// # Errors
/// The program does not fit the machine.
pub fn why_missed(plan: &Plan, verdicts: &[Verdict]) -> Result<Vec<String>, Error> {
    let missed: Vec<Goal> =
        verdicts.iter().filter(|verdict| !verdict.is_met()).map(|verdict| verdict.goal.clone()).collect();
    let bounds = bounds(&missed);
    if bounds.is_empty() {
        return Ok(Vec::new());
    }
    Ok(explained(plan, Options { bounds, ..Options::default() })?.why_missed())
}

/// Returns the longest times that goals allow waits and requests: what misses one is summed apart.
#[must_use]
pub fn bounds(goals: &[Goal]) -> Vec<Bound> {
    let bound = |goal: &Goal| {
        let of = match goal.figure.quantity {
            Quantity::RequestLatency => Bounded::Requests,
            Quantity::WakeupLatency => Bounded::Wakeups,
            Quantity::WaitMax => Bounded::Waits,
            _ => return None,
        };
        let is_longest = goal.figure.unit() == Unit::Time && !goal.wants_more();
        let most = Duration::from_nanos(goal.value);
        is_longest.then(|| Bound { goal: goal.text.clone(), of, owner: goal.task.clone(), most })
    };
    goals.iter().filter_map(bound).collect()
}

/// A time without and with a change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Without it.
    pub(crate) was: Duration,
    /// With it.
    pub(crate) is: Duration,
    /// The time.
    pub(crate) what: String,
}

impl Answer {
    /// Returns the effect of the change: on the longest wait, on all, and on each kind of cause,
    /// the largest difference first. None if nothing was changed.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let changed = self.changed.as_ref();
        changed.map(|(_, after)| difference(&self.found, after)).unwrap_or_default()
    }
}

fn difference(before: &Explanation, after: &Explanation) -> Vec<Change> {
    let times = |of: &Explanation| -> BTreeMap<String, Duration> {
        of.summary.causes.iter().map(|cause| (cause.says.clone(), cause.total)).collect()
    };
    let (was, is) = (times(before), times(after));
    let kinds: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let time = |of: &BTreeMap<String, Duration>, kind| of.get(kind).copied().unwrap_or(Duration::ZERO);
    let mut rows: Vec<(Duration, Duration, &String)> =
        kinds.into_iter().map(|kind| (time(&was, kind), time(&is, kind), kind)).collect();
    rows.sort_by_key(|(was, is, _)| core::cmp::Reverse(if was > is { *was - *is } else { *is - *was }));
    let longest = |of: &Explanation| of.waits.first().map_or(Duration::ZERO, Explained::length);
    let sum = |of: &Explanation| of.summary.total;
    let change = |was, is, what: String| Change { was, is, what };
    let mut changes = vec![
        change(longest(before), longest(after), LONGEST.to_owned()),
        change(sum(before), sum(after), "all waits, of which".to_owned()),
    ];
    let causes = rows.into_iter().filter(|(was, is, _)| was != is).take(SHOWN);
    changes.extend(causes.map(|(was, is, kind)| change(was, is, kind.clone())));
    changes
}

/// The name of the workload without the change.
const AS_IT_IS: &str = "as it is";

const LONGEST: &str = "longest wait";

/// How many kinds of causes the difference lists.
const SHOWN: usize = 20;
