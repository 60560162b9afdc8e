//! The class of a loaded scheduler where that is a policy of the user (`zerolag-policy`).
//!
//! [`Host`] has the rules of the class and all its queues, also the local ones of the CPUs; this
//! module tells it what happens to tasks, and does what follows: CPUs schedule. A task that is
//! first on a local queue is picked if its body is in that run queue; [`crate::balance::policy`]
//! moves bodies.
//!
//! Cold and out of line: a machine without a policy pays for a comparison in the functions of
//! [`crate::class::ext`], which are so themselves.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c`; see [`zerolag_policy::host`].

use crate::entity::weight::Weight;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::policy::{Known, Loaded};
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Enqueue};
use crate::words::op::{Op, Work};
use crate::words::resched::Resched;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Duration, SchedAttr, TaskId};
use zerolag_policy::{Arrival, Departure, Effect, Host, TaskInfo};

/// The CPUs that have to schedule after a call. Mostly there is one: a list on the heap for each
/// call would be most of its cost.
#[derive(Default)]
struct Effects {
    few: [Option<Effect>; 4],
    many: Vec<Effect>,
}

impl Effects {
    /// Takes them out of a list, each CPU once, with its stronger request.
    fn take(list: &mut Vec<Effect>) -> Self {
        list.sort_unstable_by_key(|effect| match effect {
            Effect::Resched(cpu) => (*cpu, 0),
            Effect::WakeIdle(cpu) => (*cpu, 1),
        });
        list.dedup_by_key(|effect| match effect {
            Effect::Resched(cpu) | Effect::WakeIdle(cpu) => *cpu,
        });
        let mut effects = Self::default();
        if list.len() > effects.few.len() {
            effects.many = core::mem::take(list);
        } else {
            effects.few.iter_mut().zip(list.drain(..)).for_each(|(slot, effect)| *slot = Some(effect));
        }
        effects
    }

    fn into_iter(self) -> impl Iterator<Item = Effect> {
        self.few.into_iter().flatten().chain(self.many)
    }
}

/// Calls the host of the policy. Returns which CPUs have to schedule, each once, if any have.
fn ask<L: RawMutex, R>(cx: &mut Cx<'_, L>, call: impl FnOnce(&mut Loaded) -> R) -> (R, Option<Effects>) {
    let mut slot = cx.shared.policy.lock();
    let loaded = slot.as_mut().expect("invariant: a CPU knows that a policy is loaded");
    loaded.host.set_now(cx.now.wall);
    let before = loaded.host.calls();
    let result = call(loaded);
    let calls = (loaded.host.calls() - before) as u32;
    cx.io.costs.policy_calls = cx.io.costs.policy_calls.saturating_add(calls);
    let list = loaded.host.effects_mut();
    let effects = if list.is_empty() { None } else { Some(Effects::take(list)) };
    if let Some(at) = loaded.host.take_timer() {
        cx.io.op(Op::PolicyTimer { at });
    }
    if loaded.host.exit_info().is_some() && cx.shared.policy.eject() {
        loaded.exits.extend(loaded.host.exit_info().cloned());
        cx.io.op(Op::ExtExit);
    }
    (result, effects)
}

/// Calls the host of the policy, and asks the CPUs that have to schedule by interrupt.
pub(crate) fn with<L: RawMutex, R>(cx: &mut Cx<'_, L>, call: impl FnOnce(&mut Loaded) -> R) -> R {
    let (result, effects) = ask(cx, call);
    if let Some(effects) = effects {
        effects.into_iter().for_each(|effect| send(cx, effect));
    }
    result
}

/// Calls the host of the policy for what calls no policy: nothing follows.
pub(crate) fn quietly<L: RawMutex, R>(cx: &Cx<'_, L>, call: impl FnOnce(&mut Host) -> R) -> R {
    let mut slot = cx.shared.policy.lock();
    let loaded = slot.as_mut().expect("invariant: a CPU knows that a policy is loaded");
    loaded.host.set_now(cx.now.wall);
    call(&mut loaded.host)
}

fn send<L: RawMutex>(cx: &mut Cx<'_, L>, effect: Effect) {
    let (cpu, even_if_busy) = match effect {
        Effect::Resched(cpu) => (cpu, true),
        Effect::WakeIdle(cpu) => (cpu, false),
    };
    cx.io.op(Op::Ipi { cpu, work: Work::ExtKick { even_if_busy } });
}

