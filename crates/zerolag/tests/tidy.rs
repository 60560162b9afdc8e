//! The rules of `ARCHITECTURE.md` and `CONTRIBUTING.md` that a compiler does not know.
//!
//! Each rule is a test that lists every place where it is broken. An exception is a line here, with its reason.

mod floors;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use zerolag_model::Settings;

/// Which crates of the workspace a crate may use: the table of `ARCHITECTURE.md`.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("core", &["model"]),
    ("trace", &["model"]),
    ("workload", &["model"]),
    ("check", &["model", "trace"]),
    ("report", &["model", "trace"]),
    ("sim", &["model", "core", "trace", "workload"]),
    ("runtime", &["model", "core", "trace"]),
    ("linux", &["model", "trace", "workload"]),
    ("zerolag", &["model", "core", "trace", "workload", "check", "report", "sim", "runtime", "linux"]),
];

/// Lines of `zerolag-sim` that may name a priority or an attribute: path, part of the line, why.
const SIM_MAY: &[(&str, &str, &str)] = &[("interpret.rs", "use zerolag_model", "an import is no decision")];

/// Words by which the simulator would decide what the core decides.
const CLASS_WORDS: &[&str] =
    &["ClassId", "is_rt(", "is_fair(", ".beats(", "Prio::", "Prio>", ".class()", "RtPolicy", "SchedAttr::"];

/// The longest source file.
const MAX_LINES: usize = 800;

struct Source {
    /// Below the root of the repository.
    name: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text files below a directory of the repository, sorted, without what is built.
fn files(below: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(below)];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a directory that was just found");
            let hidden = |path: &Path| {
                path.file_name().is_some_and(|name| name == "target" || name.to_string_lossy().starts_with('.'))
            };
            pending.extend(entries.map(|entry| entry.expect("an entry").path()).filter(|path| !hidden(path)));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            found.push(Source { name, text });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "nothing below {below}");
    found
}

fn sources(below: &str) -> impl Iterator<Item = Source> {
    files(below).into_iter().filter(|source| source.name.ends_with(".rs"))
}

/// Returns the lines that are code, with their numbers: no comments, and nothing from the unit tests on.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Collects what is wrong and says all of it at once.
#[derive(Default)]
struct Wrong(String);

impl Wrong {
    fn say(&mut self, name: &str, line: usize, says: impl std::fmt::Display) {
        writeln!(self.0, "{name}:{line}: {says}").expect("a string takes everything");
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

#[test]
fn a_crate_uses_only_crates_above_it() {
    let mut wrong = Wrong::default();
    let mut known = 0;
    for manifest in files("crates").into_iter().filter(|file| file.name.ends_with("Cargo.toml")) {
        let Some(name) = manifest.name.split('/').nth(1) else { continue };
        let Some((_, may)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            wrong.say(&manifest.name, 1, format_args!("`{name}` is not in the table of layers"));
            continue;
        };
        known += 1;
        let mut section = "";
        for (index, line) in manifest.text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let dependency = line.strip_prefix("zerolag-").and_then(|line| line.split(['.', ' ', '=']).next());
            let dependency = dependency.filter(|_| section.contains("dependencies"));
            if let Some(dependency) = dependency.filter(|dependency| !may.contains(dependency)) {
                wrong.say(&manifest.name, index + 1, format_args!("`{name}` may not use `{dependency}`"));
            }
        }
    }
    assert_eq!(known, LAYERS.len(), "a crate of the table is missing");
    wrong.none();
}

#[test]
fn a_module_uses_only_floors_below_it() {
    let mut wrong = Wrong::default();
    for (name, floors) in floors::CRATES {
        let below = format!("crates/{name}/src");
        for source in sources(&below).filter(|source| !source.name.ends_with("/tests.rs")) {
            let file = Path::new(&source.name).strip_prefix(&below).expect("below it");
            let code: Vec<_> = code(&source.text).collect();
            for (line, says) in floors::check(floors, &floors::module_of(file), &code) {
                wrong.say(&source.name, line, says);
            }
        }
    }
    wrong.none();
}

#[test]
fn the_simulator_names_no_class_and_no_priority() {
    let mut wrong = Wrong::default();
    for source in sources("crates/sim/src") {
        for (number, line) in code(&source.text) {
            let may = SIM_MAY.iter().any(|(file, part, _)| source.name.ends_with(file) && line.contains(part));
            if let Some(word) = CLASS_WORDS.iter().find(|word| line.contains(**word) && !may) {
                wrong.say(&source.name, number, format_args!("`{word}`: such a decision is the core's"));
            }
        }
    }
    wrong.none();
}

#[test]
fn exceptions_are_needed() {
    let mut wrong = Wrong::default();
    for (file, part, reason) in SIM_MAY {
        let is_used = sources("crates/sim/src")
            .any(|source| source.name.ends_with(file) && code(&source.text).any(|(_, line)| line.contains(part)));
        if !is_used {
            wrong.say(file, 1, format_args!("nothing has `{part}` any more ({reason})"));
        }
    }
    wrong.none();
}

#[test]
fn the_core_has_no_clock_no_float_no_hash_map_and_no_cost() {
    let banned = [
        ("f32", "integers only: the same bits everywhere"),
        ("f64", "integers only: the same bits everywhere"),
        ("HashMap", "its order differs from run to run"),
        ("HashSet", "its order differs from run to run"),
        ("std::", "the core is no_std"),
        ("Instant::now", "`now` is an argument"),
        ("const COST", "what an operation takes is the simulator's"),
    ];
    let mut wrong = Wrong::default();
    for below in ["crates/core/src", "crates/model/src"] {
        for source in sources(below) {
            for (number, line) in code(&source.text) {
                for (word, reason) in banned {
                    if has_word(line, word) {
                        wrong.say(&source.name, number, format_args!("`{word}`: {reason}"));
                    }
                }
                // Time that the core adds to something: a literal of nanoseconds or microseconds above one.
                let literal = ["from_nanos(", "from_micros("].iter().find_map(|call| {
                    let rest = line.split_once(call)?.1;
                    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '_').collect();
                    digits.replace('_', "").parse::<u64>().ok()
                });
                if below.ends_with("core/src") && literal.is_some_and(|value| value > 1) {
                    wrong.say(&source.name, number, "a time in the core: settings hold tunables, the simulator costs");
                }
            }
        }
    }
    wrong.none();
}

