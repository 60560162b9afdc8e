//! [`Mutex`]: a lock with priority inheritance. The holder inherits the priority of the waiters.
//! The limit of its group does not stop it while others need the lock, within bounds
//! ([`spare`](crate::spare)).
//!
//! The lock is handed over to the most urgent waiter, as an rt-mutex is: no other task can take it
//! in between. Loans propagate along chains: to the holder of the lock that the holder waits for,
//! and so on.
//!
//! Tasks of nice 0 lend each other nothing, since a loan counts only if it is more urgent than the
//! holder. So a release between such tasks settles no loan, and the holder can pass its turn on
//! with the lock ([`relay`](crate::relay)), which a task with a loan cannot: a hand-over takes 0.2
//! us, and took 1.7 with loans that changed nothing.
//!
//! Sources: Linux v6.12 `kernel/locking/rtmutex.c`, `rt_mutex_adjust_prio_chain`; the text of 2012,
//! which demands that a task that is throttled while it holds a lock keeps running
//! ([`Caller::leave`](crate::caller::Caller::leave)).

use crate::boost::settle;
use crate::coop;
use crate::marks::Site;
use crate::state::lock::{LockQueue, LockState, LockWaiter, PLAIN, raises_plain};
use crate::state::task::{Kind, Task};
use crate::sync::Mutex as RawMutex;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use zerolag_core::Lent;
use zerolag_model::TaskId;

/// The result of an attempt to take a lock.
enum LockAttempt {
    Holds,
    Waits(TaskId),
    /// The task is in a poll that runs at nice 19: it comes again in the next one.
    TooSlow,
}

/// Returns whether a task changes neither by a loan that does not press, nor by its end: it has no
/// loan, and no limit that waiters could spare it.
fn ignores_plain_loans(task: &Task) -> bool {
    task.kind == Kind::Plain
        && !task.is_inheriting.load(Ordering::Acquire)
        && !task.is_lifted.load(Ordering::Relaxed)
        && task.group.limited().is_none()
}

impl LockState<Task> {
    /// Gives the lock to a task, which is taken. Returns `false` if the task is in a poll
    /// that is too slow to hold a lock.
    fn grant(&mut self, line: &Arc<LockQueue<Task>>, task: &mut Option<Arc<Task>>) -> bool {
        debug_assert!(!self.is_held, "a lock must have one holder");
        if task.as_ref().is_some_and(|task| !add(&task.locks().held, line, task)) {
            return false;
        }
        (self.is_held, self.holder) = (true, task.take());
        true
    }
}

/// Adds a lock to those that a task holds or waits for. Returns `false` if the task is in a poll
/// that is too slow for locks; it becomes slow only while it has none, under the lock of the list.
fn add(list: &RawMutex<Vec<Arc<LockQueue<Task>>>>, line: &Arc<LockQueue<Task>>, task: &Task) -> bool {
    let mut list = list.lock();
    let is_fast = !task.is_slow.load(Ordering::Relaxed);
    if is_fast {
        list.push(Arc::clone(line));
    }
    is_fast
}

/// Removes a lock from those that a task holds or waits for; once, since a task can wait for a lock
/// with several futures.
fn remove_from(list: &RawMutex<Vec<Arc<LockQueue<Task>>>>, line: &Arc<LockQueue<Task>>) {
    let mut list = list.lock();
    if let Some(place) = list.iter().position(|other| Arc::ptr_eq(other, line)) {
        list.swap_remove(place);
    }
}

/// Returns the locks that a task holds, or those that it waits for.
fn list_of(task: &Task, holds: bool) -> &RawMutex<Vec<Arc<LockQueue<Task>>>> {
    if holds { &task.locks().held } else { &task.locks().waits_for }
}

