//! Fair tasks on one CPU, through the scheduler's entry points: the operations of the bench and the
//! example `fair`.

use parking_lot::RawMutex;
use std::collections::VecDeque;
use zerolag_core::{Clock, Config, Io, Leave, Left, Next, Parcel, Placement, Rq, Scheduler, TaskSpec, Tracing, Weight};
use zerolag_model::{CpuId, Duration, GroupId, Instant, KernelVersion, SchedAttr, Settings, TaskId, Topology};

/// Tasks that [`Bench::wake_pick_put`] finds asleep one after the other.
pub(crate) const SLEEPERS: usize = 8;

pub(crate) struct Bench {
    sched: Scheduler<RawMutex>,
    rq: Rq,
    io: Io,
    now: Instant,
    /// The longest asleep first.
    asleep: VecDeque<Parcel>,
}

impl Bench {
    /// Creates this many tasks in one group at this depth; 0 is the root.
    pub(crate) fn new(version: KernelVersion, tasks: usize, depth: usize) -> Self {
        // A task with negative lag would stay queued: blocking must park it, so that every round
        // does the same.
        let settings = Settings { delay_dequeue: false, ..version.settings() };
        let config = Config::new(Topology::flat(4).expect("4 CPUs"), settings).with_queue_reserve(tasks + 1);
        let mut sched = Scheduler::new(config);
        sched.reserve_tasks(tasks + 1);
        let mut group = GroupId::ROOT;
        for _ in 0..depth {
            group = sched.create_group(group, Weight::NICE_0).expect("a group");
        }
        let rq = sched.new_rq(CpuId(0));
        let mut bench = Self { sched, rq, io: Io::new(Tracing::Off), now: Instant::ZERO, asleep: VecDeque::new() };
        for index in 0..tasks {
            let spec = TaskSpec {
                id: TaskId::from_index(index),
                attr: SchedAttr::NORMAL,
                affinity: None,
                group,
                cpuset: Default::default(),
                born_on: CpuId(0),
                process: None,
            };
            let parcel = bench.sched.create_task(Clock::at(Instant::ZERO), spec).expect("a valid task");
            bench.wake(parcel, Placement::Fork);
        }
        bench.schedule(Leave::Preempted);
        for _ in 0..4 * tasks {
            bench.switch();
        }
        bench
    }

    fn pass(&mut self, us: u64) -> Clock {
        self.now += Duration::from_micros(us);
        Clock::at(self.now)
    }

    fn wake(&mut self, parcel: Parcel, why: Placement) {
        let now = Clock::at(self.now);
        let step = self.sched.wake(&mut self.rq, now, parcel, CpuId(0), why, &mut self.io);
        assert!(matches!(step, zerolag_core::Step::Done));
        self.io.ops.clear();
    }

    fn schedule(&mut self, why: Leave) -> Option<TaskId> {
        let now = Clock::at(self.now);
        match self.sched.leave(&mut self.rq, now, why, &mut self.io) {
            Left::Queued | Left::Delayed => {}
            Left::Parked(parcel) => self.asleep.push_back(parcel),
            Left::Displaced(_) | Left::Dead(_) => unreachable!("no task is displaced or exits"),
        }
        let next = self.sched.pick(&mut self.rq, now, &mut self.io);
        self.io.ops.clear();
        match next {
            Next::Run(task) => Some(task),
            Next::Idle => None,
            Next::Balance(_) => unreachable!("it is never idle"),
        }
    }

    /// Runs for a slice, then yields to another task: a put and a pick.
    #[inline(never)]
    pub(crate) fn switch(&mut self) {
        self.pass(3_000);
        self.schedule(Leave::Preempted);
    }

    /// Blocks and wakes a task, with two switches.
    #[inline(never)]
    pub(crate) fn block_and_wake(&mut self) {
        self.pass(100);
        self.schedule(Leave::Block);
        self.pass(100);
        if let Some(parcel) = self.asleep.pop_front() {
            self.wake(parcel, Placement::Wakeup);
        }
        self.schedule(Leave::Preempted);
    }

    /// Lets some tasks run and block, one after the other: [`wake_pick_put`](Self::wake_pick_put)
    /// wakes as many.
    pub(crate) fn fall_asleep(&mut self) {
        while self.asleep.len() < SLEEPERS {
            self.pass(100);
            self.schedule(Leave::Block);
        }
    }

    /// The current task runs for a slice, wakes another, and yields: a wakeup, a put and a pick.
    #[inline(never)]
    pub(crate) fn wake_pick_put(&mut self) {
        self.pass(3_000);
        let parcel = self.asleep.pop_front().expect("a task sleeps");
        self.wake(parcel, Placement::Wakeup);
        self.schedule(Leave::Preempted);
    }

    #[inline(never)]
    pub(crate) fn tick(&mut self) {
        let now = self.pass(1);
        let step = self.sched.tick(&mut self.rq, now, &mut self.io);
        assert!(matches!(step, zerolag_core::Step::Done));
        self.io.ops.clear();
    }
}
