//! Experiment 2: three generations of pulling real-time tasks and one of ours, from 4 to 4096 CPUs.
//!
//! One CPU is overloaded: a pinned task runs there, and another waits that may only use this CPU
//! and the next, which is just as busy. All other CPUs run real-time tasks, and each time one of
//! them lowers its priority it searches for waiting tasks.
//!
//! * [`Scene::Wave`]: they all wake every millisecond and lower their priority about 100 us later,
//!   within 10 us. Once per wave a task that may run anywhere is created on the overloaded CPU. The
//!   figures: how long CPUs spin for locks or handle IPIs, and how long a less urgent task runs
//!   while that task waits.
//! * [`Scene::Stress`]: they run for 20 to 80 us and sleep for 200 us on average, at random: each
//!   lowers its priority some 4000 times a second. The question: can the overloaded CPU keep up?
//!
//! The scheduler decides, and the simulated machine charges its operations; this module computes no
//! wait and no load. Machines are those of [`shape`]. Costs are a named profile, frozen before;
//! the factor of a run multiplies the costs of an IPI.
//!
//! Sources: 2017 text ("On a 80 CPU box, I measured over 200us of processing IPIs", "when I tested
//! this on a 120 CPU box [...] it actually triggered the hard lockup detector"); Linux commits
//! b6366f048e0c (2015), 4bdced5c9a29 (2017), 94894c9c477e (2026, "Skip currently executing CPU in
//! rto_next_cpu").

mod print;

pub(crate) use print::DOCUMENT;
mod watch;

pub use print::Results;

use super::in_order;
use std::ops::ControlFlow;
use std::sync::Arc;
use watch::Watch;
use zerolag::simulation::Plan;
use zerolag_model::settings::RtBalance;
use zerolag_model::{CpuId, CpuMask, Duration, KernelVersion, SchedAttr, Topology};
use zerolag_sim::costs::ByDistance;
use zerolag_sim::{Costs, End, Stats, Tracing};
use zerolag_workload::program::{Action, Program, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::{Bounds, Dist};

/// A generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// 2007: a pulling CPU takes the lock of every overloaded run queue.
    PullLocked,
    /// 2015: each CPU sends its own chain of IPIs.
    IpiPerCpu,
    /// Our reading of a reverted patch of 2016: no request to a CPU that has yet to serve one.
    IpiSkipPushing,
    /// 2017: one IPI circulates in the root domain.
    IpiRootDomain,
    /// 2026: one IPI circulates, and a CPU does not forward it to itself.
    IpiSkipSelf,
    /// Ours: one CPU at a time pulls, and only where a task waits that may run on it.
    PullClaimed,
}

impl Variant {
    /// All that are compared, from old to new: without the reverted one.
    pub const ALL: [Self; 5] =
        [Self::PullLocked, Self::IpiPerCpu, Self::IpiRootDomain, Self::IpiSkipSelf, Self::PullClaimed];

    /// Returns a name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PullLocked => "pull_locked",
            Self::IpiPerCpu => "ipi_per_cpu",
            Self::IpiSkipPushing => "... skip_push",
            Self::IpiRootDomain => "ipi_root_domain",
            Self::IpiSkipSelf => "... skip_self",
            Self::PullClaimed => "pull_claimed",
        }
    }

    const fn kernel(self) -> KernelVersion {
        match self {
            Self::PullLocked => KernelVersion::V3_2,
            Self::IpiPerCpu | Self::IpiSkipPushing => KernelVersion::V4_1,
            Self::IpiRootDomain | Self::IpiSkipSelf | Self::PullClaimed => KernelVersion::V4_15,
        }
    }

    const fn balance(self) -> RtBalance {
        match self {
            Self::PullLocked => RtBalance::PullLocked,
            Self::IpiPerCpu | Self::IpiSkipPushing => RtBalance::IpiPerCpu,
            Self::IpiRootDomain | Self::IpiSkipSelf => RtBalance::IpiRootDomain,
            Self::PullClaimed => RtBalance::PullClaimed,
        }
    }
}

/// The load of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// All CPUs except two lower their priority at about the same time.
    Wave,
    /// All CPUs except two lower their priority at random, all the time.
    Stress,
}

