//! What to set for a stated goal: the smallest limit, the smallest burst, the number of workers;
//! what each costs, and how often it would still miss.
//!
//! An operator has one figure that hurts and three values to turn. Each value alone can be searched
//! for ([`sweep::search`](crate::sweep::search)), but the question is which of them to turn, and
//! whether the limit is the cause at all. So every question begins with two runs: as it is, and
//! without a limit. If the goal is missed without a limit, no limit helps, and that is the answer.
//!
//! ```text
//! as it is ──► without a limit ──misses──► "the limit is not the cause"; workers
//!                    │ meets
//!                    ├─► the smallest cpu.max with the present burst
//!                    ├─► the smallest burst with the present cpu.max
//!                    ├─► the smallest cpu.max with a burst as large as the quota
//!                    └─► the smallest number of workers with the present limit
//! ```
//!
//! Each value is searched for and judged as [`sweep::search`](crate::sweep::search) does it, with
//! the same seeds, by the same [`judge`](crate::sweep::judge): the two give the same value. A value
//! meets the goals if fresh seeds say, with a confidence of 95 %, that fewer than the share `risk`
//! of all seeds miss.
//!
//! * Nothing is recommended that takes more of anything than a state that meets the goals.
//! * A limit is advised on only if something of the goals runs in its group.
//! * A goal can be met by work that is not done: fewer workers wait less, and so do throttled ones,
//!   and within the time of a run a server without quota has answered no request too late. So a run
//!   counts as missed in which less work is done than today: requests of services, CPU time of
//!   other tasks. The wakeup latency of a service's threads is refused, and that of its requests is
//!   named; a goal that asks for less work is refused, too.
//!
//! A workload imported from a trace has a base error. A change whose effect is below it is answered
//! with "cannot tell".
//!
//! [`budget`] answers for groups with a real-time budget (`cpu.rt.max`). [`counters`] answers from
//! `cpu.stat` alone, and says what such counters cannot tell.

pub mod budget;
pub mod counters;
pub mod samples;
pub(crate) mod view;

use crate::error::Error;
use crate::goals;
use crate::knob::{Knob, Part};
use crate::limit::Limit;
use crate::risk::{Rule, Settled};
use crate::simulation::Plan;
use crate::sweep::RunError;
use crate::sweep::judge::{Judge, Judged, Least};
use crate::sweep::search::smallest;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::{CpuMax, Duration};
use zerolag_report::figure::Owner;
use zerolag_workload::Program;
use zerolag_workload::goal::Goal;
use zerolag_workload::limits::LimitPart;
use zerolag_workload::origin::Apart;
use zerolag_workload::program::{TaskDef, is_below};

/// What is asked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Question {
    /// The goals, as in scenarios; `p99 <= 40ms` stands for `request_latency.p99 <= 40ms`. Without
    /// any, those of the workload.
    pub goals: Vec<String>,
    /// What the answer promises, and the seeds of its searches.
    pub rule: Rule,
    /// The group whose limit is changed, if there are several.
    pub group: Option<String>,
    /// The relative base error of the workload, instead of what its
    /// [origin](zerolag_workload::origin::Origin) says: smaller effects say nothing.
    pub base_error: Option<f64>,
}

/// What is turned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    AsItIs,
    /// The limit is taken away: what the best limit could give.
    NoLimit,
    /// The quota.
    Limit,
    /// The burst.
    Burst,
    /// The quota, with a burst as large as it.
    LimitAndBurst,
    /// The threads of the service.
    Workers,
}

impl Change {
    /// Returns its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AsItIs => "as it is",
            Self::NoLimit => "no limit",
            Self::Limit => "limit",
            Self::Burst => "burst",
            Self::LimitAndBurst => "limit and burst",
            Self::Workers => "workers",
        }
    }
}

/// A value that was searched for, or a state.
#[derive(Clone, PartialEq, Debug)]
pub struct Alternative {
    /// What is turned.
    pub change: Change,
    /// The limit of the group; none if there is no group.
    pub limit: Option<Limit>,
    /// The threads of the service, if there is one.
    pub workers: Option<u32>,
    /// What its runs gave.
    pub judged: Judged,
    /// Whether the effect is below the base error, or it takes no more than today where today is
    /// simulated otherwise than recorded: then nothing is known.
    pub is_below_base_error: bool,
}

