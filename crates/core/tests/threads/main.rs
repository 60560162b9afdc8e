//! A second host: real threads are the CPUs, every run queue has a real lock, kicks and IPIs go
//! from thread to thread.
//!
//! Tasks are state machines that run in short bursts, block, yield, end, wake others and change
//! their own and others' attributes and affinity. A round ends when its operations are used up.
//! Then the threads stop, one thread delivers the pending work, and the rules of quiescence are
//! checked: no task lost, no IPI under way, published state is true, and no legal move would let a
//! waiting real-time task preempt. The last rule is not judged in a round with a push that gave up:
//! a push looks for a target three times, as in the kernel, and other CPUs can take all three.
//!
//! A failure on real threads cannot be reproduced by running them again. So every call is recorded:
//! a *ticket*, drawn while the call holds its locks, so that the order of tickets agrees with the
//! order of locking; the arguments; the call's reads of the shared state ([`Observer`]); and its
//! result. Parcels are passed by value, so the ticket of a wakeup is later than that of the leave
//! which parked the task. A replay on one thread makes the calls in order of tickets, supplies the
//! recorded reads, and must get the same results.
//!
//! The ticket is also the clock. The result does not depend on the speed of the threads, but the
//! sequence of calls does: it is different in every run, and the replay shows that the log contains
//! everything that matters.
//!
//! | file | holds |
//! |---|---|
//! | `log` | the record of a call ([`Made`](zerolag_core::call::Made)), and the configuration |
//! | `host` | the threads |
//! | `replay` | the same calls on one thread, by a [`Player`](zerolag_core::call::Player) |

mod host;
mod log;
mod replay;

use crate::host::{Caller, Host, Inbox, check, come_to_rest};
use crate::log::{CPUS, Entry, TASKS, config};
use crate::replay::replay;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use zerolag_core::Scheduler;
use zerolag_core::call::{Call, Place};
use zerolag_model::settings::{OverloadScope, RtBalance};
use zerolag_model::{CpuId, KernelVersion, Settings, TaskId};

/// Runs rounds on threads, checks each at rest, then replays the whole.
fn hold_and_replay(rt_balance: RtBalance, rt_ipi_skip_self: bool, rounds: u32, budget: i64) {
    let settings = Settings {
        rt_balance,
        rt_ipi_skip_self,
        overload_scope: OverloadScope::RootDomain,
        rt_push_skip_stuck: true,
        enforce_rt: zerolag_model::settings::Grain::Exact,
        rr_timeslice: zerolag_model::Duration::from_millis(1),
        ..KernelVersion::V6_12.settings()
    };
    let mut scheduler = Scheduler::new(config(&settings));
    scheduler.reserve_tasks(TASKS as usize);
    let rqs: Vec<_> = (0..CPUS).map(|cpu| Mutex::new(scheduler.new_rq(CpuId(cpu)))).collect();
    let host = Host {
        scheduler,
        rqs,
        inboxes: (0..CPUS).map(|_| Inbox::default()).collect(),
        places: (0..TASKS).map(|_| Mutex::new(Place::OnItsWay)).collect(),
        tickets: AtomicU64::new(0),
        pushes_given_up: AtomicU64::new(0),
        budget: AtomicI64::new(0),
    };
    let mut not_judged = 0;
    let mut callers: Vec<Caller<'_>> = (0..CPUS).map(|cpu| Caller::new(&host, CpuId(cpu), u64::from(cpu))).collect();
    let mut device = Caller::new(&host, CpuId(0), 1_000);
    for task in (0..TASKS).map(TaskId) {
        let attr = device.any_attr();
        device.create(task, attr);
    }
    for round in 0..rounds {
        host.budget.store(budget, Ordering::Relaxed);
        host.pushes_given_up.store(0, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for caller in &mut callers {
                scope.spawn(|| caller.run_cpu());
            }
            scope.spawn(|| device.run_device());
        });
        come_to_rest(&host, &mut callers);
        check(&host, &callers).unwrap_or_else(|error| panic!("{rt_balance}, round {round}: {error}"));
        not_judged += u32::from(host.pushes_given_up.load(Ordering::Relaxed) > 0);
    }
    let mut log: Vec<Entry> = callers.iter_mut().chain([&mut device]).flat_map(|caller| caller.log.drain(..)).collect();
    log.sort_unstable_by_key(|entry| entry.ticket);
    let moved = log.iter().filter(|entry| matches!(entry.made.call, Call::Pair { .. })).count();
    let reads: usize = log.iter().map(|entry| entry.made.reads.as_ref().map_or(0, Vec::len)).sum();
    println!(
        "{rt_balance}: {} calls, {moved} on two run queues, {reads} reads; {rounds} times at rest, {not_judged} with a push that gave up",
        log.len()
    );
    replay(&settings, &log, &host);
    assert!(not_judged < rounds / 10, "a push gave up in {not_judged} of {rounds} rounds");
    assert!(log.len() > 20_000, "only {} calls were made", log.len());
}

/// Rounds per test, and operations of all threads per round.
const ROUNDS: u32 = 250;
const BUDGET: i64 = 1_500;

#[test]
fn pull_locked_on_threads() {
    hold_and_replay(RtBalance::PullLocked, false, ROUNDS, BUDGET);
}

#[test]
fn pull_claimed_on_threads() {
    hold_and_replay(RtBalance::PullClaimed, false, ROUNDS, BUDGET);
}

#[test]
fn ipi_per_cpu_on_threads() {
    hold_and_replay(RtBalance::IpiPerCpu, false, ROUNDS, BUDGET);
}

#[test]
fn ipi_root_domain_on_threads() {
    hold_and_replay(RtBalance::IpiRootDomain, false, ROUNDS, BUDGET);
}

#[test]
fn an_ipi_that_skips_its_sender_on_threads() {
    hold_and_replay(RtBalance::IpiRootDomain, true, ROUNDS, BUDGET);
}
