//! Balancing: moves tasks between CPUs, and chooses the CPU for a waking task.
//!
//! Every module here reads published state, which is a hint, and checks again under the locks of
//! the run queues concerned.

pub(crate) mod dl_pull;
pub(crate) mod dl_push;
pub(crate) mod dl_select;
pub(crate) mod ext;
pub(crate) mod fair;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod rt_claim;
pub(crate) mod rt_ipi;
pub(crate) mod rt_pull;
pub(crate) mod rt_push;
pub(crate) mod rt_select;
pub(crate) mod rt_take;
pub(crate) mod served_pull;
pub(crate) mod served_push;
