//! [`Mutex`]: a lock whose holder inherits from those that wait, and is spared by its group's limit
//! until it gives the lock up.
//!
//! It is handed over to the most urgent waiter, as an rt-mutex is: nobody gets it in between. What
//! the waiters lend goes along chains: to the holder of the lock that the holder waits for, and so
//! on.
//!
//! Sources: Linux v6.12 `kernel/locking/rtmutex.c`, `rt_mutex_adjust_prio_chain`; the text of 2012,
//! which asks that whoever is throttled while it holds a lock runs on
//! ([`Caller::leave`](crate::caller::Caller::leave)).

use crate::coop;
use crate::task::Task;
use parking_lot::Mutex as RawMutex;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use zerolag_core::{Lent, WaitQueue};
use zerolag_model::{Nice, Prio, TaskId};

/// The longest chain of locks along which is lent (Linux `max_lock_depth`).
const CHAIN_MAX: u32 = 1024;

/// Who has a lock and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: RawMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_held: bool,
    /// The task that has it; none if a thread has it that is no task.
    holder: Option<Arc<Task>>,
    /// Those that wait, by ticket, most urgent first.
    queue: WaitQueue,
    waiters: Vec<Waiter>,
    tickets: u32,
}

#[derive(Debug)]
struct Waiter {
    ticket: TaskId,
    task: Option<Arc<Task>>,
    lends: Lent,
    waker: Waker,
    /// The lock is its own; it has not come for it yet.
    is_granted: bool,
}

impl Line {
    /// Returns what the most urgent waiter lends.
    pub(crate) fn most_urgent(&self) -> Option<Lent> {
        let state = self.state.lock();
        let first = state.queue.first()?;
        state.waiters.iter().find(|waiter| waiter.ticket == first).map(|waiter| waiter.lends)
    }

    /// Takes the lock if nobody has it.
    fn try_take(self: &Arc<Self>, task: Option<&Arc<Task>>) -> bool {
        let mut state = self.state.lock();
        if state.is_held {
            return false;
        }
        state.is_held = true;
        state.holder = task.cloned();
        if let Some(task) = task {
            task.held.lock().push(Arc::clone(self));
        }
        true
    }

    /// Queues up behind whoever has it.
    fn queue_up(self: &Arc<Self>, task: Option<Arc<Task>>, waker: &Waker) -> TaskId {
        let lends = task.as_ref().and_then(|task| task.engine.lends(task));
        let lends = lends.unwrap_or(Lent::Prio(Prio::from_nice(Nice::ZERO)));
        let (ticket, is_held) = {
            let mut state = self.state.lock();
            let ticket = TaskId(state.tickets);
            state.tickets = state.tickets.wrapping_add(1);
            if let Some(task) = &task {
                *task.waits_for.lock() = Some(Arc::clone(self));
            }
            state.queue.push_lender(ticket, lends);
            state.waiters.push(Waiter { ticket, task, lends, waker: waker.clone(), is_granted: false });
            (ticket, state.is_held)
        };
        if is_held {
            self.lend();
        } else {
            self.pass_on(); // It was given up since the caller looked.
        }
        ticket
    }

    /// Returns whether a waiter has the lock now; if not, it will be woken when it has.
    fn come_for(&self, ticket: TaskId, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let place = state.waiters.iter().position(|waiter| waiter.ticket == ticket);
        let place = place.expect("invariant: a waiter is in the list until it comes or goes");
        if state.waiters[place].is_granted {
            state.waiters.swap_remove(place);
            return true;
        }
        state.waiters[place].waker.clone_from(waker);
        false
    }

    /// A waiter goes without the lock; if it had been granted, the next has it.
    fn give_up(self: &Arc<Self>, ticket: TaskId) {
        let gone = {
            let mut state = self.state.lock();
            state.queue.remove(ticket);
            let place = state.waiters.iter().position(|waiter| waiter.ticket == ticket);
            place.map(|place| state.waiters.swap_remove(place))
        };
        let Some(gone) = gone else { return };
        if gone.is_granted {
            return self.release(gone.task.as_ref());
        }
        if let Some(task) = &gone.task {
            *task.waits_for.lock() = None;
        }
        self.lend();
    }

    /// The holder gives the lock up.
    fn release(self: &Arc<Self>, holder: Option<&Arc<Task>>) {
        if let Some(task) = holder {
            task.held.lock().retain(|held| !Arc::ptr_eq(held, self));
        }
        self.pass_on();
        if let Some(task) = holder {
            task.engine.inherit(task, task.inherits());
            if task.is_in_kernel.load(Ordering::Relaxed) && !task.holds_locks() {
                // Its group's limit may have waited for this.
                task.engine.kick(task.cpu());
            }
        }
    }

