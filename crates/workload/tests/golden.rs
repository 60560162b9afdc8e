//! Complete error messages for wrong files, kept as files that can be read and reviewed.
//!
//! `fixtures/errors/NAME` is the input and `fixtures/errors/NAME.expected` the expected output.
//! When a message changes on purpose, the test writes the new text to
//! `target/golden/NAME.expected`: check it, then copy it over.

use std::path::{Path, PathBuf};
use zerolag_workload::{LoadOptions, load};

#[test]
fn messages_are_as_reviewed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut inputs: Vec<PathBuf> = std::fs::read_dir(root.join("tests/fixtures/errors"))
        .expect("readable")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "expected"))
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 10);
    let actual_directory = root.join("../../target/golden");
    let mut wrong = Vec::new();
    for path in inputs {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).expect("readable");
        let errors = load(&name, &bytes, &LoadOptions::default()).expect_err(&name);
        let actual = format!("{errors}\n");
        let expected = std::fs::read_to_string(path.with_file_name(format!("{name}.expected"))).unwrap_or_default();
        if actual != expected {
            std::fs::create_dir_all(&actual_directory).expect("writable");
            std::fs::write(actual_directory.join(format!("{name}.expected")), &actual).expect("writable");
            wrong.push(format!("--- {name}\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "{}now in {}", wrong.concat(), actual_directory.display());
}

#[test]
fn what_the_documentation_shows_is_what_is_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let said: Vec<String> = std::fs::read_dir(root.join("tests/fixtures/errors"))
        .expect("readable")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "expected"))
        .map(|path| std::fs::read_to_string(path).expect("readable"))
        .collect();
    let page = std::fs::read_to_string(root.join("../../docs/reference/errors.md")).expect("readable");
    let blocks: Vec<&str> = page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 10);
    for block in blocks {
        assert!(said.iter().any(|text| text.contains(block)), "{block}");
    }
}