/// Does what follows from the enqueue of a task: one that comes to an idle CPU makes that schedule
/// anyway, when it is compared with the current task.
fn follow<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, effects: Effects) {
    for effect in effects.into_iter() {
        match effect {
            Effect::WakeIdle(cpu) if cpu == rq.cpu() && rq.phase() == Phase::Running => {}
            Effect::Resched(cpu) if cpu == rq.cpu() && rq.phase() == Phase::Running => kicked(rq, cx, true),
            effect => send(cx, effect),
        }
    }
}

/// A CPU was asked to schedule: it does if it idles, or runs a task of the policy and is to be
/// preempted.
pub(crate) fn kicked<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, even_if_busy: bool) {
    let follows = match rq.current_slot() {
        None => true,
        Some(_) => even_if_busy && rq.current_class() == ClassId::Ext,
    };
    if follows && rq.phase() == Phase::Running {
        rq.resched(cx, Resched::Now);
    }
}

/// Returns the weight of a task as the policy is told of it.
fn weight_of(task: &Task) -> u32 {
    let weight = match task.attr {
        SchedAttr::Ext { policy, nice, .. } | SchedAttr::Fair { policy, nice, .. } => Weight::of_policy(policy, nice),
        SchedAttr::Rt { .. } | SchedAttr::Deadline(_) => Weight::NICE_0,
    };
    weight.to_cpu_weight()
}

/// Makes the policy know a task as it is now.
pub(crate) fn know(loaded: &mut Loaded, task: &Task, is_new: bool) {
    let weight = weight_of(task);
    if loaded.host.has(task.id) {
        loaded.host.update_task(task.id, weight, task.group, task.allowed.as_ref());
    } else {
        let Known { name: comm, period, work } = loaded.known(task.id);
        let (group, allowed, cpu) = (task.group, task.allowed.clone(), task.last_cpu);
        loaded.host.add_task(task.id, TaskInfo { comm, weight, group, allowed, cpu, period }, is_new);
        loaded.host.set_work(task.id, work);
    }
}

/// Lets the policy know a task that is about to be placed.
pub(crate) fn announce(loaded: &mut Loaded, task: &Task) {
    know(loaded, task, task.is_new);
}

#[cold]
#[inline(never)]
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    rq.ext.nr_running += 1;
    let is_current = rq.current_slot() == Some(slot);
    let (task, cpu) = (&rq.tasks[slot], rq.cpu());
    let arrival = match why {
        Enqueue::Wakeup | Enqueue::Sync => Arrival::Wakeup,
        Enqueue::New => Arrival::New,
        Enqueue::Migrated | Enqueue::Dispatched => Arrival::Again { moves: true },
        Enqueue::Changed => Arrival::Again { moves: false },
    };
    let ((), effects) = ask(cx, |loaded| {
        // A body that follows its task has just been known.
        if why != Enqueue::Dispatched {
            know(loaded, task, why == Enqueue::New);
        }
        loaded.host.enqueue(task.id, cpu, arrival, is_current);
    });
    if let Some(effects) = effects {
        follow(rq, cx, effects);
    }
}

#[cold]
#[inline(never)]
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    rq.ext.nr_running -= 1;
    let (id, is_current) = (rq.tasks[slot].id, rq.current_slot() == Some(slot));
    let departure = match why {
        Dequeue::Sleep => Departure::Sleep,
        Dequeue::Exit => Departure::Exit,
        Dequeue::Change => Departure::Change,
        Dequeue::Migrate => Departure::Move,
    };
    with(cx, |loaded| {
        loaded.host.dequeue(id, departure, is_current);
        if why == Dequeue::Exit {
            loaded.host.remove_task(id, true);
        }
    });
}

/// A task that has been the policy's is now of another class.
#[cold]
#[inline(never)]
pub(crate) fn left<L: RawMutex>(cx: &mut Cx<'_, L>, task: TaskId) {
    with(cx, |loaded| {
        if loaded.host.has(task) {
            loaded.host.remove_task(task, false);
        }
    });
}

/// Changes the allowed CPUs of a queued task.
#[cold]
#[inline(never)]
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    // `set_cpus_allowed_scx` comes between a dequeue and an enqueue.
    dequeue(rq, cx, slot, Dequeue::Change);
    change(&mut rq.tasks[slot]);
    enqueue(rq, cx, slot, Enqueue::Changed);
    if rq.current_slot() == Some(slot) {
        set_next(rq, cx, slot);
    }
}

