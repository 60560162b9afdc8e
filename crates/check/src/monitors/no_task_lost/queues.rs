//! [`WaitingQueues`]: which waiting tasks are on the queue of a CPU, by kind.
//!
//! The rule asks for the tasks of one queue whenever a turn of a class above the fair one ends:
//! that is a question per switch. A search through all waiting tasks of the machine made checking
//! quadratic where hundreds wait, so they are kept by queue.

use std::collections::BTreeSet;
use zerolag_model::{ClassId, CpuId, TaskId};
use zerolag_trace::replay::TaskView;
use zerolag_trace::{IdTable, Replay};

/// The kinds of tasks that are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Of the fair class.
    Fair,
    /// Of the real-time class.
    Rt,
}

/// The waiting tasks of each CPU.
#[derive(Debug, Default)]
pub(super) struct WaitingQueues {
    queues: IdTable<CpuId, [BTreeSet<TaskId>; 2]>,
    /// Where each task is in them.
    places: IdTable<TaskId, Option<(CpuId, Kind)>>,
}

impl Kind {
    fn of(view: &TaskView) -> Option<Self> {
        match view.prio.class() {
            ClassId::Fair => Some(Self::Fair),
            ClassId::Rt => Some(Self::Rt),
            ClassId::Stop | ClassId::Deadline | ClassId::Ext | ClassId::Idle => None,
        }
    }
}

impl WaitingQueues {
    /// Follows a change of a task: of its state, its queue or its priority. O(log n).
    pub(super) fn update(&mut self, after: &Replay, task: TaskId, waits: bool) {
        let view = after.task(task).filter(|_| waits);
        let place = view.and_then(|view| Some((view.rq?, Kind::of(view)?)));
        if place.is_none() && self.places.get(task).is_none_or(Option::is_none) {
            return;
        }
        let known = self.places.entry(task);
        if *known == place {
            return;
        }
        if let Some((cpu, kind)) = core::mem::replace(known, place) {
            self.queues.entry(cpu)[kind as usize].remove(&task);
        }
        if let Some((cpu, kind)) = place {
            self.queues.entry(cpu)[kind as usize].insert(task);
        }
    }

    /// Returns the waiting tasks of a kind on the queue of a CPU.
    pub(super) fn on<'s>(
        &'s self,
        replay: &'s Replay,
        cpu: CpuId,
        kind: Kind,
    ) -> impl Iterator<Item = (TaskId, &'s TaskView)> {
        let ids = self.queues.get(cpu).into_iter().flat_map(move |queue| &queue[kind as usize]);
        ids.filter_map(|id| Some((*id, replay.task(*id)?)))
    }
}
