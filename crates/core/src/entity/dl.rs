//! [`DlEntity`]: what a task carries for the deadline class, and the rules of its constant
//! bandwidth server.
//!
//! A *job* has `runtime_left` to spend until `abs_deadline`. The server sees to it that a task
//! never asks for more than runtime/period, whatever it does: a task that has exhausted its budget
//! is *throttled* until its next period. An overrun is carried into that period as debt. A waking
//! task keeps the remaining budget of its job only if its bandwidth allows it
//! ([`wake`](DlEntity::wake)).
//!
//! ```text
//!   Fresh ---- queued [1]: a new job ----------------------> Contending
//!   NonContending, Inactive --- woken [2]: the old job
//!              or a new one -------------------------------> Contending
//!   NonContending, Inactive --- woken [3] with its budget
//!              used up, or after its deadline, before the
//!              next period (constrained) ------------------> Throttled{until}
//!   Contending --- blocks before its 0-lag time [4] -------> NonContending
//!   Contending --- blocks behind it [5] -------------------> Inactive
//!   NonContending --- the 0-lag time [6] ------------------> Inactive
//!   Contending --- budget used up, or yields [7] ----------> Throttled{until: its next period}
//!   Throttled ---- `until` [8]: budget and deadline of the next period -> Contending
//!   any ---------- leaves the class [9] -------------------> Fresh
//! ```
//!
//! A task that is *boosted* ([`DlEntity::boost`]) runs with the parameters of the task that waits
//! for a lock that it holds, and is never throttled: [7] leads through [8] at once, [3] does not
//! happen. A task of another class begins a job with them when it is lent them [1]; a deadline task
//! keeps its own job, and its deadline moves by the lent period whenever its budget is used up. So
//! what a boosted task runs is charged to nobody's bandwidth, as in the kernel.
//!
//! The 0-lag time is when the task would have as little budget left had it run at its bandwidth
//! since the job began. A task that blocks before it has had more than its share: its bandwidth
//! stays *active* until then (`running_bw`, see [`super::sums`]). [6] concerns the sums only, and
//! is not noted in the body, which is in its owner's hands.
//!
//! A task that blocks with its budget used up is in debt until its next period: [4], with a 0-lag
//! time at its deadline or behind. No timer finds it in its owner's hands; [8] is made up for when
//! it wakes, with the same result.
//!
//! All of it is O(1).
//!
//! Sources: Abeni & Buttazzo 1998, "Integrating multimedia applications in hard real-time systems",
//! sec. 3; Linux v6.12 `kernel/sched/deadline.c` (`setup_new_dl_entity`, `replenish_dl_entity`,
//! `update_dl_entity`, `dl_entity_overflow`, `update_dl_revised_wakeup`, `dl_check_constrained_dl`,
//! `dl_next_period`; `pi_of`, `is_dl_boosted`, `enqueue_task_dl`), `core.c` (`rt_mutex_setprio`).
//! differs: products are exact here, the kernel drops the lowest 10 bits of each factor.

use crate::words::bandwidth::Reserved;
use zerolag_model::{CpuId, DlParams, Duration, Instant, SignedDuration};

/// Where a sleeping task that is active is found in [`Sums`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(pub(crate) u32);

/// Returns the 0-lag time of a job: when its task, had it run all the while at its bandwidth, would
/// have as little left.
///
/// Linux v6.12 `kernel/sched/deadline.c`, `task_non_contending`. In debt it is behind the deadline.
pub(crate) fn zero_lag(params: DlParams, abs_deadline: Instant, left: SignedDuration) -> Instant {
    let share = |time: SignedDuration| {
        let needed = time.max_zero().mul_div_floor(params.period.as_nanos(), params.runtime.as_nanos());
        needed.to_signed().as_nanos()
    };
    abs_deadline.saturating_offset(SignedDuration::from_nanos(share(-left) - share(left)))
}

