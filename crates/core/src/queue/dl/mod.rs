//! The deadline queue of a CPU: heaps by deadline, servers, and bandwidth sums.

pub(crate) mod heap;
pub(crate) mod rq;
pub(crate) mod server;
pub(crate) mod sums;
