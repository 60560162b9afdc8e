//! The complete policies on a machine of the simplest kind: tasks that never sleep, and turns.
#![expect(clippy::unwrap_used, reason = "a test")]

use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TaskId, Topology};
use zerolag_policy::policies::{Central, Fifo, Flatcg, Linux, Lottery, Srtf, Vtime};
use zerolag_policy::{Arrival, Departure, Host, Policy, TaskInfo};

const SLICE: Duration = Duration::from_millis(4);

/// Runs tasks of these weights for so many turns of each CPU; returns the turns of each task.
fn turns(policy: impl Policy + 'static, cpus: u32, weights: &[u32], rounds: u64) -> Vec<u32> {
    let tasks: Vec<(u32, u32)> = weights.iter().map(|weight| (0, *weight)).collect();
    in_groups(policy, cpus, &[], &tasks, rounds)
}

/// A group: its parent, weight and limit. The first one has number 1, and 0 is the root.
type Group = (u32, u32, Option<CpuMax>);

/// The same with groups, and tasks of a group and a weight.
fn in_groups(
    policy: impl Policy + 'static,
    cpus: u32,
    groups: &[Group],
    tasks: &[(u32, u32)],
    rounds: u64,
) -> Vec<u32> {
    let mut host = Host::load(Box::new(policy), &Topology::flat(cpus).unwrap(), SLICE);
    for (id, (parent, weight, limit)) in (1..).zip(groups) {
        host.add_group(GroupId(id), GroupId(*parent), *weight);
        if let Some(limit) = limit {
            host.set_bandwidth(GroupId(id), *limit);
        }
    }
    for (id, (group, weight)) in (0..).zip(tasks) {
        let info = TaskInfo {
            comm: "t".into(),
            weight: *weight,
            group: GroupId(*group),
            allowed: None,
            cpu: CpuId(0),
            period: None,
        };
        host.add_task(TaskId(id), info, true);
        host.set_work(TaskId(id), Some(SLICE * u64::from(*weight)));
        host.enqueue(TaskId(id), CpuId(0), Arrival::New, false);
    }
    let mut ran = vec![0; tasks.len()];
    let mut running: Vec<Option<TaskId>> = vec![None; cpus as usize];
    let mut timer = None;
    for round in 1..=rounds {
        for cpu in (0..cpus).map(CpuId) {
            let prev = running[cpu.index()];
            host.dispatch(cpu, prev);
            if prev.is_some_and(|prev| host.keeps(cpu, prev)) {
                continue;
            }
            let next = host.local(cpu).next();
            if let Some(p) = next.filter(|p| host.home(*p) != Some(cpu)) {
                host.move_body(p);
                host.dequeue(p, Departure::Move, false);
                host.enqueue(p, cpu, Arrival::Again { moves: true }, false);
            }
            if let Some(prev) = prev {
                host.put_prev(prev, cpu, next.is_none());
            }
            if let Some(p) = next {
                host.set_next(p, cpu);
            }
            host.update_idle(cpu, next.is_none());
            running[cpu.index()] = next;
        }
        timer = host.take_timer().or(timer);
        let now = Instant::from_nanos(round * SLICE.as_nanos());
        host.set_now(now);
        for p in running.iter().flatten() {
            host.charge(*p, SLICE);
            ran[p.index()] += 1;
        }
        if timer.is_some_and(|at| at <= now) {
            timer = None;
            host.fire_timers();
        }
        host.take_effects();
    }
    assert_eq!(host.exit_info(), None);
    ran
}

#[test]
fn fifo_gives_each_task_its_turn() {
    assert_eq!(turns(Fifo, 2, &[100; 4], 200), [100; 4]);
    assert_eq!(turns(Fifo, 1, &[100, 300], 400), [200, 200], "weights do not count");
}

#[test]
fn vtime_shares_by_weight() {
    let [a, b] = turns(Vtime::default(), 1, &[100, 300], 400).try_into().unwrap();
    assert!(a.abs_diff(100) <= 1 && a + b == 400, "{a} {b}");
    let [a, b, c] = turns(Vtime::default(), 1, &[50, 100, 150], 600).try_into().unwrap();
    assert!(a.abs_diff(100) <= 3 && b.abs_diff(200) <= 3 && c.abs_diff(300) <= 3, "{a} {b} {c}");
}

#[test]
fn the_lottery_shares_by_weight_on_average() {
    for seed in 0..10 {
        let [a, b] = turns(Lottery::new(seed), 1, &[100, 300], 4000).try_into().unwrap();
        // The deviation of 4000 draws of probability 1/4 is 27.4: five of them.
        assert!(a.abs_diff(1000) < 137 && a + b == 4000, "seed {seed}: {a} {b}");
    }
    let again = || turns(Lottery::new(3), 1, &[100, 300], 400);
    assert_eq!(again(), again(), "the draws depend on the seed only");
}

