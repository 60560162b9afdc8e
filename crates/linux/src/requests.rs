//! Requests of services on the host: one thread per source sends them at their times, workers take
//! them.
//!
//! A source sleeps until an absolute time and is outside of every group, so a limit delays workers
//! and never arrivals. It has a real-time priority above all tasks where that is permitted: a fair
//! thread waits behind the workload (1.9 s were seen), and the requests of a source that is late
//! arrive together. If a source is late nevertheless, the latency of its requests still counts from
//! their intended arrival: no request is omitted because the machine was busy. A note says how late
//! they were ([`lateness_note`]).

use crate::park::{Waited, Waiter};
use crate::shared::{Asked, InService, Sender, Sent, Shared};
use crate::thread::WorkloadThread;
use crate::world::{Go, Over, World};
use crate::{clock, sys};
use rustix::thread::sched_getcpu;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Duration, Instant, Record, RtPriority, SchedAttr, TraceEvent};
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
pub(crate) fn start_sources<'s, 'w: 's>(
    world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    priority: Option<RtPriority>,
) -> std::io::Result<u32> {
    for index in 0..world.program.sources.len() {
        let builder = std::thread::Builder::new().name("zerolag-source".to_owned());
        world.shared[world.program.sources[index].queue.index()].add_sender();
        builder.spawn_scoped(scope, move || source(world, index, priority))?;
    }
    Ok(u32::try_from(world.program.sources.len()).unwrap_or(u32::MAX))
}

/// Returns a note if requests entered their queues late, with the priority of the sources.
pub(crate) fn lateness_note(records: &[Record], priority: Option<RtPriority>) -> Option<String> {
    let mut late: Vec<Duration> = records
        .iter()
        .filter_map(|record| match record.event {
            TraceEvent::Request { step: RequestStep::Arrive { due }, .. } => Some(record.at.since(due)),
            _ => None,
        })
        .collect();
    late.sort_unstable();
    let (middle, most) = (*late.get(late.len() / 2)?, *late.last()?);
    if most <= LATE {
        return None;
    }
    let why = match priority {
        Some(_) => "the host woke them late",
        None => "they are fair threads: SCHED_FIFO is not permitted here",
    };
    Some(format!(
        "the sources of requests were up to {most} late, {middle} in the middle ({why}); latencies contain that"
    ))
}

fn source(world: &World<'_>, index: usize, priority: Option<RtPriority>) {
    let def = &world.program.sources[index];
    let queue = def.queue.0;
    let parker = world.end.parker();
    let Some(origin) = world.gate.wait(Ok(())) else { return };
    // The plan has tried it.
    drop(priority.map(|priority| sys::set_attr(SchedAttr::fifo(priority))));
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

impl WorkloadThread<'_, '_> {
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
                            let name = &program.resources[queue.index()].name;
                            (call_stream(name, key, (self.world.seed, request)), waits)
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

/// A request that enters its queue later than this is reported.
const LATE: Duration = Duration::from_millis(1);
/// The most requests of one source that are recorded; no more arrive after them.
const REQUESTS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_sources_are_reported_with_the_reason() {
        let sent = |at: u64, due: u64| {
            let step = RequestStep::Arrive { due: Instant::from_nanos(due) };
            let event = TraceEvent::Request { queue: 0, request: 0, step };
            Record { at: Instant::from_nanos(at), cpu: CpuId(0), event }
        };
        let ms = 1_000_000;
        let punctual = [sent(5 * ms, 5 * ms), sent(7 * ms, 6 * ms)];
        assert_eq!(lateness_note(&punctual, None), None);
        assert_eq!(lateness_note(&[], None), None);
        let late = [sent(5 * ms, 5 * ms), sent(7 * ms, 6 * ms), sent(30 * ms, 10 * ms)];
        let note = |priority| lateness_note(&late, priority).expect("20 ms are late");
        assert_eq!(
            note(None),
            "the sources of requests were up to 20ms late, 1ms in the middle (they are fair threads: SCHED_FIFO is \
             not permitted here); latencies contain that"
        );
        assert!(note(RtPriority::new(1)).contains("(the host woke them late)"));
    }
}
