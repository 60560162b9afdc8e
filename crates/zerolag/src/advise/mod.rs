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
//! The search judges each value with `seeds` seeds, of which at most the share `risk` may miss. A
//! value found so fits these seeds, so each answer is run again with as many other seeds: the share
//! of those that miss is the risk that is printed.
//!
//! A workload imported from a trace has a base error. A change whose effect is below it is answered
//! with "cannot tell".
//!
//! [`counters`] answers from `cpu.stat` alone, and says what such counters cannot tell.

pub mod counters;
pub mod samples;
pub(crate) mod view;

use crate::error::{Error, ValueError};
use crate::goals::{self, Verdict};
use crate::knob::Knob;
use crate::limit::Limit;
use crate::simulation::Plan;
use crate::sweep::{RunError, run_all};
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::{CpuMax, Duration};
use zerolag_report::Summary;
use zerolag_report::figure::Quantity;
use zerolag_workload::Program;
use zerolag_workload::goal::{Goal, Relation};
use zerolag_workload::origin::is_within;

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The goals, as in scenarios; `p99 <= 40ms` stands for `request_latency.p99 <= 40ms`. Without
    /// any, those of the workload.
    pub goals: Vec<String>,
    /// Seeds that judge a value, and as many others that judge the answer.
    pub seeds: u64,
    /// The share of seeds that may miss, 0..1.
    pub risk: f64,
    /// The group whose limit is changed, if there are several.
    pub group: Option<String>,
    /// The relative base error of the workload, instead of what its
    /// [origin](zerolag_workload::origin::Origin) says: smaller effects say nothing.
    pub base_error: Option<f64>,
}

impl Default for Question {
    fn default() -> Self {
        Self { goals: Vec::new(), seeds: 10, risk: 0.0, group: None, base_error: None }
    }
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

/// How many runs missed a goal.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Of these, runs that missed a goal.
    pub missed: u64,
    /// Per goal the figure of the worst run.
    pub worst: Vec<Verdict>,
    /// The CPU time of the group, or of all tasks, as a number of CPUs: mean of the runs.
    pub used_cpus: f64,
}

impl Tally {
    /// Returns the share of runs that missed.
    #[must_use]
    pub fn risk(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.missed as f64 / self.runs as f64 }
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
    /// The runs with the seeds of the search.
    pub searched: Tally,
    /// The runs with other seeds.
    pub others: Tally,
    /// Whether the goals are met as often as asked, with the seeds of the search.
    pub is_met: bool,
    /// Whether the effect is below the base error: then nothing is known.
    pub is_below_base_error: bool,
}

impl Alternative {
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
    /// Seeds of the search, and as many others.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// The share of seeds that may miss.
    pub risk: f64,
    /// The relative base error of an imported workload.
    pub base_error: Option<f64>,
    /// What was tried: as it is first, then without a limit.
    pub alternatives: Vec<Alternative>,
    /// What was turned through all its values and never met the goals.
    pub not_enough: Vec<Change>,
    /// The index of the one to choose; none if none meets the goals.
    pub choice: Option<usize>,
}

/// What every try has in common.
struct AdviseStudy<'p, P> {
    plan: &'p Plan,
    goals: Vec<Goal>,
    group: Option<usize>,
    task: Option<usize>,
    question: &'p Question,
    done: usize,
    progress: P,
}

