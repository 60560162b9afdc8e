//! A run that is stopped at any time, and goes on in the machine or in copies of it, is the run
//! that is not stopped: the same records, the same outcome.

use zerolag::Plan;
use zerolag::model::{Instant, Record};
use zerolag::sim::{Machine, Outcome, Tracing};
use zerolag::workload::{LoadOptions, load};
use zerolag_lab::fuzz::{Dice, draw};

/// Generated scenarios of seed 3.
const SCENARIOS: u64 = 60;

/// Returns a machine; `None` if the scenario is refused.
fn machine(number: u64) -> Option<Machine> {
    let text = draw(3, number, None).to_string();
    let scenario = load("drawn.toml", text.as_bytes(), &LoadOptions::default()).ok()?;
    Plan::new(scenario).ok()?.build(Tracing::On).ok()
}

fn run(mut machine: Machine, mut records: Vec<Record>) -> (Vec<Record>, Outcome) {
    let outcome = machine.run(&mut records);
    (records, outcome)
}

#[test]
fn a_run_that_is_split_is_the_whole() {
    let mut splits = 0;
    for number in 0..SCENARIOS {
        let Some(whole) = machine(number).map(|machine| run(machine, Vec::new())) else { continue };
        let dice = &mut Dice::from_state(number + 1);
        let mut split = machine(number).expect("it was built before");
        let mut records = Vec::new();
        let mut times: Vec<u64> = (0..3).map(|_| dice.of(0, whole.1.end.as_nanos())).collect();
        times.sort_unstable();
        for at in times {
            split.run_until(Instant::from_nanos(at), &mut records);
            // The copies do not disturb each other, nor the original.
            let copy = split.clone();
            assert!(run(copy.clone(), records.clone()) == whole, "number {number}: a copy at {at} ns");
            assert!(run(copy, records.clone()) == whole, "number {number}: the second copy at {at} ns");
            splits += 1;
        }
        assert!(run(split, records) == whole, "number {number}: the original");
    }
    assert!(splits > 150, "{splits}");
}

/// A copy is as of its time, whatever the original does then.
#[test]
fn a_copy_is_taken_at_its_time() {
    let (mut machine, records) = (0..100)
        .filter_map(machine)
        .find_map(|mut machine| {
            let mut records = Vec::new();
            machine.run_until(Instant::from_nanos(5_000_000), &mut records);
            (!records.is_empty()).then_some((machine, records))
        })
        .expect("a scenario in which something happens at once");
    let mut later = Vec::new();
    assert!(records.iter().all(|record| record.at.as_nanos() <= 5_000_000));
    let before = machine.clone();
    machine.run_until(Instant::from_nanos(20_000_000), &mut later);
    let last = records.last().expect("it has records").at;
    assert!(!later.is_empty() && later.iter().all(|record| record.at >= last && record.at.as_nanos() <= 20_000_000));
    let mut again = Vec::new();
    let mut copy = before;
    copy.run_until(Instant::from_nanos(20_000_000), &mut again);
    assert!(later == again);
}
