//! The operations of the bench `fair`, for counting instructions: `fair WHAT TASKS DEPTH ROUNDS`
//! makes that many rounds (`WHAT` is `switch`, `wake`, `block` or `tick`; `DEPTH` is that of the
//! tasks' group).
//!
//! Count the instructions of the rounds alone, or of two numbers of rounds and subtract:
//!
//! ```text
//! cargo build --release -p zerolag-core --example fair
//! valgrind --tool=callgrind --toggle-collect='*Bench::wake_pick_put' target/release/examples/fair wake 64 3 8000
//! ```

#[path = "../tests/support/one_queue.rs"]
mod one_queue;

use one_queue::{Bench, SLEEPERS};
use std::process::ExitCode;
use zerolag_model::KernelVersion;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok());
    let (Some(tasks), Some(depth), Some(rounds)) = (number(1), number(2), number(3)) else {
        eprintln!("usage: fair WHAT(switch, wake, block, tick) TASKS DEPTH ROUNDS");
        return ExitCode::from(2);
    };
    let mut bench = Bench::new(KernelVersion::V6_12, tasks, depth);
    match arguments[0].as_str() {
        "switch" => (0..rounds).for_each(|_| bench.switch()),
        "block" => (0..rounds).for_each(|_| bench.block_and_wake()),
        "tick" => (0..rounds).for_each(|_| bench.tick()),
        "wake" => {
            for round in 0..rounds {
                if round % SLEEPERS == 0 {
                    bench.fall_asleep();
                }
                bench.wake_pick_put();
            }
        }
        other => {
            eprintln!("{other} is none of switch, wake, block, tick");
            return ExitCode::from(2);
        }
    }
    println!("{rounds} rounds");
    ExitCode::SUCCESS
}
