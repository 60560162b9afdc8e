//! Checks the goals of a scenario against the figures of its run.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use zerolag_report::figure::{self, Amount, Figure, Owner, Several, Stat, Subject, Unit};
use zerolag_report::frame::{Frame, Values};
use zerolag_report::{Summary, plot};
use zerolag_workload::goal::{Goal, Relation};

/// The result of a goal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The goal.
    pub goal: Goal,
    /// The figure, in the goal's unit; `None` if there were no samples, which counts as missed.
    pub figure: Option<u64>,
    /// How well it is known.
    pub known: Known,
    /// The thread with the worst figure, if it is that of one thread.
    pub thread: Option<String>,
}

/// How well the figure of a goal is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It was measured.
    Measured,
    /// There were fewer samples than it needs, and it is at most this: the largest of them. A goal
    /// that this meets is met.
    AtMost,
}

impl Verdict {
    /// Returns whether the goal was met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.figure.is_some_and(|figure| self.goal.relation.holds(figure, self.goal.value))
    }

    /// Returns the verdict as data.
    pub(crate) fn data(&self) -> GoalResult<'_> {
        GoalResult {
            goal: &self.goal.text,
            met: self.is_met(),
            figure: self.figure,
            unit: self.goal.figure.unit().name(),
        }
    }

    /// Returns the figure in a readable form.
    #[must_use]
    pub fn figure_text(&self) -> String {
        let text = Amount::some(self.figure, self.goal.figure.unit()).to_string();
        match self.known {
            Known::Measured => text,
            Known::AtMost => format!("<={text}"),
        }
    }
}

/// The result of a goal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GoalResult<'a> {
    /// The goal, as written.
    goal: &'a str,
    /// Whether it was met.
    met: bool,
    /// The worst figure; null if there were too few samples, which counts as missed unless their
    /// largest meets the goal.
    figure: Option<u64>,
    /// The unit of `figure`: `ns`, `count`, `millionths` of a CPU, `thousandths per second`.
    unit: &'static str,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_met() { "met   " } else { "missed" };
        write!(f, "{word}  {}", self.goal)?;
        let (text, needs) = (Amount::some(self.figure, self.goal.figure.unit()), self.goal.figure.needs());
        match (self.figure, self.known) {
            (None, _) => f.write_str(": there was nothing to measure")?,
            (Some(_), Known::Measured) => write!(f, ": it is {text}")?,
            (Some(_), Known::AtMost) => write!(f, ": it is at most {text}, of fewer than {needs} samples")?,
        }
        match &self.thread {
            Some(thread) => write!(f, " ({thread})"),
            None => Ok(()),
        }
    }
}

/// Checks goals against figures. O(goals x tasks).
#[must_use]
pub fn judge(goals: &[Goal], summary: &Summary) -> Vec<Verdict> {
    goals.iter().map(|goal| verdict(goal, summary)).collect()
}

/// Returns a figure of the things of one name, or of all, as a goal that wants little would judge
/// it.
pub(crate) fn figure_of(figure: Figure, owner: Option<&str>, summary: &Summary) -> Option<u64> {
    let (text, task) = (String::new(), owner.map(str::to_owned));
    let verdict = verdict(&Goal { text, task, figure, relation: Relation::AtMost, value: 0 }, summary);
    verdict.figure.filter(|_| verdict.known == Known::Measured)
}

/// Returns how figures of a unit are drawn: the unit of the axis, and the factor to it.
pub(crate) const fn drawn(unit: Unit) -> (plot::Unit, f64) {
    match unit {
        Unit::Time => (plot::Unit::Nanos, 1.0),
        Unit::Count => (plot::Unit::Number, 1.0),
        Unit::Share => (plot::Unit::Percent, 1e-4),
        Unit::Rate => (plot::Unit::Number, 1e-3),
    }
}

