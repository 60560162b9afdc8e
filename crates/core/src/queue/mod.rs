//! Queues: the per-CPU state of each class, and the rules that need only a queue and its tasks.
//!
//! A function here takes a queue and, if it follows links into tasks, the
//! [`TaskSlab`](crate::task::slab::TaskSlab). Its signature shows that it uses no other CPU, no
//! shared state and no host. Rules that need those are in [`crate::class`].

pub(crate) mod dl;
pub(crate) mod ext;
pub(crate) mod fair;
pub(crate) mod published;
pub(crate) mod rt;