impl Scene {
    /// Returns a name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wave => "wave",
            Self::Stress => "stress",
        }
    }
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The load.
    pub scene: Scene,
    /// The generation.
    pub variant: Variant,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The factor of an IPI's costs.
    pub factor: u32,
}

/// The results of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The run.
    pub run: Run,
    /// Its length in simulated time.
    pub elapsed: Duration,
    /// The longest wait for a run-queue lock, and the 99th percentile of these waits.
    pub lock_wait: [Duration; 2],
    /// Waits for a run-queue lock.
    pub lock_waits: u64,
    /// Requests to push, over all CPUs.
    pub requests: u64,
    /// Requests to push that the CPU with most of them got.
    pub requests_of_one: u64,
    /// The longest time that a CPU was in IPI and lock work without serving a timer.
    pub stretch: Duration,
    /// The longest time from a timer of the most urgent task of a CPU to the task.
    pub latency: Duration,
    /// The longest time that a CPU ran a less urgent task while a more urgent one waited that may
    /// run anywhere.
    pub disorder: Duration,
    /// The CPU that did not leave IPI and lock work, if the watchdog ended the run.
    pub locked_up: Option<CpuId>,
    /// Events of the simulation.
    pub events: u64,
}

impl Finding {
    /// Returns requests to push per second: the mean of all CPUs, and the CPU with most.
    #[must_use]
    pub fn requests_per_second(&self) -> [u64; 2] {
        let per_second = |count: u64, cpus: u64| {
            (count.saturating_mul(1_000_000_000) / cpus).checked_div(self.elapsed.as_nanos()).unwrap_or(0)
        };
        [per_second(self.requests, u64::from(self.run.cpus)), per_second(self.requests_of_one, 1)]
    }
}

/// How the machines with 80 to 511 CPUs are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// Four sockets, two threads per core.
    FourSockets,
    /// Eight sockets, one thread per core: the machines of the published transfer times
    /// (`xeon-e7-8s`).
    EightSockets,
}

/// The experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct RtIpi2017 {
    /// The variants.
    pub variants: Vec<Variant>,
    /// Machine sizes of the tables.
    pub cpus: Vec<u32>,
    /// Machine sizes of the sensitivity table.
    pub sensitivity: Vec<u32>,
    /// Factors of the sensitivity table.
    pub factors: Vec<u32>,
    /// Waves per run.
    pub waves: u32,
    /// Length of a stress.
    pub stress: Duration,
    /// The mean time in microseconds that a task of a stress sleeps after it has run for 20 to 80:
    /// the text does not give it.
    pub pause: u64,
    /// The threshold that replaces the watchdog's 10 s in a run of milliseconds.
    pub threshold: Duration,
    /// The costs.
    pub costs: Costs,
    /// How the machines of the text's sizes are built.
    pub build: Build,
    /// Seed of every run.
    pub seed: u64,
    /// Number of worker threads on the host.
    pub threads: usize,
}

impl Default for RtIpi2017 {
    fn default() -> Self {
        Self {
            variants: Variant::ALL.to_vec(),
            cpus: vec![4, 16, 80, 120, 512, 4096],
            sensitivity: vec![16, 80, 120, 512],
            factors: vec![1, 2, 4, 8],
            waves: 5,
            stress: Duration::from_millis(20),
            pause: 200,
            threshold: Duration::from_millis(5),
            costs: Costs::server(),
            build: Build::FourSockets,
            seed: 2017,
            threads: 1,
        }
    }
}

