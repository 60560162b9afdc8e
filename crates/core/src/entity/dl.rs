//! [`DlEntity`]: the state of a task in the deadline class, and the rules of its constant bandwidth
//! server.
//!
//! A *job* has the budget `runtime_left`, to be used until `abs_deadline`. A deadline alone does
//! not protect others: a task that runs too long, or wakes at bad times, could take more than it
//! has reserved. The server guarantees that a task never demands more than runtime/period, whatever
//! it does:
//!
//! * A task that has exhausted its budget is *throttled* until its next period.
//! * An overrun is carried into that period as debt.
//! * A waking task keeps the remaining budget of its job only if its bandwidth allows it
//!   ([`wake`](DlEntity::wake)).
//!
//! ```text
//!   Fresh ---- queued [1]: a new job ----------------------> Contending
//!   NonContending, Inactive --- woken [2]: the old job
//!              or a new one -------------------------------> Contending
//!   NonContending, Inactive --- woken [3] with an exhausted
//!              budget, or after its deadline, before the
//!              next period (constrained) ------------------> Throttled{until}
//!   Contending --- blocks before its 0-lag time [4] -------> NonContending
//!   Contending --- blocks after it [5] --------------------> Inactive
//!   NonContending --- the 0-lag time [6] ------------------> Inactive
//!   Contending --- exhausts its budget, or yields [7] -----> Throttled{until: its next period}
//!   Throttled ---- `until` [8]: budget and deadline of the next period -> Contending
//!   any ---------- leaves the class [9] -------------------> Left{throttled}
//!   Left --- queued in the class again [10]: the old job if its
//!            deadline is not over, else a new one ---------> Contending
//!   Left --- the same, before the throttling is over [11] -> Throttled{until}
//! ```
//!
//! **A task that leaves the class** keeps its deadline and its remaining budget, so it cannot get a
//! second budget in a period by leaving and coming back. One that comes back asleep is treated as
//! one that has slept \[2\] \[3\].
//!
//! **Boosted tasks.** A *boosted* task ([`DlEntity::boost`]) holds a lock, and runs with the
//! parameters of a deadline task that waits for it. It is never throttled: \[7\] leads through
//! \[8\] at once, and \[3\] does not happen. A task of another class begins a job with the lent
//! parameters \[1\]. A deadline task keeps its own job, and its deadline moves by the lent period
//! whenever its budget is exhausted. So the run time of a boosted task is not charged to any
//! bandwidth, as in the kernel.
//!
//! **The 0-lag time** is the instant at which the task would have the same remaining budget if it
//! had run at exactly its bandwidth since the job began. A task that blocks before that instant has
//! used more than its share, so its bandwidth stays *active* until then (`running_bw`, see
//! [`crate::class::dl_sums`]). \[6\] concerns only the sums. It is not recorded in the body, which
//! the host holds.
//!
//! **Debt of a sleeper.** A task that blocks with an exhausted budget is in debt until its next
//! period. This is \[4\], with a 0-lag time at or after its deadline. No replenishment timer can
//! reach a body that the host holds, so \[8\] is applied when the task wakes, with the same result.
//!
//! **Faults.** Kernels from 3.14 to 4.12 protect others less from tasks whose deadline is before
//! the end of their period ([`Faults`]): \[7\] ends at the deadline, \[3\] is \[2\], and \[2\]
//! begins a job instead of cutting the budget.
//!
//! Every rule is O(1).
//!
//! Sources: Abeni & Buttazzo 1998, "Integrating multimedia applications in hard real-time systems",
//! sec. 3; Linux v6.12 `kernel/sched/deadline.c` (`setup_new_dl_entity`, `replenish_dl_entity`,
//! `update_dl_entity`, `dl_entity_overflow`, `update_dl_revised_wakeup`, `dl_check_constrained_dl`,
//! `dl_next_period`; `pi_of`, `is_dl_boosted`, `enqueue_task_dl`; `__setparam_dl`,
//! `switched_from_dl`), `core.c` (`rt_mutex_setprio`). differs: products are exact here; the kernel
//! drops the lowest 10 bits of each factor. Kernels before 4.6 begin a job at \[10\] (`dl_new`).
//! Later ones never replenish a task that comes back after the end of \[11\] and before its 0-lag
//! time; it begins a job here (`specs/dl/leave-and-return.md`).

use crate::words::bandwidth::{Bandwidth, Reserved};
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};
use zerolag_model::{CpuId, DlParams, Duration, Instant, Settings, SignedDuration};

/// The index of a sleeping task with active bandwidth in [`Sums`](crate::queue::dl::sums::Sums).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LingeringIx(pub(crate) u32);

