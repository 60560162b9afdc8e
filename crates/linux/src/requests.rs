//! Requests of services on the host: one thread per source sends them at their times, workers take
//! them.
//!
//! A source sleeps until an absolute time and is outside of every group, so a limit delays workers
//! and never arrivals. If the host wakes a source late, the request enters the queue late, but its
//! latency still counts from its intended arrival: no request is omitted because the machine was
//! busy.

use crate::clock;
use crate::park::{Waited, Waiter};
use crate::shared::{Asked, InService, Sender, Sent, Shared};
use crate::thread::Thread;
use crate::world::{Go, Over, World};
use rustix::thread::sched_getcpu;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Instant, Record, TraceEvent};
use zerolag_workload::Program;
use zerolag_workload::arrivals::call_stream;
use zerolag_workload::program::{ResourceId, ResourceKind};

/// Returns records of the queues to which only tasks send.
pub(crate) fn called_queues(program: &Program) -> Vec<Record> {
    let is_called = |index: &usize| program.sources.iter().all(|source| source.queue.index() != *index);
    let queues = (0..program.resources.len()).filter(is_called).filter_map(|index| {
        let resource = &program.resources[index];
        let queue = u32::try_from(index).ok().filter(|_| matches!(resource.kind, ResourceKind::Queue { .. }))?;
        let event = TraceEvent::QueueNew { queue, name: Arc::clone(&resource.name) };
        Some(Record { at: Instant::ZERO, cpu: CpuId(0), event })
    });
    queues.collect()
}

/// Starts the threads of all sources; returns how many there are. They wait at the gate.
pub(crate) fn start_sources<'s, 'w: 's>(world: &'w World<'w>, scope: &'s Scope<'s, 'w>) -> std::io::Result<u32> {
    for index in 0..world.program.sources.len() {
        let builder = std::thread::Builder::new().name("zerolag-source".to_owned());
        world.shared[world.program.sources[index].queue.index()].add_sender();
        builder.spawn_scoped(scope, move || source(world, index))?;
    }
    Ok(u32::try_from(world.program.sources.len()).unwrap_or(u32::MAX))
}

fn source(world: &World<'_>, index: usize) {
    let def = &world.program.sources[index];
    let queue = def.queue.0;
    let parker = world.end.parker();
    let Some(origin) = world.gate.wait(Ok(())) else { return };
    let mut records = Vec::new();
    let mut record = |at: Instant, event| {
        let cpu = CpuId::from_index(sched_getcpu());
        records.push(Record { at: Instant::ZERO + at.since(origin), cpu, event });
    };
    record(origin, TraceEvent::QueueNew { queue, name: Arc::clone(&def.name) });
    let shared = &world.shared[def.queue.index()];
    for (nth, after) in def.schedule(world.seed).enumerate().take(REQUESTS_MAX) {
        if parker.sleep_until(origin.saturating_add(after), &world.end) == Waited::Over {
            break;
        }
        let request = shared.next_number();
        let event = |step| TraceEvent::Request { queue, request, step };
        record(clock::now(), event(RequestStep::Arrive { due: Instant::ZERO.saturating_add(after) }));
        if !shared.offer(Sent { request, by: Sender::Source { nth: nth as u64 } }) {
            record(clock::now(), event(RequestStep::Drop));
        }
    }
    shared.sender_goes();
    world.arrivals.lock().unwrap_or_else(PoisonError::into_inner).append(&mut records);
}

impl Thread<'_, '_> {
    /// Takes a request, or waits for one.
    pub(crate) fn take_request(&mut self, queue: ResourceId) -> Go {
        loop {
            match self.world.shared[queue.index()].ask(&self.me) {
                Asked::Request(Sent { request, by }) => {
                    let program = self.world.program;
                    let (stream, waits) = match by {
                        Sender::Source { nth } => {
                            let source = program.source_of(queue).expect("invariant: it has a source");
                            (source.request_stream(self.world.seed, nth), None)
                        }
                        Sender::Task { waits, key } => {
                            (call_stream(&program.resources[queue.index()].name, key), waits)
                        }
                    };
                    self.request = Some(InService { queue, request, stream, waits });
                    let step = RequestStep::Start { task: self.seat.task };
                    self.record(TraceEvent::Request { queue: queue.0, request, step });
                    return Ok(());
                }
                Asked::Later => {
                    let waited = Shared::wait(&self.me, &self.world.end);
                    self.waited(waited)?;
                }
                Asked::Never => {
                    self.has_done = true;
                    return Err(Over);
                }
            }
        }
    }

    /// Completes its request.
    pub(crate) fn complete_request(&mut self) {
        if let Some(InService { queue, request, waits, .. }) = self.request.take() {
            let step = RequestStep::End { task: self.seat.task };
            self.record(TraceEvent::Request { queue: queue.0, request, step });
            if let Some(caller) = waits {
                caller.wake();
            }
        }
    }

    /// Abandons its request: a task that waits for it continues, as when a connection is closed.
    pub(crate) fn give_up_request(&mut self) {
        if let Some(InService { waits: Some(caller), .. }) = self.request.take() {
            caller.wake();
        }
    }

    /// Sends a request; `waits` is woken when it is done. Returns whether the queue had room.
    pub(crate) fn send_request(&mut self, queue: ResourceId, waits: Option<Waiter>) -> bool {
        let key = self.stream().next_u64();
        let shared = &self.world.shared[queue.index()];
        let request = shared.next_number();
        let due = Instant::ZERO + clock::now().since(self.origin);
        self.record(TraceEvent::Request { queue: queue.0, request, step: RequestStep::Arrive { due } });
        let sent = shared.offer(Sent { request, by: Sender::Task { waits, key } });
        if !sent {
            self.record(TraceEvent::Request { queue: queue.0, request, step: RequestStep::Drop });
        }
        sent
    }

    /// Sends a request and waits until it is done.
    pub(crate) fn call(&mut self, queue: ResourceId) -> Go {
        if !self.send_request(queue, Some(self.me.clone())) {
            return Ok(());
        }
        let waited = Shared::wait(&self.me, &self.world.end);
        self.waited(waited)
    }
}

/// The most requests of one source that are recorded; no more arrive after them.
const REQUESTS_MAX: usize = 1 << 22;
