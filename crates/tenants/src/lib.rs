//! CPU quotas, weights and accounts per tenant, on your own tokio runtime.
//!
//! An axum server whose tenants get at most half a CPU each, and `gold` ten times the weight of the
//! others (feature `tower`):
//!
//! ```no_run
//! # #[cfg(feature = "tower")]
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, extract::Request, routing::get};
//! use zerolag_tenants::{Builder, GroupLayer};
//!
//! let rt = Builder::new().build()?;
//! let tenant = |request: &Request| {
//!     let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
//!     name.unwrap_or("unknown").to_owned()
//! };
//! let tenants = GroupLayer::by(rt.root(), tenant)
//!     .group(|name, group| if name == "gold" { group.weight(1000) } else { group.quota(0.5) })
//!     .queue(64); // more requests of a tenant than that get 503 and `Retry-After`
//! let app = Router::new().route("/", get(async || "hello")).layer(tenants);
//! axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tower"))]
//! # fn main() {}
//! ```
//!
//! Futures and tasks by hand:
//!
//! ```
//! use std::time::Duration;
//! use zerolag_tenants::Builder;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rt = Builder::new().build()?;
//! let acme = rt.group("acme").quota(0.4).burst(Duration::from_millis(20)).create()?;
//! let task = acme.spawn(async { 6 * 7 })?; // a task of tokio, in the group
//! assert_eq!(task.await?, 42);
//! acme.wrap(async { /* any future, polled where it is */ }).await;
//! println!("{:?}", acme.usage());
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! There is no second executor: tokio polls, of any flavour, also under a `LocalSet`, with paused
//! time, or watched by tokio-console. Every poll of a future in a group passes a gate first. There
//! it waits until its group has quota and, if other groups want the threads too, until it is its
//! turn by weight. Then it is charged the CPU time of its thread, with the executor's work before
//! it.
//!
//! * The quota is the kernel's: `cpu.max` with period, slices and burst. A poll that is too long is
//!   paid for by the periods that follow. So a limit holds on average whatever a future does, and
//!   at any moment up to one poll; before polls are known to be long, up to one per thread.
//! * Tasks started with [`spawn`] or [`Group::spawn`] stay in the group; those of `tokio::spawn`
//!   are in none.
//! * Weights divide the threads between futures that are runnable on the same thread.
//! * **A poll that does not yield keeps its thread**, as in tokio, but not its I/O driver: another
//!   worker is woken to wait for sockets and timers. With
//!   [`Builder::second_runtime`] tasks of groups with such polls start on threads at a lower nice
//!   value.
//!
//! `zerolag-runtime` has an executor of its own that takes threads away from such polls, keeps
//! weights exactly, and has priorities, reservations, and locks that boost. Its types and methods
//! have the same names: `use zerolag_runtime as tenants` in place of `use zerolag_tenants as
//! tenants` moves a service.
//!
//! # How it is built
//!
//! | module | contents |
//! |---|---|
//! | `meter` | the CPU time of a thread, divided into polls |
//! | `account`, `turn` | the quota of a group, in the core's pool; its turn by weight |
//! | `queue`, `gate` | polls that wait; where they do |
//! | `sync` | the locks of queues: of the system, or of a model checker in unit tests |
//! | `thread` | what a thread knows: the poll in progress, its meter |
//! | `bell` | wakes another worker before a long poll |
//! | `builder`, `group`, `wrap`, `task` | the types of the users |
//! | `layer`, `tower` | requests in the groups of their tenants |
//! | `metrics` | figures of groups for a recorder |
#![warn(missing_docs)]

mod account;
mod bell;
mod builder;
mod gate;
mod group;
#[cfg(feature = "tower")]
pub mod layer;
mod meter;
#[cfg(feature = "metrics")]
mod metrics;
mod queue;
mod sync;
mod task;
mod thread;
#[cfg(feature = "tower")]
mod tower;
mod turn;
mod units;
mod wrap;

pub use builder::{BuildError, Builder, Runtime};
pub use group::{Group, GroupBuilder, GroupSetError, Usage};
#[cfg(feature = "tower")]
pub use layer::{GroupFuture, Shed, ShedReason, deadline_in};
pub use task::{AbortOnDrop, JoinError, JoinHandle, SpawnError, spawn};
#[cfg(feature = "tower")]
pub use tower::{GroupLayer, GroupService, Request};
pub use wrap::Wrapped;
pub use zerolag_model as model;
