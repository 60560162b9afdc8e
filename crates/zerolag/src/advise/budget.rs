//! [`BudgetAdvice`]: the least `cpu.rt.max` of a group with deadline servers for its tasks to be in
//! time, by simulation and by bounds.
//!
//! The two are different promises. A search over simulations says what is enough for the workload
//! as it is written, in all but a stated share of seeds. A bound holds for every workload with
//! these costs and periods, and needs more. Both keep the period of the budget: a shorter one makes
//! the servers less late and costs more switches, which is the user's choice.
//!
//! Without goals, those of the group's tasks with a timer are that none is missed.

use super::Question;
use crate::analyse::{self, Assumption, Row};
use crate::document::{self, Document};
use crate::error::Error;
use crate::simulation::Plan;
use crate::sweep::search::Search;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::figure::Quantity;
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{Duration, RtBandwidth, SchedAttr};
use zerolag_report::human::Human;
use zerolag_workload::Program;
use zerolag_workload::program::{Action, TaskDef, is_below};

/// The result of `zerolag advise` for a group with a real-time budget.
pub(crate) const DOCUMENT: Document = Document::of::<BudgetGiven<'_>>(SCHEMA, "advise");
const SCHEMA: &str = "zerolag.advise.budget.v1";

/// The least real-time budget of a group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BudgetGiven<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The path of the group.
    group: &'a str,
    /// Its `cpu.rt.max` now.
    now: String,
    /// The goals, as written.
    goals: &'a [String],
    /// The least `cpu.rt.max` by simulation; null if none meets the goals, or it is not settled.
    simulated: Option<&'a str>,
    /// What fresh seeds say of it.
    says: String,
    /// The least `cpu.rt.max` by bounds; null if no bound is known that keeps all periods.
    bounded: Option<String>,
    /// Why there is none by bounds.
    no_bound: Option<&'a str>,
    /// The assumptions of the bounds that the workload breaks.
    broken: &'a [String],
    /// The sentence for a ticket.
    ticket: String,
}

/// The least real-time budget of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetAdvice {
    /// The path of the group.
    pub group: String,
    /// Its budget now.
    pub now: RtBandwidth,
    /// The goals, as written.
    pub goals: Vec<String>,
    /// The search over simulations.
    pub search: Search,
    /// The least runtime with which the bounds of the group's tasks keep their periods, or why
    /// there is none.
    pub bounded: Result<Duration, String>,
    /// The assumptions of these bounds that the workload breaks, each with how.
    pub broken: Vec<String>,
}

/// Answers a question about a group with a real-time budget. `None` if the workload has no such
/// group, or groups have no servers.
///
/// # Errors
/// Several groups have a budget and the question names none of them; there is no goal; or as
/// [`advise`](super::advise).
pub fn advise_budget(
    plan: &Plan,
    question: &Question,
    progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Option<BudgetAdvice>, Error> {
    let program = &*plan.program;
    let Some(group) = group_of(plan, question.group.as_deref())? else { return Ok(None) };
    let def = &program.groups[group];
    let (path, now) = (def.path.to_string(), def.rt.unwrap_or(zerolag_workload::program::GroupDef::NO_RT));
    let goals: Vec<String> = match (&question.goals[..], &plan.goals[..]) {
        ([], []) => served_tasks(program, group).filter(|task| has_timer(task)).map(in_time).collect(),
        ([], of_workload) => of_workload.iter().map(|goal| goal.text.clone()).collect(),
        (given, _) => given.to_vec(),
    };
    if goals.is_empty() {
        let message = format!("no task of {path} has a timer: there is nothing to be in time for");
        return Err(Error::input_help(message, "state a goal, as in --goal 'loop.wait.max <= 2ms'"));
    }
    let key = format!("{path}:cpu.rt.max");
    let search = Search::run(plan, &key, &goals, question.rule, progress)?;
    let (bounded, broken) = least_by_bounds(plan, group, now.period);
    Ok(Some(BudgetAdvice { group: path, now, goals, search, bounded, broken }))
}

/// Returns the group whose budget is asked about.
fn group_of(plan: &Plan, name: Option<&str>) -> Result<Option<usize>, Error> {
    let groups = &plan.program.groups;
    if plan.config.settings.rt_group_sched != RtGroupSched::Hcbs {
        return Ok(None);
    }
    let with_budget = |index: &usize| groups[*index].rt.is_some_and(|budget| budget.runtime.is_some());
    let known: Vec<usize> = (0..groups.len()).filter(with_budget).collect();
    match (name, &known[..]) {
        (Some(name), _) => Ok(known.into_iter().find(|index| *groups[*index].path == *name)),
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(*only)),
        (None, [first, ..]) => {
            let paths: Vec<&str> = known.iter().map(|index| &*groups[*index].path).collect();
            let help = format!("name the group: --of {}", groups[*first].path);
            Err(Error::input_help(format!("ambiguous group; candidates: {}", paths.join(", ")), help))
        }
    }
}

