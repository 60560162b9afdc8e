//! Cache-aware balancing, second half: tasks are moved to the cache that their process prefers
//! ([`crate::class::fair::preferred_cache`]), and are not moved away from it without need.
//!
//! A cache has room while its util is below half of its capacity (`llc_balancing.overaggr_pct`), or
//! below three quarters if no CPUs share a core. Whether a task may go from one cache to another
//! depends on both, with the util of the task taken off the one and added to the other:
//!
//! * To the preferred cache it goes, unless the goal has no room and over 20 % more util than the
//!   source.
//! * From the preferred cache it goes only if the source has no room and over 20 % more util than
//!   the goal.
//!
//! If neither has room, the preference does not matter (20 % is `llc_balancing.imb_pct`). The util
//! of a cache is that of the last round of balancing between caches at a tick.
//!
//! * **Groups.** Between caches, a group of CPUs with a queued task that prefers the taker's cache
//!   and would be moved is *strayed*: less urgent than an overloaded group, more than any other.
//!   One task is taken from its CPU with most of such tasks. Only tasks that prefer the taker's
//!   cache are moved then; if they run, they are moved by active balance.
//! * **Other tasks** that prefer the cache they are on are passed over. A round that moves nothing
//!   because of that does not count as failed.
//! * **Active balance** for another reason leaves a task that is alone on its CPU and at home, and
//!   any if all tasks of the CPU are at home and may not leave.
//! * **Failures.** When a level has failed more often than it leaves cache-hot tasks alone, there
//!   are no strayed groups there and no task is passed over for its preference.
//!
//! A CPU that asks an idle one to balance also asks one under each cache that strayed tasks prefer
//! ([`next_wanted`]).
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c`, `fits_llc_capacity`, `can_migrate_llc`,
//! `can_migrate_llc_task`, `alb_break_llc`, `migrate_degrades_llc`, `record_sg_llc_stats`,
//! `llc_balance`, `calculate_imbalance`, `need_active_balance`; commits 23b2b5ccc45c, b5ea300a17e3,
//! 46afe3af7ead, a8d0ca0b7f2f, 82c960aee304, 15ad45fb80ca, f38cc2f0d8a3, e4c9a4cb244a,
//! 714059f79ff0, 5b1d5e6db20a, d59f4fd1d303, 067a31358143 (7.2). The matrices in the comment
//! above `enum llc_mig` are not those of the code: see the tests. differs: active balance moves the
//! running task, which prefers the taker's cache when it is asked for; the kernel's stopper moves
//! the stalest task that does. The kernel's idle CPU balances for all the others.

use crate::class::fair::{misfit, preferred_cache};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::level::{LEVELS, nice_tries};
use crate::words::life::Engaged;
use crate::words::step::{Balance, Imbalance};
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Settings};

/// Whether a task may go from one cache to another (`enum llc_mig`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheMove {
    /// It stays: that is better for its cache.
    Stays,
    /// It goes: that is better for its cache.
    Goes,
    /// Its cache does not matter.
    Either,
}

/// The direction of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CacheDirection {
    ToPreferred,
    FromPreferred,
}

/// The use of a cache.
#[derive(Clone, Copy, Debug)]
struct Used {
    util: u64,
    capacity: u64,
}

/// The thresholds.
#[derive(Clone, Copy, Debug)]
struct CacheThresholds {
    /// The util in percent up to which a cache has room.
    room: u64,
    /// How much more util is much more, in percent.
    margin: u64,
}

impl CacheThresholds {
    fn new(settings: &Settings, smt: u32) -> Self {
        let room = u64::from(settings.llc_overaggr_pct);
        Self { room: if smt == 1 { room * 3 / 2 } else { room }, margin: u64::from(settings.llc_imb_pct) }
    }

    const fn has_room(self, cache: Used) -> bool {
        cache.util * 100 < cache.capacity * self.room
    }

    const fn is_much_more(self, one: u64, other: u64) -> bool {
        one * 100 > other * (100 + self.margin)
    }

    /// Decides about a task of this util (`can_migrate_llc`).
    const fn decide(self, from: Used, to: Used, util: u64, way: CacheDirection) -> CacheMove {
        let from = Used { util: from.util.saturating_sub(util), ..from };
        let to = Used { util: to.util + util, ..to };
        if !self.has_room(to) && !self.has_room(from) {
            return CacheMove::Either;
        }
        let stays = match way {
            CacheDirection::ToPreferred => !self.has_room(to) && self.is_much_more(to.util, from.util),
            CacheDirection::FromPreferred => self.has_room(from) || !self.is_much_more(from.util, to.util),
        };
        if stays { CacheMove::Stays } else { CacheMove::Goes }
    }
}

fn between<L: RawMutex>(cx: &mut Cx<'_, L>, from: CpuId, to: CpuId, util: u64, way: CacheDirection) -> CacheMove {
    let shared = cx.shared;
    let [from, to] = [from, to].map(|cpu| {
        let word = cx.io.observer.u64(|| shared.processes.used(shared.processes.cache_of(cpu)));
        Used { util: word & 0xffff_ffff, capacity: word >> 32 }
    });
    let [.., smt] = cx.config.topology.shape();
    CacheThresholds::new(&cx.config.settings, smt).decide(from, to, util, way)
}

/// Decides about a queued task (`can_migrate_llc_task`).
fn of_task<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, from: CpuId, to: CpuId, level: u8) -> CacheMove {
    if becomes_misfit(cx, task, from, to, level) {
        return CacheMove::Stays;
    }
    let shared = cx.shared;
    let Some(process) = shared.processes.of(task.id) else { return CacheMove::Either };
    let caches = [from, to].map(|cpu| shared.processes.cache_of(cpu));
    let Some(preferred) = preferred_cache::preferred_cpu(cx, process) else { return CacheMove::Either };
    if caches[0] == caches[1] {
        return CacheMove::Either;
    }
    if preferred_cache::has_none(cx, process, to) {
        preferred_cache::forget(process);
        return CacheMove::Either;
    }
    let preferred = shared.processes.cache_of(preferred);
    let way = match caches {
        [_, goal] if goal == preferred => CacheDirection::ToPreferred,
        [source, _] if source == preferred => CacheDirection::FromPreferred,
        _ => return CacheMove::Either,
    };
    between(cx, from, to, task.fair.average.util, way)
}

/// Returns whether a task fits its CPU and not the other, on a machine with CPUs of different
/// capacity.
fn becomes_misfit<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, from: CpuId, to: CpuId, level: u8) -> bool {
    let (distance, _) = LEVELS[usize::from(level)];
    cx.config.topology.asymmetry().is_some_and(|spans| spans <= distance)
        && !misfit::fits_as_queued(cx, task, to)
        && misfit::fits_as_queued(cx, task, from)
}

/// Returns the number of tasks queued on a CPU that prefer the cache of another CPU, under which
/// the CPU is not.
pub(crate) fn strays<L: RawMutex>(cx: &mut Cx<'_, L>, on: CpuId, taker: CpuId) -> u32 {
    let shared = cx.shared;
    let goal = shared.processes.cache_of(taker);
    if shared.processes.cache_of(on) == goal {
        return 0;
    }
    cx.io.observer.u64(|| u64::from(shared.processes.wanted(on, goal))) as u32
}

/// Returns whether a group of CPUs, which begins with `first` and has tasks that prefer the taker's
/// cache, is to be relieved of one (`llc_balance`).
pub(crate) fn is_strayed<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, level: usize, first: CpuId) -> bool {
    rq.fair.balance.failed(level) <= nice_tries(level as u8)
        && between(cx, first, rq.cpu(), 0, CacheDirection::ToPreferred) == CacheMove::Goes
}

/// Returns whether a waiting task is passed over for the sake of its cache
/// (`migrate_degrades_llc`).
pub(crate) fn keeps<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, slot: Slot, work: Balance) -> bool {
    let task = &other.tasks[slot];
    if !own.fair.tune.gathers || other.is_on_cpu(slot) || task.engaged == Engaged::Executes {
        return false;
    }
    if work.failed > nice_tries(work.level) {
        return false;
    }
    is_for_another(own, cx, task, work) || of_task(cx, task, other.cpu(), own.cpu(), work.level) == CacheMove::Stays
}

/// Returns whether a round is for tasks that prefer the taker's cache and this one does not
/// (`migrate_llc_task_wrong_dst`).
pub(crate) fn is_for_another<L: RawMutex>(own: &Rq, cx: &Cx<'_, L>, task: &Task, work: Balance) -> bool {
    let processes = &cx.shared.processes;
    work.imbalance == Imbalance::Strayed && processes.preferred(task.id) != Some(processes.cache_of(own.cpu()))
}

/// Returns whether active balance leaves the tasks of a CPU where they are (`alb_break_llc`).
/// O(tasks there).
pub(crate) fn bars_active<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, work: Balance) -> bool {
    let caches = [own, other].map(|rq| cx.shared.processes.cache_of(rq.cpu()));
    if caches[0] == caches[1] || !preferred_cache::are_all_at_home(other, cx) {
        return false;
    }
    if other.nr_running() <= 1 {
        return true;
    }
    let current = other.current_slot().filter(|_| other.current_class() == ClassId::Fair);
    let current = current.map(|slot| &other.tasks[slot]);
    current.is_some_and(|task| becomes_misfit(cx, task, other.cpu(), own.cpu(), work.level)) || {
        let util = current.map_or(0, |task| task.fair.average.util);
        between(cx, other.cpu(), own.cpu(), util, CacheDirection::FromPreferred) == CacheMove::Stays
    }
}

/// Returns the lowest idle CPU under the next cache, from this one on, that strayed tasks prefer,
/// and the cache after it. O(caches).
pub(crate) fn next_wanted<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, from: u32) -> Option<(CpuId, u32)> {
    let shared = cx.shared;
    for cache in from..shared.processes.nr_caches() {
        if cx.io.observer.u64(|| u64::from(shared.processes.strays(cache))) == 0 {
            continue;
        }
        let first = shared.processes.first_of(cache);
        let idle = cx.view().next_idle_in_domain(rq.cpu(), first);
        if let Some(cpu) = idle.filter(|cpu| shared.processes.cache_of(*cpu) == cache) {
            return Some((cpu, cache + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMT: CacheThresholds = CacheThresholds { room: 50, margin: 20 };

    fn percent(util: u64) -> Used {
        Used { util, capacity: 100 }
    }

    fn matrix(way: CacheDirection) -> [String; 4] {
        let letter = |verdict| match verdict {
            CacheMove::Stays => 'N',
            CacheMove::Goes => 'Y',
            CacheMove::Either => 'G',
        };
        let row = |from| [30, 40, 50, 60].map(|to| letter(SMT.decide(percent(from), percent(to), 0, way)));
        [30, 40, 50, 60].map(|from| row(from).iter().collect())
    }

    extern crate std;
    use std::string::String;

    /// Rows: the source has 30, 40, 50, 60 %; columns: the goal. The kernel's comment has `YYYN` in
    /// the first row and `YYYY` in the second: there 50 and 60 % at the goal do not hinder, though
    /// they exceed both the half and the source by over 20 %.
    #[test]
    fn towards_the_preferred_cache_unless_it_has_no_room_and_much_more() {
        assert_eq!(matrix(CacheDirection::ToPreferred), ["YYNN", "YYNN", "YYGG", "YYGG"]);
    }

    /// The kernel's comment has `NNGG` in the third row and `YNGG` in the fourth.
    #[test]
    fn from_the_preferred_cache_only_if_it_has_no_room_and_much_more() {
        assert_eq!(matrix(CacheDirection::FromPreferred), ["NNNN", "NNNN", "YYGG", "YYGG"]);
    }

    #[test]
    fn the_util_of_the_task_counts_at_the_goal() {
        let decide = |util| SMT.decide(percent(20), percent(45), util, CacheDirection::ToPreferred);
        assert_eq!([0, 10].map(decide), [CacheMove::Goes, CacheMove::Stays]);
    }

    #[test]
    fn before_anything_is_known_the_cache_does_not_matter() {
        let none = Used { util: 0, capacity: 0 };
        assert_eq!(SMT.decide(none, none, 0, CacheDirection::ToPreferred), CacheMove::Either);
    }

    #[test]
    fn without_shared_cores_a_cache_has_room_up_to_three_quarters() {
        let settings = zerolag_model::KernelVersion::V7_3.settings();
        assert_eq!([1, 2].map(|smt| CacheThresholds::new(&settings, smt).room), [75, 50]);
    }
}
