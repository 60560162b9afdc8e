//! Checks the goals of a scenario against the figures of its run.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_report::frame::{Frame, Values};
use zerolag_report::human::Human;
use zerolag_report::plot;
use zerolag_report::summary::TaskSummary;
use zerolag_report::{RequestTimes, ServiceSummary, Summary};
use zerolag_workload::goal::{Goal, Measure, Metric, Relation, Subject};

/// The result of a goal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The goal.
    pub goal: Goal,
    /// The figure, in the goal's unit; `None` if there were no samples, which counts as missed.
    pub figure: Option<u64>,
    /// The thread with the worst figure, if it is that of one thread.
    pub thread: Option<String>,
}

impl Verdict {
    /// Returns whether the goal was met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.figure.is_some_and(|figure| self.goal.relation.holds(figure, self.goal.value))
    }

    /// Returns the verdict as data.
    pub(crate) fn data(&self) -> GoalResult<'_> {
        GoalResult { goal: &self.goal.text, met: self.is_met(), figure: self.figure, unit: unit(&self.goal) }
    }

    /// Returns the figure in a readable form.
    #[must_use]
    pub fn figure_text(&self) -> String {
        self.figure.map_or_else(|| "-".to_owned(), |figure| Figure(figure, self.goal.metric.measure()).to_string())
    }
}

/// The result of a goal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GoalResult<'a> {
    /// The goal, as written.
    goal: &'a str,
    /// Whether it was met.
    met: bool,
    /// The worst figure; null if there was nothing to measure, which counts as missed.
    figure: Option<u64>,
    /// The unit of `figure`: `ns`, `count`, or `millionths` of a CPU.
    unit: &'static str,
}

/// Returns the unit of a goal's figure.
const fn unit(goal: &Goal) -> &'static str {
    match goal.metric.measure() {
        Measure::Time => "ns",
        Measure::Count => "count",
        Measure::Share => "millionths",
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_met() { "met   " } else { "missed" };
        write!(f, "{word}  {}", self.goal)?;
        match self.figure {
            None => f.write_str(": there was nothing to measure")?,
            Some(figure) => write!(f, ": it is {}", Figure(figure, self.goal.metric.measure()))?,
        }
        match &self.thread {
            Some(thread) => write!(f, " ({thread})"),
            None => Ok(()),
        }
    }
}

struct Figure(u64, Measure);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Measure::Time => fmt::Display::fmt(&Human(Duration::from_nanos(self.0)), f),
            Measure::Count => fmt::Display::fmt(&self.0, f),
            Measure::Share => write!(f, "{}.{:02}%", self.0 / 10_000, self.0 / 100 % 100),
        }
    }
}

/// Checks goals against figures. O(goals x tasks).
#[must_use]
pub fn judge(goals: &[Goal], summary: &Summary) -> Vec<Verdict> {
    goals.iter().map(|goal| verdict(goal, summary)).collect()
}

/// Returns how figures of a goal are drawn: the unit of the axis, and the factor to it.
pub(crate) fn drawn(goal: &Goal) -> (plot::Unit, f64) {
    match goal.metric.measure() {
        Measure::Time => (plot::Unit::Nanos, 1.0),
        Measure::Count => (plot::Unit::Number, 1.0),
        Measure::Share => (plot::Unit::Percent, 1e-4),
    }
}

/// Returns verdicts as a frame: `goal`, `met`, `figure` (in the unit of `unit`: `ns`, `count` or
/// `millionths`), `thread`.
#[must_use]
pub fn frame(verdicts: &[Verdict]) -> Frame {
    let text = |of: &dyn Fn(&Verdict) -> Arc<str>| Values::Text(verdicts.iter().map(of).collect());
    let known = |of: &dyn Fn(&Verdict) -> bool| verdicts.iter().map(of).collect();
    let figures = verdicts.iter().map(|verdict| verdict.figure.unwrap_or_default()).collect();
    Frame::new("goals", verdicts.len())
        .with("goal", text(&|verdict| verdict.goal.text.as_str().into()))
        .with("met", Values::Bool(verdicts.iter().map(Verdict::is_met).collect()))
        .with_some("figure", Values::U64(figures), known(&|verdict| verdict.figure.is_some()))
        .with("unit", text(&|verdict| unit(&verdict.goal).into()))
        .with_some(
            "thread",
            text(&|verdict| verdict.thread.as_deref().unwrap_or_default().into()),
            known(&|verdict| verdict.thread.is_some()),
        )
}

