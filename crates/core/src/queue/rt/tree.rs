//! [`RtTree`]: the nested real-time queues of one CPU, one per group (`rt_group_sched`).
//!
//! The members of a queue are tasks and groups. A group stands on its parent's list of the priority
//! of its own most urgent member, and only while it has one and is not throttled. The CPU runs the
//! first member of the root's most urgent list, and so on downwards until that is a task.
//!
//! The priority of a group depends on its members, so it is taken off its parent's list before
//! they change and is put back after. That has an effect: whenever a task of a group is enqueued or
//! dequeued, the group goes behind its equals on every level.
//!
//! A queue does not know whose bandwidth limits it: [`RtQueue::is_stopped`] is all that it is told.
//! The queue of a group that a deadline server runs is the same, without a place on its parent's
//! list.
//!
//! O(log priorities + equals) per level.
//!
//! Sources: Linux v5.10 `kernel/sched/rt.c`, `enqueue_rt_entity`, `dequeue_rt_stack`,
//! `__enqueue_rt_entity`, `requeue_task_rt`, `_pick_next_task_rt`, `rt_se_boosted`.

use crate::queue::rt::prio_queue::QueueEnd;
use crate::words::ids::Slot;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use zerolag_model::{Duration, GroupId, Instant, Prio};

/// The index of a queue in its tree; the root's is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RtQueueIx(u32);

impl RtQueueIx {
    pub(crate) const ROOT: Self = Self(0);
}

/// A member of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Task(Slot),
    Group(RtQueueIx),
}

/// A member on its list. Whether it was boosted when it came is kept here: the attributes of a
/// task can change while it stays.
#[derive(Clone, Copy, Debug)]
struct Place {
    member: Member,
    is_boosted: bool,
}

/// A task that is enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant {
    pub(crate) slot: Slot,
    pub(crate) prio: Prio,
    /// Whether it has inherited its priority.
    pub(crate) is_boosted: bool,
}

/// The runtime of a group on this CPU in the present period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RtUse {
    /// Runtime used in the present period, or owed from earlier ones (`rt_time`).
    pub(crate) time: Duration,
    /// When the period ends; `None` while nothing is counted.
    pub(crate) period_ends: Option<Instant>,
    /// It has exceeded its runtime (`rt_throttled`).
    pub(crate) has_exceeded: bool,
    /// It was last recorded as throttled.
    pub(crate) is_shown: bool,
}

/// The queue of one group on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct RtQueue {
    pub(crate) group: GroupId,
    /// The generation of the group's id: another one is another group.
    generation: u32,
    parent: RtQueueIx,
    /// By priority, each in the order of running.
    lists: BTreeMap<i16, VecDeque<Place>>,
    /// The tasks that can run: those of throttled groups below do not count (`rt_nr_running`).
    nr_running: u32,
    /// The members with an inherited priority (`rt_nr_boosted`).
    nr_boosted: u32,
    /// The list of the parent on which it stands.
    listed: Option<Prio>,
    pub(crate) used: RtUse,
}

impl RtQueue {
    fn new(group: GroupId, generation: u32, parent: RtQueueIx) -> Self {
        let (lists, used) = (BTreeMap::new(), RtUse::default());
        Self { group, generation, parent, lists, nr_running: 0, nr_boosted: 0, listed: None, used }
    }

    /// Returns whether its tasks are kept from running: one with an inherited priority lets the
    /// whole group run on (`rt_rq_throttled`).
    pub(crate) const fn is_stopped(&self) -> bool {
        self.used.has_exceeded && self.nr_boosted == 0
    }

