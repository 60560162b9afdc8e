//! Bounds beside observations: what no response can exceed, next to the longest that a simulation
//! shows.
//!
//! The tasks of a workload become sporadic tasks ([`zerolag_analysis`]), and each gets the best
//! bound that is known for its class and its CPUs:
//!
//! | tasks | on one CPU | on several CPUs |
//! |---|---|---|
//! | SCHED_DEADLINE within its budget | Spuri 1996 | Bertogna & Cirinei 2007 |
//! | SCHED_DEADLINE beyond its budget | its reservation (Shin & Lee 2003) | - |
//! | SCHED_FIFO, SCHED_RR | Joseph & Pandya 1986, Lehoczky 1990 | Bertogna & Cirinei 2007 |
//! | fair | the longest busy period, with the standstill of limited groups; the fair server | - |
//!
//! Every bound assumes something, and workloads break it: they take locks, wait for each other,
//! change. Such a bound is still printed, with the assumptions that the workload breaks: it says
//! what the schedule alone would allow.
//!
//! A simulated response above a bound of which no assumption is broken is an error of zerolag
//! ([`Row::is_exceeded`]).

mod bound;
mod model;
mod observe;
mod served;
pub(crate) mod view;

use crate::error::Error;
use crate::simulation::Plan;
pub(crate) use observe::Responses;
use observe::Seen;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::{CpuMask, CpuMax, Duration, Policy};
use zerolag_sim::{Machine, Tracing};

/// Something that a bound assumes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Assumption {
    /// Every task that can delay another is sporadic, with a largest cost and a least period.
    Sporadic,
    /// Tasks do not delay each other except by computing.
    Independent,
    /// Switches, wakeups and interrupts take no time.
    NoCosts,
    /// A running task is preempted at once.
    Preemptible,
    /// Attributes, CPUs, groups and limits stay as they are.
    Constant,
    /// Deadline tasks stay within their budgets, or are stopped exactly.
    Budget,
    /// Tasks that share CPUs may use the same CPUs.
    SameCpus,
    /// All CPUs are as fast as the fastest.
    IdenticalCpus,
    /// Real-time tasks are not throttled.
    NotThrottled,
    /// No deadline server of fair tasks takes part.
    NoServer,
    /// No server of a group stands idle, or runs a less urgent task, while a task of the group
    /// waits on another CPU.
    WorkConserving,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Self; 11] = [
        Self::Sporadic,
        Self::Independent,
        Self::NoCosts,
        Self::Preemptible,
        Self::Constant,
        Self::Budget,
        Self::SameCpus,
        Self::IdenticalCpus,
        Self::NotThrottled,
        Self::NoServer,
        Self::WorkConserving,
    ];

    /// Returns its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sporadic => "sporadic",
            Self::Independent => "independent",
            Self::NoCosts => "no_costs",
            Self::Preemptible => "preemptible",
            Self::Constant => "constant",
            Self::Budget => "budget",
            Self::SameCpus => "same_cpus",
            Self::IdenticalCpus => "identical_cpus",
            Self::NotThrottled => "not_throttled",
            Self::NoServer => "no_server",
            Self::WorkConserving => "work_conserving",
        }
    }
}

/// The tasks whose bounds a broken assumption concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All.
    All,
    /// Those of this rank and less urgent ones.
    From(u32),
    /// Deadline tasks.
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    RealTime,
    /// Those of groups that may use several CPUs.
    Movers,
}

/// An assumption that the workload breaks.
#[derive(Clone, PartialEq, Debug)]
pub struct Broken {
    /// The assumption.
    pub assumption: Assumption,
    /// The task that breaks it; none if the machine or its settings do.
    pub task: Option<String>,
    /// How.
    pub reason: String,
    scope: Scope,
    /// The CPUs that it concerns; none is all.
    mask: Option<CpuMask>,
}

/// Where a bound comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Method {
    /// Exact responses under fixed priorities on one CPU.
    FixedPriority,
    /// Exact responses under EDF on one CPU.
    Edf,
    /// EDF with budgets on one CPU: the deadline, since all reservations fit.
    EdfBudgets,
    /// A reservation: its budget in every period.
    Reservation,
    /// Responses under global EDF.
    GlobalEdf,
    /// Responses under global fixed priorities.
    GlobalFixedPriority,
    /// The longest busy period of a CPU, in any order.
    BusyPeriod,
    /// The deadline server of fair tasks.
    FairServer,
    /// The deadline server of a group, with fixed priorities in it.
    GroupServer,
    /// The deadline servers of a group on several CPUs, between which its tasks move.
    GroupServers,
}

