//! Small worlds, enumerated: every sequence of events up to a bound, each state visited once.
//!
//! Breadth first from the start; a state that was seen before (by its fingerprint, with clocks
//! standing still) is not followed again. The rules hold in every state, and from every state the
//! world comes to rest: no task lost, no IPI under way, no legal move left. For each step a world
//! is built anew and the sequence replayed, so a failure is its sequence of events.

use crate::support::{Agent, Event, Hints, Setup, World};
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;
use zerolag_core::{CpusetId, Leave, Partition};
use zerolag_model::settings::{OverloadScope, RtBalance};
use zerolag_model::{CpuId, CpuMask, KernelVersion, SchedAttr, Settings, TaskId};

/// A world, its start, its possible events, and the number of states that are followed.
struct Small<'a> {
    name: &'a str,
    setup: Setup,
    start: fn(&mut World),
    menu: fn(&World) -> Vec<Event>,
    /// The most states to follow; in breadth-first order the longest sequences are omitted.
    limit: usize,
}

/// The extent of an enumeration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    states: usize,
    events: usize,
    /// States in which no work is under way.
    at_rest: usize,
    /// Length of the longest sequences.
    depth: usize,
    /// Whether every reachable state was seen.
    complete: bool,
}

fn enumerate(small: &Small<'_>) -> Seen {
    let build = |events: &[Event]| {
        let mut world = World::new(small.setup.clone());
        (small.start)(&mut world);
        for event in events {
            assert!(world.apply(event), "{event:?} was possible before");
        }
        world
    };
    let mut seen = Seen { complete: true, ..Seen::default() };
    let mut known = BTreeSet::from([build(&[]).fingerprint()]);
    let mut level: Vec<Vec<Event>> = vec![Vec::new()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for path in &level {
            let mut fresh = Some(build(path));
            for event in (small.menu)(fresh.as_ref().expect("just built")) {
                let mut world = fresh.take().unwrap_or_else(|| build(path));
                if !world.apply(&event) {
                    fresh = Some(world); // Nothing has changed.
                    continue;
                }
                seen.events += 1;
                let fail = |error: String| -> ! {
                    let story: String = path.iter().chain([&event]).map(|event| format!("    {event:?}\n")).collect();
                    panic!("{}: {error}\n{story}", small.name)
                };
                if !known.insert(world.fingerprint()) {
                    continue;
                }
                world.check().unwrap_or_else(|error| fail(error));
                seen.at_rest += usize::from(world.due().is_none());
                world.drain(&mut |_, _| ()).unwrap_or_else(|error| fail(error));
                if known.len() <= small.limit {
                    next.push([path.as_slice(), &[event]].concat());
                } else {
                    seen.complete = false;
                }
            }
        }
        seen.depth += usize::from(!next.is_empty());
        level = next;
    }
    seen.states = known.len();
    println!("{}: {seen:?}", small.name);
    seen
}

fn settings(rt_balance: RtBalance) -> Settings {
    Settings {
        rt_balance,
        overload_scope: OverloadScope::RootDomain,
        rt_push_skip_stuck: true,
        ..KernelVersion::V6_12.settings()
    }
}

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

const OUTSIDE: Agent = Agent(2);
const ATTRS: [fn() -> SchedAttr; 3] = [|| fifo(10), || fifo(10), || SchedAttr::NORMAL];

/// The events of two CPUs and three tasks: tasks are created, wake, block, yield; CPUs take kicks
/// and IPIs.
fn life(world: &World) -> Vec<Event> {
    let mut menu: Vec<Event> = (0..3).map(|agent| Event::Go(Agent(agent))).collect();
    for cpu in (0..2).map(CpuId) {
        menu.extend([Leave::Preempted, Leave::Block, Leave::Yield].map(|why| Event::Leave { cpu, why }));
        menu.extend((0..world.cpus[cpu.index()].ipis.len()).map(|nth| Event::Deliver { cpu, nth }));
    }
    for (task, attr) in (0..3).map(TaskId).zip(ATTRS) {
        menu.push(Event::Create { by: OUTSIDE, task, attr: attr(), affinity: None, cpuset: CpusetId::default() });
        menu.push(Event::Wake { by: OUTSIDE, task });
    }
    menu
}

/// As [`life`], with changing priorities: one task becomes more and less urgent, and enters the
/// fair class.
fn changing(world: &World) -> Vec<Event> {
    let mut menu = life(world);
    let task = TaskId(1);
    menu.extend([fifo(10), fifo(11), SchedAttr::NORMAL].map(|attr| Event::SetAttr { by: OUTSIDE, task, attr }));
    menu
}

