//! Entities: what a task or a group carries for each class, and the arithmetic on it.
//!
//! An entity knows no queue and no CPU. What orders it is in [`crate::queue`], what happens to it
//! in [`crate::class`].

pub(crate) mod dl;
pub(crate) mod fair;
pub(crate) mod pelt;
pub(crate) mod rt;
pub(crate) mod vtime;
pub(crate) mod weight;
