//! Sources of requests: when each request arrives, and which CPU its interrupt goes to.
//!
//! ```text
//!   Event::Arrival --[record: arrives]--> interrupt of a CPU ---> the queue of the program
//!        |  arms the next
//! ```
//!
//! Arrivals form an open loop: a request waits from the instant at which it was meant to arrive,
//! whatever its CPU does then. Its interrupt costs the same as a timer's, and goes to the CPUs of
//! the source in turn, as a network card with several queues spreads its own.

use crate::kernel::state::Kernel;
use crate::kernel::words::Event;
use crate::queue::Phase;
use std::collections::VecDeque;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, CpuMask, Instant, TraceEvent};
use zerolag_workload::arrivals::{ArrivalSource, Schedule};
use zerolag_workload::program::{Program, ResourceId};

/// The sources of requests of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    sources: Vec<ArrivingSource>,
}

#[derive(Clone, Debug)]
struct ArrivingSource {
    def: ArrivalSource,
    schedule: Schedule,
    /// The number of requests that have arrived.
    count: u64,
    /// Requests that have arrived and whose interrupts have not been handled.
    incoming: VecDeque<Incoming>,
    /// The CPU that the last interrupt went to.
    cpu: CpuId,
    is_over: bool,
}

/// A request that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Incoming {
    /// The queue that it goes to.
    pub(crate) queue: ResourceId,
    /// Its number in that queue.
    pub(crate) request: u64,
    /// Its number in its source: what it draws follows from it.
    pub(crate) nth: u64,
}

impl Arrivals {
    /// Announces the queues of all sources, and arms the first arrival of each.
    pub(crate) fn announce(&mut self, kernel: &mut Kernel, program: &Program, seed: u64) {
        for (index, def) in program.sources.iter().enumerate() {
            if kernel.is_traced() {
                kernel.emit(CpuId(0), TraceEvent::QueueNew { queue: def.queue.0, name: def.name.clone() });
            }
            let schedule = def.schedule(seed);
            let last = CpuId::from_index(kernel.nr_cpus() - 1);
            let (def, incoming) = (def.clone(), VecDeque::new());
            self.sources.push(ArrivingSource { def, schedule, count: 0, incoming, cpu: last, is_over: false });
            self.arm(kernel, u32::try_from(index).expect("invariant: fewer than 2^32 sources"));
        }
    }

    /// Arms the next arrival of a source, on the next of its CPUs.
    fn arm(&mut self, kernel: &mut Kernel, index: u32) {
        let source = &mut self.sources[index as usize];
        let Some(at) = source.schedule.next() else {
            source.is_over = true;
            return;
        };
        source.cpu = match &source.def.cpus {
            Some(cpus) => cpus.next_from(CpuId(source.cpu.0 + 1)).or_else(|| cpus.next_from(CpuId(0))),
            None => None,
        }
        .unwrap_or_else(|| free_after(source.cpu, kernel.scheduler().config().isolated(), kernel.nr_cpus()));
        let at = Instant::ZERO.saturating_add(at).max(kernel.now());
        kernel.queue_event(at, Phase::Device, source.cpu, Event::Arrival { source: index });
    }

    /// Returns the queue that the requests of a source go to.
    pub(crate) fn queue_of(&self, index: u32) -> ResourceId {
        self.sources[index as usize].def.queue
    }

    /// A request arrives, which has this number in its queue. Returns the CPU to be interrupted.
    pub(crate) fn arrives(&mut self, kernel: &mut Kernel, index: u32, request: u64) -> CpuId {
        let source = &mut self.sources[index as usize];
        let (cpu, queue) = (source.cpu, source.def.queue);
        source.incoming.push_back(Incoming { queue, request, nth: source.count });
        source.count += 1;
        let step = RequestStep::Arrive { due: kernel.now() };
        kernel.emit(cpu, TraceEvent::Request { queue: queue.0, request, step });
        self.arm(kernel, index);
        cpu
    }

    /// The interrupt of an arrival is handled: takes the request.
    pub(crate) fn accept(&mut self, index: u32) -> Incoming {
        self.sources[index as usize].incoming.pop_front().expect("invariant: one interrupt per request")
    }

    /// Returns whether no request will ever arrive in a queue again.
    pub(crate) fn are_over(&self, queue: ResourceId) -> bool {
        self.sources.iter().all(|source| source.def.queue != queue || source.is_over)
    }
}

/// Returns the next CPU after one, around, that is not isolated.
fn free_after(cpu: CpuId, isolated: &CpuMask, nr_cpus: usize) -> CpuId {
    let mut around = (1..=nr_cpus).map(|by| CpuId::from_index((cpu.index() + by) % nr_cpus));
    around.find(|cpu| !isolated.contains(*cpu)).expect("invariant: a CPU is left that is not isolated")
}
