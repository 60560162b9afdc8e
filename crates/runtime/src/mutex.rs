//! [`Mutex`]: a lock with priority inheritance. The holder inherits the priority of the waiters,
//! and its group's limit does not throttle it until it releases the lock.
//!
//! The lock is handed over to the most urgent waiter, as an rt-mutex is: no other task can take it
//! in between. Loans propagate along chains: to the holder of the lock that the holder waits for,
//! and so on.
//!
//! Sources: Linux v6.12 `kernel/locking/rtmutex.c`, `rt_mutex_adjust_prio_chain`; the text of 2012,
//! which demands that a task that is throttled while it holds a lock keeps running
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

/// The longest chain of locks along which loans propagate (Linux `max_lock_depth`).
const CHAIN_MAX: u32 = 1024;

/// The holder and the waiters of a lock.
#[derive(Debug, Default)]
pub(crate) struct Line {
    state: RawMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_held: bool,
    /// The task that holds the lock; `None` if the holder is a thread outside the runtime.
    holder: Option<Arc<Task>>,
    /// The tickets of the waiters, most urgent first.
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
    /// The lock has been handed to this waiter, which has not taken it yet.
    is_granted: bool,
}

impl Line {
    /// Returns the loan of the most urgent waiter.
    pub(crate) fn most_urgent(&self) -> Option<Lent> {
        let state = self.state.lock();
        let first = state.queue.first()?;
        state.waiters.iter().find(|waiter| waiter.ticket == first).map(|waiter| waiter.lends)
    }

    /// Takes the lock if it is free.
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

    /// Queues up behind the holder.
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
            self.pass_on(); // It was released since the caller looked.
        }
        ticket
    }

    /// Returns whether a waiter holds the lock now; if not, it is woken when it does.
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

    /// Removes a waiter that gives up; if it had been granted the lock, the next waiter gets it.
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

    /// Releases the lock of a holder.
    fn release(self: &Arc<Self>, holder: Option<&Arc<Task>>) {
        if let Some(task) = holder {
            task.held.lock().retain(|held| !Arc::ptr_eq(held, self));
        }
        self.pass_on();
        if let Some(task) = holder {
            task.engine.inherit(task, task.inherits());
            if task.is_in_kernel.load(Ordering::Relaxed) && !task.holds_locks() {
                // The limit of the task's group can have waited for this.
                task.engine.kick(task.cpu());
            }
        }
    }

    /// Hands the lock to the most urgent waiter, which inherits from the remaining waiters.
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

    /// Propagates the loan of the waiters to the holder, and along the chain of locks that holders
    /// wait for.
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

    /// Updates the loan of a waiter after its priority has changed.
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

/// A lock for tasks. Its holder inherits the priority of the waiters, and is not throttled by its
/// group's limit until it releases the lock.
///
/// It is handed over by priority: deadline tasks first and by deadline, fair tasks in order of
/// arrival. It is not recursive.
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
    /// The value while the lock is free; the guard has it otherwise.
    value: RawMutex<Option<Box<T>>>,
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Mutex<T> {
    /// Creates a free lock.
    pub fn new(value: T) -> Self {
        Self { line: Arc::default(), value: RawMutex::new(Some(Box::new(value))) }
    }

    /// Waits for the lock. Dropping the future gives up its place in the queue.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, ticket: None }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let task = coop::current_task();
        self.line.try_take(task.as_ref()).then(|| self.guard(task))
    }

    fn guard(&self, holder: Option<Arc<Task>>) -> Guard<'_, T> {
        let value = self.value.lock().take();
        Guard { mutex: self, holder, value: Some(value.expect("invariant: whoever has the lock has the value")) }
    }
}

/// A future that waits for a [`Mutex`].
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

/// A held [`Mutex`]; dropping it hands the lock to the next waiter.
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