/// Returns the 0-lag time of a job: the instant at which its task would have the same remaining
/// budget if it had always run at its bandwidth. It is after the deadline if the task is in debt.
///
/// Linux v6.12 `kernel/sched/deadline.c`, `task_non_contending`.
pub(crate) fn zero_lag(params: DlParams, abs_deadline: Instant, left: SignedDuration) -> Instant {
    let share = |time: SignedDuration| {
        let needed = time.max_zero().mul_div_floor(params.period.as_nanos(), params.runtime.as_nanos());
        needed.to_signed().as_nanos()
    };
    abs_deadline.saturating_offset(SignedDuration::from_nanos(share(-left) - share(left)))
}

/// The faults of a kernel in these rules, each on or off; all concern tasks whose deadline is
/// before the end of their period. Off by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Faults {
    replenishes_early: bool,
    begins_job_when_late: bool,
    refills_on_wakeup: bool,
}

impl Faults {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            replenishes_early: settings.dl_replenish_early,
            begins_job_when_late: settings.dl_late_wakeup,
            refills_on_wakeup: settings.dl_wakeup_refill,
        }
    }
}

/// The deadline state of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct DlEntity {
    pub(crate) state: DlState,
    faults: Faults,
    /// The remaining budget of the present job; a debt if negative.
    pub(crate) runtime_left: SignedDuration,
    /// The absolute deadline of the present job.
    pub(crate) abs_deadline: Instant,
    /// The sequence number among equal deadlines on the run queue.
    pub(crate) seq: u64,
    /// The bandwidth that it has reserved in its root domain.
    pub(crate) reserved: Option<Reserved>,
    /// The parameters that it is lent, if they take effect (`pi_se`).
    pub(crate) boost: Option<DlParams>,
    /// The parameters and the deadline that it has inherited, whether or not they take effect.
    pub(crate) inherited: Option<(DlParams, Instant)>,
    /// Whether its owner must still be told that a budget was exhausted (`dl_overrun`).
    pub(crate) overrun: Overrun,
}

/// Whether a task must be notified that it has exhausted its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Overrun {
    /// No notification is due.
    #[default]
    None,
    /// The next tick that finds the task running notifies it.
    Pending,
}

/// The state of a deadline entity; the module has the diagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum DlState {
    /// It has had no job since it joined the class.
    #[default]
    Fresh,
    /// It is queued and can run.
    Contending,
    /// It sleeps; it blocked before its 0-lag time.
    NonContending {
        /// The CPU to which its bandwidth belongs.
        on: CpuId,
        /// Its index in the sums of that CPU.
        place: LingeringIx,
    },
    /// It sleeps; it blocked after its 0-lag time.
    Inactive {
        /// The CPU to which its bandwidth belongs.
        on: CpuId,
    },
    /// It has exhausted its budget.
    Throttled {
        /// When the budget is replenished.
        until: Instant,
    },
    /// It has left the class and keeps its job.
    Left {
        /// When the budget would have been replenished, if it was exhausted.
        throttled: Option<Instant>,
    },
}

/// The deadline state of a task, which exists from its first reservation or loan of deadline
/// parameters on. Most tasks never have either. Reading gives a fresh entity then.
#[derive(Clone, Debug, Default)]
pub(crate) struct DlPart(Option<Box<DlEntity>>);

impl DlPart {
    /// Returns the state, which exists from now on.
    pub(crate) fn or_new(&mut self, faults: Faults) -> &mut DlEntity {
        self.0.get_or_insert_with(|| Box::new(DlEntity { faults, ..DlEntity::FRESH }))
    }

    /// Returns the state if it exists.
    pub(crate) fn get_mut(&mut self) -> Option<&mut DlEntity> {
        self.0.as_deref_mut()
    }

    /// Sets the reserved bandwidth.
    pub(crate) fn reserve(&mut self, reserved: Option<Reserved>, faults: Faults) {
        match (reserved, &mut self.0) {
            (None, None) => {}
            (_, Some(entity)) => entity.reserved = reserved,
            (Some(_), None) => self.or_new(faults).reserved = reserved,
        }
    }

    /// Records that the task joins the class, or leaves it, by a change of its policy.
    pub(crate) fn change_class(&mut self, joins: bool) {
        match &mut self.0 {
            Some(entity) if !joins => entity.leave(),
            Some(entity) if !matches!(entity.state, DlState::Left { .. }) => entity.reset(),
            Some(_) | None => {}
        }
    }
}

impl Deref for DlPart {
    type Target = DlEntity;
    #[inline]
    fn deref(&self) -> &DlEntity {
        const NONE: &DlEntity = &DlEntity::FRESH;
        self.0.as_deref().unwrap_or(NONE)
    }
}

impl DerefMut for DlPart {
    #[inline]
    fn deref_mut(&mut self) -> &mut DlEntity {
        self.0.as_deref_mut().expect("invariant: a task of the deadline class has its state")
    }
}