/// What a task carries for this class.
#[derive(Debug, Default)]
pub(crate) struct DlEntity {
    pub(crate) state: DlState,
    /// Budget left of the present job; negative is debt.
    pub(crate) runtime_left: SignedDuration,
    /// Until when the present job is to be done.
    pub(crate) abs_deadline: Instant,
    /// Order among equal deadlines on the run queue.
    pub(crate) seq: u64,
    pub(crate) places: [Option<u32>; PLACES],
    /// What it has of its root domain's bandwidth.
    pub(crate) reserved: Option<Reserved>,
    /// The parameters that it is lent, if that counts (`pi_se`).
    pub(crate) boost: Option<DlParams>,
    /// What its owner does not know yet: a budget was used up (`dl_overrun`).
    pub(crate) overrun: Overrun,
}

/// Whether a task is to be told that it has used up its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Overrun {
    /// No.
    #[default]
    None,
    /// At the next tick that finds it running.
    Pending,
}

/// Where a deadline entity is: see the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum DlState {
    /// It has had no job since it joined the class.
    #[default]
    Fresh,
    /// It is queued and may run.
    Contending,
    /// It sleeps, and has blocked before its 0-lag time.
    NonContending {
        /// The CPU that its bandwidth belongs to.
        on: CpuId,
        /// Where it is found there.
        place: Place,
    },
    /// It sleeps, and has blocked behind its 0-lag time.
    Inactive {
        /// The CPU that its bandwidth belongs to.
        on: CpuId,
    },
    /// It has used up its budget.
    Throttled {
        /// When it gets the next.
        until: Instant,
    },
}

impl DlEntity {
    pub(crate) fn new(reserved: Option<Reserved>) -> Self {
        Self { reserved, ..Self::default() }
    }

