//! The scheduler of zerolag: a state machine without I/O.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod atomic_mask;
mod change;
mod check;
mod class;
mod config;
mod cpupri;
mod fair;
mod hotplug;
mod observe;
mod rq;
mod rt;
mod scheduler;
mod shared;
mod slab;
mod step;
mod task;
mod wait;

pub use atomic_mask::Threads;
pub use config::{Config, ConfigError, Partition};
pub use fair::{GroupError, Idleness, Weight};
pub use observe::Observer;
pub use rq::Rq;
pub use scheduler::{CpuMode, Placement, Scheduler, TaskError};
pub use shared::Home;
pub use step::{
    Clock, Cont, Costs, Io, Leave, Left, MAX_OPS, Next, Op, PairClock, PairCont, Resched, RqTimer, Stay, Step, Tracing,
    Work,
};
pub use task::{CpusetId, Parcel, Task, TaskSpec};
pub use wait::WaitQueue;
