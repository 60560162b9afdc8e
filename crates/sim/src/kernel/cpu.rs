//! [`Cpu`]: one simulated CPU: its run queue, its jobs, its current computation, and its time.
//!
//! The naive way is an event at the end of every kernel path: at 20 paths per scheduling decision
//! most events would only say that nothing changed. The key insight: what a path does is known when
//! it begins, so its time can be charged there. An interrupt that changes nothing for the current
//! task then costs no event: the end of the task's computation just moves.
//!
//! * A CPU is *in the kernel* while `busy_until` lies ahead or a [`Job`] waits. Interrupts that
//!   arrive then queue up in `pending`.
//! * Otherwise it runs the [`Segment`] of its current task, or idles.
//! * There are two clocks: wall time, and task time, which stands still while the CPU serves an
//!   interrupt (unless `irq_time_accounting` is off). What the scheduler does for a task is the
//!   task's time (`rq_clock_task`): switching to it, and the calls that it makes.

use crate::kernel::rq_lock::RqLock;
use crate::kernel::words::{Interrupt, Job, Left, SlackTimer};
use std::collections::{BTreeSet, VecDeque};
use zerolag_core::{Clock, Resched, Rq, RqTimer, Step, Work};
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, LayerTimes, TaskId};

/// Since when a CPU has done IPI and lock work without being free for a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Stretch {
    /// It is free for a timer.
    #[default]
    Free,
    /// Since then.
    Since(Instant),
}

impl Stretch {
    /// Begins, unless it has begun.
    pub(super) fn begin(&mut self, at: Instant) {
        if *self == Self::Free {
            *self = Self::Since(at);
        }
    }
}

/// The activity that is completed when the kernel path of a CPU ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ends {
    /// None: the path was only time to spend.
    #[default]
    Nothing,
    /// A softirq at the end of an interrupt. `is_noted`: it takes time, so the trace contains its
    /// begin and must also contain its end, even if it is interrupted at the instant at which it
    /// begins.
    Softirq { is_noted: bool },
    /// A section of this task with interrupts disabled.
    IrqsOff(TaskId),
    /// The handler of a device; the work that it has raised is done next.
    Handler(Left),
}

/// Whose time a kernel path is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathKind {
    /// An interrupt's, and no task's time.
    Interrupt,
    /// An interrupt's, and the time of the task that it interrupts (`irq_time_accounting = off`).
    ChargedInterrupt,
    /// The current task's own, or a switch.
    Own,
}

impl PathKind {
    /// Returns whether a task is charged for it.
    #[inline(always)]
    const fn is_charged(self) -> bool {
        !matches!(self, Self::Interrupt)
    }
}

/// Softirqs that are done before others are looked at: those that waited when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// Those that are not done.
    pub(super) left: usize,
    /// The first of them has begun, and an interrupt came.
    pub(super) is_cut: bool,
    /// The tick from which on its handlers leave the rest to the next round.
    pub(super) stops: u64,
    /// The rounds that are still allowed, this one included.
    pub(super) rounds: u32,
    /// The tick from which on none begins.
    pub(super) until: u64,
}

impl Round {
    /// `MAX_SOFTIRQ_RESTART`.
    const MAX: u32 = 10;
    /// The ticks after which a handler stops (`netdev_budget_usecs`).
    const HANDLER_TICKS: u64 = 2;

    /// Returns the first of the rounds that begin until a tick, with the softirqs that wait.
    pub(super) const fn first(waiting: usize, jiffy: u64, until: u64) -> Self {
        Self { left: waiting, is_cut: false, stops: jiffy + Self::HANDLER_TICKS, rounds: Self::MAX, until }
    }

    /// Returns the round to go on with: this one, the next, or none.
    pub(super) const fn goes_on(self, waiting: usize, jiffy: u64, is_preempted: bool) -> Option<Self> {
        if self.is_cut || self.left > 0 && jiffy < self.stops {
            return Some(self);
        }
        if jiffy >= self.until || is_preempted || self.rounds == 1 {
            return None;
        }
        let next = Self::first(waiting, jiffy, self.until);
        Some(Self { rounds: self.rounds - 1, ..next })
    }

