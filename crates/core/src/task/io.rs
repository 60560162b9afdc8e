//! [`Io`]: where a call leaves operations, costs, trace events and tasks for the host.

use crate::task::body::Parcel;
use crate::words::clock::Clock;
use crate::words::observe::Observer;
use crate::words::op::{Costs, MAX_OPS, Op};
use alloc::vec::Vec;
use zerolag_model::{CpuId, Record, TraceEvent};

/// Where a call leaves its operations, costs and trace events. The host keeps one per thread and
/// drains it after each call; its buffers are reserved once.
#[derive(Debug)]
pub struct Io {
    /// Operations in the order in which they must be carried out.
    pub ops: Vec<Op>,
    /// Costs of all calls since the host last cleared them.
    pub costs: Costs,
    /// Trace events, if they are wanted.
    pub trace: Vec<Record>,
    /// Tasks that left a run queue by themselves (a delayed dequeue that came due): the host parks
    /// them.
    pub parked: Vec<Parcel>,
    /// What is read of the shared state, recorded or replayed.
    pub observer: Observer,
    tracing: Tracing,
}

/// Whether a host wants trace events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracing {
    /// No: none is made.
    Off,
    /// Yes.
    On,
}

impl Io {
    /// Returns empty buffers, reserved for one call.
    #[must_use]
    pub fn new(tracing: Tracing) -> Self {
        Self {
            ops: Vec::with_capacity(2 * MAX_OPS),
            costs: Costs::default(),
            trace: Vec::with_capacity(match tracing {
                Tracing::Off => 0,
                Tracing::On => 64,
            }),
            // A pick lets all go whose lag is paid: seldom more than a few.
            parked: Vec::with_capacity(16),
            observer: Observer::Off,
            tracing,
        }
    }

    /// Returns whether trace events are wanted.
    #[must_use]
    pub const fn is_tracing(&self) -> bool {
        matches!(self.tracing, Tracing::On)
    }

    /// Returns whether nothing was left here since the host last drained it.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty() && self.parked.is_empty() && self.trace.is_empty() && self.costs.is_zero()
    }

    #[inline]
    pub(crate) fn event(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        if self.is_tracing() {
            self.record(now, cpu, event);
        }
    }

    /// Apart and marked as seldom called, so that no function has the making of its records in the
    /// midst of its code.
    #[cold]
    fn record(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        self.trace.push(Record { at: now.wall, cpu, event: event() });
    }

    pub(crate) fn op(&mut self, op: Op) {
        debug_assert!(self.ops.len() < 4096, "the host must drain operations");
        self.ops.push(op);
    }
}

/// Where a task is after [`Scheduler::leave`].
///
/// [`Scheduler::leave`]: crate::Scheduler::leave
#[derive(Debug)]
#[must_use = "a parcel that is dropped is a task that is lost"]
pub enum Left {
    /// It stays on this run queue (or the CPU was idle).
    Queued,
    /// It is blocked, its body is in the host's hands until its wakeup.
    Parked(Parcel),
    /// It is blocked, but its body stays on this run queue until its lag is paid (`DELAY_DEQUEUE`),
    /// or to lend its turn: wake it with `wake_queued`, or find it in [`Io::parked`] later.
    Delayed,
    /// It wants to run but may not use this CPU any more: choose a CPU for it and place it there at
    /// once.
    Displaced(Parcel),
    /// It ended; this was its body.
    Dead(Parcel),
}
