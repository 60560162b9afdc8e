//! [`Steps`]: where a policy has put its tasks, for those that show it.
//!
//! A trace has which task ran when, and not the queues of a policy. A host that is asked to keeps
//! the last two steps of each task, which say how it came to its CPU, and all steps of given tasks
//! in given times, which say where it waited. Without that nothing is kept.

use crate::host::Host;
use crate::scx::Scx;
use crate::words::{Callback, DsqId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use zerolag_model::state::{PolicyQueue, PolicyStep, PolicyWay};
use zerolag_model::{Instant, TaskId};

/// The most steps that are kept of one wait.
const STEPS: usize = 200;

/// A task in a time, and its steps there: the one that it begins with, and those that follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// The task.
    pub task: TaskId,
    /// The begin.
    pub from: Instant,
    /// The end.
    pub to: Instant,
    /// The steps, of very many the first.
    pub steps: Vec<PolicyStep>,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Steps {
    /// The last step of each task, and the one before it.
    last: Vec<[Option<PolicyStep>; 2]>,
    windows: Vec<Window>,
}

impl Scx {
    /// Notes that a task has been put on a queue, or is kept by the policy.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_step(&mut self, p: TaskId, queue: Option<DsqId>, callback: Option<Callback>) {
        let to = match queue {
            None => PolicyQueue::Kept,
            Some(dsq) => match dsq.cpu() {
                Some(cpu) => PolicyQueue::Local(cpu),
                None if dsq.is_builtin() => PolicyQueue::Global,
                None => PolicyQueue::Own(dsq.0),
            },
        };
        let ahead = queue.map_or(0, |dsq| self.dsq_iter(dsq).take_while(|other| *other != p).count());
        let step = PolicyStep { at: self.now, by: callback.map(Callback::name), to, ahead: ahead as u32 };
        let Some(steps) = &mut self.steps else { return };
        if steps.last.len() <= p.index() {
            steps.last.resize(p.index() + 1, [None; 2]);
        }
        let [last, before] = &mut steps.last[p.index()];
        (*before, *last) = (*last, Some(step));
        for window in steps.windows.iter_mut().filter(|window| window.task == p && step.at <= window.to) {
            if step.at < window.from {
                window.steps.clear();
            }
            if window.steps.len() < STEPS {
                window.steps.push(step);
            }
        }
    }
}

impl Host {
    /// Keeps from now on how each task came to its CPU, and the steps of these tasks in these
    /// times.
    pub fn keep_steps(&mut self, of: impl IntoIterator<Item = (TaskId, Instant, Instant)>) {
        let window = |(task, from, to)| Window { task, from, to, steps: Vec::new() };
        let windows = of.into_iter().map(window).collect();
        self.scx.steps = Some(Box::new(Steps { last: Vec::new(), windows }));
    }

    /// Returns how a task came to where it is, if that is kept.
    #[must_use]
    pub fn way(&self, p: TaskId) -> Option<PolicyWay> {
        let [last, before] = *self.scx.steps.as_ref()?.last.get(p.index())?;
        Some(PolicyWay { last: last?, before })
    }

    /// Takes out the steps that were to be kept.
    pub fn take_steps(&mut self) -> Vec<Window> {
        self.scx.steps.take().map_or_else(Vec::new, |steps| steps.windows)
    }
}
