//! Balancing of fair tasks: the CPU for a waking task ([`select`]), and the tasks that are moved
//! ([`periodic`], [`newidle`]).

pub(crate) mod by_load;
pub(crate) mod cache_aware;
pub(crate) mod capacity_search;
pub(crate) mod distribute;
pub(crate) mod idle_cpu;
pub(crate) mod imbalance;
pub(crate) mod newidle;
pub(crate) mod periodic;
pub(crate) mod recent_used;
pub(crate) mod select;
pub(crate) mod sis_prop;
pub(crate) mod uneven;
pub(crate) mod wakers;
