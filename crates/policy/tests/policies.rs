//! The complete policies on a machine of the simplest kind: tasks that never sleep, and turns.
#![expect(clippy::unwrap_used, reason = "a test")]

use zerolag_model::{CpuId, Duration, GroupId, Instant, TaskId, Topology};
use zerolag_policy::policies::{Central, Fifo, Lottery, Vtime};
use zerolag_policy::{Arrival, Departure, Host, Policy, TaskInfo};

const SLICE: Duration = Duration::from_millis(4);

/// Runs tasks of these weights for so many turns of each CPU; returns the turns of each task.
fn turns(policy: impl Policy + 'static, cpus: u32, weights: &[u32], rounds: u64) -> Vec<u32> {
    let mut host = Host::load(Box::new(policy), &Topology::flat(cpus).unwrap(), SLICE);
    for (id, weight) in (0..).zip(weights) {
        let info = TaskInfo {
            comm: "t".into(),
            weight: *weight,
            group: GroupId::ROOT,
            allowed: None,
            cpu: CpuId(0),
            period: None,
        };
        host.add_task(TaskId(id), info, true);
        host.enqueue(TaskId(id), CpuId(0), Arrival::New, false);
    }
    let mut ran = vec![0; weights.len()];
    let mut running: Vec<Option<TaskId>> = vec![None; cpus as usize];
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
        host.set_now(Instant::from_nanos(round * SLICE.as_nanos()));
        for p in running.iter().flatten() {
            host.charge(*p, SLICE);
            ran[p.index()] += 1;
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
