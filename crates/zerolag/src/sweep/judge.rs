//! [`Judge`]: whether a value meets the goals as often as was asked. The one judge of searches and
//! of advice.
//!
//! The smallest value that meets the goals with some seeds is one that fits these seeds: with
//! others it misses more often than it seemed to. So two sets of seeds are used, and which is which
//! is decided before anything runs:
//!
//! ```text
//!              seeds 0..n                          seeds n.., none used twice
//!   search ──► the smallest value that  ─────────► confirmation: run until the share of
//!      ▲       these seeds let pass                misses is known to be below the risk ──► answer
//!      │                                                     │ too many misses, or not settled
//!      └── the seeds of the confirmation join those of the search, and the search goes on above ──┘
//! ```
//!
//! How many runs a confirmation needs, and why it does not lie although it is looked at after every
//! run, is in [`crate::risk`].
//!
//! A seed that has missed at another value is likely to miss here, too: random draws are common to
//! all values. So the seeds that have missed most are run first, and a value that is too small
//! costs a run or two. Runs are counted in that order, one by one, so that nothing depends on how
//! many the host runs at a time.

use super::{RunError, run_all};
use crate::error::{Error, ValueError};
use crate::goals::{self, CountedWork, Verdict};
use crate::limit::Limit;
use crate::risk::{Misses, Rule, Settled};
use crate::simulation::Plan;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_report::Summary;
use zerolag_workload::Program;
use zerolag_workload::goal::Goal;

/// How many runs missed a goal, and their figures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// The runs, and those that missed a goal.
    pub misses: Misses,
    /// Per goal the figure of the worst run.
    pub worst: Vec<Verdict>,
    /// The CPU time of the group, or of all tasks, as a number of CPUs: mean of the runs.
    pub used_cpus: f64,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        let before = self.misses.runs as f64;
        self.misses.count(outcome.is_met());
        self.used_cpus += (outcome.used_cpus - self.used_cpus) / (before + 1.0);
        goals::worsen(&mut self.worst, &outcome.verdicts);
    }
}

/// A value, and what its runs gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The program with it.
    pub program: Arc<Program>,
    /// The runs with the seeds of the search.
    pub searched: Tally,
    /// The runs with seeds that took no part in the search; none if it was not confirmed.
    pub fresh: Tally,
    /// The confidence with which a bound of `fresh` holds, so that all looks together reach that of
    /// [`crate::risk::CONFIDENCE`].
    pub confidence: f64,
    /// What the judging seeds say; none if the search passed it over.
    pub settled: Option<Settled>,
    /// Whether a search has chosen it by the seeds of the search, which then judge nothing.
    pub is_chosen: bool,
}

impl Judged {
    /// Returns whether the goals are met as often as asked.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.settled == Some(Settled::Met)
    }

    /// Returns the runs that no search has chosen the value by: of a value that none chose, all.
    #[must_use]
    pub fn judging(&self) -> Misses {
        if self.is_chosen { self.fresh.misses } else { self.searched.misses.and(self.fresh.misses) }
    }

    /// Returns what the true share of misses is below; `None` if no such run was made.
    #[must_use]
    pub fn share_below(&self) -> Option<f64> {
        let misses = self.judging();
        (misses.runs > 0).then(|| misses.at_most(self.confidence))
    }

    /// Returns what the true share of misses is above; `None` if no such run was made.
    #[must_use]
    pub fn share_above(&self) -> Option<f64> {
        let misses = self.judging();
        (misses.runs > 0).then(|| misses.at_least(self.confidence))
    }

    /// Returns what the judging runs say, as a sentence: `0 of 75 fresh runs miss; ...`.
    #[must_use]
    pub fn says(&self) -> String {
        let fresh = if self.is_chosen { "fresh " } else { "" };
        self.judging().below(fresh, self.confidence)
    }

    /// Returns all goals with the figure of the worst run.
    #[must_use]
    pub fn worst(&self) -> Vec<Verdict> {
        let mut worst = self.searched.worst.clone();
        goals::worsen(&mut worst, &self.fresh.worst);
        worst
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub struct Least {
    /// Every tried place with its runs, in order.
    pub tried: BTreeMap<u64, Judged>,
    /// The smallest place that meets the goals.
    pub answer: Option<u64>,
    /// Whether it ended because more runs than allowed would have been needed.
    pub is_open: bool,
}

/// A run.
#[derive(Clone, PartialEq, Debug)]
struct Outcome {
    verdicts: Vec<Verdict>,
    used_cpus: f64,
    /// What was done of the work that counts.
    done: Done,
    /// Whether that is less than in the plan as it is.
    left_undone: bool,
    /// Per goal: what is wrong with it, if nothing was measured of it; empty if all were measured.
    unmeasured: Vec<Option<ValueError>>,
}

impl Outcome {
    fn is_met(&self) -> bool {
        !self.left_undone && self.verdicts.iter().all(Verdict::is_met)
    }
}

/// Runs values of a plan and judges them. A seed is named by its distance to the first.
#[derive(Debug)]
pub struct Judge<'p, P> {
    plan: &'p Plan,
    goals: &'p [Goal],
    rule: Rule,
    /// The group whose CPU time is measured; all tasks without one.
    group: Option<Arc<str>>,
    done: usize,
    progress: P,
    work: Work,
    /// Per goal, as long as no run has measured its figure: what is wrong with it.
    unmeasured: Vec<Option<ValueError>>,
    has_run: bool,
}