    pub(super) const fn less_one(self) -> Self {
        Self { left: self.left - 1, is_cut: false, ..self }
    }

    pub(super) const fn cut(self) -> Self {
        Self { left: self.left + 1, is_cut: true, ..self }
    }
}

/// The computation of the current task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    /// None: the program of the task says what comes next.
    None,
    /// Work left, in time of a CPU of full speed, and the layer that it is accounted to.
    Work { left: Duration, layer: CpuLayer },
    /// Spins until wall time `until` and reads the clock every `chunk`; `done` of the present chunk
    /// is over.
    Spin { until: Instant, chunk: Duration, done: Duration },
}

/// What is to be done about the event of the end of a computation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Completion {
    /// Nothing: there is no computation, or the event is queued, or the next tick comes before.
    Stays,
    /// It is to be queued.
    At(Instant),
    /// It is to be asked with calls: a task that spins, or a slower CPU.
    Other,
}

/// A task that spins on a CPU while another one runs elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spinner {
    pub(super) task: TaskId,
    pub(super) on: CpuId,
    pub(super) owner: TaskId,
}

/// A simulated CPU.
///
/// Its fields are in the order of their use, so that an event touches few lines of the cache. The
/// run queue is first, so that both have one address: fields of the simulator in front of it cost
/// 0.5 % more instructions.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cpu {
    pub(super) rq: Rq,
    /// The end of the kernel path, as far as it is known.
    pub(super) busy_until: Instant,
    /// The task clock as it was last read: it waits there while the time of an interrupt passes.
    task_clock: Instant,
    /// When the task clock would have begun, had all interrupts up to `busy_until` come before it.
    task_origin: Instant,
    pub(super) current: Option<TaskId>,
    /// The computation of the current task, and when it was last brought up to date.
    pub(super) segment: Segment,
    pub(super) segment_since: Instant,
    /// Speed in 1/1024: capacity and SMT sharing.
    pub(super) speed: u64,
    /// The generation of completion events; older ones are void.
    pub(super) completion: u32,
    /// The number of events that this CPU has made.
    pub(super) events: u32,
    /// What the path is from now on.
    path: PathKind,
    /// What the path of an interrupt is (`irq_time_accounting`).
    of_interrupts: PathKind,
    /// The CPU is in a handler whose end is told or watched, up to the end of its jobs: that of
    /// queued work, or one that is noted.
    pub(super) in_handler: bool,
    /// The handler whose entry is in the trace, but that of queued work.
    ///
    /// Tasks are woken and ticks are served between `irq_enter` and `irq_exit`, so the record of
    /// the end follows all that: a reader of the trace knows by it which time is no task's.
    pub(super) noted: Option<Irq>,
    pub(super) ticking: bool,
    /// The CPU switches, and leaves a fair task.
    pub(super) leaves_fair: bool,
    /// The softirqs that wait are left to the thread, until the next interrupt.
    pub(super) leaves_softirqs: bool,
    /// The time of the valid completion event.
    pub(super) completion_at: Option<Instant>,
    /// The time of the valid path-end event.
    pub(super) path_end_at: Option<Instant>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) pending: VecDeque<Interrupt>,
    /// The lock of its run queue.
    pub(super) lock: RqLock,
    /// A softirq or a section, until `busy_until`.
    pub(super) ends: Ends,
    pub(super) stretch: Stretch,
    /// When this CPU began to spin for a run-queue lock.
    pub(super) spins_since: Option<Instant>,
    /// Its time up to `busy_until`, by layer.
    pub(super) times: LayerTimes,
    /// `times` at the beginning of the present kernel path, to take back the part beyond the end of
    /// the run.
    times_before: LayerTimes,
    /// Softirqs that are raised here and wait, each with its work.
    pub(super) raised: VecDeque<Duration>,
    /// The round of softirqs at the end of interrupts, and that of the thread.
    pub(super) round: Option<Round>,
    pub(super) thread_round: Option<Round>,
    /// Softirqs are left to the thread, which has not done all of them yet.
    pub(super) is_thread_asked: bool,
    /// The timers with slack, in order of their latest times and then of their arming.
    pub(super) slack_timers: BTreeSet<SlackTimer>,
    /// Work that other CPUs have queued here, each with its sender, until the handler takes it.
    pub(super) works: VecDeque<(CpuId, Work)>,
    /// The timers whose expiry waits for a thread.
    pub(super) late_timers: VecDeque<TaskId>,
    /// The balancing that the last tick requested, while its softirq is pending.
    pub(super) softirq: Step,
    /// The standstills that wait until it has a lock, by [`Stands`](crate::kernel::words::Stands).
    pub(super) owed: [Duration; 2],
    /// The generations of the run queue's timers.
    timers: [u32; RqTimer::ALL.len()],
    /// The task time at which each of them is due.
    dues: [Instant; RqTimer::ALL.len()],
}

