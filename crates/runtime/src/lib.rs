//! The zerolag scheduler inside a process: an async executor that runs futures on real threads,
//! with groups, weights, hard quotas, reservations, real-time priorities, a starvation floor below
//! them, and locks that boost their holders. It needs no privileges and no cgroups.
//!
//! An axum server with tenants: each gets a group of its own, `gold` ten times the weight of the
//! others, and those at most half a CPU each, though their code never yields. tokio keeps sockets
//! and timers (features `tokio` and `tower`):
//!
//! ```no_run
//! # #[cfg(all(feature = "tokio", feature = "tower"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, extract::Request, routing::get};
//! use zerolag_runtime::{Builder, GroupLayer};
//!
//! let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
//! let rt = Builder::new().cpus(2).reactor(tokio.handle().clone()).build()?;
//! let tenant = |request: &Request| {
//!     let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
//!     name.unwrap_or("unknown").to_owned()
//! };
//! let tenants = GroupLayer::by(rt.root(), tenant)
//!     .group(|name, group| if name == "gold" { group.weight(1000) } else { group.quota(0.5) })
//!     .queue(64); // more requests of a tenant than that get 503 and `Retry-After`
//! let app = Router::new().route("/", get(async || "hello")).layer(tenants);
//! tokio.block_on(async {
//!     axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await
//! })?;
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "tokio", feature = "tower")))]
//! # fn main() {}
//! ```
//!
//! Tasks and groups by hand, without tokio:
//!
//! ```
//! use std::time::Duration;
//! use zerolag_runtime::{Builder, checkpoint, sleep};
//!
//! let rt = Builder::new().cpus(2).build()?;
//! let ms = Duration::from_millis;
//!
//! // A reservation: 1 ms of CPU time every 10 ms, whatever else runs. It is admitted or refused.
//! let heartbeats = rt.task().reserve(ms(1), ms(10)).spawn(async {
//!     for _ in 0..3 {
//!         sleep(Duration::from_millis(10)).await; // ... and send a heartbeat
//!     }
//! })?;
//!
//! // A tenant: at most 0.4 CPUs, however much work it has.
//! let acme = rt.group("acme").weight(100).quota(0.4).burst(ms(20)).create()?;
//! let batch = acme.spawn(async {
//!     let mut sum = 0_u64;
//!     for n in 0..1_000_000 {
//!         sum = sum.wrapping_add(n * n);
//!         if n % 10_000 == 0 {
//!             checkpoint().await; // one load, unless another task waits for the CPU
//!         }
//!     }
//!     sum
//! })?;
//! rt.block_on(heartbeats)?;
//! rt.block_on(batch)?;
//! println!("{:?}", acme.usage());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised, and on what terms
//!
//! Every worker thread is a CPU of the scheduler, and the scheduler schedules polls. A poll cannot
//! be interrupted: a task yields only when it awaits a future that is not ready, and at
//! [`checkpoint`]. A task that ignores a preemption request loses its CPU after
//! [`Builder::hand_off_after`]: its thread continues beside the others, after 50 ms of CPU time at
//! nice 19, and its group is charged for that time while it passes. So limits hold on average; at
//! any moment they hold up to the length of one poll.
//!
//! Charged is the CPU time of the threads, as the kernel counts it: time that other programs or a
//! limit of the container take from a thread is not charged to the task that it polls, but shown in
//! [`Usage::lost`]. The runtime's own work is charged as well, to the group that causes it.
//!
//! The runtime has no reactor for sockets and files of its own. With the feature `tokio` every poll
//! runs in the context of a tokio runtime (`Builder::reactor`), so its I/O and timers, and what is
//! built on it, work unchanged. Any code that calls the waker of a task wakes it, so reactors with
//! a thread of their own (`async-io`) work without that.
//!
//! There is no `LocalSet`: a CPU that is handed over, and a task that is balanced to another CPU,
//! change threads, so a future has to be `Send`. One that is not can run inside of
//! [`TaskBuilder::spawn_blocking`], under the `block_on` of any executor, at its group's expense.
//!
//! # How it is built
//!
//! | module | contents |
//! |---|---|
//! | `state` | what an engine, its tasks and groups are, as data, below all that follows |
//! | `engine` | what every part does with an engine: threads start, tasks end, code of users is called |
//! | `coop` | the thread-local link from a thread to its CPU; futures and functions that tasks call |
//! | `caller` | makes calls: takes the locks, performs the call, carries out its consequences |
//! | `wake`, `timers`, `switch` | wakeups; timers that are due; switches of a CPU |
//! | `worker` | the thread of a CPU, and handing a CPU over to another thread |
//! | `meter` | the clock that tasks are charged by: CPU time of threads |
//! | `causes` | the groups that pay for timers, wakeups and ticks |
//! | `patience`, `pool` | when a CPU is handed over, and the threads that wait for one |
//! | `relay`, `riders` | a task that blocks passes its turn on to the task that it has woken |
//! | `hold_back` | tasks whose group has a processor already, for a poll that has lost its CPU |
//! | `clock` | the thread that serves timers and ticks |
//! | `confine` | the limit of the container |
//! | `task`, `spawn`, `group` | the handles of the users |
//! | `mutex`, `boost`, `spare` | locks that boost, the loans of their holders, and holders whose group has no quota |
//! | `time` | futures that wait for a time |
//! | `blocking` | functions that block or compute, destructors and wakers, on threads beside the CPUs |
//! | `set`, `shutdown` | tasks that do not outlive their owner; the end of a runtime |
//! | `report`, `marks` | tasks by name and place; polls that were too long, and where |
//! | `reactor` | the tokio runtime beside this one |
//! | `tower` | requests in the groups of their tenants |
//! | `latency` | histograms of waits and polls, per group |
//! | `metrics` | figures of groups and tasks for a recorder |
//! | `span` | the `tracing` span of a task |
//! | `socket` | figures for `zerolag top` |
//! | `sync` | locks, atomics and threads: of the system, or of the model checker in unit tests |
//! | `record` | the flight recorder and its replay |
#![warn(missing_docs)]

