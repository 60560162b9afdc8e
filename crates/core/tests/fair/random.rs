//! Random sequences of events: in all of them sums and counts stay right and no task is lost.

use super::host::{Host, Program};
use proptest::prelude::*;
use std::sync::Arc;
use zerolag_core::call::{Answer, Call, Place, Refused};
use zerolag_core::{Config, GroupError, Leave, Step, TaskMode, Weight};
use zerolag_model::settings::{BandwidthControl, SchedExt, Throttle, TimerGrain};
use zerolag_model::{
    CpuId, CpuMask, CpuMax, Duration, FairPolicy, GroupId, KernelVersion, Nice, SchedAttr, Settings, TaskId, Topology,
};

#[derive(Clone, Debug)]
enum Event {
    Spawn { attr: SchedAttr, group: usize },
    Wake { task: usize },
    Block { cpu: usize },
    Yield { cpu: usize },
    Exit { cpu: usize },
    Tick { cpu: usize },
    Pass { ns: u64 },
    Attr { task: usize, attr: SchedAttr },
    Group { task: usize, group: usize },
    Affinity { task: usize, cpus: u8 },
    NewGroup { parent: usize, weight: u64 },
    Weigh { group: usize, weight: u64 },
    RemoveGroup { group: usize },
    Bounce { cpu: usize },
    EnterKernel { cpu: usize },
    ReturnToUser { cpu: usize },
    Max { group: usize, quota: Option<u64>, period: u64, burst: u64 },
    Timers,
}

fn attr() -> impl Strategy<Value = SchedAttr> {
    let fair = (-20_i64..20, 0..8_u8, proptest::option::weighted(0.2, 100_000..10_000_000_u64)).prop_map(
        |(nice, policy, slice)| SchedAttr::Fair {
            policy: match policy {
                0 => FairPolicy::Idle,
                1 => FairPolicy::Batch,
                2 => FairPolicy::Ext,
                _ => FairPolicy::Other,
            },
            nice: Nice::new(nice).expect("-20..=19"),
            slice: slice.map(Duration::from_nanos),
        },
    );
    let rt = (1_i64..99).prop_map(SchedAttr::fifo_at);
    prop_oneof![8 => fair, 1 => rt]
}

fn event() -> impl Strategy<Value = Event> {
    let any = 0_usize..64;
    prop_oneof![
        3 => (attr(), any.clone()).prop_map(|(attr, group)| Event::Spawn { attr, group }),
        8 => any.clone().prop_map(|task| Event::Wake { task }),
        8 => any.clone().prop_map(|cpu| Event::Block { cpu }),
        2 => any.clone().prop_map(|cpu| Event::Yield { cpu }),
        1 => any.clone().prop_map(|cpu| Event::Exit { cpu }),
        6 => any.clone().prop_map(|cpu| Event::Tick { cpu }),
        8 => prop_oneof![1_u64..1000, 1000_u64..10_000_000].prop_map(|ns| Event::Pass { ns }),
        2 => (any.clone(), attr()).prop_map(|(task, attr)| Event::Attr { task, attr }),
        2 => (any.clone(), any.clone()).prop_map(|(task, group)| Event::Group { task, group }),
        2 => (any.clone(), 1_u8..16).prop_map(|(task, cpus)| Event::Affinity { task, cpus }),
        1 => (any.clone(), 1_u64..10_000).prop_map(|(parent, weight)| Event::NewGroup { parent, weight }),
        1 => (any.clone(), 1_u64..10_000).prop_map(|(group, weight)| Event::Weigh { group, weight }),
        1 => any.clone().prop_map(|group| Event::RemoveGroup { group }),
        2 => (any.clone(), proptest::option::weighted(0.8, 1..40_u64), 1..20_u64, 0..3_u64)
            .prop_map(|(group, quota, period, burst)| Event::Max { group, quota, period, burst }),
        6 => Just(Event::Timers),
        2 => any.clone().prop_map(|cpu| Event::EnterKernel { cpu }),
        4 => any.clone().prop_map(|cpu| Event::ReturnToUser { cpu }),
        1 => any.prop_map(|cpu| Event::Bounce { cpu }),
    ]
}

