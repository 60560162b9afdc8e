//! The examples that come with rt-app load.
//!
//! They are GPL-2.0 and not part of this repository. Put a copy of rt-app's `doc/examples` into
//! `target/rt-app-examples` to run this; without it the test says so and passes.

use std::path::{Path, PathBuf};
use zerolag_workload::{LoadOptions, Severity, load};

fn json_files(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            json_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

#[test]
fn upstream_examples_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/rt-app-examples");
    let mut files = Vec::new();
    json_files(&root, &mut files);
    if files.is_empty() {
        eprintln!("skipped: {} has no rt-app examples", root.display());
        return;
    }
    files.sort();
    let options = LoadOptions {
        machine_override: Some(zerolag_model::Topology::flat(16).expect("16 CPUs")),
        ..LoadOptions::default()
    };
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.strip_prefix(&root).expect("below the root").display().to_string();
        let bytes = std::fs::read(path).expect("readable");
        let expected = if name.contains("video-") {
            Err("6:13")
        } else if name.contains("merge") {
            Err("")
        } else {
            Ok(())
        };
        let result = load(&name, &bytes, &options);
        match (&result, expected) {
            (Ok(scenario), Ok(())) => {
                let warnings = scenario.warnings.count(Severity::Warning);
                let notes = scenario.warnings.count(Severity::Note);
                eprintln!("{name}: {} tasks, {warnings} warnings, {notes} notes", scenario.program.tasks.len());
            }
            (Err(diagnostics), Err(place)) => {
                let text = diagnostics.to_string();
                let first = text.lines().next().unwrap_or_default().to_string();
                eprintln!("{first}");
                if !first.starts_with(&format!("{name}:{place}")) {
                    wrong.push(text);
                }
            }
            (Err(diagnostics), Ok(())) => wrong.push(diagnostics.to_string()),
            (Ok(_), Err(_)) => wrong.push(format!("{name} loads")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