/// Charges exec time to the slice of the current task.
pub(crate) fn charge<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, delta: Duration) {
    if let Some(slot) = rq.current_slot() {
        let id = rq.tasks[slot].id;
        quietly(cx, |host| host.charge(id, delta));
    }
}

/// Ends a slice that is used up.
pub(crate) fn tick<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Resched {
    let Some(slot) = rq.current_slot() else { return Resched::No };
    let id = rq.tasks[slot].id;
    if with(cx, |loaded| loaded.host.tick(id)) { Resched::Now } else { Resched::No }
}

pub(crate) fn yield_current<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if let Some(slot) = rq.current_slot() {
        let id = rq.tasks[slot].id;
        with(cx, |loaded| loaded.host.yield_current(id));
    }
}

/// Returns the current task, if it is of this class.
pub(crate) fn current(rq: &Rq) -> Option<TaskId> {
    let slot = rq.current_slot().filter(|_| rq.current_class() == ClassId::Ext)?;
    Some(rq.tasks[slot].id)
}

/// Fills the local queue of a CPU that is about to pick.
pub(crate) fn dispatch<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    rq.ext.has_dispatched = true;
    let (cpu, prev) = (rq.cpu(), current(rq));
    with(cx, |loaded| loaded.host.dispatch(cpu, prev));
}

/// Returns the task that the class runs: the current one while it has a slice, or alone; then the
/// first of the local queue whose body is here.
#[cold]
#[inline(never)]
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    // The search for fair tasks, before, has begun an idle period of that class.
    rq.fair.newidle.since = None;
    // A server comes first although other classes have tasks: no search was made.
    if !core::mem::take(&mut rq.ext.has_dispatched) {
        dispatch(rq, cx);
        rq.ext.has_dispatched = false;
    }
    let (cpu, current) = (rq.cpu(), current(rq));
    let picked = quietly(cx, |host| match current {
        Some(current) if host.keeps(cpu, current) => Some(current),
        Some(_) | None => host.first_local_here(cpu),
    })?;
    cx.shared.home(picked).filter(|(home, _)| *home == cpu).map(|(_, slot)| slot)
}

/// Makes a queued task the current one.
#[cold]
#[inline(never)]
pub(crate) fn set_next<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    with(cx, |loaded| loaded.host.set_next(id, cpu));
}

/// Handles the switch away from a task that stays queued.
#[cold]
#[inline(never)]
pub(crate) fn put_prev<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot, idles: bool) {
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    with(cx, |loaded| loaded.host.put_prev(id, cpu, idles));
}

/// A CPU has switched: to a task of another class, to one of the policy, or to no task.
#[cold]
#[inline(never)]
pub(crate) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (cpu, idles) = (rq.cpu(), rq.current_slot().is_none());
    let is_released = !idles && rq.current_class() != ClassId::Ext;
    // Most switches are from task to task. A CPU that goes on to idle may have been chosen
    // meanwhile.
    if !idles && rq.ext.told == Some(is_released) {
        return;
    }
    rq.ext.told = (!idles).then_some(is_released);
    with(cx, |loaded| {
        loaded.host.set_released(cpu, is_released);
        loaded.host.update_idle(cpu, idles);
    });
}

/// A CPU has come online or gone offline.
pub(crate) fn set_online<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if rq.ext.by_policy {
        with(cx, |loaded| loaded.host.set_online(rq.cpu(), rq.is_online()));
    }
}

/// Returns an idle CPU for a task that has just woken and is on the machine's queue, which no
/// callback has chosen a CPU for.
pub(crate) fn idle_for_global<L: RawMutex>(cx: &Cx<'_, L>, task: TaskId) -> Option<CpuId> {
    quietly(cx, |host| {
        let scx = host.scx();
        let mut idle = scx.idle_cpumask().iter();
        if host.is_on_global(task) { idle.find(|cpu| scx.allowed(task, *cpu)) } else { None }
    })
}

/// Returns the first task of the local queue of a CPU, and the CPU where its body is, if that is
/// another one and the CPU needs it: its current task has used up its slice.
pub(crate) fn missing<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Option<(TaskId, CpuId)> {
    let (cpu, current) = (rq.cpu(), current(rq));
    quietly(cx, |host| {
        if current.is_some_and(|current| !host.scx().slice(current).is_zero() && host.exit_info().is_none()) {
            return None;
        }
        let first = host.first_local(cpu)?;
        host.home(first).filter(|home| *home != cpu).map(|home| (first, home))
    })
}
