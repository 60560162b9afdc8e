//! Requests of services: they arrive by interrupts, wait in a queue, and are taken by tasks.
//!
//! ```text
//!   Event::Arrival --[record: arrives]--> interrupt of a CPU ---> queue ---[Take]---> a task ---[Complete]
//!        |  arms the next                     |  full: dropped       \--- wakes one task that waits
//! ```
//!
//! A request waits from the instant at which it was meant to arrive, whatever its CPU does then. The interrupt costs what a
//! timer's does and goes to the CPUs of the source in turn, as a network card with several queues spreads its own. A woken
//! task has no claim on the request: who asks first gets it, as from a queue behind a condition variable, and who finds none
//! waits again.

use crate::cpu::{Interrupt, Job, WakeKind};
use crate::machine::{Event, Machine};
use crate::queue::{Phase, Source};
use crate::sync::Shared;
use crate::task::{State, WaitFor};
use std::collections::VecDeque;
use std::sync::Arc;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::arrivals::{ArrivalSource, Schedule};
use zerolag_workload::program::ResourceId;

/// A source of requests on its way through the run.
#[derive(Debug)]
pub(crate) struct Arriving {
    def: ArrivalSource,
    schedule: Schedule,
    /// How many have arrived.
    count: u64,
    /// Those that have arrived and whose interrupt has not been handled.
    incoming: VecDeque<u64>,
    /// The CPU that the last interrupt went to.
    cpu: CpuId,
    is_over: bool,
}

/// The request that a task works on.
#[derive(Debug)]
pub(crate) struct InService {
    /// Index of its source, whose queue it was in.
    source: usize,
    request: u64,
    /// What the request draws; made when it first does.
    stream: Option<Stream>,
}

impl Machine {
    /// Says which queues there are and sets the first arrival of each source.
    pub(crate) fn announce_sources(&mut self) {
        let program = Arc::clone(&self.program);
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
        let nr_cpus = self.cpus.len();
        let source = &mut self.arriving[index];
        let Some(at) = source.schedule.next() else {
            source.is_over = true;
            return;
        };
        source.cpu = match &source.def.cpus {
            Some(cpus) => cpus.next_from(CpuId(source.cpu.0 + 1)).or_else(|| cpus.next_from(CpuId(0))),
            None => None,
        }
        .unwrap_or_else(|| CpuId::from_index((source.cpu.index() + 1) % nr_cpus));
        let cpu = source.cpu;
        let count = self.cpus[cpu.index()].next_count();
        let event = Event::Arrival { source: u32::try_from(index).expect("invariant: fewer than 2^32 sources") };
        let at = Instant::ZERO.saturating_add(at).max(self.now);
        self.queue.push(at, Phase::TaskTimer, Source::cpu(cpu), count, event);
    }

    /// A request arrives.
    pub(crate) fn request_arrives(&mut self, index: u32) {
        let source = &mut self.arriving[index as usize];
        let (cpu, queue, request) = (source.cpu, source.def.queue.0, source.count);
        source.count += 1;
        source.incoming.push_back(request);
        let step = RequestStep::Arrive { due: self.now };
        self.emit(cpu, TraceEvent::Request { queue, request, step });
        self.arm_arrival(index as usize);
        self.interrupt(cpu, Interrupt::Arrival(index));
    }

    /// The interrupt of an arrival is handled: the request is queued, and one task that waits for it is woken.
    pub(crate) fn accept_request(&mut self, cpu: CpuId, index: u32) -> Option<Job> {
        let source = &mut self.arriving[index as usize];
        let id = source.def.queue;
        let request = source.incoming.pop_front().expect("invariant: one interrupt per request");
        let Shared::Queue { capacity, requests, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if capacity.is_some_and(|capacity| requests.len() >= capacity as usize) {
            self.emit(cpu, TraceEvent::Request { queue: id.0, request, step: RequestStep::Drop });
            return None;
        }
        requests.push_back(request);
        let task = waiters.pop()?;
        self.tasks[task.index()].state = State::Active;
        Some(Job::Wake { task, why: WakeKind::Wakeup, target: None })
    }

    /// Takes a request, or waits for one; asked again after waiting.
    pub(crate) fn take_request(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::Queue { requests, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let Some(request) = requests.pop_front() else {
            self.block_on(cpu, task, id, WaitFor::Request(id));
            return;
        };
        let source = self.arriving.iter().position(|source| source.def.queue == id);
        let source = source.expect("invariant: requests come from a source");
        let body = &mut self.tasks[task.index()];
        body.cursor.action += 1;
        // Requests that take no time are bounded by their arrivals.
        body.idle_actions = 0;
        body.request = Some(Box::new(InService { source, request, stream: None }));
        self.emit(cpu, TraceEvent::Request { queue: id.0, request, step: RequestStep::Start { task } });
    }

    /// The task has done with its request.
    pub(crate) fn complete_request(&mut self, cpu: CpuId, task: TaskId) {
        let body = &mut self.tasks[task.index()];
        body.cursor.action += 1;
        let Some(done) = body.request.take() else { return };
        let (queue, request) = (self.arriving[done.source].def.queue.0, done.request);
        self.emit(cpu, TraceEvent::Request { queue, request, step: RequestStep::End { task } });
    }

    /// Returns the stream of the request that a task works on, if it works on one.
    pub(crate) fn request_stream(&mut self, task: TaskId) -> Option<&mut Stream> {
        let service = self.tasks[task.index()].request.as_mut()?;
        let InService { source, request, stream } = &mut **service;
        let source = &self.arriving[*source].def;
        Some(stream.get_or_insert_with(|| source.request_stream(self.seed, *request)))
    }

    /// Returns how many tasks wait for requests that will never come.
    pub(crate) fn idle_workers(&self) -> usize {
        let is_over = |id| self.arriving.iter().all(|source| source.def.queue != id || source.is_over);
        let waits = |state| matches!(state, State::Waits(WaitFor::Request(id)) if is_over(id));
        self.tasks.iter().filter(|task| waits(task.state)).count()
    }
}
