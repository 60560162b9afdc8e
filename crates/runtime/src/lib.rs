//! The scheduler of zerolag at work inside a process: futures on real threads, with groups,
//! weights, hard quotas, reservations, real-time priorities, a floor below them, and locks that
//! boost their holders. No privileges, no cgroups.
//!
//! ```
//! use std::time::Duration;
//! use zerolag_runtime::{Builder, checkpoint, sleep};
//!
//! let rt = Builder::new().cpus(2).build()?;
//! let ms = Duration::from_millis;
//!
//! // A reservation: 1 ms of a CPU in each 10 ms, whatever else there is. Admitted, or refused.
//! let heartbeats = rt.task().reserve(ms(1), ms(10)).spawn(async {
//!     for _ in 0..3 {
//!         sleep(Duration::from_millis(10)).await; // ... and tell the others that we live
//!     }
//! })?;
//!
//! // A tenant: at most 0.4 CPUs, whatever it has to do.
//! let acme = rt.group("acme").weight(100).quota(0.4).burst(ms(20)).create()?;
//! let batch = acme.spawn(async {
//!     let mut sum = 0_u64;
//!     for n in 0..1_000_000 {
//!         sum = sum.wrapping_add(n * n);
//!         if n % 10_000 == 0 {
//!             checkpoint().await; // a load, unless something waits
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
//! A thread is a CPU; what is scheduled are polls. A poll is not interrupted: a task gives way when
//! it awaits something that is not ready, and at [`checkpoint`]. One that was asked to and does not
//! loses its CPU after a while ([`Builder::hand_off_after`]), goes on beside the others as nice as
//! can be, and pays for it later. So limits hold on average, and to the length of a poll at any
//! moment.
//!
//! Time is the wall's: what other programs, or a limit of the container, take from a thread is
//! charged to the task on it.
//!
//! The runtime has no reactor for sockets and files: it wakes tasks for whatever calls their
//! wakers.
//!
//! # How it is built
//!
//! | module | holds |
//! |---|---|
//! | `calls` | every call of the core as data |
//! | `engine` | run queues, tasks, ids, threads |
//! | `caller` | how calls are made, under which locks, and what follows from them |
//! | `worker` | the thread of a CPU; how a CPU is handed over |
//! | `clock` | timers and ticks |
//! | `task`, `spawn`, `group` | what users hold |
//! | `mutex` | locks that boost |
//! | `coop`, `time` | what tasks await |
//! | `record` | the flight recorder and its replay |
#![warn(missing_docs)]

mod caller;
mod calls;
mod clock;
mod coop;
mod engine;
mod group;
mod mutex;
mod record;
mod runtime;
mod spawn;
mod task;
mod time;
mod worker;

pub use coop::{checkpoint, should_yield, yield_now};
pub use group::{Group, GroupBuilder, GroupSetError, Usage};
pub use mutex::{Guard, Lock, Mutex};
pub use record::{Diverged, Recording};
pub use runtime::{BuildError, Builder, Runtime};
pub use spawn::{SpawnError, TaskBuilder};
pub use task::{JoinError, JoinHandle};
pub use time::{Sleep, sleep};
pub use zerolag_model as model;
pub use zerolag_trace as trace;

fn to_model(length: std::time::Duration) -> zerolag_model::Duration {
    zerolag_model::Duration::from_nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

fn to_std(length: zerolag_model::Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(length.as_nanos())
}
