//! Who wakes whom: whether a waker and the task that it wakes are partners, which a common cache
//! helps, or a master that wakes many and one of its many slaves, which would only crowd the
//! master's CPU.
//!
//! A task's *flips* say how often it woke another than last time; they are halved once a second. A
//! wakeup is *wide* if both flip at least as often as the cache has CPUs, and one of them that many
//! times as often as the other. Then the woken task is looked a place for where it ran, and not
//! drawn to its waker.
//!
//! What a task has woken is known to all CPUs, in a row per task: it changes when that task, as the
//! current one of its CPU, wakes another, and an interrupt on its CPU counts as its doing. Rows are
//! written by one CPU at a time and read by others: a hint. O(1).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `record_wakee`, `wake_wide` (3.12; the rule of 4.3,
//! commit 63b0e9edceec). differs: an interrupt on an idle CPU is nobody's doing, in the kernel it
//! is the idle task's.

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
    let factor = cx.config.topology.span(by, Distance::Llc).len() as u64;
    let (less, more) = (master.min(slave), master.max(slave));
    less >= factor && more >= less * factor
}

/// A task wakes another: returns its flips.
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
