//! Measures how fast traces are checked against all rules. Run with `--release`.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant as Wall;
use zerolag_check::{Options, check};
use zerolag_trace::Trace;
use zerolag_trace::script::Script;

fn main() {
    for (cpus, fifo) in [(4, false), (4, true), (64, true), (4096, true)] {
        let trace = rounds(cpus, fifo);
        let start = Wall::now();
        let report = check(&trace, &Options::default());
        let rate = trace.records.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
        let class = if fifo { "real-time" } else { "fair" };
        println!("{cpus} CPUs, {class} tasks: {rate:.1} M records/s");
        assert!(report.is_clean(), "{report}");
    }
}

/// Two tasks alternate on every CPU. With `fifo`, both are real-time tasks of one priority, so one
/// always waits.
fn rounds(cpus: u32, fifo: bool) -> Trace {
    let mut script = Script::new(cpus);
    let mut pairs = Vec::new();
    for cpu in 0..cpus {
        let mut make = |name: &str| if fifo { script.fifo(name, 5) } else { script.fair(name) };
        pairs.push((cpu, make("a"), make("b")));
    }
    for (cpu, a, b) in &pairs {
        script.wake(0, *cpu, *a).run(0, *cpu, None, Some(*a)).wake(0, *cpu, *b);
    }
    let turns = 1_000_000 / cpus;
    for turn in 0..turns {
        let now = u64::from(turn + 1) * 100;
        for (cpu, a, b) in &mut pairs {
            script.run(now, *cpu, Some(*a), Some(*b));
        }
        for (cpu, a, b) in &mut pairs {
            script.wake(now + 10, *cpu, *a);
            core::mem::swap(a, b);
        }
    }
    script.end(u64::from(turns + 1) * 100)
}
