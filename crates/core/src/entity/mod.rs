//! Entities: the state of a task or a group in each class, and the arithmetic on it.
//!
//! An entity knows no queue and no CPU. [`crate::queue`] orders entities, and [`crate::class`] has
//! the events that change them.

pub(crate) mod dl;
pub(crate) mod fair;
pub(crate) mod pelt;
pub(crate) mod rt;
pub(crate) mod vtime;
pub(crate) mod weight;