impl DlEntity {
    const FRESH: Self = Self {
        state: DlState::Fresh,
        faults: Faults { replenishes_early: false, begins_job_when_late: false, refills_on_wakeup: false },
        runtime_left: SignedDuration::ZERO,
        abs_deadline: Instant::ZERO,
        seq: 0,
        reserved: None,
        boost: None,
        inherited: None,
        overrun: Overrun::None,
    };

    /// Returns the reserved bandwidth.
    pub(crate) fn bandwidth(&self) -> Bandwidth {
        self.reserved.map_or(Bandwidth::default(), |had| had.bandwidth)
    }

    /// Returns whether the present budget is exhausted: `dl_runtime_exceeded`.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.runtime_left <= SignedDuration::default()
    }

    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, DlState::Throttled { .. })
    }

    /// Returns the CPU to which its bandwidth belongs while it sleeps.
    pub(crate) const fn sleeps_on(&self) -> Option<CpuId> {
        match self.state {
            DlState::NonContending { on, .. } | DlState::Inactive { on } => Some(on),
            DlState::Fresh | DlState::Contending | DlState::Throttled { .. } | DlState::Left { .. } => None,
        }
    }

    /// Returns its 0-lag time.
    pub(crate) fn zero_lag(&self, params: DlParams) -> Instant {
        zero_lag(params, self.abs_deadline, self.runtime_left)
    }

    /// \[7\] Throttles the entity until its next period; returns when that begins. An entity that
    /// yields gives up its remaining budget.
    pub(crate) fn throttle(&mut self, params: DlParams) -> Instant {
        debug_assert!(self.state == DlState::Contending, "only a contending entity is throttled");
        self.runtime_left = self.runtime_left.min(SignedDuration::default());
        let until = if self.faults.replenishes_early { self.abs_deadline } else { self.next_period(params) };
        self.state = DlState::Throttled { until };
        until
    }

    /// Returns when the period after the present job begins: `dl_next_period`.
    fn next_period(&self, params: DlParams) -> Instant {
        self.abs_deadline.saturating_add(params.period.saturating_sub(params.deadline))
    }

    /// \[1\] \[2\] \[3\] \[11\] Activates an entity that is enqueued for the first time or after it
    /// has slept.
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
            DlState::Left { throttled: Some(until) } if now < until && self.boost.is_none() => {
                self.state = DlState::Throttled { until }; // [11]
            }
            DlState::Left { .. } => self.wake(params, now),
            DlState::Contending => unreachable!("a contending entity does not sleep"),
        }
    }

    /// \[10\] \[11\] Enqueues an entity whose task is back in the class without having slept: the
    /// bandwidth of the remaining job is not looked at. A task that runs goes on with an exhausted
    /// budget until it is charged.
    ///
    /// Linux v6.12 `kernel/sched/deadline.c`, `enqueue_dl_entity` (`ENQUEUE_RESTORE`); v7.3
    /// (`ENQUEUE_MOVE`).
    pub(crate) fn come_back(&mut self, params: DlParams, now: Instant, runs: bool) {
        let DlState::Left { throttled } = self.state else { unreachable!("only an entity that has left comes back") };
        match throttled {
            None if now <= self.abs_deadline => self.state = DlState::Contending, // [10]
            Some(until) if runs && now < until => self.state = DlState::Contending,
            None | Some(_) => self.activate(params, now),
        }
    }

    fn wake(&mut self, params: DlParams, now: Instant) {
        let is_late = self.abs_deadline < now;
        let next = self.next_period(params);
        let is_boosted = self.boost.is_some();
        if is_late && now < next && !is_boosted && !self.faults.begins_job_when_late {
            // [3] A new job now would have to be finished within less than a period.
            self.runtime_left = self.runtime_left.min(SignedDuration::default());
            self.state = DlState::Throttled { until: next };
            return;
        }
        if is_late || overflows(self.runtime_left, self.abs_deadline, params, now) {
            let is_implicit = params.deadline == params.period;
            if is_implicit || is_late || is_boosted || self.faults.refills_on_wakeup {
                self.begin_job(params, now);
            } else {
                // The deadline stays; the budget is cut to the amount that the density allows until
                // then.
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

    /// \[8\] Begins the next period; an entity in debt skips as many periods as the debt takes.
    pub(crate) fn replenish(&mut self, params: DlParams, now: Instant) {
        debug_assert!(matches!(self.state, DlState::Throttled { .. }), "only a throttled entity is replenished");
        let debt = (-self.runtime_left).max_zero();
        let periods = debt.as_nanos() / params.runtime.as_nanos() + 1;
        self.runtime_left = self.runtime_left + (params.runtime * periods).to_signed();
        self.abs_deadline = self.abs_deadline.saturating_add(params.period * periods);
        if self.abs_deadline < now {
            self.begin_job(params, now); // The host's timers are that far behind.
        }
        self.state = DlState::Contending;
        debug_assert!(!self.is_exhausted(), "a replenished entity may run");
    }

    /// Records that the entity leaves its queue to sleep; the caller determines the state of its
    /// bandwidth \[4\] \[5\].
    pub(crate) fn block(&mut self, state: DlState) {
        debug_assert!(self.state == DlState::Contending, "only a running entity blocks");
        self.state = state;
        debug_assert!(self.sleeps_on().is_some(), "a sleeping task's bandwidth belongs to a CPU");
    }

    /// Prepares the entity for its move to another queue.
    pub(crate) fn migrate(&mut self, params: DlParams, now: Instant) {
        if self.state == DlState::Contending && self.is_exhausted() {
            self.throttle(params);
            if self.boost.is_some() {
                self.replenish(params, now);
            }
        }
    }

    /// Sets the lent parameters of an entity that is off its queue; `None` ends the boost. `own`
    /// are the parameters that the task itself asks for. A boosted deadline task can run at once. A
    /// task of another class is reset; if it is boosted, it begins a job when it is activated
    /// \[1\].
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
            DlState::Fresh | DlState::NonContending { .. } | DlState::Inactive { .. } | DlState::Left { .. } => {}
        }
    }

    /// \[9\] Records that the task has left the class by a change of its policy.
    pub(crate) fn leave(&mut self) {
        self.state = match self.state {
            DlState::Fresh => DlState::Fresh,
            DlState::Throttled { until } => DlState::Left { throttled: Some(until) },
            DlState::Left { throttled } => DlState::Left { throttled },
            DlState::Contending | DlState::NonContending { .. } | DlState::Inactive { .. } => {
                DlState::Left { throttled: None }
            }
        };
        self.overrun = Overrun::None;
    }

    /// Resets the entity of a task that is no longer boosted, and has no parameters of its own.
    fn reset(&mut self) {
        (self.state, self.runtime_left) = (DlState::Fresh, SignedDuration::default());
        self.overrun = Overrun::None;
    }

    pub(crate) fn charge(&mut self, delta: Duration) {
        self.runtime_left = self.runtime_left - delta.to_signed();
    }
}

