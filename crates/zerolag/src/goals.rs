//! Checks the goals of a scenario against the figures of its run.

use crate::error::{Error, ValueError};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use zerolag_report::figure::{self, Amount, Better, Figure, Owner, Quantity, Several, Stat, Subject, Unit};
use zerolag_report::frame::{Frame, Values};
use zerolag_report::{Summary, plot};
use zerolag_workload::Program;
use zerolag_workload::goal::{Goal, Relation};
use zerolag_workload::program::{TaskDef, is_below};

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

/// What one run says of a goal: with another seed it can say something else.
pub const ONE_SEED: &str = "one seed";
/// The same of a run on a host, which has no seed.
pub const ONE_RUN: &str = "one run";

impl Verdict {
    /// Returns the verdict as a line that says what it rests on: [`ONE_SEED`] or [`ONE_RUN`].
    #[must_use]
    pub fn line(&self, rests_on: &str) -> String {
        let word = if self.is_met() { "met" } else { "missed" };
        let width = "missed ()".len() + rests_on.len();
        format!("{:<width$}  {self}", format!("{word} ({rests_on})"))
    }
}

impl fmt::Display for Verdict {
    /// Writes the goal and its figure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.goal)?;
        let (text, needs) = (Amount::some(self.figure, self.goal.figure.unit()), self.goal.figure.needs());
        match (self.figure, self.known) {
            (None, _) if figure::several(self.goal.figure) == Several::Last => f.write_str(": it did not end")?,
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

/// Reads goals, as in scenarios, of a program. `p99 <= 40ms` of a program with requests stands for
/// `request_latency.p99 <= 40ms`.
///
/// # Errors
/// Each goal that is none, or whose figure no part of the program has, as it was written.
pub(crate) fn read(texts: &[String], program: &Program) -> Result<Vec<Goal>, Error> {
    let mut wrong = Vec::new();
    let mut goals = Vec::new();
    for text in texts {
        let trimmed = text.trim();
        let is_short = program.services().next().is_some() && is_statistic(trimmed);
        let full = if is_short { format!("request_latency.{trimmed}") } else { trimmed.to_owned() };
        match Goal::parse(&full) {
            Ok(goal) => goals.push(goal),
            // The mistake is in what was written, not in what stands for it.
            Err((message, help)) => {
                let message = if is_short { message.replace("request_latency.p", "p") } else { message };
                wrong.push(ValueError { help, ..ValueError::new("", text, message) });
            }
        }
    }
    wrong.extend(goals.iter().filter_map(|goal| has_no_owner(goal, program)));
    if wrong.is_empty() { Ok(goals) } else { Err(Error::Values(wrong)) }
}

/// Returns whether one of these goals is about requests: then the workload of a trace needs them.
#[must_use]
pub fn are_of_requests(goals: &[String]) -> bool {
    let is_of_requests = |goal: &String| {
        let is_of_service = |goal: Goal| goal.figure.owner() == Owner::Service;
        is_statistic(goal.trim()) || Goal::parse(goal.trim()).is_ok_and(is_of_service)
    };
    goals.iter().any(is_of_requests)
}

/// Returns whether a goal begins with a statistic, right or wrong: `p99 <= 40ms`.
fn is_statistic(goal: &str) -> bool {
    let first = goal.split(|letter: char| letter.is_whitespace() || "<>".contains(letter)).next().unwrap_or_default();
    let number = first.strip_prefix('p').unwrap_or_default();
    Stat::parse(first).is_some() || number.starts_with(|digit: char| digit.is_ascii_digit())
}

/// Returns the mistake of a goal whose figure no part of a program can have.
fn has_no_owner(goal: &Goal, program: &Program) -> Option<ValueError> {
    let names: Vec<&str> = match goal.figure.owner() {
        Owner::Task => program.tasks.iter().map(|task| &*task.name).collect(),
        Owner::Service => program.services().collect(),
        Owner::Group => program.groups.iter().map(|group| &*group.path).collect(),
        Owner::Machine | Owner::Cpu => return None,
    };
    let exists = match goal.task.as_deref() {
        Some(name) => names.contains(&name),
        None => !names.is_empty(),
    };
    if exists {
        return None;
    }
    let kind = match goal.figure.owner() {
        Owner::Task | Owner::Machine | Owner::Cpu => "task",
        Owner::Service => "service",
        Owner::Group => "group",
    };
    let named = goal.task.as_ref().map_or_else(String::new, |name| format!(" named `{name}`"));
    let error = ValueError::new("", &goal.text, format!("goal \"{}\": there is no {kind}{named}", goal.text));
    let known = names.iter().take(NAMES_SHOWN).map(|name| format!("{name}.{}", goal.figure));
    let known: Vec<String> = known.collect();
    let help = if known.is_empty() { owners_of(program) } else { format!("known are {}", known.join(", ")) };
    Some(error.help(help))
}

/// Names that a message lists.
const NAMES_SHOWN: usize = 12;

/// The work that a value must leave done, because goals are met by work that is not done: fewer
/// workers wake less often, and a server with next to no quota answers no request within the time
/// of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CountedWork {
    /// The tasks whose CPU time counts.
    pub(crate) tasks: Vec<String>,
    /// The services whose completed requests count.
    pub(crate) services: Vec<String>,
    /// Those of them to which tasks send, each request after the answer to the one before: there is
    /// no queue of requests that are answered a little later.
    pub(crate) closed: Vec<String>,
}

impl CountedWork {
    /// Returns whether nothing counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.services.is_empty()
    }
}

