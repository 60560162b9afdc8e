//! The fair class: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, and groups of them, on one CPU. Where a task is put is decided
//! in [`select`], what moves between CPUs in [`balance`].
//!
//! Tasks and groups are *entities*; each [`queue`] holds the entities of one group on this CPU, and a group's queue is
//! itself an entity of its parent's. Picking goes down from the root, one entity per level; charging and queueing go up
//! from the task. What orders a queue is one of two algorithms: [`eevdf`] or [`cfs`].
//!
//! ```text
//!   root queue:    task  task  group A  group B          current: A
//!                               |        |
//!   A's queue:            task  task     task  group C   current: a task of A
//! ```
//!
//! The entities on the way from the root to the running task are each *current* in their queue and are not on its
//! timeline. A switch within a group leaves the entities above as they are: they have not been picked anew.
//!
//! Every entry point is O(depth x log n). Nothing is allocated once the arenas have grown to what is queued at most.
//!
//! Sources: Linux v6.12 and v6.1 `kernel/sched/fair.c` (`enqueue_task_fair`, `dequeue_entities`, `pick_task_fair`,
//! `pick_next_task_fair`, `check_preempt_wakeup_fair`, `task_tick_fair`, `hrtick_start_fair`).

pub(crate) mod balance;
mod cfs;
mod check;
mod control;
mod eevdf;
mod entity;
pub(crate) mod group;
mod queue;
mod recency;
pub(crate) mod select;
mod timeline;
mod vtime;
mod weight;

pub(crate) use entity::FairEntity;
pub use group::{GroupError, Idleness};
pub use weight::Weight;

use crate::class::{self, Dequeue, Dequeued, Enqueue};
use crate::config::Config;
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use crate::step::{Op, Resched, RqTimer};
use crate::task::Parcel;
use alloc::vec::Vec;
use entity::{EntityRef, FairState};
use group::MAX_DEPTH;
use lock_api::RawMutex;
use queue::{Frame, Queue, QueueIx};
use recency::Recency;
use timeline::Timeline;
use vtime::Vlag;
use weight::LoadWeight;
use zerolag_model::settings::{FairAlgorithm, Grain};
use zerolag_model::{Duration, GroupId, Instant, SchedAttr};

/// The fair class's part of a run queue.
#[derive(Debug)]
pub(crate) struct FairRq {
    tune: Tunables,
    timeline: Timeline,
    /// Queue 0 is the root's.
    queues: Vec<Queue>,
    /// Places in `queues` that are free.
    free: Vec<QueueIx>,
    /// Queues of groups, live or at rest, by id.
    by_group: Vec<(GroupId, QueueIx)>,
    /// Queues of groups that have nothing here, longest first.
    resting: Vec<QueueIx>,
    /// Queues made so far.
    lives: u32,
    /// Whether a charge found that the current task's turn is over.
    due: Resched,
    /// Tasks that stay queued only until their lag is paid.
    nr_delayed: u32,
    /// Tasks of policy SCHED_IDLE that want to run.
    nr_idle_policy: u32,
    recency: Recency,
    balance: balance::BalanceState,
}

/// The settings that the paths read, scaled for the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    algorithm: FairAlgorithm,
    enforce: Grain,
    base_slice: Duration,
    latency: Duration,
    min_granularity: Duration,
    wakeup_granularity: Duration,
    tick: Duration,
    nr_latency: u64,
    run_to_parity: bool,
    preempt_short: bool,
    place_lag: bool,
    keep_requests: bool,
    delay_dequeue: bool,
    wakeup_preemption: bool,
}

/// Why an entity joins a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Join {
    Wakeup,
    New,
    /// It was taken off while runnable.
    Back,
}

