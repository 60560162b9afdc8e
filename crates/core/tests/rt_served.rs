//! Groups with deadline servers under random events: counts, places and published state stay
//! consistent, a group without runtime does not run, and one with runtime does.

use proptest::prelude::*;
use std::sync::Arc;
use zerolag_core::{
    Clock, Config, CpusetId, Io, Leave, Left, Next, Parcel, Placement, Rq, Scheduler, Step, TaskSpec, Tracing, Weight,
};
use zerolag_model::settings::{FairServer, RtBalance, RtGroupSched};
use zerolag_model::{
    CpuId, CpuMask, Duration, GroupId, Instant, KernelVersion, RtBandwidth, SchedAttr, Settings, TaskId, Topology,
    TraceEvent,
};

type Lock = parking_lot::RawMutex;

const CPUS: u32 = 3;
const TASKS: u32 = 7;

/// A machine with groups `/1`, `/1/2` and `/3`; task 6 is a fair one.
struct World {
    scheduler: Scheduler<Lock>,
    rqs: Vec<Rq>,
    io: Io,
    now: Instant,
    parked: Vec<Option<Parcel>>,
    groups: [GroupId; 4],
    throttled: Vec<(GroupId, CpuId)>,
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl World {
    fn new(fair_server: FairServer) -> Self {
        Self::of(Settings { fair_server, ..KernelVersion::V7_1.settings() })
    }

    fn of(settings: Settings) -> Self {
        let settings = Settings { rt_group_sched: RtGroupSched::Hcbs, ..settings };
        let mut scheduler = Scheduler::new(Config::new(Topology::flat(CPUS).expect("CPUs"), settings));
        scheduler.reserve_tasks(TASKS as usize);
        let rqs = (0..CPUS).map(|cpu| scheduler.new_rq(CpuId(cpu))).collect();
        let make = |parent| scheduler.create_group(parent, Weight::NICE_0).expect("room");
        let one = make(GroupId::ROOT);
        let groups = [GroupId::ROOT, one, make(one), make(GroupId::ROOT)];
        let mut io = Io::new(Tracing::On);
        for (group, runtime) in [(groups[1], 4), (groups[2], 2), (groups[3], 3)] {
            let bandwidth = RtBandwidth { runtime: Some(ms(runtime)), period: ms(10) };
            let now = Clock::at(Instant::ZERO);
            scheduler.set_group_rt(group, bandwidth, now, CpuId(0), &mut io).expect("it fits");
        }
        let parked = (0..TASKS)
            .map(|task| {
                let attr = match task {
                    6 => SchedAttr::NORMAL,
                    task if task % 2 == 0 => SchedAttr::fifo_at(10),
                    _ => SchedAttr::fifo_at(20),
                };
                let (id, group) = (TaskId(task), groups[task as usize % 4]);
                let (cpuset, born_on) = (CpusetId::default(), CpuId(0));
                let spec = TaskSpec { id, attr, affinity: None, group, cpuset, born_on, process: None };
                Some(scheduler.create_task(Clock::at(Instant::ZERO), spec).expect("a reserved id"))
            })
            .collect();
        Self { scheduler, rqs, io, now: Instant::ZERO, parked, groups, throttled: Vec::new() }
    }

    fn carry(&mut self, mut step: Step) {
        let now = Clock::at(self.now);
        loop {
            step = match step {
                Step::Done => return,
                Step::Pair { own, other, then } => {
                    let [own, other] =
                        self.rqs.get_disjoint_mut([own.index(), other.index()]).expect("a pair is two run queues");
                    let both = zerolag_core::PairClock::at(now);
                    self.scheduler.resume_pair(own, other, both, then, &mut self.io)
                }
                Step::Again { own, then } => self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io),
            };
        }
    }

    fn pick(&mut self, cpu: CpuId) {
        loop {
            let next = self.scheduler.pick(&mut self.rqs[cpu.index()], Clock::at(self.now), &mut self.io);
            match next {
                Next::Balance(step) => self.carry(step),
                Next::Run(_) | Next::Idle => break,
            }
        }
        let step = self.scheduler.switched(&mut self.rqs[cpu.index()], Clock::at(self.now), &mut self.io);
        self.carry(step);
    }

    fn leave(&mut self, cpu: CpuId, why: Leave) {
        let why = if self.rqs[cpu.index()].current().is_none() { Leave::Preempted } else { why };
        match self.scheduler.leave(&mut self.rqs[cpu.index()], Clock::at(self.now), why, &mut self.io) {
            Left::Parked(parcel) => {
                let at = parcel.id().index();
                self.parked[at] = Some(parcel);
            }
            Left::Queued => {}
            Left::Displaced(parcel) => {
                self.pick(cpu);
                return self.place(parcel);
            }
            _ => panic!("no task ends"),
        }
        self.pick(cpu);
    }

