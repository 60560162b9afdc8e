//! Computing, and the random numbers that a task draws.

use crate::kernel::state::Kernel;
use crate::program::shared::request::{InService, Sender, WaitingRequest};
use crate::program::state::Programs;
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId};
use zerolag_workload::Stream;
use zerolag_workload::arrivals::call_stream;
use zerolag_workload::program::{Program, ResourceId};
use zerolag_workload::random::Dist;

impl Programs {
    /// Starts a computation and goes to the next action.
    #[inline]
    pub(crate) fn compute(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, dist: &Dist, layer: CpuLayer) {
        self.step_over(task);
        self.compute_for(kernel, cpu, task, dist, layer);
    }

    /// Starts a computation.
    pub(crate) fn compute_for(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, dist: &Dist, layer: CpuLayer) {
        let time = self.draw(task, dist);
        if time.is_zero() {
            return;
        }
        if kernel.scheduler().wants_work() {
            self.tell_work(kernel, task, time);
        }
        if layer == CpuLayer::Kernel {
            kernel.enter_kernel_step(cpu, task);
        }
        kernel.compute(cpu, task, time, layer);
    }

    pub(crate) fn draw(&mut self, task: TaskId, dist: &Dist) -> Duration {
        if let Dist::Constant(time) = dist {
            return *time;
        }
        dist.sample(self.stream_of(task))
    }

    /// Returns the stream that a task draws from: that of the request that it works on, else its
    /// own.
    pub(crate) fn stream_of(&mut self, task: TaskId) -> &mut Stream {
        let body = &mut self.tasks[task.index()];
        let def = body.def();
        if let Some(service) = &mut body.request {
            let InService { queue, sent, stream } = &mut **service;
            return stream.get_or_insert_with(|| request_stream(&self.program, self.seed, *queue, *sent));
        }
        let name = &self.program.tasks[def].name;
        body.stream.get_or_insert_with(|| Box::new(Stream::new(self.seed, name, body.instance, "program")))
    }

    /// Returns the stream of a task that has not drawn yet.
    pub(crate) fn own_stream(&self, task: TaskId) -> Stream {
        let body = self.task(task);
        Stream::new(self.seed, &self.program.tasks[body.def()].name, body.instance, "program")
    }
}

/// Returns the stream that a request draws from.
pub(crate) fn request_stream(program: &Program, seed: u64, queue: ResourceId, sent: WaitingRequest) -> Stream {
    match sent.by {
        Sender::Source { index, nth } => program.sources[index].request_stream(seed, nth),
        Sender::Task { key, .. } => call_stream(&program.resources[queue.index()].name, key, (seed, sent.request)),
    }
}
