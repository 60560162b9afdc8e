//! The cost of `throttle` where it is not used: `cargo bench -p zerolag-core --bench throttle`.
//!
//! One turn: a task wakes, is switched to, returns to user mode, makes a system call and sleeps,
//! and the previous task is switched to. In the root group, two groups deep, and two groups deep
//! under a limit that is never reached.

#[path = "../tests/support/sleeper.rs"]
mod sleeper;

use criterion::{Criterion, criterion_group, criterion_main};
use sleeper::{Bench, Place};
use zerolag_model::settings::Throttle;

fn benches(c: &mut Criterion) {
    for place in Place::ALL {
        for throttle in Throttle::ALL.iter().copied() {
            let mut bench = Bench::new(throttle, place);
            c.bench_function(&format!("throttle/{}/{throttle}", place.name()), |b| b.iter(|| bench.turn()));
        }
    }
}

criterion_group! {
    name = throttle;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_millis(1000));
    targets = benches
}
criterion_main!(throttle);