impl RtIpi2017 {
    /// Returns every run: first those of the tables, largest machines first so that threads end
    /// together, then those of the sensitivity table.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut push = |run| {
            if !runs.contains(&run) {
                runs.push(run);
            }
        };
        for cpus in self.cpus.iter().rev().copied() {
            for scene in [Scene::Stress, Scene::Wave] {
                for variant in self.variants.iter().copied() {
                    push(Run { scene, variant, cpus, factor: 1 });
                }
            }
        }
        for cpus in self.sensitivity.iter().rev().copied() {
            for scene in [Scene::Stress, Scene::Wave] {
                for variant in self.variants.iter().copied() {
                    for factor in self.factors.iter().copied() {
                        push(Run { scene, variant, cpus, factor });
                    }
                }
            }
        }
        runs
    }

    /// Returns the plan of a run.
    ///
    /// # Panics
    /// If [`shape`] has no machine with that number of CPUs.
    #[must_use]
    pub fn plan(&self, run: Run) -> Plan {
        let machine = shape(run.cpus, self.build);
        let program = match run.scene {
            Scene::Wave => wave(&machine),
            Scene::Stress => stress(&machine, self.pause),
        };
        let mut plan = Plan::of_program(program, machine, run.variant.kernel()).with_seed(self.seed);
        plan.config.duration = Some(match run.scene {
            Scene::Wave => WAVE * u64::from(self.waves + 1),
            Scene::Stress => self.stress,
        });
        plan.config.settings.rt_balance = run.variant.balance();
        plan.config.settings.rt_ipi_skip_self = run.variant == Variant::IpiSkipSelf;
        plan.config.settings.rt_ipi_skip_pushing = run.variant == Variant::IpiSkipPushing;
        plan.config.settings.watchdog_thresh = self.threshold;
        plan.config.costs = self.costs.clone();
        dearer_ipis(&mut plan.config.costs, run.factor);
        plan
    }

    /// Runs one.
    #[must_use]
    pub fn run(&self, run: Run) -> Finding {
        let plan = self.plan(run);
        let mut machine = plan.build(Tracing::On).expect("invariant: the program fits the machine");
        let mut watch = Watch::new(run.cpus);
        let outcome = machine.run_with(&mut watch, |_, _: &Stats| ControlFlow::Continue(()));
        let locked_up = match outcome.why {
            End::Lockup { cpu, .. } => Some(cpu),
            End::Duration => None,
            why => panic!("invariant: the experiment's programs do not fail: {why}"),
        };
        watch.finish(run, &outcome, locked_up)
    }

    /// Runs all; `progress` is called with the number of started runs and can stop the rest.
    /// Findings are in the order of [`runs`](Self::runs).
    #[must_use]
    pub fn run_all(&self, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Results {
        let runs = self.runs();
        let work = |nth: u64| self.run(runs[usize::try_from(nth).expect("invariant: an index")]);
        let found = in_order(runs.len() as u64, self.threads, work, progress);
        Results { experiment: self.clone(), findings: found.into_iter().map(|(_, finding)| finding).collect() }
    }
}

/// Returns the machine with this many CPUs: two threads per core on machines with more than four
/// CPUs; four or eight sockets from 80 on, as the Xeon E7 of the text's years (10 and 15 cores per
/// socket), then more.
///
/// # Panics
/// If the number is not a multiple of eight above 16.
#[must_use]
pub fn shape(cpus: u32, build: Build) -> Topology {
    let (sockets, smt) = match cpus {
        80..=511 if build == Build::EightSockets => (8, 1),
        0..=7 => (1, 1),
        8..=79 => (1, 2),
        80..=511 => (4, 2),
        512..=2047 => (8, 2),
        _ => (32, 2),
    };
    let topology = Topology::new(sockets, 1, cpus / sockets / smt, smt).expect("at most 4096 CPUs");
    assert!(topology.nr_cpus() == cpus as usize, "{cpus} CPUs cannot be divided among {sockets} sockets");
    topology
}

/// Multiplies the costs of an IPI: sending, flight, handler, work, and its locks.
fn dearer_ipis(costs: &mut Costs, factor: u32) {
    let factor = u64::from(factor);
    let times = |by: ByDistance| ByDistance {
        smt: by.smt * factor,
        llc: by.llc * factor,
        socket: by.socket * factor,
        remote: by.remote * factor,
    };
    costs.ipi_send = costs.ipi_send * factor;
    costs.ipi_latency = times(costs.ipi_latency);
    costs.ipi_handler = costs.ipi_handler * factor;
    costs.ipi_work = times(costs.ipi_work);
    costs.inner_lock = costs.inner_lock * factor;
    if factor > 1 {
        costs.name.push_str(&format!(", IPIs x{factor}"));
    }
}

/// The time between two waves.
const WAVE: Duration = Duration::from_millis(1);
const MICROS: fn(u64) -> Duration = Duration::from_micros;

