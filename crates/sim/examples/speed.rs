//! What a run costs: `speed WORKLOAD SECONDS [PROFILE [KEY=VALUE]...]` prints the run's counts, CPU
//! time and peak memory. `policy=NAME` loads a policy of `sched_ext`, `fifo` too, which is built
//! into the class otherwise.
//!
//! Instructions, which do not depend on other users of the computer:
//! `valgrind --tool=callgrind target/release/examples/speed w4 5`. See `docs/lab/speed.md`.

#[path = "../benches/workloads/mod.rs"]
mod workloads;

use std::sync::Arc;
use workloads::Workload;
use zerolag_model::Duration;
use zerolag_model::settings::SchedExtPolicy;
use zerolag_policy::policies;
use zerolag_sim::{Costs, Machine, MachineConfig, NoTrace, Tracing};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "w4".to_owned());
    let seconds: f64 = args.next().map_or(10.0, |text| text.parse().expect("seconds"));
    let mut workload = Workload::named(&name)
        .expect("hogs, w4, w8, w64, edf4, edf8, edf64, light<CPUS>, idle<CPUS>, limits<CPUS> or mixed<CPUS>");
    workload.config.costs = Costs::named(&args.next().unwrap_or_else(|| "default".to_owned())).expect("a profile");
    let mut policy = None;
    for setting in args {
        let (key, value) = setting.split_once('=').expect("key=value");
        if key == "policy" {
            workload.config.settings.load_scheduler(SchedExtPolicy::Fifo);
            policy = Some(SchedExtPolicy::from_name(value).expect("a policy"));
        } else {
            workload.config.settings.set(key, value).expect("a setting");
        }
    }
    let duration = Duration::from_nanos((seconds * 1e9) as u64);
    let mut machine = match policy {
        None => workload.machine(duration),
        Some(policy) => {
            let config = MachineConfig { duration: Some(duration), ..workload.config.clone() };
            let policy = policies::named(policy, config.seed);
            Machine::with_policy(Arc::clone(&workload.program), &config, Tracing::Off, policy)
                .expect("a program that fits its machine")
        }
    };
    let (built, memory) = (cpu_seconds(), peak_kib());
    let outcome = machine.run(&mut NoTrace);
    let spent = (cpu_seconds() - built).max(1e-6);
    let stats = outcome.stats;
    println!("{name} {}: {:?} {stats:?}", workload.config.costs.name, outcome.why);
    println!(
        "{spent:.3} CPU-s; {:.2} M events/CPU-s; {:.0} simulated s/CPU-s; {memory} KiB at start, {} KiB at most",
        (stats.wakeups + stats.switches + stats.completions) as f64 / spent / 1e6,
        outcome.end.as_nanos() as f64 / 1e9 / spent,
        peak_kib(),
    );
}

/// Returns the time that this process has had a CPU.
fn cpu_seconds() -> f64 {
    if let Ok(text) = std::fs::read_to_string("/proc/self/schedstat") {
        return text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok()).expect("nanoseconds") / 1e9;
    }
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    (fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime")) / 100.0
}

/// Returns the most memory that this process has had in use.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
