//! `fifo`: the kernel's default callbacks, which are `scx_simple -f`: idle CPUs first, then one
//! queue in order of arrival.

use crate::ops::{Ops, Policy};

/// First in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn ops(&self) -> Ops {
        Ops::named("fifo")
    }
}
