//! The floors of `zerolag-lab`: ways to judge, which do not know of each other; `fuzz` takes from
//! one.

use super::Floors;

pub(crate) const FLOORS: Floors = &[&["repro", "round_trip", "spec", "validate"], &["fuzz"], &["lib"]];
