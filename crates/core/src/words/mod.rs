//! Words: the small types that all other modules use. They hold no task and no queue, and make no
//! decisions.

pub(crate) mod atomic_mask;
pub(crate) mod bandwidth;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod ids;
pub(crate) mod level;
pub(crate) mod life;
pub(crate) mod lines;
pub(crate) mod mode;
pub(crate) mod observe;
pub(crate) mod op;
pub(crate) mod resched;
pub(crate) mod snapshot;
pub(crate) mod step;
pub(crate) mod unpublished;
pub(crate) mod wait;
