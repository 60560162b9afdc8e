//! A run without records allocates nothing once it has begun.
//!
//! Queues and tables reach their size within the first part of a run. So a run that is twice as
//! long makes hardly any more allocations; otherwise memory would grow with the length of a run, or
//! every event would pay for the allocator. A list still grows when it holds more than ever before:
//! [`RECORDS`] of that are allowed, in 3000 events and more.

#[path = "../benches/workloads/mod.rs"]
mod workloads;

use workloads::Workload;
use zerolag_model::Duration;
use zerolag_sim::NoTrace;

/// Returns the allocations of a run, not counting those that build the machine.
fn allocations(name: &str, time: Duration) -> u64 {
    let mut machine = Workload::named(name).expect("a known workload").machine(time);
    allocation_counter::measure(|| drop(machine.run(&mut NoTrace))).count_total
}

/// Lists of deadline bandwidth grow most: 13 times in the second second of `edf8`.
const RECORDS: u64 = 16;

#[test]
fn a_longer_run_allocates_no_more() {
    let workloads = [
        ("hogs", 500),
        ("w4", 1000),
        ("w8", 1000),
        ("edf4", 1000),
        ("edf8", 1000),
        ("light64", 500),
        ("mixed16", 1000),
        ("limits16", 1000),
    ];
    let grew: Vec<String> = workloads
        .into_iter()
        .filter_map(|(name, ms)| {
            let time = Duration::from_millis(ms);
            let (short, long) = (allocations(name, time), allocations(name, time * 2));
            (long > short + RECORDS).then(|| format!("{name}: {short} in {time}, {long} in twice that"))
        })
        .collect();
    assert!(grew.is_empty(), "{grew:#?}");
}
