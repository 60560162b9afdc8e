//! Checks trace files against all rules and prints the verdicts.

use std::path::Path;
use std::process::ExitCode;
use zerolag_check::{Options, check};

fn main() -> ExitCode {
    let mut is_clean = true;
    for name in std::env::args().skip(1) {
        match zerolag_trace::open(Path::new(&name)) {
            Ok(trace) => {
                let report = check(&trace, &Options { keep: 5, ..Options::default() });
                println!("{name}: {} records, {}\n{report}", trace.records.len(), trace.meta.machine);
                is_clean &= report.is_clean();
            }
            Err(error) => {
                println!("{name}: {error}");
                is_clean = false;
            }
        }
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