impl FairRq {
    pub(crate) fn new(config: &Config) -> Self {
        let settings = &config.settings;
        let tune = Tunables {
            algorithm: settings.fair,
            enforce: settings.enforce_fair,
            base_slice: config.scaled(settings.base_slice),
            latency: config.scaled(settings.latency),
            min_granularity: config.scaled(settings.min_granularity),
            wakeup_granularity: config.scaled(settings.wakeup_granularity),
            tick: settings.tick_period(),
            nr_latency: settings.latency.as_nanos().div_ceil(settings.min_granularity.as_nanos().max(1)),
            run_to_parity: settings.run_to_parity,
            preempt_short: settings.preempt_short,
            place_lag: settings.place_lag,
            keep_requests: settings.place_rel_deadline,
            delay_dequeue: settings.delay_dequeue,
            wakeup_preemption: settings.wakeup_preemption,
        };
        let mut queues = Vec::with_capacity(8);
        queues.push(Queue::new(GroupId::ROOT, 1, None, Frame { cpu: u32::MAX, life: 0 }));
        Self {
            tune,
            timeline: Timeline::with_capacity(config.queue_reserve),
            queues,
            free: Vec::with_capacity(8),
            by_group: Vec::with_capacity(8),
            resting: Vec::with_capacity(group::RESTING_MAX),
            lives: 0,
            due: Resched::No,
            nr_delayed: 0,
            nr_idle_policy: 0,
            recency: Recency::with_capacity(config.queue_reserve),
            balance: balance::BalanceState::default(),
        }
    }

    fn root(&self) -> &Queue {
        &self.queues[0]
    }

    /// Returns the sum of the weights of the root's entities.
    pub(crate) fn load(&self) -> u64 {
        self.root().load
    }

    /// Returns the tasks that want to run, the current one included.
    pub(crate) fn nr_running(&self) -> u32 {
        self.root().nr_in_hierarchy
    }

    /// Returns the blocked tasks that stay queued until their lag is paid.
    pub(crate) const fn nr_delayed(&self) -> u32 {
        self.nr_delayed
    }

    /// Returns the tasks of policy SCHED_IDLE that want to run, the current one included.
    pub(crate) const fn nr_idle_policy(&self) -> u32 {
        self.nr_idle_policy
    }
}

impl Rq {
    fn entity(&self, entity: EntityRef) -> &FairEntity {
        match entity {
            EntityRef::Task(slot) => &self.tasks[slot].fair,
            EntityRef::Group(q) => &self.fair.queues[q.index()].entity,
        }
    }

    fn entity_mut(&mut self, entity: EntityRef) -> &mut FairEntity {
        match entity {
            EntityRef::Task(slot) => &mut self.tasks[slot].fair,
            EntityRef::Group(q) => &mut self.fair.queues[q.index()].entity,
        }
    }

    fn queue(&self, q: QueueIx) -> &Queue {
        &self.fair.queues[q.index()]
    }

    fn queue_mut(&mut self, q: QueueIx) -> &mut Queue {
        &mut self.fair.queues[q.index()]
    }
}

/// Queues a task, and on the way up every group that had nothing here.
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    let base_slice = rq.fair.tune.base_slice;
    let task = &mut rq.tasks[slot];
    task.fair.obey(task.attr, base_slice);
    let (group, hint) = (task.group, task.fair.queue);
    let slept = cx.now.wall.since(task.last_ran);
    let leaf = group::queue_of(rq, cx, group, hint);
    let how = match why {
        Enqueue::Wakeup => Join::Wakeup,
        Enqueue::New => Join::New,
        Enqueue::Migrated | Enqueue::Changed => Join::Back,
    };
    join(rq, leaf, EntityRef::Task(slot), how, slept);
    join_above(rq, cx, leaf);
    count_up(rq, slot, leaf);
    rq.fair.recency.push(slot);
    rearm(rq, cx);
}

/// Counts one more task that wants to run, from a queue to the root.
fn count_up(rq: &mut Rq, slot: Slot, leaf: QueueIx) {
    rq.fair.nr_idle_policy += u32::from(rq.tasks[slot].fair.is_idle);
    let mut at = Some(leaf);
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        queue.nr_in_hierarchy += 1;
        at = queue.parent;
    }
}