impl Alternative {
    /// Returns whether the goals are met as often as asked.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.judged.is_met()
    }

    /// Returns the mean number of CPUs that the group, or all tasks, use.
    #[must_use]
    pub fn used_cpus(&self) -> f64 {
        let (searched, fresh) = (&self.judged.searched, &self.judged.fresh);
        let sum = |tally: &crate::sweep::judge::Tally| tally.used_cpus * tally.misses.runs as f64;
        (sum(searched) + sum(fresh)) / searched.misses.and(fresh.misses).runs.max(1) as f64
    }

    /// Returns the reserved CPU time in thousandths of a CPU; none without a limit.
    #[must_use]
    pub fn reserved_milli(&self) -> Option<u64> {
        self.limit.as_ref()?.limits_cpu_milli
    }

    /// Returns the most CPUs that the group can use within one period: quota and burst over the
    /// period, at most the machine.
    #[must_use]
    pub fn peak_cpus(&self, nr_cpus: usize) -> f64 {
        let of = |limit: &Limit| Some((limit.quota_us? + limit.burst_us) as f64 / limit.period_us.max(1) as f64);
        self.limit.as_ref().and_then(of).unwrap_or(nr_cpus as f64).min(nr_cpus as f64)
    }
}

/// The answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The goals.
    pub goals: Vec<Goal>,
    /// The group whose limit was changed, if there is one.
    pub group: Option<String>,
    /// The CPUs of the machine.
    pub nr_cpus: usize,
    /// Simulated time per run.
    pub duration: Option<Duration>,
    /// The service whose number of workers was changed, if there is one.
    pub service: Option<String>,
    /// What the answer promises, and the seeds of the searches.
    pub rule: Rule,
    /// The first seed.
    pub first_seed: u64,
    /// The relative base error of an imported workload: of the goals' figures, the largest.
    pub base_error: Option<f64>,
    /// What was tried: as it is first, then without a limit.
    pub alternatives: Vec<Alternative>,
    /// What was turned through all its values and never met the goals.
    pub not_enough: Vec<Change>,
    /// What would have needed more runs than allowed.
    pub not_settled: Vec<Change>,
    /// Whether a run counts as missed in which tasks compute less, or services answer fewer
    /// requests, than today.
    pub counts_work: bool,
    /// Why the simulation promises nothing of today's settings, nor of less
    /// ([`Origin::unlike`](zerolag_workload::origin::Origin::unlike)).
    pub unlike: Option<String>,
    /// The index of the one to choose; none if none meets the goals.
    pub choice: Option<usize>,
}

