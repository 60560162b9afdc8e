//! A load that works in the kernel: system calls, locks, softirqs, a network card.
//!
//! The preemption models differ in what the kernel does while a real-time task waits, so a load in
//! user mode cannot tell them apart. The load is a scenario (`kernel_load.toml`), so that it can be
//! read, changed and run beside cyclictest as well.

use std::sync::Arc;
use zerolag_model::{CpuMask, Topology};
use zerolag_workload::program::Program;
use zerolag_workload::{LoadOptions, load};

/// The scenario of the load.
pub const TEXT: &str = include_str!("kernel_load.toml");

/// Adds the load to a program that has no resources and no groups. Its tasks use only these CPUs,
/// and its network card interrupts only these.
///
/// # Panics
/// Never: the scenario is part of this program.
pub fn add_to(program: &mut Program, machine: &Topology, cpus: &CpuMask) {
    let options = LoadOptions { machine_override: Some(machine.clone()), ..LoadOptions::default() };
    let scenario = load("kernel_load.toml", TEXT.as_bytes(), &options);
    let loaded = scenario.expect("invariant: the scenario of the load is valid").program;
    assert!(program.resources.is_empty(), "the load comes first");
    let affinity = Arc::new(cpus.clone());
    program.resources = loaded.resources;
    program.interrupts.extend(loaded.interrupts.into_iter().map(|mut line| {
        line.cpus = Some(Arc::clone(&affinity));
        line
    }));
    program.tasks.extend(loaded.tasks.into_iter().map(|mut task| {
        task.affinity = Some(Arc::clone(&affinity));
        task
    }));
}
