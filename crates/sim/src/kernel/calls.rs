//! [`Calls`]: what calls of the core leave behind, and what is left of the system calls that make
//! them.
//!
//! A call of the core fills one buffer, [`Io`], which is emptied before the next call. Two parts of
//! its time are not spent at once: that of a search without a lock, once the locks are given back,
//! and that of a switch whose timer is set when the switch is over.

use zerolag_core::{Io, Tracing};
use zerolag_model::{CpuId, Duration, Instant};

/// The calls that are under way.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) io: Io,
    /// The time of the present call that its CPU spends once it has given its locks back.
    pub(super) unlocked: Duration,
    /// The CPU that spent such time last, and when that ends.
    pub(super) searched: Option<(CpuId, Instant)>,
    /// What the switch whose operations are carried out still takes.
    pub(super) switch_ahead: Duration,
    /// What is left of the system calls that tasks make, by CPU (`call_rest`). Empty where that is
    /// nothing.
    left: Vec<Duration>,
}

impl Clone for Calls {
    fn clone(&self) -> Self {
        Self { io: self.io.snapshot(), left: self.left.clone(), ..*self }
    }
}

impl Calls {
    /// Returns those of a machine; `rest` is what a system call has left when it has had its
    /// effect.
    pub(super) fn new(tracing: Tracing, cpus: usize, rest: Duration) -> Self {
        let left = if rest.is_zero() { Vec::new() } else { vec![Duration::ZERO; cpus] };
        let none = Duration::ZERO;
        Self { io: Io::new(tracing), unlocked: none, searched: None, switch_ahead: none, left }
    }

    /// Returns what is left of the system call on a CPU, if such a thing is.
    #[inline(always)]
    pub(super) fn left(&mut self, cpu: CpuId) -> Option<&mut Duration> {
        self.left.get_mut(cpu.index())
    }
}
