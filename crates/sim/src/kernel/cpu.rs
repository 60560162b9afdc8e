//! [`Cpu`]: one simulated CPU: its run queue, what it executes, what it has to do next, and where its time went.
//!
//! A CPU is *in the kernel* while `busy_until` lies ahead or a [`Job`] waits: interrupts that arrive then queue up in
//! `pending`. Otherwise it runs its current task's [`Segment`], or idles. Kernel time is charged when it begins, so that an
//! interrupt that changes nothing costs no event: the segment's end just moves.
//!
//! Two clocks: wall time, and task time, which stands still while the CPU is in the kernel for others.

use crate::kernel::ipi::Stretch;
use crate::kernel::lock::RqLock;
use std::collections::VecDeque;
use zerolag_core::{Clock, GroupTimer, Leave, Rq, RqTimer, Step, Work};
use zerolag_model::{CpuId, CpuLayer, Duration, GroupId, Instant, LayerTimes, SchedAttr, TaskId};
use zerolag_workload::program::ResourceId;

/// An interrupt that a CPU takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    Tick,
    /// What the tick has left for when its handler is over.
    Softirq,
    TaskTimer(TaskId),
    RqTimer(RqTimer),
    GroupTimer(GroupId, GroupTimer),
    /// Another CPU has gone offline or has come back.
    Rebuild,
    /// Somebody set `need_resched` here.
    Resched,
    /// Work waits on the CPU's list.
    Works,
    /// No interrupt: it idles, and sees by itself that somebody wants it.
    Noticed,
    /// A source of interrupts, by index.
    Source(u32),
    /// A request has arrived, of the source of this index.
    Arrival(u32),
    /// Somebody makes this change: a system call on CPU 0, or what each CPU concerned has to do.
    Change(u32),
    /// This task is to end as soon as it runs.
    Ended(TaskId),
    /// This CPU runs a task without a tick: it is looked after from here.
    RemoteTick(CpuId),
    /// A disk has read a window of a file.
    PagesRead {
        file: ResourceId,
        window: u32,
    },
}

/// A piece of kernel work that needs run-queue locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Leave the current task and choose the next one.
    Switch(Leave),
    /// Choose the next task, having left.
    Pick,
    /// Carry a step out; `then_pick` if it came from choosing.
    Carry {
        step: Step,
        then_pick: bool,
    },
    /// Wake a task. Its target is chosen when the job comes up, once.
    Wake {
        task: TaskId,
        why: WakeKind,
        target: Option<CpuId>,
    },
    /// Put a task that waits for a lock to the lock's holder.
    Lend {
        task: TaskId,
    },
    /// Change what the current task asks for.
    SetAttr(SchedAttr),
    /// Confine the current task to its `new_affinity`.
    SetAffinity,
    /// Move the current task to another of the program's groups.
    SetGroup(usize),
    /// Recompute what a lock holder inherits.
    Inherit {
        holder: TaskId,
        depth: u32,
    },
    Tick,
    /// Look after a CPU that runs a task without a tick.
    RemoteTick(CpuId),
    Timer(RqTimer),
    GroupTimer(GroupId, GroupTimer),
    /// Build domains anew.
    Rebuild,
    /// Make a change, or this CPU's part of it.
    Change(u32),
    /// Make a change of one thread.
    ChangeTask {
        task: TaskId,
        change: u32,
    },
    Remote(Work),
}

