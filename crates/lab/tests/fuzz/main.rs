//! Fuzzing: a table of targets, each fed with damaged copies of valid inputs.
//!
//! Every target runs some thousand inputs in each test run, the same ones every time;
//! `./x fuzz TIMES` runs `TIMES` as many from a new seed. A target fails when it panics or returns
//! an error. A failing input is saved in the build directory. Once the bug is fixed, the input
//! belongs into `findings/TARGET` of this directory, whose inputs are run first.
//!
//! The canary has a planted bug that only a damaged input reveals. It must be found: a fuzzer that
//! reaches no code looks the same as one that finds no bugs.

mod mutate;
mod targets;

use mutate::Mutator;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use targets::{TABLE, Target};

/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the factor by which to multiply the number of inputs.
#[expect(clippy::disallowed_methods, reason = "the number of cases is not part of any result")]
fn times() -> u64 {
    std::env::var("ZEROLAG_FUZZ").map_or(1, |times| times.parse().expect("ZEROLAG_FUZZ is a number"))
}

/// Returns the seed: always the same, except under `./x fuzz`.
#[expect(clippy::disallowed_methods, reason = "the seed of a random test, printed when it fails")]
fn seed() -> u64 {
    std::env::var("PROPTEST_RNG_SEED").map_or(1, |seed| seed.parse().expect("PROPTEST_RNG_SEED is a number"))
}

/// Runs one input; returns the failure.
fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    match panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(result) => result,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Err(format!("panic: {}", text.unwrap_or("without a word")))
        }
    }
}

/// Runs a target's inputs; returns the first that fails, with the reason.
fn fuzz(target: &Target) -> Option<(Vec<u8>, String)> {
    let corpus = (target.corpus)();
    assert!(!corpus.is_empty(), "{} begins with something", target.name);
    let fresh = corpus.iter().cloned().chain(findings(target.name));
    for input in fresh {
        if let Err(reason) = run(target, &input) {
            return Some((input, reason));
        }
    }
    let mut mutator = Mutator::new(seed() ^ target.name.len() as u64, &corpus);
    for _ in 0..target.inputs * times() {
        let input = mutator.next();
        if let Err(reason) = run(target, &input) {
            return Some((input, reason));
        }
    }
    None
}

/// Returns the inputs that failed before.
fn findings(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/findings").join(target);
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn no_input_does_harm() {
    let mut failures = Vec::new();
    for target in TABLE {
        if let Some((input, reason)) = fuzz(target) {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
            std::fs::write(&file, &input).expect("writable");
            failures.push(format!("{} (seed {}): {reason}\n  input: {}", target.name, seed(), file.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_canary_is_found() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let found = fuzz(&targets::CANARY);
    panic::set_hook(hook);
    let (_, reason) = found.expect("the planted mistake is found");
    assert!(reason.contains("the canary sings"), "{reason}");
}