/// Answers a question about a simulation.
///
/// ```
/// use zerolag::advise::{Question, advise};
/// use zerolag::risk::Rule;
/// use zerolag::{Simulation, Workload};
///
/// let text = "[machine]\ncpus = 4\n[group.\"/web\"]\nlimits.cpu = 1\n[service.web]\nworkers = 4\ngroup = \"/web\"\n\
///     arrivals = { bursts = { size = 8, every = { exponential = { mean = \"100ms\" } } } }\nsteps = [{ run = \"5ms\" }]\n";
/// let plan = Simulation::new(Workload::toml(text)).duration("5s".parse()?).plan()?.plan;
/// let rule = Rule::new(0.3, Some(3), None)?;
/// let question = Question { goals: vec!["p99 <= 60ms".into()], rule, ..Question::default() };
/// let advice = advise(&plan, &question, |_| std::ops::ControlFlow::Continue(()))?;
/// let choice = &advice.alternatives[advice.choice.expect("a limit meets the goal")];
/// assert!(choice.is_met() && choice.judged.share_below() <= Some(0.3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A goal is wrong, missing, or about a figure that does not exist or that a limit cannot be judged
/// by; the group is ambiguous, or nothing of the goals runs in it; a run failed; or `progress`,
/// which gets the number of runs, ended it.
pub fn advise(
    plan: &Plan,
    question: &Question,
    progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Advice, Error> {
    let program = &*plan.program;
    let goals = match &question.goals[..] {
        [] if plan.goals.is_empty() => {
            return Err(Error::input_help("there is no goal", "give one, as in --goal 'p99 <= 40ms'"));
        }
        [] => plan.goals.iter().map(|goal| goal.text.clone()).collect(),
        given => given.to_vec(),
    };
    let goals = goals::read(&goals, program)?;
    let group = group_of(program, question.group.as_deref(), &goals)?;
    let task = match Knob::find("workers", program) {
        Some(Ok(knob)) => Some(knob.index),
        Some(Err(_)) | None => None,
    };
    let work = goals::work_of(program, &goals, group)?;
    let path = group.map(|group| Arc::clone(&program.groups[group].path));
    let judge = Judge::new(plan, &goals, question.rule, progress).of_group(path).counting_work(work.clone());
    let mut study = AdviseStudy { plan, judge, group, task, not_settled: Vec::new() };
    let mut alternatives = study.alternatives()?;
    study.judge.refuse_unmeasured()?;
    let not_settled = study.not_settled;
    // Of each goal's figure.
    let base_errors: Option<Vec<Apart>> = match (question.base_error, &program.origin) {
        (Some(error), _) => Some(vec![Apart::Share(error); goals.len()]),
        (None, Some(origin)) => Some(goals.iter().map(|goal| origin.base_error.of(goal.figure)).collect()),
        (None, None) => None,
    };
    mark_below_base_error(base_errors.as_deref(), &mut alternatives);
    let unlike = program.origin.as_ref().and_then(|origin| origin.unlike.as_deref());
    if unlike.is_some() {
        mark_no_more_than_today(&mut alternatives);
    }
    let choice = choose(&alternatives);
    let has = |change| alternatives.iter().any(|alternative| alternative.change == change);
    let is_met_today = alternatives.first().is_some_and(Alternative::is_met);
    let tried = |change: &Change| match change {
        Change::Limit | Change::Burst | Change::LimitAndBurst => {
            alternatives.iter().any(|alternative| alternative.change == Change::NoLimit && alternative.is_met())
        }
        Change::Workers => task.is_some(),
        Change::AsItIs | Change::NoLimit => false,
    };
    let all = [Change::Limit, Change::Burst, Change::LimitAndBurst, Change::Workers];
    let is_not_enough =
        |change: &Change| !is_met_today && tried(change) && !has(*change) && !not_settled.contains(change);
    Ok(Advice {
        group: group.map(|group| program.groups[group].path.to_string()),
        service: task.map(|task| program.tasks[task].name.to_string()),
        nr_cpus: plan.config.topology.nr_cpus(),
        duration: plan.config.duration,
        rule: question.rule,
        first_seed: plan.config.seed,
        base_error: base_errors.and_then(|errors| errors.into_iter().filter_map(Apart::share).reduce(f64::max)),
        not_enough: all.into_iter().filter(is_not_enough).collect(),
        not_settled,
        counts_work: !work.is_empty(),
        unlike: unlike.map(str::to_owned),
        choice,
        alternatives,
        goals,
    })
}

/// Returns the group whose limit is asked about; none if the workload has no group, or nothing of
/// the goals runs in the one that it has.
fn group_of(program: &Program, name: Option<&str>, goals: &[Goal]) -> Result<Option<usize>, Error> {
    let concerned = |index: &usize| goals.iter().any(|goal| concerns(goal, program, *index));
    if let Some(name) = name {
        let found = match Knob::find(&format!("{name}:cpu.max"), program) {
            Some(Ok(knob)) => knob.index,
            Some(Err(error)) => return Err(Error::input_help(error.message, error.help)),
            None => return Ok(None),
        };
        if concerned(&found) {
            return Ok(Some(found));
        }
        let groups = (0..program.groups.len()).filter(concerned).map(|index| &*program.groups[index].path);
        let groups: Vec<&str> = groups.collect();
        let help = match &groups[..] {
            [] => "no group: leave --of out".to_owned(),
            groups => format!("they run in {}", groups.join(", ")),
        };
        return Err(Error::input_help(format!("nothing of the goals runs in `{name}`"), help));
    }
    let limited = (0..program.groups.len()).filter(|index| program.groups[*index].max.quota.is_some());
    let limited: Vec<usize> = limited.filter(concerned).collect();
    match limited[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        [..] => {
            let paths: Vec<&str> = limited.iter().map(|index| &*program.groups[*index].path).collect();
            let message = format!("ambiguous group; candidates: {}", paths.join(", "));
            Err(Error::input_help(message, format!("name the group: --of {}", paths[0])))
        }
    }
}

/// Returns whether something that a goal is about runs in a group or below it.
fn concerns(goal: &Goal, program: &Program, group: usize) -> bool {
    let above = &*program.groups[group].path;
    let is_named = |name: &str| goal.task.as_deref().is_none_or(|asked| asked == name);
    let runs_within = |task: &TaskDef| goals::runs_within(program, task, group);
    match goal.figure.owner() {
        Owner::Task => program.tasks.iter().any(|task| is_named(&task.name) && runs_within(task)),
        // The threads of a service have its name.
        Owner::Service => {
            let is_service = |task: &TaskDef| program.services().any(|service| *service == *task.name);
            program.tasks.iter().any(|task| is_named(&task.name) && is_service(task) && runs_within(task))
        }
        Owner::Group => program.groups.iter().any(|group| is_named(&group.path) && is_below(&group.path, above)),
        Owner::Machine | Owner::Cpu => true,
    }
}

fn with_max(program: &Program, group: usize, max: CpuMax) -> Program {
    let mut program = program.clone();
    program.groups[group].max = max;
    program.groups[group].cpus.limit_milli = None;
    program
}

/// What every try has in common.
struct AdviseStudy<'p, P> {
    plan: &'p Plan,
    judge: Judge<'p, P>,
    group: Option<usize>,
    task: Option<usize>,
    not_settled: Vec<Change>,
}

