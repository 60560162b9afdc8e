//! Balancing: what moves between CPUs, and where a task is put that wakes.
//!
//! Everything here reads published state, which is a hint, and looks again under the locks of the
//! run queues concerned.

pub(crate) mod dl_pull;
pub(crate) mod dl_push;
pub(crate) mod dl_select;
pub(crate) mod fair;
pub(crate) mod proxy;
pub(crate) mod rt_ipi;
pub(crate) mod rt_pull;
pub(crate) mod rt_push;
pub(crate) mod rt_select;
