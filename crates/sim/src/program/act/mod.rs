//! The actions of tasks on what they share, one module per kind of resource.
//!
//! Each is done in the context of a task that is current on a CPU. It changes the resource and the
//! tasks that use it, and notes the consequences as jobs of that CPU: wake a task, block this one,
//! recompute a priority.

pub(crate) mod adaptive;
pub(crate) mod compute;
pub(crate) mod futex;
pub(crate) mod mutex;
pub(crate) mod pipe;
pub(crate) mod rcu;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod section;
pub(crate) mod semaphore;
pub(crate) mod spin;
pub(crate) mod user_spin;
pub(crate) mod wait;
