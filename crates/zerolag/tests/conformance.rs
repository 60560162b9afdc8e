//! The recorded kernels next to ours: `docs/lab/conformance.md` is the output of
//! `zerolag validate --markdown conformance`.

use std::path::Path;
use zerolag::validate::{self, Case};

#[test]
fn the_table_in_the_documentation_is_the_one_that_comes_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut comparisons = Vec::new();
    for path in validate::find(&root.join("conformance")).expect("the directory of cases") {
        let case = Case::read(&path).unwrap_or_else(|error| panic!("{error}"));
        comparisons.extend(validate::run(&case).unwrap_or_else(|error| panic!("{error}")));
    }
    assert!(comparisons.len() >= 40, "only {} recordings were found", comparisons.len());
    let figures: usize = comparisons.iter().map(|comparison| comparison.figures.len()).sum();
    assert!(figures >= 200, "only {figures} figures were compared");
    let written = std::fs::read_to_string(root.join("docs/lab/conformance.md")).expect("docs/lab/conformance.md");
    let table = validate::markdown(&comparisons);
    let differs = written.lines().zip(table.lines()).find(|(written, now)| written != now);
    assert!(
        written == table,
        "docs/lab/conformance.md is not what comes out now; `./x conformance` writes it. First difference: {differs:?}"
    );
}

#[test]
fn a_wrong_figure_is_outside_its_band() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut case = Case::read(&root.join("fair/two-hogs.toml")).expect("a case");
    for recording in &mut case.recorded {
        recording.figures.insert("share.hog0".to_owned(), 55.0);
    }
    let comparisons = validate::run(&case).expect("a run");
    assert!(comparisons.iter().all(|comparison| !comparison.is_inside()));
}
