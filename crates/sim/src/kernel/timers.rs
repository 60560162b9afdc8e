//! Timers of run queues, groups and tasks.
//!
//! The core arms and cancels timers much more often than they fire, so cancelling must be free:
//! nothing is taken out of the event queue. Each arming has a generation instead, and an event of
//! an older generation is void when it comes up. The timers of tasks need none: a task arms one and
//! waits for it. Those with slack ([`SlackTimer`]) are kept by CPU, and their event is void if none
//! is left there that must fire.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, SlackTimer};
use zerolag_core::{GroupTimer, Lent, RqTimer};
use zerolag_model::{CpuId, Duration, GroupId, Instant, TaskId};

impl Kernel {
    /// Arms a timer of a run queue.
    pub(super) fn arm_rq_timer(&mut self, of: CpuId, timer: RqTimer, at: Instant) {
        let place = &mut self.cpus[of.index()];
        let generation = place.timer_generation(timer).wrapping_add(1);
        *place.timer_generation(timer) = generation;
        let event = Event::RqTimer { cpu: of, timer, generation };
        let at = at.max(self.time.now);
        let at = match timer {
            // Linux v7.1 `kernel/sched/core.c`, `hrtick_schedule_exit`: it is a timer like any
            // other, and is set when the switch is over.
            RqTimer::Slice if place.rq.has_hrtick() => {
                *place.due(timer) = Instant::ZERO;
                let set_at = place.busy_until.max(self.time.now) + self.calls.switch_ahead;
                self.late(set_at + at.since(self.time.now))
            }
            // A slice or budget is task time, which stands still until the CPU's present path ends.
            RqTimer::Slice | RqTimer::Server(_) | RqTimer::GroupServers => {
                *place.due(timer) = place.clock(self.time.now).task + at.since(self.time.now);
                at + place.busy_until.since(self.time.now)
            }
            RqTimer::Replenish | RqTimer::RtPeriod => at,
        };
        self.time.queue.arm(at, event);
    }

    /// Returns whether a timer that comes up is due. One that comes up in a kernel path is not, if
    /// task time has stood still since it was armed: it comes up again after the path, when the
    /// task has run for the rest. A timer that fired first would find time left, be armed again by
    /// its own handler, come up in the path of that handler, and so on: an interrupt storm in which
    /// the task never runs.
    pub(crate) fn is_due(&mut self, cpu: CpuId, timer: RqTimer, generation: u32) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if *place.timer_generation(timer) != generation {
            return false;
        }
        let most = match timer {
            RqTimer::Replenish | RqTimer::RtPeriod => return true,
            RqTimer::Slice => Duration::MAX,
            // It can also be set to an instant.
            RqTimer::Server(_) | RqTimer::GroupServers => LATEST_SERVER,
        };
        let left = place.due(timer).since(place.clock(self.time.now).task).min(most);
        if place.busy_until <= self.time.now || left.is_zero() {
            return true;
        }
        self.time.queue.arm(place.busy_until + left, Event::RqTimer { cpu, timer, generation });
        false
    }

    pub(super) fn cancel_rq_timer(&mut self, of: CpuId, timer: RqTimer) {
        let generation = self.cpus[of.index()].timer_generation(timer);
        *generation = generation.wrapping_add(1);
    }

    /// Arms a timer of a group. It fires on the CPU that arms it.
    pub(super) fn arm_group_timer(&mut self, cpu: CpuId, group: GroupId, timer: GroupTimer, at: Instant) {
        let generation = self.timers.groups.generation(group, timer);
        *generation = generation.wrapping_add(1);
        let event = Event::GroupTimer { cpu, group, timer, generation: *generation };
        self.time.queue.arm(at.max(self.time.now), event);
    }

    /// Returns whether an event of a group's timer is still valid.
    pub(crate) fn is_current_group_timer(&mut self, group: GroupId, timer: GroupTimer, generation: u32) -> bool {
        *self.timers.groups.generation(group, timer) == generation
    }

    /// Makes all events of a removed group's timers void: another group may get its id.
    pub(crate) fn forget_group_timers(&mut self, group: GroupId) {
        self.timers.groups.forget(group);
    }

    /// Draws from a stream of this seed how late the timers of tasks are, if the costs say so.
    pub(crate) fn draw_lateness(&mut self, seed: u64) {
        self.draws.start_lateness(&self.costs, seed);
    }

    /// Arms the timer of a task on a CPU.
    pub(crate) fn arm_task_timer(&mut self, task: TaskId, cpu: CpuId, at: Instant) {
        let at = self.late(at);
        self.time.queue.arm(at, Event::TaskTimer { cpu, task });
    }

    /// Arms the timer of a task that goes to sleep on a CPU. That of a fair task has slack: it
    /// fires together with another timer of its CPU if one fires in that time, else at its end.
    ///
    /// Linux v6.11 `kernel/time/hrtimer.c`: `hrtimer_nanosleep` (the slack, none for a task that is
    /// real-time or inherits so), `__hrtimer_run_queues` (timers fire in order of their latest
    /// times, up to the first whose earliest time is still to come). differs: since 6.12 the
    /// policy decides, not an inherited priority (`kernel/sched/syscalls.c`,
    /// `__setscheduler_params`).
    pub(crate) fn arm_sleep_timer(&mut self, task: TaskId, cpu: CpuId, at: Instant) {
        let slack = self.rules.timer_slack;
        if slack.is_zero() || !self.lends(task).is_some_and(Lent::has_timer_slack) {
            self.arm_task_timer(task, cpu, at);
            return;
        }
        let soft = self.late(at);
        let hard = soft.saturating_add(slack);
        let timer = SlackTimer { hard, nth: self.timers.arm_slack(), soft, task };
        self.cpus[cpu.index()].slack_timers.insert(timer);
        self.time.queue.arm(hard, Event::SlackTimer { cpu });
    }

    /// Returns when a timer for this time fires, if the costs say that timers are late.
    fn late(&mut self, at: Instant) -> Instant {
        if at > self.time.now { at.saturating_add(self.draws.lateness(&self.costs)) } else { at }
    }

    /// Returns whether a timer with slack has not fired by its latest time, which is now.
    pub(crate) fn is_slack_timer_left(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].slack_timers.first().is_some_and(|timer| timer.hard <= self.time.now)
    }

    #[inline(always)]
    pub(crate) fn has_slack_timers(&self, cpu: CpuId) -> bool {
        !self.cpus[cpu.index()].slack_timers.is_empty()
    }

    /// Takes the next timer with slack of a CPU that fires by now; returns its task.
    pub(crate) fn next_slack_timer(&mut self, cpu: CpuId) -> Option<TaskId> {
        let timers = &mut self.cpus[cpu.index()].slack_timers;
        let is_due = timers.first().is_some_and(|timer| timer.soft <= self.time.now);
        is_due.then(|| timers.pop_first())?.map(|timer| timer.task)
    }
}

/// The longest time by which the timer of a server is put off behind a kernel path.
const LATEST_SERVER: Duration = Duration::from_micros(1);
