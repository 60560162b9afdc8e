//! Whether a poll ignores a request to yield.
//!
//! The wall clock alone does not say so: the kernel can have preempted the thread, and a
//! hypervisor the whole machine. A CPU whose thread does not run is not served better by another
//! thread, which then competes with the first. A poll ignores a request if its thread
//!
//! * has used CPU time since, at least a part of the time allowed, or sleeps in a system call;
//! * and the clock has seen as many ticks: a machine that stood still catches up with one.
//!
//! A poll that ignores it keeps its CPU for a while if others wait for a lock that its task holds.
//! On a thread beside the CPUs it would compete with them for the processors, and an urgent task
//! that comes for the lock would wait longer than if no CPU were ever handed over.

use crate::meter::ThreadClock;
use zerolag_model::{Duration, Instant};

/// The CPU time that the threads which have lost their CPU get at their old priority, in equal
/// parts. With 50 ms for each of them, eight polls of 50 ms competed with the CPUs of the scheduler
/// as equals, and requests waited for 16 ms.
const SLOW_AFTER: Duration = Duration::from_millis(50);

/// Returns the CPU time after which one of `threads` is slowed down.
pub(crate) fn slow_after(threads: usize) -> Duration {
    Duration::from_nanos(SLOW_AFTER.as_nanos() / (threads as u64).max(1))
}

/// What the kernel says about a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// It waits in a system call; otherwise it runs, or waits for a processor.
    pub(crate) sleeps: bool,
    /// Its CPU time.
    pub(crate) used: Duration,
}

impl Sample {
    /// Reads the state of a thread of this process; `None` if the kernel does not report it.
    pub(crate) fn of(tid: rustix::thread::Pid) -> Option<Self> {
        let used = ThreadClock::of(tid).read()?;
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", tid.as_raw_nonzero())).ok()?;
        // The name before it can contain spaces and parentheses.
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        Some(Self { sleeps: state != 'R', used })
    }
}

/// A request to yield that a poll has not followed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    at: Instant,
    ticks: u64,
    had: Option<Duration>,
}

impl Request {
    pub(crate) fn new(at: Instant, sample: Option<Sample>) -> Self {
        Self { at, ticks: 0, had: sample.map(|sample| sample.used) }
    }

    /// Counts a tick at which the poll still ran.
    pub(crate) const fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Returns whether the poll has ignored it for `after`. `sample` is called last.
    pub(crate) fn is_ignored(
        &self,
        now: Instant,
        after: Duration,
        tick: Duration,
        sample: impl FnOnce() -> Option<Sample>,
    ) -> bool {
        let seen = Duration::from_nanos(tick.as_nanos().saturating_mul(self.ticks));
        if now.since(self.at) < after || seen < after {
            return false;
        }
        match (self.had, sample()) {
            (Some(had), Some(sample)) => {
                sample.sleeps || 2 * sample.used.saturating_sub(had).as_nanos() >= after.as_nanos()
            }
            (_, None) | (None, _) => true,
        }
    }
}

/// The CPU time after a request for which a poll keeps its CPU, because others wait for a lock that
/// its task holds.
const PATIENCE_OF_WAITERS: Duration = Duration::from_millis(50);

impl Request {
    /// Returns whether a holder of a lock that others wait for keeps its CPU: not if it sleeps.
    pub(crate) fn is_young(&self, sample: Option<Sample>) -> bool {
        match (self.had, sample) {
            (Some(had), Some(sample)) => !sample.sleeps && sample.used.saturating_sub(had) < PATIENCE_OF_WAITERS,
            (_, None) | (None, _) => false,
        }
    }
}

/// Gives a thread nice 19; those of unit tests are none of the kernel's.
pub(crate) fn slow(tid: rustix::thread::Pid) {
    if !cfg!(any(test, miri)) {
        let _ = rustix::process::setpriority_process(Some(tid), 19);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_millis(2);
    const TICK: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn sample(sleeps: bool, ms: u64) -> Option<Sample> {
        Some(Sample { sleeps, used: Duration::from_millis(ms) })
    }

    fn seen(ticks: u32) -> Request {
        let mut request = Request::new(at(10), sample(false, 100));
        (0..ticks).for_each(|_| request.tick());
        request
    }

    #[test]
    fn a_thread_that_runs_ignores_it() {
        assert!(!seen(1).is_ignored(at(11), AFTER, TICK, || sample(false, 101)));
        assert!(seen(2).is_ignored(at(12), AFTER, TICK, || sample(false, 102)));
    }

    #[test]
    fn a_thread_that_was_preempted_does_not() {
        assert!(!seen(30).is_ignored(at(40), AFTER, TICK, || sample(false, 100)));
        assert!(seen(31).is_ignored(at(41), AFTER, TICK, || sample(false, 101)));
    }

    #[test]
    fn a_thread_that_sleeps_does() {
        assert!(seen(2).is_ignored(at(12), AFTER, TICK, || sample(true, 100)));
    }

    #[test]
    fn a_machine_that_stood_still_is_not_the_polls_fault() {
        assert!(!seen(1).is_ignored(at(500), AFTER, TICK, || sample(false, 600)));
    }

    #[test]
    fn waiters_for_a_lock_are_patient_with_a_holder_that_computes() {
        assert!(seen(2).is_young(sample(false, 149)));
        assert!(!seen(2).is_young(sample(false, 150)));
        assert!(!seen(2).is_young(sample(true, 101)));
        assert!(!seen(2).is_young(None));
    }

    #[test]
    fn without_the_kernels_word_the_wall_decides() {
        assert!(seen(2).is_ignored(at(12), AFTER, TICK, || None));
    }
}