mod blocking;
mod boost;
mod caller;
mod causes;
mod clock;
mod confine;
mod coop;
mod engine;
mod group;
mod hold_back;
mod latency;
mod marks;
mod meter;
#[cfg(feature = "metrics")]
mod metrics;
mod mutex;
#[cfg(test)]
mod orders;
mod patience;
mod pool;
mod reactor;
mod record;
mod relay;
mod report;
mod riders;
mod runtime;
mod set;
mod shutdown;
#[cfg(feature = "socket")]
pub mod socket;
mod span;
mod spare;
mod spawn;
mod state;
mod switch;
mod sync;
mod task;
mod time;
mod timers;
#[cfg(feature = "tower")]
mod tower;
mod units;
mod wake;
mod worker;

pub use coop::{checkpoint, should_yield, yield_now};
pub use group::{Group, GroupBuilder, GroupSetError, Usage};
pub use latency::{Histogram, Latencies};
pub use mutex::{Guard, Lock, Mutex};
pub use record::{Diverged, Recording};
pub use runtime::{BuildError, Builder, Runtime};
pub use set::{AbortOnDrop, JoinSet};
pub use shutdown::Shutdown;
pub use spawn::{SpawnError, TaskBuilder, spawn};
pub use state::info::{Overrun, TaskInfo, TaskState};
pub use state::job::JoinError;
pub use task::JoinHandle;
pub use time::{Elapsed, Interval, Sleep, Timeout, interval, sleep, timeout};
#[cfg(feature = "tower")]
pub use tower::{GroupFuture, GroupLayer, GroupService, Shed, ShedReason, deadline_in};
pub use zerolag_model as model;
pub use zerolag_trace as trace;
