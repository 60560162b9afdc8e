//! Changes at given times: limits, attributes, partitions, groups and threads that are created and
//! removed, pools that follow a quota.

use zerolag_model::{CpuMax, Duration, Nice, SchedAttr};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::GroupWeight;
use zerolag_workload::{LoadOptions, Scenario, load};

const TASK: &str = "[group.\"/a\"]\n[task.a]\nsteps = [{ run = \"1ms\" }, { sleep = \"1ms\" }]\n";

fn read(text: &str) -> Result<Scenario, String> {
    load("f.toml", text.as_bytes(), &LoadOptions::default()).map_err(|errors| errors.to_string())
}

fn good(text: &str) -> Scenario {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn limit(quota: u64, period: u64) -> CpuMax {
    CpuMax { quota: Some(Duration::from_millis(quota)), period: Duration::from_millis(period), ..CpuMax::UNLIMITED }
}

fn max_of(change: &TimedChange) -> CpuMax {
    match change.what {
        Change::Max { max, .. } => max,
        ref other => panic!("{other:?}"),
    }
}

fn seconds(changes: &[TimedChange]) -> Vec<(f64, Change)> {
    changes.iter().map(|change| (change.at.as_nanos() as f64 / 1e9, change.what.clone())).collect()
}

#[test]
fn limits_change_in_the_middle_of_a_run() {
    let text = "[group.\"/a\"]\n\"cpu.max\" = \"50000 100000\"\n\
                changes = [{ at = \"1s\", \"cpu.max.burst\" = 20000 }, { at = \"2s\", \"cpu.max\" = \"max\" }]\n\
                [task.t]\ngroup = \"/a\"\nsteps = [{ run = \"1ms\" }]\n";
    let changes = good(text).program.changes;
    let says: Vec<_> = changes.iter().map(|change| (change.at.to_string(), max_of(change).to_string())).collect();
    let expected = [("1s", "50000 100000 (burst 20000)"), ("2s", "max 100000 (burst 20000)")];
    assert_eq!(says, expected.map(|(at, max)| (at.to_string(), max.to_string())));
}

#[test]
fn partitions_change_in_the_middle_of_a_run() {
    let text = "[cpuset.a]\ncpus = \"0-1\"\npartition = \"root\"\nchanges = [{ at = \"2s\", partition = \"member\" }]\n\
                [cpuset.b]\ncpus = \"1-2\"\nchanges = [{ at = \"2s\", partition = \"root\" }]\n\
                [task.t]\nsteps = [{ run = \"1ms\" }]\n";
    let of = |change: TimedChange| match change.what {
        Change::Partition { cpuset, is_root } => (change.at.to_string(), cpuset, is_root),
        other => panic!("{other:?}"),
    };
    let says: Vec<_> = good(text).program.changes.into_iter().map(of).collect();
    assert_eq!(says, [("2s".to_string(), 0, false), ("2s".to_string(), 1, true)], "one ends before the other begins");
    for (from, to, message) in [
        ("\"2s\", partition = \"member\"", "\"3s\", partition = \"member\"", "partitions `a` and `b` share CPUs 1"),
        ("at = \"2s\", partition = \"member\"", "partition = \"member\"", "a change has no time"),
        ("partition = \"member\"", "cpus = \"1\"", "unknown key `cpus` in a change of a cpuset"),
        (", partition = \"member\"", "", "a change changes nothing"),
        ("\"member\"", "\"isolated\"", "`cpuset.cpus.partition` = \"isolated\" is unknown"),
    ] {
        assert!(text.contains(from), "{from}");
        let errors = read(&text.replacen(from, to, 1)).expect_err(message);
        assert!(errors.contains(message), "{message}: {errors}");
    }
}

#[test]
fn changes_are_of_tasks_or_groups_in_order_of_time() {
    let text = "[group.\"/a\"]\n\"cpu.max\" = \"50000 100000\"\nchanges = [{ at = \"3s\", \"cpu.weight\" = 300 }]\n\
                [task.a]\nnice = 3\nslice = \"3ms\"\nsteps = [{ run = \"1ms\" }]\n\
                [[change]]\nat = \"2s\"\ntask = \"a\"\nnice = 5\ncpus = \"0\"\ngroup = \"/a\"\n\
                [[change]]\nat = \"1s\"\ngroup = \"/a\"\n\"cpu.max\" = \"20000\"\n\"cpu.weight\" = 50\n\
                [[change]]\nat = \"4s\"\ngroup = \"/a\"\ncpu.idle = 1\n\
                [[change]]\nat = \"4s\"\ntask = \"a\"\nstart = 2\n[[change]]\nat = \"5s\"\ntask = \"a\"\nend = true\n";
    let program = good(text).program;
    let SchedAttr::Fair { policy, slice, .. } = program.tasks[0].attr else { panic!("a fair task") };
    let attr = SchedAttr::Fair { policy, nice: Nice::new(5).unwrap(), slice };
    let cpus = Some(std::sync::Arc::new("0".parse().unwrap()));
    let expected = [
        (1, Change::Weight { group: 0, weight: GroupWeight::Weight(50) }),
        (1, Change::Max { group: 0, max: limit(20, 100) }),
        (2, Change::Attr { task: 0, attr }),
        (2, Change::Affinity { task: 0, cpus }),
        (2, Change::Group { task: 0, group: Some(0) }),
        (3, Change::Weight { group: 0, weight: GroupWeight::Weight(300) }),
        (4, Change::Idle { group: 0, is_idle: true }),
        (4, Change::Start { task: 0, count: 2 }),
        (5, Change::End { task: 0 }),
    ];
    let changes: Vec<_> =
        program.changes.into_iter().map(|change| (change.at.as_nanos() / 1_000_000_000, change.what)).collect();
    assert_eq!(changes, expected);
    for (change, says) in [
        ("task = \"a\"\nnice = 5", "a change has no time"),
        ("at = \"1s\"\nnice = 5", "a change that names nothing to change"),
        ("at = \"1s\"\ntask = \"b\"\nnice = 5", "there is no task `b`"),
        ("at = \"1s\"\ntask = \"a\"\nnise = 5", "did you mean `nice`?"),
        ("at = \"1s\"\ntask = \"a\"", "a change that changes nothing"),
        ("at = \"1s\"\ntask = \"a\"\nend = false", "`end` is true or left out"),
        ("at = \"1s\"\ngroup = \"/a\"", "a change that changes nothing"),
        ("at = \"1s\"\ngroup = \"/a\"\ncpu.idle = 1\ncpu.weight = 3", "`cpu.weight` of a group that is idle (EINVAL)"),
        ("at = \"1s\"\ngroup = \"/a\"\ncpu.idle = 2", "2 is outside 0..=1"),
        ("at = \"1s\"\ngroup = \"/a\"\ncpu.cfs_bandwidth_slice_us = 0", "slice 0ns is outside"),
        ("at = \"1s\"\ngroup = \"/a\"\ncpu.weight.nice = 20", "20 is outside -20..=19"),
        ("at = \"1s\"\ngroup = \"/\"\n\"cpu.weight\" = 1", "the root group has no weight"),
        ("at = \"1s\"\ngroup = \"/a\"\n\"cpu.weigth\" = 1", "did you mean `cpu.weight`?"),
    ] {
        let said = read(&format!("{TASK}[[change]]\n{change}\n")).expect_err("refused");
        assert!(said.contains(says), "{change}\n{said}");
    }
}

#[test]
fn groups_and_tasks_come_and_go() {
    let text = "[group.\"/pod\"]\n\"cpu.max\" = \"50000 100000\"\nfrom = \"2s\"\nuntil = \"8s\"\n[group.\"/pod/a\"]\n\
                [task.a]\ngroup = \"/pod/a\"\ninstances = 2\ndelay = \"1s\"\nsteps = [{ run = \"1ms\" }]\n\
                [task.b]\nuntil = \"4s\"\nsteps = [{ run = \"1ms\" }]\n\
                [[change]]\nat = \"9s\"\ngroup = \"/pod\"\ncreate = true\n\
                [[change]]\nat = \"9.5s\"\ngroup = \"/pod\"\n\"cpu.max.burst\" = 1000\n";
    let program = good(text).program;
    let burst = CpuMax { burst: Duration::from_millis(1), ..limit(50, 100) };
    let expected = [
        (2.0, Change::Create { group: 0 }),
        (4.0, Change::End { task: 1 }),
        (8.0, Change::Remove { group: 0 }),
        (9.0, Change::Create { group: 0 }),
        (9.5, Change::Max { group: 0, max: burst }),
    ];
    assert_eq!(seconds(&program.changes), expected);
    let starts: Vec<_> =
        program.plan().into_iter().filter(|change| matches!(change.what, Change::Start { .. })).collect();
    let start = || Change::Start { task: 0, count: 2 };
    assert_eq!(seconds(&starts), [(3.0, start()), (10.0, start())]);
    for (change, says) in [
        ("[[change]]\nat = \"1s\"\ngroup = \"/pod\"\ncreate = true", "group `/pod` already exists at 2s"),
        ("[[change]]\nat = \"10s\"\ngroup = \"/pod\"\ncreate = true", "already exists at 10s (since 9s)"),
        (
            "[[change]]\nat = \"8s\"\ngroup = \"/pod/a\"\nremove = true",
            "group `/pod/a` does not exist at 8s (since 8s)",
        ),
        (
            "[[change]]\nat = \"8.5s\"\ngroup = \"/pod/a\"\ncreate = true",
            "the group above `/pod/a` does not exist at 8.5s",
        ),
        ("[[change]]\nat = \"8s\"\ngroup = \"/pod\"\ncreate = true", "its tasks need time to end"),
        ("[[change]]\nat = \"1s\"\ngroup = \"/pod\"\n\"cpu.weight\" = 7", "group `/pod` does not exist at 1s"),
        ("[[change]]\nat = \"1s\"\ntask = \"b\"\ngroup = \"/pod/a\"", "group `/pod/a` does not exist at 1s"),
        ("[[change]]\nat = \"1s\"\ngroup = \"/x\"\ncreate = true\nremove = true", "both creates and removes"),
        ("[[change]]\nat = \"1s\"\ngroup = \"/x\"\ncreate = false", "`create` is true or left out"),
        ("[task.c]\ndelay = \"2s\"\nuntil = \"2s\"\nsteps = [{ run = \"1ms\" }]", "it would end before it begins"),
    ] {
        let said = read(&format!("{text}{change}\n")).expect_err(change);
        assert!(said.contains(says), "{change}\n{said}");
    }
}

#[test]
fn pools_follow_the_quota_of_their_group() {
    let text = "[machine]\ncpus = 8\n[group.\"/a\"]\n\"cpu.max\" = \"150000 100000\"\n\
                changes = [{ at = \"1.2s\", \"cpu.max\" = \"450000\" }, { at = \"3s\", \"cpu.max\" = \"max\" },\n\
                { at = \"4.1s\", \"cpu.max\" = \"20000\" }, { at = \"4.9s\", \"cpu.max\" = \"900000\" },\n\
                { at = \"5.5s\", \"cpu.max\" = \"30000\" }]\n[group.\"/a/b\"]\n[group.\"/c\"]\n\
                [[change]]\nat = \"1s\"\ngroup = \"/c\"\n\"cpu.max\" = \"100000\"\n\
                [task.pool]\ngroup = \"/a/b\"\ninstances = { follow = \"quota\", min = 2 }\nsteps = [{ run = \"1ms\" }]\n\
                [service.web]\ngroup = \"/a\"\nworkers = { follow = \"quota\", every = \"500ms\" }\n\
                arrivals = { fixed = \"9/s\" }\nsteps = [{ run = \"1ms\" }]\n";
    let program = good(text).program;
    assert_eq!((program.tasks[0].instances, program.tasks[1].instances), (2, 2), "150 % of a CPU, rounded up");
    let of = |wanted| {
        let resize = |change: &TimedChange| match change.what {
            Change::Resize { task, threads } if task == wanted => Some((change.at.as_nanos() / 1_000_000, threads)),
            _ => None,
        };
        program.changes.iter().filter_map(resize).collect::<Vec<_>>()
    };
    // A value that is set and set again between two readings is never seen: at 5 s the limit is far
    // above the machine, as at 4 s.
    assert_eq!(of(0), [(2_000, 5), (3_000, 8), (6_000, 2)]);
    assert_eq!(of(1), [(1_500, 5), (3_000, 8), (4_500, 1), (5_000, 8), (5_500, 1)]);
    for (pool, says) in [
        ("{ follow = \"load\" }", "`follow` = \"load\" is unknown"),
        ("{ every = \"1s\" }", "`instances` does not say what it follows"),
        ("{ follow = \"quota\", every = \"0s\" }", "it would read its limit without end"),
        ("{ follow = \"quota\", max = 3 }", "unknown key `max`"),
        ("\"quotas\"", "is not a number of threads"),
    ] {
        let said = read(&format!("[task.a]\ninstances = {pool}\nsteps = [{{ run = \"1ms\" }}]\n")).expect_err(pool);
        assert!(said.contains(says), "{pool}\n{said}");
    }
}
