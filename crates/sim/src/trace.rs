//! [`Tracer`]: brings records into order of time on their way to a [`Sink`].
//!
//! Most records are made when they happen. But the kernel charges the time of a path when the path
//! begins, and so knows its end ahead of time; records of such ends wait here until time has
//! reached them.

use std::collections::BTreeMap;
use zerolag_core::Tracing;
use zerolag_model::{Instant, Record, TraceEvent};

/// A receiver of the records of a run, in order of time.
pub trait Sink {
    /// Takes one record.
    fn record(&mut self, record: &Record);
}

/// A sink for runs that are not traced: no record is made.
#[derive(Clone, Copy, Debug)]
pub struct NoTrace;

impl Sink for NoTrace {
    fn record(&mut self, _: &Record) {}
}

impl Sink for Vec<Record> {
    fn record(&mut self, record: &Record) {
        self.push(record.clone());
    }
}

/// A borrowed sink.
impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, record: &Record) {
        (**self).record(record);
    }
}

/// An optional sink.
impl<S: Sink> Sink for Option<S> {
    fn record(&mut self, record: &Record) {
        if let Some(sink) = self {
            sink.record(record);
        }
    }
}

/// Two sinks: both take each record, the first before the second.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn record(&mut self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }
}

/// Records on their way to a sink.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    tracing: Tracing,
    ready: Vec<Record>,
    later: BTreeMap<(Instant, u64), Record>,
    count: u64,
}

impl Tracer {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, ready: Vec::new(), later: BTreeMap::new(), count: 0 }
    }

    pub(crate) const fn is_on(&self) -> bool {
        matches!(self.tracing, Tracing::On)
    }

    /// Takes a record of the present instant.
    pub(crate) fn push(&mut self, record: Record) {
        if self.is_on() {
            self.ready.push(record);
        }
    }

    /// Takes a record of a later instant.
    pub(crate) fn push_later(&mut self, record: Record) {
        if self.is_on() {
            self.count += 1;
            self.later.insert((record.at, self.count), record);
        }
    }

    /// Takes all records of the core.
    pub(crate) fn take(&mut self, records: &mut Vec<Record>) {
        self.ready.append(records);
    }

    /// Hands all records up to now to the sink.
    #[inline]
    pub(crate) fn drain(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.is_on() {
            self.hand_on(now, sink);
        }
    }

    fn hand_on(&mut self, now: Instant, sink: &mut impl Sink) {
        // Records that were made ahead for an earlier instant come before those of the present one.
        for record in self.ready.drain(..) {
            while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 < record.at) {
                sink.record(&entry.remove());
            }
            hand_on_switch(&mut self.later, &record, sink);
            sink.record(&record);
        }
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 < now) {
            sink.record(&entry.remove());
        }
    }

    /// Hands all records up to the end of the run to the sink; the ends of paths beyond it never
    /// happen. A switch whose event comes later has happened: the run queue has the next task, and
    /// its counters say so. Its event comes at the end.
    pub(crate) fn flush(&mut self, end: Instant, sink: &mut impl Sink) {
        self.drain(end, sink);
        for mut record in core::mem::take(&mut self.later).into_values() {
            if record.at <= end || matches!(record.event, TraceEvent::Switch { .. }) {
                record.at = record.at.min(end);
                sink.record(&record);
            }
        }
    }
}

/// Hands on what was made ahead on the CPU of a record up to a switch at its instant: without costs
/// behind the event of a switch, the next task acts at the same instant.
fn hand_on_switch(later: &mut BTreeMap<(Instant, u64), Record>, record: &Record, sink: &mut impl Sink) {
    let of_now = (record.at, 0)..=(record.at, u64::MAX);
    let is_switch = |late: &Record| late.cpu == record.cpu && matches!(late.event, TraceEvent::Switch { .. });
    let Some(last) = later.range(of_now.clone()).rfind(|(_, late)| is_switch(late)).map(|(key, _)| *key) else {
        return;
    };
    let here = later.range(of_now).filter(|(key, late)| late.cpu == record.cpu && **key <= last);
    for key in here.map(|(key, _)| *key).collect::<Vec<_>>() {
        sink.record(&later.remove(&key).expect("invariant: it was found"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::event::PrevState;
    use zerolag_model::{CpuId, TaskId};

    /// A switch whose event comes later is before what its task does at the same instant, and not
    /// before what another CPU does.
    #[test]
    fn a_task_acts_after_the_event_of_its_switch() {
        let at = Instant::from_nanos(425);
        let task = TaskId(0);
        let drop_lock = |cpu| Record { at, cpu: CpuId(cpu), event: TraceEvent::DropLock { task, lock: 0 } };
        let event = TraceEvent::Switch {
            prev: None,
            prev_state: PrevState::Runnable,
            next: Some(task),
            next_prio: zerolag_model::SchedAttr::NORMAL.prio(),
        };
        let switch = Record { at, cpu: CpuId(1), event };
        let mut tracer = Tracer::new(Tracing::On);
        tracer.push_later(switch.clone());
        tracer.push(drop_lock(0));
        tracer.push(drop_lock(1));
        let mut seen = Vec::new();
        tracer.drain(at, &mut seen);
        assert_eq!(seen, [drop_lock(0), switch, drop_lock(1)]);
    }
}
