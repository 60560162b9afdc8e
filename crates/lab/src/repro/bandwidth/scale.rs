//! [`Scale`]: what keeping a limit costs on machines of 4 to 1024 CPUs, by slice.
//!
//! The text's reason for the pool: hard limits "did not scale well with increasing number-of-cores
//! or small reservations". What does not scale is the work: a CPU that needs quota passes over the
//! parts of all others under a lock; with the pool it takes one lock, which all CPUs share. So
//! every lock is a cache line with an owner here, and accesses to a line queue (profile
//! `xeon-e7-8s`).
//!
//! A group with a quota of half the machine runs a loop on every CPU. The figure is the time that
//! CPUs spend in the scheduler, in percent of the group's CPU time, less that of the same machine
//! without a limit.

use core::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag::simulation::Plan;
use zerolag_model::settings::{BandwidthControl, Borrowing};
use zerolag_model::{CpuLayer, CpuMax, Duration, KernelVersion, Record, SchedAttr, Topology, TraceEvent};
use zerolag_report::table::{Align, Table, Titled};
use zerolag_sim::{Costs, End, Sink, Tracing};
use zerolag_workload::program::{Action, GroupDef, GroupWeight, InCpus, Program, TaskDef};
use zerolag_workload::random::Dist;

/// How the limit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeper {
    /// No limit.
    None,
    /// A pool, with slices of so many milliseconds.
    Pool(u64),
    /// Hard limits.
    HardLimits(Borrowing),
}

impl Keeper {
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Pool(slice) => format!("pool, {slice} ms"),
            Self::HardLimits(Borrowing::Always) => "hard limits".to_owned(),
            Self::HardLimits(borrowing) => format!("hard limits, {}", borrowing.name()),
        }
    }
}

/// The experiment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Machine sizes.
    pub cpus: Vec<u32>,
    /// How the limit is kept.
    pub keepers: Vec<Keeper>,
    /// Number of worker threads on the host.
    pub threads: usize,
}

impl Default for Scale {
    fn default() -> Self {
        let pools = [1, 5, 10, 100].map(Keeper::Pool);
        let hard = [Borrowing::Always, Borrowing::OncePerPeriod, Borrowing::Never].map(Keeper::HardLimits);
        Self { cpus: vec![4, 16, 64, 256, 1024], keepers: pools.into_iter().chain(hard).collect(), threads: 1 }
    }
}

/// The figures of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spent {
    /// The part of the quota that the group got, in percent.
    got: f64,
    /// Time in the scheduler, in percent of the group's CPU time.
    sched: f64,
}

/// The results.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled {
    scale: Scale,
    spent: Vec<((u32, Keeper), Spent)>,
}

/// The simulated time of a run: three periods.
const LENGTH: Duration = Duration::from_millis(300);
/// The period of the limit.
const PERIOD: Duration = Duration::from_millis(100);

impl Scale {
    /// Returns every run: a machine and how its limit is kept.
    #[must_use]
    pub fn runs(&self) -> Vec<(u32, Keeper)> {
        let of = |cpus: &u32| {
            let cpus = *cpus;
            std::iter::once(Keeper::None).chain(self.keepers.iter().copied()).map(move |keeper| (cpus, keeper))
        };
        self.cpus.iter().flat_map(of).collect()
    }

    /// Runs all; `progress` is called with the number of started runs and can stop the rest.
    ///
    /// # Panics
    /// If a machine has no shape: a size that is neither below 16 nor a multiple of eight.
    #[must_use]
    pub fn run(&self, progress: impl Fn(u64) -> ControlFlow<()> + Sync) -> Scaled {
        let runs = self.runs();
        let run_of = |nth: u64| runs[usize::try_from(nth).expect("invariant: an index")];
        let work = |nth: u64| {
            let (cpus, keeper) = run_of(nth);
            spent(cpus, keeper)
        };
        let found = crate::repro::in_order(runs.len() as u64, self.threads, work, progress);
        let spent = found.into_iter().map(|(nth, spent)| (run_of(nth), spent)).collect();
        Scaled { scale: self.clone(), spent }
    }
}

/// Adds up the layers of all CPUs.
#[derive(Default)]
struct Layers {
    user: Duration,
    sched: Duration,
}

impl Sink for Layers {
    fn record(&mut self, record: &Record) {
        if let TraceEvent::CpuTotals { times } = &record.event {
            self.user += times.of(CpuLayer::User);
            self.sched += times.of(CpuLayer::Sched);
        }
    }
}