/// Returns the real-time tasks that the servers of a group run.
fn served_tasks(program: &Program, group: usize) -> impl Iterator<Item = &TaskDef> {
    let is_within = move |task: &&TaskDef| {
        let own = task.group.map(|own| &program.groups[own]);
        // A group below with a budget has servers of its own.
        let uses = |own: &zerolag_workload::program::GroupDef| {
            let has_own = own.rt.is_some_and(|budget| budget.runtime.is_some());
            *own.path == *program.groups[group].path || !has_own && is_below(&own.path, &program.groups[group].path)
        };
        matches!(task.attr, SchedAttr::Rt { .. }) && own.is_some_and(uses)
    };
    program.tasks.iter().filter(is_within)
}

fn has_timer(task: &TaskDef) -> bool {
    task.phases.iter().flat_map(|phase| &phase.actions).any(|action| matches!(action, Action::Timer { .. }))
}

/// Returns the goal that a task misses no timer.
fn in_time(task: &TaskDef) -> String {
    format!("{}.{} <= 0", task.name, Quantity::TimersMissed.row().key)
}

/// Returns the least runtime, in hundredths of the period, with which every task of a group that
/// has a period has a bound within it.
fn least_by_bounds(plan: &Plan, group: usize, period: Duration) -> (Result<Duration, String>, Vec<String>) {
    let names: Vec<&str> =
        served_tasks(&plan.program, group).filter(|task| has_timer(task)).map(|task| &*task.name).collect();
    let is_asked = |row: &&Row| names.contains(&&*row.name);
    let mut why = "no task of it has a period".to_owned();
    for hundredth in 1..=100 {
        let runtime = Duration::from_micros(period.as_micros_floor().max(100) / 100 * hundredth);
        let mut plan = plan.clone();
        let mut program = (*plan.program).clone();
        program.groups[group].rt = Some(RtBandwidth { runtime: Some(runtime), period });
        plan.program = Arc::new(program);
        let found = analyse::bounds(&plan);
        let rows = || found.tasks.iter().filter(is_asked);
        if rows().next().is_some() && rows().all(|row| row.keeps_deadline() == Some(true)) {
            let mut broken: Vec<usize> = rows().flat_map(|row| row.breaks.iter().copied()).collect();
            broken.sort_unstable();
            broken.dedup();
            let broken = broken.into_iter().map(|at| &found.broken[at]);
            return (Ok(runtime), broken.map(|said| format!("{}: {}", said.assumption.name(), said.reason)).collect());
        }
        // The reason at the largest budget with a bound, or at the least one.
        for row in rows().filter(|row| row.keeps_deadline() != Some(true)) {
            match &row.bound {
                Ok(bound) => {
                    why = format!("{} can take {} with {runtime} in {period}", row.name, Human(bound.response));
                }
                Err(reason) if hundredth == 1 => why = format!("{}: {reason}", row.name),
                Err(_) => {}
            }
        }
    }
    (Err(why), Vec::new())
}

fn written(runtime: Duration, period: Duration) -> String {
    format!("{} {}", runtime.as_micros_floor(), period.as_micros_floor())
}

impl BudgetAdvice {
    /// Returns the least budget by simulation, as `cpu.rt.max` has it.
    #[must_use]
    pub fn simulated(&self) -> Option<&str> {
        self.search.found.least.as_ref().map(|least| &*least.written)
    }

    /// Returns whether the bounds are promises: they assume nothing that the workload breaks, but
    /// for costs.
    #[must_use]
    pub fn is_bound_kept(&self) -> bool {
        self.bounded.is_ok() && self.broken.iter().all(|broken| broken.starts_with(Assumption::NoCosts.name()))
    }

    /// Returns the sentence for a ticket.
    #[must_use]
    pub fn ticket(&self) -> String {
        let Self { group, goals, search, .. } = self;
        let Some(least) = &search.found.least else { return search.answer() };
        let bounded = match &self.bounded {
            Ok(runtime) if self.is_bound_kept() => {
                format!("; \"{}\" keeps every period by bounds", written(*runtime, self.now.period))
            }
            Ok(_) | Err(_) => String::new(),
        };
        let (goals, says) = (goals.join(" and "), least.judged.says());
        format!("Set cpu.rt.max of {group} to \"{}\": {says} (\"{goals}\"){bounded}.", least.written)
    }

    /// Returns the answer as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        document::value(&BudgetGiven {
            schema: SCHEMA,
            group: &self.group,
            now: written(self.now.runtime.unwrap_or_default(), self.now.period),
            goals: &self.goals,
            simulated: self.simulated(),
            says: self.search.answer(),
            bounded: self.bounded.as_ref().ok().map(|runtime| written(*runtime, self.now.period)),
            no_bound: self.bounded.as_ref().err().map(String::as_str),
            broken: &self.broken,
            ticket: self.ticket(),
        })
    }
}

