//! [`Queue`]: the fair entities of one group on one CPU. The root queue holds the tasks that belong
//! to no group, and the top-level groups.
//!
//! One entity can be current; the others wait on the timeline. The queue maintains two sums over
//! the waiting entities, with weights in 1024ths: `sum_weight = Σ w` and `sum_weighted_vruntime = Σ
//! w (v - zero)`. One division yields the average vruntime from them. `zero_vruntime` is the
//! reference point of the sums. It follows the least vruntime upwards and never moves back, so it
//! also serves as the `min_vruntime` of CFS. It is a reference, not a minimum: an entity can be
//! placed before it.
//!
//! The weighted sum is 128 bits wide: products of weight and distance cannot overflow, whatever the
//! workload.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `avg_vruntime_add`, `avg_vruntime`,
//! `update_min_vruntime`.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx, Standing, VruntimeFrame};
use crate::entity::pelt::Average;
use crate::entity::vtime::{Vlag, Vtime};
use crate::entity::weight::WeightSum;
use crate::queue::fair::local::Local;
use crate::queue::fair::own_slices::OwnSlices;
use crate::queue::fair::tally::Tally;
use crate::queue::fair::timeline::Root;
use zerolag_model::GroupId;

/// A queue begins with a line of the cache, and its fields are in the order of their use: a wakeup
/// reads most of one that was not used for long. The root's entity, three lines, is never read.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    pub(crate) group: GroupId,
    /// The generation of the group id: it distinguishes successive groups with the same id.
    pub(crate) generation: u32,
    /// The queue that holds the group's entity; `None` for the root.
    pub(crate) parent: Option<QueueIx>,
    /// The number of its rest, if it rests ([`super::resting`]).
    pub(crate) rests: Option<u32>,
    pub(crate) bandwidth: Local,
    pub(crate) current: Option<EntityRef>,
    /// The number of queued entities, including the current one.
    pub(crate) nr_queued: u32,
    /// The period since which nothing is queued, and what is published decays; 0 while something
    /// is queued.
    pub(crate) sleeps_since: u32,
    /// The tasks queued here and below. Below a detached queue only boosted tasks count.
    pub(crate) tally: Tally,
    /// The sum of the weights of all queued entities, including the current one.
    pub(crate) load: WeightSum,
    /// What this queue has published of its group's averages.
    pub(crate) published: GroupPart,
    pub(crate) sum_weight: u64,
    pub(crate) zero_vruntime: Vtime,
    pub(crate) sum_weighted_vruntime: i128,
    pub(crate) waiting: Root,
    pub(crate) buddies: Buddies,
    pub(crate) frame: VruntimeFrame,
    /// The averages of the entities attached to this queue.
    pub(crate) average: Average,
    /// The group's entity on the parent's queue.
    pub(crate) entity: FairEntity,
    /// Boosted entities that wait.
    pub(crate) ahead: Root,
    /// Tasks that are parked because this queue is throttled, in order of arrival.
    pub(crate) parked: Root,
    /// The boosted tasks among them.
    pub(crate) boosted: Tally,
    pub(crate) own_slices: OwnSlices,
}

/// A CPU's part of a group: its load, and 1024 times its runnable tasks. Averages, if they are
/// tracked. Both saturate at some four million tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GroupPart {
    pub(crate) load: u32,
    pub(crate) runnable: u32,
}

impl GroupPart {
    pub(crate) fn new(load: u64, runnable: u64) -> Self {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Self { load: narrow(load), runnable: narrow(runnable) }
    }

    /// Returns whether it differs from what was published by more than 1 in 64: smaller changes are
    /// not worth a write to the shared cache line.
    pub(crate) const fn is_far_from(self, published: Self) -> bool {
        self.load.abs_diff(published.load) > published.load / 64
            || self.runnable.abs_diff(published.runnable) > published.runnable / 64
    }
}

/// Entities that CFS prefers or passes over at the next pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buddies {
    /// Preempted the current entity by waking.
    pub(crate) next: Option<EntityRef>,
    /// Was preempted by a woken entity; gets the CPU back afterwards.
    pub(crate) last: Option<EntityRef>,
    /// Has yielded.
    pub(crate) skip: Option<EntityRef>,
}

impl Buddies {
    pub(crate) fn clear(&mut self, entity: EntityRef) {
        for buddy in [&mut self.next, &mut self.last, &mut self.skip] {
            if *buddy == Some(entity) {
                *buddy = None;
            }
        }
    }
}

