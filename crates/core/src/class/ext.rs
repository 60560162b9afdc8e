//! The class of a loaded scheduler (`sched_ext`), below the fair class.
//!
//! A kernel runs a program here that its user loads. This is the simplest one: the kernel's default
//! callbacks, which are `scx_simple` with `-f`. There are two kinds of queues, both first in first
//! out: one of the machine ([`ExtQueue`](crate::shared::ext_queue::ExtQueue)) and a local one of
//! each CPU.
//!
//! ```text
//!                wakes, its CPU idles [1]
//!   (away) ----------------------------------> Local ------- picked [4] ------> Current
//!      |                                         ^  ^                            |    |
//!      | wakes, no CPU idles [2]                 |  +-- preempted by a class ----+    |
//!      |                                         |      above, slice left [5]         |
//!      +---> Shared --- a CPU runs out of -------+                                    |
//!              ^        local tasks [3]                                               |
//!              +------------------------------ slice used up, another one waits [6] --+
//! ```
//!
//! * Weights and nice values do not matter, and tasks do not preempt each other: the slice is the
//!   same for all (`sched_ext.slice`), and its end takes effect at the tick, or with `sched_yield`.
//! * A task whose slice ends while no other one waits gets another slice.
//! * \[5\] The task stays first on the local queue of its CPU, whatever runs there and however many
//!   other CPUs idle: `scx_simple` has no callback for a CPU that is taken away.
//!
//! Which CPU a task wakes on and \[3\] are in [`crate::balance::ext`].
//!
//! Not here: weights and limits of groups for these tasks, their utilisation for frequencies, and
//! proxy execution with them (`SCHED_PROXY_EXEC` excludes `SCHED_CLASS_EXT` in kernel builds).
//!
//! O(tasks of the local queue), and of the machine's queue at \[2\] \[3\] \[6\].
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c` (`enqueue_task_scx`, `scx_do_enqueue_task`,
//! `dequeue_task_scx`, `dispatch_one`, `do_pick_task_scx`, `set_next_task_scx`,
//! `put_prev_task_scx`, `task_tick_scx`, `yield_task_scx`, `wakeup_preempt_scx`);
//! `tools/sched_ext/scx_simple.bpf.c`. differs: whether a task goes to the local queue is decided
//! when it is enqueued, not when its CPU is chosen.

use crate::class::policy;
use crate::queue::ext::ExtTurn;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::ext_queue::QueuedTask;
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Enqueue};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::{ClassId, Duration};

/// Enqueues a task.
#[cold]
#[inline(never)]
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    if rq.ext.by_policy {
        return policy::enqueue(rq, cx, slot, why);
    }
    let was_idle = rq.is_idle();
    rq.ext.nr_running += 1;
    let left = cx.config.settings.sched_ext_slice;
    if rq.current_slot() == Some(slot) {
        // It was dequeued to change it, and `set_next` follows.
        rq.ext.turn = rq.ext.turn.filter(|turn| turn.slot == slot).or(Some(ExtTurn { slot, left }));
        return;
    }
    let is_local = match why {
        _ if !rq.is_online() => true,
        Enqueue::Wakeup | Enqueue::New => was_idle,
        Enqueue::Sync | Enqueue::Dispatched => true,
        Enqueue::Migrated | Enqueue::Changed => false,
    };
    if is_local {
        rq.ext.local.push_back(ExtTurn { slot, left }); // [1] [3]
    } else {
        share(rq, cx, slot); // [2]
    }
}

/// \[2\] \[6\] Puts a task on the machine's queue.
fn share<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    cx.shared.ext.append(QueuedTask { task: task.id, home: rq.cpu(), allowed: task.allowed.clone() });
}

/// Dequeues a task.
#[cold]
#[inline(never)]
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    if rq.ext.by_policy {
        return policy::dequeue(rq, cx, slot, why);
    }
    rq.ext.nr_running -= 1;
    if rq.current_slot() == Some(slot) {
        match why {
            Dequeue::Change => {}
            Dequeue::Sleep | Dequeue::Migrate | Dequeue::Exit => rq.ext.turn = None,
        }
    } else if rq.ext.take_local(slot).is_none() {
        let was_here = cx.shared.ext.remove(rq.tasks[slot].id);
        assert!(was_here, "a task that is dequeued was queued");
    }
}

/// Changes the allowed CPUs of a queued task, which keeps its place.
#[cold]
#[inline(never)]
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    if rq.ext.by_policy {
        return policy::change_allowed(rq, cx, slot, change);
    }
    change(&mut rq.tasks[slot]);
    cx.shared.ext.set_allowed(rq.tasks[slot].id, rq.tasks[slot].allowed.clone());
}

/// Charges exec time to the slice of the current task.
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    if rq.ext.by_policy {
        return policy::charge(rq, cx, delta);
    }
    if let Some(turn) = &mut rq.ext.turn {
        turn.left = turn.left.saturating_sub(delta);
    }
}

/// Ends a slice that is used up.
#[cold]
#[inline(never)]
pub(crate) fn tick<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Resched {
    if rq.ext.by_policy {
        return policy::tick(rq, cx);
    }
    if rq.ext.turn.is_none_or(|turn| turn.left.is_zero()) { Resched::Now } else { Resched::No }
}

/// Gives up the rest of the slice.
#[cold]
#[inline(never)]
pub(crate) fn yield_current<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.ext.by_policy {
        return policy::yield_current(rq, cx);
    }
    if let Some(turn) = &mut rq.ext.turn {
        turn.left = Duration::ZERO;
    }
}

/// Returns the task that the class runs: the current one while it has a slice, then the first of
/// the local queue, then the current one again. A task of the machine's queue has been made local
/// before ([`crate::balance::ext`]).
#[inline]
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    if rq.ext.nr_running == 0 { None } else { pick_one(rq, cx) }
}

#[cold]
#[inline(never)]
fn pick_one<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    if rq.ext.by_policy {
        return policy::pick(rq, cx);
    }
    // The search for fair tasks, before, has begun an idle period of that class.
    rq.fair.newidle.since = None;
    // The switch has looked at the machine's queue already, unless the server came first although
    // other classes have tasks. And what it took may be gone: the kernel keeps its lock from then
    // to here, this scheduler does not, and a change of the task puts it back.
    if is_out_of_work(rq) {
        take_own(rq, cx);
    }
    let first = rq.ext.local.front().map(|turn| turn.slot);
    match current(rq) {
        Some(turn) if !turn.left.is_zero() => Some(turn.slot),
        Some(ExtTurn { slot, .. }) if first.is_none() => {
            rq.ext.turn = Some(ExtTurn { slot, left: cx.config.settings.sched_ext_slice });
            Some(slot)
        }
        Some(_) | None => first,
    }
}

/// Makes the first task of the machine's queue that belongs to this CPU local. This run queue's
/// lock makes it certain.
pub(crate) fn take_own<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if let Some((_, slot)) = cx.shared.ext.first_of(rq.cpu()).and_then(|task| cx.shared.home(task)) {
        make_local(rq, cx, slot);
    }
}

/// Returns the current task and its slice, if it is of this class.
fn current(rq: &Rq) -> Option<ExtTurn> {
    let slot = rq.current_slot().filter(|_| rq.current_class() == ClassId::Ext)?;
    Some(ExtTurn { slot, left: rq.ext.left_of(slot).unwrap_or_default() })
}

/// Returns whether this CPU has no task of its own to run by this class, so that it looks at the
/// machine's queue.
pub(crate) fn is_out_of_work(rq: &Rq) -> bool {
    rq.ext.local.is_empty() && current(rq).is_none_or(|turn| turn.left.is_zero())
}

/// \[3\] Moves a task that waits here from the machine's queue to the local one.
pub(crate) fn make_local<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot) {
    if cx.shared.ext.remove(rq.tasks[slot].id) {
        rq.ext.local.push_back(ExtTurn { slot, left: cx.config.settings.sched_ext_slice });
    }
}

/// \[4\] Makes a queued task the current one.
#[cold]
#[inline(never)]
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.ext.by_policy {
        return policy::set_next(rq, cx, slot);
    }
    let local = rq.ext.take_local(slot);
    if rq.ext.left_of(slot).is_none() {
        let left = cx.config.settings.sched_ext_slice;
        rq.ext.turn = Some(local.unwrap_or(ExtTurn { slot, left }));
    }
}

/// Handles the switch away from a task that stays queued; `idles` if no task follows.
#[cold]
#[inline(never)]
pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, idles: bool) {
    if rq.ext.by_policy {
        return policy::put_prev(rq, cx, slot, idles);
    }
    let turn = rq.ext.turn.take().filter(|turn| turn.slot == slot);
    match turn {
        Some(turn) if !turn.left.is_zero() => rq.ext.local.push_front(turn), // [5]
        _ if !rq.is_online() => {
            rq.ext.local.push_back(ExtTurn { slot, left: cx.config.settings.sched_ext_slice });
        }
        _ => share(rq, cx, slot), // [6]
    }
}
