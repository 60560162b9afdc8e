//! No workload of the repository is refused because it would take too long: the estimate counts
//! only what happens for certain.

#[path = "support/scenarios.rs"]
mod scenarios;

use scenarios::{drawn, files, specs};
use zerolag::Plan;
use zerolag::simulation::Estimate;
use zerolag::workload::{LoadOptions, load};

#[test]
fn no_workload_of_the_repository_is_refused() {
    let mut all = specs();
    all.extend(drawn());
    for folder in ["examples", "regressions", "conformance", "crates/lab/tests/data/findings"] {
        all.extend(files(folder, &["toml", "json"]));
    }
    let (mut seen, mut longest) = (0, 0.0_f64);
    for (name, text) in all {
        let file = if name.ends_with(".json") { "scenario.json" } else { "scenario.toml" };
        // Not every file of these folders is a workload of its own.
        let Ok(scenario) = load(file, text.as_bytes(), &LoadOptions::default()) else { continue };
        let Ok(mut plan) = Plan::new(scenario) else { continue };
        if plan.config.duration.is_none() && plan.is_endless() {
            plan = plan.for_duration(zerolag::simulation::DEFAULT_DURATION);
        }
        let estimate = Estimate::of(&plan);
        assert!(!estimate.is_too_much(), "{name}: {estimate}: {:?}", estimate.largest);
        longest = longest.max(estimate.seconds);
        seen += 1;
    }
    assert!(seen > 400, "only {seen} were estimated");
    // The estimate says something: the longest of them takes a while.
    assert!(longest > 0.01 && longest < Estimate::TIME_BOUND / 4.0, "{longest} s");
}
