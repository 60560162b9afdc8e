//! The cost of `throttle` where it is not used, in instructions: `throttle PLACE THROTTLE TURNS`
//! makes that many turns of the bench of the same name (`PLACE` is `root`, `nested` or `limited`).
//!
//! Count instructions of two sizes; their difference is the turns':
//!
//! ```text
//! cargo build --release -p zerolag-core --example throttle
//! valgrind --tool=callgrind target/release/examples/throttle root immediate 1000
//! valgrind --tool=callgrind target/release/examples/throttle root immediate 11000
//! ```

#[path = "../tests/support/sleeper.rs"]
mod sleeper;

use sleeper::{Bench, Place};
use std::process::ExitCode;
use zerolag_model::settings::Throttle;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let place = arguments.first().and_then(|name| Place::ALL.into_iter().find(|place| place.name() == name));
    let throttle = arguments.get(1).and_then(|name| Throttle::from_name(name));
    let turns = arguments.get(2).and_then(|text| text.parse::<u64>().ok());
    let (Some(place), Some(throttle), Some(turns)) = (place, throttle, turns) else {
        eprintln!("usage: throttle PLACE(root, nested, limited) THROTTLE TURNS");
        return ExitCode::from(2);
    };
    let mut bench = Bench::new(throttle, place);
    for _ in 0..turns {
        bench.turn();
    }
    println!("{turns} turns");
    ExitCode::SUCCESS
}
