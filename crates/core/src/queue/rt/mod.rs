//! The real-time queue of a CPU: a list per priority, the remaining real-time runtime, and the
//! nested queues of groups.

pub(crate) mod local;
pub(crate) mod prio_queue;
pub(crate) mod rq;
pub(crate) mod throttle;
pub(crate) mod tree;
