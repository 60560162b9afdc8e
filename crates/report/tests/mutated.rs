//! Figures, tables and timelines are produced for any trace, however corrupt.

use proptest::prelude::*;
use zerolag_model::Duration;
use zerolag_report::timeline::{Rows, Window, switches, timeline};
use zerolag_report::{Metrics, json, text};

#[path = "../../trace/tests/support/mutate.rs"]
mod mutate;

use mutate::{change, mutate, recorded};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_trace_panics_a_report(changes in proptest::collection::vec(change(), 1..40)) {
        let mut trace = recorded();
        mutate(&mut trace, &changes);
        let summary = Metrics::of(&trace);
        prop_assert!(text::render(&summary, text::Limits::default()).lines().count() > 5);
        prop_assert!(json::render(&summary).is_ok());
        let window = Window {
            from: trace.meta.start,
            to: trace.meta.end,
            step: Duration::from_millis(10),
            rows: Rows::CpusAndTasks,
        };
        prop_assert!(timeline(&trace, window).contains("cpu0"));
        prop_assert!(!switches(&trace).is_empty());
    }
}
