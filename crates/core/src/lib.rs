//! The scheduler of zerolag: a state machine without I/O.
//!
//! A host tells it what happened and when; it answers what must be done. It has no clock, no
//! thread, no lock of its own making and calls nobody. One host gives it simulated time, another
//! real threads, and the tests every order of events.
//!
//! # What a host holds
//!
//! * One [`Scheduler`]: what CPUs know of each other, in atomics and behind inner locks of the type
//!   `L`.
//! * One [`Rq`] per CPU, each under a lock of the host's. The bodies of queued tasks live in it.
//! * The [`Parcel`]s of tasks that sleep: whoever wakes one gives it to the run queue that
//!   [`Scheduler::select_cpu`] named.
//! * One [`Io`] per thread, emptied after each call: operations to carry out, trace records, costs,
//!   parcels.
//!
//! # What a host does
//!
//! ```
//! use zerolag_core::*;
//! use zerolag_model::{CpuId, GroupId, Instant, RtPriority, SchedAttr, Settings, TaskId, Topology};
//!
//! struct Host {
//!     scheduler: Scheduler<parking_lot::RawMutex>,
//!     rqs: Vec<Rq>,                 // with threads: one lock each
//!     parked: Vec<Option<Parcel>>,  // bodies of sleeping tasks
//!     kicked: Vec<bool>,            // with threads: an atomic and an unpark
//!     ipis: Vec<(CpuId, Work)>,
//!     io: Io,
//!     now: Instant,
//! }
//!
//! impl Host {
//!     /// Carries a step out. Whatever lock the call held has been given back; others may have come between.
//!     fn carry(&mut self, mut step: Step) {
//!         let now = Clock::at(self.now);
//!         while step != Step::Done {
//!             step = match step {
//!                 Step::Done => unreachable!(),
//!                 Step::Pair { own, other, then } => { // lock both, the lower CPU first
//!                     let [own, other] = self.rqs.get_disjoint_mut([own.index(), other.index()]).unwrap();
//!                     let now = PairClock { own: now, other: now };
//!                     self.scheduler.resume_pair(own, other, now, then, &mut self.io)
//!                 }
//!                 Step::Again { own, then } => // long work: the lock was free for a moment
//!                     self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io),
//!             };
//!         }
//!         for op in self.io.ops.drain(..) {
//!             match op {
//!                 Op::Kick { cpu } => self.kicked[cpu.index()] = true,
//!                 Op::Ipi { cpu, work } => self.ipis.push((cpu, work)),
//!                 // This host has only ticks.
//!                 Op::ArmTimer { .. } | Op::CancelTimer { .. } | Op::ArmGroupTimer { .. } => {}
//!             }
//!         }
//!         while let Some(parcel) = self.io.parked.pop() { // a sleeper whose lag is paid (delayed dequeue)
//!             let task = parcel.id();
//!             self.parked[task.index()] = Some(parcel);
//!         }
//!     }
//!
//!     /// Places a task: choose without a lock, then lock the choice.
//!     fn place(&mut self, parcel: Parcel, by: CpuId, why: Placement) {
//!         let now = Clock::at(self.now);
//!         let cpu = self.scheduler.select_cpu(now, &parcel, by, why, &mut self.io);
//!         let step = self.scheduler.wake(&mut self.rqs[cpu.index()], now, parcel, by, why, &mut self.io);
//!         self.carry(step);
//!     }
//!
//!     /// A task wakes. With delayed dequeue its body may still be queued.
//!     fn wake(&mut self, task: TaskId, by: CpuId) {
//!         if let Some(parcel) = self.parked[task.index()].take() {
//!             return self.place(parcel, by, Placement::Wakeup);
//!         }
//!         if let Home::Rq(home) = self.scheduler.home(task) { // lock it; the call looks again
//!             let (rq, now) = (&mut self.rqs[home.index()], Clock::at(self.now));
//!             let woken = self.scheduler.wake_queued(rq, now, task, by, &mut self.io);
//!             self.carry(woken.unwrap_or(Step::Done));
//!         }
//!     }
//!
//!     /// A CPU leaves its task, for whatever reason, and runs the next.
//!     fn schedule(&mut self, cpu: CpuId, why: Leave) -> Option<TaskId> {
//!         let now = Clock::at(self.now);
//!         self.kicked[cpu.index()] = false;
//!         match self.scheduler.leave(&mut self.rqs[cpu.index()], now, why, &mut self.io) {
//!             Left::Queued | Left::Delayed => {}
//!             Left::Parked(parcel) => { let task = parcel.id(); self.parked[task.index()] = Some(parcel); }
//!             Left::Displaced(parcel) => self.place(parcel, cpu, Placement::Displaced),
//!             Left::Dead(_) => {}
//!         }
//!         loop { // here others may wake tasks, push to this CPU and pull from it
//!             match self.scheduler.pick(&mut self.rqs[cpu.index()], now, &mut self.io) {
//!                 Next::Balance(step) => self.carry(step), // look elsewhere first, then pick again
//!                 Next::Idle => { self.carry(Step::Done); return None; }
//!                 Next::Run(task) => {
//!                     let step = self.scheduler.switched(&mut self.rqs[cpu.index()], now, &mut self.io);
//!                     self.carry(step); // whom the switch left waiting is pushed
//!                     return Some(task);
//!                 }
//!             }
//!         }
//!     }
//!
//!     /// Delivers interrupts and kicks until none is left.
//!     fn settle(&mut self) {
//!         loop {
//!             if let Some((cpu, work)) = self.ipis.pop() {
//!                 let (rq, now) = (&mut self.rqs[cpu.index()], Clock::at(self.now));
//!                 let step = self.scheduler.remote(rq, now, work, &mut self.io);
//!                 self.carry(step);
//!             } else if let Some(cpu) = self.kicked.iter().position(|kicked| *kicked) {
//!                 self.schedule(CpuId::from_index(cpu), Leave::Preempted);
//!             } else {
//!                 return;
//!             }
//!         }
//!     }
//! }
//!
//! // Two CPUs, three tasks: two of FIFO priority, one fair.
//! let config = Config::new(Topology::flat(2)?, Settings::default());
//! let mut scheduler = Scheduler::new(config);
//! scheduler.reserve_tasks(3);
//! let rqs = (0..2).map(|cpu| scheduler.new_rq(CpuId(cpu))).collect();
//! let io = Io::new(Tracing::Off);
//! let mut host = Host {
//!     scheduler, rqs, parked: vec![None, None, None], kicked: vec![false; 2], ipis: vec![], io, now: Instant::ZERO,
//! };
//! let fifo = SchedAttr::fifo_at;
//! for (id, attr) in [fifo(20), fifo(10), SchedAttr::NORMAL].into_iter().enumerate() {
//!     let (id, born_on) = (TaskId::from_index(id), CpuId(0));
//!     let spec = TaskSpec { id, attr, affinity: None, group: GroupId::ROOT, cpuset: CpusetId(0), born_on };
//!     let parcel = host.scheduler.create_task(Clock::at(Instant::ZERO), spec)?;
//!     host.place(parcel, CpuId(0), Placement::Fork);
//!     host.settle();
//! }
//! let running = |host: &Host| [0, 1].map(|cpu: usize| host.rqs[cpu].current().map(|task| task.0));
//! assert_eq!(running(&host), [Some(0), Some(1)], "the fair task waits");
//!
//! host.schedule(CpuId(0), Leave::Block); // task 0 waits for something
//! host.settle();
//! assert!(running(&host).contains(&Some(2)), "now it runs");
//! host.wake(TaskId(0), CpuId(1));        // it comes
//! host.settle();
//! assert!(running(&host).contains(&Some(0)) && running(&host).contains(&Some(1)), "the two most urgent run");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//!
//! * A task is in one place: on one run queue, or in the host's hands. A [`Parcel`] is not `Clone`;
//!   dropping one loses a task.
//! * Between two calls nothing is half done. A call commits what it can do with the run queue it
//!   has and answers a [`Step`] for the rest; what the step was about is checked again when it
//!   resumes.
//! * Whatever is read of other CPUs is a hint and goes through one layer, which can record and
//!   replay it ([`Observer`]). Whoever acts on a hint looks again under the lock. Before looking, a
//!   CPU publishes what the others must see.
//! * A request to switch is made once and stands until the CPU picks ([`Op::Kick`]); any time may
//!   pass.
//! * When nothing is under way, no waiting real-time task could preempt anywhere by one legal move
//!   ([`Scheduler::check_quiescent`]; active modes of `rt_balance`, holes that the settings name
//!   apart).
//! * The clocks of a run queue never go back; those of two run queues need not agree.
//! * At most [`MAX_OPS`] operations per call; no allocation once all that is ever queued has been
//!   queued.
//!
//! # Where things are
//!
//! Floors: a module uses only floors below its own.
//!
//! | floor | holds |
//! |---|---|
//! | `words` | ids, clocks, operations, steps, errors, what a scheduler is built from |
//! | `entity`, `task` | what a task or a group carries; bodies, and where a run queue keeps them |
//! | `queue` | the queues of one CPU's classes, and what orders them |
//! | `shared` | what CPUs know of each other |
//! | `rq` | the run queue of a CPU; what it publishes |
//! | `class`, `lifecycle` | what happens when a task comes, goes, runs, or is left |
//! | `balance` | where a task wakes; what moves between CPUs |
//! | `entry` | one method per event of a host |
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod balance;
mod class;
mod entity;
mod entry;
mod lifecycle;
mod queue;
mod rq;
mod shared;
mod task;
mod words;

pub use entity::weight::Weight;
pub use entry::domain::DomainError;
pub use entry::scheduler::Scheduler;
pub use rq::run_queue::Rq;
pub use shared::state::Home;
pub use task::body::{Parcel, Task, TaskSpec};
pub use task::io::{Io, Left, Tracing};
pub use words::atomic_mask::Threads;
pub use words::clock::{Clock, PairClock};
pub use words::config::{Config, ConfigError, Partition};
pub use words::error::{DlParamError, RtBandwidthError, ServerError, TaskError};
pub use words::group::{GroupError, Idleness};
pub use words::ids::{CpusetId, DomainId, LockId};
pub use words::life::{CpuMode, Leave, Placement};
pub use words::mode::TaskMode;
pub use words::observe::Observer;
pub use words::op::{Costs, GroupTimer, MAX_OPS, Op, RqTimer, Work};
pub use words::resched::Resched;
pub use words::step::{Cont, Distribution, Next, PairCont, Stay, Step};
pub use words::wait::{Lent, WaitQueue, most_urgent};
