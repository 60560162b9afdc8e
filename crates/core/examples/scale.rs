//! The growth of an event's cost with the machine: `scale CPUS EVENTS [RT_BALANCE]` makes that many
//! calls of the core (wakeups, pushes, switches and pulls), on a machine whose CPU 0 is overloaded
//! and whose last CPU is the only idle one.
//!
//! Count the instructions of two sizes, and subtract those of building the machine (0 events):
//!
//! ```text
//! cargo build --release -p zerolag-core --example scale
//! perf stat -e instructions:u target/release/examples/scale 16 1000000
//! perf stat -e instructions:u target/release/examples/scale 4096 1000000
//! valgrind --tool=callgrind target/release/examples/scale 4096 100000
//! ```

#[path = "../tests/support/machine.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod machine;

use std::process::ExitCode;
use zerolag_model::settings::RtBalance;
use zerolag_model::{KernelVersion, Settings};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let rt_balance = arguments.get(2).map_or(Some(RtBalance::IpiRootDomain), |name| RtBalance::from_name(name));
    let (Some(cpus @ 4..=4096), Some(events), Some(rt_balance)) = (number(0), number(1), rt_balance) else {
        eprintln!("usage: scale CPUS(4..4096) EVENTS [RT_BALANCE]");
        return ExitCode::from(2);
    };
    let settings = Settings { rt_balance, ..KernelVersion::V6_12.settings() };
    let mut machine = machine::crowded(u32::try_from(cpus).expect("at most 4096"), settings);
    let start = machine.calls;
    while machine.calls - start < events {
        machine::turn(&mut machine);
    }
    println!("{} calls", machine.calls - start);
    ExitCode::SUCCESS
}
