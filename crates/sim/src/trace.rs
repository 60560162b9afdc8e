//! [`Tracer`]: brings records into order of time on their way to a [`Sink`].
//!
//! Most records are made when they happen. The end of a kernel path is known at its beginning; such records wait here
//! until time has reached them.

use std::collections::BTreeMap;
use zerolag_core::Tracing;
use zerolag_model::{Instant, Record};

/// Where the records of a run go, in order of time.
pub trait Sink {
    /// Takes one record.
    fn record(&mut self, record: &Record);
}

/// Where records go that nobody wants; none is made.
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

/// A sink that is lent.
impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, record: &Record) {
        (**self).record(record);
    }
}

/// A sink that not everybody wants.
impl<S: Sink> Sink for Option<S> {
    fn record(&mut self, record: &Record) {
        if let Some(sink) = self {
            sink.record(record);
        }
    }
}

/// Both take each record, the first before the second.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn record(&mut self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }
}

#[derive(Debug)]
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

    /// Takes a record of a time to come.
    pub(crate) fn push_later(&mut self, record: Record) {
        if self.is_on() {
            self.count += 1;
            self.later.insert((record.at, self.count), record);
        }
    }

    /// Moves all records of the core over.
    pub(crate) fn take(&mut self, records: &mut Vec<Record>) {
        self.ready.append(records);
    }

    /// Hands on everything up to now.
    #[inline]
    pub(crate) fn drain(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.is_on() {
            self.hand_on(now, sink);
        }
    }

    fn hand_on(&mut self, now: Instant, sink: &mut impl Sink) {
        // Records of the present instant come after those that were foreseen for an earlier one.
        for record in self.ready.drain(..) {
            while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 < record.at) {
                sink.record(&entry.remove());
            }
            sink.record(&record);
        }
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 < now) {
            sink.record(&entry.remove());
        }
    }

    /// Hands on everything up to the end of the run; what was foreseen beyond it never happens.
    pub(crate) fn flush(&mut self, end: Instant, sink: &mut impl Sink) {
        self.drain(end, sink);
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= end) {
            sink.record(&entry.remove());
        }
        self.later.clear();
    }
}