impl Job {
    /// Returns the job that wakes a task which has waited.
    pub(crate) const fn wakeup(task: TaskId) -> Self {
        Self::Wake { task, why: WakeKind::Wakeup, target: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WakeKind {
    Wakeup,
    Fork,
    Displaced,
}

/// What the current task computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    /// Nothing: its program must be asked.
    None,
    /// Work left, in time of a CPU of full speed, and where it is done.
    Work { left: Duration, layer: CpuLayer },
    /// Spins until wall time `until`, looking at the clock every `chunk`; `done` of the present chunk is over.
    Spin { until: Instant, chunk: Duration, done: Duration },
}

#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) rq: Rq,
    pub(crate) current: Option<TaskId>,
    /// The kernel path ends here (so far).
    pub(crate) busy_until: Instant,
    /// Task clock at the beginning of the present kernel path; it stands still until `busy_until`.
    task_clock: Instant,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) pending: VecDeque<Interrupt>,
    /// The balancing that the last tick asked for, while its softirq is pending.
    pub(crate) softirq: Step,
    /// Work that others have asked for, with who did, until the handler takes it.
    pub(crate) works: VecDeque<(CpuId, Work)>,
    /// The handler of queued work is at it.
    pub(crate) in_works: bool,
    pub(crate) stretch: Stretch,
    /// A path-end event is in the queue.
    pub(crate) path_end_queued: bool,
    /// Present computation of the current task, and when it was last brought up to date.
    pub(crate) segment: Segment,
    pub(crate) segment_since: Instant,
    /// Generation of completion events; older ones are void.
    pub(crate) completion: u32,
    /// When the valid completion event comes up.
    pub(crate) completion_at: Option<Instant>,
    /// Generations of the run queue's timers.
    timers: [u32; RqTimer::ALL.len()],
    /// Speed in 1/1024: capacity and SMT sharing.
    pub(crate) speed: u64,
    /// The lock of its run queue.
    pub(crate) lock: RqLock,
    /// When this CPU began to spin for somebody's lock.
    pub(crate) spins_since: Option<Instant>,
    /// Where its time went up to `busy_until`.
    pub(crate) times: LayerTimes,
    /// What it was when the present kernel path began, to take back what lies beyond the end of the run.
    times_before: LayerTimes,
    /// Count of events that this CPU made.
    pub(crate) events: u32,
    pub(crate) ticking: bool,
}

impl Cpu {
    pub(crate) fn new(rq: Rq, speed: u64) -> Self {
        Self {
            lock: RqLock::new(rq.cpu()),
            rq,
            current: None,
            busy_until: Instant::ZERO,
            task_clock: Instant::ZERO,
            jobs: VecDeque::with_capacity(8),
            pending: VecDeque::with_capacity(8),
            softirq: Step::Done,
            works: VecDeque::new(),
            in_works: false,
            stretch: Stretch::Free,
            path_end_queued: false,
            segment: Segment::None,
            segment_since: Instant::ZERO,
            completion: 0,
            completion_at: None,
            timers: [0; RqTimer::ALL.len()],
            speed,
            spins_since: None,
            times: LayerTimes::default(),
            times_before: LayerTimes::default(),
            events: 0,
            ticking: false,
        }
    }

    /// Returns the clocks of this CPU's run queue at a moment.
    #[inline]
    pub(crate) fn clock(&self, now: Instant) -> Clock {
        // While it spins for a lock the path has no end yet: the task's clock stands still until it goes on.
        let ran = if self.spins_since.is_some() { Duration::ZERO } else { now.since(self.busy_until) };
        Clock { wall: now, task: self.task_clock + ran }
    }

    /// Returns the generation of a timer of the run queue: events of an older one are void.
    pub(crate) const fn timer_generation(&mut self, timer: RqTimer) -> &mut u32 {
        &mut self.timers[timer.index()]
    }

    pub(crate) fn next_count(&mut self) -> u32 {
        self.events = self.events.wrapping_add(1);
        self.events
    }

    /// Returns whether interrupts must wait.
    #[inline]
    pub(crate) fn is_in_kernel(&self, now: Instant) -> bool {
        now < self.busy_until || !self.jobs.is_empty()
    }

    /// Returns whether it has a task whose program must say what it does next.
    #[inline(always)]
    pub(crate) fn waits_for_program(&self) -> bool {
        self.current.is_some() && self.segment == Segment::None
    }

    /// Begins a kernel path: accounts what ran below up to now and stops the task clock.
    #[inline]
    pub(crate) fn enter_kernel(&mut self, now: Instant) {
        debug_assert!(now >= self.busy_until);
        if now == self.busy_until {
            return; // The path goes on where it ended.
        }
        self.account_below(now);
        self.task_clock = self.clock(now).task;
        self.busy_until = now;
        self.times_before = self.times;
        self.stretch = Stretch::Free;
    }

