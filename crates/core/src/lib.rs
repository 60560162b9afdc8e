//! The scheduler of zerolag: a state machine without I/O.
//!
//! The same scheduler must run in a simulator, in a runtime with real threads, and in tests that
//! try every order of events. So it has no clock and no thread, creates no lock, and never calls
//! back. A host tells it each event and its time, and it returns the operations that the host must
//! carry out.
//!
//! # The state that a host keeps
//!
//! * One [`Scheduler`]: the state that CPUs share, in atomics and behind inner locks of the type
//!   `L`.
//! * One [`Rq`] per CPU, each under a lock of the host. It holds the bodies of queued tasks.
//! * The [`Parcel`] of each sleeping task. To wake a task, the host passes its parcel to the run
//!   queue that [`Scheduler::select_cpu`] selected.
//! * One [`Io`] per thread, drained after each call: operations to carry out, trace records, costs,
//!   parcels.
//!
//! # The work of a host
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
//!     /// Carries out a step. The lock of the call has been released, so other CPUs can have acted
//!     /// in between.
//!     fn carry(&mut self, mut step: Step) {
//!         let now = Clock::at(self.now);
//!         while step != Step::Done {
//!             step = match step {
//!                 Step::Done => unreachable!(),
//!                 Step::Pair { own, other, then } => { // lock both, the lower CPU first
//!                     let [own, other] = self.rqs
//!                         .get_disjoint_mut([own.index(), other.index()])
//!                         .unwrap();
//!                     let now = PairClock::at(now);
//!                     self.scheduler.resume_pair(own, other, now, then, &mut self.io)
//!                 }
//!                 Step::Again { own, then } => // long work: the lock was released in between
//!                     self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io),
//!             };
//!         }
//!         for op in self.io.ops.drain(..) {
//!             match op {
//!                 Op::Kick { cpu } => self.kicked[cpu.index()] = true,
//!                 Op::Ipi { cpu, work } => self.ipis.push((cpu, work)),
//!                 // This host has only ticks.
//!                 Op::ArmTimer { .. } | Op::CancelTimer { .. } | Op::ArmGroupTimer { .. } => {}
//!                 Op::ExtExit | Op::PolicyTimer { .. } => {}
//!             }
//!         }
//!         // Delayed tasks that have repaid their lag.
//!         while let Some(parcel) = self.io.parked.pop() {
//!             let task = parcel.id();
//!             self.parked[task.index()] = Some(parcel);
//!         }
//!     }
//!
//!     /// Places a task: selects a CPU without a lock, then locks that CPU.
//!     fn place(&mut self, parcel: Parcel, by: CpuId, why: Placement) {
//!         let now = Clock::at(self.now);
//!         let cpu = self.scheduler.select_cpu(now, &parcel, by, why, &mut self.io);
//!         let step =
//!             self.scheduler.wake(&mut self.rqs[cpu.index()], now, parcel, by, why, &mut self.io);
//!         self.carry(step);
//!     }
//!
//!     /// Wakes a task. With delayed dequeue its body can still be queued.
//!     fn wake(&mut self, task: TaskId, by: CpuId) {
//!         if let Some(parcel) = self.parked[task.index()].take() {
//!             return self.place(parcel, by, Placement::Wakeup);
//!         }
//!         if let Home::Rq(home) = self.scheduler.home(task) { // lock it; the call checks it again
//!             let (rq, now) = (&mut self.rqs[home.index()], Clock::at(self.now));
//!             let woken = self.scheduler.wake_queued(rq, now, task, by, &mut self.io);
//!             self.carry(woken.unwrap_or(Step::Done));
//!         }
//!     }
//!
//!     /// Leaves the current task of a CPU and runs the next one.
//!     fn schedule(&mut self, cpu: CpuId, why: Leave) -> Option<TaskId> {
//!         let now = Clock::at(self.now);
//!         self.kicked[cpu.index()] = false;
//!         match self.scheduler.leave(&mut self.rqs[cpu.index()], now, why, &mut self.io) {
//!             Left::Queued | Left::Delayed => {}
//!             Left::Parked(parcel) => {
//!                 let task = parcel.id();
//!                 self.parked[task.index()] = Some(parcel);
//!             }
//!             Left::Displaced(parcel) => self.place(parcel, cpu, Placement::Displaced),
//!             Left::Dead(_) => {}
//!         }
//!         loop { // here other CPUs can wake tasks, push to this CPU and pull from it
//!             match self.scheduler.pick(&mut self.rqs[cpu.index()], now, &mut self.io) {
//!                 // First look for work on other CPUs, then pick again.
//!                 Next::Balance(step) => self.carry(step),
//!                 Next::Idle => { self.carry(Step::Done); return None; }
//!                 Next::Run(task) => {
//!                     let step =
//!                         self.scheduler.switched(&mut self.rqs[cpu.index()], now, &mut self.io);
//!                     self.carry(step); // pushes a task that the switch left waiting
//!                     return Some(task);
//!                 }
//!             }
//!         }
//!     }
//!
//!     /// Delivers interrupts and kicks until none is pending.
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
//!     scheduler, rqs, parked: vec![None, None, None], kicked: vec![false; 2], ipis: vec![], io,
//!     now: Instant::ZERO,
//! };
//! let fifo = SchedAttr::fifo_at;
//! for (id, attr) in [fifo(20), fifo(10), SchedAttr::NORMAL].into_iter().enumerate() {
//!     let (id, born_on) = (TaskId::from_index(id), CpuId(0));
//!     let spec = TaskSpec {
//!         id, attr, affinity: None, group: GroupId::ROOT, cpuset: CpusetId(0), born_on,
//!         process: None,
//!     };
//!     let parcel = host.scheduler.create_task(Clock::at(Instant::ZERO), spec)?;
//!     host.place(parcel, CpuId(0), Placement::Fork);
//!     host.settle();
//! }
//! let running = |host: &Host| [0, 1].map(|cpu: usize| host.rqs[cpu].current().map(|task| task.0));
//! assert_eq!(running(&host), [Some(0), Some(1)], "the fair task waits");
//!
//! host.schedule(CpuId(0), Leave::Block); // task 0 blocks
//! host.settle();
//! assert!(running(&host).contains(&Some(2)), "now it runs");
//! host.wake(TaskId(0), CpuId(1));        // task 0 wakes
//! host.settle();
//! assert!(
//!     running(&host).contains(&Some(0)) && running(&host).contains(&Some(1)),
//!     "the two most urgent run"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! * A task is in one place: on one run queue, or held by the host. A [`Parcel`] is not `Clone`;
//!   dropping one loses a task.
//! * Between two calls no work is half done. A call commits the part that it can do with its run
//!   queue and returns a [`Step`] for the rest. When the step resumes, its conditions are checked
//!   again.
//! * All reads of other CPUs' state are hints. They go through one layer, which can record and
//!   replay them ([`Observer`]). A call that acts on a hint checks it again under the lock. Before
//!   it reads, a CPU publishes the state that the others must see.
//! * A request to switch is made once and stands until the CPU picks ([`Op::Kick`]). Any amount of
//!   time can pass in between.
//! * At quiescence, no waiting real-time task could preempt on any CPU by one legal move
//!   ([`Scheduler::check_quiescent`]). This requires an active mode of `rt_balance`, and excludes
//!   the holes that the settings name.
//! * The clocks of one run queue never go back. Those of two run queues need not agree.
//! * A call appends at most [`MAX_OPS`] operations. It allocates nothing unless more is queued than
//!   ever before.
//!
//! # Modules
//!
//! The modules form floors: a module uses only floors below its own.
//!
//! | floor | contents |
//! |---|---|
//! | `words` | ids, clocks, operations, steps, errors, the configuration of a scheduler |
//! | `entity` | the state of a task or a group in each class |
//! | `task` | bodies, and the slab in which a run queue keeps them |
//! | `queue` | the queues of each class on one CPU, and their order |
//! | `shared` | the state that CPUs share |
//! | `rq` | the run queue of a CPU, and the state that it publishes |
//! | `class`, `lifecycle` | the events of a task: enqueue, dequeue, pick, charge, leave |
//! | `balance` | wakeup placement, and moves between CPUs |
//! | `entry` | one method per event of a host |
//! | [`call`] | the same methods as data, for hosts that record, replay or draw them |
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod balance;
pub mod bandwidth {
    //! The pool of quota of one group, for hosts that have accounts of CPU time and no run queues:
    //! slices, debts, bursts and periods as in the kernel (`kernel/sched/fair.c`, *CFS bandwidth*).
    //!
    //! ```
    //! use zerolag_core::bandwidth::{Pool, QuotaRequest};
    //! use zerolag_model::settings::BandwidthControl;
    //! use zerolag_model::{CpuId, CpuMax, Duration, Instant};
    //!
    //! let (ms, account) = (Duration::from_millis(1), CpuId(0));
    //! let mut pool = Pool::new(BandwidthControl::Pool, 1);
    //! let ends = pool.set(Instant::ZERO, CpuMax { quota: Some(ms * 10), ..CpuMax::UNLIMITED }).arm;
    //! assert_eq!(pool.take(Instant::ZERO, account, QuotaRequest::exactly(ms * 15)).amount, ms * 10);
    //! // The host calls `refresh` at the end of the period: there is quota again.
    //! assert!(pool.refresh(ends.expect("the period ends")).is_some());
    //! assert_eq!(pool.take(Instant::ZERO, account, QuotaRequest::exactly(ms * 5)).amount, ms * 5);
    //! ```
    pub use crate::shared::pool::{Pool, QuotaRequest, Refreshed, Share, TakenQuota};
}
pub mod call;
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
pub use rq::inspect::Inspect;
pub use rq::run_queue::Rq;
pub use shared::state::Home;
pub use task::body::{Parcel, Task, TaskSpec};
pub use task::io::{Io, Left, Tracing};
pub use words::atomic_mask::Threads;
pub use words::clock::{Clock, PairClock};
pub use words::config::{Config, ConfigError, Partition};
pub use words::error::{
    DlParamError, Named, NotHere, Overcommit, RtBandwidthError, RtGroupError, ServerError, TaskError,
};
pub use words::group::{GroupError, Idleness};
pub use words::ids::{CpusetId, DomainId, LockId, ProcessId};
pub use words::life::{CpuMode, Leave, Placement};
pub use words::lines::LineAccess;
pub use words::mode::TaskMode;
pub use words::observe::Observer;
pub use words::op::{Costs, GroupTimer, MAX_OPS, Op, RqTimer, Work};
pub use words::resched::Resched;
pub use words::step::{Cont, Distribution, Next, PairCont, Stay, Step};
pub use words::wait::{Lent, WaitQueue, most_urgent};
