//! [`Member`]: an entity and the queue that it is on, looked up once.
//!
//! A switch ages the outgoing and the incoming task, and moves both on and off the timeline. If
//! each of these steps looked its operands up by index, it would repeat bounds checks, a
//! multiplication and loads: a tenth of the cost of a switch. So the lookup is done once, and the
//! steps share the references.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::entity::vtime::Vtime;
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::{FairRq, Tunables};
use crate::queue::fair::timeline::Timeline;
use crate::task::slab::TaskSlab;
use crate::words::unpublished::Unpublished;
use zerolag_model::settings::FairAlgorithm;

/// An entity and its queue.
pub(crate) struct Member<'a> {
    pub(crate) which: EntityRef,
    pub(crate) entity: &'a mut FairEntity,
    pub(crate) queue: &'a mut Queue,
    pub(crate) tune: &'a Tunables,
    /// The number of runnable tasks that the entity represents: 1 for a runnable task, or the tasks
    /// of its group.
    pub(crate) runnable: u32,
    pub(crate) changed: &'a mut Unpublished,
    timeline: &'a mut Timeline,
}

impl FairRq {
    pub(crate) fn entity<'a>(&'a self, tasks: &'a TaskSlab, which: EntityRef) -> &'a FairEntity {
        match which {
            EntityRef::Task(slot) => &tasks[slot].fair,
            EntityRef::Group(q) => &self.queues[q.index()].entity,
        }
    }

    pub(crate) fn entity_mut<'a>(&'a mut self, tasks: &'a mut TaskSlab, which: EntityRef) -> &'a mut FairEntity {
        match which {
            EntityRef::Task(slot) => &mut tasks[slot].fair,
            EntityRef::Group(q) => &mut self.queues[q.index()].entity,
        }
    }

    /// Looks up an entity of a queue.
    #[inline(always)]
    pub(crate) fn member<'a>(&'a mut self, tasks: &'a mut TaskSlab, q: QueueIx, which: EntityRef) -> Member<'a> {
        Member::of(self, tasks, q, which)
    }
}

impl FairEntity {
    /// Returns the key that orders the entity on the timeline.
    #[inline(always)]
    pub(crate) fn key(&self, algorithm: FairAlgorithm) -> Vtime {
        match algorithm {
            FairAlgorithm::Eevdf => self.virtual_deadline,
            FairAlgorithm::Cfs => self.vruntime,
        }
    }
}

impl<'a> Member<'a> {
    /// Looks up an entity of a queue, as [`FairRq::member`] does.
    #[inline(always)]
    pub(crate) fn of(fair: &'a mut FairRq, tasks: &'a mut TaskSlab, q: QueueIx, which: EntityRef) -> Self {
        let FairRq { queues, timeline, tune, changed, .. } = fair;
        let (entity, queue, runnable) = match which {
            EntityRef::Task(slot) => {
                let entity = &mut tasks[slot].fair;
                let runnable = entity.runnable_task();
                (entity, &mut queues[q.index()], runnable)
            }
            EntityRef::Group(owned) => {
                let both = queues.get_disjoint_mut([q.index(), owned.index()]);
                let [queue, owned] = both.expect("invariant: a group is on its parent's queue");
                let runnable = owned.tally.runnable;
                (&mut owned.entity, queue, runnable)
            }
        };
        Self { which, entity, queue, tune, runnable, changed, timeline }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.queue.current == Some(self.which)
    }

    /// Puts the entity on the timeline.
    #[inline(always)]
    pub(crate) fn wait(self) {
        debug_assert!(self.entity.node.is_none(), "an entity waits once");
        let vruntime = self.entity.vruntime;
        let key = self.entity.key(self.tune.algorithm);
        self.queue.add_to_sums(vruntime, self.entity.load.fine());
        let root = self.queue.waiting_as(self.entity.standing);
        self.entity.node = Some(self.timeline.insert(root, key, vruntime, self.which));
    }

    /// Takes the entity off the timeline.
    #[inline(always)]
    pub(crate) fn unwait(&mut self) {
        let node = self.entity.node.take().expect("invariant: it waits");
        self.timeline.remove(self.queue.waiting_as(self.entity.standing), node);
        self.queue.take_from_sums(self.entity.vruntime, self.entity.load.fine());
    }
}