    /// Accounts time since the last path to the current task's layer or to idle.
    #[inline]
    fn account_below(&mut self, now: Instant) {
        let elapsed = now.since(self.busy_until);
        let layer = match (self.current, self.segment) {
            (None, _) => CpuLayer::Idle,
            (Some(_), Segment::Work { layer, .. }) => layer,
            (Some(_), Segment::None | Segment::Spin { .. }) => CpuLayer::User,
        };
        self.times.charge(layer, elapsed);
    }

    /// Lengthens the kernel path.
    #[inline]
    pub(crate) fn spend(&mut self, layer: CpuLayer, time: Duration) {
        self.busy_until += time;
        self.times.charge(layer, time);
    }

    /// Ends the account exactly at the end of the run: takes back kernel time that lies beyond it.
    pub(crate) fn close_account(&mut self, end: Instant) {
        if self.busy_until <= end {
            self.account_below(end);
            return;
        }
        // The path's last layer is the scheduler's; an interrupt comes first.
        let mut beyond = self.busy_until.since(end);
        for layer in [CpuLayer::Sched, CpuLayer::Softirq, CpuLayer::Irq, CpuLayer::Hardware] {
            let back = (self.times.of(layer) - self.times_before.of(layer)).min(beyond);
            self.times.take_back(layer, back);
            beyond -= back;
        }
        assert!(beyond.is_zero(), "only the present path reaches beyond the end");
    }

    /// Brings the segment up to date: `now` is when the task stops or its speed changes.
    #[inline]
    pub(crate) fn advance_segment(&mut self, now: Instant) {
        let ran = scale(now.since(self.segment_since), self.speed);
        self.segment_since = now;
        match &mut self.segment {
            Segment::None => {}
            Segment::Work { left, .. } => *left = left.saturating_sub(ran),
            Segment::Spin { chunk, .. } if chunk.is_zero() => {}
            Segment::Spin { chunk, done, .. } => {
                *done = Duration::from_nanos((*done + ran).as_nanos() % chunk.as_nanos());
            }
        }
    }

    /// Returns when the segment ends if the task runs from `from` on undisturbed.
    #[inline(always)]
    pub(crate) fn segment_end(&self, from: Instant) -> Instant {
        match self.segment {
            Segment::None => from,
            Segment::Work { left, .. } => from.saturating_add(unscale(left, self.speed)),
            Segment::Spin { until, chunk, done } => from + spin_time(until.since(from), chunk, done, self.speed),
        }
    }
}

/// Returns how long a CPU spins that looks at the clock every `chunk`, has `done` a part of one, and is to see that
/// `reach` is over.
#[inline(never)]
fn spin_time(reach: Duration, chunk: Duration, done: Duration, speed: u64) -> Duration {
    if chunk.is_zero() {
        return reach;
    }
    // The first look at the clock at or after that, one chunk after the last look at the earliest.
    let work = scale(reach, speed) + done;
    let looks = work.as_nanos().div_ceil(chunk.as_nanos()).max(1);
    let left = Duration::from_nanos(looks * chunk.as_nanos()).saturating_sub(done);
    unscale(left, speed)
}

/// Returns the work that a CPU of this speed does in a time, rounded down.
#[inline]
fn scale(time: Duration, speed: u64) -> Duration {
    if speed == FULL_SPEED { time } else { scale_slower(time, speed) }
}

/// Apart from the usual case, so that that one is small enough to be inlined.
#[inline(never)]
fn scale_slower(time: Duration, speed: u64) -> Duration {
    time.mul_div_floor(speed, FULL_SPEED)
}

/// Returns the time that a CPU of this speed takes for some work, rounded up.
#[inline]
fn unscale(work: Duration, speed: u64) -> Duration {
    if speed == FULL_SPEED { work } else { unscale_slower(work, speed) }
}

/// Likewise.
#[inline(never)]
fn unscale_slower(work: Duration, speed: u64) -> Duration {
    work.mul_div_ceil(FULL_SPEED, speed)
}

/// The speed of a CPU of full capacity that shares its core with nobody.
const FULL_SPEED: u64 = 1024;
