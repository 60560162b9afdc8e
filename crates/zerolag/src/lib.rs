//! The Linux CPU scheduler as a library: simulate your workload on it, embed it, and compare it
//! with a real kernel.
//!
//! This crate is the front door: it re-exports everything that a user of the library needs, and
//! contains the functions behind the command line, so that a program can do the same.
//!
//! | module | gives |
//! |---|---|
//! | [`simulation`] | [`Plan`]: a program on a machine under settings; [`Watch`]: observers of a run |
//! | `host` | a workload on the host's own kernel (Linux only) |
//! | [`import`](mod@import) | a workload from a trace, and how far its simulation is from the recording |
//! | `calibrate` | a cost profile of the host (Linux only) |
//! | [`tools`] | tools of the field on the simulated machine: `rt-migrate-test`, `cyclictest` |
//! | [`fuzz`] | whole scenarios at random, judged and shrunk |
//! | [`goals`] | goals of a scenario, checked against its figures |
//! | [`spec`] | Markdown specs with expected timelines |
//! | [`repro`] | published experiments, repeated: our figures next to the published ones |
//! | [`sweep`] | a workload for every combination of values; the smallest value that meets a goal |
//! | [`compare`] | a workload under several kernels or settings: differences per task |
//! | [`variant`] | variants of a workload as JSON |
//! | [`validate`] | simulation results compared with recorded kernels |
//! | [`model`], [`workload`], [`sim`], [`trace`], [`check`], [`report`] | the crates below, complete |
//!
//! ```
//! use zerolag::simulation::{Observe, Plan};
//! use zerolag::{model::Duration, workload};
//!
//! let text = br#"
//! [machine]
//! cpus = 2
//! [task.hog]
//! instances = 3
//! steps = [{ run = "10ms" }]
//! "#;
//! let scenario = workload::load("hogs.toml", text, &workload::LoadOptions::default())?;
//! let plan = Plan::new(scenario)?.for_duration(Duration::from_secs(1));
//! let report = plan.run(Observe::default())?;
//! assert_eq!(report.summary.tasks.len(), 3);
//! assert!(report.checks.is_some_and(|checks| checks.is_clean()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod compare;
pub mod fuzz;
pub mod goals;
#[cfg(target_os = "linux")]
pub mod host;
pub mod import;
pub mod repro;
pub mod simulation;
pub mod spec;
pub mod sweep;
pub mod tools;
pub mod validate;
pub mod variant;

pub use zerolag_check as check;
pub use zerolag_core as core;
#[cfg(target_os = "linux")]
pub use zerolag_linux as linux;
pub use zerolag_model as model;
pub use zerolag_report as report;
pub use zerolag_sim as sim;
pub use zerolag_trace as trace;
pub use zerolag_workload as workload;

pub use simulation::{Plan, Watch};

/// The version of this library and of the command line.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
