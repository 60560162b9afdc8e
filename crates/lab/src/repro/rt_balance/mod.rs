//! Experiment 1: the effect of active balancing of real-time tasks in 2007.
//!
//! `rt-migrate-test` with 5 threads, FIFO 2 to 6, on 4 CPUs: 20 ms of spinning, 50 wakeups per
//! test. One thread must wait; with active push and pull it is the least urgent one, in every
//! wakeup. Before, a more urgent thread waited one interval behind a still more urgent one, while a
//! less urgent one ran elsewhere.
//!
//! Tests differ by their seed. Named streams draw the CPUs of the threads at the start of the test,
//! the time that each takes out of the barrier (up to [`RtMigrate::jitter`]), the delay of sleeps,
//! and the turns of the kernel's own thread of each CPU: 5 to 60 us every 20 ms at random. Without
//! that kernel thread no CPU would ever be late in picking its task. Costs are those of profile
//! `default`. The text's machine was another one, so the order and length of waits are compared,
//! not microseconds.
//!
//! Source: Rostedt 2007, *New RT Task Balancing -v2*.

mod print;

pub(crate) use print::DOCUMENT;

use super::spread;
use core::cmp::Reverse;
use std::ops::ControlFlow;
use zerolag::simulation::Plan;
use zerolag_model::settings::{OverloadScope, RtBalance};
use zerolag_model::{CpuId, Duration, KernelVersion, SchedAttr, Settings, Topology};
use zerolag_sim::{Outcome, Stats, Tracing};
use zerolag_tools::rt_migrate::{Edition, Row, RtMigrate};
use zerolag_workload::Stream;
use zerolag_workload::program::{Action, TaskDef};
use zerolag_workload::random::{Bounds, Dist};

/// A balancing mode of real-time tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// 2.6.23: only the periodic and new-idle balancer moves them.
    Passive,
    /// The text's patches without the last one: active balancing, with the old balancer still
    /// running.
    ActiveAndPassive,
    /// The text: push, and pull under the locks of overloaded run queues.
    PullLocked,
    /// 6.12: pull by one IPI that circulates in the root domain.
    IpiRootDomain,
}

impl Mode {
    /// All, from old to new.
    pub const ALL: [Self; 4] = [Self::Passive, Self::ActiveAndPassive, Self::PullLocked, Self::IpiRootDomain];

    /// Returns its name: the value of the setting `rt_balance`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.balance().name()
    }

    const fn balance(self) -> RtBalance {
        match self {
            Self::Passive => RtBalance::Passive,
            Self::ActiveAndPassive => RtBalance::ActiveAndPassive,
            Self::PullLocked => RtBalance::PullLocked,
            Self::IpiRootDomain => RtBalance::IpiRootDomain,
        }
    }

    /// Returns the base kernel: the text's patches apply to a kernel like 2.6.23.
    #[must_use]
    pub const fn kernel(self) -> KernelVersion {
        match self {
            Self::Passive | Self::ActiveAndPassive | Self::PullLocked => KernelVersion::V2_6_23,
            Self::IpiRootDomain => KernelVersion::V6_12,
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(self) -> Settings {
        let mut settings = self.kernel().settings();
        settings.rt_balance = self.balance();
        match self {
            // As in the text: overload masks per cpuset, and a waking task is pushed from where it
            // ran.
            Self::ActiveAndPassive | Self::PullLocked => {
                settings.overload_scope = OverloadScope::Cpuset;
                settings.rt_select_on_wake = false;
            }
            Self::Passive | Self::IpiRootDomain => {}
        }
        settings
    }

    /// Returns the result published in the text.
    #[must_use]
    pub const fn published(self) -> &'static str {
        match self {
            Self::Passive => "a more urgent thread waits 20.0 ms",
            Self::ActiveAndPassive => "\"again cause latencies\"",
            Self::PullLocked => "no failure in 6500 x 50",
            Self::IpiRootDomain => "-",
        }
    }
}