/// The work that counts, and what of it is done in the plan as it is.
#[derive(Debug, Default)]
struct Work {
    counted: CountedWork,
    by_seed: BTreeMap<u64, Done>,
}

/// Work that was done.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Done {
    computed: Duration,
    requests: u64,
    /// Those of closed services.
    closed: u64,
    /// The simulated time.
    elapsed: Duration,
}

impl Done {
    /// Returns whether less is done than today. What else wakes and waits moves it a little, and
    /// requests can be under way at the end: as many as half a second brings.
    fn is_less(self, today: Self) -> bool {
        let computed = self.computed < today.computed.mul_div_floor(DONE, 100);
        let half_a_second = today.requests.saturating_mul(500_000_000) / today.elapsed.as_nanos().max(1);
        let tolerated = (today.requests * (100 - DONE) / 100).max(half_a_second);
        let fewer = self.requests.saturating_add(tolerated) < today.requests;
        // As many as are under way at the end need no half second: none is sent before an answer.
        computed || fewer || self.closed.saturating_add(1) < today.closed * DONE / 100
    }
}

/// The part of today's work that must be done, in percent.
const DONE: u64 = 99;

/// A value while it is tried: what is known of it by seed, so that no run is repeated.
struct Value {
    program: Arc<Program>,
    runs: BTreeMap<u64, Outcome>,
}

impl<'p, P: FnMut(usize) -> ControlFlow<()>> Judge<'p, P> {
    /// Returns the judge of a plan's values by these goals. `progress` gets the number of runs and
    /// can end them.
    pub fn new(plan: &'p Plan, goals: &'p [Goal], rule: Rule, progress: P) -> Self {
        Self {
            plan,
            goals,
            rule,
            group: None,
            done: 0,
            progress,
            work: Work::default(),
            unmeasured: vec![None; goals.len()],
            has_run: false,
        }
    }

    /// Refuses goals of which no run has measured anything: they are not missed, they are about
    /// nothing.
    ///
    /// # Errors
    /// Each such goal, with the figures that were measured.
    pub fn refuse_unmeasured(&self) -> Result<(), Error> {
        let wrong: Vec<ValueError> = self.unmeasured.iter().flatten().cloned().collect();
        if wrong.is_empty() { Ok(()) } else { Err(Error::Values(wrong)) }
    }

    /// Notes of which goals a run has measured nothing.
    fn note(&mut self, run: &Outcome) {
        let is_first = !core::mem::replace(&mut self.has_run, true);
        for (at, (goal, verdict)) in self.unmeasured.iter_mut().zip(&run.verdicts).enumerate() {
            *goal = match verdict.figure {
                Some(_) => None,
                None if is_first => run.unmeasured.get(at).cloned().flatten(),
                None => goal.take(),
            };
        }
    }

    /// Measures the CPU time of a group instead of that of all tasks.
    #[must_use]
    pub fn of_group(mut self, path: Option<Arc<str>>) -> Self {
        self.group = path;
        self
    }

    /// Also counts a run as missed in which less of this work is done than in the plan as it is.
    #[must_use]
    pub(crate) fn counting_work(mut self, counted: CountedWork) -> Self {
        self.work = Work { counted, by_seed: BTreeMap::new() };
        self
    }