struct World {
    host: Host,
    groups: Vec<GroupId>,
}

impl World {
    fn new(version: KernelVersion, cpus: u32) -> Self {
        Self::with_settings(version.settings(), cpus)
    }

    fn with_settings(settings: Settings, cpus: u32) -> Self {
        Self::with_groups(settings, cpus, 6)
    }

    fn with_groups(settings: Settings, cpus: u32, groups: usize) -> Self {
        Self::on(Topology::flat(cpus).expect("a machine"), settings, groups)
    }

    fn on(topology: Topology, settings: Settings, groups: usize) -> Self {
        let config = Config::new(topology, settings);
        Self { host: Host::with_config(config.with_group_reserve(groups)), groups: vec![GroupId::ROOT] }
    }

    fn task(&self, index: usize) -> Option<TaskId> {
        let is_alive = |task: &usize| !matches!(self.host.places[*task], Place::Dead);
        let alive: Vec<_> = (0..self.host.places.len()).filter(is_alive).collect();
        (!alive.is_empty()).then(|| TaskId::from_index(alive[index % alive.len()]))
    }

    fn group(&self, index: usize) -> GroupId {
        self.groups[index % self.groups.len()]
    }

    fn cpu(&self, index: usize) -> CpuId {
        CpuId::from_index(index % self.host.rqs.len())
    }

    fn leave(&mut self, cpu: CpuId, why: Leave) {
        if self.host.rqs[cpu.index()].current().is_some() {
            self.host.schedule(cpu, why);
            self.host.settle();
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Spawn { attr, group } if self.host.tasks.len() < 60 => {
                self.host.spawn(attr, self.group(group), None, Program::Hog);
            }
            Event::Spawn { .. } => {}
            Event::Wake { task } => {
                // Blocked: parked, or queued only for its lag. A running task cannot be woken.
                let Some(task) = self.task(task) else { return };
                if let Place::Parked(_) | Place::Delayed = self.host.places[task.index()] {
                    self.host.wake(task, CpuId(0));
                }
            }
            Event::Block { cpu } => self.leave(self.cpu(cpu), Leave::Block),
            // A request to schedule comes with a charge, and the preemption then finds nothing
            // more to charge; one without a request does.
            Event::Yield { cpu } if self.host.compares_ways => self.leave(self.cpu(cpu), Leave::Preempted),
            Event::Yield { cpu } => self.leave(self.cpu(cpu), Leave::Yield),
            Event::Exit { cpu } => self.leave(self.cpu(cpu), Leave::Exit),
            Event::Tick { cpu } => self.host.tick(self.cpu(cpu)),
            Event::Pass { ns } => self.host.advance(Duration::from_nanos(ns)),
            Event::Attr { task, attr } => {
                let Some(task) = self.task(task) else { return };
                self.host.set_attr(task, attr);
            }
            Event::Group { task, group } => {
                let Some(task) = self.task(task) else { return };
                self.host.set_group(task, self.group(group));
            }
            Event::Affinity { task, cpus } => {
                let Some(task) = self.task(task) else { return };
                let nr_cpus = self.host.rqs.len();
                let mask: CpuMask = (0..nr_cpus).filter(|cpu| cpus >> cpu & 1 == 1).map(CpuId::from_index).collect();
                if !mask.is_empty() {
                    self.host.set_affinity(task, Some(Arc::new(mask)));
                }
            }
            Event::NewGroup { parent, weight } => {
                let weight = Weight::from_cpu_weight(weight).expect("in range");
                match self.host.call(&Call::CreateGroup { parent: self.group(parent), weight }) {
                    Ok(Answer::Group(group)) => self.groups.push(group),
                    Err(Refused::Group(GroupError::NoneFree)) => {}
                    other => panic!("no group: {other:?}"),
                }
            }
            Event::Weigh { group, weight } => {
                let weight = Weight::from_cpu_weight(weight).expect("in range");
                let changed = self.host.call(&Call::SetGroupWeight { group: self.group(group), weight });
                assert_eq!(changed.is_err(), self.group(group) == GroupId::ROOT);
            }
            Event::RemoveGroup { group } => {
                let group = self.group(group);
                if self.host.call(&Call::RemoveGroup { group }).is_ok() {
                    self.groups.retain(|other| *other != group);
                }
            }
            Event::Max { group, quota, period, burst } => {
                let group = self.group(group);
                if group != GroupId::ROOT {
                    let quota = quota.map(Duration::from_millis);
                    let burst = quota.map_or(Duration::ZERO, |quota| quota * burst / 2);
                    self.host
                        .set_max(group, CpuMax { quota, period: Duration::from_millis(period), burst, slice: None });
                }
            }
            Event::Timers => self.host.group_timers_fire(),
            Event::EnterKernel { cpu } => self.host.set_mode(self.cpu(cpu), TaskMode::Kernel),
            Event::ReturnToUser { cpu } => {
                self.host.set_mode(self.cpu(cpu), TaskMode::User);
                self.host.settle();
            }
            Event::Bounce { cpu } => self.bounce(self.cpu(cpu)),
        }
    }