/// The experiment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RtBalance2007 {
    /// Tests per mode.
    pub tests: u64,
    /// Wakeups per test.
    pub wakeups: u32,
    /// The seed of the first test; the others follow.
    pub seed: u64,
    /// The machine.
    pub cpus: u32,
    /// Threads.
    pub tasks: u32,
    /// The longest stay in the kernel of a fair task on each CPU beside the test; without it the
    /// CPUs are free for the test.
    pub kernel_load: Option<Duration>,
    /// Number of worker threads on the host.
    pub threads: usize,
}

impl Default for RtBalance2007 {
    fn default() -> Self {
        Self { tests: 6_500, wakeups: 50, seed: 0, cpus: 4, tasks: 5, kernel_load: None, threads: 1 }
    }
}

/// An iteration that is shown in the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Example {
    /// The test.
    pub test: u64,
    /// The iteration in the test.
    pub iteration: usize,
    /// Its figures.
    pub row: Row,
}

impl Example {
    /// Keeps the earlier one, so that the result does not depend on the order of the tests.
    fn keep_first(kept: &mut Option<Self>, other: Option<Self>) {
        let Some(other) = other else { return };
        if kept.as_ref().is_none_or(|kept| (other.test, other.iteration) < (kept.test, kept.iteration)) {
            *kept = Some(other);
        }
    }

    /// Keeps the one with the longer wait; of equal ones the earlier.
    fn keep_worst(kept: &mut Option<Self>, other: Option<Self>) {
        let Some(other) = other else { return };
        let rank = |example: &Self| (Reverse(worst_of_others(&example.row)), example.test, example.iteration);
        if kept.as_ref().is_none_or(|kept| rank(&other) < rank(kept)) {
            *kept = Some(other);
        }
    }
}

/// Returns the longest time to the start of any thread except the least urgent.
fn worst_of_others(row: &Row) -> u64 {
    row.0.iter().skip(1).map(|cell| cell.start).max().unwrap_or(0)
}

/// The results of one mode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Completed tests.
    pub tests: u64,
    /// Iterations.
    pub iterations: u64,
    /// Iterations in which a more urgent thread had to wait for a less urgent one.
    pub failures: u64,
    /// Tests with such an iteration.
    pub failed_tests: u64,
    /// The longest time to the start, per thread, in microseconds.
    pub worst: Vec<u64>,
    /// The sum of times to the start, per thread, in microseconds.
    pub total: Vec<u64>,
    /// The failure with the longest wait, the first of them.
    pub failure: Option<Example>,
    /// The first iteration in which the least urgent thread got a CPU and lost it at once.
    pub sneaked: Option<Example>,
    /// Events of the simulations.
    pub events: u64,
    /// Tests that did not end with their last iteration; impossible in a correct scheduler.
    pub broken: u64,
}

impl Findings {
    fn merge(&mut self, other: Self) {
        self.tests += other.tests;
        self.iterations += other.iterations;
        self.failures += other.failures;
        self.failed_tests += other.failed_tests;
        self.events += other.events;
        self.broken += other.broken;
        for (all, one) in [(&mut self.worst, &other.worst), (&mut self.total, &other.total)] {
            all.resize(all.len().max(one.len()), 0);
        }
        self.worst.iter_mut().zip(&other.worst).for_each(|(all, one)| *all = (*all).max(*one));
        self.total.iter_mut().zip(&other.total).for_each(|(all, one)| *all += one);
        Example::keep_worst(&mut self.failure, other.failure);
        Example::keep_first(&mut self.sneaked, other.sneaked);
    }

    /// Returns the longest time to the start of any thread except the least urgent, in
    /// microseconds.
    #[must_use]
    pub fn worst_of_others(&self) -> u64 {
        self.worst.iter().skip(1).copied().max().unwrap_or(0)
    }

