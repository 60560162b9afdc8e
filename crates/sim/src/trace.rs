//! [`Tracer`]: brings records into order of time on their way to a [`Sink`].
//!
//! Most records are made when they happen. But the kernel charges the time of a path when the path
//! begins, and so knows its end ahead of time; records of such ends wait here until time has
//! reached them.

use std::collections::BTreeMap;
use zerolag_core::Tracing;
use zerolag_model::{Instant, Record, TaskId, TraceEvent};

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
    /// The keys of the switches in `later` whose event comes later than their decision.
    late: Vec<(Instant, u64)>,
}

impl Tracer {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, ready: Vec::new(), later: BTreeMap::new(), count: 0, late: Vec::new() }
    }

    pub(crate) const fn is_on(&self) -> bool {
        matches!(self.tracing, Tracing::On)
    }

    /// Takes a record of the present instant.
    pub(crate) fn push(&mut self, record: Record) {
        if self.is_on() {
            self.end_switches(&record);
            self.ready.push(record);
        }
    }

    /// Drops this record again; returns whether it was still here.
    pub(crate) fn take_back(&mut self, record: &Record) -> bool {
        if let Some(place) = self.ready.iter().rposition(|ready| ready == record) {
            self.ready.remove(place);
            return true;
        }
        let of_now = (record.at, 0)..=(record.at, u64::MAX);
        let place = self.later.range(of_now).rfind(|(_, later)| *later == record).map(|(key, _)| *key);
        place.is_some_and(|key| self.later.remove(&key).is_some())
    }

    /// Takes a record of a later instant.
    pub(crate) fn push_later(&mut self, record: Record) {
        if self.is_on() {
            self.count += 1;
            self.later.insert((record.at, self.count), record);
        }
    }

    /// Takes a switch whose event comes later than its decision.
    pub(crate) fn push_switch(&mut self, record: Record) {
        let at = record.at;
        self.push_later(record);
        self.late.push((at, self.count));
    }

    /// Takes all records of the core.
    pub(crate) fn take(&mut self, records: &mut Vec<Record>) {
        if self.late.is_empty() {
            self.ready.append(records);
        } else {
            records.drain(..).for_each(|record| self.push(record));
        }
    }

    /// Hands on the switches whose decision a record follows: the kernel holds the lock of the run
    /// queue from the decision up to the event, so nothing that needs that lock comes between. A
    /// path is recorded where it begins, before it has got the lock; so the event comes earlier.
    #[inline]
    fn end_switches(&mut self, record: &Record) {
        if !self.late.is_empty() {
            self.end_late_switches(record);
        }
    }

    #[inline(never)]
    fn end_late_switches(&mut self, record: &Record) {
        let Self { ready, later, late, .. } = self;
        late.retain(|key| {
            // Its event can be over, and only not handed on yet.
            let Some(switch) = later.get(key).filter(|switch| switch.at >= record.at) else { return false };
            let ends = follows(switch, record);
            if ends {
                let mut switch = later.remove(key).expect("invariant: it was found");
                // What its CPU does at the instant of the event, the next task does.
                let is_behind = |other: &Record| other.at == switch.at && other.cpu == switch.cpu;
                let place = ready.iter().position(is_behind).unwrap_or(ready.len());
                switch.at = record.at;
                ready.insert(place, switch);
            }
            !ends
        });
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

/// Whether a record is of something that the decision of a switch came before: it changes the tasks
/// of the switch, or the run queue.
fn follows(switch: &Record, record: &Record) -> bool {
    let TraceEvent::Switch { prev, next, .. } = &switch.event else { return false };
    let (is_here, is_of) = (record.cpu == switch.cpu, |task: &TaskId| *prev == Some(*task) || *next == Some(*task));
    match &record.event {
        TraceEvent::AttrChange { task, .. }
        | TraceEvent::PrioInherit { task, .. }
        | TraceEvent::Proxy { task, .. }
        | TraceEvent::GroupChange { task, .. }
        | TraceEvent::Affinity { task, .. } => is_here || is_of(task),
        TraceEvent::Migrate { task, .. } | TraceEvent::Wakeup { task, .. } => is_of(task),
        TraceEvent::Switch { prev, next, .. } => is_here || prev.iter().chain(next).any(is_of),
        TraceEvent::NeedResched { .. } | TraceEvent::Throttle { .. } => is_here,
        _ => false,
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
    use zerolag_model::{CpuId, SchedAttr};

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
            next_prio: SchedAttr::NORMAL.prio(),
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
    /// A CPU is asked to reschedule, and its next task changes, between the decision of a switch
    /// and its event: both follow the decision, and so the event.
    #[test]
    fn a_switch_comes_before_what_follows_from_it() {
        let [decided, changed, late] = [400, 425, 600].map(Instant::from_nanos);
        let (left, next, other) = (TaskId(0), TaskId(1), TaskId(2));
        let prio = SchedAttr::NORMAL.prio();
        let event =
            TraceEvent::Switch { prev: Some(left), prev_state: PrevState::Runnable, next: Some(next), next_prio: prio };
        let switch = |at| Record { at, cpu: CpuId(1), event: event.clone() };
        let of = |task, cpu| Record {
            at: changed,
            cpu: CpuId(cpu),
            event: TraceEvent::AttrChange { task, attr: SchedAttr::fifo_at(5) },
        };
        let asked = Record { at: changed, cpu: CpuId(1), event: TraceEvent::NeedResched { by: CpuId(0) } };
        let seen = |record: Record| {
            let mut tracer = Tracer::new(Tracing::On);
            tracer.push_switch(switch(late));
            tracer.take(&mut vec![record]);
            let mut seen = Vec::new();
            tracer.drain(changed, &mut seen);
            tracer.flush(late, &mut seen);
            assert!(decided < changed, "the decision is not in the trace");
            seen
        };
        for record in [of(next, 1), of(left, 1), asked] {
            assert_eq!(seen(record.clone()), [switch(changed), record]);
        }
        // Of another task on another CPU it says nothing.
        assert_eq!(seen(of(other, 0)), [of(other, 0), switch(late)]);
        // The next task acts at the instant of the event, and what it does changes a priority.
        let acts = Record { at: late, cpu: CpuId(1), event: TraceEvent::DropLock { task: next, lock: 0 } };
        let lends = Record { at: late, ..of(next, 1) };
        let mut tracer = Tracer::new(Tracing::On);
        tracer.push_switch(switch(late));
        tracer.push(acts.clone());
        tracer.push(lends.clone());
        let mut seen = Vec::new();
        tracer.flush(late, &mut seen);
        assert_eq!(seen, [switch(late), acts, lends]);
    }
}
