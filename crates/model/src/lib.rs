//! The vocabulary that all crates of zerolag share.
//!
//! Time, ids, CPU masks, scheduling attributes, topology, settings and trace events. There is no
//! behaviour here: no function of this crate decides which task runs. It needs `alloc` but neither
//! `std` nor any dependency.
//!
//! | module | words |
//! |---|---|
//! | [`time`] | [`Instant`], [`Duration`], [`SignedDuration`]: integer nanoseconds |
//! | [`ids`] | [`CpuId`], [`TaskId`], [`GroupId`] |
//! | [`cpumask`] | [`CpuMask`], printed and read as the kernel's CPU lists (`0-3,8`) |
//! | [`attr`] | [`SchedAttr`], [`Policy`], [`Nice`], [`RtPriority`], [`Prio`], [`ClassId`] |
//! | [`bandwidth`] | [`CpuMax`], [`CpuStat`] |
//! | [`pressure`] | [`PressureTrigger`]: a threshold of `cpu.pressure` |
//! | [`topology`] | [`Topology`], [`Distance`] |
//! | [`server`] | [`ServerParams`], [`ServerState`]: deadline servers |
//! | [`setattr`] | [`RawAttr`](setattr::RawAttr): the arguments of `sched_setattr`, and the kernel's errors |
//! | [`settings`] | [`Settings`]: every switch and tunable, by name; [`KernelVersion`]: any kernel, by its release |
//! | [`event`] | [`Record`], [`TraceEvent`]: the events of a run |
//! | [`state`] | [`CpuState`](state::CpuState), [`Why`](state::Why): lag, deadlines, quota and budgets at decisions |
//! | [`text`] | characters that hide or reorder text, and texts without them |
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod attr;
pub mod bandwidth;
pub mod clamp;
pub mod cpumask;
pub mod event;
pub mod figure;
pub mod ids;
pub mod pressure;
pub mod rt_bandwidth;
pub mod server;
pub mod setattr;
pub mod settings;
pub mod state;
pub mod text;
pub mod time;
pub mod topology;

pub use attr::{ClassId, DlFlags, DlParams, FairPolicy, Nice, Policy, Prio, RtPolicy, RtPriority, SchedAttr};
pub use bandwidth::{CpuMax, CpuMaxError, CpuStat};
pub use clamp::UtilClamp;
pub use cpumask::{CpuMask, MAX_CPUS};
pub use event::{CpuLayer, LayerTimes, Mark, MigrateReason, PrevState, Record, RequestStep, TaskCounters, TraceEvent};
pub use ids::{CpuId, GroupId, TaskId};
pub use pressure::{PressureTrigger, PressureTriggerError, Stall};
pub use rt_bandwidth::RtBandwidth;
pub use server::{Activation, ServerKind, ServerParams, ServerState};
pub use settings::{KernelVersion, Settings};
pub use time::{Duration, Instant, SignedDuration};
pub use topology::{Distance, Topology};
