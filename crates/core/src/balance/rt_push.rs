//! Pushing: an overloaded CPU sends its waiting real-time tasks to CPUs where they can run at once.
//!
//! A push begins when a task wakes behind a more urgent one, and when a switch leaves RT tasks
//! waiting. The most urgent waiting task is offered to the CPU of lowest priority that it can use
//! and preempt. This is repeated until no task moves.
//!
//! ```text
//!   begin -> most urgent pushable --- beats current ------------> resched here, end
//!              |        no target: end (or the next task, if rt_push_skip_stuck)
//!              v
//!            Pair(own, target) --- resume: task gone, began to run or changed: begin again
//!              |                   target no longer lower: find another, 3 times in all
//!              v
//!            move, resched target, begin again (`ipi_per_cpu`: end, one task per visit)
//! ```
//!
//! The push ends at the first task without a target: the tasks behind it are less urgent and "most
//! likely" have no target either. The text names the hole: a task with a narrow affinity at the
//! head stops a less urgent task that could move. `rt_push_skip_stuck` closes it.
//!
//! Work per step: one search of cpupri; with `rt_push_skip_stuck` at most [`SKIP_LIMIT`] of them.
//!
//! Sources: 2007 text ("push_rt_tasks"); Linux v6.12 `kernel/sched/rt.c`, `push_rt_task`,
//! `find_lock_lowest_rq`.

use crate::balance::rt_ipi::{self, SentIpi};
use crate::class::rt_lowest;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::life::Engaged;
use crate::words::resched::Resched;
use crate::words::step::{AfterPush, PairCont, RtPush, Step};
use lock_api::RawMutex;
use zerolag_model::{MigrateReason, Prio};

/// How often a search is made when its target turns out unsuitable under the lock (`RT_MAX_TRIES`).
const MAX_TRIES: u8 = 3;

/// The most tasks that one step examines with `rt_push_skip_stuck`.
const SKIP_LIMIT: usize = 32;

/// Begins pushing: returns the pair of run queues that the push needs, or ends it.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, after: AfterPush) -> Step {
    // Both calls are the last thing that is done, so that no registers are saved.
    if rq.rt.has_pushable() { begin_waiting(rq, cx, after) } else { end(rq, cx, after) }
}

/// The same where a task waits.
#[inline(never)]
fn begin_waiting<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, after: AfterPush) -> Step {
    // Other CPUs must see the waiting tasks before this CPU reads their state. Then a CPU that
    // lowers its priority after the search below finds the tasks, and the search finds a CPU that
    // did so before.
    rq.publish_first(cx);
    let skip = if cx.config.settings.rt_push_skip_stuck { SKIP_LIMIT } else { 1 };
    let mut waiting = rq.rt.pushable.first();
    for nth in 0..skip {
        let Some(slot) = waiting else { break };
        if rq.tasks[slot].prio.beats(rq.prio_to_beat()) {
            if !rq.rt.is_stopped(&rq.tasks, slot) {
                rq.resched(cx, Resched::Now);
            }
            break;
        }
        cx.io.costs.rt_balance += u32::from(nth == 0);
        if let Some(target) = rt_lowest::find_lowest(rq, cx, slot) {
            let push = RtPush { task: rq.stay(slot), tries: 1, after };
            return Step::Pair { own: rq.cpu(), other: target, then: PairCont::RtPush(push) };
        }
        cx.io.costs.tasks_scanned += 1;
        waiting = rq.rt.pushable.after(&rq.tasks, slot);
    }
    end(rq, cx, after)
}

/// Pushes the real-time tasks that a switch to a real-time or deadline task has left waiting.
///
/// differs: the kernel pushes when a switch goes to a real-time task; a task that a deadline task
/// preempts waits until another CPU pulls it.
#[inline(always)]
pub(crate) fn left_behind<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    let urgent = rq.current_prio().beats(Prio::FIRST_FAIR);
    if urgent && cx.config.settings.rt_balance.is_active() && rq.rt.has_pushable() {
        begin(rq, cx, AfterPush::Nothing)
    } else {
        Step::Done
    }
}

/// Ends the push: sends a circulating IPI on.
fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, after: AfterPush) -> Step {
    match after {
        AfterPush::Nothing => Step::Done,
        AfterPush::PassOn(domain) => match rt_ipi::pass_on(rq, cx, domain) {
            SentIpi::Done => Step::Done,
            SentIpi::LookAgain => begin(rq, cx, AfterPush::Nothing),
        },
        AfterPush::PassOnChain(source) => rt_ipi::pass_on_chain(rq, cx, source),
    }
}