impl Method {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedPriority => "fixed_priority",
            Self::Edf => "edf",
            Self::EdfBudgets => "edf_budgets",
            Self::Reservation => "reservation",
            Self::GlobalEdf => "global_edf",
            Self::GlobalFixedPriority => "global_fixed_priority",
            Self::BusyPeriod => "busy_period",
            Self::FairServer => "fair_server",
            Self::GroupServer => "group_server",
            Self::GroupServers => "group_servers",
        }
    }

    /// Returns the publication.
    #[must_use]
    pub const fn paper(self) -> &'static str {
        match self {
            Self::FixedPriority => "Joseph & Pandya 1986; Lehoczky 1990",
            Self::Edf => "Spuri 1996; Zhang & Burns 2009",
            Self::EdfBudgets => "Abeni & Buttazzo 1998; Zhang & Burns 2009",
            Self::Reservation => "Shin & Lee 2003; Easwaran et al. 2007",
            Self::GlobalEdf | Self::GlobalFixedPriority => "Bertogna & Cirinei 2007",
            Self::BusyPeriod => "Cruz 1991; Lehoczky 1990",
            Self::FairServer => "Abeni & Buttazzo 1998; Shin & Lee 2003",
            Self::GroupServer => "Shin & Lee 2003; Lehoczky 1990",
            Self::GroupServers => "Bini, Bertogna & Baruah 2009",
        }
    }
}

/// A bound on the responses of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The longest response.
    pub response: Duration,
    /// Where it comes from.
    pub method: Method,
}

/// The longest response that was simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// Jobs of all threads and runs.
    pub jobs: u64,
    /// The longest response.
    pub longest: Duration,
    /// The thread.
    pub thread: Arc<str>,
    /// The seed of the run.
    pub seed: u64,
    /// The release of the job.
    pub at: Duration,
}

/// A task of the workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name.
    pub name: Arc<str>,
    /// Its threads.
    pub instances: u32,
    /// Its policy.
    pub policy: Policy,
    /// The real-time priority, if it has one.
    pub priority: Option<u8>,
    /// The CPUs that it can use.
    pub cpus: CpuMask,
    /// The largest cost of a job; none if it has no jobs that analysis knows.
    pub cost: Option<Duration>,
    /// The least time between releases; none also for a task with one job.
    pub period: Option<Duration>,
    /// The relative deadline: that of a deadline task, the period of a real-time task.
    pub deadline: Option<Duration>,
    /// The bound, or the reason why there is none.
    pub bound: Result<Bound, String>,
    /// Indices into [`Analysis::broken`]: what the bound assumes and the workload breaks.
    pub breaks: Vec<usize>,
    /// The longest simulated response.
    pub observed: Option<Observed>,
    rank: u32,
}

impl Row {
    /// Returns whether a simulated response exceeds the bound.
    #[must_use]
    pub fn is_above_bound(&self) -> bool {
        match (&self.bound, &self.observed) {
            (Ok(bound), Some(observed)) => observed.longest > bound.response,
            _ => false,
        }
    }

    /// Returns whether a simulated response exceeds the bound although no assumption is broken: an
    /// error of zerolag.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.breaks.is_empty() && self.is_above_bound()
    }

    /// Returns whether the bound keeps the deadline; none without either.
    #[must_use]
    pub fn keeps_deadline(&self) -> Option<bool> {
        let bound = self.bound.as_ref().ok()?;
        Some(bound.response <= self.deadline?)
    }
}

/// A test of a set of tasks as a whole.
#[derive(Clone, PartialEq, Debug)]
pub struct SetTest {
    /// The CPUs of the set.
    pub cpus: CpuMask,
    /// The test.
    pub name: &'static str,
    /// The publication.
    pub paper: &'static str,
    /// Whether it says that every deadline is kept; none if that is not what it says.
    pub holds: Option<bool>,
    /// What it found, as a sentence.
    pub says: String,
}