fn spent(cpus: u32, keeper: Keeper) -> Spent {
    let sockets = if cpus < 16 { 1 } else { 8 };
    let machine = Topology::new(sockets, 1, cpus / sockets, 1).expect("at most 4096 CPUs");
    let quota = (keeper != Keeper::None).then(|| PERIOD * u64::from(cpus) / 2);
    let group = GroupDef {
        path: "/limited".into(),
        parent: None,
        weight: GroupWeight::Shares(1024),
        is_idle: false,
        max: CpuMax { quota, period: PERIOD, ..CpuMax::UNLIMITED },
        clamp: zerolag_model::UtilClamp::NONE,
        cpus: InCpus::default(),
        rt: None,
        triggers: Vec::new(),
    };
    let actions = vec![Action::Run(Dist::Constant(Duration::from_secs(1)))];
    let task = |nth: u32| TaskDef {
        group: Some(0),
        affinity: Some(Arc::new(zerolag_model::CpuMask::single(zerolag_model::CpuId(nth)))),
        ..TaskDef::looping(format!("loop{nth}"), SchedAttr::NORMAL, actions.clone())
    };
    let program = Program { tasks: (0..cpus).map(task).collect(), groups: vec![group], ..Program::default() };
    let mut plan = Plan::of_program(program, machine, KernelVersion::V2_6_25);
    plan.config.duration = Some(LENGTH);
    plan.config.costs = Costs::xeon_e7_8s();
    let settings = &mut plan.config.settings;
    settings.bandwidth_expiry = false;
    settings.bandwidth_slack = false;
    match keeper {
        Keeper::None => {}
        Keeper::Pool(slice) => settings.bandwidth_slice = Duration::from_millis(slice),
        Keeper::HardLimits(borrowing) => {
            settings.bandwidth = BandwidthControl::HardLimits;
            settings.hard_limits_borrow = borrowing;
        }
    }
    let mut layers = Layers::default();
    let mut machine = plan.build(Tracing::On).expect("invariant: the program fits the machine");
    let outcome = machine.run(&mut layers);
    assert_eq!(outcome.why, End::Duration, "busy loops do not end");
    let limit = quota.map_or(PERIOD * u64::from(cpus), |quota| quota) * 3;
    Spent {
        got: layers.user.as_nanos() as f64 / limit.as_nanos() as f64 * 100.0,
        sched: layers.sched.as_nanos() as f64 / layers.user.as_nanos().max(1) as f64 * 100.0,
    }
}

impl Scaled {
    fn of(&self, cpus: u32, keeper: Keeper) -> Option<Spent> {
        self.spent.iter().find(|(run, _)| *run == (cpus, keeper)).map(|(_, spent)| *spent)
    }

    /// Returns the time in the scheduler that a limit adds, in percent of the group's CPU time;
    /// `None` if it was not run.
    #[must_use]
    pub fn added_percent(&self, cpus: u32, keeper: Keeper) -> Option<f64> {
        Some(self.of(cpus, keeper)?.sched - self.of(cpus, Keeper::None)?.sched)
    }

    /// Returns the table: rows are ways to keep the limit, columns machines.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut head = vec![("limit kept by".to_owned(), Align::Left)];
        head.extend(self.scale.cpus.iter().map(|cpus| (format!("{cpus} CPUs"), Align::Right)));
        let head: Vec<(&str, Align)> = head.iter().map(|(name, align)| (name.as_str(), *align)).collect();
        let mut table = Table::new(&head);
        for keeper in self.scale.keepers.iter().copied() {
            let cell = |cpus: &u32| {
                let (Some(spent), Some(added)) = (self.of(*cpus, keeper), self.added_percent(*cpus, keeper)) else {
                    return "-".to_owned();
                };
                format!("{added:.3}% ({:.0}%)", spent.got)
            };
            let mut row = vec![keeper.name()];
            row.extend(self.scale.cpus.iter().map(cell));
            table.push(row);
        }
        table
    }

    /// Returns the table with its title.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let text = "Time in the scheduler that the limit adds, in percent of the group's CPU time (part of the quota that it got); costs xeon-e7-8s.";
        Titled::new("What keeping a limit costs", text, self.table())
    }
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "time in the scheduler that a limit of half the machine adds, in percent of the group's CPU time")?;
        writeln!(f, "(and the part of the quota that it got); a loop on every CPU, costs xeon-e7-8s\n")?;
        write!(f, "{}", self.table())
    }
}
