//! The budgets of groups with deadline servers (`cpu.rt.max`, `rt_group_sched = hcbs`): their
//! admission, and the servers that follow from them. Part of [`Scheduler`].
//!
//! | error | errno | when |
//! |---|---|---|
//! | [`ServedError::Params`] | EINVAL | the runtime is above the period, or a server cannot have the values |
//! | [`ServedError::Moves`] | EINVAL | the budget becomes, or was, that of a group above, with real-time tasks in the group |
//! | [`RtGroupError::HasTasks`] | EBUSY | the runtime becomes 0 with real-time tasks in the group |
//! | [`ServedError::Above`] | EINVAL | the groups below a group have more together than it has |
//! | [`ServedError::Booked`] | EBUSY | a root domain has too little left: deadline tasks, servers of classes and groups share it |
//!
//! A budget is booked in every root domain for each of its CPUs, whether the group runs there or
//! not. A group with `max` books nothing: the groups below it count as groups of its context.
//!
//! The root group's budget is a part that is set apart for all groups: it is booked as a whole, and
//! the groups right below the root share it. It has no servers, and limits no task of the root.
//! `max` there is 0. Without it groups book what they ask for.
//!
//! O(groups squared).
//!
//! Sources: HCBS v6, patch 13 (`__dl_overflow`, `sched_dl_global_validate`), 17
//! (`tg_set_rt_bandwidth`, `tg_rt_schedulable`, `tg_compute_children_bw`, `dl_check_tg`,
//! `sched_rt_can_attach`); Y. Andriaccio, 2026-05-18, lkml 2605.2/03417 (the root's file). differs:
//! in v6 the root group's `cpu.rt.max` is 0 at first; here it is absent until it is set, which is
//! what T. Heo proposes (2026-05-18, lkml 2605.2/03849). A group without groups below has its
//! runtime to the nanosecond; v6 rounds it down to 2^-20 of the period.

use crate::class::rt_served;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::rq::run_queue::Rq;
use crate::task::io::Io;
use crate::words::bandwidth::Bandwidth;
use crate::words::clock::Clock;
use crate::words::error::{BookedUp, Overcommit, RtGroupError, ServedError};
use lock_api::RawMutex;
use zerolag_model::{Duration, GroupId, Instant, RtBandwidth, ServerParams};

/// The shortest runtime of a server but 0 (`DL_SCALE`).
const RUNTIME_MIN: Duration = Duration::from_nanos(1 << 10);

/// The budgets of all groups, one of them changed.
struct Budgets<'a, L: RawMutex> {
    scheduler: &'a Scheduler<L>,
    changed: Option<(GroupId, RtBandwidth)>,
}

impl<L: RawMutex> Budgets<'_, L> {
    fn of(&self, group: GroupId) -> RtBandwidth {
        match self.changed {
            Some((changed, bandwidth)) if changed == group => bandwidth,
            _ => self.scheduler.shared.rt_groups.row(group).bandwidth,
        }
    }

    /// Returns the nearest group with a budget, from a group upwards; the root if there is none.
    fn context(&self, group: GroupId) -> GroupId {
        let mut at = group;
        // Bounded by the depth of groups.
        while at != GroupId::ROOT && self.of(at).runtime.is_none() {
            at = self.scheduler.shared.groups.parent(at);
        }
        at
    }

    fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.scheduler.shared.groups.ids().filter(|group| *group != GroupId::ROOT)
    }

    /// Returns the groups with a budget that is taken from that of `context`.
    fn below(&self, context: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let parent = |group: &GroupId| self.scheduler.shared.groups.parent(*group);
        self.groups().filter(move |group| self.of(*group).runtime.is_some() && self.context(parent(group)) == context)
    }

    fn sum_below(&self, context: GroupId) -> u64 {
        self.below(context).map(|group| Bandwidth::of_rt(self.of(group)).0).sum()
    }
}

