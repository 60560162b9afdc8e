//! Requests of services: they arrive by interrupts or are sent by tasks, wait in a queue, and are taken by tasks.
//!
//! ```text
//!   Event::Arrival --[record: arrives]--> interrupt of a CPU ---> queue ---[Take]---> a task ---[Complete]---> who called goes on
//!        |  arms the next                       Call, Send ----/    |  full: dropped       \--- wakes one task that waits
//! ```
//!
//! A request waits from the instant at which it was meant to arrive, whatever its CPU does then. The interrupt costs what a
//! timer's does and goes to the CPUs of the source in turn, as a network card with several queues spreads its own. A woken
//! task has no claim on the request: who asks first gets it, as from a queue behind a condition variable, and who finds none
//! waits again.
//!
//! A call is a request whose sender waits until it is done. It goes on at once if the queue is full, and when the task that works on
//! its request is ended: as with a connection that is closed.

use crate::kernel::cpu::{Interrupt, Job};
use crate::machine::{Event, Machine};
use crate::program::sync::Shared;
use crate::program::task::{State, WaitFor};
use crate::queue::{Phase, Source};
use std::collections::VecDeque;
use std::sync::Arc;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::arrivals::{ArrivalSource, Schedule, call_stream};
use zerolag_workload::program::{ResourceId, ResourceKind};

/// A source of requests on its way through the run.
#[derive(Debug)]
pub(crate) struct Arriving {
    def: ArrivalSource,
    schedule: Schedule,
    /// How many have arrived.
    count: u64,
    /// Those that have arrived and whose interrupt has not been handled.
    incoming: VecDeque<Sent>,
    /// The CPU that the last interrupt went to.
    cpu: CpuId,
    is_over: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Its number in its queue.
    request: u64,
    by: Sender,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
enum Sender {
    /// The source of this index, as its n-th.
    Source { index: usize, nth: u64 },
    /// A task; who waits for it to be done. What it draws follows from the key.
    Task { waits: Option<TaskId>, key: u64 },
}

/// The request that a task works on.
#[derive(Debug)]
pub(crate) struct InService {
    queue: ResourceId,
    sent: Sent,
    /// What the request draws; made when it first does.
    stream: Option<Stream>,
}

/// A queue has no room for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl Machine {
    /// Says which queues there are and sets the first arrival of each source.
    pub(crate) fn announce_sources(&mut self) {
        let program = Arc::clone(&self.program);
        let is_called = |index: usize| program.sources.iter().all(|source| source.queue.index() != index);
        for (index, resource) in program.resources.iter().enumerate() {
            if matches!(resource.kind, ResourceKind::Queue { .. }) && is_called(index) && self.tracer.is_on() {
                let queue = u32::try_from(index).expect("invariant: inputs are below 4 GiB");
                self.emit(CpuId(0), TraceEvent::QueueNew { queue, name: Arc::clone(&resource.name) });
            }
        }
        for (index, def) in program.sources.iter().enumerate() {
            if self.tracer.is_on() {
                self.emit(CpuId(0), TraceEvent::QueueNew { queue: def.queue.0, name: Arc::clone(&def.name) });
            }
            let schedule = def.schedule(self.seed);
            let last = CpuId::from_index(self.cpus.len() - 1);
            let arriving =
                Arriving { def: def.clone(), schedule, count: 0, incoming: VecDeque::new(), cpu: last, is_over: false };
            self.arriving.push(arriving);
            self.arm_arrival(index);
        }
    }

    /// Sets the next arrival of a source, on the next of its CPUs.
    fn arm_arrival(&mut self, index: usize) {
        let (nr_cpus, isolated) = (self.cpus.len(), self.scheduler.config().isolated());
        let source = &mut self.arriving[index];
        let Some(at) = source.schedule.next() else {
            source.is_over = true;
            return;
        };
        source.cpu = match &source.def.cpus {
            Some(cpus) => cpus.next_from(CpuId(source.cpu.0 + 1)).or_else(|| cpus.next_from(CpuId(0))),
            None => None,
        }
        .unwrap_or_else(|| crate::admin::isolation::free_after(source.cpu, isolated, nr_cpus));
        let cpu = source.cpu;
        let count = self.cpus[cpu.index()].next_count();
        let event = Event::Arrival { source: u32::try_from(index).expect("invariant: fewer than 2^32 sources") };
        let at = Instant::ZERO.saturating_add(at).max(self.now);
        self.queue.push(at, Phase::TaskTimer, Source::cpu(cpu), count, event);
    }

    /// A request arrives.
    pub(crate) fn request_arrives(&mut self, index: u32) {
        let source = &self.arriving[index as usize];
        let (cpu, queue) = (source.cpu, source.def.queue);
        let request = self.next_number(queue);
        let source = &mut self.arriving[index as usize];
        source.incoming.push_back(Sent { request, by: Sender::Source { index: index as usize, nth: source.count } });
        source.count += 1;
        let step = RequestStep::Arrive { due: self.now };
        self.emit(cpu, TraceEvent::Request { queue: queue.0, request, step });
        self.arm_arrival(index as usize);
        self.interrupt(cpu, Interrupt::Arrival(index));
    }