fn is_same(one: Option<&Arc<Task>>, other: Option<&Arc<Task>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

impl LockQueue<Task> {
    /// Takes the lock if it is free; then `task` is taken as well.
    fn try_take(self: &Arc<Self>, task: &mut Option<Arc<Task>>) -> bool {
        let mut state = self.state.lock();
        if state.is_held {
            return false;
        }
        state.grant(self, task)
    }

    /// Takes the lock if it is free, and queues up behind the holder otherwise.
    fn take_or_queue_up(self: &Arc<Self>, task: Option<&Arc<Task>>, waker: &Waker) -> LockAttempt {
        let lends = task.filter(|task| !ignores_plain_loans(task)).and_then(|task| task.engine().lends(task));
        let lends = lends.unwrap_or(PLAIN);
        let waker = waker.clone();
        let (ticket, holder) = {
            let mut state = self.state.lock();
            if !state.is_held {
                // It was released since the caller looked.
                return if state.grant(self, &mut task.cloned()) { LockAttempt::Holds } else { LockAttempt::TooSlow };
            }
            let ticket = TaskId(state.tickets);
            state.tickets = state.tickets.wrapping_add(1);
            if task.is_some_and(|task| !add(&task.locks().waits_for, self, task)) {
                return LockAttempt::TooSlow;
            }
            let (task, waker) = (task.cloned(), Some(waker));
            state.push(LockWaiter { ticket, task, lends, waker, is_granted: false });
            let holder = state.holder.as_ref().filter(|holder| raises_plain(lends) || !ignores_plain_loans(holder));
            (ticket, holder.cloned())
        };
        // The waiter as well: its own priority can have changed since it was read.
        settle(holder.into_iter().chain(task.filter(|task| !ignores_plain_loans(task)).cloned()));
        LockAttempt::Waits(ticket)
    }

    /// Takes the lock for a waiter if it has been handed to it; if not, the waiter is woken when it
    /// is. `task` polls for it; that can be another task than the one that queued up.
    fn poll_ticket(self: &Arc<Self>, ticket: TaskId, task: Option<&Arc<Task>>, waker: &Waker) -> LockAttempt {
        let mut waker = Some(waker.clone());
        // What the section removes or replaces is dropped after it.
        let (is_ours, moved, _gone) = {
            let mut state = self.state.lock();
            let place = state.index_of(ticket);
            let place = place.expect("invariant: a waiter is in the list until it takes the lock or gives up");
            let waiter = &mut state.waiters[place];
            std::mem::swap(&mut waiter.waker, &mut waker);
            let is_granted = waiter.is_granted;
            let is_moved = !is_same(waiter.task.as_ref(), task);
            if is_moved && task.is_some_and(|task| !add(list_of(task, is_granted), self, task)) {
                return LockAttempt::TooSlow;
            }
            let moved = is_moved.then(|| std::mem::replace(&mut waiter.task, task.cloned()));
            let gone = is_granted.then(|| state.waiters.swap_remove(place));
            if let Some(from) = &moved {
                if let Some(from) = from {
                    remove_from(list_of(from, is_granted), self);
                }
                if is_granted {
                    state.holder = task.cloned();
                }
            }
            (is_granted, moved.map(|from| (from, state.holder.clone())), gone)
        };
        if let Some((from, holder)) = moved {
            settle(holder.into_iter().chain(from).chain(task.cloned()));
        }
        if is_ours { LockAttempt::Holds } else { LockAttempt::Waits(ticket) }
    }

    /// Removes a waiter that gives up; if it had been granted the lock, the next waiter gets it.
    fn give_up(self: &Arc<Self>, ticket: TaskId) {
        let (gone, holder) = {
            let mut state = self.state.lock();
            let is_queued = state.queue.remove(ticket);
            let Some(place) = state.index_of(ticket) else { return };
            let gone = state.waiters.swap_remove(place);
            state.raising -= usize::from(is_queued && raises_plain(gone.lends));
            if let Some(task) = gone.task.as_ref().filter(|_| !gone.is_granted) {
                remove_from(&task.locks().waits_for, self);
            }
            (gone, state.holder.clone())
        };
        if gone.is_granted {
            return self.release();
        }
        settle(holder);
    }

    /// Releases the lock in the name of its holder.
    fn release(self: &Arc<Self>) {
        let (has_lent, holder) = self.pass_on();
        if let Some(task) = &holder {
            // Without such waiters the holder has no loan from this lock: a waiter that has left
            // since settles it.
            if has_lent || task.is_lifted.load(Ordering::Relaxed) || task.is_inheriting.load(Ordering::Acquire) {
                settle([Arc::clone(task)]);
            }
            if task.is_in_kernel() && !task.holds_locks() {
                // The limit of the task's group can have waited for this.
                task.engine().kick(task.cpu());
            }
        }
    }

    /// Hands the lock to the most urgent waiter, which inherits from the remaining waiters. Returns
    /// whether a waiter can have changed the former holder, and that holder.
    fn pass_on(self: &Arc<Self>) -> (bool, Option<Arc<Task>>) {
        let (task, waker, from, has_lent, is_to_settle) = {
            let mut state = self.state.lock();
            debug_assert!(state.is_held, "a lock must be held to be released");
            let from = state.holder.take();
            if let Some(from) = &from {
                remove_from(&from.locks().held, self);
            }
            state.is_held = false;
            let Some(ticket) = state.queue.pop() else { return (false, from) };
            let has_lent = state.raising > 0 || from.as_ref().is_some_and(|from| !ignores_plain_loans(from));
            let place = state.index_of(ticket).expect("invariant: a ticket in the queue has a waiter");
            let next = &mut state.waiters[place];
            next.is_granted = true;
            let (task, waker, was_raising) = (next.task.clone(), next.waker.take(), raises_plain(next.lends));
            state.raising -= usize::from(was_raising);
            let is_granted = state.grant(self, &mut task.clone());
            assert!(is_granted, "invariant: the poll of a task that waits for a lock is not slowed down");
            if let Some(task) = &task {
                remove_from(&task.locks().waits_for, self);
            }
            let is_to_settle = state.raising > 0 || task.as_ref().is_some_and(|task| !ignores_plain_loans(task));
            (task, waker, from, has_lent, is_to_settle)
        };
        let engine = task.as_ref().map(|task| Arc::clone(task.engine())).or_else(coop::current_engine);
        settle(task.filter(|_| is_to_settle));
        let Some(waker) = waker else { return (has_lent, from) };
        match engine {
            Some(engine) => engine.contain(|| waker.wake()),
            // No runtime is concerned that could count a panic. The panic of a waiter's waker is
            // not the panic of the holder.
            None => std::mem::forget(catch_unwind(AssertUnwindSafe(|| waker.wake()))),
        }
        (has_lent, from)
    }

    /// Updates the loan of a waiter after its priority has changed; returns whether it differs.
    pub(crate) fn lends_anew(&self, task: &Arc<Task>, lends: Lent) -> bool {
        let mut state = self.state.lock();
        let LockState { queue, waiters, raising, .. } = &mut *state;
        let own = |waiter: &&mut LockWaiter<Task>| is_same(waiter.task.as_ref(), Some(task)) && waiter.lends != lends;
        let mut is_changed = false;
        for waiter in waiters.iter_mut().filter(|waiter| !waiter.is_granted).filter(own) {
            let before = std::mem::replace(&mut waiter.lends, lends);
            if queue.remove(waiter.ticket) {
                queue.push_lender(waiter.ticket, lends);
                *raising = *raising + usize::from(raises_plain(lends)) - usize::from(raises_plain(before));
            }
            is_changed = true;
        }
        is_changed
    }
}

/// A lock for tasks. Its holder inherits the priority of the waiters. While a task outside its
/// group waits for the lock, the group's limit does not throttle the holder, within bounds
/// ([`Builder::spare_at_most`](crate::Builder::spare_at_most)).
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
    line: Arc<LockQueue<Task>>,
    /// The guard holds this lock as well. The line decides which guard there is, so it is free when
    /// it is taken, and it is one whose guard can change threads.
    value: SpinMutex<T>,
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Mutex<T> {
    /// Creates a free lock.
    pub fn new(value: T) -> Self {
        Self { line: Arc::default(), value: SpinMutex::new(value) }
    }

    /// Waits for the lock. Dropping the future gives up its place in the queue.
    #[track_caller]
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, ticket: None, site: Location::caller() }
    }

    /// Takes the lock if it is free. A poll that has lost its CPU and runs on at nice 19 gets no
    /// lock before it ends.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.line.try_take(&mut coop::current_task()).then(|| self.guard())
    }

    fn guard(&self) -> Guard<'_, T> {
        let value = self.value.try_lock();
        Guard { mutex: self, value: Some(value.expect("invariant: no guard has the value while the lock is free")) }
    }
}

