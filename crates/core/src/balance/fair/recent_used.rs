//! The CPU that a task *remembers* (`recent_used_cpu`). If neither the wake-affine target nor
//! `prev`, the CPU where the task ran, is idle, the remembered CPU is tried before the search: if
//! it is idle and shares the target's cache, the task wakes there. The task ran there not long ago,
//! and one check saves a search.
//!
//! | kernels | the task remembers | when |
//! |---|---|---|
//! | 4.16 to 5.14 | where it woke another task | that task is allowed there, not one of many (1) |
//! | | `prev` | it wakes on the CPU that it remembered |
//! | since 5.15 | `prev` | it wakes, and neither the target nor `prev` is suitable |
//!
//! (1) See [`wakers`](super::wakers). A new task remembers the CPU of its parent.
//!
//! From 5.15 to 6.4 the affinity check tested `prev`, because the kernel had already overwritten
//! the remembered CPU with it. So a task that was not allowed on `prev` did not wake on its
//! remembered CPU, and another task was sent to a CPU where it was not allowed. Such a task gets
//! the lowest CPU that it can use, even a busy one, in the node of `prev` if it can use one there.
//!
//! The remembered CPUs are shared state, because in the older kernels a task updates its own when
//! it, as the current task of its CPU, wakes another. Only one CPU at a time writes an entry: a
//! task that wakes another is not being woken itself. O(1).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `select_idle_sibling`; `kernel/sched/core.c`,
//! `wake_up_new_task`, `select_task_rq`, `select_fallback_rq`; v5.10 `select_task_rq_fair`; commits
//! 32e839dda3ba (4.16), 89aafd67f28c (5.15), ae2ad293d6be (6.5).

use crate::balance::fair::capacity_search;
use crate::balance::fair::idle_cpu::{is_idle_for, may_use};
use crate::class::fair::misfit;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use core::ops::Range;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::CpuId;
use zerolag_model::settings::RecentUsedCpu;

/// Lets the waker remember its CPU, as the older kernels do; `is_wide`: the woken task is one of
/// many.
pub(crate) fn woken<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, is_wide: bool) {
    if cx.config.settings.recent_used_cpu != RecentUsedCpu::Waker || is_wide || !task.may_run_on(cx.by) {
        return;
    }
    let by = cx.by;
    if let Some(waker) = cx.view().current(by) {
        cx.shared.recent_used.set(waker, by);
    }
}

/// Returns the CPU that a task remembers if the task has to wake there, and updates the memory.
/// `target` is the wake-affine target, `cache` the CPUs that share its cache, `need` is as for
/// [`capacity_search::fits_cpu`]. From 5.15 to 6.4 the task is possibly not allowed on the returned
/// CPU.
pub(crate) fn take<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    task: &Task,
    target: CpuId,
    cache: &Range<u32>,
    need: Option<misfit::Need>,
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
        && capacity_search::fits_cpu(cx, need, recent);
    if is_taken || remembers != RecentUsedCpu::Waker {
        cx.shared.recent_used.set(task.id, prev);
    }
    is_taken.then_some(recent)
}
