//! Where a task of the loaded scheduler wakes, and how a CPU takes tasks from the machine's queue.
//! The class is [`crate::class::ext`].
//!
//! A task wakes on an idle CPU if there is one: rather on a core that idles as a whole, rather on
//! the CPU where it ran, rather near that. If there is none it waits on the machine's queue, and
//! the first CPU that runs out of other work takes it: its body moves to that CPU.
//!
//! Two wakeups at once can choose the same idle CPU. The kernel prevents that by clearing the CPU's
//! bit in the mask of idle CPUs, which is never stale in that direction. Here the second task finds
//! the CPU busy and goes to the machine's queue; if a CPU idles then, it is asked to take it
//! ([`woken`]).
//!
//! Work: a wakeup is O(words of the mask of idle CPUs), with SMT O(idle CPUs); taking a task is
//! O(tasks of the machine's queue).
//!
//! Sources: Linux v7.3 `kernel/sched/ext/idle.c`, `scx_select_cpu_dfl`; `ext.c`,
//! `select_task_rq_scx`, `scx_consume_dispatch_q`. differs: among idle CPUs of one level the lowest
//! is chosen, the kernel begins behind the one that it chose last.

use crate::balance::fair::idle_cpu;
use crate::balance::policy;
use crate::class::ext;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::life::{Engaged, Enqueue, Placement};
use crate::words::step::{PairCont, Step};
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, MigrateReason, ServerKind, TaskId};

/// Chooses the CPU for a task.
#[cold]
#[inline(never)]
pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, why: Placement) -> CpuId {
    if why != Placement::Displaced && cx.shared.has_policy() {
        // What a policy returns is a hint (v6.12 `select_task_rq`, `is_cpu_allowed`).
        let cpu = policy::select(cx, task, why);
        return if idle_cpu::may_use(cx, task, cpu) { cpu } else { idle_cpu::any_near(cx, task, task.last_cpu) };
    }
    let prev = task.last_cpu;
    let may_stay = task.may_run_on(prev);
    if why == Placement::SyncWakeup && task.may_run_on(cx.by) {
        let shares_cache = cx.config.topology.distance(cx.by, prev) <= Distance::Llc;
        if may_stay && shares_cache && is_idle(cx, prev) {
            return prev;
        }
        if wakes_beside_waker(cx) {
            return cx.by;
        }
    }
    let levels = [Distance::Llc, Distance::Socket, Distance::Remote];
    if cx.config.topology.span(prev, Distance::Smt).len() > 1 {
        if may_stay && is_idle(cx, prev) && idle_cpu::is_on_idle_core(cx, prev) {
            return prev;
        }
        for level in levels {
            let span = cx.config.topology.span(prev, level);
            if let Some(cpu) = first_idle(cx, task, span, |cx, cpu| idle_cpu::is_on_idle_core(cx, cpu)) {
                return cpu;
            }
        }
    }
    if may_stay && is_idle(cx, prev) {
        return prev;
    }
    for level in [Distance::Smt].into_iter().chain(levels) {
        let span = cx.config.topology.span(prev, level);
        if let Some(cpu) = first_idle(cx, task, span, |_, _| true) {
            return cpu;
        }
    }
    match task.allowed.as_deref().and_then(CpuMask::first) {
        Some(first) if !may_stay => first,
        Some(_) | None => prev,
    }
}

/// Returns whether a wakee of a waker that is about to wait goes to the waker's local queue: no
/// other task waits there, but a CPU idles, so the machine is not full.
fn wakes_beside_waker<L: RawMutex>(cx: &mut Cx<'_, L>) -> bool {
    let by = cx.by;
    cx.view().counts(by).running <= 1 && cx.view().has_idle()
}

fn is_idle<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> bool {
    cx.io.costs.cpus_scanned += 1;
    cx.view().is_idle(cpu)
}

fn first_idle<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    task: &Task,
    span: Range<u32>,
    fits: impl Fn(&mut Cx<'_, L>, CpuId) -> bool,
) -> Option<CpuId> {
    let mut from = CpuId(span.start);
    // Bounded by the idle CPUs of the range: `from` only grows.
    while let Some(cpu) = cx.view().next_idle(task.allowed.as_deref(), from).filter(|cpu| cpu.0 < span.end) {
        cx.io.costs.cpus_scanned += 1;
        if fits(cx, cpu) {
            return Some(cpu);
        }
        from = CpuId(cpu.0 + 1);
    }
    None
}

