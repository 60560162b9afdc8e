//! Runs every spec of `specs/` and compares the expected results.
//!
//! `zerolag spec --bless specs` rewrites the expected results, for review.

use std::fmt::Write;
use std::path::Path;
use zerolag::model::settings::Fault;
use zerolag::model::{KernelVersion, Settings};
use zerolag_lab::spec;

#[test]
fn what_the_specs_say_comes_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let specs = spec::find(&root.join("specs")).expect("the directory of specs");
    assert!(specs.len() >= 25, "only {} specs were found", specs.len());
    let mut said = String::new();
    for path in specs {
        let text = std::fs::read_to_string(&path).expect("a spec that was just found");
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        for problem in spec::check(&name, &text).problems {
            writeln!(said, "{name}:{}: {}", problem.line, problem.says).expect("a string takes everything");
        }
    }
    assert!(said.is_empty(), "{said}");
}

#[test]
fn every_spec_names_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    for path in spec::find(&root).expect("the directory of specs") {
        let text = std::fs::read_to_string(&path).expect("a spec that was just found");
        assert!(text.starts_with("# "), "{}: the first line is the rule's name", path.display());
        assert!(
            text.lines().any(|line| line.starts_with("Source: ") || line.starts_with("Sources: ")),
            "{}: no line begins with `Source:` or `Sources:`",
            path.display()
        );
    }
}

#[test]
fn the_spec_of_every_known_fault_names_its_setting_and_commits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    for fault in Settings::FAULTS {
        let text =
            std::fs::read_to_string(root.join(fault.spec)).unwrap_or_else(|error| panic!("{}: {error}", fault.spec));
        // Its name, its former name, or a kernel that has it.
        let short = fault.setting.trim_start_matches("fault.");
        let words = [fault.setting, short, short.trim_start_matches("fair_server_"), "kernel = "];
        assert!(words.iter().any(|word| text.contains(word)), "{} does not show {}", fault.spec, fault.name());
        for commit in [Some(fault.since()), fault.fixed()].into_iter().flatten().filter_map(|release| release.commit) {
            assert!(text.contains(commit), "{} does not name commit {commit} of {}", fault.spec, fault.name());
        }
    }
}

/// Returns a spec in which every block of results has a value of a setting, in place of its own.
fn forced(text: &str, key: &str, value: &str) -> String {
    let row = Settings::TABLE.iter().find(|row| row.name == key).expect("a setting of the table");
    let is_own = |word: &str| word.split_once('=').is_some_and(|(key, _)| [row.name, row.key].contains(&key));
    let mut said = String::new();
    for line in text.lines() {
        let info = line.strip_prefix("```").filter(|info| {
            ["timeline", "switches", "events", "totals", "end"].contains(&info.split_whitespace().next().unwrap_or(""))
        });
        match info {
            None => writeln!(said, "{line}"),
            Some(info) => {
                let words: Vec<&str> = info.split_whitespace().filter(|word| !is_own(word)).collect();
                writeln!(said, "```{} {key}={value}", words.join(" "))
            }
        }
        .expect("a string takes everything");
    }
    said
}

/// Returns a value without the bug: that of the first preset since the fix, or of the newest one,
/// or the other one of a switch.
fn right_value(fault: &Fault) -> String {
    let value = |kernel: KernelVersion| {
        let settings = kernel.settings();
        let mut of = settings.entries().filter(|(row, _)| row.name == fault.setting);
        of.next().expect("a setting of the table").1
    };
    let fixed = fault.fixed();
    let is_since = |kernel: &KernelVersion| fixed.is_some_and(|fixed| kernel.release() >= fixed.release);
    let since = KernelVersion::ALL.iter().copied().filter(is_since).map(value);
    let right = since.chain([value(KernelVersion::default())]).find(|value| value != fault.wrong);
    right.unwrap_or_else(|| if fault.wrong == "on" { "off".to_owned() } else { "on".to_owned() })
}

#[test]
fn the_spec_of_every_known_fault_depends_on_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let mut said = String::new();
    for fault in Settings::FAULTS {
        let text = std::fs::read_to_string(root.join(fault.spec)).expect("the spec of a fault");
        for value in [fault.wrong, &right_value(fault)] {
            Settings::default().set(fault.setting, value).unwrap_or_else(|error| panic!("{}: {error}", fault.name()));
            // Another result, or a rule that the run breaks or no longer breaks.
            if spec::check(fault.spec, &forced(&text, fault.setting, value)).is_ok() {
                writeln!(said, "{}: no block changes with {} = {value}", fault.spec, fault.setting)
                    .expect("a string takes everything");
            }
        }
    }
    assert!(said.is_empty(), "{said}");
}