fn task(name: String, delay: Duration, priority: i64, cpus: Option<CpuMask>, actions: Vec<Action>) -> TaskDef {
    let attr = SchedAttr::fifo_at(priority);
    TaskDef { delay, affinity: cpus.map(Arc::new), ..TaskDef::looping(name, attr, actions) }
}

fn every(period: Duration) -> Action {
    Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(period), mode: TimerMode::Absolute }
}

fn run_for(time: Duration) -> Action {
    Action::Run(Dist::Constant(time))
}

fn on(cpu: u32) -> Option<CpuMask> {
    Some(CpuMask::single(CpuId(cpu)))
}

/// The tasks of both scenes: the most urgent task of each CPU, whose timers are measured; the two
/// busy CPUs; and the tasks that wait there.
///
/// The timers fire around the end of a wave: 105 us after it began, or later by as much as a CPU is
/// slower that shares its core.
fn overload(machine: &Topology) -> Vec<TaskDef> {
    let (cpus, [.., smt]) = (nr_cpus(machine), machine.shape());
    let end = if smt > 1 { 105 * 100 / Costs::server().smt_speed_percent } else { 105 };
    let probe = |cpu| {
        let at = MICROS(end - 5 + u64::from(cpu) * 7 % 16);
        task(format!("{PROBE}{cpu}"), at, 99, on(cpu), vec![every(WAVE), run_for(MICROS(2))])
    };
    let mut tasks: Vec<TaskDef> = (0..cpus).map(probe).collect();
    for cpu in 0..2 {
        tasks.push(task(format!("busy{cpu}"), Duration::ZERO, 90, on(cpu), vec![run_for(Duration::from_secs(3600))]));
    }
    let both: CpuMask = (0..2).map(CpuId).collect();
    tasks.push(task("waits".to_owned(), MICROS(20), 40, Some(both), vec![run_for(Duration::from_secs(3600))]));
    tasks
}

fn nr_cpus(machine: &Topology) -> u32 {
    u32::try_from(machine.nr_cpus()).expect("invariant: at most 4096 CPUs")
}

fn wave(machine: &Topology) -> Program {
    let (mut tasks, cpus) = (overload(machine), nr_cpus(machine));
    let jitter = Dist::uniform(MICROS(100), MICROS(110)).expect("invariant: valid bounds");
    for cpu in 2..cpus {
        let actions = vec![every(WAVE), Action::Run(jitter.clone())];
        tasks.push(task(format!("wave{cpu}"), Duration::ZERO, 80, on(cpu), actions));
    }
    let spare = tasks.len();
    let mut child = task(SPARE.to_owned(), Duration::ZERO, 50, None, vec![run_for(MICROS(50))]);
    (child.instances, child.turns) = (0, Some(1));
    tasks.push(child);
    tasks.push(task("parent".to_owned(), MICROS(50), 95, on(0), vec![every(WAVE), Action::Fork(spare)]));
    Program { tasks, ..Program::default() }
}

fn stress(machine: &Topology, mean: u64) -> Program {
    let (mut tasks, cpus) = (overload(machine), nr_cpus(machine));
    let uniform = |low, high| Dist::uniform(MICROS(low), MICROS(high)).expect("valid bounds");
    let pause = |mean| {
        let bounds = Bounds { low: MICROS(10), high: MICROS(10 * mean) };
        Dist::exponential(MICROS(mean), bounds).expect("invariant: valid bounds")
    };
    for cpu in 2..cpus {
        let actions = vec![Action::Sleep(pause(mean)), Action::Run(uniform(20, 80))];
        tasks.push(task(format!("stress{cpu}"), Duration::ZERO, 80, on(cpu), actions));
    }
    for spare in 0..cpus.div_ceil(8) {
        let actions = vec![Action::Sleep(pause(400)), Action::Run(uniform(50, 150))];
        tasks.push(task(format!("{SPARE}{spare}"), Duration::ZERO, 50, None, actions));
    }
    Program { tasks, ..Program::default() }
}

/// The name of the tasks whose timers are measured.
const PROBE: &str = "probe";
/// The name of the tasks that may run anywhere.
const SPARE: &str = "spare";
