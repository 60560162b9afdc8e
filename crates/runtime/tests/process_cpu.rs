//! A limit holds for all that a tenant costs the process: the CPU time of the whole process, as the
//! kernel counts it, compared with the quota. The runtime's own work (switches, wakeups, timers,
//! starts of tasks, ticks) is charged to the group that causes it.
//!
//! Each row has a process of its own, whose CPU time has no other part: this binary again, which
//! runs the row that its environment names. The rows leave half of two CPUs idle, so they run at
//! the same time. Each tenant runs until the process has used a fixed amount of CPU time, so a
//! busy machine makes it longer and not different.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, ms};
use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, Group, sleep, yield_now};

fn cpu_time(of: ClockId) -> Duration {
    let used = clock_gettime(of);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

fn polls(gate: Gate, length: Duration) -> Work {
    Box::pin(async move {
        while !gate.is_open() {
            let end = cpu_time(ClockId::ThreadCPUTime) + length;
            while cpu_time(ClockId::ThreadCPUTime) < end {
                std::hint::spin_loop();
            }
            yield_now().await;
        }
    })
}

fn yields(gate: Gate) -> Work {
    Box::pin(async move {
        while !gate.is_open() {
            yield_now().await;
        }
    })
}

fn sleeps(gate: Gate) -> Work {
    Box::pin(async move {
        while !gate.is_open() {
            sleep(Duration::from_micros(50)).await;
        }
    })
}

fn spawns(gate: Gate, group: Group) -> Work {
    Box::pin(async move {
        while !gate.is_open() {
            let tasks: Vec<_> = (0..10).map(|_| group.spawn(async {}).expect("room")).collect();
            for task in tasks {
                task.await.expect("a result");
            }
        }
    })
}

fn messages(gate: Gate, group: Group) -> Work {
    Box::pin(async move {
        let (to, mut requests) = tokio::sync::mpsc::channel::<u64>(1);
        let (back, mut answers) = tokio::sync::mpsc::channel::<u64>(1);
        let partner = group.spawn(async move {
            while let Some(n) = requests.recv().await {
                if back.send(n).await.is_err() {
                    return;
                }
            }
        });
        while !gate.is_open() {
            to.send(1).await.expect("it receives");
            answers.recv().await.expect("it answers");
        }
        drop(to);
        partner.expect("room").await.expect("a result");
    })
}

/// Returns the CPU time of the process, and that of the groups as the runtime counts it, both
/// compared with the quota.
fn measure(groups: usize, quota: f64, cost: Duration, work: impl Fn(Gate, Group) -> Work) -> [f64; 2] {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let gate = Gate::new();
    let made: Vec<_> = (0..groups)
        .map(|n| {
            let group = rt.group(format!("g{n}")).quota(quota / groups as f64).create().expect("a group");
            let tasks: Vec<_> = (0..2).map(|_| group.spawn(work(gate.clone(), group.clone())).expect("room")).collect();
            (group, tasks)
        })
        .collect();
    let usage = || made.iter().map(|(group, _)| group.usage().cpu.as_secs_f64()).sum::<f64>();
    let process = || cpu_time(ClockId::ProcessCPUTime);
    // The quota of the first period is there at the start, so the first periods do not count.
    std::thread::sleep(ms(300));
    let (began, had, counted) = (Instant::now(), process(), usage());
    while process() - had < cost {
        std::thread::sleep(ms(100));
    }
    let (used, promised) = ((process() - had).as_secs_f64(), began.elapsed().as_secs_f64() * quota);
    let counted = usage() - counted;
    gate.open();
    for (group, tasks) in made {
        group.set_quota(None).expect("no limit is in range");
        for task in tasks {
            rt.block_on(task).expect("a result");
        }
    }
    [used / promised, counted / promised]
}

/// Groups and the quota of all together.
const ROWS: [(usize, f64); 3] = [(1, 0.1), (1, 0.5), (20, 0.4)];
const ROW: &str = "ZEROLAG_TEST_ROW";

#[test]
fn a_limit_holds_for_all_that_a_tenant_costs() {
    if let Ok(row) = std::env::var(ROW) {
        let (groups, quota) = ROWS[row.parse::<usize>().expect("a number")];
        return check(groups, quota);
    }
    let rows = (0..ROWS.len()).map(|row| {
        let mut test = Command::new(std::env::current_exe().expect("a path"));
        test.args(["--exact", "a_limit_holds_for_all_that_a_tenant_costs", "--nocapture"]).env(ROW, row.to_string());
        test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
    });
    let mut wrong = Vec::new();
    for row in rows.collect::<Vec<_>>() {
        let said = row.wait_with_output().expect("it ends");
        print!("{}", String::from_utf8_lossy(&said.stdout));
        if !said.status.success() {
            wrong.push(String::from_utf8_lossy(&said.stderr).into_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(groups: usize, quota: f64) {
    let mut wrong = Vec::new();
    let cost = Duration::from_secs_f64(1.5 * quota);
    let mut check = |name: &str, found: [f64; 2]| {
        println!("{name:>14} {groups:>3} groups, quota {quota}: process {:.3}, usage {:.3}", found[0], found[1]);
        if found[0] > 1.15 || (found[0] / found[1] - 1.0).abs() > 0.05 {
            wrong.push(format!("{name}, {groups} groups, quota {quota}: {found:?}"));
        }
    };
    check("polls of 0.1ms", measure(groups, quota, cost, |gate, _| polls(gate, ms(1) / 10)));
    check("yields", measure(groups, quota, cost, |gate, _| yields(gate)));
    check("sleeps", measure(groups, quota, cost, |gate, _| sleeps(gate)));
    check("spawns", measure(groups, quota, cost, spawns));
    check("messages", measure(groups, quota, cost, messages));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
