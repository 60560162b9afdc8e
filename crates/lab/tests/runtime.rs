//! Checks records of the in-process runtime with the monitors that also judge simulations and
//! kernels.
#![cfg(target_os = "linux")]

#[path = "../../runtime/tests/common/mod.rs"]
mod common;

use common::live_a_little;
use zerolag_runtime::Builder;

#[test]
fn the_monitors_find_nothing() {
    let rt = Builder::new().cpus(3).trace().build().expect("threads");
    live_a_little(&rt);
    let trace = rt.take_trace();
    // At least those of 100 short tasks: created, woken, switched to and from, ended.
    assert!(trace.records.len() > 100 * 5, "{} records", trace.records.len());
    let report = zerolag_check::check(&trace, &zerolag_check::Options::default());
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}
