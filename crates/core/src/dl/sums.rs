//! [`Sums`]: the bandwidth of a run queue's deadline entities, and how much of it is active; and [`reclaimed`], what a task
//! is charged that takes what others leave (GRUB).
//!
//! A task's bandwidth belongs to the run queue where it is queued, or was when it blocked. It is *active* while the task
//! is queued, throttled or not, and until its 0-lag time after it has blocked: until then the task could wake and go on
//! with its job, so nobody else may have what it reserved.
//!
//! | kernel | here | whose |
//! |---|---|---|
//! | `this_bw` | [`Sums::this`] | all that belong here, sleeping ones too, and the servers of the CPU |
//! | `running_bw` | [`Sums::running`] | the active ones: a server from when it starts until its 0-lag time after it was stopped |
//!
//! The kernel has a timer per entity (`inactive_timer`) that takes its bandwidth out of `running_bw` at the 0-lag time. Here
//! whoever reads the sum does that first, so that machines without a reader pay for no timer; nothing but the sums depends on
//! it, so nobody can tell. A server's part is computed when it is asked for: it starts and stops with each wakeup of its class.
//!
//! A task that has blocked here and wakes elsewhere leaves a *note* in the shared state for this CPU ([`Note`]), which is read
//! before the sums are used and before a task is queued.
//!
//! Blocking and waking are O(1). Reading the sums is O(servers), and O(sleeping tasks) when a 0-lag time has passed.
//!
//! Sources: Lipari & Baruah 2000, "Greedy reclamation of unused bandwidth in constant-bandwidth servers"; Abeni, Lipari,
//! Parri & Sun 2016, "Multicore CPU reclaiming: parallel or sequential?"; Linux v6.12 `kernel/sched/deadline.c`
//! (`task_non_contending`, `task_contending`, `inactive_task_timer`, `grub_reclaim`, `__add_rq_bw`, `__add_running_bw`).
//! differs: the kernel charges what was run since the last charge at the rate of its end, here each part at its own.

use super::admission::Bandwidth;
use super::server;
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{DlParams, Duration, Instant, ServerKind, SignedDuration, TaskId};

/// Where a sleeping task that is active is found in [`Sums`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

/// A task whose bandwidth is active although it is not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lingering {
    task: TaskId,
    until: Instant,
    bandwidth: Bandwidth,
    then: Then,
}

/// What the 0-lag time ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Its bandwidth is not active any more: the task sleeps.
    Inactive,
    /// Its bandwidth is not this run queue's any more either: the task has ended.
    Gone,
}

/// What a CPU is told of a task that has blocked there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) task: TaskId,
    /// Bandwidth that does not belong there any more.
    pub(crate) gone: Bandwidth,
    /// Bandwidth that does instead: the task has other parameters now, and sleeps on.
    pub(crate) come: Bandwidth,
}

/// The bandwidths of one run queue.
#[derive(Debug)]
pub(crate) struct Sums {
    this: Bandwidth,
    running: Bandwidth,
    lingering: Vec<Option<Lingering>>,
    free: Vec<u32>,
    /// No 0-lag time here is earlier.
    soonest: Instant,
}

impl Sums {
    pub(super) const fn new() -> Self {
        Self {
            this: Bandwidth(0),
            running: Bandwidth(0),
            lingering: Vec::new(),
            free: Vec::new(),
            soonest: Instant::FAR_FUTURE,
        }
    }

    /// A task is queued here that belonged to no run queue.
    pub(super) const fn join(&mut self, bandwidth: Bandwidth) {
        self.this.0 += bandwidth.0;
        self.running.0 += bandwidth.0;
    }

    /// A queued task goes to another run queue or to another class.
    pub(super) const fn quit(&mut self, bandwidth: Bandwidth) {
        self.this.0 -= bandwidth.0;
        self.running.0 -= bandwidth.0;
    }

    /// A task blocks, or ends, before its 0-lag time.
    pub(super) fn linger(&mut self, task: TaskId, bandwidth: Bandwidth, until: Instant, then: Then) -> Place {
        let entry = Some(Lingering { task, until, bandwidth, then });
        self.soonest = self.soonest.min(until);
        match self.free.pop() {
            Some(place) => {
                self.lingering[place as usize] = entry;
                Place(place)
            }
            None => {
                self.lingering.push(entry);
                Place(u32::try_from(self.lingering.len() - 1).expect("invariant: fewer than 2^32 tasks"))
            }
        }
    }

    /// A task blocks behind its 0-lag time.
    pub(super) const fn rest(&mut self, bandwidth: Bandwidth) {
        self.running.0 -= bandwidth.0;
    }

    /// A task that sleeps here wakes here. `place`: where it was active when it blocked.
    pub(super) fn wake(&mut self, task: TaskId, bandwidth: Bandwidth, place: Option<Place>) {
        if !place.is_some_and(|place| self.take(task, place)) {
            self.running.0 += bandwidth.0;
        }
    }

    /// Takes a task out of the lingering ones; `false` if its 0-lag time has been seen to pass.
    fn take(&mut self, task: TaskId, Place(place): Place) -> bool {
        let entry = &mut self.lingering[place as usize];
        let is_there = entry.is_some_and(|entry| entry.task == task && entry.then == Then::Inactive);
        if is_there {
            *entry = None;
            self.free.push(place);
        }
        is_there
    }

    /// Takes in what the CPU was told.
    fn note(&mut self, note: Note) {
        let is_its = |entry: &Option<Lingering>| {
            entry.is_some_and(|entry| entry.task == note.task && entry.then == Then::Inactive)
        };
        if let Some(place) = self.lingering.iter().position(is_its) {
            let place = Place(u32::try_from(place).expect("invariant: fewer than 2^32 tasks"));
            self.take(note.task, place);
            self.running.0 -= note.gone.0;
        }
        self.this.0 = self.this.0 + note.come.0 - note.gone.0;
    }

