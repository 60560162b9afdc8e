//! Pulling: a CPU that is about to run a less urgent task than before looks for real-time tasks
//! that wait on other CPUs.
//!
//! `pull_locked` visits every overloaded CPU of its scope in order of number. Under both locks it
//! takes the most urgent waiting task that is allowed here and beats the next task here, unless
//! that task is about to preempt on its own CPU. All such tasks are taken, each beating the one
//! before. The IPI variants ask the overloaded CPUs to push instead ([`super::rt_ipi`]);
//! `pull_claimed` takes the lock of one CPU, where a task waits that can come
//! ([`super::rt_claim`]).
//!
//! While no CPU is overloaded, nothing happens and nothing is charged.
//!
//! An overload bit that turns out wrong under the lock is cleared: with overlapping cpusets a bit
//! can be left over.
//!
//! Sources: 2007 text ("a search is made of all overloaded runqueues"); Linux v2.6.25 and v6.12
//! `kernel/sched/rt.c`, `pull_rt_task`, `need_pull_rt_task`.

use crate::balance::{rt_claim, rt_ipi, rt_take};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::CpusetId;
use crate::words::lines::LineAccess;
use crate::words::step::{PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::settings::RtBalance;
use zerolag_model::{CpuId, Prio};

/// Begins pulling from a scope if this CPU has just become less urgent than `before`.
#[inline]
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, before: Prio, scope: CpusetId) -> Step {
    if rq.is_online() && before.beats(Prio::FIRST_FAIR) && before.beats(rq.top_prio()) {
        search(rq, cx, scope)
    } else {
        Step::Done
    }
}

/// Searches the other CPUs, if any of them is overloaded.
fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, scope: CpusetId) -> Step {
    // Other CPUs must see that this CPU has become less urgent before it reads their state: see
    // `rt_push::begin`.
    rq.publish_first(cx);
    let read = || u64::from(cx.shared.has_overload_elsewhere(scope, rq.cpu()));
    if cx.io.read(LineAccess::OverloadLook, read) == 0 {
        return Step::Done;
    }
    match cx.config.settings.rt_balance {
        RtBalance::Passive => Step::Done,
        RtBalance::ActiveAndPassive | RtBalance::PullLocked => {
            cx.io.costs.rt_balance += 1;
            next(rq, cx, scope, CpuId(0))
        }
        RtBalance::IpiPerCpu => {
            cx.io.costs.rt_balance += 1;
            rt_ipi::start_chain(rq, cx);
            Step::Done
        }
        RtBalance::IpiRootDomain => {
            cx.io.costs.rt_balance += 1;
            rt_ipi::start(rq, cx);
            Step::Done
        }
        RtBalance::PullClaimed => {
            cx.io.costs.rt_balance += 1;
            rt_claim::search(rq, cx, None)
        }
    }
}

/// Returns the step for the next overloaded CPU with a task that beats the next one here.
fn next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, scope: CpusetId, from: CpuId) -> Step {
    let mut from = from;
    // Bounded by the CPUs of the mask: `from` only grows.
    while let Some(cpu) = cx.view().next_overloaded(scope, rq.cpu(), from) {
        from = CpuId(cpu.0 + 1);
        cx.io.costs.cpus_scanned += 1;
        if cpu != rq.cpu() && (cx.view().prios(cpu).pushable.beats(rq.top_prio()) || may_be_stale(cx)) {
            return Step::Pair { own: rq.cpu(), other: cpu, then: PairCont::RtPull { scope } };
        }
    }
    Step::Done
}

/// Returns whether overload bits can be wrong, so that only the lock tells.
fn may_be_stale<L: RawMutex>(cx: &Cx<'_, L>) -> bool {
    match cx.shared.overload_scope() {
        zerolag_model::settings::OverloadScope::Cpuset => true,
        zerolag_model::settings::OverloadScope::Global | zerolag_model::settings::OverloadScope::RootDomain => false,
    }
}

/// Takes the task of `other` that beats this CPU's next task, and continues with the next
/// overloaded CPU.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, scope: CpusetId) -> Step {
    if !own.is_online() {
        return Step::Done;
    }
    if !cx.shared.share_overload(scope, own.cpu(), other.cpu()) {
        return next(own, cx, scope, CpuId(other.cpu().0 + 1)); // One CPU has left the domain.
    }
    if !other.rt.has_pushable() && !other.is_rt_overloaded(cx.config) {
        cx.shared.overload(scope, other.cpu()).remove(other.cpu());
    } else {
        rt_take::take(own, other, cx);
    }
    next(own, cx, scope, CpuId(other.cpu().0 + 1))
}