/// Returns whether the remaining budget of a job exceeds runtime/deadline of the time until its
/// deadline: `dl_entity_overflow`.
pub(crate) fn overflows(left: SignedDuration, abs_deadline: Instant, params: DlParams, now: Instant) -> bool {
    let left = i128::from(left.as_nanos()) * i128::from(params.deadline.as_nanos());
    let right = u128::from(abs_deadline.since(now).as_nanos()) * u128::from(params.runtime.as_nanos());
    i128::try_from(right).is_ok_and(|right| left > right)
}

/// The index of the heap of a queued or throttled task.
pub(crate) const QUEUE: usize = 0;

/// The index of the heap of pushable tasks.
pub(crate) const PUSHABLE: usize = 1;

/// The number of heap positions of a task.
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

    /// Returns an entity with a job that began at 0 and then ran for a while.
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
    fn a_task_that_leaves_the_class_and_comes_back_keeps_its_job() {
        let params = params(4, 10, 10);
        let back = |ran: u64, asleep_or: bool, ms: u64, runs: bool| {
            let mut entity = after_running(params, ran);
            if entity.is_exhausted() {
                entity.throttle(params);
            }
            entity.leave();
            match asleep_or {
                true => entity.activate(params, at(ms)),
                false => entity.come_back(params, at(ms), runs),
            }
            shows(&entity)
        };
        let until = at(10);
        // With the remaining 3 ms, whatever bandwidth that is by now; asleep, the wakeup rule
        // counts.
        assert_eq!(back(1, false, 8, false), (DlState::Contending, 3, 10));
        assert_eq!(back(1, true, 8, false), (DlState::Contending, 4, 18));
        // Its budget is exhausted: until 10 ms, or until the next charge if it runs.
        assert_eq!(back(4, false, 8, false), (DlState::Throttled { until }, 0, 10));
        assert_eq!(back(4, false, 8, true), (DlState::Contending, 0, 10));
        assert_eq!(back(4, true, 8, false), (DlState::Throttled { until }, 0, 10));
        // Too late for the old job.
        assert_eq!(back(1, false, 11, false), (DlState::Contending, 4, 21));
        assert_eq!(back(4, false, 12, true), (DlState::Contending, 4, 22));
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
    fn a_waking_task_keeps_its_job_only_within_its_bandwidth() {
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
    fn a_task_that_sleeps_throttled_is_replenished_when_it_wakes() {
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