    /// Adds one test.
    fn note(&mut self, test: u64, plan: &RtMigrate, rows: &[Row], outcome: &Outcome) {
        self.tests += 1;
        self.iterations += rows.len() as u64;
        self.events += outcome.stats.events + outcome.stats.ticks;
        self.broken += u64::from(rows.len() < plan.loops as usize);
        let (worst, total) = (&mut self.worst, &mut self.total);
        worst.resize(plan.tasks as usize, 0);
        total.resize(plan.tasks as usize, 0);
        let mut failures = 0;
        for (iteration, row) in rows.iter().enumerate() {
            for (task, cell) in row.0.iter().enumerate() {
                worst[task] = worst[task].max(cell.start);
                total[task] += cell.start;
            }
            let example = || Some(Example { test, iteration, row: row.clone() });
            if plan.is_failure(row) {
                failures += 1;
                Example::keep_worst(&mut self.failure, example());
            } else if sneaked(row) {
                Example::keep_first(&mut self.sneaked, example());
            }
        }
        self.failures += failures;
        self.failed_tests += u64::from(failures > 0);
    }
}

/// Mean interval of the kernel's own work on a CPU.
const NOISE: Duration = Duration::from_millis(20);

/// The text's second listing: the least urgent thread started with the others, and did almost no
/// loops.
fn sneaked(row: &Row) -> bool {
    row.0.first().is_some_and(|lowest| lowest.start < 1_000 && lowest.loops < 1_000)
}

impl RtBalance2007 {
    /// Returns one test.
    #[must_use]
    pub fn test(&self, test: u64) -> RtMigrate {
        let mut homes = Stream::new(self.seed.wrapping_add(test), "rt-migrate-test", 0, "homes");
        let cpus = u64::from(self.cpus);
        let home = |_| CpuId(u32::try_from(homes.below(cpus)).expect("invariant: below the number of CPUs"));
        RtMigrate {
            edition: Edition::Y2007,
            loops: self.wakeups,
            homes: (0..self.tasks).map(home).collect(),
            noise: Some(NOISE),
            ..RtMigrate::new(self.tasks)
        }
    }

    /// Returns the plan of one test.
    ///
    /// # Panics
    /// If the experiment's numbers are out of range; see [`RtMigrate::check`].
    #[must_use]
    pub fn plan(&self, mode: Mode, test: u64) -> Plan {
        let machine = Topology::flat(self.cpus).expect("invariant: the machine was checked");
        let spec = self.test(test);
        let mut program = spec.program(self.cpus as usize);
        if let Some(longest) = self.kernel_load {
            program.tasks.extend((0..self.cpus).map(|cpu| kernel_load(CpuId(cpu), longest)));
        }
        let mut plan = Plan::of_program(program, machine, mode.kernel()).with_seed(self.seed.wrapping_add(test));
        plan.config.duration = spec.duration();
        plan.config.settings = mode.settings();
        plan
    }

    /// Runs all tests of a mode; `progress` is called with the number of started tests and can stop
    /// the rest.
    #[must_use]
    pub fn run(&self, mode: Mode, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Findings {
        let work = |test: u64, found: &mut Findings| {
            let spec = self.test(test);
            let mut machine =
                self.plan(mode, test).build(Tracing::On).expect("invariant: the program fits the machine");
            let mut collector = spec.collector();
            let outcome = machine.run_with(&mut collector, |_, _: &Stats| ControlFlow::Continue(()));
            found.note(test, &spec, &collector.into_complete_rows(), &outcome);
        };
        let mut all = Findings::default();
        for part in spread(self.tests, self.threads, work, |test| progress(test).is_continue()) {
            all.merge(part);
        }
        all
    }
}

/// A fair task of one CPU that computes for 1 ms on average and then is in the kernel for up to
/// `longest`, where these kernels preempt no task.
fn kernel_load(cpu: CpuId, longest: Duration) -> TaskDef {
    let bounds = Bounds { low: Duration::from_micros(10), high: Duration::from_millis(10) };
    let user = Dist::exponential(Duration::from_millis(1), bounds).expect("invariant: valid bounds");
    let kernel = Dist::uniform(Duration::from_micros(1), longest).expect("invariant: checked when it was set");
    let actions = vec![Action::Run(user), Action::Kernel(kernel)];
    TaskDef::looping(format!("load{cpu}"), SchedAttr::NORMAL, actions).on(cpu)
}

/// The results of all modes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Results {
    /// The experiment.
    pub experiment: RtBalance2007,
    /// Per mode.
    pub modes: Vec<(Mode, Findings)>,
}