    /// Gives the lock to the most urgent waiter, who inherits from those that still wait.
    fn pass_on(self: &Arc<Self>) {
        let waker = {
            let mut state = self.state.lock();
            let State { is_held, holder, queue, waiters, .. } = &mut *state;
            let next = queue.pop();
            let next = next.and_then(|ticket| waiters.iter_mut().find(|waiter| waiter.ticket == ticket));
            (*is_held, *holder) = (next.is_some(), next.as_ref().and_then(|next| next.task.clone()));
            next.map(|next| {
                next.is_granted = true;
                if let Some(task) = &next.task {
                    *task.waits_for.lock() = None;
                    task.held.lock().push(Arc::clone(self));
                }
                next.waker.clone()
            })
        };
        if let Some(waker) = waker {
            self.lend();
            waker.wake();
        }
    }

    /// Lends what the waiters have to the holder, and on along the chain of those that holders wait
    /// for.
    fn lend(self: &Arc<Self>) {
        let mut line = Arc::clone(self);
        for _ in 0..CHAIN_MAX {
            let Some(holder) = line.state.lock().holder.clone() else { return };
            let from = holder.inherits();
            if *holder.inherited.lock() == from {
                return;
            }
            holder.engine.inherit(&holder, from);
            let Some(next) = holder.waits_for.lock().clone() else { return };
            if let Some(lends) = holder.engine.lends(&holder) {
                next.lends_anew(&holder, lends);
            }
            line = next;
        }
    }

    /// A waiter has more, or less, to lend than when it queued up.
    fn lends_anew(&self, task: &Arc<Task>, lends: Lent) {
        let mut state = self.state.lock();
        let State { queue, waiters, .. } = &mut *state;
        let own = |waiter: &&mut Waiter| waiter.task.as_ref().is_some_and(|own| Arc::ptr_eq(own, task));
        for waiter in waiters.iter_mut().filter(|waiter| !waiter.is_granted).filter(own) {
            waiter.lends = lends;
            if queue.remove(waiter.ticket) {
                queue.push_lender(waiter.ticket, lends);
            }
        }
    }
}

/// A lock for tasks, whose holder inherits from those that wait, and is spared by its group's limit
/// until it gives the lock up.
///
/// Fair to the urgent: handed over by priority, deadline tasks first by deadline, fair ones in
/// order of arrival. Not recursive.
///
/// ```
/// # use zerolag_runtime::{Builder, Mutex};
/// # use std::sync::Arc;
/// let rt = Builder::new().cpus(2).build()?;
/// let sum = Arc::new(Mutex::new(0));
/// let tasks: Vec<_> = (1..=10)
///     .map(|n| {
///         let sum = Arc::clone(&sum);
///         rt.spawn(async move { *sum.lock().await += n })
///     })
///     .collect::<Result<_, _>>()?;
/// for task in tasks {
///     rt.block_on(task)?;
/// }
/// assert_eq!(*rt.block_on(sum.lock()), 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T> {
    line: Arc<Line>,
    /// Here while nobody has the lock; with the guard otherwise.
    value: RawMutex<Option<Box<T>>>,
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Mutex<T> {
    /// Returns a lock that nobody has.
    pub fn new(value: T) -> Self {
        Self { line: Arc::default(), value: RawMutex::new(Some(Box::new(value))) }
    }

    /// Waits for the lock. Dropping the future gives its place up.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, ticket: None }
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let task = coop::current_task();
        self.line.try_take(task.as_ref()).then(|| self.guard(task))
    }

    fn guard(&self, holder: Option<Arc<Task>>) -> Guard<'_, T> {
        let value = self.value.lock().take();
        Guard { mutex: self, holder, value: Some(value.expect("invariant: whoever has the lock has the value")) }
    }
}

/// Waits for a [`Mutex`].
#[must_use = "a lock is had once it was awaited"]
pub struct Lock<'a, T> {
    mutex: &'a Mutex<T>,
    /// Its place in the queue.
    ticket: Option<TaskId>,
}

impl<T> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl<'a, T> Future for Lock<'a, T> {
    type Output = Guard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<'a, T>> {
        let (mutex, task) = (self.mutex, coop::current_task());
        let is_ours = match self.ticket {
            Some(ticket) => mutex.line.come_for(ticket, cx.waker()),
            None if mutex.line.try_take(task.as_ref()) => true,
            None => {
                let ticket = mutex.line.queue_up(task.clone(), cx.waker());
                self.ticket = Some(ticket);
                mutex.line.come_for(ticket, cx.waker())
            }
        };
        if !is_ours {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(mutex.guard(task))
    }
}

impl<T> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.mutex.line.give_up(ticket);
        }
    }
}

/// Has a [`Mutex`]; dropping it gives the lock to the next.
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    holder: Option<Arc<Task>>,
    value: Option<Box<T>>,
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("invariant: here until it is dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("invariant: here until it is dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        *self.mutex.value.lock() = self.value.take();
        self.mutex.line.release(self.holder.as_ref());
    }
}