/// Answers a question about a simulation.
///
/// ```
/// use zerolag::advise::{Question, advise};
/// use zerolag::{Simulation, Workload};
///
/// let text = "[machine]\ncpus = 4\n[group.\"/web\"]\nlimits.cpu = 1\n[service.web]\nworkers = 4\ngroup = \"/web\"\n\
///     arrivals = { bursts = { size = 8, every = { exponential = { mean = \"100ms\" } } } }\nsteps = [{ run = \"5ms\" }]\n";
/// let plan = Simulation::new(Workload::toml(text)).duration("5s".parse()?).plan()?.plan;
/// let question = Question { goals: vec!["p99 <= 60ms".into()], seeds: 3, ..Question::default() };
/// let advice = advise(&plan, &question, |_| std::ops::ControlFlow::Continue(()))?;
/// let choice = &advice.alternatives[advice.choice.expect("a limit meets the goal")];
/// assert!(choice.is_met && choice.searched.missed == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A goal is wrong or missing, the group is ambiguous, a run failed, or `progress`, which gets the
/// number of runs, ended it.
pub fn advise(
    plan: &Plan,
    question: &Question,
    progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Advice, Error> {
    let goals = goals_of(plan, &question.goals)?;
    let group = group_of(&plan.program, question.group.as_deref())?;
    let task = match Knob::find("workers", &plan.program) {
        Some(Ok(knob)) => Some(knob.index),
        Some(Err(_)) | None => None,
    };
    let program = &*plan.program;
    let base_error =
        question.base_error.or_else(|| Some(program.origin.as_ref()?.base_error.of(Quantity::Wait.into())));
    let question = &Question { base_error, ..question.clone() };
    let mut study = AdviseStudy { plan, goals, group, task, question, done: 0, progress };
    let mut alternatives = vec![study.judge(Change::AsItIs, program)?];
    let max = group.map(|group| program.groups[group].max).filter(|max| max.quota.is_some());
    if let (Some(group), Some(max)) = (group, max) {
        let without = with_max(program, group, CpuMax { quota: None, ..max });
        let without = study.judge(Change::NoLimit, &without)?;
        let helps = without.is_met;
        alternatives.push(without);
        if helps {
            alternatives.extend(study.limit(group, max)?);
        }
    }
    if let Some(task) = task {
        alternatives.extend(study.workers(task)?);
    }
    study.mark_below_base_error(&mut alternatives);
    let choice = choose(&alternatives);
    let has = |change| alternatives.iter().any(|alternative| alternative.change == change);
    let tried = |change: &Change| match change {
        Change::Limit | Change::Burst | Change::LimitAndBurst => {
            alternatives.iter().any(|alternative| alternative.change == Change::NoLimit && alternative.is_met)
        }
        Change::Workers => task.is_some(),
        Change::AsItIs | Change::NoLimit => false,
    };
    let all = [Change::Limit, Change::Burst, Change::LimitAndBurst, Change::Workers];
    let not_enough = all.into_iter().filter(|change| tried(change) && !has(*change)).collect();
    Ok(Advice {
        goals: study.goals,
        group: group.map(|group| program.groups[group].path.to_string()),
        nr_cpus: plan.config.topology.nr_cpus(),
        duration: plan.config.duration,
        seeds: question.seeds,
        first_seed: plan.config.seed,
        risk: question.risk,
        base_error: question.base_error,
        alternatives,
        not_enough,
        choice,
    })
}

/// Reads the goals, or takes the workload's own.
fn goals_of(plan: &Plan, texts: &[String]) -> Result<Vec<Goal>, Error> {
    if texts.is_empty() {
        if plan.goals.is_empty() {
            return Err(Error::input_help("there is no goal", "give one, as in --goal 'p99 <= 40ms'"));
        }
        return Ok(plan.goals.clone());
    }
    let mut wrong = Vec::new();
    let mut goals = Vec::new();
    for text in texts {
        // `p99` of a workload with requests is theirs.
        let is_short = ["p50", "p90", "p99", "max", "mean"].iter().any(|short| text.trim_start().starts_with(short));
        let full = if is_short && plan.program.services().next().is_some() {
            format!("request_latency.{}", text.trim_start())
        } else {
            text.clone()
        };
        match Goal::parse(&full) {
            Ok(goal) => goals.push(goal),
            Err((message, help)) => wrong.push(ValueError { help, ..ValueError::new("goal", text, message) }),
        }
    }
    if wrong.is_empty() { Ok(goals) } else { Err(Error::Values(wrong)) }
}

/// Returns the group whose limit is asked about; none if the workload has no groups.
fn group_of(program: &Program, name: Option<&str>) -> Result<Option<usize>, Error> {
    if program.groups.is_empty() && name.is_none() {
        return Ok(None);
    }
    let key = name.map_or_else(|| "cpu.max".to_owned(), |name| format!("{name}:cpu.max"));
    match Knob::find(&key, program) {
        Some(Ok(knob)) => Ok(Some(knob.index)),
        Some(Err(error)) => Err(Error::input_help(error.message, "name the group: --of /web")),
        None => Ok(None),
    }
}

fn with_max(program: &Program, group: usize, max: CpuMax) -> Program {
    let mut program = program.clone();
    program.groups[group].max = max;
    program.groups[group].cpus.limit_milli = None;
    program
}

impl<P: FnMut(usize) -> ControlFlow<()>> AdviseStudy<'_, P> {
    /// Returns the number of seeds that may miss.
    fn allowed(&self) -> u64 {
        (self.question.risk * self.question.seeds as f64).floor() as u64
    }

    /// Runs a program with seeds from `first`; ends once more than `enough` have missed.
    fn tally(&mut self, program: &Program, first: u64, enough: u64) -> Result<Tally, RunError> {
        let plan = Plan { program: Arc::new(program.clone()), ..self.plan.clone() };
        let base = plan.config.seed.wrapping_add(first);
        let path = self.group.map(|group| Arc::clone(&program.groups[group].path));
        let used = |summary: &Summary| {
            let group = path.as_ref().and_then(|path| summary.groups.iter().find(|group| group.path == *path));
            let all = || summary.tasks.iter().map(|task| task.run).sum();
            let time: Duration = group.map_or_else(all, |group| group.usage);
            time.as_nanos() as f64 / summary.elapsed.as_nanos().max(1) as f64
        };
        let goals = &self.goals;
        let measure = |summary: &Summary| (goals::judge(goals, summary), used(summary));
        let mut tally = Tally::default();
        let at_once = std::thread::available_parallelism().map_or(1, usize::from).max(2) as u64;
        while tally.runs < self.question.seeds && tally.missed <= enough {
            let next = tally.runs..self.question.seeds.min(tally.runs + at_once);
            let plans: Vec<Plan> = next.map(|run| plan.clone().with_seed(base.wrapping_add(run))).collect();
            let (progress, done) = (&mut self.progress, self.done);
            for outcome in run_all(&plans, measure, |runs| progress(done + runs))? {
                let failed = |why| RunError::Failed {
                    values: Limit::all(program).iter().map(ToString::to_string).collect(),
                    why,
                };
                let (verdicts, used) = outcome.map_err(failed)?;
                tally.missed += u64::from(!verdicts.iter().all(Verdict::is_met));
                tally.used_cpus += used;
                tally.runs += 1;
                worsen(&mut tally.worst, verdicts);
            }
            self.done += plans.len();
        }
        tally.used_cpus /= tally.runs.max(1) as f64;
        Ok(tally)
    }

    /// Returns whether a program meets the goals with the seeds of the search.
    fn meets(&mut self, program: &Program) -> Result<bool, RunError> {
        let allowed = self.allowed();
        Ok(self.tally(program, 0, allowed)?.missed <= allowed)
    }

    /// Runs a program with all seeds.
    fn judge(&mut self, change: Change, program: &Program) -> Result<Alternative, RunError> {
        let searched = self.tally(program, 0, u64::MAX)?;
        let others = self.tally(program, self.question.seeds, u64::MAX)?;
        let path = self.group.map(|group| program.groups[group].path.to_string());
        let limit = Limit::all(program).into_iter().find(|limit| path.as_ref() == Some(&limit.group));
        Ok(Alternative {
            change,
            limit,
            workers: self.task.map(|task| program.tasks[task].instances),
            is_met: searched.missed <= self.allowed(),
            searched,
            others,
            is_below_base_error: false,
        })
    }

    /// Returns the smallest of the values `low..=high` whose program meets the goals, assuming that
    /// a larger value is never worse; the search begins at `start`.
    fn least(
        &mut self,
        (low, start, high): (u64, u64, u64),
        program: impl Fn(u64) -> Option<Program>,
    ) -> Result<Option<u64>, RunError> {
        let try_at = |study: &mut Self, at: u64| match program(at) {
            Some(program) => study.meets(&program),
            None => Ok(false),
        };
        // [missing, meeting]: doubling away from the start, then halves.
        let (mut missing, mut meeting);
        let mut step = 1_u64.max((high - low) / 64);
        if try_at(self, start)? {
            (missing, meeting) = (None, start);
            while missing.is_none() && meeting > low {
                let at = meeting.saturating_sub(step).max(low);
                if try_at(self, at)? {
                    meeting = at;
                } else {
                    missing = Some(at);
                }
                step = step.saturating_mul(2);
            }
        } else {
            let mut below = start;
            loop {
                if below >= high {
                    return Ok(None);
                }
                let at = below.saturating_add(step).min(high);
                if try_at(self, at)? {
                    (missing, meeting) = (Some(below), at);
                    break;
                }
                below = at;
                step = step.saturating_mul(2);
            }
        }
        while let Some(below) = missing.filter(|below| meeting - below > 1) {
            let middle = below.midpoint(meeting);
            if try_at(self, middle)? {
                meeting = middle;
            } else {
                missing = Some(middle);
            }
        }
        Ok(Some(meeting))
    }

    /// Returns the smallest limit, burst, and both.
    fn limit(&mut self, group: usize, max: CpuMax) -> Result<Vec<Alternative>, RunError> {
        let program = &*self.plan.program;
        let Some(quota) = max.quota else { return Ok(Vec::new()) };
        // In hundredths of a CPU.
        let step = Duration::from_nanos((max.period.as_nanos() / 100).max(1));
        let units = |time: Duration| time.as_nanos().div_ceil(step.as_nanos());
        let most = 100 * self.plan.config.topology.nr_cpus() as u64;
        let at = |units: u64| step * units;
        let quota_only = |value: u64| Some(with_max(program, group, CpuMax { quota: Some(at(value)), ..max }));
        let burst_only = |value: u64| {
            let burst = at(value).min(quota);
            Some(with_max(program, group, CpuMax { burst, ..max }))
        };
        let both = |value: u64| {
            let quota = at(value);
            Some(with_max(program, group, CpuMax { quota: Some(quota), burst: quota, ..max }))
        };
        let least = units(CpuMax::SHORTEST.max(max.burst)).max(1);
        let present = units(quota);
        let most = most.max(present);
        let mut found = Vec::new();
        if let Some(value) = self.least((least, present.clamp(least, most), most), quota_only)? {
            found.extend(quota_only(value).map(|program| (Change::Limit, program)));
        }
        if let Some(value) = self.least((0, units(max.burst).min(present), present), burst_only)? {
            found.extend(burst_only(value).map(|program| (Change::Burst, program)));
        }
        let least = units(CpuMax::SHORTEST).max(1);
        if let Some(value) = self.least((least, present.clamp(least, most), most), both)? {
            found.extend(both(value).map(|program| (Change::LimitAndBurst, program)));
        }
        found.into_iter().map(|(change, program)| self.judge(change, &program)).collect()
    }

    /// Returns the smallest number of workers that meets the goals. More workers can be worse: they
    /// spend the quota on more CPUs at a time. So numbers are tried one by one, not bisected.
    fn workers(&mut self, task: usize) -> Result<Option<Alternative>, RunError> {
        let program = &*self.plan.program;
        let present = program.tasks[task].instances;
        let with = |count: u32| {
            let mut program = program.clone();
            program.tasks[task].instances = count;
            program
        };
        let nr_cpus = u32::try_from(self.plan.config.topology.nr_cpus()).unwrap_or(u32::MAX);
        let mut counts: Vec<u32> =
            WORKERS.into_iter().filter(|count| *count <= present.max(nr_cpus).saturating_mul(2)).collect();
        counts.push(nr_cpus);
        counts.sort_unstable();
        counts.dedup();
        for count in counts.into_iter().filter(|count| *count != present) {
            let program = with(count);
            if self.meets(&program)? {
                return self.judge(Change::Workers, &program).map(Some);
            }
        }
        Ok(None)
    }

    /// Marks what differs from the present state by less than the base error.
    fn mark_below_base_error(&self, alternatives: &mut [Alternative]) {
        let Some(base) = self.question.base_error else { return };
        let figures = |alternative: &Alternative| -> Vec<Option<u64>> {
            alternative.searched.worst.iter().map(|verdict| verdict.figure).collect()
        };
        let Some((first, rest)) = alternatives.split_first_mut() else { return };
        let before = figures(first);
        for alternative in rest {
            let after = figures(alternative);
            let is_small = before.iter().zip(&after).all(|pair| match pair {
                (Some(before), Some(after)) => is_within(base, *before as f64, *after as f64),
                _ => base.is_infinite(),
            });
            alternative.is_below_base_error = is_small;
        }
    }
}

