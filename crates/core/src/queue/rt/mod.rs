//! The real-time queue of a CPU: lists by priority, and the runtime that real-time tasks have left.

pub(crate) mod prio_queue;
pub(crate) mod rq;
pub(crate) mod throttle;