/// Counts one task less.
fn count_down(rq: &mut Rq, slot: Slot, leaf: QueueIx) {
    rq.fair.nr_idle_policy -= u32::from(rq.tasks[slot].fair.is_idle);
    let mut at = Some(leaf);
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        queue.nr_in_hierarchy -= 1;
        at = queue.parent;
    }
}

/// Queues the groups above a queue that has got an entity, and lets their weights follow.
fn join_above<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        let group = EntityRef::Group(q);
        let weight = LoadWeight::of_group(group::entity_weight(rq, cx, q));
        match rq.entity(group).state {
            FairState::Off => {
                rq.fair.wake_queue(q);
                rq.entity_mut(group).reweigh(weight);
                join(rq, parent, group, Join::Wakeup, Duration::ZERO);
            }
            FairState::DelayedDequeue => {
                undelay(rq, group);
                reweigh(rq, parent, group, weight);
            }
            FairState::Runnable => reweigh(rq, parent, group, weight),
        }
        q = parent;
    }
}

/// Puts an entity on a queue's timeline.
fn join(rq: &mut Rq, q: QueueIx, entity: EntityRef, why: Join, slept: Duration) {
    debug_assert!(!rq.entity(entity).is_queued(), "an entity is queued once");
    advance_zero(rq, q);
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::place(rq, q, entity, why),
        FairAlgorithm::Cfs => cfs::place(rq, q, entity, why, slept),
    }
    let joining = rq.entity_mut(entity);
    joining.state = FairState::Runnable; // [1]
    joining.queue = q;
    let weight = joining.load.value();
    let queue = rq.queue_mut(q);
    queue.nr_queued += 1;
    queue.load += weight;
    wait(rq, q, entity);
}

/// Puts a queued entity on the timeline.
fn wait(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    let waiting = rq.entity(entity);
    debug_assert!(waiting.node.is_none(), "an entity waits once");
    let (vruntime, weight) = (waiting.vruntime, waiting.load.value());
    let key = match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => waiting.virtual_deadline,
        FairAlgorithm::Cfs => vruntime,
    };
    let fair = &mut rq.fair;
    let queue = &mut fair.queues[q.index()];
    queue.add_to_sums(vruntime, weight);
    let node = fair.timeline.insert(&mut queue.waiting, key, vruntime, entity);
    rq.entity_mut(entity).node = Some(node);
}

/// Takes a queued entity off the timeline.
fn unwait(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    let waiting = rq.entity_mut(entity);
    let (vruntime, weight) = (waiting.vruntime, waiting.load.value());
    let node = waiting.node.take().expect("invariant: it waits");
    let fair = &mut rq.fair;
    let queue = &mut fair.queues[q.index()];
    fair.timeline.remove(&mut queue.waiting, node);
    queue.take_from_sums(vruntime, weight);
}

fn advance_zero(rq: &mut Rq, q: QueueIx) {
    if let Some(least) = cfs::least(rq, q) {
        rq.queue_mut(q).advance_zero(least);
    }
}

/// Takes a task off its queue, and on the way up every group that has nothing left here.
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Dequeued {
    let entity = EntityRef::Task(slot);
    let q = rq.tasks[slot].fair.queue;
    let sleeps = why == Dequeue::Sleep;
    if sleeps && owes(rq, q, entity) {
        rq.entity_mut(entity).state = FairState::DelayedDequeue; // [3]
        rq.fair.nr_delayed += 1;
        count_down(rq, slot, q);
        return Dequeued::Delayed;
    }
    assert!(!rq.tasks[slot].fair.is_delayed(), "a delayed task is finished, not dequeued");
    count_down(rq, slot, q);
    rq.fair.recency.remove(slot);
    part(rq, q, entity, sleeps);
    part_above(rq, cx, q);
    rearm(rq, cx);
    Dequeued::Gone
}

/// Returns whether an entity that blocks must first pay what it owes (`DELAY_DEQUEUE`).
fn owes(rq: &Rq, q: QueueIx, entity: EntityRef) -> bool {
    rq.fair.tune.delay_dequeue && rq.fair.tune.algorithm == FairAlgorithm::Eevdf && !eevdf::is_eligible(rq, q, entity)
}

