//! [`Calls`]: the output of calls of the core, and the remaining time of the system calls that make
//! them.
//!
//! A call of the core fills one buffer, [`Io`], which is emptied before the next call. Two parts of
//! its time are not spent at once: that of a search without a lock, once the locks are given back,
//! and that of a switch whose timer is set when the switch is over.

use crate::costs::Costs;
use zerolag_core::{Io, Observer, Tracing};
use zerolag_model::{CpuId, Duration, Instant};

/// The calls that are under way.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) io: Io,
    /// The time of the present call that its CPU spends once it has given its locks back.
    pub(super) unlocked: Duration,
    /// The CPU that spent such time last, and when that ends.
    pub(super) searched: Option<(CpuId, Instant)>,
    /// The remaining time of the switch whose operations are being carried out.
    pub(super) switch_ahead: Duration,
    /// The remaining time of the system call in progress, by CPU (`call_rest`). Empty if
    /// `call_rest` is zero.
    left: Vec<Duration>,
}

impl Clone for Calls {
    fn clone(&self) -> Self {
        Self { io: self.io.snapshot(), left: self.left.clone(), ..*self }
    }
}

impl Calls {
    /// Returns the state of a machine without calls.
    pub(super) fn new(tracing: Tracing, cpus: usize, costs: &Costs) -> Self {
        let mut io = Io::new(tracing);
        if costs.has_lines() {
            io.observer = Observer::Lines(Vec::new());
        }
        let left = if costs.call_rest.is_zero() { Vec::new() } else { vec![Duration::ZERO; cpus] };
        let none = Duration::ZERO;
        Self { io, unlocked: none, searched: None, switch_ahead: none, left }
    }

    /// Returns the remaining time of the system call on a CPU; `None` if `call_rest` is zero.
    #[inline(always)]
    pub(super) fn left(&mut self, cpu: CpuId) -> Option<&mut Duration> {
        self.left.get_mut(cpu.index())
    }
}