impl<P: FnMut(usize) -> ControlFlow<()>> AdviseStudy<'_, P> {
    /// Returns the present state, that without a limit, and what was searched for.
    fn alternatives(&mut self) -> Result<Vec<Alternative>, RunError> {
        let program = &*self.plan.program;
        let today = self.judge.judge(program)?;
        let mut alternatives = vec![self.alternative(Change::AsItIs, today)];
        let max = self.group.map(|group| program.groups[group].max).filter(|max| max.quota.is_some());
        if let (Some(group), Some(max)) = (self.group, max) {
            let without = self.judge.judge(&with_max(program, group, CpuMax { quota: None, ..max }))?;
            let settled = without.settled;
            alternatives.push(self.alternative(Change::NoLimit, without));
            match settled {
                Some(Settled::Met) => alternatives.extend(self.limit(group, max)?),
                Some(Settled::Open) => {
                    self.not_settled.extend([Change::Limit, Change::Burst, Change::LimitAndBurst]);
                }
                Some(Settled::Missed) | None => {}
            }
        }
        if let Some(index) = self.task {
            let found = smallest(&mut self.judge, self.plan, Knob { part: Part::Workers, index })?;
            alternatives.extend(self.found(Change::Workers, found.least.map(|trial| trial.judged), found.is_open));
        }
        Ok(alternatives)
    }

    /// Returns a judged program as an alternative.
    fn alternative(&self, change: Change, judged: Judged) -> Alternative {
        let program = &judged.program;
        let path = self.group.map(|group| program.groups[group].path.to_string());
        let limit = Limit::all(program).into_iter().find(|limit| path.as_ref() == Some(&limit.group));
        let workers = self.task.map(|task| program.tasks[task].instances);
        Alternative { change, limit, workers, judged, is_below_base_error: false }
    }

    /// Returns what a search found, or notes that it is not settled.
    fn found(&mut self, change: Change, judged: Option<Judged>, is_open: bool) -> Option<Alternative> {
        if is_open {
            self.not_settled.push(change);
        }
        judged.map(|judged| self.alternative(change, judged))
    }

    /// Returns the smallest limit, burst, and both.
    fn limit(&mut self, group: usize, max: CpuMax) -> Result<Vec<Alternative>, RunError> {
        let mut alternatives = Vec::new();
        for (change, part) in [(Change::Limit, LimitPart::Max), (Change::Burst, LimitPart::Burst)] {
            let knob = Knob { part: Part::Limit(part), index: group };
            let found = smallest(&mut self.judge, self.plan, knob)?;
            alternatives.extend(self.found(change, found.least.map(|trial| trial.judged), found.is_open));
        }
        // In hundredths of a CPU, as the searches above.
        let program = &*self.plan.program;
        let step = Duration::from_nanos((max.period.as_nanos() / 100).max(1));
        let units = |time: Duration| time.as_nanos().div_ceil(step.as_nanos()).max(1);
        let (low, high) = (units(CpuMax::SHORTEST), 100 * self.plan.config.topology.nr_cpus() as u64);
        let both = |place: u64| {
            let quota = step * (low + place);
            Ok(with_max(program, group, CpuMax { quota: Some(quota), burst: quota, ..max }))
        };
        let Least { mut tried, answer, is_open } = self.judge.least(high.saturating_sub(low), both)?;
        let judged = answer.and_then(|place| tried.remove(&place));
        alternatives.extend(self.found(Change::LimitAndBurst, judged, is_open));
        Ok(alternatives)
    }
}

