//! State that CPUs share: published state of the CPUs, and state that belongs to no CPU.
//!
//! Everything here is atomic or under an inner lock. Reads go through a [`view`], which records and
//! replays them.

pub(crate) mod booked;
pub(crate) mod budgets;
pub(crate) mod cpudl;
pub(crate) mod cpupri;
pub(crate) mod ext_queue;
pub(crate) mod groups;
pub(crate) mod hard_limits;
pub(crate) mod lock_owners;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod processes;
pub(crate) mod recent_used;
pub(crate) mod rt_groups;
pub(crate) mod rt_runtime;
pub(crate) mod rt_served;
pub(crate) mod shares;
pub(crate) mod sleeping;
pub(crate) mod state;
pub(crate) mod view;
pub(crate) mod wakers;
