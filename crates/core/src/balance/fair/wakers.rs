//! Wakers and wakees: whether the two are partners, which profit from a common cache, or a master
//! that wakes many tasks and one of its many slaves, which would only crowd the master's CPU.
//!
//! The *flips* of a task count how often it woke a different task than the time before; they are
//! halved once a second. A wakeup is *wide* if both tasks have at least as many flips as the cache
//! has CPUs, and one of them has at least that many times the flips of the other. The task of a
//! wide wakeup is placed near the CPU where it ran, and is not drawn to its waker.
//!
//! The wakeups of a task are shared state, one row per task. A row changes when its task, as the
//! current task of its CPU, wakes another; a wakeup by an interrupt counts as one by the current
//! task. A row is written by one CPU at a time and read by others: it is a hint. O(1).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `record_wakee`, `wake_wide` (3.12; the rule of 4.3,
//! commit 63b0e9edceec). differs: an interrupt on an idle CPU counts for no task; in the kernel it
//! counts for the idle task.

use crate::rq::cx::Cx;
use crate::task::body::Task;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::{Distance, Duration, Instant, TaskId};

/// Counts a wakeup; returns whether it is wide.
pub(crate) fn is_wide<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task) -> bool {
    let by = cx.by;
    let Some(waker) = cx.view().current(by) else { return false };
    let master = record(cx, waker, task.id);
    let slave = cx.io.observer.u64(|| cx.shared.wakers.0[task.id.index()].last.load(Ordering::Relaxed)) >> 32;
    let cache = cx.config.topology.span(by, Distance::Llc);
    let factor = u64::from(cx.view().nr_in_domain(by, cache));
    let (less, more) = (master.min(slave), master.max(slave));
    less >= factor && more >= less * factor
}

/// Records that a task wakes another; returns the waker's flips.
fn record<L: RawMutex>(cx: &mut Cx<'_, L>, waker: TaskId, wakee: TaskId) -> u64 {
    let row = &cx.shared.wakers.0[waker.index()];
    let (word, now) = (cx.io.observer.u64(|| row.last.load(Ordering::Relaxed)), cx.now.wall);
    let halved = Instant::from_nanos(cx.io.observer.u64(|| row.halved.load(Ordering::Relaxed)));
    let (last, mut flips) = (word & 0xffff_ffff, word >> 32);
    if now > halved + Duration::from_secs(1) {
        flips /= 2;
        row.halved.store(now.as_nanos(), Ordering::Relaxed);
    }
    let next = u64::from(wakee.0) + 1;
    if last != next {
        flips = (flips + 1).min(u64::from(u32::MAX));
    }
    let changed = flips << 32 | next;
    if changed != word {
        row.last.store(changed, Ordering::Relaxed);
    }
    flips
}
