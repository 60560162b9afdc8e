//! The host itself beside the simulator: a workload on its own kernel, and the costs of its
//! operations.
//!
//! `zerolag-linux` runs threads and reads counters and knows no simulation. This crate joins both:
//! [`measure`](fn@measure) gives a run on the host the form of a simulation's result, so that one
//! table shows both, and [`calibrate`](mod@calibrate) simulates each measurement of the host to
//! find the costs that explain it. The crate is empty on systems other than Linux.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

pub mod calibrate;
mod measure;

pub use measure::{HostReport, measure};