fn verdict(goal: &Goal, summary: &Summary) -> Verdict {
    match goal.metric.subject() {
        Subject::Task => verdict_of_tasks(goal, summary),
        Subject::Service => {
            let services =
                summary.services.iter().map(|service| (&*service.name, service_figure(goal.metric, service)));
            verdict_of_named(goal, services)
        }
        Subject::Group => {
            let groups = summary.groups.iter().map(|group| {
                let figure = match goal.metric {
                    Metric::NrThrottled => group.stat.nr_throttled,
                    _ => group.stat.throttled.as_nanos(),
                };
                (&*group.path, Some(figure))
            });
            verdict_of_named(goal, groups)
        }
    }
}

/// The worst figure of the selected ones: the largest, or the smallest if large values are good.
fn verdict_of_named<'n>(goal: &Goal, all: impl Iterator<Item = (&'n str, Option<u64>)>) -> Verdict {
    let asked = all.filter(|(name, _)| goal.task.as_deref().is_none_or(|asked| asked == *name));
    let figures = asked.filter_map(|(name, figure)| Some((figure?, name)));
    let wants_much = matches!(goal.relation, Relation::Above | Relation::AtLeast);
    let worst =
        figures.reduce(|worst, next| if (next.0 > worst.0) != wants_much && next.0 != worst.0 { next } else { worst });
    let whose = worst.filter(|_| goal.task.is_none()).map(|(_, name)| name.to_owned());
    Verdict { goal: goal.clone(), figure: worst.map(|(figure, _)| figure), thread: whose }
}

fn service_figure(metric: Metric, service: &ServiceSummary) -> Option<u64> {
    let time = |pick: fn(RequestTimes) -> Duration| service.latency.map(|times| pick(times).as_nanos());
    match metric {
        Metric::RequestMean => time(|times| times.mean),
        Metric::RequestP50 => time(|times| times.p50),
        Metric::RequestP90 => time(|times| times.p90),
        Metric::RequestP99 => time(|times| times.p99),
        Metric::RequestP999 => time(|times| times.p999),
        Metric::RequestMax => time(|times| times.max),
        Metric::RequestsCompleted => Some(service.completed),
        Metric::RequestsUnfinished => Some(service.unfinished),
        Metric::RequestsDropped => Some(service.dropped),
        _ => None,
    }
}

fn verdict_of_tasks(goal: &Goal, summary: &Summary) -> Verdict {
    let threads = summary.tasks.iter().filter(|task| goal.task.as_deref().is_none_or(|name| is_thread_of(task, name)));
    let figures = threads.filter_map(|task| Some((figure(goal.metric, task)?, task)));
    let (figure, thread) = match goal.metric {
        Metric::Run | Metric::Share => {
            let mut sum: Option<u64> = None;
            figures.for_each(|(figure, _)| sum = Some(sum.unwrap_or(0).saturating_add(figure)));
            let share = |run: u64| {
                let elapsed = u128::from(summary.elapsed.as_nanos().max(1));
                u64::try_from(u128::from(run) * 1_000_000 / elapsed).unwrap_or(u64::MAX)
            };
            (if goal.metric == Metric::Share { sum.map(share) } else { sum }, None)
        }
        _ => {
            // The first of the worst: `max_by_key` would return the last.
            let worst = figures.fold(None, |worst: Option<(u64, &TaskSummary)>, next| match worst {
                Some(worst) if worst.0 >= next.0 => Some(worst),
                Some(_) | None => Some(next),
            });
            (worst.map(|(figure, _)| figure), worst.map(|(_, task)| task.name.to_string()))
        }
    };
    Verdict { goal: goal.clone(), figure, thread }
}

/// Returns whether a thread is an instance of a task: `worker-3` is of `worker`.
fn is_thread_of(thread: &TaskSummary, task: &str) -> bool {
    let instance = thread.name.strip_prefix(task).and_then(|rest| rest.strip_prefix('-'));
    instance.is_some_and(|instance| !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_digit()))
}

fn figure(metric: Metric, task: &TaskSummary) -> Option<u64> {
    Some(match metric {
        Metric::WaitMax => task.wait_max.as_nanos(),
        Metric::WaitTotal => task.wait.as_nanos(),
        Metric::LatencyP50 => task.latency?.p50.as_nanos(),
        Metric::LatencyP99 => task.latency?.p99.as_nanos(),
        Metric::LatencyMax => task.latency?.max.as_nanos(),
        Metric::LatenessMax if task.timers == 0 => return None,
        Metric::LatenessMax => task.lateness_max.as_nanos(),
        Metric::TimersMissed if task.timers == 0 => return None,
        Metric::TimersMissed => task.missed,
        Metric::Run | Metric::Share => task.run.as_nanos(),
        Metric::Preemptions => task.preemptions,
        Metric::Migrations => task.migrations.total(),
        _ => return None,
    })
}