    /// Returns whether it is the queue of the group that has its id now.
    pub(crate) const fn is_of(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Returns the most urgent priority on its lists.
    fn highest(&self) -> Option<Prio> {
        self.lists.first_key_value().map(|(prio, _)| Prio::from_raw(*prio))
    }

    pub(crate) const fn nr_running(&self) -> u32 {
        self.nr_running
    }

    fn push(&mut self, prio: Prio, place: Place, end: QueueEnd) {
        let list = self.lists.entry(prio.raw()).or_default();
        match end {
            QueueEnd::Back => list.push_back(place),
            QueueEnd::Front => list.push_front(place),
        }
        self.nr_boosted += u32::from(place.is_boosted);
    }

    fn take(&mut self, prio: Prio, member: Member) -> Place {
        let list = self.lists.get_mut(&prio.raw()).expect("invariant: a member is on the list of its priority");
        let at = list.iter().position(|place| place.member == member).expect("invariant: a member is on its list");
        let place = list.remove(at).expect("invariant: it was just found");
        if list.is_empty() {
            self.lists.remove(&prio.raw());
        }
        self.nr_boosted -= u32::from(place.is_boosted);
        place
    }

    fn is_alone(&self, prio: Prio) -> bool {
        self.lists.get(&prio.raw()).is_none_or(|list| list.len() == 1)
    }
}

/// The nested queues of one CPU.
#[derive(Clone, Debug)]
pub(crate) struct RtTree {
    /// The root's is the first.
    queues: Vec<RtQueue>,
}

impl RtTree {
    pub(crate) fn new() -> Self {
        Self { queues: vec![RtQueue::new(GroupId::ROOT, 0, RtQueueIx::ROOT)] }
    }

    pub(crate) fn queue(&self, at: RtQueueIx) -> &RtQueue {
        &self.queues[at.0 as usize]
    }

    pub(crate) fn queue_mut(&mut self, at: RtQueueIx) -> &mut RtQueue {
        &mut self.queues[at.0 as usize]
    }

    /// Returns the queue of a group below `parent`; makes it if there is none.
    pub(crate) fn find_or_make(&mut self, group: GroupId, generation: u32, parent: RtQueueIx) -> RtQueueIx {
        if let Some(at) = self.find(group) {
            let queue = self.queue_mut(at);
            if queue.generation != generation || queue.parent != parent {
                assert!(queue.lists.is_empty(), "group {group} was removed with real-time tasks");
                *queue = RtQueue::new(group, generation, parent);
            }
            return at;
        }
        let at = RtQueueIx(u32::try_from(self.queues.len()).expect("invariant: fewer than 2^32 groups"));
        self.queues.push(RtQueue::new(group, generation, parent));
        at
    }

    /// Returns the queue of a group, if it has had tasks here. O(groups that have).
    pub(crate) fn find(&self, group: GroupId) -> Option<RtQueueIx> {
        let at = self.queues.iter().position(|queue| queue.group == group)?;
        Some(RtQueueIx(u32::try_from(at).expect("invariant: fewer than 2^32 groups")))
    }

    /// Returns all queues but the root's.
    pub(crate) fn groups(&self) -> impl Iterator<Item = RtQueueIx> + use<> {
        (1..u32::try_from(self.queues.len()).expect("invariant: fewer than 2^32 groups")).map(RtQueueIx)
    }

    /// Returns a queue and those above it, without the root's.
    pub(crate) fn path(&self, from: RtQueueIx) -> impl Iterator<Item = RtQueueIx> + '_ {
        let above = |at: RtQueueIx| (at != RtQueueIx::ROOT).then_some(at);
        core::iter::successors(above(from), move |at| above(self.queue(*at).parent))
    }

    /// Returns whether a group here, or one above it, is kept from running.
    pub(crate) fn is_stopped_above(&self, group: GroupId) -> bool {
        self.find(group).is_some_and(|at| self.path(at).any(|at| self.queue(at).is_stopped()))
    }

    /// Takes a queue and those above it off their parents' lists, from the top down: the counts of
    /// an upper one include those of the lower ones (`dequeue_rt_stack`).
    fn unlist(&mut self, from: RtQueueIx) {
        let path: Vec<RtQueueIx> = self.path(from).collect();
        for at in path.into_iter().rev() {
            let queue = self.queue_mut(at);
            let (parent, running) = (queue.parent, queue.nr_running);
            if let Some(prio) = queue.listed.take() {
                let above = self.queue_mut(parent);
                above.take(prio, Member::Group(at));
                above.nr_running -= running;
            }
        }
    }

    /// Puts a queue and those above it on their parents' lists, from the bottom up, if they have
    /// something to run (`__enqueue_rt_entity`).
    fn list(&mut self, from: RtQueueIx, end: QueueEnd) {
        let path: Vec<RtQueueIx> = self.path(from).collect();
        for at in path {
            let queue = self.queue_mut(at);
            let (parent, running, is_boosted) = (queue.parent, queue.nr_running, queue.nr_boosted > 0);
            if let Some(prio) = queue.highest().filter(|_| !queue.is_stopped()) {
                queue.listed = Some(prio);
                let above = self.queue_mut(parent);
                above.push(prio, Place { member: Member::Group(at), is_boosted }, end);
                above.nr_running += running;
            }
        }
    }