    /// Returns whether the present budget is used up: `dl_runtime_exceeded`.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.runtime_left <= SignedDuration::default()
    }

    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, DlState::Throttled { .. })
    }

    /// Returns the CPU that its bandwidth belongs to while it sleeps.
    pub(crate) const fn sleeps_on(&self) -> Option<CpuId> {
        match self.state {
            DlState::NonContending { on, .. } | DlState::Inactive { on } => Some(on),
            DlState::Fresh | DlState::Contending | DlState::Throttled { .. } => None,
        }
    }

    /// Returns its 0-lag time.
    pub(crate) fn zero_lag(&self, params: DlParams) -> Instant {
        zero_lag(params, self.abs_deadline, self.runtime_left)
    }

    /// [7] It is not to run before its next period; answers when that is. An entity that yields
    ///     gives up its budget.
    pub(crate) fn throttle(&mut self, params: DlParams) -> Instant {
        debug_assert!(self.state == DlState::Contending, "only who contends is throttled");
        self.runtime_left = self.runtime_left.min(SignedDuration::default());
        let until = self.next_period(params);
        self.state = DlState::Throttled { until };
        until
    }

    /// Returns when the period after the present job's begins: `dl_next_period`.
    fn next_period(&self, params: DlParams) -> Instant {
        self.abs_deadline.saturating_add(params.period.saturating_sub(params.deadline))
    }

    /// [1] [2] [3] It is put on a queue after having slept, or for the first time.
    pub(crate) fn activate(&mut self, params: DlParams, now: Instant) {
        match self.state {
            DlState::Fresh => {
                self.begin_job(params, now);
                self.state = DlState::Contending; // [1]
            }
            DlState::NonContending { .. } | DlState::Inactive { .. } if self.is_exhausted() => {
                let until = self.next_period(params);
                self.state = DlState::Throttled { until }; // [3]
                if until <= now || self.boost.is_some() {
                    self.replenish(params, until);
                    self.wake(params, now);
                }
            }
            DlState::NonContending { .. } | DlState::Inactive { .. } => self.wake(params, now),
            DlState::Throttled { until } if until <= now || self.boost.is_some() => {
                self.replenish(params, until);
                self.wake(params, now);
            }
            DlState::Throttled { .. } => {}
            DlState::Contending => unreachable!("who contends does not sleep"),
        }
    }

    fn wake(&mut self, params: DlParams, now: Instant) {
        let is_late = self.abs_deadline < now;
        let next = self.next_period(params);
        let is_boosted = self.boost.is_some();
        if is_late && now < next && !is_boosted {
            // [3] Another job now would have to be done within less than a period.
            self.runtime_left = self.runtime_left.min(SignedDuration::default());
            self.state = DlState::Throttled { until: next };
            return;
        }
        if is_late || overflows(self.runtime_left, self.abs_deadline, params, now) {
            let is_implicit = params.deadline == params.period;
            if is_implicit || is_late || is_boosted {
                self.begin_job(params, now);
            } else {
                // The deadline stays; the budget becomes what the density allows until then.
                let laxity = self.abs_deadline.since(now);
                let runtime = laxity.mul_div_floor(params.runtime.as_nanos(), params.deadline.as_nanos());
                self.runtime_left = runtime.to_signed();
            }
        }
        self.state = DlState::Contending; // [2]
    }

    fn begin_job(&mut self, params: DlParams, now: Instant) {
        self.abs_deadline = now.saturating_add(params.deadline);
        self.runtime_left = params.runtime.to_signed();
    }

    /// [8] The next period begins: an entity in debt skips as many periods as the debt takes.
    pub(crate) fn replenish(&mut self, params: DlParams, now: Instant) {
        debug_assert!(matches!(self.state, DlState::Throttled { .. }), "only who is throttled is replenished");
        let debt = (-self.runtime_left).max_zero();
        let periods = debt.as_nanos() / params.runtime.as_nanos() + 1;
        self.runtime_left = self.runtime_left + (params.runtime * periods).to_signed();
        self.abs_deadline = self.abs_deadline.saturating_add(params.period * periods);
        if self.abs_deadline < now {
            self.begin_job(params, now); // It came that late: the host's timers are behind.
        }
        self.state = DlState::Contending;
        debug_assert!(!self.is_exhausted(), "a replenished entity may run");
    }

    /// It leaves its queue to sleep; the caller says where its bandwidth is [4] [5].
    pub(crate) fn block(&mut self, state: DlState) {
        debug_assert!(self.state == DlState::Contending, "only who runs blocks");
        self.state = state;
        debug_assert!(self.sleeps_on().is_some(), "a sleeping task's bandwidth belongs to a CPU");
    }

    /// It leaves its queue to go elsewhere.
    pub(crate) fn migrate(&mut self, params: DlParams, now: Instant) {
        if self.state == DlState::Contending && self.is_exhausted() {
            self.throttle(params);
            if self.boost.is_some() {
                self.replenish(params, now);
            }
        }
    }

    /// It is off its queue and has been lent other parameters, or none any more; `own` are those
    /// that it asks for itself. Whoever is lent some may run at once. Who has none of either class
    /// leaves it [9].
    ///
    /// Linux v6.12 `kernel/sched/core.c`, `rt_mutex_setprio` (`ENQUEUE_REPLENISH`,
    /// `ENQUEUE_RESTORE`).
    pub(crate) fn lend(&mut self, boost: Option<DlParams>, own: Option<DlParams>, now: Instant) {
        self.boost = boost;
        let Some(params) = boost.or(own).filter(|_| own.is_some()) else { return self.reset() };
        match self.state {
            DlState::Throttled { .. } if boost.is_some() => self.replenish(params, now),
            DlState::Contending if boost.is_some() && self.is_exhausted() => {
                self.throttle(params);
                self.replenish(params, now);
            }
            DlState::Contending if self.abs_deadline < now => self.begin_job(params, now),
            DlState::Contending | DlState::Throttled { .. } => {}
            DlState::Fresh | DlState::NonContending { .. } | DlState::Inactive { .. } => {}
        }
    }

    /// [9] Its task is of another class now.
    pub(crate) fn reset(&mut self) {
        debug_assert!(self.places.iter().all(Option::is_none), "it is on no queue");
        (self.state, self.runtime_left) = (DlState::Fresh, SignedDuration::default());
        self.overrun = Overrun::None;
    }

    pub(crate) fn charge(&mut self, delta: Duration) {
        self.runtime_left = self.runtime_left - delta.to_signed();
    }
}