/// Moves the chosen task if all conditions still hold, and continues.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, push: RtPush) -> Step {
    let Some(slot) = own.find_stay(push.task).filter(|slot| is_pushable(own, other, *slot)) else {
        return begin(own, cx, push.after);
    };
    let is_target = other.is_online() && cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu());
    if !is_target || !own.tasks[slot].prio.beats(other.top_prio()) {
        return retry(own, cx, slot, push);
    }
    lifecycle::migrate(own, other, cx, slot, MigrateReason::Push);
    match push.after {
        AfterPush::Nothing | AfterPush::PassOn(_) => begin(own, cx, push.after),
        // The handler of 2015 pushes one task and sends the chain on: Linux v4.1 `rt.c`,
        // `try_to_push_tasks`.
        AfterPush::PassOnChain(_) => end(own, cx, push.after),
    }
}

/// Returns whether the task still waits here, is not about to run here, and is allowed there.
fn is_pushable(own: &Rq, other: &Rq, slot: Slot) -> bool {
    let task = &own.tasks[slot];
    let about_to_run = task.prio.beats(own.prio_to_beat());
    !own.is_on_cpu(slot)
        && task.engaged == Engaged::No
        && task.prio.is_rt()
        && !about_to_run
        && task.may_run_on(other.cpu())
}

/// Searches for another target, a bounded number of times: the priority of this one is no longer
/// lower.
fn retry<L: RawMutex>(own: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, push: RtPush) -> Step {
    if push.tries >= MAX_TRIES {
        cx.io.costs.pushes_given_up += 1;
        return end(own, cx, push.after);
    }
    match rt_lowest::find_lowest(own, cx, slot) {
        Some(target) => {
            let again = RtPush { tries: push.tries + 1, ..push };
            Step::Pair { own: own.cpu(), other: target, then: PairCont::RtPush(again) }
        }
        // This task has no target; the tasks behind it can have one (`rt_push_skip_stuck`).
        None => begin(own, cx, push.after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ids::{CpusetId, DomainId};
    use crate::{Clock, Config, Io, Leave, Left, Next, Placement, Scheduler, TaskSpec, Tracing};
    use alloc::sync::Arc;
    use core::sync::atomic::Ordering;
    use zerolag_model::{CpuId, CpuMask, GroupId, Instant, KernelVersion, SchedAttr, TaskId, Topology};

    type Lock = parking_lot::RawMutex;

    /// A handler searches for a target and then sends the IPI on; in between another CPU can become
    /// a target. With threads that window is some nanoseconds wide, so the test opens it by hand.
    #[test]
    fn a_request_between_push_and_send_on_is_not_lost() {
        let settings = KernelVersion::V6_12.settings();
        let settings = zerolag_model::Settings { rt_ipi_skip_self: true, ..settings };
        let mut scheduler = Scheduler::<Lock>::new(Config::new(Topology::flat(2).expect("two CPUs"), settings));
        scheduler.reserve_tasks(3);
        let mut rqs = [0, 1].map(|cpu| scheduler.new_rq(CpuId(cpu)));
        let (io, now) = (&mut Io::new(Tracing::Off), Clock::at(Instant::ZERO));
        for (task, priority, cpu, pinned) in [(0, 60, 0, true), (1, 60, 1, true), (2, 40, 0, false)] {
            let cpu = CpuId(cpu);
            let parcel = scheduler
                .create_task(
                    Clock::at(Instant::ZERO),
                    TaskSpec {
                        id: TaskId(task),
                        attr: SchedAttr::fifo_at(priority),
                        affinity: pinned.then(|| Arc::new(CpuMask::single(cpu))),
                        group: GroupId::ROOT,
                        cpuset: CpusetId::default(),
                        born_on: cpu,
                        process: None,
                    },
                )
                .expect("it is a task");
            let rq = &mut rqs[cpu.index()];
            let step = scheduler.wake(rq, now, parcel, cpu, Placement::Fork, io);
            assert_eq!(step, Step::Done, "nobody is lower");
            if pinned {
                assert!(matches!(scheduler.leave(rq, now, Leave::Preempted, io), Left::Queued));
                assert_eq!(scheduler.pick(rq, now, io), Next::Run(TaskId(task)));
            }
        }
        let domain = &scheduler.shared.domains[0];
        // The IPI is at CPU 0, which has found no target.
        domain.rto.lock().cpu = Some(CpuId(0));
        let left = scheduler.leave(&mut rqs[1], now, Leave::Block, io);
        assert!(matches!(left, Left::Parked(_)));
        assert_eq!(scheduler.pick(&mut rqs[1], now, io), Next::Idle, "it asks, and goes on");
        assert_eq!(domain.loop_next.load(Ordering::SeqCst), 1);
        let step = end(&mut rqs[0], &mut scheduler.cx(CpuId(0), now, io), AfterPush::PassOn(DomainId::REST));
        assert!(matches!(step, Step::Pair { own: CpuId(0), other: CpuId(1), .. }), "{step:?}");
        assert_eq!(domain.rto.lock().cpu, None, "and no IPI circulates");
    }
}