impl Clone for Cpu {
    fn clone(&self) -> Self {
        Self {
            rq: self.rq.snapshot(),
            jobs: self.jobs.clone(),
            pending: self.pending.clone(),
            raised: self.raised.clone(),
            late_timers: self.late_timers.clone(),
            slack_timers: self.slack_timers.clone(),
            works: self.works.clone(),
            lock: self.lock.clone(),
            ..*self
        }
    }
}

impl Cpu {
    pub(super) fn new(rq: Rq, speed: u64) -> Self {
        Self {
            lock: RqLock::new(rq.cpu()),
            rq,
            current: None,
            busy_until: Instant::ZERO,
            task_clock: Instant::ZERO,
            task_origin: Instant::ZERO,
            path: PathKind::Interrupt,
            of_interrupts: PathKind::Interrupt,
            // A ring goes round through all its places, so a small one stays in fewer cache lines.
            jobs: VecDeque::with_capacity(4),
            pending: VecDeque::with_capacity(4),
            softirq: Step::Done,
            owed: [Duration::ZERO; 2],
            raised: VecDeque::new(),
            round: None,
            thread_round: None,
            is_thread_asked: false,
            leaves_softirqs: false,
            late_timers: VecDeque::new(),
            slack_timers: BTreeSet::new(),
            ends: Ends::Nothing,
            works: VecDeque::new(),
            in_handler: false,
            noted: None,
            stretch: Stretch::Free,
            path_end_at: None,
            segment: Segment::None,
            segment_since: Instant::ZERO,
            completion: 0,
            completion_at: None,
            timers: [0; RqTimer::ALL.len()],
            dues: [Instant::ZERO; RqTimer::ALL.len()],
            speed,
            spins_since: None,
            times: LayerTimes::default(),
            times_before: LayerTimes::default(),
            events: 0,
            ticking: false,
            leaves_fair: false,
        }
    }

    /// Returns the clocks of this CPU's run queue at a moment.
    ///
    /// In a path, the time of interrupts comes first: the task clock waits until that is over. Task
    /// time that lies ahead is the time of the task that the CPU has then: it may switch before.
    #[inline]
    pub(super) fn clock(&mut self, now: Instant) -> Clock {
        // While the CPU spins for a lock its path has no end yet: the task clock stands still.
        let at = if self.spins_since.is_some() { now.min(self.busy_until) } else { now };
        self.task_clock = self.task_clock.max(Instant::ZERO + at.since(self.task_origin));
        Clock { wall: now, task: self.task_clock }
    }

    /// As [`clock`](Self::clock), of a CPU that is driven along its path: it was read when that
    /// began or went on at this moment.
    #[inline(always)]
    pub(super) fn clock_in_path(&mut self, now: Instant) -> Clock {
        let task = self.task_clock;
        debug_assert!(self.clock(now).task == task, "the clock was read at this moment");
        Clock { wall: now, task }
    }

