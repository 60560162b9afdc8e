//! The real-time runtime of groups (`cpu.rt_runtime_us`, `cpu.rt_period_us`): its admission, and
//! the groups that tasks with a real-time policy can be in. Part of [`Scheduler`].
//!
//! | error | errno | when |
//! |---|---|---|
//! | [`RtGroupError::Off`] | ENOENT | the kernel has no such files |
//! | [`RtGroupError::Params`] | EINVAL | there is no period, or the runtime exceeds it |
//! | [`RtGroupError::HasTasks`] | EBUSY | the runtime becomes 0 with real-time tasks in the group |
//! | [`RtGroupError::Global`] | EINVAL | a group would have a larger share than `sched_rt_runtime_us` allows |
//! | [`RtGroupError::Parent`] | EINVAL | groups would have a larger share together than the one above |
//! | [`TaskError::NoRtRuntime`] | EPERM | a task of a group without runtime asks for a real-time policy |
//! | [`GroupError::NoRtRuntime`] | EINVAL | a real-time task moves to such a group |
//!
//! Shares are those of one CPU, and every CPU has them; the number of CPUs does not matter. What
//! deadline tasks have reserved is not compared with the shares of groups: each is bounded by
//! `sched_rt_runtime_us` alone, so that both together can be promised twice that.
//!
//! O(groups squared), as the kernel's walk of the tree is with each group's children.
//!
//! Sources: Linux v5.10 `kernel/sched/rt.c`, `tg_set_rt_bandwidth`, `tg_rt_schedulable`,
//! `sched_rt_can_attach`; `core.c` and `syscalls.c`, `__sched_setscheduler`,
//! `cpu_cgroup_can_attach`.
//! differs: a task that has inherited its priority does not count as a real-time task of its group.

use crate::entry::scheduler::Scheduler;
use crate::task::body::Task;
use crate::task::io::Io;
use crate::words::bandwidth::Bandwidth;
use crate::words::clock::Clock;
use crate::words::error::{Overcommit, RtBandwidthError, RtGroupError, TaskError};
use crate::words::group::GroupError;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, GroupId, RtBandwidth, SchedAttr, TaskId, TraceEvent};

const fn is_rt(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Rt { .. })
}

