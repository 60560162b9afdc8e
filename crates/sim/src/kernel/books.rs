//! [`Books`]: what a run writes down: its records, and its counts.

use crate::outcome::{Refused, Stats};
use crate::states::StateLog;
use crate::trace::Tracer;
use std::sync::Arc;
use zerolag_core::Tracing;
use zerolag_model::{GroupId, Instant, Record};

/// The records and the counts of a run.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub(super) tracer: Tracer,
    pub(super) stats: Stats,
    /// The watchdog of a policy will look.
    pub(super) watches_policy: bool,
    /// What was refused, if the run goes on then.
    pub(super) refused: Option<Box<Refused>>,
    /// The path of each group of the core, for errors.
    paths: Vec<Option<Arc<str>>>,
    /// The scheduler's numbers at its decisions, if they are kept.
    pub(super) states: Option<Box<StateLog>>,
}

impl Books {
    pub(super) fn new(tracing: Tracing) -> Self {
        Self {
            tracer: Tracer::new(tracing),
            stats: Stats::default(),
            watches_policy: false,
            refused: None,
            paths: Vec::new(),
            states: None,
        }
    }

    /// A group of the core has this path from now on: ids are used again.
    pub(super) fn name_group(&mut self, group: GroupId, path: Arc<str>) {
        let index = group.index();
        self.paths.resize(self.paths.len().max(index + 1), None);
        self.paths[index] = Some(path);
    }

    /// Returns the path of a group of the core.
    pub(super) fn path_of(&self, group: Option<GroupId>) -> Option<Arc<str>> {
        match group? {
            GroupId::ROOT => Some("/".into()),
            group => self.paths.get(group.index())?.clone(),
        }
    }

    /// Cold and out of line, so that building a trace record does not bloat the hot caller.
    #[cold]
    pub(super) fn record(&mut self, now: Instant, record: Record) {
        if record.at > now { self.tracer.push_later(record) } else { self.tracer.push(record) }
    }
}