impl fmt::Display for BudgetAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = written(self.now.runtime.unwrap_or_default(), self.now.period);
        writeln!(f, "cpu.rt.max of {} is \"{now}\"; goals: {}", self.group, self.goals.join(", "))?;
        match &self.bounded {
            Ok(runtime) => writeln!(f, "by bounds: \"{}\" keeps every period", written(*runtime, self.now.period))?,
            Err(why) => writeln!(f, "by bounds: none is known ({why})")?,
        }
        for broken in &self.broken {
            writeln!(f, "  the bounds assume what this workload breaks: {broken}")?;
        }
        write!(f, "by simulation: {}\n{}\n", self.search, self.ticket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::risk::Rule;
    use crate::{Simulation, Workload};

    /// A control loop, and a thread of its container that never ends; bound to one CPU.
    const LOOP: &str = "kernel = \"7.1\"\nduration = \"500ms\"\ncosts = \"zero\"\n[settings]\nrt_group_sched = \"hcbs\"\nhz = 1000\n\
        fair_server = \"off\"\n[machine]\ncpus = 1\n[group.\"/control\"]\n\"cpu.rt.max\" = \"5000 10000\"\n\
        [task.loop]\ngroup = \"/control\"\npolicy = \"fifo\"\npriority = 50\n\
        steps = [{ run = \"2ms\" }, { timer = { period = \"20ms\", mode = \"absolute\" } }]\n\
        [task.runaway]\ngroup = \"/control\"\npolicy = \"fifo\"\npriority = 10\nsteps = [{ run = \"10s\" }]\n";

    fn ask(text: &str, question: Question) -> Result<Option<BudgetAdvice>, Error> {
        let plan = Simulation::new(Workload::toml(text)).plan().expect("valid").plan;
        let rule = Rule::new(0.3, Some(3), None).expect("valid");
        advise_budget(&plan, &Question { rule, ..question }, |_| ControlFlow::Continue(()))
    }

    /// Returns the timers that the loop misses with a budget.
    fn missed(budget: &str) -> u64 {
        let simulation = Simulation::new(Workload::toml(LOOP)).set("cpu.rt.max", budget);
        let result = simulation.run().expect("it is admitted");
        result.report().summary.tasks.iter().find(|task| &*task.name == "loop-0").expect("it is there").missed
    }

    #[test]
    fn what_is_advised_is_enough_and_a_step_less_is_not() {
        let advice = ask(LOOP, Question::default()).expect("an answer").expect("it has a budget");
        assert_eq!(advice.goals, ["loop.timers.missed <= 0"]);
        let simulated = advice.simulated().expect("a budget is enough").to_owned();
        let least: u64 = simulated.split(' ').next().and_then(|word| word.parse().ok()).expect("a runtime");
        assert_eq!(missed(&simulated), 0, "{advice}");
        assert!(least == 100 || missed(&format!("{} 10000", least - 100)) > 0, "{advice}");
        // The bound holds for any phase of the loop: it needs more, and has no reserve either.
        let bounded = *advice.bounded.as_ref().expect("a bound keeps the period");
        assert!(bounded >= Duration::from_micros(least) && advice.is_bound_kept(), "{advice}");
        assert_eq!(missed(&written(bounded, advice.now.period)), 0, "{advice}");
        let keeps = |runtime: Duration| {
            let set = Simulation::new(Workload::toml(LOOP)).set("cpu.rt.max", written(runtime, advice.now.period));
            let found = analyse::bounds(&set.plan().expect("valid").plan);
            found.tasks.iter().find(|row| &*row.name == "loop").and_then(Row::keeps_deadline)
        };
        assert_eq!(keeps(bounded), Some(true));
        assert_ne!(keeps(bounded.saturating_sub(Duration::from_micros(100))), Some(true));
        let says = advice.ticket();
        assert!(says.starts_with(&format!("Set cpu.rt.max of /control to \"{simulated}\": ")), "{says}");
        assert!(says.contains("keeps every period by bounds"), "{says}");
        assert_eq!(advice.to_json()["simulated"], *simulated);
    }

    #[test]
    fn what_cannot_be_answered_is_said() {
        let off = LOOP.replace("\"hcbs\"", "\"off\"").replace("\"cpu.rt.max\" = \"5000 10000\"\n", "");
        assert_eq!(ask(&off, Question::default()).expect("no question about a budget"), None);
        let idle = LOOP.replace("{ timer = { period = \"20ms\", mode = \"absolute\" } }", "{ sleep = \"18ms\" }");
        let error = ask(&idle, Question::default()).expect_err("there is nothing to miss").to_string();
        assert!(error.contains("no task of /control has a timer") && error.contains("--goal"), "{error}");
        let two = format!("{LOOP}[group.\"/b\"]\n\"cpu.rt.max\" = \"1000 10000\"\n");
        let error = ask(&two, Question::default()).expect_err("which one").to_string();
        assert!(error.contains("candidates: /control, /b") && error.contains("--of /control"), "{error}");
        let named = Question { group: Some("/control".to_owned()), ..Question::default() };
        assert!(ask(&two, named).expect("an answer").is_some());
    }
}
