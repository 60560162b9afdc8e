//! Machines with CPUs of different capacity: how much capacity a task needs, which CPU has it, and
//! how a task that needs more is moved.
//!
//! A task *fits* a CPU if its util is below 1024/1280 of the CPU's remaining capacity for fair
//! tasks. A running task that does not fit, and is allowed on a stronger CPU, is a *misfit*: its
//! CPU publishes the task's load, and balancing moves the task to a CPU that has more, while it
//! runs if necessary. A waking task looks for an idle CPU that it fits, in the whole domain that
//! spans all capacities. If there is none, it takes the strongest idle CPU.
//!
//! Util is *invariant*: averages pass on a clock that is slowed down, by the CPU's capacity, while
//! a weak CPU runs a task. So util is the part of the strongest CPU that a task would use. When the
//! CPU idles, the clock catches up, unless util is full. Then the CPU was busy all along, the
//! missed part of the signal is unknown, and the clock stays behind.
//!
//! ```text
//!   averages' clock = task clock - lag
//!   runs a task:     lag grows by (1024 - capacity) / 1024 of the time
//!   begins to idle:  lag = lost, unless util is full: lost = lag
//! ```
//!
//! The need of a task is the larger of its util and an *estimate*: its recent util at the moments
//! when it went to sleep ([`Estimate`](crate::entity::fair::Estimate)).
//!
//! *Clamps* bound the util that a task is taken to have: its own, bounded by those of its group
//! except in the root. With the rule of 6.2 a task fits where its util does, or where the upper
//! bound is within the CPU's capacity, except on the strongest CPU without an upper bound. A CPU
//! that is weaker than the lower bound fits only by halves ([`Fit::ButForHint`]): it is no misfit's
//! goal, and for a waking task the second choice. With the rule of 5.3 the clamped util must fit.
//!
//! A thread of a core has its capacity only while the other threads idle. Since 7.2
//! (`asym_idle_core`) a waking task looks for an idle core, and only a CPU whose core idles
//! otherwise takes a misfit.
//!
//! None of this is done on machines with equal CPUs, or without load tracking.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `fits_capacity`, `update_misfit_status`,
//! `select_idle_capacity`, `asym_fits_cpu`, `util_est_update`; `kernel/sched/pelt.h`,
//! `update_rq_clock_pelt`, `update_idle_rq_clock_pelt`; clamps: v6.12 `util_fits_cpu`, v5.15
//! `uclamp_task_util`, `kernel/sched/core.c`, `uclamp_tg_restrict`. differs: no energy model, so
//! tasks are not packed while the machine is not overutilised; frequencies are not modelled.

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
use zerolag_model::settings::Uclamp;
use zerolag_model::{ClassId, CpuId, CpuMask, GroupId, UtilClamp};

/// The capacity that a task needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    util: u64,
    clamp: UtilClamp,
}

/// How well a CPU meets a need, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    No,
    /// The util fits, but the CPU is weaker than the lower clamp.
    ButForHint,
    Yes,
}

/// Returns the clamps of a task: its own, bounded by its group's (`uclamp_tg_restrict`).
fn clamp_of<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task) -> UtilClamp {
    if cx.config.settings.uclamp == Uclamp::Off {
        return UtilClamp::NONE;
    }
    if task.group == GroupId::ROOT {
        return task.clamp;
    }
    let group = cx.view().group_clamp(task.group);
    let within = |value: u64| value.clamp(group.min(), group.max());
    let is_limit = cx.config.settings.uclamp_min_limit;
    let min = if is_limit { task.clamp.min().min(group.min()) } else { within(task.clamp.min()) };
    UtilClamp::new(min, within(task.clamp.max())).expect("invariant: within valid clamps")
}

/// Returns how well a CPU meets a need (`util_fits_cpu`).
pub(crate) fn fit<L: RawMutex>(cx: &mut Cx<'_, L>, need: Need, cpu: CpuId) -> Fit {
    let (left, full) = (cx.capacity_of(cpu), u64::from(cx.config.topology.capacity(cpu)));
    let (min, max) = (need.clamp.min().min(need.clamp.max()), need.clamp.max());
    let fits = match cx.config.settings.uclamp {
        Uclamp::Off => asymmetric::fits(need.util, left),
        Uclamp::Util => asymmetric::fits(need.util.clamp(min, max), left),
        Uclamp::Hint => {
            let is_boundless = full == FULL_CAPACITY && max == UtilClamp::FULL;
            let is_capped = !is_boundless && max <= full;
            if (asymmetric::fits(need.util, left) || is_capped) && need.util < min && min > full {
                return Fit::ButForHint;
            }
            asymmetric::fits(need.util, left) || is_capped
        }
    };
    if fits { Fit::Yes } else { Fit::No }
}

/// Returns the capacity need of a task that is not queued; `None` where CPUs are equal.
pub(crate) fn need<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task) -> Option<Need> {
    cx.config.topology.asymmetry()?;
    if !cx.config.settings.tracks_load() {
        return None;
    }
    let slept = cx.now.wall.since(task.last_ran);
    let average = &task.fair.average;
    let util = pelt::decay(average.util, pelt::periods(slept));
    let util = task.fair.estimate.after(average.util, average.runnable).at_least(util);
    Some(Need { util, clamp: clamp_of(cx, task) })
}

/// Returns the capacity need of a queued task, as of its last update. `task_util_est`.
pub(crate) fn util_of(task: &Task) -> u64 {
    task.fair.estimate.at_least(task.fair.average.util)
}

/// Returns whether a queued task fits a CPU, by its util as of its last update.
pub(crate) fn fits_as_queued<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, cpu: CpuId) -> bool {
    let need = Need { util: util_of(task), clamp: clamp_of(cx, task) };
    fit(cx, need, cpu) == Fit::Yes
}

/// Returns whether a queued task fits its own CPU.
pub(crate) fn fits_here<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let q = rq.tasks[slot].fair.queue;
    rq.age_queue(q);
    rq.age_entity(q, EntityRef::Task(slot));
    let need = Need { util: util_of(&rq.tasks[slot]), clamp: clamp_of(cx, &rq.tasks[slot]) };
    fit(cx, need, rq.cpu()) == Fit::Yes
}

/// Updates the clock of the averages and the misfit after a switch to another task or to idle.
#[cold]
pub(crate) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (now, runs) = (rq.clock_task(), rq.current_slot().is_some());
    let util = rq.queue(QueueIx::ROOT).average.util + rq.fair.pressure.above_util();
    if let Some(uneven) = &mut rq.fair.asymmetric {
        uneven.switched(now, runs, util >= FULL_CAPACITY - 1);
    }
    update(rq, cx);
}

/// Publishes whether the current task is a misfit. O(1); O(CPUs) for a task that does not fit.
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

/// Returns whether the machine has a stronger CPU that balancing could move a task to. Isolated
/// CPUs do not count (`asym_cpu_capacity_scan`).
fn has_stronger<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId, allowed: Option<&CpuMask>) -> bool {
    let topology = &cx.config.topology;
    let own = topology.capacity(cpu);
    let may_go = |other| !cx.config.isolates(other) && allowed.is_none_or(|mask| mask.contains(other));
    topology.cpus().any(|other| topology.capacity(other) > own && may_go(other))
}
