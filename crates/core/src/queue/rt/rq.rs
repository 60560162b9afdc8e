//! [`RtRq`]: the real-time tasks of one CPU, by priority. Waiting tasks that can move are also on a
//! second list.

use crate::entity::rt::{PUSHABLE, RUN};
use crate::queue::rt::prio_queue::PrioQueue;
use crate::queue::rt::throttle::Throttle;
use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;
use zerolag_model::settings::RtOverload;
use zerolag_model::{Prio, Settings};

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
    /// Whether this CPU has put itself into an overload mask.
    pub(crate) is_in_mask: bool,
    pub(crate) run: PrioQueue<RUN>,
    pub(crate) pushable: PrioQueue<PUSHABLE>,
    pub(crate) throttle: Throttle,
}

impl RtRq {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            run: PrioQueue::new(),
            pushable: PrioQueue::new(),
            nr_running: 0,
            nr_migratory: 0,
            is_in_mask: false,
            throttle: Throttle::new(settings),
        }
    }

    /// Returns the most urgent queued priority, including that of the current task ([`Prio::IDLE`]
    /// if none).
    pub(crate) fn highest(&self) -> Prio {
        self.run.highest().unwrap_or(Prio::IDLE)
    }

    /// Returns the priority of the most urgent pushable task ([`Prio::IDLE`] if none).
    pub(crate) fn highest_pushable(&self) -> Prio {
        self.pushable.highest().unwrap_or(Prio::IDLE)
    }

    pub(crate) const fn has_pushable(&self) -> bool {
        !self.pushable.is_empty()
    }

    /// Returns the number of queued tasks that can run: 0 while the class is throttled.
    #[inline]
    pub(crate) const fn nr_allowed(&self) -> u32 {
        if self.throttle.is_throttled() { 0 } else { self.nr_running }
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
        if self.throttle.is_throttled() { None } else { self.run.first() }
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