/// Returns how a task is enqueued that wakes on `cpu`.
#[cold]
#[inline(never)]
pub(crate) fn enqueues<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId, why: Placement) -> Enqueue {
    match why {
        Placement::SyncWakeup if !cx.shared.has_policy() && cpu == cx.by && wakes_beside_waker(cx) => Enqueue::Sync,
        Placement::Wakeup | Placement::SyncWakeup => Enqueue::Wakeup,
        Placement::Fork => Enqueue::New,
        Placement::Displaced => Enqueue::Migrated,
    }
}

/// Asks an idle CPU to take a task that has just woken and waits on the machine's queue.
#[cold]
#[inline(never)]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Step {
    if rq.ext.by_policy {
        policy::woken(rq, cx, slot);
        return Step::Done;
    }
    let (task, allowed) = (rq.tasks[slot].id, rq.tasks[slot].allowed.clone());
    if !cx.shared.ext.has(task) || !rq.tasks[slot].can_migrate(cx.shared.nr_cpus()) {
        return Step::Done;
    }
    // Other CPUs must see the task before this one sees that they idle.
    rq.publish_first(cx);
    match cx.view().next_idle(allowed.as_deref(), CpuId(0)) {
        Some(cpu) if cpu != rq.cpu() => Step::Pair { own: cpu, other: rq.cpu(), then: PairCont::ExtTake(task) },
        Some(_) | None => Step::Done,
    }
}

/// Takes the first task of the machine's queue that may run here, if this CPU is about to pick one
/// of this class and has none. A CPU that goes offline takes its own only.
#[cold]
#[inline(never)]
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.has_running() && !is_served(rq) {
        return Step::Done;
    }
    if rq.ext.by_policy {
        return policy::begin(rq, cx);
    }
    if !ext::is_out_of_work(rq) {
        return Step::Done;
    }
    if !rq.is_online() {
        // The tasks that are here already, until they are moved away (`scx_consume_dispatch_q`).
        ext::take_own(rq, cx);
        return Step::Done;
    }
    // Other CPUs must see that this one idles before it sees that no task waits: see `woken`.
    rq.publish_first(cx);
    next(rq, cx)
}

/// Returns whether the deadline server of the class comes first here.
fn is_served(rq: &Rq) -> bool {
    ServerKind::ALL.into_iter().any(|kind| kind.class() == ClassId::Ext && rq.dl.is_first(kind))
}

fn next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    match cx.view().first_ext(rq.cpu()) {
        None => Step::Done,
        Some((task, home)) if home == rq.cpu() => {
            if let Some(slot) = find(rq, cx, task) {
                ext::make_local(rq, cx, slot);
            }
            Step::Done
        }
        Some((task, home)) => Step::Pair { own: rq.cpu(), other: home, then: PairCont::ExtTake(task) },
    }
}

fn find<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, task: TaskId) -> Option<Slot> {
    let home = cx.shared.home(task).filter(|(cpu, _)| *cpu == rq.cpu())?;
    Some(home.1).filter(|slot| rq.tasks.get(*slot).is_some_and(|body| body.id == task))
}

/// Takes a task that waits on the machine's queue and belongs to `other`. If another CPU has taken
/// it meanwhile, a CPU that is about to pick looks again.
#[cold]
#[inline(never)]
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, task: TaskId) -> Step {
    if own.ext.by_policy {
        return policy::resume(own, other, cx, task);
    }
    let is_about_to_pick = matches!(own.phase(), Phase::Switching { .. });
    let waits = find(other, cx, task).filter(|_| cx.shared.ext.has(task));
    match waits {
        Some(slot) if is_movable(other, slot, own) => {
            let reason = if is_about_to_pick { MigrateReason::NewIdle } else { MigrateReason::Wakeup };
            lifecycle::migrate_as(other, own, cx, slot, (reason, Enqueue::Dispatched));
            Step::Done
        }
        Some(_) => Step::Done,
        None if is_about_to_pick && own.is_online() => next(own, cx),
        None => Step::Done,
    }
}

fn is_movable(other: &Rq, slot: Slot, own: &Rq) -> bool {
    let task = &other.tasks[slot];
    own.is_online() && task.may_run_on(own.cpu()) && task.engaged == Engaged::No && !other.is_on_cpu(slot)
}
