//! The deterministic machine that hosts the zerolag scheduler.
//!
//! | module | holds |
//! |---|---|
//! | `machine` | the machine, its main loop, ticks |
//! | `path` | a CPU in the kernel: interrupts, jobs, time |
//! | `lock` | run-queue locks: who has one, until when, who spins |
//! | `interpret` | a task's program |
//! | `requests` | requests of services |
//! | `changes` | what is set at given times |
//! | `noise` | interrupts that come by themselves |
//! | `queue` | events in total order |
//! | `cpu`, `task`, `sync` | what they say |
//! | [`costs`] | cost profiles |
//! | [`outcome`] | how a run ended |
#![warn(missing_docs)]

mod admin;
pub mod costs;
mod device;
mod kernel;
mod machine;
pub mod outcome;
mod program;
mod queue;
mod trace;

pub use costs::Costs;
pub use device::noise::IrqSource;
pub use machine::{Machine, MachineConfig};
pub use outcome::{End, FORKED_MAX, Outcome, SimError, Stats, Wait};
pub use trace::{NoTrace, Sink};
pub use zerolag_core::Tracing;
