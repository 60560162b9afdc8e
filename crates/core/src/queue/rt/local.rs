//! [`LocalQueues`]: the real-time tasks of one CPU that deadline servers run (`rt_group_sched =
//! hcbs`), one queue per group. [`crate::class::rt_served`] has the rules.
//!
//! The tasks here are on no list of [`RtRq`](crate::queue::rt::rq::RtRq): a CPU neither is
//! overloaded by them nor has their priority in `cpupri`. The server of a queue has the queue's
//! index in [`DlRq`](crate::queue::dl::rq::DlRq). A queue is made when a task of its group first
//! comes to the CPU, and stays.
//!
//! Operations on one queue are O(1); finding the queue of a group is O(queues).

use crate::entity::rt::{PUSHABLE, RUN};
use crate::queue::rt::prio_queue::{PrioQueue, QueueEnd};
use crate::task::slab::TaskSlab;
use crate::words::ids::{LocalIx, Slot};
use alloc::vec::Vec;
use zerolag_model::{GroupId, Prio};

/// The queue of one group on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct LocalQueue {
    pub(crate) group: GroupId,
    /// The generation of the group's id: another one is another group.
    pub(crate) generation: u32,
    pub(crate) run: PrioQueue<RUN>,
    pub(crate) pushable: PrioQueue<PUSHABLE>,
    pub(crate) nr_running: u32,
    /// It was last recorded as throttled.
    pub(crate) is_shown: bool,
    /// Its server has been picked without a task, and other CPUs have been searched for one.
    pub(crate) has_searched: bool,
}

impl LocalQueue {
    pub(crate) fn new(group: GroupId, generation: u32) -> Self {
        Self {
            group,
            generation,
            run: PrioQueue::new(),
            pushable: PrioQueue::new(),
            nr_running: 0,
            is_shown: false,
            has_searched: false,
        }
    }

    /// Returns the most urgent priority on the queue ([`Prio::IDLE`] if none).
    pub(crate) fn highest(&self) -> Prio {
        self.run.highest().unwrap_or(Prio::IDLE)
    }

    /// Returns that of the tasks that can move.
    pub(crate) fn highest_pushable(&self) -> Prio {
        self.pushable.highest().unwrap_or(Prio::IDLE)
    }
}

/// The local queues of one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalQueues {
    queues: Vec<LocalQueue>,
    /// The queue of the task that has left the CPU, and its priority: tasks are pulled there.
    pub(crate) left: Option<(LocalIx, Prio)>,
    /// The queue whose waiting tasks the next switch pushes (`rq_to_push_from`).
    pub(crate) push_from: Option<LocalIx>,
}

impl LocalQueues {
    pub(crate) fn queue(&self, at: LocalIx) -> &LocalQueue {
        &self.queues[at.index()]
    }

    pub(crate) fn queue_mut(&mut self, at: LocalIx) -> &mut LocalQueue {
        &mut self.queues[at.index()]
    }

    /// Adds a queue.
    pub(crate) fn push(&mut self, queue: LocalQueue) -> LocalIx {
        self.queues.push(queue);
        LocalIx::new(self.queues.len() - 1)
    }

    /// Returns the queue of a group, if it has had tasks here. O(queues).
    pub(crate) fn find(&self, group: GroupId) -> Option<LocalIx> {
        self.queues.iter().position(|queue| queue.group == group).map(LocalIx::new)
    }

    /// Returns the index of every queue.
    pub(crate) fn all(&self) -> impl Iterator<Item = LocalIx> + use<> {
        (0..self.queues.len()).map(LocalIx::new)
    }

    /// Moves a task to an end of its list.
    pub(crate) fn requeue(&mut self, tasks: &mut TaskSlab, at: LocalIx, slot: Slot, end: QueueEnd) {
        let queue = self.queue_mut(at);
        queue.run.remove(tasks, slot);
        queue.run.insert(tasks, slot, end);
    }
}