/// As [`life`], with a task that is pinned and unpinned.
fn pinning(world: &World) -> Vec<Event> {
    let mut menu = life(world);
    let task = TaskId(0);
    let masks = [None, Some(CpuId(0)), Some(CpuId(1))].map(|cpu| cpu.map(|cpu| Arc::new(CpuMask::single(cpu))));
    menu.extend(masks.map(|affinity| Event::SetAffinity { by: OUTSIDE, task, affinity }));
    menu
}

/// As [`life`], with a CPU that goes offline and online.
fn hotplug(world: &World) -> Vec<Event> {
    let mut menu = life(world);
    let cpu = CpuId(1);
    menu.extend([Event::Offline { cpu }, Event::Evict { cpu }, Event::Online { cpu }]);
    menu
}

/// As [`life`], with a CPU that leaves the root domain and returns.
fn rebuilding(world: &World) -> Vec<Event> {
    let mut menu = life(world);
    let cpu = CpuId(1);
    menu.extend([0, 1].map(|partition| Event::Join { cpu, partition: CpusetId(partition) }));
    menu
}

type Menu = (&'static str, fn(&World) -> Vec<Event>, Hints);

const MENUS: [Menu; 6] = [
    ("life", life, Hints::Fresh),
    ("stale hints", life, Hints::Stale),
    ("changing", changing, Hints::Fresh),
    ("pinning", pinning, Hints::Fresh),
    ("hotplug", hotplug, Hints::Fresh),
    ("rebuilding", rebuilding, Hints::Fresh),
];

/// The CPUs that can become a partition, in menus with that event.
fn prepared(menu: &str, cpus: Range<u32>) -> Vec<(CpuMask, Partition)> {
    if menu == "rebuilding" { vec![(cpus.map(CpuId).collect(), Partition::Prepared)] } else { Vec::new() }
}

/// The most states per setting and menu, and the least number of states in all.
const LIMIT: usize = 4_000;
const FLOOR: usize = 125_000;

#[test]
fn two_cpus_and_three_tasks() {
    let of_balance = |rt_balance: RtBalance| {
        MENUS.map(|(menu_name, menu, hints)| {
            let setup = Setup {
                settings: settings(rt_balance),
                nr_cpus: 2,
                cpusets: prepared(menu_name, 1..2),
                nr_tasks: 3,
                outside: 1,
                hints,
            };
            let name = &format!("{rt_balance}, {menu_name}");
            enumerate(&Small { name, setup, start: |_| (), menu, limit: LIMIT })
        })
    };
    // A thread for each: they share nothing.
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = RtBalance::ALL.iter().map(|balance| scope.spawn(|| of_balance(*balance))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no rule is broken")).collect()
    });
    let mut total = Seen::default();
    for seen in seen {
        total.states += seen.states;
        total.events += seen.events;
        total.at_rest += seen.at_rest;
    }
    println!("in all {} states, {} events, {} states at rest", total.states, total.events, total.at_rest);
    assert!(total.states >= FLOOR, "only {} states were visited", total.states);
}

/// Four CPUs run a task of priority 60 each. On CPU 0 a task of priority 40 waits, on CPU 1 one of
/// 41; both may run anywhere.
fn crowded(world: &mut World) {
    let by = Agent(4);
    let put = |world: &mut World, task: u32, priority: i64, cpu: u32| {
        let affinity = Some(Arc::new(CpuMask::single(CpuId(cpu))));
        let task = TaskId(task);
        let attr = fifo(priority);
        assert!(world.apply(&Event::Create { by, task, attr, affinity, cpuset: CpusetId::default() }));
        world.drain(&mut |_, _| ()).expect("it is placed");
    };
    for cpu in 0..world.setup.nr_cpus {
        put(world, cpu, 60, cpu);
    }
    let n = world.setup.nr_cpus;
    put(world, n, 40, 0);
    put(world, n + 1, 41, 1);
    for task in (0..n + 2).map(TaskId) {
        assert!(world.apply(&Event::SetAffinity { by, task, affinity: None }));
        world.drain(&mut |_, _| ()).expect("nothing can move");
    }
    assert_eq!(world.rqs.iter().map(zerolag_core::Rq::nr_running).max(), Some(2), "{}", world.show());
}

/// As [`crowded`], but the CPUs that will become less urgent do so in two steps: a pinned task
/// waits on each.
fn crowded_in_steps(world: &mut World) {
    let by = Agent(4);
    crowded(world);
    let n = world.setup.nr_cpus;
    for (task, cpu, priority) in [(n + 2, n - 2, 30), (n + 3, n - 1, 39)] {
        let affinity = Some(Arc::new(CpuMask::single(CpuId(cpu))));
        let (task, attr) = (TaskId(task), fifo(priority));
        assert!(world.apply(&Event::Create { by, task, attr, affinity, cpuset: CpusetId::default() }));
        world.drain(&mut |_, _| ()).expect("it is placed");
    }
}

