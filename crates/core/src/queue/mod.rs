//! Queues: the state of one CPU's classes, and the rules that need nothing but a queue and the
//! tasks on it.
//!
//! A function here takes a queue and, if it follows links into tasks, the
//! [`TaskSlab`](crate::task::slab::TaskSlab). It sees no other CPU, no shared state and no host:
//! the type says so. What needs those is in [`crate::class`].

pub(crate) mod dl;
pub(crate) mod fair;
pub(crate) mod published;
pub(crate) mod rt;
