//! The floors of `zerolag-lab`: four ways to judge, which do not know of each other.

use super::Floors;

pub(crate) const FLOORS: Floors = &[&["fuzz", "repro", "spec", "validate"], &["lib"]];
