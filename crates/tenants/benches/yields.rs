//! The cost of a poll in a group, compared with tokio's own: alternating runs of tasks that yield.
//!
//!     cargo bench -p zerolag-tenants

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use zerolag_tenants::{Builder, Group};

const TASKS: u32 = 4;
const YIELDS: u32 = 100_000;

fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// Returns the CPU time of a yield, in nanoseconds.
fn measure(tokio: &tokio::runtime::Runtime, groups: &[Group]) -> f64 {
    let began = cpu_time();
    tokio.block_on(async {
        let yields = || async {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| match groups {
                [] => tokio::spawn(yields()),
                groups => tokio::spawn(groups[n as usize % groups.len()].wrap(yields())),
            })
            .collect();
        for task in tasks {
            task.await.expect("a result");
        }
    });
    (cpu_time() - began).as_nanos() as f64 / f64::from(TASKS * YIELDS)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let rt = Builder::new().build().expect("a runtime");
    let free: Vec<_> = (0..4).map(|n| rt.group(format!("free{n}")).create().expect("a group")).collect();
    let limited: Vec<_> =
        (0..4).map(|n| rt.group(format!("limited{n}")).quota(4.0).create().expect("a group")).collect();
    println!("{:<28} {:>8} {:>8} {:>6}", "4 tasks that yield, ns", "tokio", "in group", "ratio");
    for workers in [1, 2] {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        let tokio = tokio.expect("threads");
        for (name, groups) in [
            ("one group", &free[..1]),
            ("one group with a limit", &limited[..1]),
            ("four groups", &free[..]),
            ("four groups with limits", &limited[..]),
        ] {
            let (mut plain, mut grouped) = (Vec::new(), Vec::new());
            for _ in 0..9 {
                plain.push(measure(&tokio, &[]));
                grouped.push(measure(&tokio, groups));
            }
            let ratios = plain.iter().zip(&grouped).map(|(plain, grouped)| grouped / plain).collect();
            let (plain, grouped) = (median(plain), median(grouped));
            println!("{name:<24} {workers} w {plain:>8.0} {grouped:>8.0} {:>6.2}", median(ratios));
        }
    }
}