    /// Returns the rule.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// Judges one program that no search has chosen: with all seeds of a search, and with as many
    /// fresh ones as settle it.
    ///
    /// # Errors
    /// A run failed, or `progress` ended it.
    pub fn judge(&mut self, program: &Program) -> Result<Judged, RunError> {
        let mut value = Value { program: Arc::new(program.clone()), runs: BTreeMap::new() };
        let known: Vec<u64> = (0..self.rule.search()).collect();
        let searched = self.tally(&mut value, &known, |_| true)?;
        let rule = self.rule;
        // Nothing has chosen it by these seeds, so all count.
        let mut all = searched.misses;
        let fresh = match rule.settle(0, all) {
            Settled::Open => {
                let is_open = |all: Misses| rule.settle(0, all) == Settled::Open && all.runs < rule.most();
                self.until_settled(&mut value, rule.search(), |fresh| is_open(all.and(fresh)))?
            }
            Settled::Met | Settled::Missed => Tally::default(),
        };
        all = all.and(fresh.misses);
        Ok(Judged {
            program: value.program,
            searched,
            fresh,
            confidence: 1.0 - Rule::spent(0, all.missed),
            settled: Some(rule.settle(0, all)),
            is_chosen: false,
        })
    }

    /// Returns the smallest of the places `0..=last` whose program meets the goals as often as
    /// asked, assuming that a larger one is never worse.
    ///
    /// # Errors
    /// A program cannot be made, a run failed, or `progress` ended it.
    pub fn least(&mut self, last: u64, program: impl Fn(u64) -> Result<Program, RunError>) -> Result<Least, RunError> {
        let mut search = Search { values: BTreeMap::new(), known: Known::new(self.rule.search()), program };
        let mut found = Least { tried: BTreeMap::new(), answer: None, is_open: false };
        let (mut from, mut next) = (0, self.rule.search());
        for tried in 0.. {
            // A value without a miss would need more runs than allowed.
            if !self.rule.goes_on(tried, Misses::default()) {
                found.is_open = true;
                break;
            }
            // If the search lets none pass, the largest decides whether one could.
            let place = search.find(self, from, last, &mut found)?.unwrap_or(last);
            let rule = self.rule;
            let value = search.values.get_mut(&place).expect("invariant: it was found by running it");
            // Above the largest there is nothing that could be confirmed instead, so all runs are
            // made that can settle it.
            let is_open = |misses| rule.settle(tried, misses) == Settled::Open;
            let goes_on = |misses: Misses| match place == last {
                true => is_open(misses) && misses.runs < rule.most(),
                false => rule.goes_on(tried, misses),
            };
            let fresh = self.until_settled(value, next, goes_on)?;
            let settled = rule.settle(tried, fresh.misses);
            search.known.add(next..next + fresh.misses.runs, &value.runs);
            next += fresh.misses.runs;
            let judged = found.tried.get_mut(&place).expect("invariant: it was found by running it");
            judged.confidence = 1.0 - Rule::spent(tried, fresh.misses.missed);
            (judged.fresh, judged.settled) = (fresh, Some(settled));
            if settled == Settled::Met {
                found.answer = Some(place);
                break;
            }
            if place == last {
                found.is_open = settled == Settled::Open;
                break;
            }
            from = place + 1;
        }
        Ok(found)
    }

    /// Runs a value with the seeds from `first` until `goes_on` says no.
    fn until_settled(
        &mut self,
        value: &mut Value,
        first: u64,
        goes_on: impl Fn(Misses) -> bool,
    ) -> Result<Tally, RunError> {
        let seeds: Vec<u64> = (first..first + self.rule.most()).collect();
        self.tally(value, &seeds, goes_on)
    }

    /// Counts the runs of a value with these seeds, in this order, until `goes_on` says no.
    fn tally(&mut self, value: &mut Value, seeds: &[u64], goes_on: impl Fn(Misses) -> bool) -> Result<Tally, RunError> {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let mut tally = Tally::default();
        for (at, seed) in seeds.iter().enumerate() {
            if !goes_on(tally.misses) {
                break;
            }
            if !value.runs.contains_key(seed) {
                // Runs beside it that a miss makes superfluous are not counted.
                let rest = seeds[at..].iter().filter(|seed| !value.runs.contains_key(seed));
                let these: Vec<u64> = rest.take(at_once).copied().collect();
                let outcomes = self.run(&value.program, &these)?;
                outcomes.iter().for_each(|outcome| self.note(outcome));
                value.runs.extend(these.into_iter().zip(outcomes));
            }
            tally.count(&value.runs[seed]);
        }
        Ok(tally)
    }

