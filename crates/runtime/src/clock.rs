//! Time: the timers of run queues, groups and sleeping tasks, and the ticks of busy CPUs, all on
//! one thread.
//!
//! Ticks lie on the grid of `hz` and reach only CPUs that run a task; while all CPUs idle there are
//! none. A tick or a timer of a CPU is a call under the lock of its run queue. It does not need the
//! CPU's own thread, which can be in the middle of a poll.
//!
//! The thread competes for the processors of the machine like any other, and beside other programs
//! it can wait for one for milliseconds, in which the CPUs would run tasks that are less urgent
//! than the ones whose timers are due. So a CPU looks at the earliest expiry after each switch, and
//! fires timers that are overdue by [`LATE`] itself.

use crate::caller::Caller;
use crate::coop;
use crate::engine::Engine;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use zerolag_core::call::Call;
use zerolag_core::{GroupTimer, RqTimer};
use zerolag_model::{CpuId, GroupId, Instant};

/// Returns the current time. A runtime schedules by it; results of simulations never depend on it.
#[expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]
pub(crate) fn std_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the clock behind `std::time::Instant`, in nanoseconds. A difference of two `Instant`s
/// costs twice as much, and the clock is read twice in a switch between tasks.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The clock of a runtime. Tests of single calls set it, so that their result does not depend on
/// the machine.
#[derive(Debug)]
pub(crate) enum TimeSource {
    Real {
        began: std::time::Instant,
        /// The same time by the clock of the system, in nanoseconds.
        nanos: u64,
    },
    #[cfg(test)]
    Set(std::sync::atomic::AtomicU64),
}

impl TimeSource {
    pub(crate) fn real() -> Self {
        Self::Real { began: std_now(), nanos: monotonic() }
    }

    /// Returns the time since the runtime was built.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Real { nanos, .. } => Instant::from_nanos(monotonic() - nanos),
            #[cfg(test)]
            Self::Set(now) => Instant::from_nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Returns the instant of the system at which the clock shows `at`.
    fn as_std(&self, at: Instant) -> std::time::Instant {
        match self {
            Self::Real { began, .. } => *began + std::time::Duration::from_nanos(at.as_nanos()),
            #[cfg(test)]
            Self::Set(_) => unreachable!("no thread waits for a clock that is set"),
        }
    }
}

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
struct Apart<T>(T);

/// A timer of the scheduler.
#[derive(Clone, Copy, Debug)]
enum Due {
    Rq(CpuId, RqTimer),
    /// A group timer that was rearmed stays in the queue and expires without effect: the core
    /// compares the time.
    Group(GroupId, GroupTimer),
}

/// The scheduler's timers are apart from the sleeps, of which there can be a hundred thousand: a
/// limit ends at its time also while many tasks wake.
#[derive(Debug)]
struct Timers {
    queue: BTreeMap<Key, Due>,
    sleeps: BTreeMap<Key, Waker>,
    /// Per CPU and timer: its key in the queue.
    armed: Vec<[Option<Key>; RqTimer::ALL.len()]>,
    count: u64,
    /// Whether the thread has to serve ticks.
    is_ticking: bool,
}

/// The timers that are due.
#[derive(Debug, Default)]
struct Expired {
    timers: Vec<Due>,
    sleeps: Vec<Waker>,
}

