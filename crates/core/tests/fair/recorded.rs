//! One CPU at HZ=250, compared with switch sequences recorded on Debian's 6.12.95 and 6.1.192
//! kernels under virtual time.

use super::host::{Host, Program, at_ms};
use zerolag_model::{CpuId, Duration, GroupId, KernelVersion, Nice, SchedAttr, Topology};

fn host(version: KernelVersion) -> Host {
    Host::new(Topology::flat(1).expect("one CPU"), version.settings())
}

/// Returns the turns, with their lengths in hundredths of a tick, from a time on.
fn pattern(host: &Host, from_ms: u64, count: usize) -> Vec<(u32, u64)> {
    let starts = host.switches.iter().filter(|(at, _, _)| *at < at_ms(from_ms)).count();
    let stretches = host.stretches(CpuId(0));
    stretches[starts..].iter().take(count).map(|(task, ran)| (task.0, (ran.as_nanos() + 20_000) / 40_000)).collect()
}

/// Four hogs of nice 0, 5, -5 and 19 for five seconds: the number of turns of each.
///
/// Recorded: 6.12: 286, 93, 370, 4; 6.1: 284, 94, 359, 4. There kernel threads split some of the
/// turns of nice -5.
#[test]
fn hogs_of_four_nice_levels_run_as_often() {
    let recorded = [(KernelVersion::V6_12, [286, 93, 370, 4]), (KernelVersion::V6_1, [284, 94, 359, 4])];
    for (version, recorded) in recorded {
        let mut host = host(version);
        for level in [0, 5, -5, 19] {
            host.spawn(SchedAttr::nice(Nice::new(level).expect("nice")), GroupId::ROOT, None, Program::Hog);
        }
        host.run(at_ms(5000));
        let mut counts = [0_i32; 4];
        for (task, ran) in host.stretches(CpuId(0)) {
            counts[task.index()] += 1;
            assert!(ran.as_nanos().is_multiple_of(4_000_000), "whole ticks");
        }
        for (index, tolerance) in [2, 2, 15, 0].into_iter().enumerate() {
            assert!(counts[index].abs_diff(recorded[index]) <= tolerance, "{version}: {counts:?}, {recorded:?}");
        }
    }
}

/// A hog next to a task that runs 2.08 ms every 10 ms, woken alternately 0.24 and 2.24 ms into a
/// tick.
///
/// Recorded, in hundredths of a tick: EEVDF preempts every second run at the tick, because the
/// request of 0.7 ms is served by then; CFS lets it finish.
#[test]
fn a_light_sleeper_is_cut_at_the_tick_by_eevdf_only() {
    let (hog, sleeper) = (0, 1);
    let eevdf = [(sleeper, 52), (hog, 198), (sleeper, 44), (hog, 100), (sleeper, 8), (hog, 98)];
    let cfs = [(sleeper, 52), (hog, 198), (sleeper, 52), (hog, 198), (sleeper, 52), (hog, 198)];
    for (version, recorded) in [(KernelVersion::V6_12, eevdf), (KernelVersion::V6_1, cfs)] {
        let mut host = host(version);
        host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        host.advance(Duration::from_micros(240));
        let periodic = Program::Periodic(Duration::from_micros(2080), Duration::from_millis(10));
        host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, periodic);
        host.run(at_ms(5000));
        for from in [1000, 2000, 4000] {
            assert_eq!(pattern(&host, from, 6), recorded, "{version}");
        }
    }
}

/// Three hogs take turns in order, a tick each.
#[test]
fn three_hogs_go_round() {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        let mut host = host(version);
        for _ in 0..3 {
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        }
        host.run(at_ms(5000));
        let turns = pattern(&host, 1000, 300);
        assert!(turns.iter().all(|(_, ran)| *ran == 100), "{version}");
        assert!(
            turns.windows(4).all(|turn| turn[0] == turn[3] && turn[0] != turn[1] && turn[1] != turn[2]),
            "{version}"
        );
    }
}