    pub(crate) fn enqueue(&mut self, at: RtQueueIx, task: Entrant, end: QueueEnd) {
        self.unlist(at);
        let queue = self.queue_mut(at);
        queue.push(task.prio, Place { member: Member::Task(task.slot), is_boosted: task.is_boosted }, end);
        queue.nr_running += 1;
        self.list(at, end);
    }

    pub(crate) fn dequeue(&mut self, at: RtQueueIx, prio: Prio, slot: Slot) {
        self.unlist(at);
        let queue = self.queue_mut(at);
        queue.take(prio, Member::Task(slot));
        queue.nr_running -= 1;
        self.list(at, QueueEnd::Back);
    }

    /// Sets whether a group has exceeded its runtime (`sched_rt_rq_dequeue`,
    /// `sched_rt_rq_enqueue`).
    pub(crate) fn set_exceeded(&mut self, at: RtQueueIx, has_exceeded: bool) {
        self.unlist(at);
        self.queue_mut(at).used.has_exceeded = has_exceeded;
        self.list(at, QueueEnd::Back);
    }

    /// Moves a task, and on each level the group that it is in, to an end of its list.
    pub(crate) fn requeue(&mut self, at: RtQueueIx, prio: Prio, slot: Slot, end: QueueEnd) {
        let mut step = Some((at, prio, Member::Task(slot)));
        while let Some((at, prio, member)) = step {
            let queue = self.queue_mut(at);
            let place = queue.take(prio, member);
            queue.push(prio, place, end);
            step = self.above(at);
        }
    }

    /// Returns whether no other member has the task's turn on any level.
    pub(crate) fn is_alone(&self, at: RtQueueIx, prio: Prio) -> bool {
        let mut step = Some((at, prio, ()));
        while let Some((at, prio, ())) = step {
            if !self.queue(at).is_alone(prio) {
                return false;
            }
            step = self.above(at).map(|(at, prio, _)| (at, prio, ()));
        }
        true
    }

    /// Returns the place of a queue on its parent's list.
    fn above(&self, at: RtQueueIx) -> Option<(RtQueueIx, Prio, Member)> {
        let queue = self.queue(at);
        let prio = queue.listed.filter(|_| at != RtQueueIx::ROOT)?;
        Some((queue.parent, prio, Member::Group(at)))
    }

    /// Returns the task that a queue runs first.
    pub(crate) fn first_of(&self, from: RtQueueIx) -> Option<Slot> {
        let mut at = from;
        // Bounded by the depth of groups.
        loop {
            let (_, list) = self.queue(at).lists.first_key_value()?;
            match list.front()?.member {
                Member::Task(slot) => return Some(slot),
                Member::Group(below) => at = below,
            }
        }
    }

