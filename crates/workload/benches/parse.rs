//! The speed of reading workload files: valid ones, and ones that contain nothing but mistakes.

mod inputs;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use inputs::{rtapp, scenario};
use zerolag_workload::{LoadOptions, load};

fn reading(criterion: &mut Criterion) {
    let duplicates = format!("{{\"tasks\": {{\"a\": {{{}\"sleep\": 5}}}}}}", "\"run\": 1, ".repeat(1_000_000));
    let nested = "[".repeat(100_000);
    let wrong = format!("{{\"tasks\": {{\"a\": {{{}}}}}}}", "\"run\": \"x\", ".repeat(700_000));
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for (name, text) in
        [("rt-app", rtapp()), ("a million duplicates", duplicates), ("100000 brackets", nested), ("all wrong", wrong)]
    {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| load("f.json", text.as_bytes(), &LoadOptions::default()).is_ok());
        });
    }
    let toml = scenario();
    assert!(load("f.toml", toml.as_bytes(), &LoadOptions::default()).is_ok());
    group.throughput(Throughput::Bytes(toml.len() as u64));
    group.bench_function("toml", |bencher| {
        bencher.iter(|| load("f.toml", toml.as_bytes(), &LoadOptions::default()).is_ok());
    });
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
