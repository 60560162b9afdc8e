//! The floors of `zerolag-tenants`: clocks and queues, what a group has, what a thread knows, the
//! gate, and the types of users on top.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    &["bell", "meter", "sync", "units"],
    &["queue"],
    &["account", "turn"],
    // A group has the clock and the executors that all share, and those hold the groups.
    &["builder group task thread"],
    &["gate"],
    &["wrap"],
    &["layer"],
    &["metrics", "tower"],
    &["lib"],
];
