//! The CPU that a task *remembers* (`recent_used_cpu`): where it wakes if that idles and shares the
//! cache, when neither the CPU that it is drawn to nor that where it ran idles. It was there of
//! late, and one look spares a search.
//!
//! | kernels | remembered is | when |
//! |---|---|---|
//! | 4.16 to 5.14 | where it woke another | it wakes one that may run there and is not one of many ([`wakers`](super::wakers)) |
//! | | where it ran, `prev` | it wakes on the CPU that it remembered |
//! | since 5.15 | `prev` | it wakes, and what it is drawn to and `prev` are both no good |
//!
//! A new task remembers the CPU of its parent. From 5.15 to 6.4 affinity was asked about `prev`,
//! which was already in the place of what was remembered. So a task that could not use `prev` did
//! not wake where it remembered, and another was sent where it may not run: then the lowest CPU
//! that it may use, in the node of `prev` if it may use one there, has it, be it busy.
//!
//! What tasks remember is known to all CPUs, since the older kernels write it when the task, as the
//! current one of its CPU, wakes another. One CPU at a time writes it: a task that wakes another is
//! not woken. O(1).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `select_idle_sibling`; `kernel/sched/core.c`,
//! `wake_up_new_task`, `select_task_rq`, `select_fallback_rq`; v5.10 `select_task_rq_fair`; commits
//! 32e839dda3ba (4.16), 89aafd67f28c (5.15), ae2ad293d6be (6.5).

use crate::balance::fair::idle_cpu::{is_idle_for, may_use};
use crate::class::fair::misfit;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use core::ops::Range;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::CpuId;
use zerolag_model::settings::RecentUsedCpu;

/// A task is woken, as one of many or not: in the older kernels its waker remembers where.
pub(crate) fn woken<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, is_wide: bool) {
    if cx.config.settings.recent_used_cpu != RecentUsedCpu::Waker || is_wide || !task.may_run_on(cx.by) {
        return;
    }
    let by = cx.by;
    if let Some(waker) = cx.view().current(by) {
        cx.shared.recent_used.set(waker, by);
    }
}

/// Returns the CPU that a task remembers if it is to wake there, and what it remembers from now on
/// is said. `target` is what it is drawn to, `cache` has the CPUs that share its cache, `need` is
/// as for [`misfit::fits_cpu`]. From 5.15 to 6.4 it may be one that the task may not use.
pub(crate) fn take<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    task: &Task,
    target: CpuId,
    cache: &Range<u32>,
    need: Option<u64>,
) -> Option<CpuId> {
    let (remembers, prev) = (cx.config.settings.recent_used_cpu, task.last_cpu);
    if remembers == RecentUsedCpu::Off {
        return None;
    }
    let word = &cx.shared.recent_used.0[task.id.index()];
    let recent = CpuId(cx.io.observer.u64(|| u64::from(word.load(Ordering::Relaxed))) as u32);
    let is_taken = recent != prev
        && recent != target
        && cache.contains(&recent.0)
        && is_idle_for(cx, task, recent)
        && match remembers {
            RecentUsedCpu::Off => false,
            RecentUsedCpu::PrevUnchecked => task.may_run_on(prev) && cx.view().is_in_domain_of(target, recent),
            RecentUsedCpu::Waker | RecentUsedCpu::Prev => may_use(cx, task, recent),
        }
        && misfit::fits_cpu(cx, need, recent);
    if is_taken || remembers != RecentUsedCpu::Waker {
        cx.shared.recent_used.set(task.id, prev);
    }
    is_taken.then_some(recent)
}
