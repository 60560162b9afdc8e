//! [`Sums`]: the bandwidth that belongs to a run queue, and the active part of it.
//! [`crate::class::dl_sums`] has the rules.

use crate::entity::dl::LingeringIx;
use crate::words::bandwidth::Bandwidth;
use alloc::vec::Vec;
use zerolag_model::{Instant, TaskId};

/// A task with active bandwidth that is not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lingering {
    task: TaskId,
    pub(crate) until: Instant,
    bandwidth: Bandwidth,
    then: Then,
}

/// The effect of the 0-lag time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// The bandwidth becomes inactive: the task sleeps.
    Inactive,
    /// The bandwidth becomes inactive and leaves this run queue: the task has exited.
    Gone,
}

/// A note to the CPU on which a task sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) task: TaskId,
    /// The bandwidth that leaves that run queue.
    pub(crate) gone: Bandwidth,
    /// The bandwidth that replaces it: the task has new parameters, and continues to sleep.
    pub(crate) come: Bandwidth,
}

/// The bandwidths of one run queue.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) this: Bandwidth,
    pub(crate) running: Bandwidth,
    pub(crate) lingering: Vec<Option<Lingering>>,
    free: Vec<u32>,
    /// A lower bound of the 0-lag times of the lingering tasks.
    soonest: Instant,
}

impl Sums {
    pub(crate) const fn new() -> Self {
        Self {
            this: Bandwidth(0),
            running: Bandwidth(0),
            lingering: Vec::new(),
            free: Vec::new(),
            soonest: Instant::FAR_FUTURE,
        }
    }

    /// Adds a task that is queued here and belonged to no run queue.
    pub(crate) const fn join(&mut self, bandwidth: Bandwidth) {
        self.this.0 += bandwidth.0;
        self.running.0 += bandwidth.0;
    }

    /// Removes a queued task that moves to another run queue or to another class.
    pub(crate) const fn quit(&mut self, bandwidth: Bandwidth) {
        self.this.0 -= bandwidth.0;
        self.running.0 -= bandwidth.0;
    }

    /// Keeps the bandwidth of a task active that blocks, or exits, before its 0-lag time.
    pub(crate) fn linger(&mut self, task: TaskId, bandwidth: Bandwidth, until: Instant, then: Then) -> LingeringIx {
        let entry = Some(Lingering { task, until, bandwidth, then });
        self.soonest = self.soonest.min(until);
        match self.free.pop() {
            Some(place) => {
                self.lingering[place as usize] = entry;
                LingeringIx(place)
            }
            None => {
                self.lingering.push(entry);
                LingeringIx(u32::try_from(self.lingering.len() - 1).expect("invariant: fewer than 2^32 tasks"))
            }
        }
    }

    /// Deactivates the bandwidth of a task that blocks after its 0-lag time.
    pub(crate) const fn rest(&mut self, bandwidth: Bandwidth) {
        self.running.0 -= bandwidth.0;
    }

    /// Reactivates the bandwidth of a task that sleeps and wakes on this run queue. `place` is its
    /// entry if it blocked before its 0-lag time.
    pub(crate) fn wake(&mut self, task: TaskId, bandwidth: Bandwidth, place: Option<LingeringIx>) {
        if !place.is_some_and(|place| self.take(task, place)) {
            self.running.0 += bandwidth.0;
        }
    }

    /// Removes a lingering task; returns `false` if its 0-lag time has already been processed.
    fn take(&mut self, task: TaskId, LingeringIx(place): LingeringIx) -> bool {
        let entry = &mut self.lingering[place as usize];
        let is_there = entry.is_some_and(|entry| entry.task == task && entry.then == Then::Inactive);
        if is_there {
            *entry = None;
            self.free.push(place);
        }
        is_there
    }

    /// Applies a note.
    pub(crate) fn note(&mut self, note: Note) {
        let is_its = |entry: &Option<Lingering>| {
            entry.is_some_and(|entry| entry.task == note.task && entry.then == Then::Inactive)
        };
        if let Some(place) = self.lingering.iter().position(is_its) {
            let place = LingeringIx(u32::try_from(place).expect("invariant: fewer than 2^32 tasks"));
            self.take(note.task, place);
            self.running.0 -= note.gone.0;
        }
        self.this.0 = self.this.0 + note.come.0 - note.gone.0;
    }

