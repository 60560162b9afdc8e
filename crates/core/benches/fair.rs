//! The fair class on one CPU, through the scheduler's entry points: `cargo bench -p zerolag-core --bench fair`.
//!
//! `switch`: the current task is left, another is picked (put and pick). `keep`: the current task is left and picked
//! again. `wake`: a task blocks, wakes and is switched to. `tick`: the current task's tick without a switch.

use criterion::{Criterion, criterion_group, criterion_main};
use parking_lot::RawMutex;
use zerolag_core::{Clock, Config, Io, Leave, Left, Next, Parcel, Placement, Rq, Scheduler, TaskSpec, Tracing, Weight};
use zerolag_model::{CpuId, Duration, GroupId, Instant, KernelVersion, SchedAttr, Settings, TaskId, Topology};

struct Bench {
    sched: Scheduler<RawMutex>,
    rq: Rq,
    io: Io,
    now: Instant,
    blocked: Option<Parcel>,
}

impl Bench {
    fn new(settings: Settings, tasks: usize, depth: usize) -> Self {
        let config = Config::new(Topology::flat(4).expect("4 CPUs"), settings).with_queue_reserve(tasks + 1);
        let mut sched = Scheduler::new(config);
        sched.reserve_tasks(tasks + 1);
        let mut group = GroupId::ROOT;
        for _ in 0..depth {
            group = sched.create_group(group, Weight::NICE_0).expect("a group");
        }
        let rq = sched.new_rq(CpuId(0));
        let mut bench = Self { sched, rq, io: Io::new(Tracing::Off), now: Instant::ZERO, blocked: None };
        for index in 0..tasks {
            let spec = TaskSpec {
                id: TaskId::from_index(index),
                attr: SchedAttr::NORMAL,
                affinity: None,
                group,
                cpuset: Default::default(),
                born_on: CpuId(0),
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
            Left::Parked(parcel) => self.blocked = Some(parcel),
            Left::Displaced(_) | Left::Dead(_) => unreachable!("nobody is displaced or exits"),
        }
        let next = self.sched.pick(&mut self.rq, now, &mut self.io);
        self.io.ops.clear();
        match next {
            Next::Run(task) => Some(task),
            Next::Idle => None,
            Next::Balance(_) => unreachable!("it is never idle"),
        }
    }

    /// Runs for a slice and more, then gives way to another.
    fn switch(&mut self) {
        self.pass(3_000);
        self.schedule(Leave::Preempted);
    }

    /// Runs for a moment and goes on.
    fn keep(&mut self) {
        self.pass(1);
        self.schedule(Leave::Preempted);
    }

    /// Blocks, wakes, and somebody is switched to twice.
    fn block_and_wake(&mut self) {
        self.pass(100);
        self.schedule(Leave::Block);
        self.pass(100);
        if let Some(parcel) = self.blocked.take() {
            self.wake(parcel, Placement::Wakeup);
        }
        self.schedule(Leave::Preempted);
    }

    fn tick(&mut self) {
        let now = self.pass(1);
        let step = self.sched.tick(&mut self.rq, now, &mut self.io);
        assert!(matches!(step, zerolag_core::Step::Done));
        self.io.ops.clear();
    }
}

fn benches(c: &mut Criterion) {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        // Who owes service would stay queued: blocking must park, so that every round does the same.
        let settings = Settings { delay_dequeue: false, ..version.settings() };
        for tasks in [8, 64, 1000] {
            let mut bench = Bench::new(settings.clone(), tasks, 0);
            c.bench_function(&format!("{version}/switch/{tasks}"), |b| b.iter(|| bench.switch()));
        }
        for (tasks, depth) in [(64, 0), (64, 3)] {
            let mut bench = Bench::new(settings.clone(), tasks, depth);
            c.bench_function(&format!("{version}/keep/{tasks}/depth {depth}"), |b| b.iter(|| bench.keep()));
            let mut bench = Bench::new(settings.clone(), tasks, depth);
            let name = format!("{version}/block, wake, 2 switches/{tasks}/depth {depth}");
            c.bench_function(&name, |b| b.iter(|| bench.block_and_wake()));
            let mut bench = Bench::new(settings.clone(), tasks, depth);
            c.bench_function(&format!("{version}/tick/{tasks}/depth {depth}"), |b| b.iter(|| bench.tick()));
        }
    }
}

criterion_group! {
    name = fair;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_millis(1000));
    targets = benches
}
criterion_main!(fair);