    /// Takes a CPU offline, empties it and takes it online again.
    fn bounce(&mut self, cpu: CpuId) {
        let host = &mut self.host;
        if host.rqs.len() == 1 || host.rqs.iter().any(|rq| rq.cpu() != cpu && !rq.is_online()) {
            return;
        }
        let pinned = |rq: &zerolag_core::Rq| {
            let elsewhere = |task| (0..4).map(CpuId).any(|to| to != cpu && rq.inspect().may_run_on(task, to));
            rq.inspect().queued().any(|(task, _)| !elsewhere(task))
        };
        if pinned(&host.rqs[cpu.index()]) {
            return;
        }
        assert_eq!(host.step(&Call::Offline { cpu }), Step::Done);
        host.settle();
        while host.evict(cpu) {}
        host.check();
        let step = host.step(&Call::Online { cpu });
        host.carry_out(step);
    }
}

fn check(version: KernelVersion, cpus: u32, events: Vec<Event>) {
    run_all(World::new(version, cpus), events);
}

fn run_all(mut world: World, events: Vec<Event>) {
    for event in events {
        world.apply(&event);
        world.host.check();
    }
    // Every remaining task that may run gets the CPU sooner or later.
    for _ in 0..3 {
        let until = world.host.now + Duration::from_millis(20);
        world.host.run(until);
        world.host.check();
    }
}

/// A group is removed while its entity still repays its lag, and the next group gets its id, at any
/// depth.
#[test]
fn a_removed_group_leaves_nothing_to_the_next_of_its_id() {
    for depth in 1..=3 {
        let mut world = World::with_groups(KernelVersion::V6_12.settings(), 1, depth);
        let make = |world: &mut World| {
            let mut group = GroupId::ROOT;
            let mut path = Vec::new();
            for _ in 0..depth {
                let weight = Weight::from_cpu_weight(100).expect("in range");
                group = world.host.create_group(group, weight);
                path.push(group);
            }
            path
        };
        let path = make(&mut world);
        let inside = *path.last().expect("at least one level");
        let task = world.host.spawn(SchedAttr::NORMAL, inside, None, Program::Hog);
        world.host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        while world.host.rqs[0].current() != Some(task) {
            world.host.run(world.host.now + Duration::from_millis(1));
        }
        // It has a lag of 2 ms towards the root's task, but none within its group.
        world.host.advance(Duration::from_millis(2));
        world.leave(CpuId(0), Leave::Block);
        world.host.check();
        world.apply(&Event::Group { task: task.index(), group: 0 });
        for group in path.iter().rev() {
            world.host.call(&Call::RemoveGroup { group: *group }).expect("empty");
        }
        let again = make(&mut world);
        assert!(again.contains(&inside), "ids come back");
        world.host.spawn(SchedAttr::NORMAL, inside, None, Program::Hog);
        world.host.check();
        world.host.run(world.host.now + Duration::from_millis(20));
        world.host.check();
    }
}