/// Takes the groups above a queue off theirs as far as they are empty, and lets the weights of the others follow.
fn part_above<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        let group = EntityRef::Group(q);
        let weight = LoadWeight::of_group(group::entity_weight(rq, cx, q));
        if rq.queue(q).nr_queued > 0 || !rq.entity(group).is_queued() {
            if rq.entity(group).is_queued() {
                reweigh(rq, parent, group, weight);
            }
        } else if owes(rq, parent, group) {
            rq.entity_mut(group).state = FairState::DelayedDequeue; // [3]
        } else if !rq.entity(group).is_delayed() {
            part(rq, parent, group, true);
            rq.fair.rest_queue(q);
        }
        q = parent;
    }
}

/// Takes an entity off its queue and keeps what it is owed.
fn part(rq: &mut Rq, q: QueueIx, entity: EntityRef, sleeps: bool) {
    // Its weight leaves the load; a group may leave by itself, when its lag is paid.
    rq.is_unpublished = true;
    advance_zero(rq, q);
    rq.queue_mut(q).buddies.clear(entity);
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(rq, q, entity);
            if rq.fair.tune.keep_requests && !sleeps {
                eevdf::keep_request(rq.entity_mut(entity));
            }
        }
        FairAlgorithm::Cfs => cfs::keep_place(rq, q, entity, sleeps),
    }
    if rq.queue(q).current == Some(entity) {
        rq.queue_mut(q).current = None;
    } else {
        unwait(rq, q, entity);
    }
    let leaving = rq.entity_mut(entity);
    leaving.state = FairState::Off; // [2]
    leaving.protected = None;
    let weight = leaving.load.value();
    let queue = rq.queue_mut(q);
    queue.nr_queued -= 1;
    queue.load -= weight;
    advance_zero(rq, q);
}

/// Changes the weight of a queued group entity.
///
/// Under EEVDF it leaves and joins again at the same lag, which weighs more or less now (`reweight_entity`).
fn reweigh(rq: &mut Rq, q: QueueIx, entity: EntityRef, load: LoadWeight) {
    if rq.entity(entity).load == load {
        return;
    }
    rq.is_unpublished = true;
    let is_current = rq.queue(q).current == Some(entity);
    let state = rq.entity(entity).state;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(rq, q, entity);
            eevdf::keep_request(rq.entity_mut(entity));
            if is_current {
                rq.queue_mut(q).current = None;
            } else {
                unwait(rq, q, entity);
            }
            let old = rq.entity(entity).load.value();
            rq.queue_mut(q).load -= old;
            rq.queue_mut(q).nr_queued -= 1;
            rq.entity_mut(entity).reweigh(load);
            eevdf::place(rq, q, entity, Join::Back);
            rq.queue_mut(q).load += load.value();
            rq.queue_mut(q).nr_queued += 1;
            if is_current {
                rq.queue_mut(q).current = Some(entity);
                rq.entity_mut(entity).protected = None;
            } else {
                wait(rq, q, entity);
            }
        }
        FairAlgorithm::Cfs => {
            if !is_current {
                unwait(rq, q, entity);
            }
            let old = rq.entity(entity).load.value();
            rq.entity_mut(entity).load = load;
            rq.queue_mut(q).load = rq.queue(q).load - old + load.value();
            if !is_current {
                wait(rq, q, entity);
            }
        }
    }
    debug_assert!(rq.entity(entity).state == state, "a change of weight changes no state");
}

/// A delayed entity wants to run again: it competes from where it is, but is owed nothing for its sleep.
///
/// Linux v6.12 `fair.c`, `requeue_delayed_entity` (`DELAY_ZERO`).
fn undelay(rq: &mut Rq, entity: EntityRef) {
    let q = rq.entity(entity).queue;
    rq.entity_mut(entity).state = FairState::Runnable; // [4]
    if eevdf::average(rq, q).since(rq.entity(entity).vruntime) <= Vlag::ZERO {
        return;
    }
    let is_current = rq.queue(q).current == Some(entity);
    if is_current {
        rq.queue_mut(q).current = None;
    } else {
        unwait(rq, q, entity);
    }
    rq.queue_mut(q).nr_queued -= 1;
    rq.entity_mut(entity).vlag = Vlag::ZERO;
    eevdf::place(rq, q, entity, Join::Wakeup);
    rq.queue_mut(q).nr_queued += 1;
    if is_current {
        rq.queue_mut(q).current = Some(entity);
    } else {
        wait(rq, q, entity);
    }
}

