//! Objects that tasks share, on futexes: mutexes, conditions, barriers, semaphores, suspend points,
//! timers.
//!
//! * A plain mutex is a futex of three states (free, held, held with waiters), as in a C library:
//!   the kernel queues waiters, and the first thread that tries after the release gets it.
//! * A mutex with priority inheritance is a PI futex: the kernel hands it over and lends
//!   priorities.
//! * The others wake *exactly* the threads that the program means ([`crate::park`]). A C library's
//!   condition variable can wake spuriously, and programs of a workload have no loop around their
//!   waits that would catch that.
//!
//! Every wait ends at the run's end at the latest.
//!
//! Sources: `futex(2)`; Drepper 2011, *Futexes are tricky*, sec. 6 (mutex 2).

use crate::clock;
use crate::park::{EVERYBODY, End, Parker, WaitList, Waited, Waiter, lock, wait_while};
use crate::pipe::Pipe;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::thread::gettid;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use zerolag_model::{Duration, Instant};
use zerolag_workload::Stream;
use zerolag_workload::program::{Resource, ResourceId, ResourceKind};

/// An object that tasks share.
#[derive(Debug)]
pub(crate) enum Shared {
    Mutex(AtomicU32),
    PiMutex(AtomicU32),
    Condition(Mutex<WaitList>),
    Barrier { parties: u32, waiters: Mutex<WaitList> },
    Semaphore(Mutex<(u32, WaitList)>),
    Timer(Mutex<Option<Instant>>),
    Queue(Mutex<Queue>),
    Pipe(Pipe),
}

/// Waiting requests, and the workers that wait for requests.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    capacity: Option<u32>,
    requests: VecDeque<Sent>,
    waiters: WaitList,
    /// The number of the next request.
    next: u64,
    /// The number of sources and tasks that may still send; after the last one no request arrives.
    senders: u32,
}

/// A request between its sender and a worker.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its number in its queue.
    pub(crate) request: u64,
    pub(crate) by: Sender,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) enum Sender {
    /// The queue's source, as its n-th.
    Source { nth: u64 },
    /// A task; `waits` is the task that waits for completion. The request's random stream follows
    /// from the key.
    Task { waits: Option<Waiter>, key: u64 },
}

/// The answer to a worker that asks for a request.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// This one.
    Request(Sent),
    /// None yet: the worker is in the list of waiters and must park.
    Later,
    /// None will ever arrive.
    Never,
}

/// The request that a thread works on.
#[derive(Debug)]
pub(crate) struct InService {
    pub(crate) queue: ResourceId,
    pub(crate) request: u64,
    /// The random stream of the request.
    pub(crate) stream: Stream,
    /// The task that waits for its completion.
    pub(crate) waits: Option<Waiter>,
}

/// Why a mutex was not acquired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockError {
    /// The run is over, or the thread is to end.
    Over,
    /// The kernel found a circle of owners.
    Deadlock,
}

