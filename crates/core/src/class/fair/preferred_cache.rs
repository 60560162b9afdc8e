//! Cache-aware balancing, first half: the cache that a process prefers, and the queued tasks that
//! would rather be there ([`crate::balance::fair::cache_aware`] moves them).
//!
//! Threads of one process share data. If they run under different last-level caches, each line that
//! they write moves between the caches. Balancing alone spreads them: it fills caches evenly. So a
//! process prefers the cache where its threads have run most, as long as they fit there.
//!
//! * **Epochs** of 10 ms (`llc_balancing.epoch_period`). On every CPU the run time of each process,
//!   and of all fair tasks, is summed up; the sums halve with every epoch.
//! * **Scan.** Once an epoch, at the tick of one of its threads, a process is scanned. The
//!   *occupancy* of a CPU is the part of its recent run time that the process had, and that of a
//!   cache the sum over its CPUs. The cache with most is preferred from then on, if it has more
//!   than twice as much as the one preferred now.
//! * **Preference of a task.** A running task takes over the preference of its process when it is
//!   charged. A waiting task keeps the one that it had.
//! * **No preference** has a process of one thread; one whose running threads, on average, do not
//!   fit a cache (`llc_balancing.aggr_tolerance`); and one that has not been scanned for 5 epochs
//!   (`llc_balancing.epoch_affinity_timeout`).
//!
//! ```text
//!   occupancy = run time of the process / (run time of all + 1)
//!   average  += (running threads - average) / (CPUs of a cache / 4, 2 to 8), rounded towards it
//!   fits:       average * threads per core * 1280 < aggr_tolerance * CPUs of the cache * 1024
//! ```
//!
//! The average is a whole number and stops short of what it follows: of 4 running threads under a
//! cache of 4 CPUs it counts 3, which fit.
//!
//! Nothing of this is done where [`Config::gathers`](crate::words::config::Config::gathers) is
//! false. O(1) per charge; a scan is O(CPUs).
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c`, `account_mm_sched`, `__update_mm_sched`,
//! `fraction_mm_sched`, `task_tick_cache`, `task_cache_work`, `update_avg_scale`, `invalid_llc_nr`,
//! `account_llc_enqueue`, `account_llc_dequeue`; commits df0d98475954, 47d8696b95f7, b4606faab318,
//! f025ef275388, deee5e27d5b6, 7b34bb1ca324, c1e7fe5e75ed (7.2). differs: the scan is done at the
//! tick, not when the task returns to user mode after it; the memory of a process has no size
//! (`footprint` is 0), and NUMA balancing, without which the kernel does not look at it, does not
//! exist; a cache that partitions divide counts as one; a thread that runs on another's turn
//! (`proxy_exec`) is asked for a scan in the name of the one whose turn it is.

use crate::entity::fair::FairEntity;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::processes::Process;
use crate::words::ids::Slot;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Distance, Duration};

/// Returns the number of the last counted tick here.
fn jiffies<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> u64 {
    let tick = rq.fair.tune.tick;
    cx.jiffies(tick).as_nanos() / tick.as_nanos().max(1)
}

/// Returns the length of an epoch, in ticks.
fn period<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> u64 {
    (cx.config.settings.llc_epoch_period.as_nanos() / rq.fair.tune.tick.as_nanos().max(1)).max(1)
}

/// Returns the number of the present epoch. All CPUs begin one at the same tick.
fn epoch<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> u64 {
    jiffies(rq, cx).div_ceil(period(rq, cx))
}

fn cpus_of_cache<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId) -> Range<u32> {
    cx.config.topology.span(cpu, Distance::Llc)
}

/// Returns the CPU whose cache a process prefers.
pub(crate) fn preferred_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, process: &Process) -> Option<CpuId> {
    cx.io.observer.cpu(|| process.cpu.load(Relaxed).checked_sub(1).map(CpuId))
}

/// Returns whether a process has no preference, since it has one thread or too many for the cache
/// of a CPU (`invalid_llc_nr`).
pub(crate) fn has_none<L: RawMutex>(cx: &mut Cx<'_, L>, process: &Process, cpu: CpuId) -> bool {
    if cx.io.observer.u64(|| u64::from(process.threads.load(Relaxed))) <= 1 {
        return true;
    }
    let tolerance = u64::from(cx.config.settings.llc_aggr_tolerance);
    if tolerance >= 100 {
        return false;
    }
    let [.., smt] = cx.config.topology.shape();
    let cache = cpus_of_cache(cx, cpu);
    let room = tolerance * u64::from(cx.view().nr_in_domain(cpu, cache));
    let running = cx.io.observer.u64(|| process.running.load(Relaxed)) * u64::from(smt);
    running * 1280 >= room * 1024
}

/// Forgets the preference of a process.
pub(crate) fn forget(process: &Process) {
    if process.cpu.load(Relaxed) != 0 {
        process.cpu.store(0, Relaxed);
    }
}

/// Charges a fair task's run time to its process, and lets the task take over the preference
/// (`account_mm_sched`). O(1).
#[cold]
pub(crate) fn charge<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    let acting = rq.acting().unwrap_or(slot);
    let (id, is_fair) = (rq.tasks[acting].id, rq.tasks[acting].prio.class() == ClassId::Fair);
    if !is_fair {
        return;
    }
    let (cpu, epoch, shared) = (rq.cpu(), epoch(rq, cx), cx.shared);
    shared.processes.cpus[cpu.index()].add(epoch, delta);
    let Some(process) = shared.processes.of(id) else { return };
    process.on[cpu.index()].add(epoch, delta);
    let scanned = cx.io.observer.u64(|| process.epoch.load(Relaxed));
    let is_stale = epoch.saturating_sub(scanned) > u64::from(cx.config.settings.llc_epoch_affinity_timeout);
    if is_stale || has_none(cx, process, cpu) {
        forget(process);
    }
    let prefers = preferred_cpu(cx, process).map(|cpu| shared.processes.cache_of(cpu));
    if rq.tasks[acting].fair.is_queued() && shared.processes.preferred(id) != prefers {
        count_out(rq, cx, acting);
        shared.processes.prefer(id, prefers);
        count_in(rq, cx, acting);
    }
}

/// Scans the process of the task that a tick finds running, if an epoch has begun since the last
/// scan (`task_tick_cache`, `task_cache_work`). O(1); a scan is O(CPUs).
#[cold]
pub(crate) fn tick<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let shared = cx.shared;
    let Some(process) = shared.processes.of(rq.tasks[slot].id) else { return };
    let (now, epoch) = (jiffies(rq, cx), epoch(rq, cx));
    if cx.io.observer.u64(|| process.epoch.load(Relaxed)) >= epoch {
        return;
    }
    process.epoch.store(epoch, Relaxed);
    // Of the CPUs that find a scan due, one does it.
    let later = now + period(rq, cx);
    let take = || {
        let due = process.next_scan.load(Relaxed);
        now >= due && process.next_scan.compare_exchange(due, later, Relaxed, Relaxed).is_ok()
    };
    if !cx.io.observer.flag(take) {
        return;
    }
    if has_none(cx, process, rq.cpu()) {
        forget(process);
    } else {
        scan(rq, cx, process, epoch);
    }
}

/// Finds the cache where a process has run most, and counts its running threads.
fn scan<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, process: &Process, epoch: u64) {
    let shared = cx.shared;
    let preferred = preferred_cpu(cx, process).map(|cpu| shared.processes.cache_of(cpu));
    let (mut most, mut at_preferred, mut running) = ((0, None), 0, 0);
    for cache in 0..shared.processes.nr_caches() {
        let (mut sum, mut fullest) = (0, (0, None));
        for cpu in cpus_of_cache(cx, shared.processes.first_of(cache)).map(CpuId) {
            if cx.config.isolates(cpu) || !cx.view().is_online(cpu) {
                continue;
            }
            cx.io.costs.cpus_scanned += 1;
            let own = cx.io.observer.u64(|| process.on[cpu.index()].at(epoch));
            let all = cx.io.observer.u64(|| shared.processes.cpus[cpu.index()].at(epoch));
            let part = (own << 20) / (all + 1);
            sum += part;
            if part > fullest.0 {
                fullest = (part, Some(cpu));
            }
            running += u64::from(runs_on(cx, process, cpu));
        }
        if sum > most.0 {
            most = (sum, fullest.1);
        }
        if preferred == Some(cache) {
            at_preferred = sum;
        }
    }
    if let (occupied, Some(cpu)) = most
        && occupied > 2 * at_preferred
    {
        process.cpu.store(cpu.0 + 1, Relaxed);
    }
    let cache = cpus_of_cache(cx, rq.cpu());
    let by = i64::from((cx.view().nr_in_domain(rq.cpu(), cache) >> 2).clamp(2, 8));
    let average = cx.io.observer.u64(|| process.running.load(Relaxed));
    process.running.store(average.saturating_add_signed((running as i64 - average as i64) / by), Relaxed);
}

/// Returns whether the current task of a CPU is a thread of a process.
fn runs_on<L: RawMutex>(cx: &mut Cx<'_, L>, process: &Process, cpu: CpuId) -> bool {
    let shared = cx.shared;
    let Some(task) = cx.view().current(cpu) else { return false };
    let is_of = || shared.processes.of(task).is_some_and(|of| core::ptr::eq(of, process));
    cx.io.observer.flag(is_of)
}

/// Counts a queued task where it prefers to be.
fn count_in<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) {
    let processes = &cx.shared.processes;
    if let Some(cache) = processes.preferred(rq.tasks[slot].id) {
        processes.count_in(rq.cpu(), cache);
    }
}

fn count_out<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) {
    let processes = &cx.shared.processes;
    if let Some(cache) = processes.preferred(rq.tasks[slot].id) {
        processes.count_out(rq.cpu(), cache);
    }
}

/// A fair task has been queued here (`account_llc_enqueue`). O(1).
#[inline]
pub(crate) fn queued<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) {
    if rq.fair.tune.gathers {
        count_in(rq, cx, slot);
    }
}

/// A fair task is queued here no more (`account_llc_dequeue`). O(1).
#[inline]
pub(crate) fn unqueued<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) {
    if rq.fair.tune.gathers {
        count_out(rq, cx, slot);
    }
}

/// Returns whether every runnable fair task here prefers the cache of this CPU, and there is one
/// (`nr_pref_llc_running`, `h_nr_runnable`). O(tasks here).
pub(crate) fn are_all_at_home<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> bool {
    let processes = &cx.shared.processes;
    let own = Some(processes.cache_of(rq.cpu()));
    let runnable = |fair: &FairEntity| fair.is_queued() && !fair.is_delayed();
    let here = rq.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Fair && runnable(&task.fair));
    let at_home = here.filter(|(_, task)| processes.preferred(task.id) == own).count();
    at_home > 0 && at_home == rq.fair.nr_running() as usize
}
