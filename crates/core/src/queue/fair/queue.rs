//! [`Queue`]: the fair entities of one group on one CPU; the root queue holds the tasks of no group
//! and the top groups.
//!
//! One entity may be current; the others wait on the timeline. Over those that wait the queue keeps
//! `sum_weight = Σ w` and `sum_weighted_vruntime = Σ w (v - zero)`, from which the average vruntime
//! follows by one division. `zero_vruntime` is the reference of the sums; it follows the least
//! vruntime upwards and never goes back (as CFS's `min_vruntime`, which it also is). It is a
//! reference, not a minimum: an entity may be placed before it.
//!
//! Sums are 128 bits wide: products of weight and distance cannot overflow, whatever the workload.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `avg_vruntime_add`, `avg_vruntime`,
//! `update_min_vruntime`.

use crate::entity::fair::{EntityRef, FairEntity, Frame, QueueIx, Standing};
use crate::entity::pelt::Average;
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::local::Local;
use crate::queue::fair::own_slices::OwnSlices;
use crate::queue::fair::tally::Tally;
use crate::queue::fair::timeline::Root;
use zerolag_model::GroupId;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) group: GroupId,
    /// Which of the groups that had this id.
    pub(crate) generation: u32,
    /// The queue that the group's entity is on; `None` for the root.
    pub(crate) parent: Option<QueueIx>,
    /// The group's entity there.
    pub(crate) entity: FairEntity,
    pub(crate) frame: Frame,
    pub(crate) waiting: Root,
    /// Boosted entities that wait.
    pub(crate) ahead: Root,
    /// Tasks that are parked because this queue is throttled, in order of arrival.
    pub(crate) parked: Root,
    pub(crate) current: Option<EntityRef>,
    /// Queued entities, the current one included.
    pub(crate) nr_queued: u32,
    /// Tasks queued here and below; of those below a queue that is cut, the boosted.
    pub(crate) tally: Tally,
    /// The boosted of them.
    pub(crate) boosted: Tally,
    /// Weights of all queued entities, the current one included.
    pub(crate) load: u64,
    pub(crate) sum_weight: u64,
    pub(crate) sum_weighted_vruntime: i128,
    pub(crate) zero_vruntime: Vtime,
    pub(crate) buddies: Buddies,
    /// What it has lately held.
    pub(crate) average: Average,
    /// What this queue has added to the published load of its group.
    pub(crate) published_load: u64,
    pub(crate) bandwidth: Local,
    pub(crate) own_slices: OwnSlices,
}

/// Entities that CFS prefers or passes over at the next pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buddies {
    /// It preempted the current one by waking.
    pub(crate) next: Option<EntityRef>,
    /// It was preempted by a waking one and gets the CPU back.
    pub(crate) last: Option<EntityRef>,
    /// It yielded.
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
    pub(crate) fn new(group: GroupId, generation: u32, parent: Option<QueueIx>, frame: Frame) -> Self {
        Self {
            group,
            generation,
            parent,
            entity: FairEntity::default(),
            frame,
            waiting: Root::default(),
            ahead: Root::default(),
            parked: Root::default(),
            current: None,
            nr_queued: 0,
            tally: Tally::default(),
            boosted: Tally::default(),
            load: 0,
            sum_weight: 0,
            sum_weighted_vruntime: 0,
            zero_vruntime: Vtime::ZERO,
            buddies: Buddies::default(),
            average: Average::default(),
            published_load: 0,
            bandwidth: Local::default(),
            own_slices: OwnSlices::default(),
        }
    }

    /// Returns where entities of this standing wait.
    pub(crate) const fn waiting_as(&mut self, standing: Standing) -> &mut Root {
        match standing {
            Standing::Ordinary => &mut self.waiting,
            Standing::Boosted => &mut self.ahead,
        }
    }

    /// Counts a waiting entity in the sums.
    #[inline]
    pub(crate) fn add_to_sums(&mut self, vruntime: Vtime, weight: u64) {
        self.sum_weight += weight;
        self.sum_weighted_vruntime += weighted(vruntime.since(self.zero_vruntime), weight);
    }

    /// Takes a waiting entity out of the sums.
    #[inline]
    pub(crate) fn take_from_sums(&mut self, vruntime: Vtime, weight: u64) {
        self.sum_weight -= weight;
        self.sum_weighted_vruntime -= weighted(vruntime.since(self.zero_vruntime), weight);
    }

    /// Returns the sums over all entities: of weighted vruntimes, and of weights; `current` is the
    /// current one's.
    #[inline]
    fn sums(&self, current: Option<(Vtime, u64)>) -> (i128, u64) {
        let (sum, weight) = (self.sum_weighted_vruntime, self.sum_weight);
        match current {
            Some((vruntime, own)) => (sum + weighted(vruntime.since(self.zero_vruntime), own), weight + own),
            None => (sum, weight),
        }
    }

    /// Returns whether a vruntime is after the weighted average of all, without the division.
    #[inline]
    pub(crate) fn is_beyond_average(&self, current: Option<(Vtime, u64)>, vruntime: Vtime) -> bool {
        let (sum, weight) = self.sums(current);
        weighted(vruntime.since(self.zero_vruntime), weight.max(1)) > sum
    }

    /// Returns the weighted average of all vruntimes, rounded down; `current` is that of the
    /// current entity.
    ///
    /// Rounded down, "not after the average" is the same as the exact comparison, because vruntimes
    /// are whole.
    #[inline]
    pub(crate) fn average(&self, current: Option<(Vtime, u64)>) -> Vtime {
        let (sum, weight) = self.sums(current);
        if weight == 0 {
            return self.zero_vruntime;
        }
        self.zero_vruntime.plus(Vlag::from_nanos(div_floor(sum, weight)))
    }

    /// Moves the reference up to `least`, the least vruntime queued; never back.
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

/// Returns the quotient rounded down. The quotient of a sum of weighted distances by the weights is
/// a distance.
fn div_floor(sum: i128, weight: u64) -> i64 {
    let narrow = i64::try_from(sum).ok().zip(i64::try_from(weight).ok());
    match narrow {
        Some((sum, weight)) => sum.div_euclid(weight),
        None => {
            i64::try_from(sum.div_euclid(i128::from(weight))).expect("invariant: an average lies between its terms")
        }
    }
}
