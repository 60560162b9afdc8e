//! Whole runs without records: `cargo bench -p zerolag-sim --bench machine`.
//!
//! `hogs`: 20 busy tasks on 4 CPUs, ticks of 1 ms; elements are simulated seconds. `w4`, `w64`:
//! periodic task sets as rate-monotonic FIFO; elements are wakeups, switches and completions.
//! `light4096`: 16 384 real-time tasks on 4096 CPUs; `mixed256`: 2560 tasks of all kinds on 256.
//! Bars and figures: `docs/lab/speed.md`.

mod workloads;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use workloads::Workload;
use zerolag_model::Duration;
use zerolag_sim::NoTrace;

fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("machine");
    group.sample_size(20);
    for (name, millis) in [("hogs", 10_000), ("w4", 2_000), ("w64", 100), ("light4096", 20), ("mixed256", 50)] {
        let workload = Workload::named(name).expect("a workload");
        let duration = Duration::from_millis(millis);
        let stats = workload.machine(duration).run(&mut NoTrace).stats;
        let elements = match name {
            "hogs" => millis / 1_000,
            _ => stats.wakeups + stats.switches + stats.completions,
        };
        group.throughput(Throughput::Elements(elements));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || workload.machine(duration),
                |mut machine| machine.run(&mut NoTrace),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