    /// Returns the number of the next request of a queue.
    fn next_number(&mut self, queue: ResourceId) -> u64 {
        let Shared::Queue { next, .. } = &mut self.shared[queue.index()] else {
            unreachable!("the program was checked")
        };
        *next += 1;
        *next - 1
    }

    /// The interrupt of an arrival is handled: the request is queued, and one task that waits for it is woken.
    pub(crate) fn accept_request(&mut self, cpu: CpuId, index: u32) -> Option<Job> {
        let source = &mut self.arriving[index as usize];
        let sent = source.incoming.pop_front().expect("invariant: one interrupt per request");
        let id = source.def.queue;
        self.offer(cpu, id, sent).unwrap_or_default().map(Job::wakeup)
    }

    /// Queues a request; returns the worker to wake, if one waits. Nothing if the queue is full.
    fn offer(&mut self, cpu: CpuId, id: ResourceId, sent: Sent) -> Result<Option<TaskId>, Full> {
        let Shared::Queue { capacity, requests, waiters, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if capacity.is_some_and(|capacity| requests.len() >= capacity as usize) {
            let (queue, request) = (id.0, sent.request);
            self.emit(cpu, TraceEvent::Request { queue, request, step: RequestStep::Drop });
            return Err(Full);
        }
        requests.push_back(sent);
        let worker = waiters.pop();
        if let Some(worker) = worker {
            self.tasks[worker.index()].state = State::Active;
        }
        Ok(worker)
    }

    /// A task sends a request; `waits` is who is told when it is done.
    pub(crate) fn send_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        queue: ResourceId,
        waits: Option<TaskId>,
    ) -> Result<(), Full> {
        let key = self.stream_of(task).next_u64();
        let request = self.next_number(queue);
        let step = RequestStep::Arrive { due: self.now };
        self.emit(cpu, TraceEvent::Request { queue: queue.0, request, step });
        let worker = self.offer(cpu, queue, Sent { request, by: Sender::Task { waits, key } })?;
        self.cpus[cpu.index()].jobs.extend(worker.map(Job::wakeup));
        Ok(())
    }

    /// A task sends a request and waits until it is done.
    pub(crate) fn call(&mut self, cpu: CpuId, task: TaskId, queue: ResourceId) {
        self.step_over(task);
        if self.send_request(cpu, task, queue, Some(task)).is_ok() {
            self.block(cpu, task, WaitFor::Reply(queue));
        }
    }

    /// Whoever waits for a request goes on.
    fn reply(&mut self, cpu: CpuId, done: &InService) {
        let Sender::Task { waits: Some(caller), .. } = done.sent.by else { return };
        // It may have been ended; it calls one at a time, so if it waits, it waits for this.
        let body = &mut self.tasks[caller.index()];
        if body.state == State::Waits(WaitFor::Reply(done.queue)) {
            body.state = State::Active;
            self.cpus[cpu.index()].jobs.push_back(Job::wakeup(caller));
        }
    }

    /// A task that is to end leaves its request.
    pub(crate) fn give_up_request(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(left) = self.tasks[task.index()].request.take() {
            self.reply(cpu, &left);
        }
    }

    /// Takes a request, or waits for one; asked again after waiting.
    pub(crate) fn take_request(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::Queue { requests, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let Some(sent) = requests.pop_front() else {
            self.block_on(cpu, task, id, WaitFor::Request(id));
            return;
        };
        let body = &mut self.tasks[task.index()];
        body.cursor.action += 1;
        // Requests that take no time are bounded by their arrivals.
        body.idle_actions = 0;
        body.request = Some(Box::new(InService { queue: id, sent, stream: None }));
        let step = RequestStep::Start { task };
        self.emit(cpu, TraceEvent::Request { queue: id.0, request: sent.request, step });
    }

    /// The task has done with its request.
    pub(crate) fn complete_request(&mut self, cpu: CpuId, task: TaskId) {
        let body = &mut self.tasks[task.index()];
        body.cursor.action += 1;
        let Some(done) = body.request.take() else { return };
        let (queue, request) = (done.queue.0, done.sent.request);
        self.emit(cpu, TraceEvent::Request { queue, request, step: RequestStep::End { task } });
        self.reply(cpu, &done);
    }

    /// Returns the stream of the request that a task works on, if it works on one.
    pub(crate) fn request_stream(&mut self, task: TaskId) -> Option<&mut Stream> {
        let service = self.tasks[task.index()].request.as_mut()?;
        let InService { queue, sent, stream } = &mut **service;
        let name = || &self.program.resources[queue.index()].name;
        Some(stream.get_or_insert_with(|| match sent.by {
            Sender::Source { index, nth } => self.arriving[index].def.request_stream(self.seed, nth),
            Sender::Task { key, .. } => call_stream(name(), key),
        }))
    }

    /// Returns how many tasks wait for requests that will never come.
    pub(crate) fn idle_workers(&self) -> usize {
        let is_over = |id| self.arriving.iter().all(|source| source.def.queue != id || source.is_over);
        let waits = |state| matches!(state, State::Waits(WaitFor::Request(id)) if is_over(id));
        self.tasks.iter().filter(|task| waits(task.state)).count()
    }
}
