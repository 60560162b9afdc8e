//! The fair class on one CPU, through the scheduler's entry points:
//! `cargo bench -p zerolag-core --bench fair`.
//!
//! `switch`: the current task has used its slice and is left, another is picked (put and pick).
//! `wake, pick, put`: as `switch`, but the current task has woken another before; that task's
//! blocking is not measured. `block, wake, 2 switches`: a task blocks, wakes, and is switched to.
//! `tick`: the current task's tick without a switch.

#[path = "../tests/support/one_queue.rs"]
mod one_queue;

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use one_queue::{Bench, SLEEPERS};
use std::time::{Duration, Instant};
use zerolag_model::KernelVersion;

fn benches(c: &mut Criterion) {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        for tasks in [8, 64, 1000] {
            let mut bench = Bench::new(version, tasks, 0);
            c.bench_function(&format!("{version}/switch/{tasks}"), |b| b.iter(|| bench.switch()));
        }
        for (tasks, depth) in [(64, 0), (64, 3)] {
            let mut bench = Bench::new(version, tasks + SLEEPERS / 2, depth);
            let name = format!("{version}/wake, pick, put/{tasks}/depth {depth}");
            c.bench_function(&name, |b| wake_pick_put(b, &mut bench));
            let mut bench = Bench::new(version, tasks, depth);
            let name = format!("{version}/block, wake, 2 switches/{tasks}/depth {depth}");
            c.bench_function(&name, |b| b.iter(|| bench.block_and_wake()));
            let mut bench = Bench::new(version, tasks, depth);
            c.bench_function(&format!("{version}/tick/{tasks}/depth {depth}"), |b| b.iter(|| bench.tick()));
        }
    }
}

/// The clock is read once for all sleepers: one read costs a tenth of the measured operation.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn wake_pick_put(b: &mut Bencher<'_>, bench: &mut Bench) {
    b.iter_custom(|rounds| {
        let mut spent = Duration::ZERO;
        let mut left = rounds;
        while left > 0 {
            bench.fall_asleep();
            let batch = left.min(SLEEPERS as u64);
            let begin = Instant::now();
            for _ in 0..batch {
                bench.wake_pick_put();
            }
            spent += begin.elapsed();
            left -= batch;
        }
        spent
    });
}

criterion_group! {
    name = fair;
    config = Criterion::default().warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000));
    targets = benches
}
criterion_main!(fair);
