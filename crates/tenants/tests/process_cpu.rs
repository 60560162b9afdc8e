//! A limit holds for all that a tenant costs the process, with ordinary code of tokio: the CPU time
//! of the whole process, as the kernel counts it, compared with the quota.
//!
//! Each row has a process of its own, whose CPU time has no other part: this binary again, which
//! runs the row that its environment names. Most rows leave the machine idle, so they run at the
//! same time. Each tenant runs until the process has used a fixed amount of CPU time, so a busy
//! machine makes it longer and not different.
#![expect(clippy::disallowed_methods, reason = "limits hold in real time")]

use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use zerolag_tenants::{Builder, Group};

fn cpu_time(of: ClockId) -> Duration {
    let used = clock_gettime(of);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Gate = Arc<AtomicBool>;

fn is_closed(gate: &Gate) -> bool {
    !gate.load(Ordering::Acquire)
}

fn polls(gate: Gate, length: Duration) -> Work {
    Box::pin(async move {
        while is_closed(&gate) {
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
        while is_closed(&gate) {
            yield_now().await;
        }
    })
}

/// Sleeps that the timer of tokio rounds up to 1 ms, many at a time.
fn sleeps(gate: Gate, group: &Group) -> Work {
    let group = group.clone();
    Box::pin(async move {
        let sleeper = |gate: Gate| async move {
            while is_closed(&gate) {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        };
        let tasks: Vec<_> = (0..100).map(|_| group.spawn(sleeper(Arc::clone(&gate))).expect("a task")).collect();
        for task in tasks {
            task.await.expect("a result");
        }
    })
}

fn spawns(gate: Gate) -> Work {
    Box::pin(async move {
        while is_closed(&gate) {
            let tasks: Vec<_> = (0..10).map(|_| zerolag_tenants::spawn(async {}).expect("a group")).collect();
            for task in tasks {
                task.await.expect("a result");
            }
        }
    })
}

/// A channel with a backlog: the receiver is never without a message.
fn backlog(gate: &Gate, group: &Group) -> Work {
    let (to, mut messages) = tokio::sync::mpsc::channel::<u64>(1000);
    let sender = {
        let gate = Arc::clone(gate);
        group.wrap(async move { while is_closed(&gate) && to.send(1).await.is_ok() {} })
    };
    let group = group.clone();
    Box::pin(async move {
        let sender = group.spawn(sender).expect("a task");
        while messages.recv().await.is_some() {
            std::hint::black_box(&messages);
        }
        sender.await.expect("a result");
    })
}

/// Returns the CPU time of the process, and that of the groups as they count it, both compared with
/// the quota.
async fn measure(groups: usize, quota: f64, cost: Duration, work: impl Fn(Gate, &Group) -> Work) -> [f64; 2] {
    // There are no other tasks, so all of the executor's work is theirs.
    let rt = Builder::new().between_polls(Duration::MAX).build().expect("no second runtime");
    let gate = Gate::default();
    let made: Vec<_> = (0..groups)
        .map(|n| {
            let group = rt.group(format!("g{n}")).quota(quota / groups as f64).create().expect("a group");
            let tasks: Vec<_> = (0..2).map(|_| group.spawn(work(Arc::clone(&gate), &group)).expect("a task")).collect();
            (group, tasks)
        })
        .collect();
    let usage = || made.iter().map(|(group, _)| group.usage().cpu.as_secs_f64()).sum::<f64>();
    let process = || cpu_time(ClockId::ProcessCPUTime);
    // The quota of the first period is there at the start, and each group begins with a poll or a
    // reading of the clock too much: of a small quota that is paid for seconds.
    let begins = if quota / (groups as f64) < 0.01 { 4_000 } else { 300 };
    tokio::time::sleep(Duration::from_millis(begins)).await;
    let (began, had, counted) = (Instant::now(), process(), usage());
    while process() - had < cost {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (used, promised) = ((process() - had).as_secs_f64(), began.elapsed().as_secs_f64() * quota);
    let counted = usage() - counted;
    gate.store(true, Ordering::Release);
    for (group, tasks) in made {
        group.set_quota(None).expect("no limit is in range");
        for task in tasks {
            task.await.expect("a result");
        }
    }
    [used / promised, counted / promised]
}

/// Groups and the quota of all together.
const ROWS: [(usize, f64); 5] = [(1, 0.01), (1, 0.1), (20, 0.4), (200, 0.5), (1, 1.5)];
const ROW: &str = "ZEROLAG_TEST_ROW";

#[test]
fn a_limit_holds_for_all_that_a_tenant_costs() {
    if let Ok(row) = std::env::var(ROW) {
        let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        let (groups, quota) = ROWS[row.parse::<usize>().expect("a number")];
        return rt.block_on(check(groups, quota));
    }
    let start = |row: &usize| {
        let mut test = Command::new(std::env::current_exe().expect("a path"));
        test.args(["--exact", "a_limit_holds_for_all_that_a_tenant_costs", "--nocapture"]).env(ROW, row.to_string());
        test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
    };
    let mut wrong = Vec::new();
    // The last needs most of two CPUs.
    for side_by_side in [&[0, 1, 2, 3][..], &[4]] {
        let rows: Vec<_> = side_by_side.iter().map(start).collect();
        for row in rows {
            let said = row.wait_with_output().expect("it ends");
            print!("{}", String::from_utf8_lossy(&said.stdout));
            if !said.status.success() {
                wrong.push(String::from_utf8_lossy(&said.stderr).into_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn check(groups: usize, quota: f64) {
    let mut wrong = Vec::new();
    let mut check = |name: &str, found: [f64; 2]| {
        println!("{name:>14} {groups:>3} groups, quota {quota}: process {:.3}, usage {:.3}", found[0], found[1]);
        if found[0] > 1.15 || (found[0] / found[1] - 1.0).abs() > 0.1 {
            wrong.push(format!("{name}, {groups} groups, quota {quota}: {found:?}"));
        }
    };
    let (us, ms) = (Duration::from_micros, Duration::from_millis);
    let cost = Duration::from_secs_f64(f64::clamp(3.0 * quota, 0.03, if groups == 200 { 1.0 } else { 0.3 }));
    check("polls of 10us", measure(groups, quota, cost, |gate, _| polls(gate, us(10))).await);
    // One poll more or less is too much of 0.01 CPUs for a group.
    if quota / (groups as f64) > 0.01 {
        check("polls of 5ms", measure(groups, quota, cost, |gate, _| polls(gate, ms(5))).await);
    }
    check("yields", measure(groups, quota, cost, |gate, _| yields(gate)).await);
    if groups < 200 && quota < 0.4 {
        check("sleeps", measure(groups, quota, cost, sleeps).await);
    }
    check("spawns", measure(groups, quota, cost, |gate, _| spawns(gate)).await);
    check("backlog", measure(groups, quota, cost, |gate, group| backlog(&gate, group)).await);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