    /// As [`clock`](Self::clock), when no path is under way: nothing lies ahead.
    #[inline(always)]
    fn clock_without_path(&mut self, now: Instant) -> Clock {
        debug_assert!(now >= self.busy_until && self.spins_since.is_none());
        let task = Instant::ZERO + now.since(self.task_origin);
        debug_assert!(task >= self.task_clock, "the task clock does not go back");
        self.task_clock = task;
        Clock { wall: now, task }
    }

    /// Returns the generation of a timer of the run queue; events of an older one are void.
    pub(super) const fn timer_generation(&mut self, timer: RqTimer) -> &mut u32 {
        &mut self.timers[timer.index()]
    }

    /// Returns the task time at which a timer of the run queue is due.
    pub(super) const fn due(&mut self, timer: RqTimer) -> &mut Instant {
        &mut self.dues[timer.index()]
    }

    pub(super) fn next_count(&mut self) -> u32 {
        self.events = self.events.wrapping_add(1);
        self.events
    }

    /// Takes the next pending interrupt: IPIs first, each kind in order of arrival.
    pub(super) fn next_interrupt(&mut self) -> Option<Interrupt> {
        if self.pending.len() < 2 {
            return self.pending.pop_front();
        }
        let is_ipi = |what: &Interrupt| matches!(what, Interrupt::Works | Interrupt::Resched);
        let first = self.pending.iter().position(is_ipi).unwrap_or(0);
        self.pending.remove(first)
    }

    /// Ends the wait for a lock, which is time of the scheduler; returns how long it was.
    pub(super) fn end_spin(&mut self, now: Instant) -> Duration {
        let since = self.spins_since.take().expect("invariant: a waiter spins");
        let waited = now.since(since);
        self.spend(CpuLayer::Sched, waited);
        self.clock(now); // The wait is over, and the time of the task that waited.
        waited
    }

    /// Returns whether interrupts must wait.
    #[inline]
    pub(super) fn is_in_kernel(&self, now: Instant) -> bool {
        now < self.busy_until || !self.jobs.is_empty()
    }

    /// Returns how long it will have done IPI and lock work at the end of its path.
    #[inline(always)]
    pub(super) fn stretch_so_far(&self) -> Duration {
        match self.stretch {
            Stretch::Since(since) => self.busy_until.since(since),
            Stretch::Free => Duration::ZERO,
        }
    }

    /// Returns whether the program of its current task must say what comes next.
    #[inline(always)]
    pub(super) fn waits_for_program(&self) -> bool {
        self.current.is_some() && self.segment == Segment::None
    }

    /// Returns whether anything is to be done at the end of its path.
    #[inline(always)]
    pub(super) fn has_more_to_do(&self) -> bool {
        !self.pending.is_empty()
            || self.rq.need_resched() != Resched::No
            || self.waits_for_program()
            || self.ends != Ends::Nothing
            || !self.raised.is_empty()
    }

    /// Begins a kernel path: accounts the time since the last one and stops the task clock. Returns
    /// the clocks of the run queue: at this moment they stay the same, whatever the path spends.
    #[inline(always)]
    pub(super) fn enter_kernel(&mut self, now: Instant) -> Clock {
        let clock = self.clock_without_path(now);
        if now == self.busy_until {
            return clock; // The path continues where it ended.
        }
        self.account_below(now);
        self.path = PathKind::Own; // An interrupt calls `begin_interrupt` after this.
        self.busy_until = now;
        self.times_before = self.times;
        self.stretch = Stretch::Free;
        clock
    }

    /// Takes a tick, whose handler takes `cost`, in a computation that goes on since before now:
    /// enters the kernel, brings the computation up to date and spends the time, in one step.
    #[inline(always)]
    pub(super) fn take_plain_tick(&mut self, now: Instant, cost: Duration) -> Clock {
        debug_assert!(now > self.busy_until && self.jobs.is_empty() && self.spins_since.is_none());
        let clock = self.clock_without_path(now);
        self.account_below(now);
        self.times_before = self.times;
        self.advance_segment(now);
        self.begin_interrupt();
        self.stretch = Stretch::Free;
        self.busy_until = now + cost;
        if !self.path.is_charged() {
            self.task_origin += cost;
        }
        self.times.charge(CpuLayer::Irq, cost);
        clock
    }

