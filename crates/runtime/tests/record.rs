//! The calls of a runtime can be repeated.

mod common;

use common::live_a_little;
use zerolag_runtime::Builder;

#[test]
fn a_recording_is_repeated_exactly() {
    let rt = Builder::new().cpus(3).record(1_000_000).build().expect("threads");
    live_a_little(&rt);
    let recording = rt.into_recording().expect("it was asked for");
    // At least what 100 short tasks need: created, placed, woken, picked twice, left twice.
    assert!(recording.len() > 100 * 7 && recording.missed() == 0, "{recording:?}");
    recording.replay().expect("the core is a function of what it is told");
}
