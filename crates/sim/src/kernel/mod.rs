//! The simulated kernel: CPUs, run-queue locks, IPIs, kernel paths.

pub(crate) mod cpu;
pub(crate) mod ipi;
pub(crate) mod lock;
pub(crate) mod path;
pub(crate) mod proxy;