    /// Runs a program with these seeds, and the plan as it is where its work is asked for.
    fn run(&mut self, program: &Arc<Program>, seeds: &[u64]) -> Result<Vec<Outcome>, RunError> {
        let mut outcomes = self.run_all(program, seeds)?;
        if self.work.counted.is_empty() {
            return Ok(outcomes);
        }
        let is_today = **program == *self.plan.program;
        let unknown: Vec<u64> = seeds.iter().copied().filter(|seed| !self.work.by_seed.contains_key(seed)).collect();
        let today: Vec<Done> = match is_today {
            true => Vec::new(),
            false => self.run_all(&Arc::clone(&self.plan.program), &unknown)?.iter().map(|run| run.done).collect(),
        };
        self.work.by_seed.extend(unknown.into_iter().zip(today));
        for (seed, outcome) in seeds.iter().zip(&mut outcomes) {
            let today = *self.work.by_seed.entry(*seed).or_insert(outcome.done);
            outcome.left_undone = outcome.done.is_less(today);
        }
        Ok(outcomes)
    }

    fn run_all(&mut self, program: &Arc<Program>, seeds: &[u64]) -> Result<Vec<Outcome>, RunError> {
        let plan = Plan { program: Arc::clone(program), ..self.plan.clone() };
        let plan = plan.measuring(self.goals.iter().map(|goal| goal.figure));
        let base = plan.config.seed;
        let plans: Vec<Plan> = seeds.iter().map(|seed| plan.clone().with_seed(base.wrapping_add(*seed))).collect();
        let (goals, group, counts) = (self.goals, self.group.as_deref(), &self.work.counted);
        let is_counted = |name: &str| counts.tasks.iter().any(|task| goals::is_thread_of(name, task));
        let measure = |summary: &Summary| {
            let verdicts = goals::judge(goals, summary);
            let unmeasured = goals::unmeasured(&verdicts, summary);
            let counted = summary.tasks.iter().filter(|task| is_counted(&task.name));
            let computed = counted.map(|task| task.exec.unwrap_or(task.run)).sum();
            let completed = |of: &[String]| -> u64 {
                let services = summary.services.iter().filter(|service| of.iter().any(|name| **name == *service.name));
                services.map(|service| service.completed).sum()
            };
            let (closed, all) = (completed(&counts.closed), completed(&counts.services));
            let done = Done { computed, requests: all - closed, closed, elapsed: summary.elapsed };
            Outcome { verdicts, used_cpus: used_cpus(group, summary), done, left_undone: false, unmeasured }
        };
        let (progress, done) = (&mut self.progress, self.done);
        let outcomes = run_all(&plans, measure, |runs| progress(done + runs))?;
        self.done += plans.len();
        let failed = |why| RunError::Failed {
            values: Limit::all(program).iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            why,
        };
        outcomes.into_iter().map(|outcome| outcome.map_err(failed)).collect()
    }
}

/// Returns the CPU time of a group, or of all tasks, as a number of CPUs.
fn used_cpus(group: Option<&str>, summary: &Summary) -> f64 {
    let group = group.and_then(|path| summary.group_by_path(path));
    // As of a group: what the scheduler charges, without interrupts that are accounted apart.
    let all = || summary.tasks.iter().map(|task| task.exec.unwrap_or(task.run)).sum();
    let time: Duration = group.map_or_else(all, |group| group.usage);
    time.as_nanos() as f64 / summary.elapsed.as_nanos().max(1) as f64
}

/// The seeds of a search, and how often each has missed.
struct Known(BTreeMap<u64, u64>);

impl Known {
    fn new(seeds: u64) -> Self {
        Self((0..seeds).map(|seed| (seed, 0)).collect())
    }

    /// Returns the seeds, those that have missed most first.
    fn order(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.0.keys().copied().collect();
        seeds.sort_by_key(|seed| (core::cmp::Reverse(self.0[seed]), *seed));
        seeds
    }

    /// Adds seeds, and the misses that are known of them.
    fn add(&mut self, seeds: core::ops::Range<u64>, runs: &BTreeMap<u64, Outcome>) {
        for seed in seeds {
            let has_missed = runs.get(&seed).is_some_and(|run| !run.is_met());
            *self.0.entry(seed).or_default() += u64::from(has_missed);
        }
    }
}

/// A search under way.
struct Search<F> {
    values: BTreeMap<u64, Value>,
    known: Known,
    program: F,
}

