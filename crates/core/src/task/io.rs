//! [`Io`]: the buffers in which a call leaves operations, costs, trace events and tasks for the
//! host.

use crate::task::body::Parcel;
use crate::words::clock::Clock;
use crate::words::lines::LineAccess;
use crate::words::observe::Observer;
use crate::words::op::{Costs, MAX_OPS, Op};
use alloc::vec::Vec;
use zerolag_model::{CpuId, Record, TraceEvent};

/// The buffers in which a call leaves its operations, costs and trace events. The host keeps one
/// per thread and drains it after each call. Its buffers are reserved once.
#[derive(Debug)]
pub struct Io {
    /// Operations, in the order in which they must be carried out.
    pub ops: Vec<Op>,
    /// Costs of all calls since the host last cleared them.
    pub costs: Costs,
    /// Trace events, if the host wants them.
    pub trace: Vec<Record>,
    /// Tasks that left a run queue by themselves (a delayed dequeue was completed): the host must
    /// keep them.
    pub parked: Vec<Parcel>,
    /// The recorder or replayer of reads of the shared state.
    pub observer: Observer,
    tracing: Tracing,
}

/// Whether a host wants trace events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracing {
    /// No trace events are produced.
    Off,
    /// Trace events are recorded.
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
            // A pick releases every delayed task with repaid lag: seldom more than a few.
            parked: Vec::with_capacity(16),
            observer: Observer::Off,
            tracing,
        }
    }

    /// Returns a copy with copies of the tasks in it: see
    /// [`Scheduler::snapshot`](crate::Scheduler::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            ops: self.ops.clone(),
            costs: self.costs,
            trace: self.trace.clone(),
            parked: self.parked.iter().map(Parcel::snapshot).collect(),
            observer: self.observer.clone(),
            tracing: self.tracing,
        }
    }

    /// Returns whether trace events are wanted.
    #[must_use]
    pub const fn is_tracing(&self) -> bool {
        matches!(self.tracing, Tracing::On)
    }

    /// Returns whether trace events or accesses to the shared state are wanted.
    #[inline(always)]
    pub(crate) const fn is_watched(&self) -> bool {
        self.is_tracing() | !self.observer.is_off()
    }

    /// Returns whether no call has left anything here since the host last drained it.
    #[must_use]
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.costs.is_zero() && !self.has_orders()
    }

    /// Returns whether a call has left operations, tasks or records here.
    #[must_use]
    #[inline]
    pub const fn has_orders(&self) -> bool {
        self.ops.len() + self.parked.len() + self.trace.len() > 0
    }

    #[inline]
    pub(crate) fn event(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        if self.is_tracing() {
            self.record(now, cpu, event);
        }
    }

    /// Searches the shared state for a CPU, or returns the recorded result.
    #[inline(always)]
    pub(crate) fn search(
        &mut self,
        read: impl FnOnce() -> Option<CpuId>,
        access: impl FnOnce(Option<CpuId>) -> LineAccess,
    ) -> Option<CpuId> {
        if self.observer.is_off() { read() } else { self.search_observed(read, access) }
    }

    #[cold]
    fn search_observed(
        &mut self,
        read: impl FnOnce() -> Option<CpuId>,
        access: impl FnOnce(Option<CpuId>) -> LineAccess,
    ) -> Option<CpuId> {
        let found = self.observer.cpu(read);
        self.log(access(found));
        found
    }

    /// Reads the shared state by an access to a line, or returns the recorded result.
    #[inline(always)]
    pub(crate) fn read(&mut self, access: LineAccess, read: impl FnOnce() -> u64) -> u64 {
        if self.observer.is_off() { read() } else { self.read_observed(access, read) }
    }

    #[cold]
    fn read_observed(&mut self, access: LineAccess, read: impl FnOnce() -> u64) -> u64 {
        self.log(access);
        self.observer.u64(read)
    }

    /// Appends an access to a line, for a host that charges it.
    #[cold]
    pub(crate) fn log(&mut self, access: LineAccess) {
        if let Observer::Lines(all) = &mut self.observer {
            all.push(access);
            self.costs.lines += 1;
        }
    }

    /// Cold and out of line, so that building a trace record does not bloat the hot caller.
    #[cold]
    fn record(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        self.trace.push(Record { at: now.wall, cpu, event: event() });
    }

    pub(crate) fn op(&mut self, op: Op) {
        debug_assert!(self.ops.len() < 4096, "the host must drain operations");
        self.ops.push(op);
    }
}

/// The location of a task after [`Scheduler::leave`].
///
/// [`Scheduler::leave`]: crate::Scheduler::leave
#[derive(Debug)]
#[must_use = "a parcel that is dropped is a task that is lost"]
pub enum Left {
    /// It stays on this run queue, or the CPU was idle.
    Queued,
    /// It is blocked; the host holds its body until its wakeup.
    Parked(Parcel),
    /// It is blocked, but its body stays on this run queue, until its negative lag is repaid
    /// (`DELAY_DEQUEUE`) or because it lends its turn. Wake it with `wake_queued`, or find it in
    /// [`Io::parked`] later.
    Delayed,
    /// It is runnable but no longer allowed on this CPU: select a CPU for it and place it there at
    /// once.
    Displaced(Parcel),
    /// It exited; this was its body.
    Dead(Parcel),
}
