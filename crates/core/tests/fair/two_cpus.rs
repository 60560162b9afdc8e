//! Two CPUs for five seconds against recorded shares (Linux 6.12.95, virtual time).

use crate::host::{Host, Program, at_ms};
use zerolag_core::Weight;
use zerolag_model::{GroupId, KernelVersion, Nice, SchedAttr, Topology};

struct Case {
    name: &'static str,
    /// `cpu.weight` of groups 1, 2, ...
    weights: &'static [u64],
    /// Nice level and group of each hog, and its recorded share of one CPU in percent.
    hogs: &'static [(i64, usize, f64)],
    /// Points by which a share may differ. Where tasks take turns in being moved, the kernel's own runs differ by as
    /// much.
    tolerance: f64,
}

const CASES: [Case; 5] = [
    Case { name: "three hogs", weights: &[], hogs: &[(0, 0, 67.3), (0, 0, 69.6), (0, 0, 63.0)], tolerance: 7.0 },
    Case {
        name: "five hogs",
        weights: &[],
        hogs: &[(0, 0, 39.0), (0, 0, 39.8), (0, 0, 40.0), (0, 0, 41.0), (0, 0, 40.0)],
        tolerance: 4.0,
    },
    Case { name: "nice 0, 19, 19", weights: &[], hogs: &[(0, 0, 100.0), (19, 0, 49.9), (19, 0, 49.9)], tolerance: 0.5 },
    Case {
        name: "two hogs at weight 100, two at 300",
        weights: &[100, 300],
        hogs: &[(0, 1, 25.0), (0, 1, 25.0), (0, 2, 75.0), (0, 2, 75.0)],
        tolerance: 0.5,
    },
    Case {
        name: "four hogs at weight 100, one at 100",
        weights: &[100, 100],
        hogs: &[(0, 1, 25.0), (0, 1, 25.0), (0, 1, 25.0), (0, 1, 25.0), (0, 2, 99.8)],
        tolerance: 1.0,
    },
];

#[test]
fn shares_are_the_recorded_ones() {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        for case in CASES {
            let mut host = Host::new(Topology::flat(2).expect("2 CPUs"), version.settings());
            let mut groups = vec![GroupId::ROOT];
            for weight in case.weights {
                let weight = Weight::from_cpu_weight(*weight).expect("1..=10000");
                groups.push(host.sched.create_group(GroupId::ROOT, weight).expect("a group"));
            }
            for (nice, group, _) in case.hogs {
                let attr = SchedAttr::nice(Nice::new(*nice).expect("-20..=19"));
                host.spawn(attr, groups[*group], None, Program::Hog);
            }
            host.run(at_ms(5000));
            let shares: Vec<f64> = host.tasks.iter().map(|task| task.exec.as_nanos() as f64 / 5e7).collect();
            for (share, (_, _, recorded)) in shares.iter().zip(case.hogs) {
                let is_close = (share - recorded).abs() <= case.tolerance;
                assert!(is_close, "{version} {}: {shares:.1?}, recorded {:?}", case.name, case.hogs);
            }
        }
    }
}
