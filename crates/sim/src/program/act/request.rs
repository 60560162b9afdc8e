//! Requests of services: sent by tasks or handed in by sources, taken and completed by workers.
//!
//! ```text
//!   a source ---> queue ---[Take]---> a worker ---[Complete]---> the caller goes on
//!   Call, Send --/    |  full: dropped
//!                     \--- wakes one worker that waits
//! ```
//!
//! A woken worker has no claim on the request: the first worker that asks gets it, as from a queue
//! behind a condition variable, and a worker that finds none waits again.
//!
//! A call is a request whose sender waits for the completion. The sender goes on at once if the
//! queue is full, and when the task that works on its request is ended: as with a connection that
//! is closed.

use crate::kernel::state::Kernel;
use crate::kernel::words::Job;
use crate::program::shared::Shared;
use crate::program::shared::request::{InService, Sender, WaitingRequest};
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

/// A queue has no room for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl Programs {
    /// Returns the number of the next request of a queue.
    pub(crate) fn next_number(&mut self, queue: ResourceId) -> u64 {
        let Shared::Queue { next, .. } = &mut self.shared[queue.index()] else {
            unreachable!("the program was checked")
        };
        *next += 1;
        *next - 1
    }

    /// Queues the request of a source. Returns the job that wakes a worker, if one waits.
    pub(crate) fn accept(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        queue: ResourceId,
        sent: WaitingRequest,
    ) -> Option<Job> {
        self.offer(kernel, cpu, queue, sent).unwrap_or_default().map(Job::wakeup)
    }

    /// Queues a request; returns the worker to wake, if one waits.
    fn offer(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        id: ResourceId,
        sent: WaitingRequest,
    ) -> Result<Option<TaskId>, Full> {
        let Shared::Queue { capacity, requests, waiters, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if capacity.is_some_and(|capacity| requests.len() >= capacity as usize) {
            let (queue, request) = (id.0, sent.request);
            kernel.emit(cpu, TraceEvent::Request { queue, request, step: RequestStep::Drop });
            return Err(Full);
        }
        requests.push_back(sent);
        let worker = waiters.pop();
        if let Some(worker) = worker {
            self.task_mut(worker).state = TaskActivity::Active;
        }
        Ok(worker)
    }

    /// A task sends a request; `waits` is the task that waits for the completion.
    pub(crate) fn send_request(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        queue: ResourceId,
        waits: Option<TaskId>,
    ) -> Result<(), Full> {
        let key = self.stream_of(task).next_u64();
        let request = self.next_number(queue);
        let step = RequestStep::Arrive { due: kernel.now() };
        kernel.emit(cpu, TraceEvent::Request { queue: queue.0, request, step });
        let worker = self.offer(kernel, cpu, queue, WaitingRequest { request, by: Sender::Task { waits, key } })?;
        if let Some(worker) = worker {
            kernel.push_job(cpu, Job::wakeup(worker));
        }
        Ok(())
    }

    /// A task sends a request and waits until it is done.
    pub(crate) fn call(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, queue: ResourceId) {
        self.step_over(task);
        if self.send_request(kernel, cpu, task, queue, Some(task)).is_ok() {
            self.block(kernel, cpu, task, WaitFor::Reply(queue));
        }
    }

    /// Wakes the task that waits for a request.
    fn reply(&mut self, kernel: &mut Kernel, cpu: CpuId, done: &InService) {
        let Sender::Task { waits: Some(caller), .. } = done.sent.by else { return };
        // It may have been ended; it calls one at a time, so if it waits, it waits for this.
        if self.task(caller).state == TaskActivity::Waits(WaitFor::Reply(done.queue)) {
            self.wake(kernel, cpu, caller);
        }
    }

    /// A task that is to end leaves its request.
    pub(crate) fn give_up_request(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        if let Some(left) = self.task_mut(task).request.take() {
            self.reply(kernel, cpu, &left);
        }
    }

    /// Takes a request, or waits for one; asked again after the wait.
    pub(crate) fn take_request(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::Queue { requests, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let Some(sent) = requests.pop_front() else {
            self.block_on(kernel, cpu, task, id, WaitFor::Request(id));
            return;
        };
        let body = self.task_mut(task);
        body.cursor.action += 1;
        body.request = Some(Box::new(InService { queue: id, sent, stream: None }));
        let step = RequestStep::Start { task };
        kernel.emit(cpu, TraceEvent::Request { queue: id.0, request: sent.request, step });
    }

    /// The task completes its request.
    pub(crate) fn complete_request(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        let body = self.task_mut(task);
        body.cursor.action += 1;
        let Some(done) = body.request.take() else { return };
        let (queue, request) = (done.queue.0, done.sent.request);
        kernel.emit(cpu, TraceEvent::Request { queue, request, step: RequestStep::End { task } });
        self.reply(kernel, cpu, &done);
    }
}
