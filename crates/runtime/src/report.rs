//! Reports on tasks and on polls that were too long ([`info`](crate::state::info)).

use crate::coop;
use crate::marks::Pair;
use crate::span::log_overrun;
use crate::state::engine::Engine;
use crate::state::info::{Overrun, TaskInfo, TaskState};
use crate::state::life::{Life, Phase};
use crate::state::task::Task;
use crate::units::to_std;
use zerolag_model::Instant;

impl Task {
    pub(crate) fn info(&self) -> TaskInfo {
        let state = if self.engine().polls(self) {
            TaskState::Polled
        } else {
            let body = self.body.lock();
            match body.life() {
                Life::Detached(_) => TaskState::Polled,
                Life::Attached(Phase::New(_) | Phase::Parked(_) | Phase::LeavingParked(_) | Phase::Delayed)
                | Life::Runner(_)
                | Life::NewRunner(_) => TaskState::Asleep,
                Life::Owner if !body.is_notified() => TaskState::Asleep,
                Life::Attached(Phase::Queued | Phase::LeavingInHand | Phase::LeavingQueued) => TaskState::Runnable,
                Life::Owner | Life::Moving | Life::Dead => TaskState::Runnable,
            }
        };
        let (id, name, group) = (self.id, self.name(), self.group.path());
        TaskInfo { id, name, group, spawned_at: self.spawned_at, state }
    }
}

impl Engine {
    /// Returns the live tasks, by id. O([`Builder::tasks`](crate::Builder::tasks)).
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        self.live_tasks().iter().map(|task| task.info()).collect()
    }

    /// Returns how long a poll can be before it is reported.
    pub(crate) fn overrun_after(&self) -> Option<zerolag_model::Duration> {
        self.hooks.overrun.as_ref().map(|(after, _)| *after)
    }

    /// Reports a poll that has just ended on this thread.
    pub(crate) fn report_overrun(&self, task: &Task, began: Instant) {
        let Some((_, hook)) = &self.hooks.overrun else { return };
        let length = to_std(self.now().since(began));
        let (future, Pair { from, to }) = (task.job.lock().name(), coop::long_between());
        let overrun = Overrun { task: TaskInfo { state: TaskState::Polled, ..task.info() }, future, from, to, length };
        self.contain(|| log_overrun(&overrun));
        self.contain(|| hook(&overrun));
    }
}