    /// Lets go of what is not active any more at `now`. O(sleeping tasks) if there is any.
    fn expire(&mut self, now: Instant) {
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

    /// A queued task has other parameters.
    pub(super) const fn change(&mut self, from: Bandwidth, to: Bandwidth) {
        self.this.0 = self.this.0 + to.0 - from.0;
        self.running.0 = self.running.0 + to.0 - from.0;
    }

    /// Returns what belongs here, lingering or not, and what of it is active; the part of tasks. For checks.
    pub(crate) const fn of_tasks(&self) -> (Bandwidth, Bandwidth) {
        (self.this, self.running)
    }

    /// Returns what lingers: whose, how much, and whether it will not belong here any more. For checks.
    pub(crate) fn lingering(&self) -> impl Iterator<Item = (TaskId, Bandwidth, bool)> + '_ {
        self.lingering.iter().flatten().map(|entry| (entry.task, entry.bandwidth, entry.then == Then::Gone))
    }
}

/// Returns the 0-lag time of a job: when its task, had it run all the while at its bandwidth, would have as little left.
///
/// Linux v6.12 `kernel/sched/deadline.c`, `task_non_contending`. In debt it is behind the deadline.
pub(super) fn zero_lag(params: DlParams, abs_deadline: Instant, left: SignedDuration) -> Instant {
    let share = |time: SignedDuration| {
        let needed = time.max_zero().mul_div_floor(params.period.as_nanos(), params.runtime.as_nanos());
        needed.to_signed().as_nanos()
    };
    abs_deadline.saturating_offset(SignedDuration::from_nanos(share(-left) - share(left)))
}

/// Takes in what others have noted for this CPU. One load if there is nothing.
pub(super) fn read_notes<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if !cx.shared.has_dl_notes(rq.cpu) {
        return;
    }
    let sums = &mut rq.dl.sums;
    cx.shared.take_dl_notes(rq.cpu, |note| sums.note(note));
}

/// Returns `this_bw` and `running_bw` at a time. O(servers); O(sleeping tasks) when a 0-lag time has passed.
pub(crate) fn at<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, now: Instant) -> (Bandwidth, Bandwidth) {
    read_notes(rq, cx);
    rq.dl.sums.expire(now);
    let Sums { this, running, .. } = rq.dl.sums;
    let mut sums = (this, running);
    for kind in ServerKind::ALL {
        let bandwidth = server::bandwidth(rq.dl.server(kind).params());
        sums.0.0 += bandwidth.0;
        if rq.dl.server(kind).is_active(now) {
            sums.1.0 += bandwidth.0;
        }
    }
    sums
}

/// Returns at which rate, in units of 2^-20, a reclaiming task of this bandwidth spends its budget at a time.
///
/// `max{u, Umax - Uinact - Uextra} / Umax`: what belongs here and is not active, and what nobody has reserved of this root
/// domain, is left to it.
fn rate<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, own: Bandwidth, now: Instant) -> u64 {
    let (this, running) = at(rq, cx, now);
    let domain = cx.shared.domain(rq.cpu);
    let (total, limit) = {
        let mut booked = domain.dl_booked.lock();
        (booked.total(now).0, booked.limit)
    };
    let (booked, max) = (total / (domain.span.iter().count().max(1) as u64), limit.share().0);
    let inactive = this.0 - running.0;
    let extra = max.saturating_sub(booked);
    // On several CPUs a task may have more than `max_bw`; the kernel's difference wraps around then.
    let left = max.saturating_sub(inactive + extra).max(own.0);
    ((left * limit.inverse) >> 8).min(1 << 20)
}

/// Returns when the sums change next by themselves, in `from..now`.
fn next_change(rq: &Rq, from: Instant, now: Instant) -> Option<Instant> {
    let lingering = rq.dl.sums.lingering.iter().flatten().map(|entry| entry.until);
    let servers = ServerKind::ALL.into_iter().filter_map(|kind| rq.dl.server(kind).zero_lag());
    lingering.chain(servers).filter(|at| from < *at && *at < now).min()
}

/// Returns what a reclaiming task is charged for having run so long. O((1 + 0-lag times that have passed) x sleeping tasks).
pub(super) fn reclaimed<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, delta: Duration) -> Duration {
    let Some(own) = rq.tasks[slot].dl.reserved.map(|had| had.bandwidth) else { return delta };
    let now = rq.clock.wall;
    read_notes(rq, cx);
    let mut from = Instant::from_nanos(now.as_nanos().saturating_sub(delta.as_nanos()));
    let mut charged = Duration::ZERO;
    loop {
        let until = next_change(rq, from, now).unwrap_or(now);
        let rate = rate(rq, cx, own, from);
        charged += until.since(from).mul_div_floor(rate, 1 << 20);
        if until == now {
            return charged;
        }
        from = until;
    }
}

/// Returns how long a reclaiming task may run now until so much of its budget is spent, if nothing changes; rounded up.
pub(super) fn time_of<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, left: Duration) -> Duration {
    let Some(own) = rq.tasks[slot].dl.reserved.map(|had| had.bandwidth) else { return left };
    let rate = rate(rq, cx, own, rq.clock.wall);
    left.mul_div_ceil(1 << 20, rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::admission::DlLimit;
    use super::*;
    use zerolag_model::RtBandwidth;

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
    fn who_wakes_before_its_zero_lag_time_has_been_active_all_the_while() {
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