    /// Accounts the time since the last path to the current task's layer, or to idle.
    #[inline(always)]
    fn account_below(&mut self, now: Instant) {
        let elapsed = now.since(self.busy_until);
        debug_assert!(self.current.is_some() || self.segment == Segment::None, "no task, no computation");
        match self.segment {
            Segment::Work { layer, .. } => self.times.charge(layer, elapsed),
            Segment::None if self.current.is_none() => self.times.charge(CpuLayer::Idle, elapsed),
            Segment::None | Segment::Spin { .. } => self.times.charge(CpuLayer::User, elapsed),
        }
    }

    /// Charges the time of interrupts to the task that they interrupt.
    pub(super) const fn own_interrupts(&mut self) {
        self.of_interrupts = PathKind::ChargedInterrupt;
    }

    /// From now on the path is that of an interrupt.
    #[inline]
    pub(super) const fn begin_interrupt(&mut self) {
        self.path = self.of_interrupts;
        self.leaves_softirqs = false;
    }

    /// From now on the path is the current task's own: it makes a call, or the CPU switches.
    #[inline]
    pub(super) const fn begin_own_path(&mut self) {
        self.path = PathKind::Own;
    }

    /// Lengthens the kernel path.
    #[inline]
    pub(super) fn spend(&mut self, layer: CpuLayer, time: Duration) {
        self.busy_until += time;
        if !self.path.is_charged() {
            self.task_origin += time;
        }
        self.times.charge(layer, time);
    }

    /// Lengthens the kernel path by time that is taken below the kernel, and charged to the current
    /// task or not, whatever the path is.
    pub(super) fn spend_below(&mut self, time: Duration, is_charged: bool) {
        let path = core::mem::replace(&mut self.path, if is_charged { PathKind::Own } else { PathKind::Interrupt });
        self.spend(CpuLayer::Hardware, time);
        self.path = path;
    }

    /// Returns whether the path is an interrupt's.
    pub(super) fn is_in_interrupt(&self) -> bool {
        self.path == self.of_interrupts
    }

    /// Returns whether the path is a call of the current task, not an interrupt.
    pub(super) fn is_in_call(&self) -> bool {
        matches!(self.path, PathKind::Own) && self.current.is_some()
    }

    /// Shortens the kernel path by the end of an interrupt's work.
    pub(super) fn unspend(&mut self, layer: CpuLayer, time: Duration) {
        debug_assert!(self.path == self.of_interrupts, "it is an interrupt's work");
        self.busy_until = self.busy_until - time;
        if !self.path.is_charged() {
            self.task_origin = self.task_origin - time;
        }
        self.times.take_back(layer, time);
    }

    /// Ends the account exactly at the end of the run: takes back the kernel time beyond it.
    pub(super) fn close_account(&mut self, end: Instant) {
        if self.busy_until <= end {
            match self.spins_since {
                // Its path has no end yet. The wait would be the scheduler's (`end_spin`).
                Some(since) => self.times.charge(CpuLayer::Sched, end.since(since)),
                None => self.account_below(end),
            }
            return;
        }
        // In a path, interrupts come first and the scheduler last; but a section with interrupts
        // disabled keeps all others waiting until it is over, so it is the last while it lasts, and
        // so does the handler of a device.
        let section = match self.ends {
            Ends::IrqsOff(_) => Some(CpuLayer::Kernel),
            Ends::Handler(_) => Some(CpuLayer::Irq),
            Ends::Nothing | Ends::Softirq { .. } => None,
        };
        let usual = [CpuLayer::Sched, CpuLayer::Softirq, CpuLayer::Irq, CpuLayer::Hardware, CpuLayer::Kernel];
        let mut beyond = self.busy_until.since(end);
        for layer in section.into_iter().chain(usual) {
            let back = (self.times.of(layer) - self.times_before.of(layer)).min(beyond);
            self.times.take_back(layer, back);
            beyond -= back;
        }
        assert!(beyond.is_zero(), "only the present path reaches beyond the end");
    }

