//! Reads a workload file and shows what it lowers to.
//!
//! `cargo run -p zerolag-workload --example show -- FILE [CPUS]`

use std::process::ExitCode;
use zerolag_model::Topology;
use zerolag_workload::{LoadOptions, Scenario, load};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = arguments.first() else {
        eprintln!("usage: show FILE [CPUS]");
        return ExitCode::from(2);
    };
    let machine_override = arguments.get(1).and_then(|cpus| Topology::flat(cpus.parse().ok()?).ok());
    let bytes = match std::fs::read(name) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{name}: {error}");
            return ExitCode::from(2);
        }
    };
    match load(name, &bytes, &LoadOptions { machine_override, ..LoadOptions::default() }) {
        Ok(scenario) => {
            if !scenario.warnings.is_empty() {
                eprintln!("{}", scenario.warnings);
            }
            show(&scenario);
            ExitCode::SUCCESS
        }
        Err(errors) => {
            eprintln!("{errors}");
            ExitCode::from(2)
        }
    }
}

fn show(scenario: &Scenario) {
    let program = &scenario.program;
    println!("machine: {}", scenario.machine_or_default());
    println!("{} tasks, {} resources, {} groups", program.tasks.len(), program.resources.len(), program.groups.len());
    const SHOWN: usize = 20;
    for task in program.tasks.iter().take(SHOWN) {
        println!("{} x{}: {:?}, turns {:?}", task.name, task.instances, task.attr, task.turns);
        for phase in &task.phases {
            println!("    {} x{}: {:?}", phase.name, phase.loops, phase.actions);
        }
    }
    if let Some(more) = program.tasks.len().checked_sub(SHOWN + 1) {
        println!("... and {} more", more + 1);
    }
}
