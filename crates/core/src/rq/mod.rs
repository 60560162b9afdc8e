//! The run queue of one CPU, what it publishes, and the context of a call.

pub(crate) mod cx;
pub(crate) mod fair_view;
pub(crate) mod run_queue;
pub(crate) mod ticks;
