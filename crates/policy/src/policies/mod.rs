//! Complete policies, each in one file: to use, to compare with, and to begin from.
//!
//! | policy | order | counts |
//! |---|---|---|
//! | [`Fifo`] | arrival | nothing: the kernel's defaults |
//! | [`Vtime`] | virtual time | weights |
//! | [`Lottery`] | chance | weights |
//! | [`Central`] | arrival, decided by one CPU | nothing |
//! | [`Edf`] | deadline | periods |
//! | [`Rm`] | period | periods |
//! | [`Flatcg`] | virtual time of groups, on one level | weights, groups, limits |
//! | [`Srtf`] | remaining work | the work of tasks, in simulations only |
//! | [`Linux`] | rules, then virtual deadlines (EEVDF), level by level | real-time priorities, reservations, weights, groups, limits |

mod budgets;
mod central;
mod edf;
mod fifo;
mod flatcg;
mod linux;
mod lottery;
mod rm;
mod srtf;
mod urgency;
mod vtime;

pub use central::Central;
pub use edf::Edf;
pub use fifo::Fifo;
pub use flatcg::Flatcg;
pub use linux::Linux;
pub use lottery::Lottery;
pub use rm::Rm;
pub use srtf::Srtf;
pub use vtime::Vtime;

use crate::ops::Policy;
use alloc::boxed::Box;
use zerolag_model::settings::SchedExtPolicy;

/// Returns the policy of a setting, with its defaults; the seed is that of its draws.
#[must_use]
pub fn named(name: SchedExtPolicy, seed: u64) -> Box<dyn Policy> {
    match name {
        SchedExtPolicy::Fifo => Box::new(Fifo),
        SchedExtPolicy::Vtime => Box::new(Vtime::default()),
        SchedExtPolicy::Lottery => Box::new(Lottery::new(seed)),
        SchedExtPolicy::Central => Box::new(Central::default()),
        SchedExtPolicy::Edf => Box::new(Edf::default()),
        SchedExtPolicy::Rm => Box::new(Rm::default()),
        SchedExtPolicy::Flatcg => Box::new(Flatcg::default()),
        SchedExtPolicy::Srtf => Box::new(Srtf::default()),
        SchedExtPolicy::Linux => Box::new(Linux::default()),
    }
}
