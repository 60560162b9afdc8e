//! [`Timeline`]: the timers of run queues, groups and sleeping tasks, in order of time.

use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::task::Waker;
use zerolag_core::{GroupTimer, RqTimer};
use zerolag_model::{CpuId, GroupId, Instant};

/// The key of a timer in its queue: its expiry, and a number that makes it unique.
pub(crate) type Key = (Instant, u64);

/// How many sleeping tasks are woken at most before ticks and timers of the scheduler are served
/// again.
const SLEEPS_MAX: usize = 256;

/// By how much a timer is overdue when the CPUs fire it. The thread of the clock needs less if it
/// has a processor.
const LATE: u64 = 50_000;

/// A value that CPUs read after every switch, in a cache line that is written only with it.
#[derive(Debug)]
#[repr(align(128))]
struct CacheLine<T>(T);

/// A timer of the scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    Rq(CpuId, RqTimer),
    /// A group timer that was rearmed stays in the queue and expires without effect: the core
    /// compares the time.
    Group(GroupId, GroupTimer),
}

/// The scheduler's timers are apart from the sleeps, of which there can be a hundred thousand: a
/// limit ends at its time also while many tasks wake.
#[derive(Debug)]
pub(crate) struct Timers {
    queue: BTreeMap<Key, Due>,
    sleeps: BTreeMap<Key, Waker>,
    /// Per CPU and timer: its key in the queue.
    armed: Vec<[Option<Key>; RqTimer::ALL.len()]>,
    count: u64,
    /// Whether the thread has to serve ticks.
    pub(crate) is_ticking: bool,
}

/// The timers that are due.
#[derive(Debug, Default)]
pub(crate) struct Expired {
    pub(crate) timers: Vec<Due>,
    pub(crate) sleeps: Vec<Waker>,
}

impl Expired {
    pub(crate) const fn is_empty(&self) -> bool {
        self.timers.is_empty() && self.sleeps.is_empty()
    }
}

impl Timers {
    /// Returns the next key.
    const fn key(&mut self, at: Instant) -> Key {
        self.count += 1;
        (at, self.count)
    }

    /// Returns the earliest expiry.
    pub(crate) fn first(&self) -> Option<Instant> {
        let (timer, sleep) = (self.queue.first_key_value(), self.sleeps.first_key_value());
        timer.map(|(key, _)| key.0).into_iter().chain(sleep.map(|(key, _)| key.0)).min()
    }

    /// Removes the timers that are due; of the sleeps the first [`SLEEPS_MAX`].
    fn take_due(&mut self, now: Instant) -> Expired {
        let mut due = Expired::default();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, what) = entry.remove_entry();
            if let Due::Rq(cpu, timer) = what {
                let armed = &mut self.armed[cpu.index()][timer.index()];
                *armed = armed.filter(|armed| *armed != key);
            }
            due.timers.push(what);
        }
        while due.sleeps.len() < SLEEPS_MAX
            && let Some(entry) = self.sleeps.first_entry().filter(|entry| entry.key().0 <= now)
        {
            due.sleeps.push(entry.remove());
        }
        due
    }
}

/// All pending timers. Its lock is taken inside the locks of run queues.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) timers: Mutex<Timers>,
    pub(crate) changed: Condvar,
    /// No sleep that ends before this time, in nanoseconds, is in the queue.
    passed: AtomicU64,
    /// No timer expires before this time, in nanoseconds. Written under the lock.
    first: CacheLine<AtomicU64>,
    /// The thread has taken timers that are due, and fires them.
    pub(crate) is_firing: AtomicBool,
}

impl Timeline {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        let armed = vec![[None; RqTimer::ALL.len()]; nr_cpus];
        let (queue, sleeps) = (BTreeMap::new(), BTreeMap::new());
        let timers = Timers { queue, sleeps, armed, count: 0, is_ticking: false };
        Self {
            timers: Mutex::new(timers),
            changed: Condvar::new(),
            passed: AtomicU64::new(0),
            first: CacheLine(AtomicU64::new(u64::MAX)),
            is_firing: AtomicBool::new(false),
        }
    }

    /// Wakes the thread if a timer that is added is the first one.
    fn announce(&self, timers: &Timers, at: Instant) {
        if timers.first().is_none_or(|first| at < first) {
            self.first.0.store(at.as_nanos(), Ordering::Relaxed);
            self.changed.notify_one();
        }
    }

    /// Returns whether timers are overdue, and the thread has not begun to fire them.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let first = self.first.0.load(Ordering::Relaxed);
        now.as_nanos() >= first.saturating_add(LATE) && !self.is_firing.load(Ordering::Relaxed)
    }

    fn insert(&self, timers: &mut Timers, at: Instant, due: Due) -> Key {
        self.announce(timers, at);
        let key = timers.key(at);
        timers.queue.insert(key, due);
        key
    }

    pub(crate) fn arm(&self, cpu: CpuId, timer: RqTimer, at: Instant) {
        let mut timers = self.timers.lock();
        let key = self.insert(&mut timers, at, Due::Rq(cpu, timer));
        if let Some(replaced) = timers.armed[cpu.index()][timer.index()].replace(key) {
            timers.queue.remove(&replaced);
        }
    }

    pub(crate) fn cancel(&self, cpu: CpuId, timer: RqTimer) {
        let mut timers = self.timers.lock();
        if let Some(key) = timers.armed[cpu.index()][timer.index()].take() {
            timers.queue.remove(&key);
        }
    }

    pub(crate) fn arm_group(&self, group: GroupId, timer: GroupTimer, at: Instant) {
        self.insert(&mut self.timers.lock(), at, Due::Group(group, timer));
    }

    /// Calls a waker at a given time, unless `forget` is called before.
    pub(crate) fn remember(&self, at: Instant, waker: Waker) -> Key {
        let mut timers = self.timers.lock();
        self.announce(&timers, at);
        let key = timers.key(at);
        timers.sleeps.insert(key, waker);
        key
    }

    /// Forgets a sleep. One that has expired is not looked for: a hundred thousand tasks that wake
    /// at once would do so one after the other.
    pub(crate) fn forget(&self, key: Key) {
        if key.0.as_nanos() >= self.passed.load(Ordering::Acquire) {
            // Its waker is dropped without the lock.
            let _waker = self.timers.lock().sleeps.remove(&key);
        }
    }

    /// Removes the timers that are due. The caller holds the lock.
    pub(crate) fn take_due(&self, timers: &mut Timers, now: Instant) -> Expired {
        let due = timers.take_due(now);
        if !due.sleeps.is_empty() {
            let passed = timers.sleeps.first_key_value().map_or(now, |(key, _)| key.0.min(now));
            self.passed.fetch_max(passed.as_nanos(), Ordering::Release);
        }
        let first = timers.first().map_or(u64::MAX, Instant::as_nanos);
        self.first.0.store(first, Ordering::Relaxed);
        due
    }

    /// Starts the ticks: a CPU runs a task.
    pub(crate) fn begin_ticks(&self) {
        let mut timers = self.timers.lock();
        if !timers.is_ticking {
            timers.is_ticking = true;
            self.changed.notify_one();
        }
    }

    /// Wakes the thread, so that it sees that it has to end.
    pub(crate) fn stop(&self) {
        let _timers = self.timers.lock();
        self.changed.notify_one();
    }
}
