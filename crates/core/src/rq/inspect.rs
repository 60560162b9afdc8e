//! [`Inspect`]: what tests, monitors and debuggers ask of a run queue, and no scheduler does.
//!
//! The questions of a check ("which tasks are queued here, may this one run there?") need a walk
//! over all slots, or show state that a host must not act on. On [`Rq`] itself they would look like
//! part of the contract, and a host would sooner or later call one on a hot path. So they are
//! behind [`Rq::inspect`]: a host that does not check never meets them.
//!
//! Nothing here changes anything. Every question about one task is O(slots).

use crate::queue::dl::server::ServedBy;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use crate::task::deadline;
use zerolag_model::{CpuId, GroupId, Instant, Prio, SchedAttr, ServerKind, SignedDuration, TaskId};

/// A run queue as checks see it. See [`Rq::inspect`].
#[derive(Clone, Copy, Debug)]
pub struct Inspect<'a> {
    pub(crate) rq: &'a Rq,
}

impl Rq {
    /// Returns the priority that a real-time task of the CPU's own queue must beat to run now. No
    /// task there beats one that the server of a group runs.
    #[inline]
    pub(crate) fn prio_to_beat(&self) -> Prio {
        if matches!(self.dl.serving, Some(ServedBy::Group(_))) { Prio::DEADLINE } else { self.current_prio() }
    }

    /// Returns the view of this run queue for checks.
    #[must_use]
    pub const fn inspect(&self) -> Inspect<'_> {
        Inspect { rq: self }
    }
}

impl<'a> Inspect<'a> {
    fn task(self, task: TaskId) -> Option<&'a Task> {
        self.rq.tasks.iter().map(|(_, body)| body).find(|body| body.id == task)
    }

    /// Returns the tasks queued here, the current one included, with effective priority, in no
    /// order that means anything.
    pub fn queued(self) -> impl Iterator<Item = (TaskId, Prio)> + 'a {
        self.rq.tasks.iter().map(|(_, task)| (task.id, task.prio))
    }

    /// Returns whether a task is queued here and is allowed on a CPU.
    #[must_use]
    pub fn may_run_on(self, task: TaskId, cpu: CpuId) -> bool {
        self.task(task).is_some_and(|body| body.may_run_on(cpu))
    }

    /// Returns what a queued task asks for.
    #[must_use]
    pub fn attr(self, task: TaskId) -> Option<SchedAttr> {
        self.task(task).map(|body| body.attr)
    }

    /// Returns the group of a queued task.
    #[must_use]
    pub fn group(self, task: TaskId) -> Option<GroupId> {
        self.task(task).map(|body| body.group)
    }

    /// Returns whether a task here cannot run before its class gets more time: a deadline task
    /// that waits for its next budget, or a real-time task while RT throttling is in force.
    #[must_use]
    pub fn is_throttled(self, task: TaskId) -> bool {
        let is = |body: &Task| deadline::is_throttled(body) || body.prio.is_rt() && self.is_rt_throttled();
        self.task(task).is_some_and(is)
    }

    /// Returns whether a task is blocked but still queued here ([`crate::Left::Delayed`]).
    #[must_use]
    pub fn is_delayed(self, task: TaskId) -> bool {
        self.task(task).is_some_and(|body| body.fair.is_delayed())
    }

    /// Returns the absolute deadline of a deadline task here, and its remaining budget.
    #[must_use]
    pub fn deadline(self, task: TaskId) -> Option<(Instant, SignedDuration)> {
        let body = self.task(task)?;
        (body.prio == Prio::DEADLINE).then_some((body.dl.abs_deadline, body.dl.runtime_left))
    }

    /// Returns the absolute deadline by which the current task runs, its own or its server's.
    #[must_use]
    pub fn current_deadline(self) -> Option<Instant> {
        self.rq.current_deadline()
    }

    /// Returns whether the real-time tasks of this CPU cannot run before the next period.
    #[must_use]
    pub const fn is_rt_throttled(self) -> bool {
        self.rq.rt.throttle.is_throttled()
    }

    /// Returns the priority at which the current task runs: the server's if a server runs it.
    #[must_use]
    pub fn runs_at(self) -> Prio {
        if self.rq.runs_by_deadline() { Prio::DEADLINE } else { self.rq.current_prio() }
    }

    /// Returns the server of a class that runs the current task.
    #[must_use]
    pub fn serving(self) -> Option<ServerKind> {
        self.rq.dl.serving.and_then(ServedBy::kind)
    }

    /// Returns the group whose server runs the current task (`rt_group_sched = hcbs`).
    #[must_use]
    pub fn serving_group(self) -> Option<GroupId> {
        match (self.rq.dl.serving?, &self.rq.rt.local) {
            (ServedBy::Group(at), Some(local)) => Some(local.queue(at).group),
            (ServedBy::Class(_) | ServedBy::Group(_), _) => None,
        }
    }

    /// Returns the task on whose turn another one runs here.
    #[must_use]
    pub fn donor(self) -> Option<TaskId> {
        self.rq.executor().and(self.rq.current_slot()).map(|slot| self.rq.tasks[slot].id)
    }

    /// Returns the number of tasks here that lend their turn.
    #[must_use]
    pub const fn nr_lending(self) -> u32 {
        self.rq.nr_lending()
    }
}