/// As [`check`], with a tree of groups with little quota from the start: most of the time some
/// group is throttled.
fn check_limited(settings: Settings, cpus: u32, events: Vec<Event>) {
    let mut world = World::with_settings(settings, cpus);
    for (parent, quota) in [(0, 2), (1, 1), (0, 3)] {
        world.apply(&Event::NewGroup { parent, weight: 100 });
        let group = world.groups.len() - 1;
        world.apply(&Event::Max { group, quota: Some(quota), period: 8, burst: quota % 2 });
        for _ in 0..2 {
            world.apply(&Event::Spawn { attr: SchedAttr::NORMAL, group });
        }
    }
    run_all(world, events);
}

/// A limit is set while a task of the group runs, and the next charge is that of a preemption.
#[test]
fn a_preemption_notices_a_new_limit() {
    let idle = SchedAttr::Fair { policy: FairPolicy::Idle, nice: Nice::ZERO, slice: None };
    let mut world = World::new(KernelVersion::V6_12, 2);
    world.host.compares_ways = true;
    let events = vec![
        Event::NewGroup { parent: 0, weight: 1 },
        Event::Spawn { attr: idle, group: 1 },
        Event::Block { cpu: 12 },
        Event::Spawn { attr: idle, group: 0 },
        Event::Wake { task: 2 },
        Event::Max { group: 43, quota: Some(1), period: 1, burst: 0 },
        Event::Pass { ns: 1_000_000 },
        Event::Yield { cpu: 19 },
    ];
    run_all(world, events);
}

/// The last task of a group leaves while the group is throttled, and the next group gets its id. No
/// load of the earlier one is left.
#[test]
fn a_group_that_empties_while_it_is_throttled_leaves_no_load() {
    let idle = SchedAttr::Fair { policy: FairPolicy::Idle, nice: Nice::ZERO, slice: None };
    for version in [KernelVersion::V3_2, KernelVersion::V6_1, KernelVersion::V6_12] {
        let events = vec![
            Event::Spawn { attr: idle, group: 0 },
            Event::Pass { ns: 8_000_000 },
            Event::NewGroup { parent: 11, weight: 1 },
            Event::Spawn { attr: idle, group: 23 },
            Event::Timers,
            Event::Block { cpu: 46 },
            Event::Pass { ns: 2_000_000 },
            Event::Exit { cpu: 43 },
            Event::Tick { cpu: 0 },
            Event::NewGroup { parent: 3, weight: 1 },
            Event::Group { task: 23, group: 3 },
            Event::RemoveGroup { group: 20 },
            Event::NewGroup { parent: 0, weight: 1 },
            Event::NewGroup { parent: 0, weight: 1 },
        ];
        check_limited(version.settings(), 3, events);
    }
}

/// Interprets four bytes as an event, as [`event`] does a draw.
fn event_of([kind, a, b, c]: [u8; 4]) -> Event {
    let (any, task, cpu, group) = (usize::from(a) % 64, usize::from(a) % 64, usize::from(a), usize::from(b) % 64);
    match kind % 64 {
        0..=5 => Event::Spawn { attr: attr_of(b, c), group: any },
        6..=13 => Event::Wake { task },
        14..=21 => Event::Block { cpu },
        22..=23 => Event::Yield { cpu },
        24 => Event::Exit { cpu },
        25..=30 => Event::Tick { cpu },
        31..=38 => Event::Pass { ns: 1 + (u64::from(b) << (c % 17)) },
        39..=40 => Event::Attr { task, attr: attr_of(b, c) },
        41..=42 => Event::Group { task, group },
        43..=44 => Event::Affinity { task, cpus: 1 + b % 15 },
        45 => Event::NewGroup { parent: any, weight: 1 + (u64::from(b) << (c % 6)) },
        46 => Event::Weigh { group, weight: 1 + (u64::from(a) << (c % 6)) },
        47 => Event::RemoveGroup { group },
        48..=50 => {
            let quota = (kind < 200).then(|| 1 + u64::from(a) % 39);
            Event::Max { group, quota, period: 1 + u64::from(c) % 19, burst: u64::from(a) % 3 }
        }
        51..=56 => Event::Timers,
        57..=58 => Event::EnterKernel { cpu },
        59..=62 => Event::ReturnToUser { cpu },
        _ => Event::Bounce { cpu },
    }
}