/// A limited group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupRow {
    /// Its path.
    pub path: Arc<str>,
    /// Its limit.
    pub max: CpuMax,
    /// The number of CPUs that its tasks can use.
    pub cpus: usize,
    /// The longest time without quota, if it has one CPU.
    pub blackout: Option<Duration>,
    /// The most CPU time that it takes in any window of one period.
    pub most_in_a_period: Duration,
    /// The most CPU time that it takes in any window of a second.
    pub most_in_a_second: Duration,
}

/// Bounds of a workload, and what was simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Analysis {
    /// The tasks, in the order of the workload.
    pub tasks: Vec<Row>,
    /// Tests of sets of deadline tasks.
    pub sets: Vec<SetTest>,
    /// Groups with a limit.
    pub groups: Vec<GroupRow>,
    /// What bounds assume and the workload breaks.
    pub broken: Vec<Broken>,
    /// The simulated kernel.
    pub kernel: String,
    /// The number of CPUs.
    pub nr_cpus: usize,
    /// Runs.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// Simulated time of each run.
    pub duration: Option<Duration>,
}

impl Analysis {
    /// Returns the tasks with a simulated response above a bound of which no assumption is broken.
    pub fn exceeded(&self) -> impl Iterator<Item = &Row> {
        self.tasks.iter().filter(|row| row.is_exceeded())
    }
}

/// Returns the bounds of a simulation, without running it.
///
/// ```
/// use zerolag::{Simulation, Workload, analyse};
///
/// let text = "task,runtime,period\nfast,2,10\nslow,9,30\n";
/// let workload = Workload::text("set.csv", text.as_bytes());
/// let plan = Simulation::new(workload).set("cpus", 1).set("fair_server", "off").costs("zero").plan()?.plan;
/// let analysis = analyse::bounds(&plan);
/// let slow = analysis.tasks[1].bound.as_ref().unwrap();
/// // Two jobs of `fast` come first.
/// assert_eq!(slow.response, "13us".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn bounds(plan: &Plan) -> Analysis {
    bound::of(plan)
}

/// Returns the bounds of a simulation next to the longest responses of `runs` runs, each with the
/// next seed. `progress` gets the number of finished runs, and can end the work.
///
/// # Errors
/// The program does not fit the machine, or `progress` ended the work.
pub fn analyse(plan: &Plan, runs: u64, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<Analysis, Error> {
    let mut analysis = bounds(plan);
    for run in 0..runs {
        let seed = plan.config.seed.wrapping_add(run);
        let plan = plan.clone().with_seed(seed);
        let mut responses = Responses::default();
        let mut machine = Machine::new(Arc::clone(&plan.program), &plan.config, Tracing::On)?;
        let mut is_ended = false;
        let outcome = machine.run_with(&mut responses, |_, _| {
            let flow = progress(run);
            is_ended |= flow.is_break();
            flow
        });
        if is_ended {
            return Err(Error::Interrupted);
        }
        analysis.observe(responses.finish(outcome.end), seed);
        if progress(run + 1).is_break() && run + 1 < runs {
            return Err(Error::Interrupted);
        }
    }
    analysis.runs = runs;
    Ok(analysis)
}

impl Analysis {
    fn observe(&mut self, seen: Vec<Seen>, seed: u64) {
        for thread in seen.into_iter().filter(|thread| thread.jobs > 0) {
            // A thread is called like its task, with its number behind it.
            let of = |row: &&mut Row| {
                let rest = thread.name.strip_prefix(&*row.name).and_then(|rest| rest.strip_prefix('-'));
                rest.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            };
            // What is no job of its own has no response.
            let Some(row) = self.tasks.iter_mut().find(of).filter(|row| row.cost.is_some()) else { continue };
            let jobs = thread.jobs + row.observed.as_ref().map_or(0, |known| known.jobs);
            let known = row.observed.take().filter(|known| known.longest >= thread.longest);
            let at = Duration::from_nanos(thread.at.as_nanos());
            let found = known.unwrap_or(Observed { jobs, longest: thread.longest, thread: thread.name, seed, at });
            row.observed = Some(Observed { jobs, ..found });
        }
    }
}
