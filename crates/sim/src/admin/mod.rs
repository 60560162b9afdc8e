//! The administration of the simulated machine: what is changed from outside.

pub(crate) mod changes;
pub(crate) mod cpuset;
pub(crate) mod groups;
pub(crate) mod hotplug;
pub(crate) mod isolation;
pub(crate) mod servers;
