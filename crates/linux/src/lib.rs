//! Runs a workload on the host's own kernel: the same [`Program`](zerolag_workload::Program) that
//! the simulator runs, with real threads.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | the program and options of a run; everything that the host refuses is reported before anything starts |
//! | [`host`] | the host: CPUs, kernel, permissions |
//! | [`mod@run`] | the run: threads, start, end, watchdog |
//! | [`figures`] | the results: records, times from `schedstat`, latencies |
//! | [`calibrate`] | the cost of the host's operations, measured from user space on one CPU |
//! | [`standstill`] | gaps of a thread that looks at the clock all the time |
//! | [`probe`] | the time from a wakeup until the woken thread runs |
//! | `world` | the state that all threads of a run share |
//! | `thread`, `shared` | a task's program on a real thread; the objects that tasks share, on futexes |
//! | `requests`, `changes` | the threads that send requests; the thread that makes changes at given times |
//! | `work` | computations of known length, and whether the clock speed drifts |
//! | `cgroup` | groups as directories of the `cpu` controller, v1 or v2 |
//! | `recorder` | the kernel's own trace by `perf record`, where that is permitted |
//! | `sys` | the only `unsafe`: `sched_setattr(2)` |
//!
//! A run never changes a global setting, never leaves a group behind, and never leaves a real-time
//! loop that could hold the machine: every loop reads the clock, and a watchdog above every task of
//! the workload ends those that do not stop.
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
pub mod standstill;
mod sys;
mod thread;
mod work;
mod world;

pub use figures::{End, Figures, TaskFigures, Watchdog};
pub use host::Host;
pub use plan::{Options, Plan, Refusal};
pub use run::{RunError, run};
