//! One CPU with a busy loop and a task that wakes, makes a system call and sleeps again: the cost
//! of `throttle` for every wakeup and switch, also without a limit.

use parking_lot::RawMutex;
use zerolag_core::{
    Clock, Config, CpusetId, Io, Leave, Left, Next, Parcel, Placement, Rq, Scheduler, Step, TaskSpec, Tracing, Weight,
};
use zerolag_model::settings::Throttle;
use zerolag_model::{
    CpuId, CpuMax, Duration, FairPolicy, GroupId, Instant, KernelVersion, Nice, SchedAttr, Settings, TaskId, Topology,
};

/// The group of the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the root group.
    Root,
    /// In a group within a group, neither limited.
    Nested,
    /// As `Nested`, but the outer one has a limit that it never comes close to.
    Limited,
}

impl Place {
    pub(crate) const ALL: [Self; 3] = [Self::Root, Self::Nested, Self::Limited];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Nested => "nested",
            Self::Limited => "limited",
        }
    }
}

/// The CPU and its two tasks.
pub(crate) struct Bench {
    scheduler: Scheduler<RawMutex>,
    rq: Rq,
    io: Io,
    now: Instant,
    asleep: Option<Parcel>,
}

const CPU: CpuId = CpuId(0);
const BUSY: TaskId = TaskId(0);
const SLEEPER: TaskId = TaskId(1);

impl Bench {
    pub(crate) fn new(throttle: Throttle, place: Place) -> Self {
        // Under CFS a task that wakes next to one of SCHED_IDLE always gets the CPU: each turn does
        // the same.
        let settings = Settings { throttle, ..KernelVersion::V6_1.settings() };
        let config = Config::new(Topology::flat(4).expect("4 CPUs"), settings).with_queue_reserve(2);
        let mut scheduler = Scheduler::new(config);
        scheduler.reserve_tasks(2);
        let mut io = Io::new(Tracing::Off);
        let mut group = GroupId::ROOT;
        if place != Place::Root {
            let outer = scheduler.create_group(GroupId::ROOT, Weight::NICE_0).expect("a group");
            group = scheduler.create_group(outer, Weight::NICE_0).expect("a group");
            if place == Place::Limited {
                let max = CpuMax {
                    quota: Some(Duration::from_secs(3_600)),
                    period: Duration::from_millis(100),
                    burst: Duration::ZERO,
                    slice: None,
                };
                let step = scheduler.set_group_max(outer, max, Clock::at(Instant::ZERO), CPU, &mut io);
                assert_eq!(step.expect("a limit"), Step::Done, "nothing is throttled");
            }
        }
        let mut bench = Self { rq: scheduler.new_rq(CPU), scheduler, io, now: Instant::ZERO, asleep: None };
        let idle = SchedAttr::Fair { policy: FairPolicy::Idle, nice: Nice::ZERO, slice: None };
        let busy = bench.create(BUSY, idle, GroupId::ROOT);
        bench.put(busy, Placement::Fork);
        bench.schedule(Leave::Preempted, Some(BUSY));
        let sleeper = bench.create(SLEEPER, SchedAttr::NORMAL, group);
        bench.put(sleeper, Placement::Fork);
        bench.pass(100_000);
        bench.schedule(Leave::Preempted, Some(SLEEPER));
        bench.schedule(Leave::Block, Some(BUSY));
        bench
    }

    fn create(&self, id: TaskId, attr: SchedAttr, group: GroupId) -> Parcel {
        let spec =
            TaskSpec { id, attr, affinity: None, group, cpuset: CpusetId::default(), born_on: CPU, process: None };
        self.scheduler.create_task(Clock::at(self.now), spec).expect("a valid task")
    }

    fn pass(&mut self, us: u64) -> Clock {
        self.now += Duration::from_micros(us);
        Clock::at(self.now)
    }

    fn put(&mut self, parcel: Parcel, why: Placement) {
        let step = self.scheduler.wake(&mut self.rq, Clock::at(self.now), parcel, CPU, why, &mut self.io);
        assert_eq!(step, Step::Done, "no task is pushed");
        self.io.ops.clear();
    }

    fn schedule(&mut self, why: Leave, expected: Option<TaskId>) {
        let now = Clock::at(self.now);
        match self.scheduler.leave(&mut self.rq, now, why, &mut self.io) {
            Left::Queued => {}
            Left::Parked(parcel) => self.asleep = Some(parcel),
            Left::Delayed | Left::Displaced(_) | Left::Dead(_) => unreachable!("it stays or sleeps"),
        }
        let next = match self.scheduler.pick(&mut self.rq, now, &mut self.io) {
            Next::Run(task) => Some(task),
            Next::Idle => None,
            Next::Balance(_) => unreachable!("the CPU is never idle"),
        };
        assert_eq!(next, expected, "each round is as the last");
        self.io.ops.clear();
    }

    /// The task wakes, gets the CPU, returns to user mode, makes a system call and sleeps; the busy
    /// loop continues.
    pub(crate) fn turn(&mut self) {
        self.pass(100);
        let parcel = self.asleep.take().expect("it sleeps");
        self.put(parcel, Placement::Wakeup);
        self.schedule(Leave::Preempted, Some(SLEEPER));
        let now = self.pass(1);
        self.scheduler.return_to_user(&mut self.rq, now, &mut self.io);
        self.pass(1);
        self.scheduler.enter_kernel(&mut self.rq);
        self.schedule(Leave::Block, Some(BUSY));
    }
}