/// Marks what differs from the present state by less than the base error, by the worst run.
fn mark_below_base_error(base: Option<&[Apart]>, alternatives: &mut [Alternative]) {
    let Some(base) = base else { return };
    let figures = |alternative: &Alternative| -> Vec<Option<u64>> {
        alternative.judged.searched.worst.iter().map(|verdict| verdict.figure).collect()
    };
    let Some((first, rest)) = alternatives.split_first_mut() else { return };
    let before = figures(first);
    for alternative in rest {
        let after = figures(alternative);
        let is_small = before.iter().zip(&after).zip(base).all(|(pair, base)| match pair {
            (Some(before), Some(after)) => base.hides(*before as f64, *after as f64),
            _ => *base == Apart::UNKNOWN,
        });
        alternative.is_below_base_error = is_small;
    }
}

/// Marks what takes no more than the present state: a simulation that throttles otherwise than the
/// recording does not tell whether that is enough. More is enough where less would be.
fn mark_no_more_than_today(alternatives: &mut [Alternative]) {
    let Some(today) = alternatives.first().map(taken) else { return };
    for alternative in alternatives.iter_mut().filter(|alternative| !takes_more(alternative, today)) {
        alternative.is_below_base_error = true;
    }
}

/// Returns whether an alternative takes more of anything than the present state.
fn takes_more(alternative: &Alternative, today: [u64; 3]) -> bool {
    taken(alternative).iter().zip(&today).any(|(then, now)| then > now)
}

/// What an alternative takes: the quota and the burst in microseconds per period of a second, and
/// threads. No limit is more than any.
fn taken(alternative: &Alternative) -> [u64; 3] {
    let [quota, burst] = alternative.limit.as_ref().map_or([u64::MAX, 0], Limit::taken);
    [quota, burst, alternative.workers.unwrap_or(0).into()]
}

