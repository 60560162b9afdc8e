//! Tools of the field, on the simulated machine: the same questions, the same answers on paper.

pub mod cyclictest;
pub mod rt_migrate;
pub mod rtapp_log;
