//! Runs every spec of `specs/` and compares the expected results.
//!
//! `zerolag spec --bless specs` rewrites the expected results, for review.

use std::fmt::Write;
use std::path::Path;
use zerolag::spec;

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
fn the_spec_of_every_known_fault_names_its_setting() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    for fault in zerolag::model::Settings::FAULTS {
        let text =
            std::fs::read_to_string(root.join(fault.spec)).unwrap_or_else(|error| panic!("{}: {error}", fault.spec));
        // Its name, its former name, or a kernel that has it.
        let short = fault.setting.trim_start_matches("fault.");
        let words = [fault.setting, short, short.trim_start_matches("fair_server_"), "kernel = "];
        assert!(words.iter().any(|word| text.contains(word)), "{} does not show {}", fault.spec, fault.name());
    }
}
