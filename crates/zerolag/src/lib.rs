//! The Linux CPU scheduler as a library: simulate your workload on it, embed it, and compare it
//! with a real kernel.
//!
//! This crate is the front door: a [`Workload`] and the values that a caller chooses make a
//! [`Simulation`], which runs and returns a [`RunResult`]. It re-exports the crates below, and
//! contains the functions behind the command line, so that a program can do the same.
//!
//! ```
//! use zerolag::{Simulation, Workload};
//!
//! let hogs = Workload::toml(
//!     r#"
//!     [machine]
//!     cpus = 2
//!     [task.hog]
//!     instances = 3
//!     steps = [{ run = "10ms" }]
//!     "#,
//! );
//! let result = Simulation::new(hogs).kernel("6.12").duration("1s".parse()?).run()?;
//! assert_eq!(result.summary().tasks.len(), 3);
//! assert!(result.is_ok());
//! println!("{result}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | gives |
//! |---|---|
//! | [`simulation`] | [`Simulation`], [`RunResult`]; [`Plan`]: everything that a run depends on |
//! | [`source`] | [`Workload`]: a file, a text, a program built in code |
//! | [`error`] | [`Error`]: why a call failed, with the place and a valid alternative |
//! | [`values`] | the values that users write: kernels, machines, durations, cost profiles |
//! | [`sweep`] | a workload for every combination of values; the smallest value that meets a goal |
//! | [`advise`] | the smallest limit, burst and number of workers for a goal; what counters of a limit say |
//! | [`analyse`](mod@analyse) | bounds on responses, next to the longest simulated ones |
//! | [`schedulability`] | which share of random task sets a test accepts |
//! | [`compare`] | a workload under several kernels or settings: differences per task |
//! | [`explanation`] | why the longest waits were long, and what a change does to them |
//! | [`page`] | reports as one HTML file |
//! | [`risk`] | how many runs missed a goal, what that says of all seeds, and how many runs an answer needs |
//! | [`goals`] | goals of a scenario, checked against its figures |
//! | [`import`](mod@import) | a workload from a trace, and how far its simulation is from the recording |
//! | [`origin`] | the recording of an imported workload, in results |
//! | [`knob`] | parts of a program that can be set after its file was read |
//! | [`limit`] | limits and weights of groups as Kubernetes, systemd, Docker and the kernel write them |
//! | [`manifest`] | limits from Kubernetes manifests and Compose files |
//! | [`background`] | the kernel's own threads beside a workload |
//! | [`settings`] | every setting with its meaning, its value under a kernel, and its possible values |
//! | [`variant`] | the name and the values of a variant |
//! | [`results`] | the published form of every JSON result |
//! | [`model`], [`analysis`], [`workload`], [`sim`], [`trace`], [`check`], [`report`], [`html`], [`policy`] | the crates below, complete |
//!
//! The library builds for `wasm32-unknown-unknown`, where workloads are texts, and everything runs
//! on one thread. On top of it are `zerolag-tools` (tools of the field), `zerolag-host` (the
//! host's own kernel), `zerolag-lab` (experiments, recorded kernels, random scenarios, specs) and
//! `zerolag-cli` (the program).
#![warn(missing_docs)]

pub mod advise;
pub mod analyse;
pub mod background;
pub mod compare;
mod document;
pub mod error;
pub mod explanation;
pub mod goals;
pub mod import;
pub mod knob;
pub mod limit;
pub mod manifest;
pub mod origin;
pub mod page;
pub mod results;
pub mod risk;
pub mod schedulability;
pub mod settings;
pub mod simulation;
pub mod source;
pub mod sweep;
pub mod values;
pub mod variant;

pub use zerolag_analysis as analysis;
pub use zerolag_check as check;
pub use zerolag_core as core;
pub use zerolag_html as html;
pub use zerolag_model as model;
pub use zerolag_policy as policy;
pub use zerolag_report as report;
pub use zerolag_sim as sim;
pub use zerolag_trace as trace;
pub use zerolag_workload as workload;

pub use error::Error;
pub use simulation::{Plan, RunResult, Simulation, Watch};
pub use source::Workload;

/// The page on a scheduler of one's own: its programs are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial/your-own-scheduler.md")]
mod your_own_scheduler {}

/// The version of this library and of the command line.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
