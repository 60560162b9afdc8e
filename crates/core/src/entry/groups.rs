//! The life cycle of groups: creating, weighing, joining and removing them. Part of [`Scheduler`].

use crate::class::fair;
use crate::entity::weight::Weight;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::group::{GroupError, Idleness};
use crate::words::resched::Resched;
use crate::words::step::Step;
use lock_api::RawMutex;
use zerolag_model::{ClassId, GroupId, TaskId, TraceEvent, UtilClamp};

impl<L: RawMutex> Scheduler<L> {
    /// Creates a group. Its id is free again once the group is removed.
    ///
    /// # Errors
    /// The parent does not exist, the group is deeper than 32 levels, or no reserved group is left
    /// ([`Config::with_group_reserve`]).
    ///
    /// [`Config::with_group_reserve`]: crate::Config::with_group_reserve
    pub fn create_group(&self, parent: GroupId, weight: Weight) -> Result<GroupId, GroupError> {
        let group = self.shared.groups.create(parent, weight)?;
        self.reset_rt(group);
        self.tell_policy(|host| host.add_group(group, parent, weight.to_cpu_weight()));
        Ok(group)
    }

    /// Removes a group that has neither tasks nor groups.
    ///
    /// # Errors
    /// The group has tasks or groups, does not exist, or is the root.
    pub fn remove_group(&self, group: GroupId) -> Result<(), GroupError> {
        self.shared.groups.remove(group)?;
        self.reset_rt(group); // A removed group has no share.
        self.tell_policy(|host| host.remove_group(group));
        Ok(())
    }

    /// Gives a group the real-time runtime of a new one.
    fn reset_rt(&self, group: GroupId) {
        self.shared.rt_groups.reset(group);
        if self.shared.served.is_on() {
            let _constraints = self.shared.rt_groups.constraints.lock();
            self.renew_served();
        }
    }

    /// Changes the weight of a group. Each CPU is to [follow](Self::follow_group_weight) then. One
    /// that does not is late: it follows at its next tick in the group, or when a task or group
    /// joins or leaves the group there.
    ///
    /// # Errors
    /// The group does not exist, is the root, or is idle (EINVAL).
    pub fn set_group_weight(&self, group: GroupId, weight: Weight) -> Result<(), GroupError> {
        self.shared.groups.change_weight(group, weight)?;
        self.tell_policy(|host| host.set_group_weight(group, weight.to_cpu_weight()));
        Ok(())
    }

    /// Makes a group idle or normal (`cpu.idle`). Every CPU follows as for the weight. A group that
    /// was idle weighs 1024 again, whatever its weight was before.
    ///
    /// # Errors
    /// The group does not exist or is the root.
    pub fn set_group_idle(&self, group: GroupId, idleness: Idleness) -> Result<(), GroupError> {
        self.shared.groups.change_idleness(group, idleness)
    }

    /// Sets the utilisation clamps of a group (`cpu.uclamp.min`, `cpu.uclamp.max`): bounds on those
    /// of its tasks. They hold from the next placement on.
    ///
    /// # Errors
    /// The group does not exist or is the root.
    pub fn set_group_clamp(&self, group: GroupId, clamp: UtilClamp) -> Result<(), GroupError> {
        self.shared.groups.set_clamp(group, clamp)
    }

    /// Makes a CPU follow the weight of a group that has been [set](Self::set_group_weight), or
    /// whether it is [idle](Self::set_group_idle). A group that waits here keeps its lag in real
    /// time. O(depth x log n).
    ///
    /// Linux v6.12 `kernel/sched/fair.c`, `__sched_group_set_shares`.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn follow_group_weight(&self, rq: &mut Rq, now: Clock, group: GroupId, io: &mut Io) -> Result<(), GroupError> {
        if !self.shared.groups.exists(group) {
            return Err(GroupError::NoSuchGroup(group));
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        if let Some(q) = rq.fair.live_queue(&self.shared.groups, group) {
            lifecycle::charge_current(rq, cx);
            fair::follow_weights(rq, cx, q);
            rq.publish(cx);
        }
        Ok(())
    }

    /// Moves a queued task to another group.
    ///
    /// # Errors
    /// The task is not on this run queue; the group does not exist, or has no runtime for a
    /// real-time task. Nothing is changed then.
    pub fn set_group(
        &self,
        rq: &mut Rq,
        now: Clock,
        task: TaskId,
        group: GroupId,
        io: &mut Io,
    ) -> Result<Step, GroupError> {
        if !self.shared.groups.exists(group) {
            return Err(GroupError::NoSuchGroup(group));
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let slot = self.slot_to_change(rq, cx, task)?;
        self.regroup(&rq.tasks[slot], group)?;
        cx.io.event(now, rq.cpu(), || TraceEvent::GroupChange { task, group });
        // A task that waits makes its CPU look for a switch since 7.0 only (`sched_move_task`).
        let is_unnoticed = cx.config.settings.group_move_unnoticed
            && rq.current_slot() != Some(slot)
            && rq.tasks[slot].prio.class() == ClassId::Fair;
        let step = if is_unnoticed {
            let changed = self.change_queued(rq, cx, slot, |body| body.group = group);
            rq.publish(cx);
            changed.step
        } else {
            self.change_prio(rq, cx, slot, |body| body.group = group)
        };
        // A running task can have joined a throttled group (Linux v6.18 `sched_move_task`).
        if rq.current_slot() == Some(slot) && rq.rt.is_stopped(&rq.tasks, slot) {
            rq.resched(cx, Resched::Now);
        }
        Ok(step)
    }

    /// Returns in how many groups a parked task is, one in the other. O(depth).
    #[must_use]
    pub fn levels(&self, parcel: &Parcel) -> u64 {
        self.shared.groups.depth(parcel.0.group) as u64
    }

    /// Moves a parked task to another group.
    ///
    /// # Errors
    /// The group does not exist, or has no runtime for a real-time task.
    pub fn set_group_parked(&self, parcel: &mut Parcel, group: GroupId) -> Result<(), GroupError> {
        self.regroup(&parcel.0, group)?;
        parcel.0.group = group;
        Ok(())
    }
}
