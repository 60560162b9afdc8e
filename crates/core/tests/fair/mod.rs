//! The fair class through the scheduler's entry points, on a single-threaded host.

mod alloc;
mod balance;
mod bandwidth;
mod host;
mod lag;
mod random;
mod recorded;
mod reference;
mod shares;
mod waking;
mod wrap;

/// The number of cases of a random test: `usual` times `ZEROLAG_FUZZ`, if that is set (`./x fuzz`).
#[expect(clippy::disallowed_methods, reason = "how long to search is the caller's, not the test's")]
fn cases(usual: u32) -> proptest::test_runner::Config {
    let times = std::env::var("ZEROLAG_FUZZ").map_or(1, |times| times.parse().expect("ZEROLAG_FUZZ is a number"));
    proptest::test_runner::Config { cases: usual * times, failure_persistence: None, ..Default::default() }
}
