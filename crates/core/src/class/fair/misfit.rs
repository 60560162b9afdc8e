//! Machines whose CPUs differ in capacity: how much a task needs, which CPU has that, and what
//! moves a task that needs more.
//!
//! A task *fits* a CPU if its util is below 1024/1280 of what the CPU has left for fair tasks. One
//! that runs where it does not fit, and may use a stronger CPU, is a *misfit*: its CPU publishes
//! the task's load, and balancing moves it to a CPU that has more, while it runs if need be. A
//! waking task looks for an idle CPU where it fits, in the whole domain that spans all capacities;
//! if there is none, for the strongest idle one.
//!
//! Util is *invariant*: averages pass on a clock that is slowed down while a weak CPU runs
//! something, by its capacity. So util says what a task would use of the strongest CPU. When the
//! CPU idles, the clock catches up; it stays behind if the CPU was busy all along, since nobody can
//! say then what was missed.
//!
//! ```text
//!   averages' clock = task clock - lag
//!   runs something:  lag grows by (1024 - capacity) / 1024 of the time
//!   begins to idle:  lag = lost, unless util is full: lost = lag
//! ```
//!
//! How much a task needs is the most of its util and of an *estimate*: its util when it went to
//! sleep, of late ([`Estimate`]).
//!
//! None of this is done on machines whose CPUs are equal, or without load tracking.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `fits_capacity`, `update_misfit_status`,
//! `select_idle_capacity`, `asym_fits_cpu`, `util_est_update`; `kernel/sched/pelt.h`,
//! `update_rq_clock_pelt`, `update_idle_rq_clock_pelt`. differs: no uclamp, no energy model, so
//! nobody packs tasks while the machine is not overutilised; frequencies are not modelled.

use crate::class::fair::load::task_load;
use crate::entity::fair::{EntityRef, QueueIx};
use crate::entity::pelt;
use crate::queue::fair::asymmetric;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::level::FULL_CAPACITY;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, CpuMask};

/// Returns what a task that is not queued needs; `None` where it does not matter, because CPUs are
/// equal.
pub(crate) fn need<L: RawMutex>(cx: &Cx<'_, L>, task: &Task) -> Option<u64> {
    cx.config.topology.asymmetry()?;
    if !cx.config.settings.tracks_load() {
        return None;
    }
    let slept = cx.now.wall.since(task.last_ran);
    let average = &task.fair.average;
    let util = pelt::decay(average.util, pelt::periods(slept));
    Some(task.fair.estimate.after(average.util, average.runnable).at_least(util))
}

/// Returns whether a task that needs this fits a CPU; every task does where CPUs are equal.
pub(crate) fn fits_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, need: Option<u64>, cpu: CpuId) -> bool {
    need.is_none_or(|util| asymmetric::fits(util, cx.capacity_of(cpu)))
}

/// Returns what a queued task needs, as of when it was last looked at. `task_util_est`.
pub(crate) fn util_of(task: &Task) -> u64 {
    task.fair.estimate.at_least(task.fair.average.util)
}

/// Returns whether a queued task fits the CPU whose queue it is on.
pub(crate) fn fits_here<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let q = rq.tasks[slot].fair.queue;
    rq.age_queue(q);
    rq.age_entity(q, EntityRef::Task(slot));
    asymmetric::fits(util_of(&rq.tasks[slot]), cx.capacity_of(rq.cpu()))
}

/// The CPU runs another task, or none.
#[cold]
pub(crate) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (now, runs) = (rq.clock_task(), rq.current_slot().is_some());
    let util = rq.queue(QueueIx::ROOT).average.util + rq.fair.pressure.above_util();
    if let Some(uneven) = &mut rq.fair.asymmetric {
        uneven.switched(now, runs, util >= FULL_CAPACITY - 1);
    }
    update(rq, cx);
}

/// Says whether what runs here fits. O(1); O(CPUs) for a task that does not.
pub(crate) fn update<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let current = rq.current_slot();
    let misfit = match current {
        Some(slot) if rq.current_class() == ClassId::Fair && !fits_here(rq, cx, slot) => {
            let may_go = has_stronger(cx, rq.cpu(), rq.tasks[slot].allowed.as_deref());
            if may_go { task_load(rq, slot).max(1) } else { 0 }
        }
        Some(_) | None => 0,
    };
    let Some(uneven) = &mut rq.fair.asymmetric else { return };
    if uneven.misfit != misfit {
        uneven.misfit = misfit;
        cx.shared.publish_misfit(rq.cpu(), misfit);
    }
}

/// Returns whether the machine has a stronger CPU that balancing may move a task to: none that is
/// isolated (`asym_cpu_capacity_scan`).
fn has_stronger<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId, allowed: Option<&CpuMask>) -> bool {
    let topology = &cx.config.topology;
    let own = topology.capacity(cpu);
    let may_go = |other| !cx.config.isolates(other) && allowed.is_none_or(|mask| mask.contains(other));
    topology.cpus().any(|other| topology.capacity(other) > own && may_go(other))
}
