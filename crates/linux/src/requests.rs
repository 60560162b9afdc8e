//! Requests of services on the host: a thread per source sends them at their times, workers take them.
//!
//! A source sleeps until an absolute time and is outside of every group, so a limit holds up workers and never arrivals. If the
//! host lets it come late, the request is late in the queue and its latency counts from when it was meant to arrive all the
//! same: nothing is left out because the machine was busy.

use crate::clock;
use crate::shared::{Asked, Shared, Waited};
use crate::thread::{Go, Over, Thread, World};
use rustix::thread::sched_getcpu;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Instant, Record, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::program::ResourceId;

/// The request that a thread works on.
#[derive(Debug)]
pub(crate) struct InService {
    queue: ResourceId,
    request: u64,
    /// What the request draws.
    pub(crate) stream: Stream,
}

/// Starts the threads of all sources; returns how many there are. They wait at the gate.
pub(crate) fn start_sources<'s, 'w: 's>(world: &'w World<'w>, scope: &'s Scope<'s, 'w>) -> std::io::Result<u32> {
    for index in 0..world.program.sources.len() {
        let builder = std::thread::Builder::new().name("zerolag-source".to_owned());
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
    for (request, after) in def.schedule(world.seed).enumerate().take(REQUESTS_MAX) {
        if parker.sleep_until(origin.saturating_add(after), &world.end) == Waited::Over {
            break;
        }
        let request = request as u64;
        let event = |step| TraceEvent::Request { queue, request, step };
        record(clock::now(), event(RequestStep::Arrive { due: Instant::ZERO.saturating_add(after) }));
        if !world.shared[def.queue.index()].offer(request) {
            record(clock::now(), event(RequestStep::Drop));
        }
    }
    world.shared[def.queue.index()].close();
    world.arrivals.lock().unwrap_or_else(PoisonError::into_inner).append(&mut records);
}

impl Thread<'_, '_> {
    /// Takes a request, or waits for one.
    pub(crate) fn take_request(&mut self, queue: ResourceId) -> Go {
        loop {
            match self.world.shared[queue.index()].ask(&self.me) {
                Asked::Request(request) => {
                    let source = self.world.program.source_of(queue).expect("invariant: only a source sends requests");
                    let stream = source.request_stream(self.world.seed, request);
                    self.request = Some(InService { queue, request, stream });
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

    /// Has done with its request.
    pub(crate) fn complete_request(&mut self) {
        if let Some(InService { queue, request, .. }) = self.request.take() {
            let step = RequestStep::End { task: self.seat.task };
            self.record(TraceEvent::Request { queue: queue.0, request, step });
        }
    }
}

/// The most requests of one source that are recorded; nothing arrives after them.
const REQUESTS_MAX: usize = 1 << 22;
