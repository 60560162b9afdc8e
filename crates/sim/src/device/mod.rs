//! The simulated devices.

pub(crate) mod noise;
