//! [`Books`]: what a run writes down: its records, and its counts.

use crate::outcome::{Refused, Stats};
use crate::states::StateLog;
use crate::trace::Tracer;
use zerolag_core::Tracing;
use zerolag_model::{Instant, Record};

/// The records and the counts of a run.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub(super) tracer: Tracer,
    pub(super) stats: Stats,
    /// What was refused, if the run goes on then.
    pub(super) refused: Option<Box<Refused>>,
    /// The scheduler's numbers at its decisions, if they are kept.
    pub(super) states: Option<Box<StateLog>>,
}

impl Books {
    pub(super) fn new(tracing: Tracing) -> Self {
        Self { tracer: Tracer::new(tracing), stats: Stats::default(), refused: None, states: None }
    }

    /// Cold and out of line, so that building a trace record does not bloat the hot caller.
    #[cold]
    pub(super) fn record(&mut self, now: Instant, record: Record) {
        if record.at > now { self.tracer.push_later(record) } else { self.tracer.push(record) }
    }
}
