//! Files as large as those that tools generate, for benchmarks.

use core::fmt::Write;

/// An rt-app file of some 10 MB: tasks of phases, as tools generate them.
pub(crate) fn rtapp() -> String {
    let mut text = String::from("{\n  \"tasks\": {\n");
    for task in 0..12_000 {
        write!(
            text,
            "    \"task{task}\": {{\n      \"policy\": \"SCHED_OTHER\", \"priority\": 0, \"cpus\": [ 0, 1, 2 ],\n      \"phases\": {{\n"
        )
        .expect("a String takes it");
        for phase in 0..6 {
            let comma = if phase == 5 { "" } else { "," };
            writeln!(
                text,
                "        \"p{phase}\": {{ \"loop\": 20, \"run\": {}, \"timer\": {{ \"ref\": \"unique\", \"period\": 16000 }} }}{comma}",
                1000 + phase
            )
            .expect("a String takes it");
        }
        text.push_str("      }\n    },\n");
    }
    text.push_str("    \"last\": { \"run\": 10, \"sleep\": 20 }\n  }\n}\n");
    text
}

/// A scenario of some 10 MB, as tools generate them.
pub(crate) fn scenario() -> String {
    let mut text = String::from("duration = \"10s\"\n");
    for task in 0..50_000 {
        write!(
            text,
            "[task.t{task}]\nnice = {}\ncpus = \"0-2\"\ngroup = \"/pod{}\"\nsteps = [\n    {{ run = \"{}us\" }},\n    \
             {{ sleep = {{ exponential = {{ mean = \"5ms\" }} }} }},\n    {{ timer = {{ period = \"16ms\" }} }},\n]\n",
            task % 20,
            task % 50,
            1000 + task
        )
        .expect("a String takes it");
    }
    text
}
