//! The cost of reading a workload file: `reading rt-app|toml|FILE [TIMES]` prints its size, CPU
//! time and peak memory.
//!
//! `rt-app` and `toml` are the files of the benchmark `parse`. For instruction counts, which do not
//! depend on other users of the computer:
//! `valgrind --tool=callgrind target/release/examples/reading rt-app 1`. See `docs/lab/speed.md`.

#[path = "../benches/inputs/mod.rs"]
mod inputs;

use std::hint::black_box;
use zerolag_workload::{LoadOptions, load};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "rt-app".to_owned());
    let times: u32 = args.next().map_or(1, |text| text.parse().expect("a number"));
    let (name, text) = match &*name {
        "rt-app" => ("rt-app.json", inputs::rtapp()),
        "toml" => ("scenario.toml", inputs::scenario()),
        file => (file, std::fs::read_to_string(file).expect("a file")),
    };
    let before = cpu_seconds();
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let start = cpu_seconds();
        let loaded = load(name, text.as_bytes(), &LoadOptions::default());
        best = best.min(cpu_seconds() - start);
        if let Err(errors) = black_box(loaded) {
            println!("refused: {errors}");
        }
    }
    let mean = (cpu_seconds() - before) / f64::from(times.max(1));
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{megabytes:.1} MB; {mean:.3} CPU-s each with freeing, {best:.3} without at best: {:.1} and {:.1} MB per CPU-s; {} KiB at most",
        megabytes / mean,
        megabytes / best,
        peak_kib(),
    );
}

/// Returns the CPU time of this thread.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().expect("a field").parse::<f64>().expect("nanoseconds") / 1e9
}

/// Returns the peak memory of this process.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