/// Charges the current task, and every group that it is in, with the time it ran. O(depth).
pub(crate) fn charge(rq: &mut Rq, _config: &Config, slot: Slot, delta: Duration) {
    let mut entity = EntityRef::Task(slot);
    loop {
        let (algorithm, base_slice) = (rq.fair.tune.algorithm, rq.fair.tune.base_slice);
        let running = rq.entity_mut(entity);
        running.vruntime = running.vruntime.plus(running.load.to_virtual(delta));
        running.ran += delta;
        let q = running.queue;
        match algorithm {
            FairAlgorithm::Eevdf => {
                let due = eevdf::charge(running, base_slice);
                let is_done = rq.fair.due == Resched::Now || rq.queue(q).nr_queued == 1;
                if !is_done && (due == Resched::Now || eevdf::is_overdue(rq, q, entity)) {
                    rq.fair.due = Resched::Now;
                }
            }
            FairAlgorithm::Cfs => {}
        }
        if rq.queue(q).parent.is_none() {
            return;
        }
        entity = EntityRef::Group(q);
    }
}

/// Returns the task that should run. The current one competes. Delayed ones that come first have paid and leave.
///
/// Work: O(depth x log n) for each delayed one that leaves, and once more.
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    rq.fair.due = Resched::No;
    let mut q = QueueIx::ROOT;
    loop {
        if rq.queue(q).nr_queued == 0 {
            assert!(q == QueueIx::ROOT, "a group that is empty is delayed or gone");
            return None;
        }
        let entity = match rq.fair.tune.algorithm {
            FairAlgorithm::Eevdf => eevdf::pick(rq, q),
            FairAlgorithm::Cfs => cfs::pick(rq, q),
        };
        if rq.entity(entity).is_delayed() {
            finish(rq, cx, entity);
            q = QueueIx::ROOT;
            continue;
        }
        match entity {
            EntityRef::Task(slot) => {
                if rq.current == Some(slot) {
                    rearm(rq, cx);
                }
                return Some(slot);
            }
            EntityRef::Group(owned) => q = owned,
        }
    }
}

/// Ends a delayed dequeue: a task's body goes into the host's hands.
fn finish<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, entity: EntityRef) {
    let q = rq.entity(entity).queue;
    part(rq, q, entity, true);
    // `DELAY_ZERO`: whoever sleeps on collects no credit while it waits to leave.
    let leaving = rq.entity_mut(entity);
    leaving.vlag = leaving.vlag.min(Vlag::ZERO);
    match entity {
        EntityRef::Task(slot) => {
            rq.fair.nr_delayed -= 1;
            rq.fair.recency.remove(slot);
            if rq.current == Some(slot) {
                rq.current = None;
            }
            let body = class::detach(rq, cx, slot);
            cx.io.parked.push(Parcel(body));
        }
        EntityRef::Group(owned) => rq.fair.rest_queue(owned),
    }
    part_above(rq, cx, q);
}

/// Ends the delayed dequeue of a task; `false` if it is not delayed.
pub(crate) fn finish_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let is_delayed = is_delayed(rq, slot);
    if is_delayed {
        finish(rq, cx, EntityRef::Task(slot));
    }
    is_delayed
}

/// Ends all delayed dequeues if no fair task wants to run: the CPU is as good as idle.
pub(crate) fn finish_if_only_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.nr_delayed > 0 && rq.fair.root().nr_in_hierarchy == 0 {
        let none = pick(rq, cx);
        assert!(none.is_none() && rq.fair.nr_delayed == 0, "what does not want to run is delayed");
    }
}

