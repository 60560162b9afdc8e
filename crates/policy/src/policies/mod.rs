//! Complete policies, each in one file: to use, to compare with, and to begin from.
//!
//! | policy | order | counts |
//! |---|---|---|
//! | [`Fifo`] | arrival | nothing: the kernel's defaults |
//! | [`Vtime`] | virtual time | weights |
//! | [`Lottery`] | chance | weights |
//! | [`Central`] | arrival, decided by one CPU | nothing |

mod central;
mod fifo;
mod lottery;
mod vtime;

pub use central::Central;
pub use fifo::Fifo;
pub use lottery::Lottery;
pub use vtime::Vtime;
