//! The devices of the machine: sources of interrupts ([`noise`]) and of requests ([`arrivals`]),
//! disks ([`disk`]).
//!
//! A device queues events and says which CPU it interrupts. It knows no task: the main loop hands
//! what arrives to the programs.

pub(crate) mod arrivals;
pub(crate) mod disk;
pub(crate) mod noise;
