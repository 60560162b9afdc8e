//! The state of lowering an rt-app file: the program so far, the names that it declares, and the
//! task in progress.

use crate::assemble::{Assembly, ResourceClass};
use crate::diagnostic::{Report, Span};
use crate::program::{ResourceId, TimerMode};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::Policy;

/// The state of lowering a file.
pub(super) struct Lower<'r> {
    pub(super) report: &'r mut Report,
    pub(super) assembly: Assembly,
    /// Index of each task.
    pub(super) task_names: BTreeMap<String, usize>,
    /// Shared timers that some task uses as absolute: the mode belongs to the timer.
    pub(super) absolute_timers: BTreeSet<ResourceId>,
    /// The declarations of the `resources` section.
    pub(super) declared: BTreeMap<String, (ResourceClass, Span)>,
    /// Layout and first use of shared `memrun` buffers.
    pub(super) buffers: BTreeMap<(String, String), (BufferLayout, Span)>,
    pub(super) default_policy: Policy,
    pub(super) inherit: bool,
    pub(super) nr_cpus: usize,
}

/// The properties on which all users of a shared `memrun` buffer must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BufferLayout {
    pub(super) size: i64,
    /// Stride and order of a chase.
    pub(super) chase: Option<(i64, ChaseOrder)>,
}

/// The order of a chase through its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChaseOrder {
    /// One stride after the other: the prefetcher hides misses.
    Sequential,
    /// An order in which every step misses the cache.
    Random,
}

/// The task that is being lowered.
pub(super) struct TaskScope<'t> {
    pub(super) name: &'t str,
    pub(super) instances: u32,
    /// Its `unique` timers in order of first use, with their modes.
    pub(super) own_timers: Vec<(String, TimerMode)>,
}
