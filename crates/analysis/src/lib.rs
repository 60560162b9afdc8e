//! Bounds on response times, from task parameters alone.
//!
//! A simulation shows responses that happened; analysis shows responses that cannot be exceeded.
//! The two check each other: a simulated response above a bound means that the scheduler or the
//! bound is wrong, or that the workload breaks an assumption of the analysis. Every bound here is
//! compared with the simulator over random sets (`crates/sim/tests/deadline.rs`,
//! `crates/zerolag/tests/analyse.rs`).
//!
//! | module | bounds | assumes |
//! |---|---|---|
//! | [`fixed`] | fixed priorities, one CPU: exact responses | independent tasks, preemption at no cost |
//! | [`mod@edf`] | EDF, one CPU: exact test, exact responses | the same |
//! | [`global`] | EDF and fixed priorities, several CPUs | the same; any task on any CPU |
//! | [`parallel`] | fixed priorities on several servers | the same; no server idles while a task waits |
//! | [`supply`] | reservations (CBS, deadline servers), `cpu.max`; any order of service | see there |
//! | [`bounds`] | utilizations up to which any set is schedulable, in closed form | see there |
//!
//! All times are integer nanoseconds, sums saturate, and every search has a bound on its rounds,
//! beyond which it says that it knows no bound.
#![warn(missing_docs)]

pub mod bounds;
pub mod edf;
pub mod fixed;
pub mod global;
pub mod parallel;
pub mod supply;
mod task;

pub use task::{Sporadic, TaskError, fits_one_cpu};
