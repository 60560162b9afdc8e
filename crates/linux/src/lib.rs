//! Runs a workload on the host's own kernel: the same [`Program`](zerolag_workload::Program) that the simulator runs, with
//! real threads.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what is to be run, and what the host refuses, said before anything starts |
//! | [`host`] | what the host is: CPUs, kernel, permissions |
//! | [`mod@run`] | the run: threads, start, end, watchdog |
//! | [`figures`] | what came of it: records, times from `schedstat`, latencies |
//! | [`calibrate`] | what the host's operations cost, measured from user space on one CPU |
//! | [`probe`] | how long it takes until a thread runs that was woken |
//! | `world` | what all threads of a run have in common |
//! | `thread`, `shared` | a task's program on a real thread; what tasks share, on futexes |
//! | `requests`, `changes` | who sends requests; who makes what changes at given times |
//! | `work` | computations of known length, and whether the clock speed drifts |
//! | `cgroup` | groups as directories of the `cpu` controller, v1 or v2 |
//! | `recorder` | the kernel's own trace by `perf record`, where that is permitted |
//! | `sys` | the only `unsafe`: `sched_setattr(2)` |
//!
//! What a run never does: change a global setting, leave a group behind, or leave a real-time loop that could hold the
//! machine: every loop looks at the clock, and a watchdog above every task of the workload ends what does not.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

pub mod calibrate;
mod cgroup;
mod changes;
mod clock;
pub mod figures;
pub mod host;
mod park;
mod pipe;
pub mod plan;
pub mod probe;
mod recorder;
mod requests;
pub mod run;
mod shared;
mod sys;
mod thread;
mod work;
mod world;

pub use figures::{End, Figures, TaskFigures, Watchdog};
pub use host::Host;
pub use plan::{Options, Plan, Refusal};
pub use run::{RunError, run};
