//! Pulling without a crowd: one CPU at a time pulls from an overloaded CPU, and only where a task
//! waits that can come (`pull_claimed`). No kernel has it.
//!
//! The pull of 2007 takes the lock of every overloaded CPU: many CPUs that lower their priority at
//! once spin for one lock. Both IPI variants replace the crowd by interrupts, and interrupt the one
//! CPU that has no time for them: it runs the most urgent task of all. All three ask without
//! knowing whether any waiting task may run on the CPU that asks, so a task bound to busy CPUs
//! makes the whole machine ask in vain, again and again.
//!
//! Two observations: an overloaded CPU knows where its waiting tasks may run, so it can publish
//! that; and one puller is enough, if it knows that others wanted to.
//!
//! * An overloaded CPU publishes, beside the priority of its most urgent waiting task, the union of
//!   the CPUs that its waiting tasks may use. A CPU that lowers its priority reads both, without a
//!   lock. Where no task can come it does nothing: no lock, no interrupt.
//! * Of the CPUs that match it chooses the one with the most urgent waiting task, so that in most
//!   cases the first lock is the last; among equals the next by number, around, so that pullers
//!   spread. It claims that CPU, takes both locks, and pulls.
//! * A CPU that is claimed is left alone: the claim is marked as wanted. The CPU that gives up a
//!   wanted claim looks, under the lock, for a CPU where a task that still waits can run. It asks
//!   that CPU by interrupt to pull for itself: the CPU is less urgent than the task, so the
//!   interrupt disturbs nothing that matters. The asked CPU relays in turn.
//!
//! ```text
//!          claim [1]                claim by another [2]
//!   Free -----------> Taken -------------------------------> Wanted
//!    ^                  |                                      |
//!    +--- release [3] --+------- release [4]: relay -----------+
//! ```
//!
//! Why no task is forgotten: a CPU that lowers its priority publishes that, then reads the claim.
//! The holder publishes what still waits, gives the claim up, then reads the priorities. If the
//! first read the claim as taken, the second gives it up later and sees the lowered priority.
//! A task that becomes pushable afterwards is pushed by its own CPU. The union is too large, never
//! too small: a pull in vain is possible, where the less urgent of two waiting tasks is the one
//! that may come.
//!
//! A search reads the state of every overloaded CPU of the root domain once, and once more for each
//! that is claimed. Every visit to a CPU is behind the one before in a strict order (priority, then
//! distance), so a search ends.

use crate::balance::rt_take;
use crate::class::rt_lowest;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::CpusetId;
use crate::words::op::{Op, Work};
use crate::words::step::{ClaimedFor, ClaimedPull, PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, Prio, TraceEvent};

/// The last CPU that a search has dealt with, and the priority that waited there.
type SearchedUpTo = (Prio, CpuId);

/// Finds the next CPU to pull from behind `seen`, and claims it. The priority of this CPU is
/// published.
pub(crate) fn search<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, mut seen: Option<SearchedUpTo>) -> Step {
    // Bounded by the overloaded CPUs: `seen` only moves on.
    while let Some((prio, cpu)) = best_behind(rq, cx, seen) {
        if claim(cx, cpu) {
            let pull = ClaimedPull { prio, why: ClaimedFor::Itself };
            return Step::Pair { own: rq.cpu(), other: cpu, then: PairCont::RtPullClaimed(pull) };
        }
        seen = Some((prio, cpu)); // [2]
    }
    Step::Done
}

/// Pulls from a CPU on behalf of the puller before, which has asked for it. \[4\]
pub(crate) fn answer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, cpu: CpuId) -> Step {
    rq.publish_first(cx);
    cx.io.costs.cpus_scanned += 1;
    if !cx.view().prios(cpu).pushable.beats(Prio::FIRST_FAIR) {
        return Step::Done; // Nothing waits there any more.
    }
    cx.io.costs.rt_balance += 1;
    if !claim(cx, cpu) {
        return Step::Done; // Its holder looks again.
    }
    let pull = ClaimedPull { prio: Prio::STOP, why: ClaimedFor::Relay };
    Step::Pair { own: rq.cpu(), other: cpu, then: PairCont::RtPullClaimed(pull) }
}

/// Takes a task, gives the claim up, and continues the search.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, pull: ClaimedPull) -> Step {
    let scope = CpusetId::default();
    if own.is_online() && cx.shared.share_overload(scope, own.cpu(), other.cpu()) {
        rt_take::take(own, other, cx);
    }
    other.publish(cx);
    own.publish_first(cx);
    count_access(cx, other.cpu());
    let is_wanted = cx.io.observer.flag(|| cx.shared.release(other.cpu())); // [3]
    if is_wanted || pull.why == ClaimedFor::Relay {
        relay(own, other, cx); // [4]
    }
    match pull.why {
        ClaimedFor::Itself if own.is_online() => search(own, cx, Some((pull.prio, other.cpu()))),
        ClaimedFor::Itself | ClaimedFor::Relay => Step::Done,
    }
}

/// Claims a CPU. \[1\]
fn claim<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> bool {
    count_access(cx, cpu);
    cx.io.observer.flag(|| cx.shared.claim(cpu))
}

fn count_access<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) {
    cx.io.costs.claim_accesses += 1;
    cx.io.costs.claimed = Some(cpu);
}

/// Asks a CPU on which a task that still waits on `other` could run to pull it. O(tasks that wait
/// there).
///
/// If `other` is about to switch to one of them, nothing is asked: the switch pushes those that
/// still wait. A CPU that is asked would find that task first and leave it there ([`rt_take`]), and
/// would ask again, even itself, until `other` has switched: an interrupt after the other, and
/// without end where one thread executes both CPUs.
fn relay<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>) {
    for slot in other.rt.waiting(&other.tasks) {
        cx.io.costs.tasks_scanned += 1;
        if other.tasks[slot].prio.beats(other.prio_to_beat()) {
            return; // It is about to run there.
        }
        if let Some(target) = rt_lowest::find_lowest(other, cx, slot) {
            let work = Work::RtPullFrom(other.cpu());
            cx.io.op(Op::Ipi { cpu: target, work });
            cx.io.event(cx.now, own.cpu(), || TraceEvent::IpiSend { to: target, reason: work.reason() });
            return;
        }
    }
}

/// Returns the overloaded CPU behind `seen` with the most urgent waiting task, if one of its
/// waiting tasks may come here and beats all here.
fn best_behind<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, seen: Option<SearchedUpTo>) -> Option<SearchedUpTo> {
    let (own, nr_cpus) = (rq.cpu(), cx.shared.nr_cpus() as u32);
    let place = |(prio, cpu): SearchedUpTo| (prio.raw(), (cpu.0 + nr_cpus - own.0) % nr_cpus);
    let (mut best, mut from): (Option<SearchedUpTo>, _) = (None, CpuId(0));
    // Bounded by the CPUs of the mask: `from` only grows.
    while let Some(cpu) = cx.view().next_overloaded(CpusetId::default(), own, from) {
        from = CpuId(cpu.0 + 1);
        if cpu == own {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let prios = cx.view().prios(cpu);
        let here = (prios.pushable, cpu);
        let is_next = seen.is_none_or(|seen| place(here) > place(seen));
        let is_better = is_next && best.is_none_or(|best| place(here) < place(best));
        if is_better && prios.pushable.beats(rq.top_prio()) && (prios.reaches_all || reaches(cx, cpu, own)) {
            best = Some(here);
        }
    }
    best
}

fn reaches<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId, on: CpuId) -> bool {
    cx.io.observer.flag(|| cx.shared.reaches(cpu, on))
}
