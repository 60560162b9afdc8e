//! Donors (`proxy_exec`): tasks that lend their turn to the holder of a lock that they wait for.
//! Checks which task runs, which is charged, and which calls are refused.

use parking_lot::RawMutex;
use zerolag_core::{
    Clock, Config, CpusetId, Home, Io, Leave, Left, LockId, Next, Parcel, Placement, Rq, Scheduler, Step, TaskSpec,
    Tracing, Weight,
};
use zerolag_model::settings::Preempt;
use zerolag_model::{
    CpuId, CpuMax, Duration, GroupId, Instant, KernelVersion, RtPriority, SchedAttr, Settings, TaskId, Topology,
};

const LOCK: LockId = LockId(0);

struct World {
    scheduler: Scheduler<RawMutex>,
    rqs: Vec<Rq>,
    io: Io,
    now: Instant,
    parked: Vec<Parcel>,
}

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo(RtPriority::new(priority).expect("1..=99"))
}

impl World {
    fn new(cpus: u32) -> Self {
        let settings = Settings { proxy_exec: true, preempt: Preempt::Full, ..KernelVersion::V6_12.settings() };
        let mut scheduler = Scheduler::new(Config::new(Topology::flat(cpus).expect("a machine"), settings));
        scheduler.reserve_tasks(8);
        scheduler.reserve_locks(4);
        let rqs = (0..cpus).map(|cpu| scheduler.new_rq(CpuId(cpu))).collect();
        Self { scheduler, rqs, io: Io::new(Tracing::Off), now: Instant::ZERO, parked: Vec::new() }
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn clock(&self) -> Clock {
        Clock::at(self.now)
    }

    /// Starts a task on a CPU, where it is in the kernel at once.
    fn spawn(&mut self, id: u32, attr: SchedAttr, group: GroupId, cpu: usize) {
        let spec = TaskSpec {
            id: TaskId(id),
            attr,
            affinity: Some(std::sync::Arc::new([CpuId(cpu as u32)].into_iter().collect())),
            group,
            cpuset: CpusetId::default(),
            born_on: CpuId(cpu as u32),
            process: None,
        };
        let parcel = self.scheduler.create_task(self.clock(), spec).expect("a valid task");
        let now = self.clock();
        let step =
            self.scheduler.wake(&mut self.rqs[cpu], now, parcel, CpuId(cpu as u32), Placement::Fork, &mut self.io);
        assert_eq!(step, Step::Done);
        self.io.ops.clear();
    }

    fn schedule(&mut self, cpu: usize, why: Leave) -> Option<u32> {
        let now = self.clock();
        match self.scheduler.leave(&mut self.rqs[cpu], now, why, &mut self.io) {
            Left::Queued | Left::Delayed => {}
            Left::Parked(parcel) => self.parked.push(parcel),
            Left::Displaced(_) | Left::Dead(_) => unreachable!("no task is displaced or ends"),
        }
        let next = loop {
            match self.scheduler.pick(&mut self.rqs[cpu], now, &mut self.io) {
                Next::Run(task) => break Some(task.0),
                Next::Idle => break None,
                Next::Balance(step) => self.carry(step),
            }
        };
        self.parked.append(&mut self.io.parked);
        self.io.ops.clear();
        self.rqs[cpu].inspect().check_loans();
        self.rqs[cpu].inspect().check_fair();
        next
    }

    fn carry(&mut self, step: Step) {
        let mut step = step;
        while step != Step::Done {
            let now = self.clock();
            step = match step {
                Step::Done => return,
                Step::Pair { own, other, then } => {
                    let [own, other] = self.rqs.get_disjoint_mut([own.index(), other.index()]).expect("two CPUs");
                    let now = zerolag_core::PairClock::at(now);
                    self.scheduler.resume_pair(own, other, now, then, &mut self.io)
                }
                Step::Again { own, then } => self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io),
            };
        }
    }

    fn wake_lender(&mut self, task: u32, cpu: usize) -> bool {
        let now = self.clock();
        let woken = self.scheduler.wake_queued(&mut self.rqs[cpu], now, TaskId(task), CpuId(cpu as u32), &mut self.io);
        self.parked.append(&mut self.io.parked);
        self.io.ops.clear();
        self.rqs[cpu].inspect().check_loans();
        woken.is_ok()
    }

    fn exec(&mut self, task: u32, cpu: usize) -> u64 {
        let now = self.clock();
        self.scheduler.charge(&mut self.rqs[cpu], now, &mut self.io);
        self.scheduler.counters(&self.rqs[cpu], TaskId(task)).expect("it is there").exec.as_nanos() / 1_000_000
    }

    /// `low` (0) holds the lock in the kernel, `mid` (1) and `high` (2) have woken; `high` runs.
    fn inverted(&mut self) {
        self.spawn(0, fifo(10), GroupId::ROOT, 0);
        assert_eq!(self.schedule(0, Leave::Preempted), Some(0));
        self.scheduler.enter_kernel(&mut self.rqs[0]);
        self.scheduler.set_lock_owner(LOCK, Some(TaskId(0)));
        self.pass(1);
        self.spawn(1, fifo(20), GroupId::ROOT, 0);
        self.spawn(2, fifo(30), GroupId::ROOT, 0);
        assert_eq!(self.schedule(0, Leave::Preempted), Some(2));
    }
}

