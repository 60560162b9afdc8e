//! [`RtRq`]: the real-time tasks of one CPU, by priority. Waiting tasks that can move are also on a
//! second list.

use crate::entity::rt::{PUSHABLE, RUN};
use crate::queue::rt::local::LocalQueues;
use crate::queue::rt::prio_queue::PrioQueue;
use crate::queue::rt::throttle::Throttle;
use crate::queue::rt::tree::{RtQueueIx, RtTree};
use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;
use alloc::boxed::Box;
use zerolag_model::settings::{RtGroupSched, RtOverload};
use zerolag_model::{Instant, Prio, Settings};

/// The real-time queue of one CPU.
///
/// Without real-time tasks only its beginning is used.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct RtRq {
    pub(crate) nr_running: u32,
    /// The number of queued tasks that are allowed on more than one CPU, including the current one
    /// (`rt_nr_migratory`).
    pub(crate) nr_migratory: u32,
    /// The number of queued tasks whose group is kept from running (`rt_group_sched`).
    pub(crate) nr_stopped: u32,
    /// Whether this CPU has put itself into an overload mask.
    pub(crate) is_in_mask: bool,
    pub(crate) run: PrioQueue<RUN>,
    pub(crate) pushable: PrioQueue<PUSHABLE>,
    pub(crate) throttle: Throttle,
    /// The order of tasks by their groups; `None` without `rt_group_sched = on`. `run` has all
    /// tasks in either case.
    pub(crate) tree: Option<Box<RtTree>>,
    /// The tasks that servers of groups run; `None` without `rt_group_sched = hcbs`. They are on no
    /// list above.
    pub(crate) local: Option<Box<LocalQueues>>,
    /// The number of those whose server has runtime.
    pub(crate) nr_served: u32,
}

impl RtRq {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            run: PrioQueue::new(),
            pushable: PrioQueue::new(),
            nr_running: 0,
            nr_migratory: 0,
            nr_stopped: 0,
            is_in_mask: false,
            throttle: Throttle::new(settings),
            tree: (settings.rt_group_sched == RtGroupSched::V1).then(|| Box::new(RtTree::new())),
            local: (settings.rt_group_sched == RtGroupSched::Hcbs).then(Box::default),
            nr_served: 0,
        }
    }

    /// Returns the most urgent queued priority, including that of the current task ([`Prio::IDLE`]
    /// if none).
    pub(crate) fn highest(&self) -> Prio {
        match (self.run.highest(), &self.tree) {
            (None, _) => Prio::IDLE,
            (Some(highest), None) => highest,
            (Some(_), Some(tree)) => tree.highest(),
        }
    }

    /// Returns the priority of the most urgent pushable task ([`Prio::IDLE`] if none).
    pub(crate) fn highest_pushable(&self) -> Prio {
        self.pushable.highest().unwrap_or(Prio::IDLE)
    }

    pub(crate) const fn has_pushable(&self) -> bool {
        !self.pushable.is_empty()
    }

    /// Returns the number of queued tasks that can run: while the class is throttled, those that
    /// servers of groups run.
    #[inline]
    pub(crate) fn nr_allowed(&self) -> u32 {
        self.nr_served + if self.is_throttled() { 0 } else { self.nr_running - self.nr_stopped }
    }

    /// Returns whether the class is throttled here. With groups, a task with an inherited priority
    /// lets the CPU run on (`rt_rq_throttled`).
    #[inline]
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_throttled() && self.tree.as_ref().is_none_or(|tree| !tree.is_boosted())
    }

    /// Counts the tasks that their groups keep from running.
    pub(crate) fn count_stopped(&mut self) {
        let can_run = self.tree.as_ref().map_or(self.nr_running, |tree| tree.queue(RtQueueIx::ROOT).nr_running());
        self.nr_stopped = self.nr_running - can_run;
    }

    /// Returns whether a task's group, or one above it, keeps it from running.
    #[inline]
    pub(crate) fn is_stopped(&self, tasks: &TaskSlab, slot: Slot) -> bool {
        self.nr_stopped > 0 && self.tree.as_ref().is_some_and(|tree| tree.is_stopped_above(tasks[slot].group))
    }

    /// Returns the earliest end of a period: the CPU's, or that of a group.
    pub(crate) fn next_period_end(&self) -> Option<Instant> {
        let of_groups = self.tree.as_ref().and_then(|tree| tree.next_end());
        self.throttle.period_ends.into_iter().chain(of_groups).min()
    }

    pub(crate) const fn nr_running(&self) -> u32 {
        self.nr_running
    }

    /// Returns whether this CPU belongs in an overload mask.
    ///
    /// * By the rule `queued`: a task that can move is queued together with another one, or behind
    ///   a deadline task.
    /// * By the rule `pushable`: a pushable task waits.
    ///
    /// Sources: Linux v6.6 `kernel/sched/rt.c`, `update_rt_migration`; v6.12
    /// `enqueue_pushable_task`, `dequeue_pushable_task`.
    pub(crate) const fn is_overloaded(&self, rule: RtOverload, has_deadline: bool) -> bool {
        match rule {
            RtOverload::Queued => (self.nr_running > 1 || has_deadline) && self.nr_migratory > 0,
            RtOverload::Pushable => self.has_pushable(),
        }
    }

    /// Returns the task to run next; `None` while the class is throttled.
    pub(crate) fn pick(&self) -> Option<Slot> {
        if self.is_throttled() {
            return None;
        }
        let first = self.run.first()?;
        self.tree.as_ref().map_or(Some(first), |tree| tree.first())
    }

    /// Returns the tasks in the order in which they would run.
    pub(crate) fn in_order<'a>(&'a self, tasks: &'a TaskSlab) -> impl Iterator<Item = Slot> + 'a {
        self.run.iter(tasks)
    }

    /// Returns the pushable tasks, most urgent first.
    pub(crate) fn waiting<'a>(&'a self, tasks: &'a TaskSlab) -> impl Iterator<Item = Slot> + 'a {
        self.pushable.iter(tasks)
    }
}
