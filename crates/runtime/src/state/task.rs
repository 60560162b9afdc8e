//! [`Task`]: a future with its place in the scheduler.

use super::detached::{Hold, HoldCell};
use super::engine::Engine;
use super::group::GroupState;
use super::job::Job;
use super::life::Body;
use super::lock::LockQueue;
use super::upkeep::Upkeep;
use crate::span::TaskSpan;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use zerolag_core::{Lent, Parcel};
use zerolag_model::{ClassId, CpuId, Duration, SchedAttr, TaskId};

/// A task of the runtime. Servers have a hundred thousand that sleep, so what most tasks do without
/// is behind a pointer: names, spans, locks.
///
/// Its state machines are in [`Body`]. The flags beside it are facts of their own that are read
/// without a lock: an abort can be asked for in any state, a task can be in kernel mode with and
/// without a borrowed priority, and so on. Two of them repeat what a lock protects, for readers
/// that do not take it: `is_slow` (a detached poll) and `is_inheriting` (`inherited`).
pub(crate) struct Task {
    pub(crate) id: TaskId,
    /// The place in the source that started it.
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) body: Mutex<Body>,
    /// Locked during a poll. The lock of the body is taken inside this one, never around it.
    pub(crate) job: Mutex<Pin<Box<dyn Job>>>,
    /// An [`Abort`].
    abort: AtomicU8,
    /// Its poll continues at nice 19: it gets no lock before the poll ends. Set under the locks of
    /// `body`, `held` and `waits_for`.
    pub(crate) is_slow: AtomicBool,
    pub(crate) kind: Kind,
    pub(crate) affinity: Affinity,
    /// A poll of it on the turn of another task was seen at two ticks; `false` again after a poll
    /// on its own turn that was seen at none.
    pub(crate) is_long: AtomicBool,
    /// It has inherited a loan: `inherited` is not `None`. Set under the lock of `inherited`.
    pub(crate) is_inheriting: AtomicBool,
    /// It left its CPU in kernel mode since it is spared ([`spare`](crate::spare)).
    pub(crate) is_in_kernel: AtomicBool,
    /// It has borrowed a real-time priority since it is spared.
    pub(crate) is_lifted: AtomicBool,
    /// The CPU where it ran last. Threads outside the runtime wake it in the name of this CPU.
    pub(crate) last_cpu: AtomicU32,
    /// Most tasks have none: no name, no lock, no subscriber that wants their span.
    extras: OnceLock<Box<TaskExtras>>,
}

/// How far an abort is.
///
/// ```text
///          asked for               picked, in a limited group           its future is dropped
///   Not -------------> Asked ---------------------------------> Handed ----------------------> Dropped
///                        | picked, without a limit: dropped in this poll
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Abort {
    Not,
    Asked,
    /// Another thread drops the future.
    Handed,
    /// It has, and the task has its result.
    Dropped,
}

/// What a task is by its own parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A fair task of nice 0.
    Plain,
    /// Another fair task.
    Fair,
    /// A real-time task, or one with a reservation.
    Urgent,
}

/// Whether a task is allowed on all CPUs. Only then can another task decide where it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Affinity {
    AllCpus,
    SomeCpus,
}

impl Kind {
    fn of(attr: SchedAttr) -> Self {
        match attr.class() {
            ClassId::Fair if attr == SchedAttr::NORMAL => Self::Plain,
            ClassId::Fair => Self::Fair,
            // The runtime loads no scheduler: its tasks with that policy are fair ones.
            ClassId::Ext => Self::Fair,
            ClassId::Stop | ClassId::Deadline | ClassId::Rt | ClassId::Idle => Self::Urgent,
        }
    }

    pub(crate) fn is_fair(self) -> bool {
        self != Self::Urgent
    }
}

// Servers have a hundred thousand of them: a larger one needs a reason, and this line.
#[cfg(all(not(test), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Task>() <= 128, "a task must not take more than 128 bytes");

/// What few tasks have.
#[derive(Default)]
struct TaskExtras {
    name: Arc<str>,
    span: TaskSpan,
    /// When it was woken, or its last poll ended, in nanoseconds; 0 once it is polled.
    ready_at: AtomicU64,
    /// The CPU time that it has used on a CPU that was no longer its own, in nanoseconds. It is
    /// charged when the task runs next.
    debt: AtomicU64,
    /// Other tasks are polled on its next turn before it. Written under the lock of `riders`.
    has_riders: AtomicBool,
    /// These tasks, in reverse.
    riders: Mutex<Vec<Arc<Task>>>,
    /// It waits for the end of another poll of its group.
    hold: HoldCell,
    locks: TaskLocks,
}

/// What a task has to do with locks.
#[derive(Default)]
pub(crate) struct TaskLocks {
    /// The locks that it holds and that others can wait for.
    pub(crate) held: Mutex<Vec<Arc<LockQueue<Task>>>>,
    /// The locks that it waits for: several if it polls several futures.
    pub(crate) waits_for: Mutex<Vec<Arc<LockQueue<Task>>>>,
    /// The loan that it has inherited.
    pub(crate) inherited: Mutex<Option<Lent>>,
    pub(crate) upkeep: Mutex<Upkeep>,
}

/// A task that is about to be started.
pub(crate) struct NewTask {
    pub(crate) id: TaskId,
    pub(crate) name: Arc<str>,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) parcel: Parcel,
    pub(crate) job: Pin<Box<dyn Job>>,
    pub(crate) attr: SchedAttr,
    pub(crate) affinity: Affinity,
    pub(crate) born_on: CpuId,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("body", &self.body).finish_non_exhaustive()
    }
}

