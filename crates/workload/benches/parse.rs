//! How fast workload files are read: good ones, and ones that are nothing but mistakes.

use core::fmt::Write;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zerolag_workload::{LoadOptions, load};

/// An rt-app file of some 10 MB: tasks of phases, as tools generate them.
fn rtapp() -> String {
    let mut text = String::from("{\n  \"tasks\": {\n");
    for task in 0..12_000 {
        write!(
            text,
            "    \"task{task}\": {{\n      \"policy\": \"SCHED_OTHER\", \"priority\": 0, \"cpus\": [ 0, 1, 2 ],\n      \"phases\": {{\n"
        )
        .expect("a String takes it");
        for phase in 0..6 {
            let comma = if phase == 5 { "" } else { "," };
            writeln!(
                text,
                "        \"p{phase}\": {{ \"loop\": 20, \"run\": {}, \"timer\": {{ \"ref\": \"unique\", \"period\": 16000 }} }}{comma}",
                1000 + phase
            )
            .expect("a String takes it");
        }
        text.push_str("      }\n    },\n");
    }
    text.push_str("    \"last\": { \"run\": 10, \"sleep\": 20 }\n  }\n}\n");
    text
}

/// A scenario of some 10 MB, as tools generate them.
fn scenario() -> String {
    let mut text = String::from("duration = \"10s\"\n");
    for task in 0..50_000 {
        write!(
            text,
            "[task.t{task}]\nnice = {}\ncpus = \"0-2\"\ngroup = \"/pod{}\"\nsteps = [\n    {{ run = \"{}us\" }},\n    \
             {{ sleep = {{ exponential = {{ mean = \"5ms\" }} }} }},\n    {{ timer = {{ period = \"16ms\" }} }},\n]\n",
            task % 20,
            task % 50,
            1000 + task
        )
        .expect("a String takes it");
    }
    text
}

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
