//! The floors of `zerolag`: words and values, simulations, and what is made of several of them.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    &["document", "error", "risk"],
    &["background", "goals", "knob", "origin", "settings", "variant"],
    &["limit"],
    &["manifest", "source", "values"],
    // Simulations.
    &["simulation/plan", "simulation/verdicts"],
    &["simulation/estimate", "simulation/figures", "simulation/policy"],
    &["simulation/result"],
    &["simulation/builder"],
    &["simulation"],
    // Several simulations.
    &["analyse", "compare", "explanation", "import", "sweep"],
    &["advise", "schedulability"],
    &["page"],
    &["results"],
    &["lib"],
];
