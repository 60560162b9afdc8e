//! The floors of `zerolag`: words and values, simulations, what is made of several of them, and the
//! program on top. The program is a crate of its own: it uses the library by its name, like any
//! other front end.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    &["document"],
    &["background", "error", "goals", "knob", "origin", "settings", "variant"],
    &["limit"],
    &["manifest", "source", "values"],
    // Simulations.
    &["simulation/plan", "simulation/verdicts"],
    &["simulation/figures"],
    &["simulation/result"],
    &["simulation/builder"],
    &["simulation"],
    // Several simulations, and other hosts.
    &["analyse", "compare", "explanation", "fuzz", "host", "import", "spec", "sweep", "tools"],
    &["advise", "calibrate", "repro", "schedulability"],
    &["validate"],
    &["page"],
    &["results"],
    &["lib"],
    // The program.
    &["cli"],
    &["main"],
];
