//! One target of the registry under libFuzzer: which one says `ZEROLAG_FUZZ_TARGET`. `./x fuzz-long` builds and runs it.
//!
//! The targets of the command line's tests are all here, and the random events of the core's tests, drawn from the fuzzer's
//! bytes instead of a generator.
#![no_main]
// What the tests have beside the targets is not used here.
#![allow(dead_code, unused_imports, unfulfilled_lint_expectations)]

#[path = "../../crates/core/tests/deadline_random.rs"]
mod deadline;
#[path = "../../crates/core/tests/fair/host.rs"]
mod host;
#[path = "../../crates/core/tests/fair/random.rs"]
mod fair;
#[path = "../../crates/core/tests/random.rs"]
mod realtime;
#[path = "../../crates/core/tests/support/mod.rs"]
mod support;
#[path = "../../crates/lab/tests/fuzz/targets.rs"]
mod targets;

use std::path::Path;
use std::sync::OnceLock;

/// Where the repository is.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

type Run = fn(&[u8]) -> Result<(), String>;

/// The core's own sequences of events.
const CORE: [(&str, Run); 3] = [
    ("core-rt", realtime::run_bytes),
    ("core-dl", deadline::run_bytes),
    ("core-fair", |input| {
        fair::run_bytes(input);
        Ok(())
    }),
];

static TARGET: OnceLock<Run> = OnceLock::new();

/// Finds the target; writes the inputs it begins with into `ZEROLAG_FUZZ_SEEDS`, if that is set.
fn begin() {
    let wanted = std::env::var("ZEROLAG_FUZZ_TARGET").unwrap_or_default();
    let known = targets::TABLE.iter().chain([&targets::CANARY]).map(|target| (target.name, target.run));
    let mut known = known.chain(CORE);
    let Some((_, run)) = known.find(|(name, _)| *name == wanted) else {
        let names: Vec<&str> = targets::TABLE.iter().map(|target| target.name).chain(CORE.map(|(name, _)| name)).collect();
        eprintln!("ZEROLAG_FUZZ_TARGET is one of {}", names.join(", "));
        std::process::exit(2);
    };
    TARGET.set(run).expect("begun once");
    let Ok(directory) = std::env::var("ZEROLAG_FUZZ_SEEDS") else { return };
    let target = targets::TABLE.iter().chain([&targets::CANARY]).find(|target| target.name == wanted);
    for (index, seed) in target.map_or_else(Vec::new, |target| (target.corpus)()).iter().enumerate() {
        std::fs::write(Path::new(&directory).join(format!("seed-{index}")), seed).expect("the directory takes it");
    }
    std::process::exit(0);
}

libfuzzer_sys::fuzz_target!(
    init: begin(),
    |input: &[u8]| {
        let run = TARGET.get().expect("begun");
        if let Err(reason) = run(input) {
            panic!("{reason}");
        }
    }
);
