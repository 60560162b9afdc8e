//! A build: as many jobs at a time as there are CPUs, each a short-lived process that computes in
//! bursts and waits for I/O in between.
//!
//! A *make* task per job slot forks a compiler, waits for its end, and forks the next. Bursts and
//! waits are lognormal and exponential: many are short, some last longer than a deadline server's
//! runtime. Compilers may run on any of the given CPUs.
//!
//! The bursts were chosen for the experiment of 2023: see `repro/dl_server.rs`.

use std::sync::Arc;
use zerolag_model::{CpuMask, Duration, SchedAttr};
use zerolag_workload::program::{Action, Phase, Program, Resource, ResourceId, ResourceKind, TaskDef};
use zerolag_workload::random::{Bounds, Dist};

/// The parameters of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildLoad {
    /// The CPUs that it may use; `None` is all.
    pub cpus: Option<CpuMask>,
    /// Processes at a time (`make -j`).
    pub jobs: u32,
    /// Median computation of a compiler between two waits.
    pub burst: Duration,
    /// Mean wait for I/O.
    pub wait: Duration,
    /// Bursts of one compiler.
    pub bursts: u64,
}

/// The spread of bursts: one in six lasts five times the median or longer, one in two hundred sixty
/// times.
const SIGMA: f64 = 1.6;

impl BuildLoad {
    /// Returns a build with as many jobs as it has CPUs.
    #[must_use]
    pub fn new(jobs: u32) -> Self {
        let (burst, wait) = (Duration::from_micros(600), Duration::from_micros(900));
        Self { cpus: None, jobs, burst, wait, bursts: 100 }
    }

    /// Adds the build to a program.
    ///
    /// # Panics
    /// If a time is beyond what distributions take, three hundred days.
    pub fn add_to(&self, program: &mut Program) {
        let why = "invariant: times of a build are short";
        let bounds = |high| Bounds { low: Duration::from_micros(20), high };
        let burst = Dist::lognormal(self.burst, SIGMA, bounds(self.burst * 200)).expect(why);
        let wait = Dist::exponential(self.wait, bounds(self.wait * 20)).expect(why);
        let affinity = self.cpus.clone().map(Arc::new);
        let phase = |loops, actions| Phase::new("build", loops, actions);
        for job in 0..self.jobs {
            let ended = ResourceId(u32::try_from(program.resources.len()).expect("invariant: few resources"));
            program
                .resources
                .push(Resource { name: format!("cc{job}-ended").into(), kind: ResourceKind::Semaphore { initial: 0 } });
            let compiler = program.tasks.len() + 1;
            let task = |name: String, instances, turns, phases| TaskDef {
                instances,
                affinity: affinity.clone(),
                turns,
                phases,
                ..TaskDef::looping(name, SchedAttr::NORMAL, Vec::new())
            };
            let make = vec![
                Action::Run(Dist::Constant(Duration::from_micros(300))),
                Action::Fork(compiler),
                Action::SemWait(ended),
            ];
            let compile = vec![
                phase(self.bursts, vec![Action::Run(burst.clone()), Action::Sleep(wait.clone())]),
                phase(1, vec![Action::SemPost(ended)]),
            ];
            program.tasks.push(task(format!("make{job}"), 1, None, vec![phase(1, make)]));
            program.tasks.push(task(format!("cc{job}"), 0, Some(1), compile));
        }
    }
}