impl<L: RawMutex> Scheduler<L> {
    const fn budgets(&self, changed: Option<(GroupId, RtBandwidth)>) -> Budgets<'_, L> {
        Budgets { scheduler: self, changed }
    }

    /// Sets the budget of a group, if it is admitted. Called with the constraints locked.
    pub(crate) fn set_budget(&self, group: GroupId, bandwidth: RtBandwidth, now: Instant) -> Result<(), RtGroupError> {
        if let Some(runtime) = bandwidth.runtime {
            let is_server = bandwidth.period >= ServerParams::PERIOD_MIN
                && bandwidth.period <= ServerParams::PERIOD_MAX
                && (runtime.is_zero() || runtime >= RUNTIME_MIN);
            if !is_server || !bandwidth.is_valid() {
                return Err(RtGroupError::Served(ServedError::Params));
            }
        }
        self.check_has_no_tasks(group, bandwidth)?;
        let after = self.budgets(Some((group, bandwidth)));
        self.check_budgets(&after, group)?;
        self.check_booked_groups(&after, group, now)?;
        self.shared.rt_groups.row(group).set(bandwidth);
        self.renew_served();
        Ok(())
    }

    /// Sets the part of each CPU that is set apart for all groups together (`cpu.rt.max` of the
    /// root group), if it is admitted. Called with the constraints locked.
    pub(crate) fn set_pool(&self, bandwidth: RtBandwidth, now: Instant) -> Result<(), RtGroupError> {
        if bandwidth.runtime.is_some() && !bandwidth.is_valid() {
            return Err(RtGroupError::Served(ServedError::Params));
        }
        let pool = bandwidth.runtime.map_or(0, |_| Bandwidth::of_rt(bandwidth).0);
        let below = self.budgets(None).sum_below(GroupId::ROOT);
        if below > pool {
            let over = Overcommit { wants: 0, reserved: below, limit: pool };
            return Err(RtGroupError::Served(ServedError::Below(over)));
        }
        self.check_booked_all(pool, pool, now)?;
        self.shared.served.set_pool(pool);
        Ok(())
    }

    /// Checks that the real-time tasks of a group, and of those below it that use the same servers,
    /// do not lose them.
    fn check_has_no_tasks(&self, group: GroupId, bandwidth: RtBandwidth) -> Result<(), RtGroupError> {
        let before = self.budgets(None);
        let context = before.context(group);
        let is_within = |mut at: GroupId| {
            while at != GroupId::ROOT && at != group {
                at = self.shared.groups.parent(at);
            }
            at == group
        };
        let same = before.groups().filter(|at| before.context(*at) == context && is_within(*at));
        let tasks = same.map(|at| self.shared.rt_groups.row(at).nr_rt).sum();
        let had = before.of(group).runtime;
        if tasks > 0 && had.is_none() != bandwidth.runtime.is_none() {
            return Err(RtGroupError::Served(ServedError::Moves(tasks)));
        }
        let loses = bandwidth.runtime == Some(Duration::ZERO) && had != bandwidth.runtime;
        if tasks > 0 && loses && self.rt_bandwidth().runtime.is_some() {
            return Err(RtGroupError::HasTasks(tasks));
        }
        Ok(())
    }

    /// Checks that no group has less than the groups that take their budgets from it.
    fn check_budgets(&self, after: &Budgets<'_, L>, changed: GroupId) -> Result<(), RtGroupError> {
        let budgets = after.groups().filter(|group| after.of(*group).runtime.is_some());
        let budgets = budgets.map(|group| (group, Bandwidth::of_rt(after.of(group)).0));
        let pool = self.shared.served.pool().map(|pool| (GroupId::ROOT, pool));
        for (context, has) in budgets.chain(pool) {
            let below = after.sum_below(context);
            if below <= has {
                continue;
            }
            let is_new = after.below(context).any(|group| group == changed);
            let wants = if is_new { Bandwidth::of_rt(after.of(changed)).0 } else { 0 };
            let over = Overcommit { wants, reserved: below - wants, limit: has };
            let wrong = if is_new { ServedError::Above(context, over) } else { ServedError::Below(over) };
            return Err(RtGroupError::Served(wrong));
        }
        Ok(())
    }

    /// Checks that every root domain has room for the groups right below the root.
    fn check_booked_groups(&self, after: &Budgets<'_, L>, changed: GroupId, now: Instant) -> Result<(), RtGroupError> {
        let wants_all = after.sum_below(GroupId::ROOT);
        // What is set apart for groups was booked then.
        if self.shared.served.pool().is_some() {
            return Ok(());
        }
        self.check_booked_all(wants_all, Bandwidth::of_rt(after.of(changed)).0, now)
    }

    /// Checks that every root domain has room for the bandwidth that groups have together, of
    /// which `own` is asked for now.
    fn check_booked_all(&self, wants_all: u64, own: u64, now: Instant) -> Result<(), RtGroupError> {
        if wants_all <= self.shared.served.reserved() {
            return Ok(());
        }
        for domain in &self.shared.domains {
            let capacity: u64 = domain.span.iter().map(|cpu| u64::from(self.config.topology.capacity(cpu))).sum();
            let scaled = |bandwidth: u64| (bandwidth * capacity) >> 10;
            let mut booked = domain.dl_booked.lock();
            let Some(limit) = booked.limit.admitted.map(|limit| scaled(limit.0)) else { continue };
            let reserved = booked.total(now).0;
            if limit < reserved + scaled(wants_all) {
                let reserved = reserved + scaled(wants_all - own);
                let booked = BookedUp { wants: scaled(own), reserved, limit };
                return Err(RtGroupError::Served(ServedError::Booked(booked)));
            }
        }
        Ok(())
    }

    /// Computes contexts, parameters of servers and the booked bandwidth anew. Called with the
    /// constraints locked, after a budget has changed or a group was made or removed.
    pub(crate) fn renew_served(&self) {
        let now = self.budgets(None);
        for group in now.groups() {
            let bandwidth = now.of(group);
            let below = now.sum_below(group);
            let left = Bandwidth::of_rt(bandwidth).0.saturating_sub(below);
            let runtime = match bandwidth.runtime {
                None => Duration::ZERO,
                Some(runtime) if below == 0 => runtime,
                Some(_) => bandwidth.period.mul_div_floor(left, 1 << 20),
            };
            self.shared.served.set_params(group, runtime, bandwidth.period);
        }
        for group in now.groups() {
            self.shared.served.set_context(group, now.context(group));
        }
        self.shared.served.set_reserved(now.sum_below(GroupId::ROOT));
    }

    /// Returns whether a switch to idle is to be [completed](Self::switched), too: tasks of a group
    /// wait although their CPU idles, if their server has no runtime left (`rt_group_sched =
    /// hcbs`).
    #[inline(always)]
    #[must_use]
    pub const fn leaves_tasks_behind_idle(&self) -> bool {
        self.shared.served.is_on()
    }

    /// Makes the servers of groups on a CPU follow changed budgets (`cpu.rt.max`). Every CPU is to
    /// be called after [`set_group_rt`](Self::set_group_rt), and after a group was removed; one
    /// that is late runs its groups by their former budgets. O(groups).
    pub fn follow_rt_groups(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        if rq.rt.local.is_none() {
            return;
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_current(rq, cx);
        rt_served::follow_budgets(rq, cx);
        rq.publish(cx);
    }

    /// Returns the runtime and the period of a group's servers (`cpu.rt.internal`): its budget
    /// without those of the groups below. The runtime is 0 for a group with `max`.
    #[must_use]
    pub fn group_rt_internal(&self, group: GroupId) -> Option<(Duration, Duration)> {
        let is_one = self.shared.served.is_on() && self.shared.groups.exists(group);
        let params = is_one.then(|| self.shared.served.params(group))?;
        Some((params.runtime, params.period))
    }

    /// Returns the bandwidth that groups have booked on CPUs of this capacity together.
    pub(crate) fn booked_by_groups(&self, capacity: u64) -> u64 {
        (self.shared.served.reserved() * capacity) >> 10
    }
}