/// A [`Shared`] that is a mutex: its futex word.
enum MutexWord<'a> {
    /// Free, held, or held with a sleeping waiter: 0, 1, 2.
    Plain(&'a AtomicU32),
    /// In the kernel's format: the holder's thread id.
    Inheriting(&'a AtomicU32),
}

impl Shared {
    /// Creates it.
    ///
    /// # Errors
    /// The kernel refuses a pipe.
    pub(crate) fn new(resource: &Resource) -> std::io::Result<Self> {
        Ok(match resource.kind {
            ResourceKind::Mutex { inherit: false } => Self::Mutex(AtomicU32::new(0)),
            ResourceKind::Mutex { inherit: true } => Self::PiMutex(AtomicU32::new(0)),
            ResourceKind::Condition | ResourceKind::SuspendPoint => Self::Condition(Mutex::default()),
            ResourceKind::Barrier { parties } => Self::Barrier { parties, waiters: Mutex::default() },
            ResourceKind::Semaphore { initial } => Self::Semaphore(Mutex::new((initial, WaitList::default()))),
            // The plan refuses these: semaphores, disks and files of the kernel.
            ResourceKind::Timer
            | ResourceKind::RwSemaphore
            | ResourceKind::SpinLock
            | ResourceKind::UserSpinLock { .. }
            | ResourceKind::Disk(_)
            | ResourceKind::File(_) => Self::Timer(Mutex::new(None)),
            ResourceKind::Queue { capacity } => Self::Queue(Mutex::new(Queue { capacity, ..Queue::default() })),
            ResourceKind::Pipe { capacity } => Self::Pipe(Pipe::new(capacity)?),
        })
    }

    /// Returns its futex word; it must be a mutex.
    fn mutex(&self) -> MutexWord<'_> {
        match self {
            Self::Mutex(word) => MutexWord::Plain(word),
            Self::PiMutex(word) => MutexWord::Inheriting(word),
            Self::Condition(_)
            | Self::Barrier { .. }
            | Self::Semaphore(_)
            | Self::Timer(_)
            | Self::Queue(_)
            | Self::Pipe(_) => unreachable!("{CHECKED}"),
        }
    }

    /// Takes a mutex if it is free.
    pub(crate) fn try_lock(&self) -> bool {
        let (word, mine) = match self.mutex() {
            MutexWord::Plain(word) => (word, 1),
            MutexWord::Inheriting(word) => (word, my_id()),
        };
        word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Removes a thread that is to end from the list in which it waits.
    pub(crate) fn forget(&self, parker: &Arc<Parker>) {
        match self {
            Self::Condition(waiters) | Self::Barrier { waiters, .. } => drop(lock(waiters).forget(parker)),
            Self::Semaphore(state) => drop(lock(state).1.forget(parker)),
            Self::Queue(queue) => drop(lock(queue).waiters.forget(parker)),
            Self::Mutex(_) | Self::PiMutex(_) | Self::Timer(_) | Self::Pipe(_) => {}
        }
    }

    /// Removes a worker that waits for a request; returns whether it did.
    pub(crate) fn forget_worker(&self, parker: &Arc<Parker>) -> bool {
        match self {
            Self::Queue(queue) => lock(queue).waiters.forget(parker),
            Self::Condition(_)
            | Self::Barrier { .. }
            | Self::Semaphore(_)
            | Self::Mutex(_)
            | Self::PiMutex(_)
            | Self::Timer(_)
            | Self::Pipe(_) => false,
        }
    }

    /// Makes all waiters of a plain mutex check their state.
    pub(crate) fn disturb(&self) {
        match self {
            Self::Mutex(word) => drop(futex::wake(word, Flags::PRIVATE, EVERYBODY)),
            Self::PiMutex(_)
            | Self::Condition(_)
            | Self::Barrier { .. }
            | Self::Semaphore(_)
            | Self::Timer(_)
            | Self::Queue(_)
            | Self::Pipe(_) => {}
        }
    }

    /// Returns its pipe.
    pub(crate) fn pipe(&self) -> &Pipe {
        let Self::Pipe(pipe) = self else { unreachable!("{CHECKED}") };
        pipe
    }

    /// Releases one thread whose wait only the kernel can end, after the run's end.
    pub(crate) fn let_go(&self) {
        if let Self::Pipe(pipe) = self {
            pipe.let_go();
        }
    }

    /// Takes a mutex that was not free.
    pub(crate) fn lock(&self, me: &Parker, end: &End) -> Result<(), LockError> {
        match self.mutex() {
            MutexWord::Plain(word) => lock_plain(word, me, end),
            MutexWord::Inheriting(word) => lock_pi(word, end),
        }
    }

    /// Releases a mutex that the caller holds.
    pub(crate) fn unlock(&self) {
        match self.mutex() {
            MutexWord::Plain(word) => {
                if word.swap(0, Ordering::Release) == 2 {
                    let _ = futex::wake(word, Flags::PRIVATE, 1);
                }
            }
            MutexWord::Inheriting(word) => {
                if word.compare_exchange(my_id(), 0, Ordering::Release, Ordering::Relaxed).is_err() {
                    let _ = futex::unlock_pi(word, Flags::PRIVATE);
                }
            }
        }
    }

    /// Queues the caller at a condition; [`wait`](Self::wait) then sleeps. In between the caller
    /// releases its mutex.
    pub(crate) fn enlist(&self, me: &Waiter) {
        let Self::Condition(waiters) = self else { unreachable!("{CHECKED}") };
        lock(waiters).push(me);
    }

    /// Sleeps until woken.
    pub(crate) fn wait(me: &Waiter, end: &End) -> Waited {
        me.parker.park(end)
    }

    /// Wakes up to `most` threads that wait at a condition.
    pub(crate) fn wake(&self, most: usize) {
        let Self::Condition(waiters) = self else { unreachable!("{CHECKED}") };
        let woken = lock(waiters).take(most);
        woken.iter().for_each(Waiter::wake);
    }

    /// Arrives at a barrier.
    pub(crate) fn arrive(&self, me: &Waiter, end: &End) -> Waited {
        let Self::Barrier { parties, waiters } = self else { unreachable!("{CHECKED}") };
        let mut waiters = lock(waiters);
        if waiters.len() + 1 < *parties as usize {
            waiters.push(me);
            drop(waiters);
            return me.parker.park(end);
        }
        let woken = waiters.take(usize::MAX);
        drop(waiters);
        woken.iter().for_each(Waiter::wake);
        Waited::Woken(None)
    }

    /// Raises a semaphore, or hands the unit to a waiter.
    pub(crate) fn post(&self) {
        let Self::Semaphore(state) = self else { unreachable!("{CHECKED}") };
        let mut state = lock(state);
        match state.1.pop() {
            None => state.0 += 1,
            Some(waiter) => {
                drop(state);
                waiter.wake();
            }
        }
    }

    /// Lowers a semaphore.
    pub(crate) fn take(&self, me: &Waiter, end: &End) -> Waited {
        let Self::Semaphore(state) = self else { unreachable!("{CHECKED}") };
        let mut state = lock(state);
        if let Some(left) = state.0.checked_sub(1) {
            state.0 = left;
            return Waited::Woken(None);
        }
        state.1.push(me);
        drop(state);
        me.parker.park(end)
    }

    /// Returns the number of the next request.
    pub(crate) fn next_number(&self) -> u64 {
        let Self::Queue(queue) = self else { unreachable!("{CHECKED}") };
        let mut queue = lock(queue);
        queue.next += 1;
        queue.next - 1
    }

    /// Queues a request and wakes one waiting worker; `false` if the queue is full.
    pub(crate) fn offer(&self, sent: Sent) -> bool {
        let Self::Queue(queue) = self else { unreachable!("{CHECKED}") };
        let mut queue = lock(queue);
        if queue.capacity.is_some_and(|capacity| queue.requests.len() >= capacity as usize) {
            return false;
        }
        queue.requests.push_back(sent);
        let waiter = queue.waiters.pop();
        drop(queue);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        true
    }

    /// Asks for a request.
    pub(crate) fn ask(&self, me: &Waiter) -> Asked {
        let Self::Queue(queue) = self else { unreachable!("{CHECKED}") };
        let mut queue = lock(queue);
        match queue.requests.pop_front() {
            Some(sent) => Asked::Request(sent),
            None if queue.senders == 0 => Asked::Never,
            None => {
                queue.waiters.push(me);
                Asked::Later
            }
        }
    }

    /// Adds a sender.
    pub(crate) fn add_sender(&self) {
        let Self::Queue(queue) = self else { unreachable!("{CHECKED}") };
        lock(queue).senders += 1;
    }

    /// Removes a sender; after the last one no request arrives.
    pub(crate) fn sender_goes(&self) {
        let Self::Queue(queue) = self else { unreachable!("{CHECKED}") };
        let mut queue = lock(queue);
        queue.senders = queue.senders.saturating_sub(1);
        if queue.senders > 0 {
            return;
        }
        let woken = queue.waiters.take(usize::MAX);
        drop(queue);
        woken.iter().for_each(Waiter::wake);
    }

    /// Returns the next expiry of a shared timer and advances it; see [`next_expiry`].
    pub(crate) fn expire(&self, advance: impl FnOnce(&mut Option<Instant>) -> Instant) -> Instant {
        let Self::Timer(next) = self else { unreachable!("{CHECKED}") };
        advance(&mut lock(next))
    }
}

/// Advances a periodic timer and returns the expiry that it had.
pub(crate) fn next_expiry(
    next: &mut Option<Instant>,
    start: Instant,
    period: Duration,
    relative_now: Option<Instant>,
) -> Instant {
    let due = next.unwrap_or(start).saturating_add(period);
    *next = Some(relative_now.filter(|now| due < *now).unwrap_or(due));
    due
}

fn my_id() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

fn lock_plain(word: &AtomicU32, me: &Parker, end: &End) -> Result<(), LockError> {
    while word.swap(2, Ordering::Acquire) != 0 {
        if end.is_over(clock::now()) || me.is_ended() {
            return Err(LockError::Over);
        }
        let _ = wait_while(word, 2, end.at());
    }
    Ok(())
}

fn lock_pi(word: &AtomicU32, end: &End) -> Result<(), LockError> {
    let mine = my_id();
    loop {
        if word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        match futex::lock_pi2(word, Flags::PRIVATE, Some(&clock::timespec(end.at()))) {
            Ok(()) => return Ok(()),
            Err(Errno::DEADLK) => return Err(LockError::Deadlock),
            // Kernels before 5.14: without a time limit, because their time limit is on the wall
            // clock.
            Err(Errno::NOSYS) => match futex::lock_pi(word, Flags::PRIVATE, None) {
                Ok(()) => return Ok(()),
                Err(Errno::DEADLK) => return Err(LockError::Deadlock),
                Err(_) => {}
            },
            Err(_) => {}
        }
        if end.is_over(clock::now()) {
            return Err(LockError::Over);
        }
    }
}

/// Why an action never meets a resource of another kind.
const CHECKED: &str = "the program was checked";