impl Expired {
    const fn is_empty(&self) -> bool {
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
    fn first(&self) -> Option<Instant> {
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
    timers: Mutex<Timers>,
    changed: Condvar,
    /// No sleep that ends before this time, in nanoseconds, is in the queue.
    passed: AtomicU64,
    /// No timer expires before this time, in nanoseconds. Written under the lock.
    first: Apart<AtomicU64>,
    /// The thread has taken timers that are due, and fires them.
    is_firing: AtomicBool,
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
            first: Apart(AtomicU64::new(u64::MAX)),
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
    fn is_late(&self, now: Instant) -> bool {
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
    fn take_due(&self, timers: &mut Timers, now: Instant) -> Expired {
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

/// Runs the thread of the clock.
pub(crate) fn run(engine: &Arc<Engine>) {
    // The slack that the kernel can add to every wait; the default is 50 us.
    if !cfg!(miri) {
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    }
    let tick = engine.scheduler.config().settings().tick_period();
    let mut next_tick = Instant::ZERO;
    loop {
        let (now, due) = {
            let mut timers = engine.timeline.timers.lock();
            loop {
                if engine.is_stopping.load(Ordering::Acquire) {
                    return;
                }
                let now = engine.now();
                let due = engine.timeline.take_due(&mut timers, now);
                if timers.is_ticking && next_tick <= now || !due.is_empty() {
                    engine.timeline.is_firing.store(true, Ordering::Relaxed);
                    break (now, due);
                }
                let tick_at = timers.is_ticking.then_some(next_tick);
                match timers.first().into_iter().chain(tick_at).min() {
                    Some(at) => {
                        let until = engine.time.as_std(at);
                        engine.timeline.changed.wait_until(&mut timers, until);
                    }
                    None => engine.timeline.changed.wait(&mut timers),
                }
            }
        };
        fire_all(engine, due);
        engine.timeline.is_firing.store(false, Ordering::Relaxed);
        if next_tick <= now {
            next_tick = (now + tick).round_down_to(tick);
            tick_all(engine);
        }
    }
}

/// Fires the timers that are overdue, if the thread of the clock does not. Called by CPUs, at a
/// time that they have read anyway.
pub(crate) fn catch_up(engine: &Arc<Engine>, now: Instant) {
    if engine.timeline.is_late(now) {
        let due = {
            let mut timers = engine.timeline.timers.lock();
            engine.timeline.take_due(&mut timers, now)
        };
        fire_all(engine, due);
    }
}

/// Fires timers that are due. The tasks that they wake are placed together.
fn fire_all(engine: &Arc<Engine>, due: Expired) {
    due.timers.into_iter().for_each(|timer| fire(engine, timer));
    if due.sleeps.is_empty() {
        return;
    }
    let wake = || due.sleeps.into_iter().for_each(|waker| engine.contain(|| waker.wake()));
    Caller::new(engine, CpuId(0)).wake_all(coop::gathering(wake));
}

fn fire(engine: &Arc<Engine>, due: Due) {
    match due {
        Due::Rq(cpu, timer) => Caller::new(engine, cpu).make(Call::Timer { cpu, timer }),
        Due::Group(group, timer) => {
            let by = CpuId(0);
            Caller::new(engine, by).make(Call::GroupTimer { group, timer, by });
        }
    }
}

/// Fires the timers that are due and ticks the busy CPUs, in tests that set the clock.
#[cfg(test)]
pub(crate) fn step(engine: &Arc<Engine>) {
    loop {
        let due = {
            let mut timers = engine.timeline.timers.lock();
            let now = engine.now();
            engine.timeline.take_due(&mut timers, now)
        };
        if due.is_empty() {
            break;
        }
        fire_all(engine, due);
    }
    tick_all(engine);
}

fn tick_all(engine: &Arc<Engine>) {
    let mut any = false;
    for cpu in engine.scheduler.config().topology().cpus() {
        if engine.cpus[cpu.index()].is_busy.load(Ordering::SeqCst) {
            any = true;
            engine.wake_postponed(cpu);
            Caller::new(engine, cpu).make(Call::Tick { cpu });
            engine.look_after(cpu);
        }
    }
    engine.slow_down();
    engine.blocking.charge();
    // Without ticks it would not be seen that a poll counts no longer.
    any |= !engine.held_back.is_empty();
    if !any {
        engine.timeline.timers.lock().is_ticking = false;
        // A CPU can have become busy between the two checks.
        if engine.cpus.iter().any(|cpu| cpu.is_busy.load(Ordering::SeqCst)) {
            engine.timeline.timers.lock().is_ticking = true;
        }
    }
}
