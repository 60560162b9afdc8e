//! The messages that `docs/errors.md` shows are what the program says.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_documented_messages_are_what_a_user_sees() {
    let page = std::fs::read_to_string(repository().join("docs/errors.md")).expect("readable");
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
        assert!(said.contains(block), "{file}: documented is\n{block}\nsaid is\n{said}");
        assert!(ran.stdout.is_empty());
    }
}