/// The numbers of workers that are tried, besides the number of CPUs.
const WORKERS: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

/// Keeps the worse verdict of each goal.
fn worsen(worst: &mut Vec<Verdict>, verdicts: Vec<Verdict>) {
    if worst.is_empty() {
        *worst = verdicts;
        return;
    }
    for (worst, verdict) in worst.iter_mut().zip(verdicts) {
        let is_worse = match (verdict.figure, worst.figure) {
            (None, _) => true,
            (_, None) => false,
            (Some(figure), Some(other)) => match verdict.goal.relation {
                Relation::Below | Relation::AtMost => figure > other,
                Relation::Above | Relation::AtLeast => figure < other,
            },
        };
        if is_worse {
            *worst = verdict;
        }
    }
}

/// Returns the alternative that meets the goals, misses least with other seeds, and reserves least.
/// Of equal ones that which changes least. No limit at all is never chosen, and a change below the
/// base error neither.
fn choose(alternatives: &[Alternative]) -> Option<usize> {
    let possible = alternatives.iter().enumerate().filter(|(_, alternative)| {
        alternative.is_met && !alternative.is_below_base_error && alternative.change != Change::NoLimit
    });
    let rank = |alternative: &Alternative| {
        let burst = alternative.limit.as_ref().map_or(0, |limit| limit.burst_us);
        (alternative.others.missed, alternative.reserved_milli().unwrap_or(u64::MAX), burst)
    };
    possible.min_by_key(|(at, alternative)| (rank(alternative), *at)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulation, Workload};

    fn ask(group: &str, workers: u32, goal: &str, question: Question) -> Advice {
        let text = format!(
            "[machine]\ncpus = 4\n{group}\n[service.web]\nworkers = {workers}\narrivals = {{ bursts = {{ size = 8, every = \
             {{ exponential = {{ mean = \"200ms\" }} }} }} }}\nsteps = [{{ run = \"5ms\" }}]\n"
        );
        let text = if group.is_empty() { text } else { text.replace("workers =", "group = \"/web\"\nworkers =") };
        let simulation = Simulation::new(Workload::toml(&text)).duration(Duration::from_secs(3));
        let question = Question { goals: vec![goal.to_owned()], seeds: 3, ..question };
        let plan = simulation.plan().expect("it is valid").plan;
        advise(&plan, &question, |_| ControlFlow::Continue(())).expect("an answer")
    }

    const HALF: &str = "[group.\"/web\"]\nlimits.cpu = \"300m\"";

    #[test]
    fn the_answer_meets_the_goal_and_one_step_less_does_not() {
        let advice = ask(HALF, 4, "p99 <= 60ms", Question::default());
        let [now, without, ..] = &advice.alternatives[..] else { panic!("{advice}") };
        assert_eq!((now.change, without.change), (Change::AsItIs, Change::NoLimit));
        assert!(!now.is_met && without.is_met, "{advice}");
        let limit = advice.alternatives.iter().find(|found| found.change == Change::Limit).expect("a limit is enough");
        assert!(limit.is_met && limit.searched.missed == 0 && limit.searched.runs == 3 && limit.others.runs == 3);
        let least = limit.reserved_milli().expect("a limit");
        assert!((310..4000).contains(&least), "{advice}");
        let below = ask(&HALF.replace("300m", &format!("{}m", least - 10)), 4, "p99 <= 60ms", Question::default());
        assert!(!below.alternatives[0].is_met, "{least}m is the least: {below}");
        let chosen = advice.chosen().expect("a choice");
        assert!(chosen.is_met && chosen.change != Change::NoLimit);
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
        assert!(advice.ticket().contains("workers instead of 1"), "{}", advice.ticket());
    }

    #[test]
    fn effects_below_the_base_error_are_not_chosen() {
        let question = Question { base_error: Some(0.9999), ..Question::default() };
        let advice = ask(HALF, 4, "p99 <= 60ms", question);
        assert!(advice.alternatives[1..].iter().all(|found| found.is_below_base_error), "{advice}");
        assert!(advice.choice.is_none() && advice.to_string().contains("cannot tell"), "{advice}");
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
}
