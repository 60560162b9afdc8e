//! The simulated tasks: their programs and what they share.

pub(crate) mod cache;
pub(crate) mod interpret;
pub(crate) mod pipe;
pub(crate) mod requests;
pub(crate) mod spin;
pub(crate) mod sync;
pub(crate) mod syscall;
pub(crate) mod task;