impl<L: RawMutex> Scheduler<L> {
    /// Sets the runtime that real-time tasks of a group have on each CPU per period. It holds from
    /// the next charge on; a group that has exceeded its runtime waits for the end of its period.
    /// Loans between CPUs are forgotten. With `rt_group_sched = hcbs` it is the group's budget
    /// (`cpu.rt.max`; no runtime is `max`), and every CPU is to
    /// [follow](Self::follow_rt_groups) then; that of the root group is set apart for all groups,
    /// and no server has it.
    ///
    /// # Errors
    /// The group does not exist, or is the root without such budgets; the runtime is refused
    /// ([`RtGroupError`]). Nothing is changed then.
    pub fn set_group_rt(
        &self,
        group: GroupId,
        bandwidth: RtBandwidth,
        now: Clock,
        by: CpuId,
        io: &mut Io,
    ) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            if !self.shared.served.is_on() {
                return Err(GroupError::IsRoot);
            }
            let _constraints = self.shared.rt_groups.constraints.lock();
            return self.set_pool(bandwidth, now.wall).map_err(|error| GroupError::Rt(group, error));
        }
        if !self.shared.groups.exists(group) {
            return Err(GroupError::NoSuchGroup(group));
        }
        let refuse = |error| Err(GroupError::Rt(group, error));
        if !self.shared.rt_groups.is_on() {
            return refuse(RtGroupError::Off);
        }
        if !bandwidth.is_valid() && !self.shared.served.is_on() {
            return refuse(RtGroupError::Params);
        }
        let _constraints = self.shared.rt_groups.constraints.lock();
        if self.shared.served.is_on() {
            if let Err(error) = self.set_budget(group, bandwidth, now.wall) {
                return refuse(error);
            }
            io.costs.inner_locks += 1;
            io.event(now, by, || TraceEvent::RtGroup { group, bandwidth });
            return Ok(());
        }
        {
            let row = self.shared.rt_groups.row(group);
            let loses = bandwidth.runtime == Some(Duration::ZERO) && row.bandwidth.runtime != bandwidth.runtime;
            if loses && row.nr_rt > 0 && self.rt_bandwidth().runtime.is_some() {
                return refuse(RtGroupError::HasTasks(row.nr_rt));
            }
        }
        if let Err(error) = self.check_rt_groups(self.rt_bandwidth(), Some((group, bandwidth))) {
            return refuse(error);
        }
        self.shared.rt_groups.row(group).set(bandwidth);
        io.costs.inner_locks += 1;
        io.event(now, by, || TraceEvent::RtGroup { group, bandwidth });
        Ok(())
    }

    /// Returns the runtime that real-time tasks of a group have on each CPU per period.
    ///
    /// # Errors
    /// The group does not exist, or groups have no such runtimes.
    pub fn group_rt(&self, group: GroupId) -> Result<RtBandwidth, GroupError> {
        match (self.shared.groups.exists(group), self.shared.rt_groups.is_on()) {
            (false, _) => Err(GroupError::NoSuchGroup(group)),
            (true, false) => Err(GroupError::Rt(group, RtGroupError::Off)),
            (true, true) => Ok(self.shared.rt_groups.row(group).bandwidth),
        }
    }

    /// Checks the shares of all groups: none is larger than the limit of all real-time tasks, and
    /// those of a group's groups are together not larger than its own.
    fn check_rt_groups(&self, global: RtBandwidth, new: Option<(GroupId, RtBandwidth)>) -> Result<(), RtGroupError> {
        let share = |group: GroupId| match new {
            Some((changed, bandwidth)) if changed == group => Bandwidth::of_rt(bandwidth).0,
            _ => Bandwidth::of_rt(self.shared.rt_groups.row(group).bandwidth).0,
        };
        let limit = Bandwidth::of_rt(global).0;
        let groups = &self.shared.groups;
        for group in groups.ids() {
            let has = share(group);
            if has > limit {
                return Err(RtGroupError::Global { group, wants: has, limit });
            }
            let below = groups.ids().filter(|below| *below != GroupId::ROOT && groups.parent(*below) == group);
            let is_new = |below: &GroupId| new.is_some_and(|(changed, _)| changed == *below);
            let (mut wants, mut reserved) = (0, 0);
            for below in below {
                *(if is_new(&below) { &mut wants } else { &mut reserved }) += share(below);
            }
            if wants + reserved > has {
                let over = Overcommit { wants, reserved, limit: has };
                let is_above = new.is_some_and(|(changed, _)| changed == group);
                return Err(if is_above { RtGroupError::Children(over) } else { RtGroupError::Parent(group, over) });
            }
        }
        Ok(())
    }

    /// Checks that no group has a larger share than a new limit of all real-time tasks allows
    /// (`sched_rt_global_constraints`).
    pub(crate) fn check_global_rt(&self, bandwidth: RtBandwidth) -> Result<(), RtBandwidthError> {
        if !self.shared.rt_groups.is_on() || self.shared.served.is_on() {
            return Ok(()); // What groups with servers have booked is compared per root domain.
        }
        let _constraints = self.shared.rt_groups.constraints.lock();
        self.check_rt_groups(bandwidth, None).map_err(|error| match error {
            RtGroupError::Global { group, wants, limit } => RtBandwidthError::Groups { group, has: wants, limit },
            _ => RtBandwidthError::Params,
        })
    }

    /// Returns whether a group cannot have tasks with a real-time policy, because no limit would
    /// ever let them run.
    fn bars_rt(&self, group: GroupId) -> bool {
        if !self.shared.rt_groups.is_on() || self.rt_bandwidth().runtime.is_none() {
            return false;
        }
        let limiting = if self.shared.served.is_on() { self.shared.served.context(group) } else { group };
        (limiting != GroupId::ROOT || !self.shared.served.is_on())
            && self.shared.rt_groups.row(limiting).bandwidth.runtime == Some(Duration::ZERO)
    }

    /// Checks that a task of a group can get a policy, and counts it.
    pub(crate) fn admit_rt(
        &self,
        task: TaskId,
        group: GroupId,
        (had, attr): (Option<SchedAttr>, SchedAttr),
    ) -> Result<(), TaskError> {
        if is_rt(attr) && self.bars_rt(group) {
            return Err(TaskError::NoRtRuntime(task, group));
        }
        self.shared.rt_groups.count(group, had.is_some_and(is_rt), is_rt(attr));
        Ok(())
    }

    /// Moves a task to another group in the books, if the group takes it.
    pub(crate) fn regroup(&self, body: &Task, group: GroupId) -> Result<(), GroupError> {
        if is_rt(body.attr) && self.bars_rt(group) {
            return Err(GroupError::NoRtRuntime(group));
        }
        self.shared.groups.join(group)?;
        self.shared.rt_groups.count(group, false, is_rt(body.attr));
        self.quit_group(body);
        Ok(())
    }

    /// Takes a task out of the books of its group.
    pub(crate) fn quit_group(&self, body: &Task) {
        self.shared.rt_groups.count(body.group, is_rt(body.attr), false);
        self.shared.groups.quit(body.group);
    }

    /// Checks the runtime that CPUs have lent each other: loans do not change the total of a group
    /// in a root domain.
    ///
    /// # Errors
    /// A sentence that names the group.
    pub fn check_rt_groups_lent(&self) -> Result<(), alloc::string::String> {
        if !self.shared.rt_groups.is_on() || self.shared.served.is_on() {
            return Ok(());
        }
        for group in self.shared.groups.ids().filter(|group| *group != GroupId::ROOT) {
            let row = self.shared.rt_groups.row(group);
            let Some(runtime) = row.bandwidth.runtime else { continue };
            for domain in &self.shared.domains {
                let (sum, cpus) = row.total(domain.span.iter());
                if sum != runtime * cpus {
                    return Err(alloc::format!("group {group} has {sum} on {cpus} CPUs, not {runtime} on each"));
                }
            }
        }
        Ok(())
    }
}
