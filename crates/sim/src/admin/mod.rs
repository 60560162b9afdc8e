//! The administration of the machine: what is changed from outside, at the start and at given
//! times.
//!
//! | module | decides |
//! |---|---|
//! | [`changes`] | what a change does, and on which CPU |
//! | [`groups`] | which groups exist, and which tasks are in them |
//! | [`tasks`] | how tasks are created, forked, changed and ended |
//! | [`policies`] | which scheduler of `sched_ext` is loaded |
//! | [`cpuset`], [`hotplug`], [`isolation`], [`servers`] | what a change does on each CPU that it concerns |

pub(crate) mod changes;
pub(crate) mod cpuset;
pub(crate) mod groups;
pub(crate) mod hotplug;
pub(crate) mod isolation;
pub(crate) mod policies;
pub(crate) mod servers;
pub(crate) mod tasks;