pub(crate) fn is_delayed(rq: &Rq, slot: Slot) -> bool {
    rq.tasks[slot].fair.is_delayed()
}

/// No fair task runs any more: what was current waits, from the root down. O(depth x log n).
pub(crate) fn put_prev(rq: &mut Rq) {
    put_down(rq, QueueIx::ROOT);
}

fn put_down(rq: &mut Rq, from: QueueIx) {
    let mut at = Some(from);
    while let Some(q) = at {
        let Some(current) = rq.queue_mut(q).current.take() else { return };
        wait(rq, q, current);
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
}

/// Makes a task current, and every group that it is in; what was current instead waits again.
///
/// Entities that were current before and still are have not been picked anew: their slice and their protection go on.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let leaf = rq.tasks[slot].fair.queue;
    if leaf != QueueIx::ROOT {
        let mut path = [leaf; MAX_DEPTH];
        let mut depth = 0;
        let mut q = leaf;
        while let Some(parent) = rq.queue(q).parent {
            path[depth] = q;
            depth += 1;
            q = parent;
        }
        for q in path[..depth].iter().rev().copied() {
            make_current(rq, rq.queue(q).entity.queue, EntityRef::Group(q));
        }
    }
    make_current(rq, leaf, EntityRef::Task(slot));
    rq.fair.recency.touch(slot);
    rearm(rq, cx);
}

/// Makes an entity the current one of its queue, unless it is already; what was current with all below waits again.
fn make_current(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    if rq.queue(q).current == Some(entity) {
        return;
    }
    put_down(rq, q);
    unwait(rq, q, entity);
    let picked = rq.entity_mut(entity);
    picked.ran = Duration::ZERO;
    picked.protected = Some(picked.virtual_deadline);
    let is_cfs = rq.fair.tune.algorithm == FairAlgorithm::Cfs;
    let queue = rq.queue_mut(q);
    queue.current = Some(entity);
    if is_cfs {
        queue.buddies.clear(entity);
    }
}

/// Returns whether a fair task that was just queued preempts the current fair task.
pub(crate) fn check_preempt<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    if current == woken || rq.need_resched == Resched::Now {
        return Resched::No;
    }
    if rq.fair.due == Resched::Now {
        return Resched::Now;
    }
    if !rq.fair.tune.wakeup_preemption {
        return Resched::No;
    }
    let (running, waking) = siblings(rq, current, woken);
    match (rq.entity(running).is_idle, rq.entity(waking).is_idle) {
        (true, false) => {
            rq.entity_mut(running).protected = None;
            return Resched::Now;
        }
        (false, true) => return Resched::No,
        (true, true) | (false, false) => {}
    }
    let q = rq.entity(running).queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::preempts(rq, q, running, waking, woken),
        FairAlgorithm::Cfs => cfs::preempts(rq, q, running, waking, woken),
    }
}

/// Returns the ancestors of two tasks (or the tasks) that are on one queue. O(depth). Linux `find_matching_se`.
fn siblings(rq: &Rq, one: Slot, other: Slot) -> (EntityRef, EntityRef) {
    let depth = |slot: Slot| {
        let mut depth = 0;
        let mut q = rq.tasks[slot].fair.queue;
        while let Some(parent) = rq.queue(q).parent {
            depth += 1;
            q = parent;
        }
        depth
    };
    let up = |entity: EntityRef| EntityRef::Group(rq.entity(entity).queue);
    let (mut one_depth, mut other_depth) = (depth(one), depth(other));
    let (mut one, mut other) = (EntityRef::Task(one), EntityRef::Task(other));
    while one_depth > other_depth {
        one = up(one);
        one_depth -= 1;
    }
    while other_depth > one_depth {
        other = up(other);
        other_depth -= 1;
    }
    while rq.entity(one).queue != rq.entity(other).queue {
        one = up(one);
        other = up(other);
    }
    (one, other)
}

/// The current task gives the CPU to others if it may (`sched_yield`).
pub(crate) fn yield_current<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.nr_running <= 1 {
        return;
    }
    let entity = EntityRef::Task(slot);
    let q = rq.tasks[slot].fair.queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::yield_current(rq.entity_mut(entity)),
        FairAlgorithm::Cfs => cfs::yield_current(rq, q, entity),
    }
}