    /// Brings the segment up to date: `now` is when the task stops or its speed changes.
    #[inline(always)]
    pub(super) fn advance_segment(&mut self, now: Instant) {
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

    /// The task goes on with its computation from a moment on, if there is one; returns what is to
    /// be done about the event of its end.
    #[inline(always)]
    pub(super) fn goes_on_computing(&mut self, from: Instant, next_tick: Instant) -> Completion {
        self.segment_since = from;
        self.next_completion(next_tick)
    }

    /// Returns what is to be done about the event of the end of the computation. It is not queued
    /// if the next tick comes first, which asks again: so a computation that is often interrupted
    /// leaves no trail of void events.
    #[inline(always)]
    pub(super) fn next_completion(&self, next_tick: Instant) -> Completion {
        if self.current.is_none() || self.segment == Segment::None {
            return Completion::Stays;
        }
        let from = self.segment_since.max(self.busy_until);
        let Some(end) = self.usual_segment_end(from) else { return Completion::Other };
        if self.ticking && end > next_tick || self.completion_at.is_some_and(|at| at <= end) {
            // What is queued comes up, finds that there is work left, and is set again.
            return Completion::Stays;
        }
        Completion::At(end)
    }

    /// As [`segment_end`](Self::segment_end), for work on a CPU of full speed; `None` for others.
    #[inline(always)]
    pub(super) const fn usual_segment_end(&self, from: Instant) -> Option<Instant> {
        match self.segment {
            Segment::Work { left, .. } if self.speed == FULL_SPEED => Some(from.saturating_add(left)),
            Segment::Work { .. } | Segment::Spin { .. } | Segment::None => None,
        }
    }

    /// Returns when the segment ends if the task runs from `from` on undisturbed.
    #[inline(always)]
    pub(super) fn segment_end(&self, from: Instant) -> Instant {
        match self.segment {
            Segment::None => from,
            Segment::Work { left, .. } => from.saturating_add(unscale(left, self.speed)),
            Segment::Spin { until, chunk, done } => from + spin_time(until.since(from), chunk, done, self.speed),
        }
    }
}

/// Returns how long a CPU spins that reads the clock every `chunk` and has `done` a part of one,
/// until a reading shows that `reach` is over.
#[inline(never)]
fn spin_time(reach: Duration, chunk: Duration, done: Duration, speed: u64) -> Duration {
    if chunk.is_zero() {
        return reach;
    }
    // The first reading at or after that, at the earliest one chunk after the last reading.
    let work = scale(reach, speed) + done;
    let looks = work.as_nanos().div_ceil(chunk.as_nanos()).max(1);
    let left = Duration::from_nanos(looks * chunk.as_nanos()).saturating_sub(done);
    unscale(left, speed)
}

/// Returns the work that a CPU of this speed does in a time, rounded down. Full speed is the usual
/// case and small enough to be inlined; the division is out of line.
#[inline]
fn scale(time: Duration, speed: u64) -> Duration {
    if speed == FULL_SPEED { time } else { scale_slower(time, speed) }
}

#[inline(never)]
fn scale_slower(time: Duration, speed: u64) -> Duration {
    time.mul_div_floor(speed, FULL_SPEED)
}

/// Returns the time that a CPU of this speed needs for some work, rounded up.
#[inline]
fn unscale(work: Duration, speed: u64) -> Duration {
    if speed == FULL_SPEED { work } else { unscale_slower(work, speed) }
}

#[inline(never)]
fn unscale_slower(work: Duration, speed: u64) -> Duration {
    work.mul_div_ceil(FULL_SPEED, speed)
}

/// The speed of a CPU of full capacity whose SMT siblings are idle.
const FULL_SPEED: u64 = 1024;