#[test]
fn the_holder_runs_on_the_turn_of_a_waiter_and_is_charged_once() {
    let mut world = World::new(1);
    world.inverted();
    world.pass(2);
    assert_eq!(world.schedule(0, Leave::BlockOn(LOCK)), Some(0), "low runs for high");
    assert_eq!(world.rqs[0].inspect().donor(), Some(TaskId(2)));
    world.pass(3);
    assert_eq!((world.exec(0, 0), world.exec(1, 0), world.exec(2, 0)), (4, 0, 2), "CPU time is whose code ran");
    assert_eq!(world.schedule(0, Leave::Preempted), Some(0), "nothing has changed");
    world.pass(1);
    world.scheduler.set_lock_owner(LOCK, None);
    assert!(world.wake_lender(2, 0));
    assert_eq!(world.rqs[0].inspect().donor(), None);
    assert_eq!(world.schedule(0, Leave::Preempted), Some(2));
    assert_eq!((world.exec(0, 0), world.exec(2, 0)), (5, 2));
    assert_eq!(world.schedule(0, Leave::Block), Some(1), "low is low again");
}

#[test]
fn a_holder_that_sleeps_cannot_be_run_for() {
    let mut world = World::new(1);
    world.inverted();
    assert_eq!(world.schedule(0, Leave::BlockOn(LOCK)), Some(0));
    assert_eq!(world.schedule(0, Leave::Block), Some(1), "low sleeps: high is parked");
    let parked: Vec<TaskId> = world.parked.iter().map(Parcel::id).collect();
    assert_eq!(parked, [TaskId(0), TaskId(2)]);
    assert_eq!(world.scheduler.home(TaskId(2)), Home::Parcel);
}

#[test]
fn a_circle_runs_no_task() {
    let mut world = World::new(1);
    world.inverted();
    world.scheduler.set_lock_owner(LockId(1), Some(TaskId(2)));
    world.scheduler.enter_kernel(&mut world.rqs[0]);
    assert_eq!(world.schedule(0, Leave::BlockOn(LOCK)), Some(0));
    assert_eq!(world.schedule(0, Leave::BlockOn(LockId(1))), Some(1), "they wait for each other");
    assert_eq!(world.rqs[0].inspect().nr_lending(), 0);
}

/// The holder's group has no quota. The waiter's group is charged, on the holder's CPU, and the
/// waiter returns home when it gets the lock.
#[test]
fn a_waiter_goes_to_the_holders_cpu_and_its_group_pays() {
    let mut world = World::new(2);
    let max = |ms| CpuMax {
        quota: Some(Duration::from_millis(ms)),
        period: Duration::from_millis(100),
        burst: Duration::ZERO,
        slice: None,
    };
    let now = world.clock();
    let groups = [2, 7].map(|ms| {
        let group = world.scheduler.create_group(GroupId::ROOT, Weight::NICE_0).expect("a group");
        let step = world.scheduler.set_group_max(group, max(ms), now, CpuId(0), &mut world.io).expect("a limit");
        assert_eq!(step, Step::Done);
        group
    });
    world.spawn(0, SchedAttr::NORMAL, groups[0], 0);
    world.spawn(1, SchedAttr::NORMAL, groups[1], 1);
    assert_eq!(world.schedule(0, Leave::Preempted), Some(0));
    world.scheduler.enter_kernel(&mut world.rqs[0]);
    world.scheduler.set_lock_owner(LOCK, Some(TaskId(0)));
    world.pass(3);
    assert_eq!(world.schedule(0, Leave::Preempted), None, "its group is throttled");
    assert_eq!(world.schedule(1, Leave::Preempted), Some(1));
    assert_eq!(world.schedule(1, Leave::BlockOn(LOCK)), None, "the holder is elsewhere");
    let waiter = world.parked.pop().expect("it is handed out");
    let now = world.clock();
    let step = world.scheduler.lend(&mut world.rqs[0], now, waiter, LOCK, CpuId(1), &mut world.io).expect("it lends");
    assert_eq!(step, Step::Done);
    assert_eq!(world.schedule(0, Leave::Preempted), Some(0), "the holder runs though its group may not");
    world.pass(5);
    assert_eq!(world.exec(0, 0), 8);
    assert_eq!(world.schedule(0, Leave::Preempted), Some(0));
    world.pass(3);
    assert_eq!(world.schedule(0, Leave::Preempted), None, "the waiter's group has used its 7 ms");
    assert!(!world.wake_lender(1, 0), "it does not stay where it lent");
    let home = world.parked.pop().expect("it goes home");
    assert_eq!((home.id(), home.last_cpu()), (TaskId(1), CpuId(1)));
}
