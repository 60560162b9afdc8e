//! The run queue of one CPU, its published state, and the context of a call.

pub(crate) mod cx;
pub(crate) mod fair_view;
pub(crate) mod inspect;
mod request;
pub(crate) mod run_queue;
pub(crate) mod state;
pub(crate) mod ticks;