impl Queue {
    pub(crate) fn new(group: GroupId, generation: u32, parent: Option<QueueIx>, frame: VruntimeFrame) -> Self {
        Self {
            group,
            generation,
            parent,
            rests: None,
            entity: FairEntity::default(),
            frame,
            waiting: Root::default(),
            ahead: Root::default(),
            parked: Root::default(),
            current: None,
            nr_queued: 0,
            tally: Tally::default(),
            boosted: Tally::default(),
            load: WeightSum::default(),
            sum_weight: 0,
            sum_weighted_vruntime: 0,
            zero_vruntime: Vtime::ZERO,
            buddies: Buddies::default(),
            average: Average::default(),
            published: GroupPart::default(),
            sleeps_since: 0,
            bandwidth: Local::default(),
            own_slices: OwnSlices::default(),
        }
    }

    /// Returns the list on which entities of this standing wait.
    pub(crate) const fn waiting_as(&mut self, standing: Standing) -> &mut Root {
        match standing {
            Standing::Ordinary | Standing::Spared => &mut self.waiting,
            Standing::Boosted => &mut self.ahead,
        }
    }

    /// Adds a waiting entity to the sums.
    #[inline]
    pub(crate) fn add_to_sums(&mut self, vruntime: Vtime, weight: u64) {
        self.sum_weight += weight;
        self.sum_weighted_vruntime += weighted(vruntime.since(self.zero_vruntime), weight);
    }

    /// Subtracts a waiting entity from the sums.
    #[inline]
    pub(crate) fn take_from_sums(&mut self, vruntime: Vtime, weight: u64) {
        self.sum_weight -= weight;
        self.sum_weighted_vruntime -= weighted(vruntime.since(self.zero_vruntime), weight);
    }

    /// Returns the sum of the weighted vruntimes and the sum of the weights over all entities.
    /// `current` is the vruntime and weight of the current entity.
    #[inline]
    fn sums(&self, current: Option<(Vtime, u64)>) -> (i128, u64) {
        let (sum, weight) = (self.sum_weighted_vruntime, self.sum_weight);
        match current {
            Some((vruntime, own)) => (sum + weighted(vruntime.since(self.zero_vruntime), own), weight + own),
            None => (sum, weight),
        }
    }

    /// Returns whether a vruntime is after the weighted average of all entities, without a
    /// division.
    #[inline]
    pub(crate) fn is_beyond_average(&self, current: Option<(Vtime, u64)>, vruntime: Vtime) -> bool {
        let (sum, weight) = self.sums(current);
        weighted(vruntime.since(self.zero_vruntime), weight.max(1)) > sum
    }

    /// Returns the weighted average of all vruntimes, rounded down. `current` is the vruntime and
    /// weight of the current entity.
    ///
    /// Vruntimes are whole numbers, so "not after the rounded average" is the same as the exact
    /// comparison.
    #[inline]
    pub(crate) fn average(&self, current: Option<(Vtime, u64)>) -> Vtime {
        let (sum, weight) = self.sums(current);
        if weight == 0 {
            return self.zero_vruntime;
        }
        self.zero_vruntime.plus(Vlag::from_nanos(div_floor(sum, weight)))
    }

    /// Advances the reference to `least`, the least queued vruntime; never moves it back.
    #[inline]
    pub(crate) fn advance_zero(&mut self, least: Vtime) {
        if !self.zero_vruntime.is_before(least) {
            return;
        }
        let by = least.since(self.zero_vruntime);
        self.sum_weighted_vruntime -= weighted(by, self.sum_weight);
        self.zero_vruntime = least;
    }
}

fn weighted(distance: Vlag, weight: u64) -> i128 {
    i128::from(distance.as_nanos()) * i128::from(weight)
}

/// Returns the quotient, rounded down. A sum of weighted distances divided by the sum of the
/// weights is a distance.
fn div_floor(sum: i128, weight: u64) -> i64 {
    let narrow = i64::try_from(sum).ok().zip(i64::try_from(weight).ok());
    match narrow {
        Some((sum, weight)) => sum.div_euclid(weight),
        None => {
            i64::try_from(sum.div_euclid(i128::from(weight))).expect("invariant: an average lies between its terms")
        }
    }
}