/// Returns whether a word stands in a line by itself, not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && (!word.ends_with(is_part) || !after.is_some_and(is_part))
    })
}

#[test]
fn every_module_says_what_it_decides() {
    let mut wrong = Wrong::default();
    for source in sources("crates").filter(|source| source.name.contains("/src/")) {
        let is_test = source.name.ends_with("/tests.rs");
        if !is_test && !source.text.starts_with("//!") {
            wrong.say(&source.name, 1, "the first line does not begin with `//!`");
        }
        let lines = source.text.lines().count();
        if !is_test && lines > MAX_LINES {
            wrong.say(&source.name, lines, format_args!("more than {MAX_LINES} lines: one concept per file"));
        }
    }
    wrong.none();
}

#[test]
fn nothing_is_left_to_do_and_no_place_is_named() {
    // In two parts, so that this file does not find itself.
    let banned = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("to", "do!("),
        concat!("un", "implemented!("),
        concat!("/wo", "rk/"),
        concat!("crates", ".io"),
        concat!("py", "pi.org"),
    ];
    let mut wrong = Wrong::default();
    let all =
        ["crates", "specs", "docs", "examples", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "x"];
    for source in all.iter().flat_map(|below| files(below)) {
        for (index, line) in source.text.lines().enumerate() {
            // A group of a workload may be called so.
            let is_group = line.contains("taskgroup");
            if let Some(word) = banned.iter().find(|word| has_word(line, word) && !is_group) {
                wrong.say(&source.name, index + 1, format_args!("`{word}`"));
            }
        }
    }
    wrong.none();
}

#[test]
fn the_directory_of_specs_holds_specs_only() {
    let mut wrong = Wrong::default();
    for source in files("specs") {
        let parts = source.name.split('/').count();
        let is_spec = source.name.ends_with(".md") && parts == 3;
        if !is_spec && source.name != "specs/README.md" {
            wrong.say(&source.name, 1, "a spec is `specs/AREA/NAME.md`");
        }
    }
    wrong.none();
}

/// Settings show what they do in a spec: one that runs a scenario with and without.
#[test]
fn every_setting_has_a_spec() {
    let varied: Vec<String> = files("specs")
        .iter()
        .flat_map(|source| {
            source.text.lines().filter(|line| line.starts_with("```")).map(String::from).collect::<Vec<_>>()
        })
        .collect();
    let mut wrong = Wrong::default();
    for setting in Settings::TABLE {
        let word = format!("{}=", setting.key);
        if !varied.iter().any(|line| line.split_whitespace().any(|part| part.starts_with(&word))) {
            wrong.say("specs", 1, format_args!("no block runs with `{word}...`: what does the setting do?"));
        }
    }
    wrong.none();
}
