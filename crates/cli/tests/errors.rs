//! The messages in `docs/reference/errors.md` are those of the program.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the parts of a documented line: a position and a message, or a label or help.
fn parts(line: &str) -> Vec<String> {
    if let Some(help) = line.strip_prefix("  help: ") {
        return vec![help.to_owned()];
    }
    if let Some(label) = line.strip_prefix("  ") {
        return vec![label.split_once(": ").expect("a place and a label").1.to_owned()];
    }
    let (place, message) = line.split_once(": error: ").expect("a place and a message");
    vec![format!("[{place}]"), message.to_owned()]
}

/// Returns a text without the decoration of a drawing: line breaks, indentation, frames.
fn words(text: &str) -> String {
    let is_frame = |letter: char| ('\u{2500}'..='\u{257f}').contains(&letter) || letter == '·' || letter == '×';
    let text = text.replace("─[", " [");
    let words = text.split_whitespace().map(|word| word.trim_matches(is_frame)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_documented_messages_are_what_a_user_sees() {
    let page = std::fs::read_to_string(repository().join("docs/reference/errors.md")).expect("readable");
    let blocks: Vec<&str> = page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 10);
    for block in blocks {
        let file = block.split(':').next().expect("a file");
        let ran = Command::new(env!("CARGO_BIN_EXE_zerolag"))
            .args(["run", file])
            .current_dir(repository().join("crates/workload/tests/fixtures/errors"))
            .output()
            .expect("the program starts");
        let said = String::from_utf8(ran.stderr).expect("text");
        assert_eq!(ran.status.code(), Some(2), "{file}: {said}");
        for line in block.lines() {
            for part in parts(line) {
                assert!(words(&said).contains(&words(&part)), "{file}: documented is\n{block}\nsaid is\n{said}");
            }
        }
        assert!(ran.stdout.is_empty());
    }
}