/// Returns whether the current task's turn is over. O(depth) under EEVDF, O(depth^2) under CFS.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    let leaf = rq.tasks[slot].fair.queue;
    let mut due = core::mem::take(&mut rq.fair.due);
    if rq.fair.tune.algorithm == FairAlgorithm::Cfs {
        let mut entity = EntityRef::Task(slot);
        let mut at = Some(leaf);
        while let Some(q) = at {
            due = due.max(cfs::tick(rq, q, entity));
            entity = EntityRef::Group(q);
            at = rq.queue(q).parent;
        }
    }
    let mut q = leaf;
    while let Some(parent) = rq.queue(q).parent {
        let weight = LoadWeight::of_group(group::entity_weight(rq, cx, q));
        reweigh(rq, parent, EntityRef::Group(q), weight);
        q = parent;
    }
    if due == Resched::No {
        rearm(rq, cx);
    }
    due
}

/// Arms the timer that ends the current fair task's slice (`enforce.fair = exact`; the kernel's `HRTICK`).
fn rearm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.tune.enforce == Grain::Tick || rq.fair.nr_running() <= 1 {
        return;
    }
    let Some(at) = slice_end(rq, cx.now.wall) else { return };
    let arm = Op::ArmTimer { cpu: rq.cpu, timer: RqTimer::Slice, at };
    // A call that moves several tasks asks once.
    let earlier = cx
        .io
        .ops
        .iter_mut()
        .rev()
        .find(|op| matches!(op, Op::ArmTimer { cpu, timer: RqTimer::Slice, .. } if *cpu == rq.cpu));
    match earlier {
        Some(op) => *op = arm,
        None => cx.io.op(arm),
    }
}

/// Returns when the first of the current entities will have had its slice.
fn slice_end(rq: &Rq, now: Instant) -> Option<Instant> {
    let mut left: Option<Duration> = None;
    let mut at = Some(QueueIx::ROOT);
    while let Some(q) = at {
        let queue = rq.queue(q);
        let current = queue.current?;
        let running = rq.entity(current);
        if queue.nr_queued > 1 {
            let here = match rq.fair.tune.algorithm {
                FairAlgorithm::Eevdf => running.load.to_real_ceil(running.virtual_deadline.since(running.vruntime)),
                // Its turn is over once it has run *longer* than its slice.
                FairAlgorithm::Cfs => {
                    let slice = cfs::slice(rq, q, current).min(rq.fair.tune.latency);
                    slice.saturating_sub(running.ran) + Duration::from_nanos(1)
                }
            };
            left = Some(left.map_or(here, |left| left.min(here)));
        }
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
    left.map(|left| now + left.max(Duration::from_nanos(1)))
}

/// Wakes a task whose dequeue is delayed; `false` if it is not.
pub(crate) fn wake_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    if !is_delayed(rq, slot) {
        return false;
    }
    let leaf = rq.tasks[slot].fair.queue;
    undelay(rq, EntityRef::Task(slot));
    rq.fair.nr_delayed -= 1;
    rq.is_unpublished = true;
    join_above(rq, cx, leaf);
    count_up(rq, slot, leaf);
    rearm(rq, cx);
    true
}

/// Returns the weight that a queued task has on this CPU, its groups considered: its part of the root queue's load.
/// O(depth). Linux `task_h_load`.
pub(crate) fn task_load(rq: &Rq, slot: Slot) -> u64 {
    let mut load = rq.tasks[slot].fair.load.value();
    let mut q = rq.tasks[slot].fair.queue;
    while let Some(parent) = rq.queue(q).parent {
        let queue = rq.queue(q);
        load = load * queue.entity.load.value() / queue.load.max(1);
        q = parent;
    }
    load
}

/// Returns whether a task weighs only what is left over.
pub(crate) const fn is_idle_policy(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Fair { policy: zerolag_model::FairPolicy::Idle, .. })
}