/// A future that waits for a [`Mutex`].
#[must_use = "a lock is had once it was awaited"]
pub struct Lock<'a, T> {
    mutex: &'a Mutex<T>,
    /// Its place in the queue.
    ticket: Option<TaskId>,
    site: Site,
}

impl<T> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl<'a, T> Future for Lock<'a, T> {
    type Output = Guard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<'a, T>> {
        let (mutex, mut task) = (self.mutex, coop::current_task());
        coop::mark(self.site);
        if task.as_ref().is_some_and(|task| task.is_slow.load(Ordering::Relaxed)) {
            // The next poll is on another thread.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let came = match self.ticket {
            Some(ticket) => mutex.line.poll_ticket(ticket, task.as_ref(), cx.waker()),
            None if mutex.line.try_take(&mut task) => LockAttempt::Holds,
            None => mutex.line.take_or_queue_up(task.as_ref(), cx.waker()),
        };
        match came {
            LockAttempt::Holds => {
                self.ticket = None;
                Poll::Ready(mutex.guard())
            }
            LockAttempt::Waits(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
            LockAttempt::TooSlow => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
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
    value: Option<SpinMutexGuard<'a, T>>,
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("invariant: a guard has the value until it is dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("invariant: a guard has the value until it is dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Before the next guard takes it.
        self.value = None;
        self.mutex.line.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::tests::engine;
    use crate::group::Group;
    use crate::state::group::GroupState;

    /// A future that waits for a lock moves to a task whose poll is too slow for locks: it keeps
    /// its place in the name of the first task until the second one is polled anew.
    #[test]
    fn a_slow_poll_does_not_take_over_a_place() {
        shuttle::check_random(take_over_in_a_slow_poll, 1);
    }

    fn take_over_in_a_slow_poll() {
        let engine = engine();
        let root = Group { state: GroupState::root(&engine) };
        let [first, second] = [(); 2].map(|()| root.spawn(async {}).expect("room").task.clone());
        let line = Arc::<LockQueue<Task>>::default();
        assert!(line.try_take(&mut None));
        let LockAttempt::Waits(ticket) = line.take_or_queue_up(Some(&first), Waker::noop()) else {
            unreachable!("it is held")
        };
        second.is_slow.store(true, Ordering::Relaxed);
        assert!(matches!(line.poll_ticket(ticket, Some(&second), Waker::noop()), LockAttempt::TooSlow));
        line.release();
        assert_eq!((first.locks().held.lock().len(), second.locks().held.lock().len()), (1, 0));
        assert!(matches!(line.poll_ticket(ticket, Some(&second), Waker::noop()), LockAttempt::TooSlow));
        second.is_slow.store(false, Ordering::Relaxed);
        assert!(matches!(line.poll_ticket(ticket, Some(&second), Waker::noop()), LockAttempt::Holds));
        assert_eq!((first.locks().held.lock().len(), second.locks().held.lock().len()), (0, 1));
        line.release();
        assert!(line.try_take(&mut None));
        engine.end();
    }
}