    /// Deactivates the bandwidth of every task with a 0-lag time in the past. O(sleeping tasks) if
    /// any has one.
    pub(crate) fn expire(&mut self, now: Instant) {
        if now < self.soonest {
            return;
        }
        self.soonest = Instant::FAR_FUTURE;
        for place in 0..self.lingering.len() {
            let Some(entry) = self.lingering[place] else { continue };
            if now < entry.until {
                self.soonest = self.soonest.min(entry.until);
                continue;
            }
            self.running.0 -= entry.bandwidth.0;
            match entry.then {
                Then::Inactive => {}
                Then::Gone => self.this.0 -= entry.bandwidth.0,
            }
            self.lingering[place] = None;
            self.free.push(u32::try_from(place).expect("invariant: fewer than 2^32 tasks"));
        }
    }

    /// Changes the parameters of a queued task.
    pub(crate) const fn change(&mut self, from: Bandwidth, to: Bandwidth) {
        self.this.0 = self.this.0 + to.0 - from.0;
        self.running.0 = self.running.0 + to.0 - from.0;
    }

    /// Returns the bandwidth of the tasks that belong here, and the active part of it. For checks.
    pub(crate) const fn of_tasks(&self) -> (Bandwidth, Bandwidth) {
        (self.this, self.running)
    }

    /// Returns the lingering tasks: the task, its bandwidth, and whether it leaves this run queue
    /// at its 0-lag time. For checks.
    pub(crate) fn lingering(&self) -> impl Iterator<Item = (TaskId, Bandwidth, bool)> + '_ {
        self.lingering.iter().flatten().map(|entry| (entry.task, entry.bandwidth, entry.then == Then::Gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::dl::zero_lag;
    use crate::words::bandwidth::DlLimit;
    use zerolag_model::{DlParams, Duration, RtBandwidth, SignedDuration};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_fixed_point_is_the_kernels() {
        // to_ratio(1 s, 950 ms) and to_ratio(950 ms, 1 s) >> (BW_SHIFT - RATIO_SHIFT).
        let limit = DlLimit::of(RtBandwidth { runtime: Some(ms(950)), period: ms(1000) });
        assert_eq!((limit.share().0, limit.inverse), (996_147, 269));
        let none = DlLimit::of(RtBandwidth { runtime: None, period: ms(1000) });
        assert_eq!((none.share().0, none.inverse), (1 << 20, 1 << 8));
    }

    #[test]
    fn the_zero_lag_time_is_where_the_share_is_used_up() {
        let params = DlParams::new(ms(2), ms(10), ms(10));
        let left = |ms: i64| SignedDuration::from_nanos(ms * 1_000_000);
        assert_eq!(zero_lag(params, at(10), left(2)), at(0), "it has not run: the 0-lag time is its arrival");
        assert_eq!(zero_lag(params, at(10), left(1)), at(5));
        assert_eq!(zero_lag(params, at(10), left(0)), at(10));
        assert_eq!(zero_lag(params, at(10), left(-1)), at(15), "in debt");
    }

    #[test]
    fn a_blocked_task_is_active_until_its_zero_lag_time() {
        let (mut sums, bandwidth) = (Sums::new(), Bandwidth(100));
        sums.join(bandwidth);
        let place = sums.linger(TaskId(1), bandwidth, at(5), Then::Inactive);
        sums.expire(at(4));
        assert_eq!(sums.of_tasks(), (bandwidth, bandwidth));
        sums.expire(at(5));
        assert_eq!(sums.of_tasks(), (bandwidth, Bandwidth(0)));
        sums.wake(TaskId(1), bandwidth, Some(place));
        assert_eq!(sums.of_tasks(), (bandwidth, bandwidth), "it is active again, and once");
    }

    #[test]
    fn a_task_that_wakes_before_its_zero_lag_time_has_been_active_all_the_while() {
        let (mut sums, bandwidth) = (Sums::new(), Bandwidth(100));
        sums.join(bandwidth);
        let place = sums.linger(TaskId(1), bandwidth, at(5), Then::Inactive);
        sums.wake(TaskId(1), bandwidth, Some(place));
        sums.expire(at(9));
        assert_eq!(sums.of_tasks(), (bandwidth, bandwidth));
    }

    #[test]
    fn an_ended_task_is_gone_at_its_zero_lag_time_and_one_that_went_elsewhere_at_once() {
        let (mut sums, bandwidth) = (Sums::new(), Bandwidth(100));
        sums.join(bandwidth);
        sums.join(bandwidth);
        sums.linger(TaskId(1), bandwidth, at(5), Then::Gone);
        sums.linger(TaskId(2), bandwidth, at(7), Then::Inactive);
        sums.note(Note { task: TaskId(2), gone: bandwidth, come: Bandwidth(0) });
        assert_eq!(sums.of_tasks(), (bandwidth, bandwidth));
        sums.expire(at(5));
        assert_eq!(sums.of_tasks(), (Bandwidth(0), Bandwidth(0)));
    }
}
