//! The kernel threads that ran beside a recorded workload.
//!
//! They take a hundredth of a per cent or so. But where the turns of a workload repeat, each of
//! their turns begins another repetition: without them a simulation goes on in one of several ways
//! for the whole run, and a kernel in all of them.
//!
//! The threads of the timer wheel (`kworker`, `kcompactd`, `kdamond`) wake at ticks. Their period
//! is the mean distance of the recorded wakeups, and each run draws at which tick they begin.

use serde::Deserialize;
use zerolag_model::{CpuId, Duration, SchedAttr};
use zerolag_sim::Costs;
use zerolag_workload::program::{Action, Phase, Program, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::{Dist, Stream};

/// A kernel thread.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its name; all threads that do the same work have one.
    pub name: String,
    /// The mean time between its wakeups, in milliseconds.
    pub every_ms: u32,
    /// The median length of its turns, in microseconds, with the switch to it.
    pub run_us: u32,
    /// The only CPU on which it may run.
    pub cpu: Option<u32>,
}

/// Adds threads, of which there are some, to a program. `seed` draws their phases.
pub(super) fn add_to(program: &mut Program, threads: &[Thread], costs: &Costs, tick: Duration, seed: u64) {
    program.kernel_work.first_task.get_or_insert(program.tasks.len());
    for thread in threads {
        let every = Duration::from_millis(u64::from(thread.every_ms));
        let ticks = (every.as_nanos() / tick.as_nanos().max(1)).max(1);
        let begins = Stream::new(seed, &thread.name, 0, "phase").below(ticks);
        // A recorded turn begins at the switch, and the simulated wait for a timer is a call.
        let call = costs.syscall + costs.waiting_call + costs.sleep_call;
        let around = costs.context_switch + costs.fair_switch + call;
        let run = Duration::from_micros(u64::from(thread.run_us)).saturating_sub(around);
        let works = Action::Kernel(Dist::Constant(run.max(MIN)));
        let waits = |period| {
            let (timer, period) = (TimerRef::Own(0), Dist::Constant(period));
            Action::Timer { timer, period, mode: TimerMode::Absolute }
        };
        let mut def = TaskDef::looping(thread.name.as_str(), SchedAttr::NORMAL, vec![works, waits(tick * ticks)]);
        def.phases[0].loops = u64::MAX;
        // It exists from the start, as in the kernel: a new task counts as busy until it has slept.
        let begins = vec![Action::Kernel(Dist::Constant(MIN)), waits(tick * begins + AFTER_TICK)];
        def.phases.insert(0, Phase::new("begins", 1, begins));
        program.tasks.push(match thread.cpu {
            Some(cpu) => def.on(CpuId(cpu)),
            None => def,
        });
    }
}

/// The timer wheel is looked at when the tick is over.
const AFTER_TICK: Duration = Duration::from_micros(15);
const MIN: Duration = Duration::from_micros(1);
