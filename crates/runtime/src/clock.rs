//! Time: the timers of run queues, groups and sleeping tasks, and the ticks of busy CPUs, all on
//! one thread.
//!
//! Ticks lie on the grid of `hz` and reach only CPUs that run a task; while all CPUs idle there are
//! none. A tick or a timer of a CPU is a call under the lock of its run queue. It does not need the
//! CPU's own thread, which can be in the middle of a poll.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::sync::{Condvar, Mutex};
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

/// The key of a timer in the queue: its expiry, and a number that makes it unique.
pub(crate) type Key = (Instant, u64);

#[derive(Debug)]
enum Due {
    Rq(CpuId, RqTimer),
    /// A group timer that was rearmed stays in the queue and expires without effect: the core
    /// compares the time.
    Group(GroupId, GroupTimer),
    Sleep(Waker),
}

#[derive(Debug)]
struct Timers {
    queue: BTreeMap<Key, Due>,
    /// Per CPU and timer: its key in the queue.
    armed: Vec<[Option<Key>; RqTimer::ALL.len()]>,
    count: u64,
    /// Whether the thread has to serve ticks.
    is_ticking: bool,
}

impl Timers {
    /// Removes the timers that are due.
    fn take_due(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, what) = entry.remove_entry();
            if let Due::Rq(cpu, timer) = what {
                let armed = &mut self.armed[cpu.index()][timer.index()];
                *armed = armed.filter(|armed| *armed != key);
            }
            due.push(what);
        }
        due
    }
}

/// All pending timers. Its lock is taken inside the locks of run queues.
#[derive(Debug)]
pub(crate) struct Timeline {
    timers: Mutex<Timers>,
    changed: Condvar,
}

impl Timeline {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        let armed = vec![[None; RqTimer::ALL.len()]; nr_cpus];
        let timers = Timers { queue: BTreeMap::new(), armed, count: 0, is_ticking: false };
        Self { timers: Mutex::new(timers), changed: Condvar::new() }
    }

    fn insert(&self, timers: &mut Timers, at: Instant, due: Due) -> Key {
        let key = (at, timers.count);
        timers.count += 1;
        timers.queue.insert(key, due);
        if timers.queue.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.changed.notify_one();
        }
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
        self.insert(&mut self.timers.lock(), at, Due::Sleep(waker))
    }

    pub(crate) fn forget(&self, key: Key) {
        // Its waker is dropped without the lock.
        let _due = self.timers.lock().queue.remove(&key);
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
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
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
                let due = timers.take_due(now);
                if timers.is_ticking && next_tick <= now || !due.is_empty() {
                    break (now, due);
                }
                let first = timers.queue.first_key_value().map(|(key, _)| key.0);
                let tick_at = timers.is_ticking.then_some(next_tick);
                match first.into_iter().chain(tick_at).min() {
                    Some(at) => {
                        let until = engine.time.as_std(at);
                        engine.timeline.changed.wait_until(&mut timers, until);
                    }
                    None => engine.timeline.changed.wait(&mut timers),
                }
            }
        };
        for what in due {
            fire(engine, what);
        }
        if next_tick <= now {
            next_tick = (now + tick).round_down_to(tick);
            tick_all(engine);
        }
    }
}

fn fire(engine: &Arc<Engine>, due: Due) {
    match due {
        Due::Sleep(waker) => engine.contain(|| waker.wake()),
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
            timers.take_due(now)
        };
        if due.is_empty() {
            break;
        }
        due.into_iter().for_each(|what| fire(engine, what));
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
