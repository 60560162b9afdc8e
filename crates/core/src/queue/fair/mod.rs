//! The fair queues of one CPU, and the algorithms that order them.
//!
//! Tasks and groups are *entities*. Each [`queue`] holds the entities of one group on this CPU, and
//! the group itself is an entity of its parent's queue. A pick descends from the root and chooses
//! one entity per level. Charging and enqueueing ascend from the task. One of two algorithms orders
//! all queues: [`eevdf`] or [`cfs`].
//!
//! ```text
//!   root queue:    task  task  group A  group B          current: A
//!                               |        |
//!   A's queue:            task  task     task  group C   current: a task of A
//! ```
//!
//! Each entity on the path from the root to the running task is *current* in its queue and is not
//! on that queue's timeline. A switch within a group leaves the entities above it unchanged: they
//! have not been picked anew.

pub(crate) mod asymmetric;
pub(crate) mod averages;
pub(crate) mod balance;
pub(crate) mod by_group;
pub(crate) mod cfs;
pub(crate) mod eevdf;
pub(crate) mod join;
pub(crate) mod local;
pub(crate) mod member;
pub(crate) mod newidle;
pub(crate) mod own_slices;
pub(crate) mod preempt;
pub(crate) mod pressure;
pub(crate) mod queue;
pub(crate) mod recency;
pub(crate) mod resting;
pub(crate) mod rq;
pub(crate) mod slice;
pub(crate) mod tally;
pub(crate) mod timeline;
pub(crate) mod turn;
