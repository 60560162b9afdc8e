//! The work that a task is about to do, for policies that ask for the truth (`srtf`).
//!
//! A task's program is walked ahead without being changed: random times are drawn from copies of
//! the streams that the task will draw from. The walk ends where the task waits next, or completes
//! its request. A lock is passed: it may be free. A worker that wakes for a request is expected to
//! get the first one that waits.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, WakeKind};
use crate::program::act::compute::request_stream;
use crate::program::shared::Shared;
use crate::program::state::Programs;
use zerolag_model::{CpuId, Duration, TaskId};
use zerolag_workload::Stream;
use zerolag_workload::nature::{Hold, Nature, Passing};
use zerolag_workload::program::{Action, ResourceId};

/// The most actions that are looked at. A task that does not wait in so many computes without an
/// end in sight.
const ACTIONS_MAX: usize = 64;

impl Programs {
    /// Wakes a task. A policy that asks for the truth is told first what the task is about to do.
    #[inline(always)]
    pub(crate) fn wake_foreseen(
        &self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        why: WakeKind,
        target: Option<CpuId>,
    ) -> Done {
        if kernel.scheduler().wants_work() {
            self.tell_work(kernel, task, Duration::ZERO);
        }
        kernel.wake(cpu, task, why, target)
    }

    /// Tells the policy the work of a task that wakes, or begins a computation of this length.
    #[cold]
    pub(crate) fn tell_work(&self, kernel: &Kernel, task: TaskId, computes: Duration) {
        kernel.scheduler().tell_work(task, self.work_ahead(task, computes));
    }

    /// Returns the CPU time until a task waits, if it does soon.
    fn work_ahead(&self, task: TaskId, computes: Duration) -> Option<Duration> {
        let body = self.task(task);
        let def = &self.program.tasks[body.model()];
        let mut cursor = body.cursor;
        let mut own = body.stream.as_deref().cloned().unwrap_or_else(|| self.own_stream(task));
        let mut of_request = body.request.as_deref().map(|service| {
            service
                .stream
                .clone()
                .unwrap_or_else(|| request_stream(&self.program, self.seed, service.queue, service.sent))
        });
        let mut work = computes;
        for _ in 0..ACTIONS_MAX {
            if def.turns.is_some_and(|turns| cursor.turn >= turns) {
                return Some(work);
            }
            let phase = &def.phases[cursor.phase as usize];
            let Some(action) = phase.actions.get(cursor.action as usize).filter(|_| phase.loops > 0) else {
                (cursor.action, cursor.loops_done) = (0, cursor.loops_done + 1);
                if cursor.loops_done >= phase.loops {
                    cursor.next_phase(def.phases.len());
                }
                continue;
            };
            let has_worked = !work.is_zero();
            let stream = of_request.as_mut().unwrap_or(&mut own);
            match (action, action.nature()) {
                (Action::Take(_) | Action::Complete(_), _) if has_worked => return Some(work),
                (Action::Take(queue), _) => of_request = self.first_request(*queue),
                (Action::Complete(_), _) => of_request = None,
                // Its key is drawn.
                (Action::Send(_), _) => drop(stream.next_u64()),
                (_, Nature { time: Passing::Drawn(dist), may_sleep: false, .. }) => work += dist.sample(stream),
                (_, Nature { may_sleep: false, .. } | Nature { lock: Some((Hold::Takes, _)), .. }) => {}
                (_, Nature { may_sleep: true, .. }) if has_worked => return Some(work),
                // The wait that has just ended.
                (_, Nature { may_sleep: true, .. }) => {}
            }
            cursor.action += 1;
        }
        None
    }

    /// Returns the stream of the first request that waits in a queue.
    fn first_request(&self, queue: ResourceId) -> Option<Stream> {
        let Shared::Queue { requests, .. } = &self.shared[queue.index()] else {
            unreachable!("the program was checked")
        };
        requests.front().map(|sent| request_stream(&self.program, self.seed, queue, *sent))
    }
}