/// Returns the work that counts for these goals: of a goal that something is small (a wait, a time
/// throttled) the CPU time of the tasks that it is about, and in any case the requests of the
/// services among them, and of those in `group`, whose limit is turned.
///
/// # Errors
/// A goal on the waits of threads of a service: it says nothing of requests. A goal that asks for
/// less work: no work at all meets it best.
pub(crate) fn work_of(program: &Program, goals: &[Goal], group: Option<usize>) -> Result<CountedWork, Error> {
    let mut wrong = Vec::new();
    let mut work = CountedWork::default();
    for goal in goals {
        if asks_for_less_work(goal) {
            let message = format!("goal \"{}\": no work at all meets it best, so the smallest value does", goal.text);
            let help = "give a goal on what must be good, such as requests or waits; `compare` shows this figure of each value";
            wrong.push(ValueError::new("", &goal.text, message).help(help));
            continue;
        }
        let is_named = |name: &str| goal.task.as_deref().is_none_or(|asked| asked == name);
        let concerned: Vec<&str> = match goal.figure.owner() {
            Owner::Task | Owner::Service => {
                program.tasks.iter().map(|task| &*task.name).filter(|name| is_named(name)).collect()
            }
            Owner::Group => {
                let groups = (0..program.groups.len()).filter(|index| is_named(&program.groups[*index].path));
                groups.flat_map(|group| tasks_within(program, group)).collect()
            }
            Owner::Machine | Owner::Cpu => program.tasks.iter().map(|task| &*task.name).collect(),
        };
        let (services, tasks): (Vec<&str>, Vec<&str>) =
            concerned.into_iter().partition(|name| program.services().any(|service| service == *name));
        let is_of_threads = matches!(
            goal.figure.quantity,
            Quantity::WakeupLatency | Quantity::Wait | Quantity::WaitMax | Quantity::LagMax
        );
        if let Some(service) = services.first().filter(|_| is_of_threads && !goal.wants_more()) {
            wrong.push(waits_of_threads(goal, service));
        }
        work.services.extend(services.into_iter().map(str::to_owned));
        if goal.figure.owner() != Owner::Service && !goal.wants_more() {
            work.tasks.extend(tasks.into_iter().map(str::to_owned));
        }
    }
    let within = group.into_iter().flat_map(|group| tasks_within(program, group));
    let within = within.filter(|name| program.services().any(|service| service == *name));
    work.services.extend(within.map(str::to_owned));
    for names in [&mut work.tasks, &mut work.services] {
        names.sort_unstable();
        names.dedup();
    }
    let is_closed = |name: &&String| closed_services(program).any(|closed| closed == **name);
    work.closed = work.services.iter().filter(is_closed).cloned().collect();
    if wrong.is_empty() { Ok(work) } else { Err(Error::Values(wrong)) }
}

/// Returns the services without arrivals of their own that a task calls which is no service's
/// thread.
fn closed_services(program: &Program) -> impl Iterator<Item = &str> {
    let is_thread = |task: &TaskDef| program.services().any(|service| service == &*task.name);
    let tasks = (0..program.tasks.len()).filter(move |index| !is_thread(&program.tasks[*index]));
    let queues = tasks.flat_map(|task| program.queues_called(task));
    queues.filter(|queue| program.source_of(*queue).is_none()).map(|queue| &*program.resources[queue.index()].name)
}

/// Returns whether a goal wants that less is done: a largest CPU time, a least idle time.
fn asks_for_less_work(goal: &Goal) -> bool {
    let is_of_rest = matches!(goal.figure.quantity, Quantity::Sleep | Quantity::Idle | Quantity::CpuIdle);
    goal.figure.quantity.row().better == Better::Neither && goal.wants_more() == is_of_rest
}

/// Returns the mistake of a goal on the waits of a service's threads.
fn waits_of_threads(goal: &Goal, service: &str) -> ValueError {
    let message = format!(
        "goal \"{}\": {} says nothing of requests: fewer workers, or throttled ones, wake less often and wait less",
        goal.text, goal.figure
    );
    let stat = if goal.figure.stat == Stat::Value { Stat::Max } else { goal.figure.stat };
    let named = format!("{service}.{}.{stat}", Quantity::RequestLatency.row().key);
    ValueError::new("", &goal.text, message).help(format!("give a goal on {named}"))
}

/// Returns the tasks that run in a group or below it.
fn tasks_within(program: &Program, group: usize) -> impl Iterator<Item = &str> {
    program.tasks.iter().filter(move |task| runs_within(program, task, group)).map(|task| &*task.name)
}

/// Returns whether a task runs in a group or below it, at least in one of its phases.
pub(crate) fn runs_within(program: &Program, task: &TaskDef, group: usize) -> bool {
    let groups = task.phases.iter().map(|phase| phase.group).chain([task.group]);
    groups.flatten().any(|index| is_below(&program.groups[index].path, &program.groups[group].path))
}

