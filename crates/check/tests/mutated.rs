//! The monitors come to a verdict on any trace, however corrupt.

use proptest::prelude::*;
use zerolag_check::{Options, check};
use zerolag_trace::Source;

#[path = "../../trace/tests/support/mutate.rs"]
mod mutate;

use mutate::{change, mutate, recorded};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_trace_panics_a_monitor(changes in proptest::collection::vec(change(), 1..40), complete in any::<bool>()) {
        let mut trace = recorded();
        mutate(&mut trace, &changes);
        if complete {
            trace.meta.source = Source::Simulation;
        }
        let report = check(&trace, &Options::default());
        prop_assert_eq!(report.verdicts.len(), zerolag_check::monitors::TABLE.len());
        prop_assert!(report.to_string().lines().count() >= report.verdicts.len());
    }
}
