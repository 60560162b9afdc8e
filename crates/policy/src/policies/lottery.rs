//! `lottery`: the next task is drawn, and a task has as many tickets as its weight.
//!
//! Waldspurger and Weihl, *Lottery Scheduling*, OSDI 1994. The shares are those of the weights on
//! average; over `n` turns the deviation is about `sqrt(n)`. No task starves for ever, but none has
//! a bound on its wait. The draws are a pure function of `seed` and of their number.
//!
//! O(waiting tasks) per turn.

use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::words::{DeqFlags, DsqId, EnqFlags};
use alloc::vec::Vec;
use zerolag_model::{CpuId, TaskId};

/// Sharing by chance.
#[derive(Clone, Debug, Default)]
pub struct Lottery {
    seed: u64,
    draws: u64,
    waiting: Vec<TaskId>,
}

impl Lottery {
    /// Returns the policy with a seed of its draws.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Draws a number below `end`: the finaliser of `SplitMix64` (Steele et al., OOPSLA 2014).
    fn draw(&mut self, end: u64) -> u64 {
        self.draws += 1;
        let mut z = self.seed.wrapping_add(self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end.max(1)
    }
}

impl Policy for Lottery {
    fn ops(&self) -> Ops {
        Ops::named("lottery")
    }

    fn enqueue(&mut self, _scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.waiting.push(p); // It is kept: `dispatch` draws one.
    }

    fn dequeue(&mut self, _scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.waiting.retain(|waiting| *waiting != p);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        let tickets = |scx: &Scx, p: TaskId| if scx.allowed(p, cpu) { u64::from(scx.weight(p)) } else { 0 };
        // The task whose turn ends takes part, although it is not enqueued yet.
        let of_prev = prev.map_or(0, |prev| tickets(scx, prev));
        let all: u64 = self.waiting.iter().map(|p| tickets(scx, *p)).sum();
        let mut drawn = self.draw(of_prev + all);
        if let Some(prev) = prev.filter(|_| drawn < of_prev) {
            scx.set_slice(prev, scx.slice_dfl());
            return;
        }
        drawn -= of_prev;
        for p in &self.waiting {
            let own = tickets(scx, *p);
            if drawn < own {
                scx.dsq_insert(*p, DsqId::LOCAL, scx.slice_dfl(), EnqFlags::NONE);
                return;
            }
            drawn -= own;
        }
    }
}