/// Returns whether the remaining budget of a job is more than runtime/deadline of the time until
/// its deadline: `dl_entity_overflow`.
pub(crate) fn overflows(left: SignedDuration, abs_deadline: Instant, params: DlParams, now: Instant) -> bool {
    let left = i128::from(left.as_nanos()) * i128::from(params.deadline.as_nanos());
    let right = u128::from(abs_deadline.since(now).as_nanos()) * u128::from(params.runtime.as_nanos());
    i128::try_from(right).is_ok_and(|right| left > right)
}

/// The place of a task that is queued or throttled.
pub(crate) const QUEUE: usize = 0;

/// The place of a task that could be pushed.
pub(crate) const PUSHABLE: usize = 1;

/// How many places a task has.
pub(crate) const PLACES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const ASLEEP: DlState = DlState::Inactive { on: CpuId(0) };

    fn params(runtime: u64, deadline: u64, period: u64) -> DlParams {
        let ms = Duration::from_millis;
        DlParams::new(ms(runtime), ms(deadline), ms(period))
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// An entity whose job began at 0 and that then ran for a while.
    fn after_running(params: DlParams, ms: u64) -> DlEntity {
        let mut entity = DlEntity::default();
        entity.activate(params, at(0));
        entity.charge(Duration::from_millis(ms));
        entity
    }

    fn shows(entity: &DlEntity) -> (DlState, i64, u64) {
        let left = entity.runtime_left.as_nanos() / 1_000_000;
        (entity.state, left, entity.abs_deadline.as_nanos() / MS)
    }

    #[test]
    fn a_used_up_budget_comes_back_with_the_next_period_and_debt_is_carried() {
        let params = params(2, 10, 10);
        let mut entity = after_running(params, 3);
        assert_eq!(entity.throttle(params), at(10));
        entity.replenish(params, at(10));
        assert_eq!(shows(&entity), (DlState::Contending, 1, 20));
        entity.charge(Duration::from_millis(6));
        assert_eq!(entity.throttle(params), at(20));
        entity.replenish(params, at(20));
        assert_eq!(shows(&entity), (DlState::Contending, 1, 50), "a debt of 5 ms skips two periods");
    }

    #[test]
    fn who_wakes_keeps_his_job_only_if_the_bandwidth_was_his() {
        let params = params(2, 10, 10);
        for (ran, wakes, expected) in [(1, 4, (1, 10)), (1, 5, (1, 10)), (1, 6, (2, 16)), (0, 3, (2, 13))] {
            let mut entity = after_running(params, ran);
            entity.block(ASLEEP);
            entity.activate(params, at(wakes));
            assert_eq!(shows(&entity), (DlState::Contending, expected.0, expected.1), "{ran} ms, at {wakes} ms");
        }
    }

    #[test]
    fn a_constrained_entity_gets_less_before_its_deadline_and_nothing_behind_it() {
        let params = params(4, 8, 20);
        let mut entity = after_running(params, 1);
        entity.block(ASLEEP);
        entity.activate(params, at(4));
        assert_eq!(shows(&entity), (DlState::Contending, 2, 8), "half of the 4 ms until its deadline");
        entity.block(ASLEEP);
        entity.activate(params, at(9));
        assert_eq!(shows(&entity), (DlState::Throttled { until: at(20) }, 0, 8));
        entity.replenish(params, at(20));
        assert_eq!(shows(&entity), (DlState::Contending, 4, 28));
    }

    #[test]
    fn who_sleeps_throttled_is_replenished_when_it_wakes() {
        let params = params(2, 10, 10);
        let sleeper = || {
            let mut entity = after_running(params, 2);
            entity.block(ASLEEP);
            entity
        };
        for (wakes, expected) in [
            (9, (DlState::Throttled { until: at(10) }, 0, 10)),
            (10, (DlState::Contending, 2, 20)),
            (12, (DlState::Contending, 2, 22)),
            (25, (DlState::Contending, 2, 35)),
        ] {
            let mut entity = sleeper();
            entity.activate(params, at(wakes));
            assert_eq!(shows(&entity), expected, "at {wakes} ms");
        }
    }
}