/// The last two CPUs block their tasks; the following events happen in any order.
fn lowering(world: &World) -> Vec<Event> {
    let n = world.setup.nr_cpus;
    let mut menu: Vec<Event> = (0..=n as usize).map(|agent| Event::Go(Agent(agent))).collect();
    for cpu in (0..n).map(CpuId) {
        menu.push(Event::Leave { cpu, why: Leave::Preempted });
        menu.extend((0..world.cpus[cpu.index()].ipis.len()).map(|nth| Event::Deliver { cpu, nth }));
    }
    for cpu in [CpuId(n - 2), CpuId(n - 1)] {
        // A task that was pushed here stays: blocking it would be one more event of the same kind.
        let first = world.rqs[cpu.index()].current().is_some_and(|task| task.0 < n || task.0 >= n + 2);
        menu.extend(first.then_some(Event::Leave { cpu, why: Leave::Block }));
    }
    menu
}

/// As [`lowering`], and the overloaded CPUs also block their tasks: the overload ends while IPIs
/// travel.
fn all_lowering(world: &World) -> Vec<Event> {
    let n = world.setup.nr_cpus;
    let mut menu = lowering(world);
    for cpu in [CpuId(0), CpuId(1)] {
        let first = world.rqs[cpu.index()].current().is_some_and(|task| task.0 < n);
        menu.extend(first.then_some(Event::Leave { cpu, why: Leave::Block }));
    }
    menu
}

/// As [`lowering`], and the root domain is split and merged: an overloaded CPU and one that becomes
/// less urgent leave and return.
fn lowering_and_rebuilding(world: &World) -> Vec<Event> {
    let mut menu = lowering(world);
    for cpu in [CpuId(1), CpuId(2)] {
        menu.extend([0, 1].map(|partition| Event::Join { cpu, partition: CpusetId(partition) }));
    }
    menu
}

/// Enumerates completely: these worlds are finite.
fn circulate(settings: &Settings) -> Seen {
    type Scene = (&'static str, fn(&mut World), fn(&World) -> Vec<Event>, u32);
    let scenes: [Scene; 5] = [
        ("two lower, 3 CPUs", crowded, lowering, 3),
        ("two lower, 4 CPUs", crowded, lowering, 4),
        ("two lower in steps, 4 CPUs", crowded_in_steps, lowering, 4),
        ("all lower, 4 CPUs", crowded, all_lowering, 4),
        ("rebuilding", crowded, lowering_and_rebuilding, 3),
    ];
    let mut total = Seen { complete: true, ..Seen::default() };
    for (scene, start, menu, nr_cpus) in scenes {
        let setup = Setup {
            settings: settings.clone(),
            nr_cpus,
            cpusets: prepared(scene, 1..3),
            nr_tasks: nr_cpus + 4,
            // The outside agent then has number 4 for any number of CPUs.
            outside: 5 - nr_cpus as usize,
            hints: Hints::Fresh,
        };
        let name = &format!("{}, {scene}", settings.rt_balance);
        let seen = enumerate(&Small { name, setup, start, menu, limit: usize::MAX });
        total.states += seen.states;
        total.at_rest += seen.at_rest;
        total.complete &= seen.complete;
    }
    assert!(total.complete, "these worlds are finite");
    total
}

#[test]
fn two_cpus_lower_their_priority_while_the_ipi_circulates() {
    let seen = circulate(&settings(RtBalance::IpiRootDomain));
    assert!(seen.states >= 1_000, "only {} states were visited", seen.states);
}

#[test]
fn two_cpus_lower_their_priority_while_the_ipi_skips_its_sender() {
    let settings = Settings { rt_ipi_skip_self: true, ..settings(RtBalance::IpiRootDomain) };
    let seen = circulate(&settings);
    assert!(seen.states >= 1_000, "only {} states were visited", seen.states);
}

#[test]
fn two_cpus_lower_their_priority_while_chains_run() {
    let seen = circulate(&settings(RtBalance::IpiPerCpu));
    assert!(seen.states >= 1_000, "only {} states were visited", seen.states);
}

#[test]
fn two_cpus_pull_at_once() {
    let seen = circulate(&settings(RtBalance::PullLocked));
    assert!(seen.states >= 100, "only {} states were visited", seen.states);
}

#[test]
fn two_cpus_pull_by_claim() {
    let seen = circulate(&settings(RtBalance::PullClaimed));
    assert!(seen.states >= 100, "only {} states were visited", seen.states);
}
