//! Virtual time beyond 2^63 and 2^64 nanoseconds: order and lag do not see the wrap.
//!
//! A task of weight 3 that runs alone advances its queue by 341 ns of virtual time per nanosecond,
//! so a machine that is up for ten months reaches 2^63, where a signed comparison of points would
//! fail, and after twenty months 2^64, where an unsigned one would. Here these months pass in some
//! leaps. Then other tasks join and run over the wrap, and every switch must be where it is on a
//! queue that has run for a minute.

use super::host::{Host, Program, at_ms, ms};
use zerolag_core::Weight;
use zerolag_model::settings::FairAlgorithm;
use zerolag_model::{CpuId, Duration, FairPolicy, GroupId, KernelVersion, Nice, SchedAttr, Settings, TaskId, Topology};

/// SCHED_IDLE: weight 3 (`WEIGHT_IDLEPRIO`).
const IDLE: SchedAttr = SchedAttr::Fair { policy: FairPolicy::Idle, nice: Nice::ZERO, slice: None };

/// Real time that is whole in ticks of 4 ms, in periods of load tracking of 2^20 ns, and in virtual
/// time at weight 3: after it a queue differs by its virtual time alone.
const UNIT: u64 = 3 * (1 << 22) * 15_625;

/// The virtual time of a unit at weight 3, whose inverse is 1,431,655,765 / 2^32.
const VIRTUAL_UNIT: u64 = UNIT / (1 << 22) * 1_431_655_765;

/// Virtual time from the arrival of the other tasks to the wrap.
const BEFORE_WRAP: u64 = 300_000_000;

fn nice(value: i64) -> SchedAttr {
    SchedAttr::nice(Nice::new(value).expect("-20..=19"))
}

/// Where the task of weight 3 is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Root,
    /// In a group: the queue of the group wraps.
    Group,
}

/// Runs alone for `units`, with the rest to the wrap at `target`, then with others for two seconds;
/// returns the switches, their times from the arrival of the others, and the time that each task
/// has run.
fn run(
    settings: &Settings,
    place: Place,
    target: u128,
    units: u64,
) -> (Vec<(Duration, Option<TaskId>)>, Vec<Duration>) {
    let mut host = Host::new(Topology::flat(1).expect("one CPU"), settings.clone());
    let group = match place {
        Place::Root => GroupId::ROOT,
        Place::Group => host.create_group(GroupId::ROOT, Weight::NICE_0),
    };
    let alone = host.spawn(IDLE, group, None, Program::Hog);
    host.run(at_ms(400));
    // Both runs pass the part that is no whole unit.
    let rest = (target - u128::from(BEFORE_WRAP)) % u128::from(VIRTUAL_UNIT);
    let rest = u64::try_from(rest * 3 / 1024).expect("below a unit") / 4_000_000 * 4_000_000;
    let leap = |host: &mut Host, ns: u64| {
        host.advance(Duration::from_nanos(ns));
        host.tick(CpuId(0));
    };
    leap(&mut host, rest - 400_000_000);
    let mut left = units;
    while left > 0 {
        let now = left.min((1 << 58) / VIRTUAL_UNIT);
        leap(&mut host, now * UNIT);
        left -= now;
    }
    let base = host.now;
    host.switches.clear();
    let mut tasks = vec![alone];
    tasks.push(host.spawn(nice(0), group, None, Program::Hog));
    tasks.push(host.spawn(nice(5), group, None, Program::RunSleep(ms(3), ms(7))));
    tasks.push(host.spawn(nice(-3), group, None, Program::RunSleep(ms(2), ms(9))));
    let before: Vec<Duration> = tasks.iter().map(|task| host.tasks[task.index()].exec).collect();
    host.run(base + Duration::from_secs(2));
    let switches = host.switches.iter().map(|(at, _, task)| (at.since(base), *task)).collect();
    let ran = tasks.iter().zip(before).map(|(task, before)| host.tasks[task.index()].exec - before).collect();
    (switches, ran)
}

fn agrees(algorithm: FairAlgorithm, place: Place, target: u128) {
    let settings = Settings { fair: algorithm, ..KernelVersion::V6_12.settings() };
    let units = u64::try_from((target - u128::from(BEFORE_WRAP)) / u128::from(VIRTUAL_UNIT)).expect("months");
    let (young, shares) = run(&settings, place, target, 0);
    let (old, shares_beyond) = run(&settings, place, target, units);
    assert!(young.len() > 400, "{algorithm}: only {} switches", young.len());
    let differs = young.iter().zip(&old).position(|(young, old)| young != old);
    let first = differs.map(|first| (&young[first..first + 3], &old[first..first + 3]));
    assert_eq!(first, None, "{algorithm}, {place:?}, {target}");
    assert_eq!((young.len(), shares), (old.len(), shares_beyond), "{algorithm}, {place:?}, {target}");
}

#[test]
fn a_queue_that_passes_2_to_the_63_behaves_as_a_young_one() {
    for algorithm in [FairAlgorithm::Eevdf, FairAlgorithm::Cfs] {
        for place in [Place::Root, Place::Group] {
            agrees(algorithm, place, 1 << 63);
        }
    }
}

#[test]
fn a_queue_that_passes_2_to_the_64_behaves_as_a_young_one() {
    for algorithm in [FairAlgorithm::Eevdf, FairAlgorithm::Cfs] {
        for place in [Place::Root, Place::Group] {
            agrees(algorithm, place, 1 << 64);
        }
    }
}