impl<F: Fn(u64) -> Result<Program, RunError>> Search<F> {
    /// Returns whether the known seeds let a place pass.
    fn passes<P: FnMut(usize) -> ControlFlow<()>>(
        &mut self,
        judge: &mut Judge<'_, P>,
        place: u64,
        found: &mut Least,
    ) -> Result<bool, RunError> {
        if let std::collections::btree_map::Entry::Vacant(new) = self.values.entry(place) {
            new.insert(Value { program: Arc::new((self.program)(place)?), runs: BTreeMap::new() });
        }
        let value = self.values.get_mut(&place).expect("invariant: it was added");
        let order = self.known.order();
        let tolerated = judge.rule.tolerated(order.len() as u64);
        let searched = judge.tally(value, &order, |misses| misses.missed <= tolerated)?;
        let passes = searched.misses.missed <= tolerated;
        for seed in order.iter().take(usize::try_from(searched.misses.runs).unwrap_or(usize::MAX)) {
            self.known.add(*seed..*seed + 1, &value.runs);
        }
        let program = Arc::clone(&value.program);
        let judged =
            Judged { program, searched, fresh: Tally::default(), confidence: 0.0, settled: None, is_chosen: true };
        found.tried.insert(place, judged);
        Ok(passes)
    }

    /// Returns the smallest place from `from` on that the known seeds let pass: doubling from
    /// below, since the answer is rarely large and large values take longest to run, then halves.
    fn find<P: FnMut(usize) -> ControlFlow<()>>(
        &mut self,
        judge: &mut Judge<'_, P>,
        from: u64,
        last: u64,
        found: &mut Least,
    ) -> Result<Option<u64>, RunError> {
        if self.passes(judge, from, found)? {
            return Ok(Some(from));
        }
        let (mut missing, mut step) = (from, 2);
        let mut passing = loop {
            if missing >= last {
                return Ok(None);
            }
            let place = (from + step).min(last);
            if self.passes(judge, place, found)? {
                break place;
            }
            (missing, step) = (place, step * 2);
        };
        while passing - missing > 1 {
            let middle = missing.midpoint(passing);
            if self.passes(judge, middle, found)? {
                passing = middle;
            } else {
                missing = middle;
            }
        }
        Ok(Some(passing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Knob;
    use crate::sweep::search::{Found, smallest};
    use crate::{Simulation, Workload};

    const TEXT: &str = "duration = \"1s\"\n[machine]\ncpus = 2\n[group.\"/web\"]\n\"cpu.max\" = \"40000 100000\"\n\
        [service.web]\ngroup = \"/web\"\nworkers = 4\n\
        arrivals = { bursts = { size = 8, every = { exponential = { mean = \"100ms\" } } } }\n\
        steps = [{ run = { exponential = { mean = \"3ms\" } } }]\n";

    fn plan(text: &str) -> Plan {
        Simulation::new(Workload::toml(text)).plan().expect("it is valid").plan
    }

    fn rule() -> Rule {
        Rule::new(0.2, Some(6), None).expect("valid")
    }

    fn search(plan: &Plan, goal: &str, progress: impl FnMut(usize) -> ControlFlow<()>) -> Found {
        let goals = [Goal::parse(goal).expect("a goal")];
        let knob = Knob::find("cpu.max", &plan.program).expect("a knob").expect("one group");
        smallest(&mut Judge::new(plan, &goals, rule(), progress), plan, knob).expect("it runs")
    }

    #[test]
    fn what_is_found_holds_with_seeds_that_the_search_has_never_seen() {
        let plan = plan(TEXT);
        let goal = "request_latency.p90 <= 60ms";
        let found = search(&plan, goal, |_| ControlFlow::Continue(()));
        let least = found.least.as_ref().expect("a limit is enough");
        let (searched, fresh) = (&least.judged.searched, &least.judged.fresh);
        assert!(fresh.misses.runs >= rule().needs() && searched.misses.runs >= 6, "{fresh:?}");
        assert!(least.judged.share_below().is_some_and(|share| share <= 0.2));
        // 200 seeds far from those.
        let goals = [Goal::parse(goal).expect("a goal")];
        let mut far = Misses::default();
        for seed in 10_000..10_200 {
            let plan = Plan { program: Arc::clone(&least.judged.program), ..plan.clone() }.with_seed(seed);
            let report = plan.run(crate::simulation::Observe::FIGURES).expect("it runs");
            far.count(goals::judge(&goals, &report.summary).iter().all(Verdict::is_met));
        }
        assert!(far.at_least(0.99) <= 0.2, "{far}");
        // A step less was tried and is not enough, and every value below it missed.
        let below: Vec<_> = found.trials.iter().filter(|trial| trial.value < least.value).collect();
        assert!(
            below.iter().all(|trial| !trial.is_met())
                && below.last().is_some_and(|one| one.value + 1_000 == least.value)
        );
    }

    #[test]
    fn a_search_is_the_same_however_many_runs_go_at_a_time() {
        let plan = plan(TEXT);
        let goal = "request_latency.p90 <= 60ms";
        let first = search(&plan, goal, |_| ControlFlow::Continue(()));
        assert_eq!(first, search(&plan, goal, |_| ControlFlow::Continue(())));
        let goals = [Goal::parse(goal).expect("a goal")];
        let mut judge = Judge::new(&plan, &goals, rule(), |_| ControlFlow::Continue(()));
        let mut value = Value { program: Arc::clone(&plan.program), runs: BTreeMap::new() };
        let stop = |misses: Misses| misses.missed == 0;
        let one = judge.tally(&mut value, &[0, 1, 2, 3, 4, 5], stop).expect("it runs");
        // All are known now, so none is run beside another.
        let all = judge.tally(&mut value, &[0, 1, 2, 3, 4, 5], |_| true).expect("it runs");
        assert_eq!(judge.tally(&mut value, &[0, 1, 2, 3, 4, 5], stop).expect("it runs"), one);
        assert!(one.misses.runs <= all.misses.runs && all.misses.runs == 6);
    }

    #[test]
    fn an_impossible_goal_is_missed_by_the_largest_value_with_fresh_seeds() {
        let found = search(&plan(TEXT), "request_latency.p50 <= 1us", |_| ControlFlow::Continue(()));
        assert!(found.least.is_none() && !found.is_open);
        let last = found.trials.last().expect("tried");
        assert_eq!((last.state(), last.value), ("missed", 200_000));
        assert!(last.judged.fresh.misses.runs >= 2, "seeds that took no part in the search");
    }

    #[test]
    fn a_share_near_the_risk_is_not_settled() {
        // A task that runs in one seed of five: its draws are those of a coin.
        let text = "duration = \"100ms\"\n[machine]\ncpus = 1\n[task.coin]\nsteps = [{ sleep = \"1ms\" }, \
            { run = { choice = [{ time = \"1ms\", weight = 4 }, { time = \"9ms\" }] } }]\nloop = 1\n";
        let plan = plan(text);
        let goals = [Goal::parse("coin.run <= 5ms").expect("a goal")];
        let mut judge = Judge::new(&plan, &goals, rule(), |_| ControlFlow::Continue(()));
        let judged = judge.judge(&plan.program).expect("it runs");
        assert_eq!(judged.settled, Some(Settled::Open), "{}", judged.says());
        assert_eq!(judged.judging().runs, rule().most());
    }

    #[test]
    fn work_that_is_left_undone_is_a_miss() {
        let text = "duration = \"1s\"\n[machine]\ncpus = 2\n[group.\"/a\"]\n\"cpu.max\" = \"60000 100000\"\n\
            [task.a]\ngroup = \"/a\"\nsteps = [{ run = \"5ms\" }, { sleep = \"5ms\" }]\n";
        let plan = plan(text);
        let goals = [Goal::parse("a.wakeup_latency.p50 <= 1ms").expect("a goal")];
        let knob = Knob::find("cpu.max", &plan.program).expect("a knob").expect("one group");
        let least = |tasks: Vec<String>| {
            let work = CountedWork { tasks, ..CountedWork::default() };
            let mut judge = Judge::new(&plan, &goals, rule(), |_| ControlFlow::Continue(())).counting_work(work);
            smallest(&mut judge, &plan, knob).expect("it runs").least.expect("a limit is enough").value
        };
        let (blind, counting) = (least(Vec::new()), least(vec!["a".to_owned()]));
        assert!(blind < counting && (45_000..=60_000).contains(&counting), "{blind} {counting}: it needs half a CPU");
    }

    #[test]
    fn a_goal_of_which_nothing_is_measured_is_refused_with_what_is() {
        let plan = plan(TEXT);
        let goals = [Goal::parse("web.timers.missed <= 0").expect("a goal")];
        let mut judge = Judge::new(&plan, &goals, rule(), |_| ControlFlow::Continue(()));
        drop(judge.judge(&plan.program).expect("it runs"));
        let error = judge.refuse_unmeasured().expect_err("no timers").to_string();
        assert!(
            error.contains("no run has measured timers.missed") && error.contains("web.wakeup_latency.p99"),
            "{error}"
        );
    }
}
