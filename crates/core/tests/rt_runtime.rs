//! Real-time runtime that CPUs lend each other (`RT_RUNTIME_SHARE`): over a root domain the sum
//! stays the same. It does so while limit and period are set, removed and set again, CPUs go
//! offline and online, and partitions are created and removed, with each CPU following at its own
//! time. The rules of [`support`] are also checked.

use crate::support::{Agent, Event, Hints, Setup, World};
use proptest::prelude::*;
use zerolag_core::{CpusetId, Leave, Partition};
use zerolag_model::settings::FairServer;
use zerolag_model::{CpuId, Duration, KernelVersion, RtBandwidth, SchedAttr, Settings, TaskId};

const CPUS: u32 = 4;

/// The possible events, by the remainder of a draw.
#[derive(Clone, Debug)]
enum Draw {
    Set { runtime_us: u64, period_ms: u64 },
    Unlimited,
    Follow(u32),
    Offline(u32),
    Online(u32),
    Join(u32, u16),
    Tick(u32),
    Timer(u32),
    Leave(u32),
}

fn draw() -> impl Strategy<Value = Draw> {
    let cpu = || 0..CPUS;
    prop_oneof![
        1 => (0..=8_u64, 4..=8_u64).prop_map(|(half, period_ms)| Draw::Set { runtime_us: half * 500, period_ms }),
        1 => Just(Draw::Unlimited),
        12 => cpu().prop_map(Draw::Follow),
        2 => cpu().prop_map(Draw::Offline),
        3 => cpu().prop_map(Draw::Online),
        2 => (cpu(), 0..2_u16).prop_map(|(cpu, set)| Draw::Join(cpu, set)),
        30 => cpu().prop_map(Draw::Tick),
        10 => cpu().prop_map(Draw::Timer),
        6 => cpu().prop_map(Draw::Leave),
    ]
}

/// A real-time hog per CPU except the last, which idles and lends.
fn world() -> World {
    let settings = Settings {
        rt_throttling: true,
        rt_runtime_share: true,
        rt_runtime: Duration::from_millis(2),
        rt_period: Duration::from_millis(6),
        fair_server: FairServer::Off,
        ..KernelVersion::V5_4.settings()
    };
    let cpusets = vec![((0..2).map(CpuId).collect(), Partition::Prepared)];
    let setup = Setup { settings, nr_cpus: CPUS, cpusets, nr_tasks: CPUS - 1, outside: 1, hints: Hints::Fresh };
    let mut world = World::new(setup);
    for task in 0..CPUS - 1 {
        let (by, task, attr) = (Agent(CPUS as usize), TaskId(task), SchedAttr::fifo_at(10));
        assert!(world.apply(&Event::Create { by, task, attr, affinity: None, cpuset: CpusetId::default() }));
        settle(&mut world);
    }
    world
}

/// Finishes all pending work.
fn settle(world: &mut World) {
    while let Some(agent) = (0..world.jobs.len()).find(|agent| !world.jobs[*agent].is_empty()) {
        assert!(world.apply(&Event::Go(Agent(agent))), "a job can be done");
    }
}

fn event(draw: &Draw) -> Event {
    match *draw {
        Draw::Set { runtime_us, period_ms } => {
            let runtime = Some(Duration::from_micros(runtime_us));
            Event::SetRtBandwidth { bandwidth: RtBandwidth { runtime, period: Duration::from_millis(period_ms) } }
        }
        Draw::Unlimited => {
            Event::SetRtBandwidth { bandwidth: RtBandwidth { runtime: None, period: Duration::from_millis(6) } }
        }
        Draw::Follow(cpu) => Event::FollowRtLimit { cpu: CpuId(cpu) },
        Draw::Offline(cpu) => Event::Offline { cpu: CpuId(cpu) },
        Draw::Online(cpu) => Event::Online { cpu: CpuId(cpu) },
        Draw::Join(cpu, set) => Event::Join { cpu: CpuId(cpu), partition: CpusetId(set) },
        Draw::Tick(cpu) => Event::Tick { cpu: CpuId(cpu) },
        Draw::Timer(cpu) => Event::Timer { cpu: CpuId(cpu) },
        Draw::Leave(cpu) => Event::Leave { cpu: CpuId(cpu), why: Leave::Preempted },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_cpus_lend_each_other_is_conserved(draws in prop::collection::vec(draw(), 1..200)) {
        let mut world = world();
        for draw in &draws {
            world.pass(Duration::from_micros(500));
            let event = event(draw);
            if world.apply(&event) {
                prop_assert_eq!(world.check(), Ok(()), "after {:?}", event);
                settle(&mut world);
                prop_assert_eq!(world.check(), Ok(()), "behind {:?}", event);
            }
        }
        // All CPUs follow, wherever the loans were: the sum is known again.
        for cpu in (0..CPUS).map(CpuId) {
            world.apply(&Event::FollowRtLimit { cpu });
        }
        prop_assert_eq!(world.check(), Ok(()));
    }
}
