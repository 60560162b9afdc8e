//! Tools of the field, on the simulated machine: the same questions, the same answers on paper.

pub mod build_load;
pub mod cyclictest;
pub mod osnoise;
pub mod rt_migrate;
pub mod rtapp_log;
pub mod timerlat;
pub mod workstation;
