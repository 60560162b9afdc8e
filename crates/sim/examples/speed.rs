//! Simulated events per CPU-second of the periodic task sets and of 20 busy tasks.
use std::sync::Arc;
use zerolag_model::{Duration, KernelVersion, Topology};
use zerolag_sim::{Costs, Machine, MachineConfig, NoTrace, Tracing};

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("proc");
    let fields: Vec<&str> = text.rsplit(')').next().expect("comm").split_whitespace().collect();
    (fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime")) / 100.0
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_else(|| "w4".into());
    let seconds: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(100);
    let costs = std::env::args().nth(3).unwrap_or_else(|| "default".into());
    let (program, cpus) = match which.as_str() {
        "hogs" => (hogs(), 4),
        set => {
            let csv = std::fs::read_to_string(format!("crates/workload/data/{set}.csv")).expect("data");
            let program =
                zerolag_workload::builtin::periodic(&csv, zerolag_workload::builtin::PeriodicPolicy::RateMonotonicFifo)
                    .expect("valid");
            (program, set[1..].parse().expect("number"))
        }
    };
    let mut settings = KernelVersion::V6_12.settings();
    if which == "hogs" {
        settings.hz = 1000;
    }
    if let Some(set) = std::env::args().nth(4) {
        let (k, v) = set.split_once('=').expect("k=v");
        settings.set(k, v).expect("setting");
    }
    let config = MachineConfig {
        topology: Topology::flat(cpus).expect("cpus"),
        settings,
        costs: Costs::named(&costs).expect("profile"),
        seed: 1,
        duration: Some(Duration::from_secs(seconds)),
    };
    let mut machine = Machine::new(Arc::new(program), &config, Tracing::Off).expect("machine");
    let before = cpu_seconds();
    let outcome = machine.run(&mut NoTrace);
    let spent = cpu_seconds() - before;
    let s = outcome.stats;
    let events = s.wakeups + s.switches + s.completions;
    println!("{which} {costs}: {:?} {s:?}", outcome.why);
    println!(
        "{:.2} CPU-s; {:.2} M events/CPU-s; {:.0} simulated s/CPU-s; {:.1} M ticks/CPU-s",
        spent,
        events as f64 / spent / 1e6,
        outcome.end.as_nanos() as f64 / 1e9 / spent,
        s.ticks as f64 / spent / 1e6
    );
}

fn hogs() -> zerolag_workload::program::Program {
    use zerolag_workload::program::*;
    use zerolag_workload::random::Dist;
    let tasks = (0..20)
        .map(|nice| TaskDef {
            name: format!("nice{nice}").into(),
            instances: 1,
            delay: Duration::ZERO,
            attr: zerolag_model::SchedAttr::nice(zerolag_model::Nice::new(nice).expect("nice")),
            affinity: None,
            group: None,
            cpuset: None,
            turns: None,
            phases: vec![Phase {
                name: "run".into(),
                loops: 1,
                attr: None,
                affinity: AffinityChange::Keep,
                group: None,
                actions: vec![Action::Run(Dist::Constant(Duration::from_secs(1_000_000)))],
            }],
        })
        .collect();
    Program { tasks, ..Program::default() }
}