fn attr_of(a: u8, b: u8) -> SchedAttr {
    if a > 240 {
        return SchedAttr::fifo_at(1 + i64::from(b) % 98);
    }
    SchedAttr::Fair {
        policy: [FairPolicy::Other, FairPolicy::Batch, FairPolicy::Idle, FairPolicy::Other][usize::from(a) % 4],
        nice: Nice::new(i64::from(a) % 40 - 20).expect("-20..=19"),
        slice: (b > 200).then(|| Duration::from_micros(100 + u64::from(b - 200) * 180)),
    }
}

/// Runs the case that these bytes encode: the first chooses kernel and machine, each four are an
/// event. For fuzzers.
pub(crate) fn run_bytes(input: &[u8]) {
    let (kind, events) = input.split_first().unwrap_or((&0, &[]));
    let events = events.chunks_exact(4).take(200).map(|bytes| event_of(bytes.try_into().expect("four")));
    let events: Vec<Event> = events.collect();
    // Sixteen values for more presets than that: the number of events chooses the rest.
    let preset = usize::from(kind & 15) + 16 * (events.len() % 2);
    let version = KernelVersion::ALL[preset % KernelVersion::ALL.len()];
    let settings = version.settings();
    match kind >> 4 {
        0..=3 => check(version, 1 + u32::from(kind >> 4), events),
        4 => check_limited(Settings { enforce_fair: TimerGrain::Exact, ..settings }, 2, events),
        5 => check_limited(Settings { bandwidth_slice_steps: true, ..settings }, 4, events),
        6 => check_limited(Settings { hierarchical_running: false, ..settings }, 4, events),
        7 => check_limited(Settings { throttle: Throttle::BoostOnWakeup, ..settings }, 2, events),
        8 => check_limited(Settings { throttle: Throttle::BoostInKernel, ..settings }, 2, events),
        9 => check_limited(Settings { throttle: Throttle::AtUserReturn, ..settings }, 3, events),
        10 => check_limited(Settings { throttle: Throttle::BoostGroups, ..settings }, 2, events),
        cpus => check_limited(settings, 1 + u32::from(cpus) % 4, events),
    }
}