    /// Places a task that may not stay where it was.
    fn place(&mut self, parcel: Parcel) {
        let (now, by) = (Clock::at(self.now), CpuId(0));
        let cpu = self.scheduler.select_cpu(now, &parcel, by, Placement::Displaced, &mut self.io);
        let rq = &mut self.rqs[cpu.index()];
        let step = self.scheduler.wake(rq, now, parcel, by, Placement::Displaced, &mut self.io);
        self.carry(step);
    }

    /// Every CPU that was asked to leaves its task, until none is.
    fn settle(&mut self) {
        for _ in 0..50 {
            let asked =
                (0..CPUS).map(CpuId).find(|cpu| self.rqs[cpu.index()].need_resched() == zerolag_core::Resched::Now);
            let Some(cpu) = asked else { return };
            self.leave(cpu, Leave::Preempted);
        }
        panic!("CPUs ask each other without end");
    }

    fn apply(&mut self, draw: &Draw) {
        let now = Clock::at(self.now);
        match *draw {
            Draw::Wake(task) => {
                let Some(parcel) = self.parked[task].take() else { return };
                let by = CpuId(0);
                let cpu = self.scheduler.select_cpu(now, &parcel, by, Placement::Wakeup, &mut self.io);
                let rq = &mut self.rqs[cpu.index()];
                let step = self.scheduler.wake(rq, now, parcel, by, Placement::Wakeup, &mut self.io);
                self.carry(step);
            }
            Draw::Leave(cpu, why) => self.leave(CpuId(cpu), why),
            Draw::Tick(cpu) => {
                let step = self.scheduler.tick(&mut self.rqs[cpu as usize], now, &mut self.io);
                self.carry(step);
            }
            Draw::Move(task, to) => {
                // A group whose runtime has become 0 takes none.
                let (task, group) = (TaskId(task), self.groups[to]);
                let moved = if let Some(parcel) = &mut self.parked[task.index()] {
                    self.scheduler.set_group_parked(parcel, group).map(|()| Step::Done)
                } else if let zerolag_core::Home::Rq(cpu) = self.scheduler.home(task) {
                    self.scheduler.set_group(&mut self.rqs[cpu.index()], now, task, group, &mut self.io)
                } else {
                    return;
                };
                if let Ok(step) = moved {
                    self.carry(step);
                }
            }
            Draw::Set(group, runtime) => {
                let bandwidth = RtBandwidth { runtime: runtime.map(ms), period: ms(10) };
                // What does not fit is refused.
                let _refused = self.scheduler.set_group_rt(self.groups[group], bandwidth, now, CpuId(0), &mut self.io);
                for rq in &mut self.rqs {
                    self.scheduler.follow_rt_groups(rq, now, &mut self.io);
                }
            }
            Draw::Bind(task, mask) => {
                let task = TaskId(task);
                let zerolag_core::Home::Rq(cpu) = self.scheduler.home(task) else { return };
                let cpus: CpuMask = (0..CPUS).filter(|cpu| mask >> cpu & 1 != 0).map(CpuId).collect();
                let cpus = Some(Arc::new(cpus));
                let rq = &mut self.rqs[cpu.index()];
                let set = self.scheduler.set_affinity(rq, now, task, cpus, &mut self.io);
                let (parcel, step) = set.expect("a mask with a CPU");
                self.carry(step);
                if let Some(parcel) = parcel {
                    self.place(parcel);
                }
            }
        }
    }

