//! The task that is being read: what its steps need of it.

use crate::diagnostic::Span;
use crate::program::TimerMode;

/// The task that is being read.
pub(super) struct TaskScope<'t> {
    pub(super) name: &'t str,
    pub(super) instances: u32,
    /// Its own timers in order of first use: name, mode, and position of the mode.
    pub(super) own_timers: Vec<(String, Option<(TimerMode, Span)>)>,
}