/// Returns the parts of a program that have figures, for a goal on a kind of which there is none.
fn owners_of(program: &Program) -> String {
    let tasks = program.tasks.iter().map(|task| format!("{}.{}", task.name, Quantity::WakeupLatency.row().key));
    let services = program.services().map(|name| format!("{name}.{}", Quantity::RequestLatency.row().key));
    let groups = program.groups.iter().map(|group| format!("{}.{}", group.path, Quantity::Throttled.row().key));
    let all: Vec<String> = services.chain(groups).chain(tasks).take(NAMES_SHOWN).collect();
    format!("there are {}, and others of these (`zerolag figures`)", all.join(", "))
}

/// Returns per goal what is wrong with it if a run has measured nothing of its figure: which
/// figures it has measured of the same owner. Empty if all goals were measured.
pub(crate) fn unmeasured(verdicts: &[Verdict], summary: &Summary) -> Vec<Option<ValueError>> {
    if verdicts.iter().all(|verdict| verdict.figure.is_some()) {
        return Vec::new();
    }
    let error = |verdict: &Verdict| {
        let goal = &verdict.goal;
        let message = format!("goal \"{}\": no run has measured {}", goal.text, goal.figure);
        let known = measured(goal, summary);
        let help = if known.is_empty() {
            "nothing was measured of its owner".to_owned()
        } else {
            format!("measured are {}", known.join(", "))
        };
        ValueError::new("", &goal.text, message).help(help)
    };
    verdicts.iter().map(|verdict| verdict.figure.is_none().then(|| error(verdict))).collect()
}

/// Returns the figures that a run has measured of a goal's owner.
fn measured(goal: &Goal, summary: &Summary) -> Vec<String> {
    let owner = goal.task.as_deref();
    let is_known = |figure: &Figure| figure_of(*figure, owner, summary).is_some();
    let name = |figure: Figure| owner.map_or_else(|| figure.key(), |owner| format!("{owner}.{figure}"));
    let all = Figure::of(goal.figure.owner()).filter(|figure| figure.is_in_goals() && is_known(figure)).map(name);
    // In the order of the table, each once.
    let mut seen = BTreeSet::new();
    all.filter(|name| seen.insert(name.clone())).collect()
}

/// Keeps the worse verdict of each goal.
pub(crate) fn worsen(worst: &mut Vec<Verdict>, verdicts: &[Verdict]) {
    if worst.is_empty() {
        worst.extend_from_slice(verdicts);
        return;
    }
    for (worst, verdict) in worst.iter_mut().zip(verdicts) {
        if is_worse(verdict, worst) {
            worst.clone_from(verdict);
        }
    }
}

fn is_worse(verdict: &Verdict, than: &Verdict) -> bool {
    match (verdict.figure, than.figure) {
        (None, _) => true,
        (_, None) => false,
        (Some(figure), Some(other)) if verdict.goal.wants_more() => figure < other,
        (Some(figure), Some(other)) => figure > other,
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

/// A goal, judged by one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GoalOfRun<'a> {
    #[serde(flatten)]
    result: GoalResult<'a>,
    /// The runs that judge it: one, so that another seed can give another verdict.
    runs: u64,
}

/// Returns the verdicts of one run as data.
pub(crate) fn of_run(verdicts: &[Verdict]) -> Vec<GoalOfRun<'_>> {
    verdicts.iter().map(|verdict| GoalOfRun { result: verdict.data(), runs: 1 }).collect()
}

/// Returns the verdicts of one run as a frame: `goal`, `met`, `figure` (in the unit of `unit`:
/// `ns`, `count` or `millionths`), `thread`, and `runs`: that judge it.
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
        .with("runs", Values::U64(vec![1; verdicts.len()]))
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

/// Returns the verdict over the threads of a task: their sum, the last, or the worst of them, the
/// first of equal ones.
fn verdict_of_threads<'n>(goal: &Goal, all: impl Iterator<Item = (&'n str, Subject<'n>)>) -> Verdict {
    match figure::several(goal.figure) {
        Several::Sum | Several::Last => {
            let figure = figure::of_several(goal.figure, all.map(|(_, subject)| subject));
            Verdict { goal: goal.clone(), figure, known: Known::Measured, thread: None }
        }
        Several::Largest => worst_of(goal, all, |next, worst| next > worst),
        Several::Smallest => worst_of(goal, all, |next, worst| next < worst),
    }
}

/// Returns the verdict over services or groups: each must meet the goal, so the worst counts.
fn verdict_of_each<'n>(goal: &Goal, all: impl Iterator<Item = (&'n str, Subject<'n>)>) -> Verdict {
    let asked = all.filter(|(name, _)| goal.task.as_deref().is_none_or(|asked| asked == *name));
    if figure::several(goal.figure) == Several::Last {
        let figure = figure::of_several(goal.figure, asked.map(|(_, subject)| subject));
        return Verdict { goal: goal.clone(), figure, known: Known::Measured, thread: None };
    }
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
