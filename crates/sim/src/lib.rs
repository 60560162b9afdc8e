//! The deterministic machine that hosts the zerolag scheduler.
//!
//! | module | holds | may use |
//! |---|---|---|
//! | [`costs`], [`sketch`], [`outcome`], `guard`, `patience`, `queue`, `states`, `trace` | costs of operations; how a run ended; policies that panic; runs that stand still; events in total order; the scheduler's numbers at decisions; records in order of time | - |
//! | `kernel` | CPUs, run-queue locks, IPIs, timers, kernel paths, the bodies of tasks; hosts the core | these |
//! | `device` | sources of interrupts and of requests, disks | these |
//! | `program` | where each task is in its program, what it waits for, what tasks share | these |
//! | `admin` | changes, groups, cpusets, hotplug | these |
//! | `machine`, `keep` | [`Machine`]: the main loop, which knows all; what it keeps beside its records | these |
#![warn(missing_docs)]

mod admin;
pub mod costs;
mod device;
mod guard;
mod keep;
mod kernel;
mod machine;
pub mod outcome;
mod patience;
mod program;
mod queue;
pub mod sketch;
mod states;
mod trace;

pub use costs::Costs;
pub use device::noise::IrqSource;
pub use machine::{Machine, MachineConfig};
pub use outcome::{End, FORKED_MAX, Outcome, Refused, SimError, Stats, Wait};
pub use trace::{NoTrace, Sink};
pub use zerolag_core::Tracing;