/// Returns the alternative that meets the goals and reserves least; of equal ones that which
/// changes least. No limit at all is never chosen, and a change below the base error neither. If
/// the present state meets the goals, nothing is chosen that takes more of anything.
fn choose(alternatives: &[Alternative]) -> Option<usize> {
    let today = alternatives.first().filter(|today| today.is_met()).map(taken);
    let possible = alternatives.iter().enumerate().filter(|(_, alternative)| {
        alternative.is_met()
            && !alternative.is_below_base_error
            && alternative.change != Change::NoLimit
            && !today.is_some_and(|today| takes_more(alternative, today))
    });
    possible.min_by_key(|(at, alternative)| (taken(alternative), *at)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::search::Search;
    use crate::{Simulation, Workload};

    fn ask(group: &str, workers: u32, goal: &str, question: Question) -> Advice {
        let text = format!(
            "[machine]\ncpus = 4\n{group}\n[service.web]\nworkers = {workers}\narrivals = {{ bursts = {{ size = 8, every = \
             {{ exponential = {{ mean = \"200ms\" }} }} }} }}\nsteps = [{{ run = \"5ms\" }}]\n"
        );
        let text = if group.is_empty() { text } else { text.replace("workers =", "group = \"/web\"\nworkers =") };
        let simulation = Simulation::new(Workload::toml(&text)).duration(Duration::from_secs(3));
        let rule = Rule::new(0.3, Some(3), None).expect("valid");
        let question = Question { goals: vec![goal.to_owned()], rule, ..question };
        let plan = simulation.plan().expect("it is valid").plan;
        advise(&plan, &question, |_| ControlFlow::Continue(())).expect("an answer")
    }

    const HALF: &str = "[group.\"/web\"]\nlimits.cpu = \"300m\"";

    #[test]
    fn the_answer_meets_the_goal_and_one_step_less_does_not() {
        let advice = ask(HALF, 4, "p99 <= 60ms", Question::default());
        let [now, without, ..] = &advice.alternatives[..] else { panic!("{advice}") };
        assert_eq!((now.change, without.change), (Change::AsItIs, Change::NoLimit));
        assert!(!now.is_met() && without.is_met(), "{advice}");
        let limit = advice.alternatives.iter().find(|found| found.change == Change::Limit).expect("a limit is enough");
        let judged = &limit.judged;
        assert!(limit.is_met() && judged.searched.misses.missed == 0 && judged.share_below() <= Some(0.3), "{advice}");
        let least = limit.reserved_milli().expect("a limit");
        assert!((310..4000).contains(&least), "{advice}");
        let below = ask(&HALF.replace("300m", &format!("{}m", least - 10)), 4, "p99 <= 60ms", Question::default());
        assert!(below.alternatives[0].judged.searched.misses.missed > 0, "{least}m is the least: {below}");
        let chosen = advice.chosen().expect("a choice");
        assert!(chosen.is_met() && chosen.change != Change::NoLimit);
        assert!(advice.ticket().contains("cpu.max of /web to \""), "{}", advice.ticket());
        assert_eq!(advice.to_json()["alternatives"].as_array().map(Vec::len), Some(advice.alternatives.len()));
    }

    #[test]
    fn a_limit_that_is_not_the_cause_is_said() {
        // 8 requests of 5 ms on 4 CPUs take 10 ms, whatever the limit.
        let advice = ask("[group.\"/web\"]\nlimits.cpu = 4", 4, "p99 <= 4ms", Question::default());
        assert!(advice.is_not_the_limit() && advice.choice.is_none(), "{advice}");
        assert!(advice.ticket().starts_with("A larger CPU limit of /web does not help"), "{}", advice.ticket());
        assert_eq!(advice.not_enough, [Change::Workers]);
        let advice = ask("", 1, "p99 <= 30ms", Question::default());
        assert_eq!(advice.chosen().map(|chosen| chosen.change), Some(Change::Workers), "{advice}");
        assert!(advice.ticket().contains("workers of web instead of 1"), "{}", advice.ticket());
    }

    #[test]
    fn effects_below_the_base_error_are_not_chosen() {
        let question = Question { base_error: Some(0.9999), ..Question::default() };
        let advice = ask(HALF, 4, "p99 <= 60ms", question);
        assert!(advice.alternatives[1..].iter().all(|found| found.is_below_base_error), "{advice}");
        assert!(advice.choice.is_none() && advice.to_string().contains("cannot tell"), "{advice}");
    }

    /// A recording that was throttled otherwise than its simulation: that the goal is met today is
    /// not promised, nor under less; more is.
    #[test]
    fn no_more_than_today_is_promised_where_it_is_simulated_otherwise_than_recorded() {
        const UNLIKE: &str = "unlike = \"/web was throttled in 16 periods, 8 simulated\"\n";
        let judged = |unlike: &str, cpus: &str| {
            let errors = "{ run = \"1%\", wait = \"1%\", latency = \"1%\" }";
            let origin = format!("[origin]\ntrace = \"x\"\nbase_error = {errors}\n{unlike}");
            ask(&format!("{origin}[group.\"/web\"]\nlimits.cpu = {cpus}"), 4, "p99 <= 60ms", Question::default())
        };
        let like = judged("", "4");
        assert!(like.chosen().is_some_and(|chosen| chosen.change == Change::Limit), "it needs less: {like}");
        let unlike = judged(UNLIKE, "4");
        assert!(unlike.chosen().is_none(), "{unlike}");
        assert!(unlike.ticket().contains("16 periods, 8 simulated"), "{}", unlike.ticket());
        let missed = judged(UNLIKE, "\"300m\"");
        assert!(missed.chosen().is_some_and(|chosen| chosen.change == Change::LimitAndBurst), "more: {missed}");
    }

    #[test]
    fn a_question_without_a_goal_is_refused() {
        let plan =
            Simulation::new(Workload::toml("[task.a]\nsteps = [{ run = \"1ms\" }]\n")).plan().expect("valid").plan;
        let ask = |goals: &[&str], group: Option<&str>| {
            let goals = goals.iter().map(|goal| (*goal).to_owned()).collect();
            let question = Question { goals, group: group.map(str::to_owned), ..Question::default() };
            advise(&plan, &question, |_| ControlFlow::Continue(())).expect_err("refused").to_string()
        };
        assert!(ask(&[], None).starts_with("there is no goal"));
        assert!(ask(&["p99 <= 1ms", "x"], None).contains("p99"));
        assert!(ask(&["a.run >= 0ms"], Some("/web")).contains("there is no group `/web`"));
    }

    fn plan(text: &str, duration: u64) -> Plan {
        let simulation = Simulation::new(Workload::toml(text)).duration(Duration::from_secs(duration));
        simulation.plan().expect("it is valid").plan
    }

    fn question(goals: &[&str]) -> Question {
        let rule = Rule::new(0.3, Some(4), None).expect("valid");
        Question { goals: goals.iter().map(|goal| (*goal).to_owned()).collect(), rule, ..Question::default() }
    }

    fn go(_: usize) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn advice_and_a_search_find_the_same_values() {
        let text = include_str!("../../../../examples/web-service-limit.toml");
        let (plan, question) = (plan(text, 5), question(&["p99 <= 60ms"]));
        let advice = advise(&plan, &question, go).expect("an answer");
        for (change, key) in
            [(Change::Limit, "cpu.max"), (Change::Burst, "cpu.max.burst"), (Change::Workers, "workers")]
        {
            let search = Search::run(&plan, key, &question.goals, question.rule, go).expect("it runs");
            let advised = advice.alternatives.iter().find(|alternative| alternative.change == change);
            // A search knows no group: the CPU time that it counts is that of all tasks.
            let said =
                |judged: &Judged| (judged.program.clone(), judged.searched.misses, judged.fresh.misses, judged.settled);
            let found = search.found.least.as_ref().map(|one| said(&one.judged));
            assert_eq!(advised.map(|one| said(&one.judged)), found, "{key}");
        }
        assert!(advice.alternatives.iter().any(|one| one.change == Change::Limit), "{advice}");
    }

    /// A service with two workers outside of the only group; something else runs in the group.
    const BESIDE: &str = "[machine]\ncpus = 4\n[group.\"/batch\"]\n\"cpu.max\" = \"50000 100000\"\n\
        [service.web]\nworkers = 2\narrivals = { poisson = \"50/s\" }\n\
        steps = [{ run = { exponential = { mean = \"2ms\" } } }, { sleep = \"1ms\" }]\n\
        [task.batch]\ngroup = \"/batch\"\nsteps = [{ run = \"100ms\" }]\n";

    #[test]
    fn nothing_is_recommended_beyond_what_meets_the_goal() {
        let advice = advise(&plan(BESIDE, 2), &question(&["web.request_latency.p99 <= 100ms"]), go).expect("an answer");
        let today = &advice.alternatives[0];
        assert!(today.is_met() && today.workers == Some(2), "{advice}");
        let chosen = advice.chosen().expect("the present state meets it");
        assert!(chosen.workers <= Some(2), "{advice}");
        assert!(
            advice.group.is_none() && !advice.to_string().contains("/batch"),
            "nothing of the goal runs there: {advice}"
        );
        let of = Question { group: Some("/batch".to_owned()), ..question(&["web.request_latency.p99 <= 100ms"]) };
        let error = advise(&plan(BESIDE, 2), &of, go).expect_err("nothing of the goal runs there").to_string();
        assert!(error.starts_with("nothing of the goals runs in `/batch`"), "{error}");
        let batch = advise(&plan(BESIDE, 2), &question(&["batch.share >= 10%"]), go).expect("an answer");
        assert_eq!(batch.group.as_deref(), Some("/batch"));
    }

    /// A service without arrivals of its own, as a closed client's server is, has figures too.
    #[test]
    fn a_goal_of_a_service_that_only_tasks_call_is_judged() {
        const CALLED: &str = "kernel = \"6.12\"\nduration = \"1s\"\n[machine]\ncpus = 1\n[group.\"/s\"]\n\"cpu.max\" = \"20000 100000\"\n\
             [service.server]\ngroup = \"/s\"\nworkers = 1\nsteps = [{ run = \"2ms\" }]\n\
             [task.client]\nloop = \"forever\"\nsteps = [{ run = \"1ms\" }, { call = \"server\" }]\n";
        let advice = advise(&plan(CALLED, 1), &question(&["server.request_latency.p99 <= 99ms"]), go).expect("advice");
        // It answers 100 requests now. Under less quota none takes longer than 99 ms, and they are
        // fewer.
        assert!(advice.counts_work && advice.chosen().is_none_or(|of| of.change == Change::AsItIs), "{advice}");
    }

    #[test]
    fn figures_that_do_not_exist_are_refused_with_those_that_do() {
        let refused = |goal: &str| advise(&plan(BESIDE, 1), &question(&[goal]), go).expect_err(goal).to_string();
        for (goal, says, help) in [
            ("nosuchthing.wakeup_latency.p99 <= 1ms", "there is no task named `nosuchthing`", "web.wakeup_latency.p99"),
            ("db.request_latency.p95 <= 1ms", "there is no service named `db`", "web.request_latency.p95"),
            ("/web.throttled <= 1ms", "there is no group named `/web`", "/batch.throttled"),
            ("batch.timers.missed <= 0", "no run has measured timers.missed", "batch.run"),
            ("p95 < = 1ms", "goal \"p95 < = 1ms\"", ""),
            ("p100 <= 1ms", "goal \"p100 <= 1ms\"", ""),
        ] {
            let error = refused(goal);
            assert!(error.contains(says) && error.contains(help) && !error.contains("goal="), "{goal}: {error}");
        }
    }

    #[test]
    fn wakeup_latency_is_no_goal_for_a_service() {
        let refused = advise(&plan(BESIDE, 1), &question(&["web.wakeup_latency.p95 <= 1ms"]), go);
        let error = refused.expect_err("it is met by work that is not done").to_string();
        assert!(error.contains("says nothing of requests") && error.contains("web.request_latency.p95"), "{error}");
        let batch = advise(&plan(BESIDE, 1), &question(&["batch.wait.max <= 1s"]), go).expect("judged with its work");
        assert!(batch.counts_work && batch.to_string().contains("less is done than today"), "{batch}");
    }

    /// A server that needs half a CPU, under a limit of one. No request of a run of ten seconds can
    /// be later than ten seconds.
    const SERVER: &str = "[machine]\ncpus = 2\n[group.\"/a\"]\n\"cpu.max\" = \"100000 100000\"\n[service.web]\n\
        group = \"/a\"\nworkers = 2\narrivals = { poisson = \"100/s\" }\nsteps = [{ run = \"5ms\" }]\n";

    #[test]
    fn no_advice_makes_a_service_unreachable() {
        for goal in ["web.request_latency.max <= 10s", "/a.nr_throttled <= 100", "web.request_latency.p50 <= 9s"] {
            let advice = advise(&plan(SERVER, 10), &question(&[goal]), go).expect("an answer");
            let chosen = advice.chosen().expect("the present state meets it");
            let quota = chosen.limit.as_ref().and_then(|limit| limit.quota_us).expect("a limit");
            assert!((45_000..=100_000).contains(&quota), "{goal}: it needs half a CPU\n{advice}");
        }
        // The goal is about another task of the group: the server counts all the same.
        let beside = format!("{SERVER}[task.x]\ngroup = \"/a\"\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"1s\" }}]\n");
        let advice = advise(&plan(&beside, 10), &question(&["x.wait.max <= 1s"]), go).expect("an answer");
        let quota = advice.chosen().and_then(|one| one.limit.as_ref()?.quota_us).expect("a limit");
        assert!(quota >= 45_000, "{advice}");
    }

    #[test]
    fn a_goal_that_asks_for_less_work_is_refused() {
        for goal in
            ["web.run <= 1s", "/a.usage <= 1s", "/a.usage.share <= 40%", "machine.idle >= 2s", "web.sleep >= 1s"]
        {
            let error = advise(&plan(SERVER, 1), &question(&[goal]), go).expect_err(goal).to_string();
            assert!(error.contains("no work at all meets it best"), "{goal}: {error}");
        }
    }
}
