//! The workloads that speed is measured with; shared by the benchmark `machine` and the example
//! `speed`.

use std::sync::Arc;
use zerolag_model::{CpuMax, Duration, KernelVersion, Nice, SchedAttr, Topology};
use zerolag_sim::{Costs, Machine, MachineConfig, Tracing};
use zerolag_workload::builtin::{PeriodicPolicy, periodic};
use zerolag_workload::program::{Action, GroupDef, GroupWeight, InCpus, Program, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::{Bounds, Dist};

/// A program and the machine that it is meant for.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) program: Arc<Program>,
    pub(crate) config: MachineConfig,
}

impl Workload {
    /// Returns a workload by name: `hogs`, `w4`, `w8`, `w64` (rate-monotonic FIFO), `edf4`, `edf8`,
    /// `edf64` (the same sets as deadline tasks), `light<CPUS>`, `idle<CPUS>`, `limits<CPUS>`,
    /// `mixed<CPUS>`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let count = |prefix: &str| name.strip_prefix(prefix).and_then(|count| count.parse::<u32>().ok());
        if name == "hogs" {
            let mut hogs = Self::on_flat(hogs(20), 4);
            hogs.config.settings.hz = 1000;
            Some(hogs)
        } else if let Some(cpus) = count("light") {
            Some(Self::on_flat(light(4 * cpus, Duration::from_millis(10)), cpus))
        } else if let Some(cpus) = count("mixed") {
            Some(Self::on_flat(mixed(10 * cpus), cpus))
        } else if let Some(cpus) = count("limits") {
            Some(Self::on_flat(limits(40 * cpus), cpus))
        } else if let Some(cpus) = count("idle") {
            Some(Self::on_flat(light(4 * cpus, Duration::from_secs(1000)), cpus))
        } else {
            let csv = match name.trim_start_matches("edf").trim_start_matches('w') {
                "4" => include_str!("../../../workload/data/w4.csv"),
                "8" => include_str!("../../../workload/data/w8.csv"),
                "64" => include_str!("../../../workload/data/w64.csv"),
                _ => return None,
            };
            let (policy, cpus) = match count("edf") {
                Some(cpus) => (PeriodicPolicy::Deadline, cpus),
                None => (PeriodicPolicy::RateMonotonicFifo, count("w")?),
            };
            Some(Self::on_flat(periodic(csv, policy).expect("a valid task set"), cpus))
        }
    }

    fn on_flat(program: Program, cpus: u32) -> Self {
        let config = MachineConfig {
            topology: Topology::flat(cpus).expect("1 to 4096 CPUs"),
            settings: KernelVersion::V6_12.settings(),
            costs: Costs::server(),
            seed: 1,
            duration: None,
        };
        Self { program: Arc::new(program), config }
    }

    /// Builds the machine, to run for a while; it makes no records.
    pub(crate) fn machine(&self, duration: Duration) -> Machine {
        let config = MachineConfig { duration: Some(duration), ..self.config.clone() };
        Machine::new(Arc::clone(&self.program), &config, Tracing::Off).expect("a program that fits its machine")
    }
}

/// Busy tasks, one at each nice level from 0 on.
fn hogs(tasks: i64) -> Program {
    let forever = vec![Action::Run(Dist::Constant(Duration::from_secs(1_000_000)))];
    let task = |nice| task(format!("nice{nice}"), SchedAttr::nice(Nice::new(nice).expect("a nice level")), &forever);
    Program { tasks: (0..tasks).map(task).collect(), ..Program::default() }
}

/// Real-time tasks that run 2 % of their period each, at four priorities, spread over the period.
fn light(tasks: u32, period: Duration) -> Program {
    let timer = Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(period), mode: TimerMode::Absolute };
    let actions = vec![Action::Run(Dist::Constant(Duration::from_micros(200))), timer];
    let tasks = (0..tasks)
        .map(|index| {
            let attr = SchedAttr::fifo_at(i64::from(10 + index % 4));
            let mut task = task(format!("light{index}"), attr, &actions);
            task.delay = Duration::from_nanos(period.as_nanos() / u64::from(tasks) * u64::from(index));
            task.phases[0].loops = u64::MAX;
            task
        })
        .collect();
    Program { tasks, ..Program::default() }
}

/// Of ten tasks, one is real-time and periodic, and nine are fair, of five nice levels, and compute
/// and sleep for random times; of every fortieth, one computes all the time instead. CPUs are busy
/// for three quarters of the time.
fn mixed(tasks: u32) -> Program {
    let micros = Duration::from_micros;
    let bounds = Bounds { low: Duration::ZERO, high: Duration::from_millis(100) };
    let random = |mean| Dist::exponential(micros(mean), bounds).expect("a distribution");
    let timer =
        Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(micros(5_000)), mode: TimerMode::Absolute };
    let periodic = vec![Action::Run(Dist::Constant(micros(200))), timer];
    let forever = vec![Action::Run(Dist::Constant(Duration::from_secs(1_000_000)))];
    let sleeper = vec![Action::Run(random(300)), Action::Sleep(random(5_000))];
    let task = |index: u32| match index % 40 {
        of if of % 10 == 0 => task(format!("rt{index}"), SchedAttr::fifo_at(i64::from(1 + index % 50)), &periodic),
        1 => task(format!("hog{index}"), SchedAttr::nice(Nice::new(10).expect("a nice level")), &forever),
        of => {
            let nice = Nice::new(i64::from(of % 5) * 3 - 6).expect("a nice level");
            task(format!("sleeper{index}"), SchedAttr::nice(nice), &sleeper)
        }
    };
    Program { tasks: (0..tasks).map(task).collect(), ..Program::default() }
}

/// Limited groups of four threads each that run 200 us every 50 ms; every fourth group may use less
/// than that.
fn limits(groups: u32) -> Program {
    let (period, ms) = (Duration::from_millis(50), Duration::from_millis);
    let timer = Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(period), mode: TimerMode::Absolute };
    let actions = vec![Action::Run(Dist::Constant(Duration::from_micros(200))), timer];
    let group = |index: u32| GroupDef {
        path: format!("/pod{index}").into(),
        parent: None,
        weight: GroupWeight::Weight(100),
        is_idle: false,
        max: CpuMax { quota: Some(ms(if index.is_multiple_of(4) { 1 } else { 10 })), ..CpuMax::UNLIMITED },
        clamp: zerolag_model::UtilClamp::NONE,
        cpus: InCpus::default(),
        rt: None,
        triggers: Vec::new(),
    };
    let tasks = (0..4 * groups).map(|index| {
        let mut task = task(format!("thread{index}"), SchedAttr::NORMAL, &actions);
        task.delay = Duration::from_nanos(period.as_nanos() / u64::from(4 * groups) * u64::from(index));
        task.phases[0].loops = u64::MAX;
        task.group = Some((index / 4) as usize);
        task
    });
    Program { tasks: tasks.collect(), groups: (0..groups).map(group).collect(), ..Program::default() }
}

fn task(name: String, attr: SchedAttr, actions: &[Action]) -> TaskDef {
    TaskDef::looping(name, attr, actions.to_vec())
}
