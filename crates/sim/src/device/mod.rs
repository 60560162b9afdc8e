//! The devices of the machine: sources of interrupts ([`noise`]) and of requests ([`arrivals`]),
//! disks ([`disk`]), and what stops CPUs below the kernel ([`standstill`]).
//!
//! A device queues events and says which CPU it interrupts. It knows no task: the main loop hands
//! what arrives to the programs.

pub(crate) mod arrivals;
pub(crate) mod disk;
pub(crate) mod noise;
pub(crate) mod standstill;
