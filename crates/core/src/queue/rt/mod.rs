//! The real-time queue of a CPU: a list per priority, and the remaining real-time runtime.

pub(crate) mod prio_queue;
pub(crate) mod rq;
pub(crate) mod throttle;