    /// Fires the timers of servers, due or not.
    fn timers(&mut self) {
        let timer = zerolag_core::RqTimer::GroupServers;
        for cpu in 0..CPUS as usize {
            let step = self.scheduler.timer(&mut self.rqs[cpu], Clock::at(self.now), timer, &mut self.io);
            self.carry(step);
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for record in self.io.trace.drain(..) {
            match record.event {
                TraceEvent::RtGroupThrottle { group, throttled: true } => self.throttled.push((group, record.cpu)),
                TraceEvent::RtGroupThrottle { group, throttled: false } => {
                    self.throttled.retain(|place| *place != (group, record.cpu));
                }
                _ => {}
            }
        }
        for (rq, cpu) in self.rqs.iter().zip((0..CPUS).map(CpuId)) {
            let Some(task) = rq.current() else { continue };
            let Some(group) = rq.inspect().serving_group() else { continue };
            prop_assert!(!self.throttled.contains(&(group, cpu)), "task {} runs on CPU {} without runtime", task, cpu);
        }
        let rqs: Vec<&Rq> = self.rqs.iter().collect();
        prop_assert_eq!(self.scheduler.check_published(&rqs), Ok(()));
        let parcels = self.parked.iter().flatten();
        prop_assert_eq!(self.scheduler.check_booked(&rqs, parcels), Ok(()));
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Draw {
    Wake(usize),
    Leave(u32, Leave),
    Tick(u32),
    Move(u32, usize),
    Set(usize, Option<u64>),
    Bind(u32, u32),
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![
        8 => (0..TASKS as usize).prop_map(Draw::Wake),
        4 => (0..CPUS).prop_map(|cpu| Draw::Leave(cpu, Leave::Block)),
        2 => (0..CPUS).prop_map(|cpu| Draw::Leave(cpu, Leave::Yield)),
        2 => (0..CPUS).prop_map(|cpu| Draw::Leave(cpu, Leave::Preempted)),
        12 => (0..CPUS).prop_map(Draw::Tick),
        2 => (0..TASKS, 0..4_usize).prop_map(|(task, group)| Draw::Move(task, group)),
        1 => (1..4_usize, prop::option::of(0..6_u64)).prop_map(|(group, runtime)| Draw::Set(group, runtime)),
        2 => (0..TASKS, 1..8_u32).prop_map(|(task, mask)| Draw::Bind(task, mask)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn queues_servers_and_published_state_stay_consistent(
        has_fair_server: bool,
        draws in prop::collection::vec(draw(), 1..150),
    ) {
        let mut world = World::new(if has_fair_server { FairServer::Deferred } else { FairServer::Off });
        for draw in &draws {
            world.now += ms(1);
            world.timers();
            world.settle();
            world.apply(draw);
            world.settle();
            world.check()?;
        }
    }
}

impl World {
    /// Checks that no task waits behind another of its group while a CPU has nothing of the group,
    /// and its server there has runtime.
    fn check_spread(&self) -> Result<(), String> {
        let group_of = |task: TaskId| self.groups[task.index() % 4];
        for (rq, cpu) in self.rqs.iter().zip((0..CPUS).map(CpuId)) {
            let Some(group) = rq.inspect().serving_group() else { continue };
            let waits = |task: TaskId| group_of(task) == group && rq.current() != Some(task);
            let Some((task, _)) = rq.inspect().queued().find(|(task, _)| waits(*task)) else { continue };
            for (other, there) in self.rqs.iter().zip((0..CPUS).map(CpuId)).filter(|(_, there)| *there != cpu) {
                let is_free = !other.inspect().queued().any(|(task, _)| group_of(task) == group);
                if is_free && !self.throttled.contains(&(group, there)) {
                    return Err(format!("task {task} waits on CPU {cpu} and could run on CPU {there}"));
                }
            }
        }
        Ok(())
    }
}

/// The events of a world of two groups with two tasks and one: tasks wake, CPUs block theirs, and
/// time passes, which exhausts servers and replenishes them.
const MENU: [Draw; 6] = [
    Draw::Wake(1),
    Draw::Wake(5),
    Draw::Wake(3),
    Draw::Leave(0, Leave::Block),
    Draw::Leave(1, Leave::Block),
    Draw::Tick(0),
];

/// The number of events of a sequence.
const DEPTH: u32 = 6;

/// Makes every possible sequence. Returns how many of full length there are, after how many some
/// server has no runtime, how many moves there were, and the first rule about places that was
/// broken.
fn enumerate(settings: &Settings) -> (usize, usize, usize, Result<(), String>) {
    let (mut seen, mut throttled, mut moved, mut spread) = (0, 0, 0, Ok(()));
    for number in 0..MENU.len().pow(DEPTH) {
        let mut world = World::of(settings.clone());
        let mut story = Vec::new();
        for nth in 0..DEPTH {
            let draw = MENU[number / MENU.len().pow(nth) % MENU.len()];
            // What does nothing is another, shorter sequence.
            let is_possible = match draw {
                Draw::Wake(task) => world.parked[task].is_some(),
                Draw::Leave(cpu, _) => world.rqs[cpu as usize].current().is_some(),
                _ => true,
            };
            if !is_possible {
                break;
            }
            story.push(draw);
            if let Draw::Tick(_) = draw {
                for cpu in 0..CPUS {
                    world.now += ms(1);
                    world.timers();
                    world.settle();
                    world.apply(&Draw::Tick(cpu));
                }
            } else {
                world.apply(&draw);
            }
            world.settle();
            let moves = |record: &&zerolag_model::Record| matches!(record.event, TraceEvent::Migrate { .. });
            moved += world.io.trace.iter().filter(moves).count();
            world.check().unwrap_or_else(|error| panic!("{error}\n{story:#?}"));
            spread = spread.and_then(|()| world.check_spread().map_err(|error| format!("{error}\n{story:#?}")));
        }
        seen += usize::from(story.len() == DEPTH as usize);
        throttled += usize::from(!world.throttled.is_empty());
    }
    (seen, throttled, moved, spread)
}

#[test]
fn every_order_of_six_events_keeps_the_rules() {
    let settings = Settings { fair_server: FairServer::Off, ..KernelVersion::V7_1.settings() };
    let (seen, throttled, moved, spread) = enumerate(&settings);
    assert_eq!(spread, Ok(()));
    assert!(seen > 2_500 && throttled > 5_000 && moved > 10_000, "{seen} sequences, {throttled}, {moved}");
    // Without pushes and pulls tasks stay behind each other.
    let passive = Settings { rt_balance: RtBalance::Passive, ..settings };
    let (.., spread) = enumerate(&passive);
    assert!(spread.as_ref().is_err_and(|error| error.contains("waits on CPU")), "{spread:?}");
}
