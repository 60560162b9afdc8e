//! The floors of `zerolag-sim`.

use super::Floors;

pub(crate) const FLOORS: Floors =
    &[&["costs", "outcome", "queue", "trace"], &["admin device kernel machine program"], &["lib"]];