/// Returns verdicts as a frame: `goal`, `met`, `figure` (in the unit of `unit`: `ns`, `count` or
/// `millionths`), `thread`.
#[must_use]
pub fn frame(verdicts: &[Verdict]) -> Frame {
    let text = |of: &dyn Fn(&Verdict) -> Arc<str>| Values::Text(verdicts.iter().map(of).collect());
    let known = |of: &dyn Fn(&Verdict) -> bool| verdicts.iter().map(of).collect();
    let measured = |verdict: &Verdict| verdict.figure.filter(|_| verdict.known == Known::Measured);
    let figures = verdicts.iter().map(|verdict| measured(verdict).unwrap_or_default()).collect();
    Frame::new("goals", verdicts.len())
        .with("goal", text(&|verdict| verdict.goal.text.as_str().into()))
        .with("met", Values::Bool(verdicts.iter().map(Verdict::is_met).collect()))
        .with_some("figure", Values::U64(figures), known(&|verdict| measured(verdict).is_some()))
        .with("unit", text(&|verdict| verdict.goal.figure.unit().name().into()))
        .with_some(
            "thread",
            text(&|verdict| verdict.thread.as_deref().unwrap_or_default().into()),
            known(&|verdict| verdict.thread.is_some()),
        )
}

fn verdict(goal: &Goal, summary: &Summary) -> Verdict {
    match goal.figure.owner() {
        Owner::Task => {
            let name = goal.task.as_deref();
            let threads =
                summary.task_subjects().filter(|(task, _)| name.is_none_or(|name| is_thread_of(&task.name, name)));
            verdict_of_threads(goal, threads.map(|(task, subject)| (&*task.name, subject)))
        }
        Owner::Service => verdict_of_each(goal, summary.service_subjects().map(|(of, subject)| (&*of.name, subject))),
        Owner::Group => verdict_of_each(goal, summary.group_subjects().map(|(of, subject)| (&*of.path, subject))),
        Owner::Machine | Owner::Cpu => {
            let figure = Subject::Machine(summary).value(goal.figure);
            Verdict { goal: goal.clone(), figure, known: Known::Measured, thread: None }
        }
    }
}

/// Returns the verdict over the threads of a task: their sum, or the worst of them, the first of
/// equal ones.
fn verdict_of_threads<'n>(goal: &Goal, all: impl Iterator<Item = (&'n str, Subject<'n>)>) -> Verdict {
    match figure::several(goal.figure) {
        Several::Sum => {
            let figure = figure::of_several(goal.figure, all.map(|(_, subject)| subject));
            Verdict { goal: goal.clone(), figure, known: Known::Measured, thread: None }
        }
        Several::Largest => worst_of(goal, all, |next, worst| next > worst),
    }
}

/// Returns the verdict over services or groups: each must meet the goal, so the worst counts.
fn verdict_of_each<'n>(goal: &Goal, all: impl Iterator<Item = (&'n str, Subject<'n>)>) -> Verdict {
    let asked = all.filter(|(name, _)| goal.task.as_deref().is_none_or(|asked| asked == *name));
    let worst = if goal.wants_more() {
        worst_of(goal, asked, |next, worst| next < worst)
    } else {
        worst_of(goal, asked, |next, worst| next > worst)
    };
    Verdict { thread: worst.thread.filter(|_| goal.task.is_none()), ..worst }
}

fn worst_of<'n>(
    goal: &Goal,
    all: impl Iterator<Item = (&'n str, Subject<'n>)>,
    is_worse: impl Fn(u64, u64) -> bool,
) -> Verdict {
    let known = |subject: Subject<'_>| match subject.value(goal.figure) {
        Some(value) => Some((value, Known::Measured)),
        // A quantile is at most the largest sample. A goal that wants much has no such bound.
        None if goal.wants_more() => None,
        None => Some((subject.value(Figure::new(goal.figure.quantity, Stat::Max))?, Known::AtMost)),
    };
    let figures = all.filter_map(|(name, subject)| known(subject).map(|(value, known)| (value, known, name)));
    let worst = figures.reduce(|worst, next| if is_worse(next.0, worst.0) { next } else { worst });
    Verdict {
        goal: goal.clone(),
        figure: worst.map(|worst| worst.0),
        known: worst.map_or(Known::Measured, |worst| worst.1),
        thread: worst.map(|worst| worst.2.to_owned()),
    }
}

/// Returns whether a thread is an instance of a task: `worker-3` is of `worker`.
pub(crate) fn is_thread_of(thread: &str, task: &str) -> bool {
    let instance = thread.strip_prefix(task).and_then(|rest| rest.strip_prefix('-'));
    instance.is_some_and(|instance| !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_digit()))
}