impl Task {
    pub(crate) fn new(new: NewTask) -> Self {
        let NewTask { id, name, spawned_at, group, parcel, job, attr, affinity, born_on } = new;
        let span = TaskSpan::new(&name, || group.path(), spawned_at);
        let extras = OnceLock::new();
        if !name.is_empty() || !span.is_disabled() || group.engine.is_measuring {
            let _ = extras.set(Box::new(TaskExtras { name, span, ..TaskExtras::default() }));
        }
        Self {
            id,
            spawned_at,
            group,
            body: Mutex::new(Body::new(parcel)),
            job: Mutex::new(job),
            abort: AtomicU8::new(Abort::Not as u8),
            is_slow: AtomicBool::new(false),
            kind: Kind::of(attr),
            affinity,
            is_long: AtomicBool::new(false),
            is_inheriting: AtomicBool::new(false),
            is_in_kernel: AtomicBool::new(false),
            is_lifted: AtomicBool::new(false),
            last_cpu: AtomicU32::new(born_on.0),
            extras,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.group.engine
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.extras.get().map_or_else(Arc::default, |more| Arc::clone(&more.name))
    }

    /// Runs a poll, or the drop of the future, inside the span of the task.
    pub(crate) fn around<T>(&self, run: impl FnOnce() -> T) -> T {
        match self.extras.get() {
            Some(more) => more.span.around(run),
            None => run(),
        }
    }

    pub(crate) fn locks(&self) -> &TaskLocks {
        &self.extras.get_or_init(Box::default).locks
    }

    pub(crate) fn abort_state(&self) -> Abort {
        let value = self.abort.load(Ordering::Acquire);
        let states = [Abort::Asked, Abort::Handed, Abort::Dropped];
        states.into_iter().find(|state| *state as u8 == value).unwrap_or(Abort::Not)
    }

    /// Asks for its end. It is asked for once.
    pub(crate) fn ask_to_abort(&self) {
        let [from, to] = [Abort::Not, Abort::Asked].map(|state| state as u8);
        let _ = self.abort.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Notes how far its abort is; only one thread has it then.
    pub(crate) fn set_abort(&self, state: Abort) {
        self.abort.store(state as u8, Ordering::Release);
    }

    /// Returns whether a limit could delay its abort.
    pub(crate) fn is_hurried(&self) -> bool {
        self.abort_state() != Abort::Not && self.kind.is_fair() && self.group.limited().is_some()
    }

    /// Returns whether it is held back ([`hold_back`](crate::hold_back)).
    pub(crate) fn hold(&self) -> Hold {
        self.extras.get().map_or(Hold::Free, |more| more.hold.get())
    }

    pub(crate) fn set_hold(&self, hold: Hold) {
        if self.hold() != hold {
            self.extras.get_or_init(Box::default).hold.set(hold);
        }
    }

    /// Returns when it was woken or its last poll ended, in nanoseconds, or 0; `None` unless waits
    /// are counted.
    pub(crate) fn ready_at(&self) -> Option<&AtomicU64> {
        self.extras.get().map(|more| &more.ready_at)
    }

    /// Adds to the CPU time that is charged when the task runs next.
    pub(crate) fn owe(&self, time: Duration) {
        if !time.is_zero() {
            self.extras.get_or_init(Box::default).debt.fetch_add(time.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether CPU time will be charged when the task runs next.
    pub(crate) fn owes(&self) -> bool {
        self.extras.get().is_some_and(|more| more.debt.load(Ordering::Relaxed) > 0)
    }

    /// Returns the CPU time that is charged now.
    pub(crate) fn take_debt(&self) -> Duration {
        if !self.owes() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.extras.get().map_or(0, |more| more.debt.swap(0, Ordering::Relaxed)))
    }

    /// Lets tasks ride on its next turn. The caller has its parcel and is about to place it, so it
    /// has none yet.
    pub(crate) fn carry(&self, mut riders: Vec<Arc<Self>>) {
        riders.reverse();
        let more = self.extras.get_or_init(Box::default);
        let mut place = more.riders.lock();
        debug_assert!(place.is_empty(), "a sleeping task must have no riders");
        more.has_riders.store(!riders.is_empty(), Ordering::Release);
        *place = riders;
    }

    pub(crate) fn has_riders(&self) -> bool {
        self.extras.get().is_some_and(|more| more.has_riders.load(Ordering::Acquire))
    }

    /// Takes the next rider.
    pub(crate) fn take_rider(&self) -> Option<Arc<Self>> {
        let more = self.extras.get().filter(|more| more.has_riders.load(Ordering::Acquire))?;
        let mut riders = more.riders.lock();
        let rider = riders.pop();
        more.has_riders.store(!riders.is_empty(), Ordering::Release);
        rider
    }

    /// Returns whether it is not allowed on all CPUs.
    pub(crate) fn is_bound(&self) -> bool {
        self.affinity == Affinity::SomeCpus
    }

    pub(crate) fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.load(Ordering::Relaxed)
    }

    /// Returns whether it runs in another class than its own.
    pub(crate) fn has_borrowed_class(&self) -> bool {
        self.kind.is_fair()
            && self.is_inheriting.load(Ordering::Acquire)
            && self.locks().inherited.lock().is_some_and(|lent| lent.prio().class() != ClassId::Fair)
    }

    /// Returns whether it holds a lock.
    pub(crate) fn holds_locks(&self) -> bool {
        self.extras.get().is_some_and(|more| !more.locks.held.lock().is_empty())
    }

    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.last_cpu.load(Ordering::Relaxed))
    }
}
