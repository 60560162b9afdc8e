//! Priority inheritance: brings the loans of holders up to date, one thread at a time for each
//! ([`upkeep`](crate::state::upkeep)).
//!
//! Rule: a thread that has changed the waiters for a lock, or the holder, settles the holder
//! afterwards; a thread that has changed what a task waits for settles that task.
//!
//! Sources: Linux v6.12 `kernel/locking/rtmutex.c`, `rt_mutex_adjust_prio_chain`. differs: the
//! kernel walks the chain under the locks of its links.

use crate::caller::Caller;
use crate::coop;
use crate::state::engine::Engine;
use crate::state::life::Life;
use crate::state::lock::raises_plain;
use crate::state::task::{Kind, Task};
use crate::sync::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::call::{Answer, Call};
use zerolag_core::{Lent, most_urgent};
use zerolag_model::{Prio, RtPriority};

/// The longest chain of locks along which loans propagate (Linux `max_lock_depth`).
const CHAIN_MAX: u32 = 1024;

/// Brings the loans of tasks up to date, and those of the holders of the locks that these tasks
/// wait for, and so on. The caller holds no lock of the runtime.
pub(crate) fn settle(tasks: impl IntoIterator<Item = Arc<Task>>) {
    let mut pending: Vec<_> = tasks.into_iter().collect();
    for _ in 0..CHAIN_MAX {
        let Some(task) = pending.pop() else { return };
        if !task.locks().upkeep.lock().begin() {
            continue;
        }
        loop {
            task.engine().lift(&task);
            task.engine().inherit(&task, task.inherits());
            let waits_for = task.locks().waits_for.lock().clone();
            if !waits_for.is_empty()
                && let Some(lends) = task.engine().lends(&task)
            {
                let changed = waits_for.iter().filter(|line| line.lends_anew(&task, lends));
                pending.extend(changed.filter_map(|line| line.holder()));
            }
            if task.locks().upkeep.lock().end() {
                break;
            }
        }
    }
}

impl Task {
    /// Returns the most urgent loan: of the waiters for its locks; a task that is lifted, or
    /// aborted in a limited group, also gets the lowest real-time priority, so that no limit stops
    /// it.
    pub(crate) fn inherits(&self) -> Option<Lent> {
        let held = self.locks().held.lock().clone();
        let is_hurried = self.is_hurried() || self.is_lifted.load(Ordering::Relaxed);
        let own = is_hurried.then_some(Lent::Prio(Prio::from_rt(RtPriority::MIN)));
        let inherits = most_urgent(held.iter().filter_map(|lock| lock.most_urgent()).chain(own));
        // A loan counts only if it is more urgent than the task itself.
        inherits.filter(|lent| self.kind != Kind::Plain || raises_plain(*lent))
    }
}

impl Engine {
    /// Sets the most urgent loan of the waiters for a task's locks, which the task inherits; `None`
    /// without waiters. One thread at a time calls it for a task
    /// ([`settle`]).
    pub(crate) fn inherit(self: &Arc<Self>, task: &Task, from: Option<Lent>) {
        {
            let mut inherited = task.locks().inherited.lock();
            if std::mem::replace(&mut *inherited, from) == from {
                return;
            }
            task.is_inheriting.store(from.is_some(), Ordering::Release);
        }
        let mut caller = Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu()));
        let by = caller.cpu;
        loop {
            {
                let mut body = task.body.lock();
                let is_here = body.with_parcel(|parcel| {
                    caller.hand = Some(parcel);
                    let done = caller.call(Call::InheritParked { task: task.id, from, by });
                    debug_assert!(done.is_ok(), "`InheritParked` must not be refused");
                    caller.hand.take().expect("invariant: the call leaves the parcel in `hand`")
                });
                if is_here && body.is_held_by_cpu() {
                    self.kick(task.cpu()); // It can be a runner (relay).
                }
                if is_here || matches!(body.life(), Life::Dead) {
                    return;
                }
            }
            if let Some(Answer::Step(step)) = caller.call_at_home(task, |cpu, task| Call::Inherit { cpu, task, from }) {
                caller.carry(step);
                if task.body.lock().is_owner() {
                    self.kick(task.cpu());
                }
                return;
            }
            // The task is on its way from one thread to another.
            thread::yield_now();
        }
    }

    /// Returns the loan of a task to the holder of a lock that it waits for; `None` if it has
    /// ended.
    pub(crate) fn lends(self: &Arc<Self>, task: &Task) -> Option<Lent> {
        let mut caller = Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu()));
        loop {
            {
                let body = task.body.lock();
                if let Some(parcel) = body.parcel() {
                    return Some(parcel.lends());
                }
                if matches!(body.life(), Life::Dead) {
                    return None;
                }
            }
            if let Some(Answer::Lent(lent)) = caller.call_at_home(task, |cpu, task| Call::Lends { cpu, task }) {
                return Some(lent);
            }
            thread::yield_now();
        }
    }
}