#[test]
fn any_bytes_are_a_case() {
    for kind in (0..=255).step_by(17) {
        let tape: Vec<u8> = (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        run_bytes(&[&[kind], &*tape].concat());
    }
    run_bytes(&[]);
}

proptest! {
    #![proptest_config(super::cases(300))]

    #[test]
    fn eevdf_on_one_cpu(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V6_12, 1, events);
    }

    /// A plain tick and a preemption in one step do what the general ways do.
    #[test]
    fn short_ways_are_the_long_ones(events in proptest::collection::vec(event(), 1..200), latest in any::<bool>()) {
        let mut world = World::new(if latest { KernelVersion::V7_1 } else { KernelVersion::V6_12 }, 2);
        world.host.compares_ways = true;
        run_all(world, events);
    }

    #[test]
    fn eevdf_on_four_cpus(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V6_12, 4, events);
    }

    #[test]
    fn one_queue_of_the_tasks_of_all_groups(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V7_3, 2, events);
    }

    #[test]
    fn one_queue_of_the_tasks_of_limited_groups(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(KernelVersion::V7_3.settings(), 3, events);
    }

    /// A task of a loaded scheduler is in one place, beside tasks of other classes.
    #[test]
    fn a_loaded_scheduler(
        events in proptest::collection::vec(event(), 1..200),
        has_all in any::<bool>(),
        cpus in 1_u32..5,
    ) {
        let sched_ext = if has_all { SchedExt::All } else { SchedExt::Partial };
        let settings = Settings { sched_ext, ..KernelVersion::V7_3.settings() };
        run_all(World::with_settings(settings, cpus), events);
    }

    #[test]
    fn two_cores_of_two_threads(events in proptest::collection::vec(event(), 1..200)) {
        let machine = Topology::new(1, 1, 2, 2).expect("4 CPUs");
        run_all(World::on(machine, KernelVersion::V6_12.settings(), 6), events);
    }

    #[test]
    fn two_strong_cpus_and_two_weak_ones(events in proptest::collection::vec(event(), 1..200)) {
        let machine = Topology::new(1, 2, 2, 1).expect("4 CPUs").with_capacities(vec![1024, 1024, 380, 380]);
        run_all(World::on(machine.expect("4 capacities"), KernelVersion::V6_12.settings(), 6), events);
    }

    /// The counts of tasks that prefer a cache are those of the queued tasks.
    #[test]
    fn threads_of_processes_under_two_caches(
        events in proptest::collection::vec(event(), 1..200),
        cores in 2_u32..4,
        limited in any::<bool>(),
    ) {
        let machine = Topology::new(1, 2, cores, 1).expect("a machine");
        let throttle = if limited { Throttle::Immediate } else { Throttle::AtUserReturn };
        let settings = Settings { throttle, llc_aggr_tolerance: 2, ..KernelVersion::V7_3.settings() };
        let config = Config::new(machine, settings).with_group_reserve(6).with_process_reserve(2);
        let mut world = World { host: Host::with_config(config), groups: vec![GroupId::ROOT] };
        world.host.processes = 2;
        run_all(world, events);
    }

    #[test]
    fn eevdf_without_delay_on_three_cpus(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V6_6, 3, events);
    }

    #[test]
    fn cfs_on_four_cpus(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V6_1, 4, events);
    }

    #[test]
    fn limited_groups_under_eevdf(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(KernelVersion::V6_12.settings(), 2, events);
    }

    #[test]
    fn limited_groups_under_cfs(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(KernelVersion::V6_1.settings(), 4, events);
    }

    #[test]
    fn limited_groups_with_expiry(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(KernelVersion::V3_2.settings(), 3, events);
    }

    #[test]
    fn limited_groups_enforced_exactly(events in proptest::collection::vec(event(), 1..200)) {
        let exact = Settings { enforce_fair: TimerGrain::Exact, ..KernelVersion::V6_6.settings() };
        check_limited(exact, 2, events);
    }

    #[test]
    fn groups_under_hard_limits(events in proptest::collection::vec(event(), 1..200), exact in any::<bool>()) {
        let settings = KernelVersion::V2_6_25.settings();
        let enforce_fair = if exact { TimerGrain::Exact } else { TimerGrain::Tick };
        check_limited(Settings { bandwidth: BandwidthControl::HardLimits, enforce_fair, ..settings }, 3, events);
    }

    #[test]
    fn limited_groups_with_stepped_slices(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(Settings { bandwidth_slice_steps: true, ..KernelVersion::V6_12.settings() }, 4, events);
    }

    #[test]
    fn limited_groups_with_phantoms(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(Settings { hierarchical_running: false, ..KernelVersion::V6_12.settings() }, 4, events);
    }

    #[test]
    fn limited_groups_boosted_on_wakeup(events in proptest::collection::vec(event(), 1..200)) {
        let boosts = Settings { throttle: Throttle::BoostOnWakeup, ..KernelVersion::V3_2.settings() };
        check_limited(boosts, 2, events);
    }

    #[test]
    fn limited_groups_boosted_in_the_kernel(events in proptest::collection::vec(event(), 1..200)) {
        let boosts = Settings { throttle: Throttle::BoostInKernel, ..KernelVersion::V6_12.settings() };
        check_limited(boosts, 2, events);
    }

    #[test]
    fn limited_groups_suspended_for_woken_tasks(events in proptest::collection::vec(event(), 1..200)) {
        let boosts = Settings { throttle: Throttle::BoostGroups, ..KernelVersion::V3_2.settings() };
        check_limited(boosts, 2, events);
    }

    #[test]
    fn limited_groups_throttled_at_the_return_to_user_mode(events in proptest::collection::vec(event(), 1..200)) {
        check_limited(KernelVersion::V6_18.settings(), 2, events);
    }

    #[test]
    fn limited_groups_throttled_task_by_task_under_cfs(events in proptest::collection::vec(event(), 1..200)) {
        let by_task = Settings { throttle: Throttle::AtUserReturn, ..KernelVersion::V6_1.settings() };
        check_limited(by_task, 3, events);
    }

    #[test]
    fn passive_rt_on_two_cpus(events in proptest::collection::vec(event(), 1..200)) {
        check(KernelVersion::V2_6_23, 2, events);
    }
}
