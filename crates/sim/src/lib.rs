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

mod cache;
mod changes;
pub mod costs;
mod cpu;
mod cpuset;
mod groups;
mod hotplug;
mod interpret;
mod ipi;
mod isolation;
mod lock;
mod machine;
mod noise;
pub mod outcome;
mod path;
mod pipe;
mod proxy;
mod queue;
mod requests;
mod servers;
mod spin;
mod sync;
mod syscall;
mod task;
mod trace;

pub use costs::Costs;
pub use machine::{Machine, MachineConfig};
pub use noise::IrqSource;
pub use outcome::{End, FORKED_MAX, Outcome, SimError, Stats, Wait};
pub use trace::{NoTrace, Sink};
pub use zerolag_core::Tracing;
