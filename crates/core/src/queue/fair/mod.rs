//! The fair queues of one CPU, and what orders them.
//!
//! Tasks and groups are *entities*; each [`queue`] holds the entities of one group on this CPU, and
//! a group's queue is itself an entity of its parent's. Picking goes down from the root, one entity
//! per level; charging and queueing go up from the task. What orders a queue is one of two
//! algorithms: [`eevdf`] or [`cfs`].
//!
//! ```text
//!   root queue:    task  task  group A  group B          current: A
//!                               |        |
//!   A's queue:            task  task     task  group C   current: a task of A
//! ```
//!
//! The entities on the way from the root to the running task are each *current* in their queue and
//! are not on its timeline. A switch within a group leaves the entities above as they are: they
//! have not been picked anew.

pub(crate) mod asymmetric;
pub(crate) mod averages;
pub(crate) mod balance;
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
pub(crate) mod rq;
pub(crate) mod slice;
pub(crate) mod tally;
pub(crate) mod timeline;
pub(crate) mod turn;