#[test]
fn central_serves_all_cpus_from_one() {
    // Here CPU 0 decides once a round, so each other CPU idles for a round after each turn.
    let ran = turns(Central::default(), 4, &[100; 8], 400);
    assert!(ran.iter().sum::<u32>() >= 400 + 3 * 400 / 2 - 4, "{ran:?}");
    assert!(ran.iter().all(|turns| *turns >= 50), "every task has turns on some CPU: {ran:?}");
}

/// a (100) has b (100) and c (100); d (200) is beside a: 1/6, 1/6 and 2/3.
const NESTED: [Group; 4] = [(0, 100, None), (1, 100, None), (1, 100, None), (0, 200, None)];

#[test]
fn groups_share_by_weight_at_each_level() {
    fn shared(policy: impl Policy + 'static) {
        // b has one task and c two, of which one weighs three times the other.
        let name = policy.ops().name;
        let ran = in_groups(policy, 1, &NESTED, &[(2, 100), (3, 100), (3, 300), (4, 100)], 6_000);
        for (ran, wanted) in ran.iter().zip([1_000, 250, 750, 4_000]) {
            assert!(ran.abs_diff(wanted) <= 30, "{name}: {ran} turns of {wanted}");
        }
    }
    shared(Flatcg::default());
    shared(Linux::default());
}

#[test]
fn the_tasks_of_a_group_share_with_the_groups_below_it() {
    // Two tasks of a beside b: as one group of weight 100 in `flatcg`, as two tasks in `linux`.
    let tasks = [(1, 100), (1, 100), (2, 100)];
    let flat = in_groups(Flatcg::default(), 1, &NESTED, &tasks, 6_000);
    assert!(flat[2].abs_diff(3_000) <= 20 && flat[0].abs_diff(flat[1]) <= 20, "{flat:?}");
    let linux = in_groups(Linux::default(), 1, &NESTED, &tasks, 6_000);
    assert!(linux.iter().all(|ran| ran.abs_diff(2_000) <= 20), "{linux:?}");
}

#[test]
fn a_limit_is_kept_and_what_it_leaves_is_for_others() {
    fn limited(policy: impl Policy + Clone + 'static) {
        let name = policy.ops().name;
        let half = CpuMax { quota: Some(Duration::from_millis(50)), ..CpuMax::UNLIMITED };
        // The limit of a holds for b, and for all CPUs together.
        let groups = [(0, 100, Some(half)), (1, 100, None), (0, 100, None)];
        for cpus in [1, 4] {
            let tasks = [(2, 100), (2, 100), (3, 100), (3, 100), (3, 100), (3, 100)];
            let ran = in_groups(policy.clone(), cpus, &groups, &tasks, 5_000);
            let (limited, others) = (ran[0] + ran[1], ran[2..].iter().sum::<u32>());
            assert!(limited.abs_diff(2_500) <= 40, "{name}: {limited} turns of 2500 on {cpus} CPUs");
            assert!(others >= 5_000 * cpus - 2_500 - 40, "{name}: {others} turns on {cpus} CPUs");
        }
        // Alone, it leaves the CPU idle.
        let alone = in_groups(policy, 2, &groups, &[(1, 100), (2, 100)], 5_000);
        assert!(alone.iter().sum::<u32>().abs_diff(2_500) <= 40, "{name}: {alone:?}");
    }
    limited(Flatcg::default());
    limited(Linux::default());
}

#[test]
fn linux_shares_by_weight_also_where_one_task_cannot_use_its_share() {
    let ran = turns(Linux::default(), 1, &[100, 300], 4_000);
    assert!(ran[0].abs_diff(1_000) <= 5, "{ran:?}");
    // The heavy task has one CPU, and the three others share the other one.
    let ran = turns(Linux::default(), 2, &[10_000, 100, 100, 200], 4_000);
    assert!(ran[0] >= 3_990, "{ran:?}");
    for (ran, wanted) in ran[1..].iter().zip([1_000, 1_000, 2_000]) {
        assert!(ran.abs_diff(wanted) <= 60, "{ran} turns of {wanted}");
    }
}

#[test]
fn srtf_runs_the_task_that_has_least_to_do() {
    // Their work is that of so many slices: the shortest ones go first, one per CPU.
    assert_eq!(turns(Srtf::default(), 2, &[50, 20, 30, 10], 10), [0, 10, 0, 10]);
    assert_eq!(turns(Srtf::default(), 1, &[50, 20, 30], 20), [0, 20, 0]);
}
