//! The scenarios of the repository: files, specs, and those that were drawn.

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of the record of schedules.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schedules")
}

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files below a folder with one of these extensions, in order.
pub(crate) fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| extensions.iter().any(|known| end == *known)) {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, read(&path)));
            }
        }
    }
    found.sort();
    found
}

/// Returns the drawn scenarios of the record of schedules.
pub(crate) fn drawn() -> Vec<(String, String)> {
    let text = read(&folder().join("drawn.txt"));
    let scenarios = text.split("# seed 7, number ").skip(1);
    let named = scenarios.map(|text| text.split_once('\n').expect("a line"));
    named.map(|(number, text)| (format!("drawn/{number}"), text.to_owned())).collect()
}

/// Returns the scenarios of the specs.
pub(crate) fn specs() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in zerolag_lab::spec::find(&root().join("specs")).expect("the directory of specs") {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let text = read(&path);
        let blocks = text.split("\n```toml\n").skip(1).filter_map(|block| block.split_once("\n```"));
        found.extend(blocks.enumerate().map(|(nth, (block, _))| (format!("{name}#{}", nth + 1), block.to_owned())));
    }
    found
}
