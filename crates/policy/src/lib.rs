//! A scheduler of your own: the operations of Linux's `sched_ext` as a Rust trait.
//!
//! Since 6.12 a Linux kernel runs schedulers that its user loads: BPF programs with the operations
//! of [`struct sched_ext_ops`](https://docs.kernel.org/scheduler/sched-ext.html). Writing one on a
//! machine means that a fault stalls that machine. Here the same operations are the trait
//! [`Policy`]. A policy of fifty lines runs in the simulator `zerolag-sim`, beside real-time,
//! deadline and fair tasks, on any number of CPUs, with every rule that a kernel would eject it
//! for; all names are the kernel's, so that it translates to BPF line by line.
//!
//! # From nothing to a policy
//!
//! Every operation has the kernel's default, so the least policy is its name. Tasks run in order
//! of arrival, on idle CPUs first:
//!
//! ```
//! use zerolag_policy::{Ops, Policy};
//!
//! #[derive(Clone)]
//! struct Mine;
//!
//! impl Policy for Mine {
//!     fn ops(&self) -> Ops {
//!         Ops::named("mine")
//!     }
//! }
//! ```
//!
//! A CPU runs the tasks of its **local queue** ([`DsqId::LOCAL`]), and nothing else. A policy has
//! three occasions to put a task there:
//!
//! 1. [`select_cpu`](Policy::select_cpu) chooses a CPU for a task that wakes. If that CPU idles,
//!    the task can be inserted into its local queue at once.
//! 2. [`enqueue`](Policy::enqueue) is called for a task that is not inserted yet: insert it into a
//!    local queue, into the global one, into a queue of your own, or keep its id somewhere.
//! 3. [`dispatch`](Policy::dispatch) is called when a CPU has no local task: move one there from a
//!    queue ([`Scx::dsq_move_to_local`]), or insert one that you kept ([`Scx::dsq_insert`]).
//!
//! A queue of your own is in order of arrival, or of virtual time. The second makes a scheduler
//! with weights: time passes slower for a task of higher weight, and the task that has had the
//! least runs first.
//!
//! ```
//! use zerolag_model::{CpuId, Duration, TaskId};
//! use zerolag_policy::{DsqId, EnqFlags, Ops, PerTask, Policy, Scx};
//!
//! const SHARED: DsqId = DsqId(0);
//!
//! #[derive(Clone, Default)]
//! struct Vtime {
//!     vtime_now: u64,           // the virtual time of the task that began to run last
//!     began: PerTask<Duration>, // the slice of each task when it began to run
//! }
//!
//! impl Vtime {
//!     fn vtime_after(&self, scx: &Scx, p: TaskId) -> u64 {
//!         let used = self.began[p].saturating_sub(scx.slice(p)).as_nanos();
//!         scx.dsq_vtime(p) + used * 100 / u64::from(scx.weight(p))
//!     }
//! }
//!
//! impl Policy for Vtime {
//!     fn ops(&self) -> Ops {
//!         Ops::named("vtime")
//!     }
//!     fn init(&mut self, scx: &mut Scx) {
//!         scx.create_dsq(SHARED).expect("the first queue");
//!     }
//!     fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
//!         // A task that slept, or is new, may save up one slice.
//!         let slice = scx.slice_dfl();
//!         let vtime = scx.dsq_vtime(p).max(self.vtime_now.saturating_sub(slice.as_nanos()));
//!         scx.dsq_insert_vtime(p, SHARED, slice, vtime, flags);
//!     }
//!     fn dispatch(&mut self, scx: &mut Scx, _cpu: CpuId, prev: Option<TaskId>) {
//!         // The task whose turn ends is not on the queue yet. With a new slice it goes on.
//!         if let (Some(prev), Some(first)) = (prev, scx.dsq_peek(SHARED)) {
//!             let vtime = self.vtime_after(scx, prev);
//!             if vtime < scx.dsq_vtime(first) {
//!                 scx.set_dsq_vtime(prev, vtime);
//!                 scx.set_slice(prev, scx.slice_dfl());
//!                 self.began[prev] = scx.slice_dfl();
//!                 return;
//!             }
//!         }
//!         scx.dsq_move_to_local(SHARED);
//!     }
//!     fn running(&mut self, scx: &mut Scx, p: TaskId) {
//!         self.vtime_now = self.vtime_now.max(scx.dsq_vtime(p));
//!         self.began[p] = scx.slice(p);
//!     }
//!     fn stopping(&mut self, scx: &mut Scx, p: TaskId, _runnable: bool) {
//!         scx.set_dsq_vtime(p, self.vtime_after(scx, p));
//!     }
//! }
//!
//! // The host drives it: two tasks on one CPU, one of three times the weight of the other.
//! # use zerolag_model::{GroupId, Topology};
//! # use zerolag_policy::{Arrival, Host, TaskInfo};
//! let mut host = Host::load(Box::new(Vtime::default()), &Topology::flat(1)?, Duration::from_millis(4));
//! # let (cpu, mut ran, mut prev) = (CpuId(0), [0, 0], None);
//! # for (id, weight) in [(0, 100), (1, 300)] {
//! #     let info = TaskInfo { comm: "t".into(), weight, group: GroupId::ROOT, allowed: None, cpu, period: None };
//! #     host.add_task(TaskId(id), info, true);
//! #     host.enqueue(TaskId(id), cpu, Arrival::New, false);
//! # }
//! # for _ in 0..400 {
//! #     host.dispatch(cpu, prev);
//! #     let p = match prev {
//! #         Some(prev) if host.keeps(cpu, prev) => prev,
//! #         _ => {
//! #             let next = host.local(cpu).next().expect("a task waits");
//! #             prev.inspect(|prev| host.put_prev(*prev, cpu, false));
//! #             host.set_next(next, cpu);
//! #             next
//! #         }
//! #     };
//! #     host.charge(p, Duration::from_millis(4));
//! #     ran[p.index()] += 1;
//! #     prev = Some(p);
//! # }
//! // ... after 400 slices:
//! assert!((99..=101).contains(&ran[0]) && (299..=301).contains(&ran[1]), "{ran:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What else there is
//!
//! * [`tick`](Policy::tick), [`Scx::set_slice`] and [`Scx::kick_cpu`] end a task's turn early;
//!   [`EnqFlags::PREEMPT`] puts a task in front of the current one.
//! * [`Scx::test_and_clear_cpu_idle`], [`Scx::pick_idle_cpu`] and [`Scx::select_cpu_dfl`] choose
//!   idle CPUs.
//! * [`Scx::timer_start`] calls [`timer`](Policy::timer) at a time.
//! * A task has a name, a weight, a group, and CPUs that it is allowed on. Groups are a tree
//!   ([`Scx::cgroup_parent`]). A policy's own data of tasks, CPUs and groups are in [`PerTask`],
//!   [`PerCpu`] and [`PerGroup`].
//! * A policy for simulations can ask for the truth ([`Ops::needs`]): periods of timers, and the work
//!   that each task is about to do.
//! * [`OpsFlags`] change when the kernel asks the policy.
//! * [`policies`] has complete ones, each in one file.
//!
//! # What ends a policy
//!
//! A kernel unloads a policy that breaks a rule, and its tasks go on as fair ones. Here the same
//! happens, with the same message ([`ExitInfo`]): an insertion of another task than that of the
//! call, or twice; a queue that does not exist; the local queue of a CPU where the task must not
//! run; a CPU that does not exist; a queue in two orders; more insertions than a batch holds; more
//! than [`MAX_WORK`] calls of helpers in one callback; a runnable task that does not run for 30 s
//! ([`Ops::timeout`]).
//!
//! A policy decides by its own state and that of [`Scx`] alone. It has no clock and no random
//! numbers but those that it computes, so a run can be repeated, and it is `Clone`, so that a
//! run can go on in two ways.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `words` | names of queues, flags, callbacks |
//! | `ops` | [`Policy`], and what it says of itself |
//! | `scx` | [`Scx`]: the kernel as a policy sees it, and the queues |
//! | `idle` | the same: idle CPUs, and kicks |
//! | `groups` | groups: their hierarchy, weights and limits |
//! | `loading` | loading and unloading while tasks run, and the bypass meanwhile |
//! | [`host`] | [`Host`]: the rules of the class around the callbacks, for those who run a policy |
//! | `exit` | [`ExitInfo`]: why a policy was unloaded |
//! | `steps` | where a policy has put its tasks, for those that show it |
//! | `storage` | a policy's own data |
//! | [`policies`] | complete policies |
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c`, `idle.c`, `internal.h`; v6.12 where it says so;
//! `Documentation/scheduler/sched-ext.rst`.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod dsq;
mod exit;
mod groups;
pub mod host;
mod idle;
mod loading;
mod ops;
pub mod policies;
mod scx;
mod steps;
mod storage;
mod words;

pub use exit::{ExitInfo, ExitKind};
pub use host::{Arrival, Departure, Host, TaskInfo};
pub use ops::{Mistake, Ops, Param, Policy, PolicyClone, PolicyFactory, TextParam};
pub use scx::{DsqError, Effect, MAX_WORK, Scx};
pub use steps::Window;
pub use storage::{Dense, Per, PerCpu, PerGroup, PerTask};
pub use words::{
    Callback, DeqFlags, DsqId, EnqFlags, KickFlags, Needs, OpsFlags, SLICE_DFL, SLICE_INF, WakeFlags, words,
};