    /// Returns the task that the CPU runs first.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.first_of(RtQueueIx::ROOT)
    }

    /// Returns the most urgent priority that can run ([`Prio::IDLE`] if none).
    pub(crate) fn highest(&self) -> Prio {
        self.queue(RtQueueIx::ROOT).highest().unwrap_or(Prio::IDLE)
    }

    /// Returns whether a task of the CPU has inherited its priority and can run.
    pub(crate) fn is_boosted(&self) -> bool {
        self.queue(RtQueueIx::ROOT).nr_boosted > 0
    }

    /// Returns the earliest end of a period.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.used.period_ends).min()
    }

    /// Checks that counts and places follow from the members.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        for (index, queue) in self.queues.iter().enumerate() {
            let members = || queue.lists.values().flatten();
            let running: u32 = members()
                .map(|place| match place.member {
                    Member::Task(_) => 1,
                    Member::Group(at) => self.queue(at).nr_running,
                })
                .sum();
            if running != queue.nr_running {
                return Err("a queue counts tasks that it does not have");
            }
            let should = queue.highest().filter(|_| index > 0 && !queue.is_stopped());
            if queue.listed != should {
                return Err("a group is not on the list of its most urgent task");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::RtPriority;

    fn prio(level: u8) -> Prio {
        Prio::from_rt(RtPriority::new(level.into()).expect("a level"))
    }

    /// Slot 0 of a slab is not used.
    fn slot(number: u32) -> Slot {
        Slot::new(number + 1)
    }

    fn task(number: u32, level: u8) -> Entrant {
        Entrant { slot: slot(number), prio: prio(level), is_boosted: false }
    }

    fn two_groups() -> (RtTree, RtQueueIx, RtQueueIx) {
        let mut tree = RtTree::new();
        let outer = tree.find_or_make(GroupId(1), 1, RtQueueIx::ROOT);
        let inner = tree.find_or_make(GroupId(2), 1, outer);
        (tree, outer, inner)
    }

    #[test]
    fn a_group_has_the_priority_of_its_most_urgent_task() {
        let (mut tree, outer, inner) = two_groups();
        tree.enqueue(RtQueueIx::ROOT, task(0, 50), QueueEnd::Back);
        tree.enqueue(inner, task(1, 40), QueueEnd::Back);
        assert_eq!(tree.first(), Some(slot(0)));
        tree.enqueue(inner, task(2, 60), QueueEnd::Back);
        assert_eq!((tree.first(), tree.highest()), (Some(slot(2)), prio(60)));
        tree.dequeue(inner, prio(60), slot(2));
        assert_eq!((tree.first(), tree.queue(outer).nr_running()), (Some(slot(0)), 1));
        tree.check().expect("its counts");
    }

    #[test]
    fn a_group_goes_behind_its_equals_when_one_of_its_tasks_comes() {
        let (mut tree, _, inner) = two_groups();
        tree.enqueue(inner, task(0, 50), QueueEnd::Back);
        tree.enqueue(RtQueueIx::ROOT, task(1, 50), QueueEnd::Back);
        assert_eq!(tree.first(), Some(slot(0)));
        tree.enqueue(inner, task(2, 10), QueueEnd::Back);
        assert_eq!(tree.first(), Some(slot(1)), "although the new one is less urgent");
    }

    #[test]
    fn an_exceeded_group_counts_nowhere_unless_one_of_its_tasks_is_boosted() {
        let (mut tree, outer, inner) = two_groups();
        tree.enqueue(outer, task(0, 20), QueueEnd::Back);
        tree.enqueue(inner, task(1, 50), QueueEnd::Back);
        tree.set_exceeded(inner, true);
        assert_eq!((tree.first(), tree.queue(RtQueueIx::ROOT).nr_running()), (Some(slot(0)), 1));
        assert!(tree.is_stopped_above(GroupId(2)) && !tree.is_stopped_above(GroupId(1)));
        tree.enqueue(inner, Entrant { is_boosted: true, ..task(2, 30) }, QueueEnd::Back);
        assert_eq!(tree.first(), Some(slot(1)), "all of the group runs");
        assert!(tree.is_boosted());
        tree.dequeue(inner, prio(30), slot(2));
        assert_eq!(tree.first(), Some(slot(0)));
        tree.set_exceeded(outer, true);
        assert_eq!((tree.first(), tree.highest()), (None, Prio::IDLE));
        tree.set_exceeded(outer, false);
        tree.set_exceeded(inner, false);
        assert_eq!(tree.first(), Some(slot(1)));
        tree.check().expect("its counts");
    }

    #[test]
    fn turns_pass_between_a_group_and_its_equal() {
        let (mut tree, _, inner) = two_groups();
        tree.enqueue(inner, task(0, 50), QueueEnd::Back);
        assert!(tree.is_alone(inner, prio(50)));
        tree.enqueue(RtQueueIx::ROOT, task(1, 50), QueueEnd::Back);
        assert!(!tree.is_alone(inner, prio(50)));
        tree.requeue(inner, prio(50), slot(0), QueueEnd::Back);
        assert_eq!(tree.first(), Some(slot(1)));
    }

    #[test]
    fn a_queue_of_a_removed_group_is_not_that_of_the_next() {
        let (mut tree, outer, inner) = two_groups();
        tree.queue_mut(inner).used.has_exceeded = true;
        let again = tree.find_or_make(GroupId(2), 3, RtQueueIx::ROOT);
        assert_eq!(again, inner);
        assert!(!tree.queue(again).is_stopped());
        assert_eq!(tree.path(again).collect::<Vec<_>>(), [again]);
        assert_eq!(tree.path(outer).count(), 1);
    }
}
