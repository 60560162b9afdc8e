//! The rules of `ARCHITECTURE.md` and `CONTRIBUTING.md` that a compiler does not know.
//!
//! Each rule is a test that lists every place where it is broken. An exception is a line here, with
//! its reason.

mod floors;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use zerolag_model::Settings;

/// Which crates of the workspace a crate may use: the table of `ARCHITECTURE.md`.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("policy", &["model"]),
    ("core", &["model", "policy"]),
    ("analysis", &["model"]),
    ("trace", &["model"]),
    ("workload", &["model"]),
    ("check", &["model", "trace"]),
    ("report", &["model", "trace"]),
    ("html", &["model", "trace", "report"]),
    ("sim", &["model", "policy", "core", "analysis", "trace", "workload"]),
    ("tenants", &["model", "core"]),
    ("plugin", &["model", "policy"]),
    ("scx", &["model", "policy", "trace", "plugin"]),
    ("runtime", &["model", "core", "trace", "tenants"]),
    ("linux", &["model", "trace", "workload"]),
    ("zerolag", &["model", "policy", "core", "analysis", "trace", "workload", "check", "report", "html", "sim"]),
    ("wasm", &["zerolag"]),
    ("tools", &["model", "trace", "workload", "report", "sim", "zerolag"]),
    ("host", &["model", "workload", "check", "report", "sim", "linux", "zerolag"]),
    (
        "lab",
        &[
            "model", "trace", "workload", "check", "report", "html", "sim", "runtime", "linux", "zerolag", "tools",
            "host",
        ],
    ),
    ("cli", &["model", "runtime", "linux", "zerolag", "tools", "host", "lab", "plugin"]),
    ("tidy", &["model"]),
];

/// Words that would mean that the simulator makes a decision of the core.
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

/// Returns the text files below a directory of the repository, sorted, without build results.
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

fn sources(below: &str) -> impl Iterator<Item = Source> + use<> {
    files(below).into_iter().filter(|source| source.name.ends_with(".rs"))
}

/// Returns the lines of code with their numbers: without comments, and up to the unit tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Collects violations and reports all of them at once.
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
            let dependency = line.split(['.', ' ', '=']).next().and_then(|name| match name {
                "zerolag" => Some(name),
                _ => name.strip_prefix("zerolag-"),
            });
            let dependency = dependency.filter(|_| section.contains("dependencies"));
            // Tests of a crate see it with all features through a dependency on itself.
            let other = dependency.filter(|dependency| *dependency != name);
            if let Some(dependency) = other.filter(|dependency| !may.contains(dependency)) {
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
            if let Some(word) = CLASS_WORDS.iter().find(|word| line.contains(**word)) {
                wrong.say(&source.name, number, format_args!("`{word}`: such a decision is the core's"));
            }
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
                // A time that the core adds: a literal above one nanosecond or microsecond.
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

/// Returns whether a line contains a word, not as part of a longer one.
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
    let all = [
        "crates",
        "python",
        "specs",
        "docs",
        "examples",
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "GLOSSARY.md",
        "x",
    ];
    // A lock file names the registry.
    let written = |source: &Source| !source.name.ends_with("Cargo.lock");
    for source in all.iter().flat_map(|below| files(below)).filter(written) {
        for (index, line) in source.text.lines().enumerate() {
            // A group of a workload can have such a name.
            let is_group = line.contains("taskgroup");
            if let Some(word) = banned.iter().find(|word| has_word(line, word) && !is_group) {
                wrong.say(&source.name, index + 1, format_args!("`{word}`"));
            }
        }
    }
    wrong.none();
}

/// What a registry shows of a crate, and what a user of it may do.
#[test]
fn every_crate_can_be_published() {
    let mut wrong = Wrong::default();
    let manifests: Vec<Source> =
        files("crates").into_iter().filter(|file| file.name.ends_with("/Cargo.toml")).collect();
    let is_published = |manifest: &&Source| !manifest.text.contains("\npublish = false");
    assert!(manifests.iter().filter(is_published).count() >= 12, "the crates are found");
    for manifest in manifests.iter().filter(is_published) {
        for key in ["description", "keywords", "categories", "version.", "license.", "repository.", "rust-version."] {
            if !manifest.text.lines().any(|line| line.starts_with(key)) {
                wrong.say(&manifest.name, 1, format_args!("no `{key}`"));
            }
        }
        for (name, same) in [("LICENSE-MIT", true), ("LICENSE-APACHE", true), ("README.md", false)] {
            let own = std::fs::read_to_string(root().join(&manifest.name).with_file_name(name)).unwrap_or_default();
            let text = std::fs::read_to_string(root().join(name)).expect("it is in the root, too");
            if own.is_empty() || (same && own != text) {
                wrong.say(&manifest.name, 1, format_args!("no {name} beside it, or another one than in the root"));
            }
        }
        // A published crate finds the others by version: those of the workspace's table have both.
        for (number, line) in manifest.text.lines().enumerate() {
            if line.contains("path = \"..") {
                wrong.say(&manifest.name, number + 1, "a path without a version: use the workspace's table");
            }
        }
    }
    wrong.none();
}

/// The oldest compiler that manifests promise is the one that every test runs with.
#[test]
fn the_oldest_compiler_is_the_pinned_one() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("a file of the root");
    let quoted = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).expect("the key is there").to_owned();
        line.split('"').nth(1).expect("a quoted value").to_owned()
    };
    let pinned = quoted(&read("rust-toolchain.toml"), "channel");
    for manifest in ["Cargo.toml", "python/Cargo.toml", "python/arrow/Cargo.toml"] {
        let promised = quoted(&read(manifest), "rust-version");
        assert!(pinned.starts_with(&format!("{promised}.")), "{manifest} promises {promised}, tested is {pinned}");
    }
}

/// The version and the licence that a publication cites are those of the workspace.
#[test]
fn the_citation_is_that_of_the_workspace() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("a file of the root");
    let (manifest, citation) = (read("Cargo.toml"), read("CITATION.cff"));
    let quoted = |key: &str| {
        let line = manifest.lines().find(|line| line.starts_with(key)).expect("the key is there");
        line.split('"').nth(1).expect("a quoted value").to_owned()
    };
    let version = format!("version: {}", quoted("version"));
    assert!(citation.lines().any(|line| line == version), "CITATION.cff must have the line `{version}`");
    let listed: Vec<&str> = citation.lines().filter_map(|line| line.strip_prefix("  - ")).collect();
    for licence in quoted("license").split(" OR ") {
        assert!(listed.contains(&licence), "CITATION.cff does not list the licence {licence}");
    }
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

/// Every setting shows its effect in a spec that runs a scenario with and without it.
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
        let word = format!("{}=", setting.name);
        if !varied.iter().any(|line| line.split_whitespace().any(|part| part.starts_with(&word))) {
            wrong.say("specs", 1, format_args!("no block runs with `{word}...`: what does the setting do?"));
        }
    }
    wrong.none();
}

/// The rules of English in `CONTRIBUTING.md` that a machine can check: the habit, and the text to
/// write instead. A habit is a word or phrase in lower case; it is found at word boundaries.
const HABITS: &[(&str, &str)] = &[
    ("who", PERSONS),
    ("whom", PERSONS),
    ("whoever", PERSONS),
    ("nobody", PERSONS),
    ("somebody", PERSONS),
    ("everybody", PERSONS),
    ("anybody", PERSONS),
    ("he", PERSONS),
    ("his", PERSONS),
    ("him", PERSONS),
    ("himself", PERSONS),
    ("held against", "write `checked against` or `compared with`"),
    ("held beside", "write `compared with`"),
    ("hold against", "write `compare with`"),
    ("as often as is wanted", "write `any number of times`"),
    ("gets on", "write `makes progress`"),
    ("comes to be", "write `is created`"),
    ("in the place of", "write `instead of`"),
    ("for ever", "write `forever`"),
];

const PERSONS: &str = "a task, CPU or server is `it`: write `a task that ...`, `the waker`, `no CPU`";

/// Lines that may keep a habit: file, part of the line, why.
const HABITS_MAY: &[(&str, &str, &str)] = &[
    ("CONTRIBUTING.md", "*who, whom, whoever, he, nobody*", "the table names the habits"),
    ("CONTRIBUTING.md", "as often as is wanted", "the table names the habits"),
    ("CONTRIBUTING.md", "\"held against\"", "the table names the habits"),
    ("CONTRIBUTING.md", "comes, goes, is there, comes to be", "the table names the habits"),
    ("CONTRIBUTING.md", "Likewise", "the table names the habits"),
];

/// Returns the habits in a line of prose, each with what to write instead. Code between backticks
/// is not prose.
fn habits(line: &str) -> Vec<(String, &'static str)> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
    let mut found: Vec<(String, &'static str)> = HABITS
        .iter()
        .filter(|(habit, _)| has_word(&prose, habit))
        .map(|(habit, instead)| ((*habit).to_owned(), *instead))
        .collect();
    if prose.trim_end().ends_with("likewise.") || prose.contains("likewise. ") {
        found.push(("likewise.".to_owned(), "repeat the noun and the verb"));
    }
    if let Some(period) = every_is_said_each(&prose) {
        found.push((format!("each {period}"), "a period is `every 10 ms`"));
    }
    found
}

/// Returns the period in `each 10 ms`. `In each 10 ms` is a share of a period, and right.
fn every_is_said_each(prose: &str) -> Option<String> {
    const UNITS: &[&str] = &["ns", "us", "ms", "s"];
    prose.match_indices("each ").find_map(|(at, each)| {
        let before = prose[..at].trim_end();
        let mut words = prose[at + each.len()..].split_whitespace();
        let number = words.next()?;
        let digits = number.trim_end_matches(|c: char| c.is_alphabetic());
        let unit = if digits == number { words.next()? } else { &number[digits.len()..] };
        let unit = unit.trim_end_matches(|c: char| c.is_ascii_punctuation());
        let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let is_share = before.ends_with(" in") || before.ends_with(" of");
        (is_number && UNITS.contains(&unit) && !is_share).then(|| format!("{digits} {unit}"))
    })
}

/// Returns the lines of a Markdown text that are prose, with their numbers: no fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(opened) if line.trim_end() == opened => fence = None,
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => return Some((index + 1, line)),
            Some(_) => {}
        }
        None
    })
}

/// Returns the Markdown files of the repository.
fn pages() -> Vec<Source> {
    let below = [
        "docs",
        "specs",
        "conformance",
        "crates",
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "GLOSSARY.md",
        "CHANGELOG.md",
    ];
    below.iter().flat_map(|below| files(below)).filter(|source| source.name.ends_with(".md")).collect()
}

#[test]
fn pages_are_plain_english() {
    let mut wrong = Wrong::default();
    let mut used = vec![false; HABITS_MAY.len()];
    for page in pages() {
        for (number, line) in prose(&page.text) {
            let may = HABITS_MAY.iter().position(|(file, part, _)| page.name == *file && line.contains(part));
            match may {
                Some(index) => used[index] = true,
                None => {
                    for (habit, instead) in habits(line) {
                        wrong.say(&page.name, number, format_args!("`{habit}`: {instead}"));
                    }
                }
            }
        }
    }
    for ((file, part, reason), _) in HABITS_MAY.iter().zip(used).filter(|(_, used)| !used) {
        wrong.say(file, 1, format_args!("nothing has `{part}` any more ({reason})"));
    }
    wrong.none();
}

#[test]
fn habits_are_found() {
    let found = |line: &str| habits(line).into_iter().map(|(habit, _)| habit).collect::<Vec<_>>();
    assert_eq!(found("A task who waits, Whoever it is."), ["who", "whoever"]);
    assert_eq!(found("It wakes each 10 ms, each 250us."), ["each 10 ms"]);
    assert_eq!(found("Likewise."), ["likewise."]);
    assert!(found("50 ms in each 1 s; each of 10 ms; the `who` of a trace; whose; the whole").is_empty());
}

#[test]
fn the_glossary_is_alphabetical() {
    let text = std::fs::read_to_string(root().join("GLOSSARY.md")).expect("readable");
    let words = text.split_once("\n## Words\n").expect("a heading").1;
    let words = words.lines().filter(|line| line.starts_with("| ")).skip(1);
    let words: Vec<String> = words
        .map(|line| line.split('|').nth(1).expect("a first column").trim().replace('`', "").to_lowercase())
        .collect();
    let mut wrong = Wrong::default();
    for pair in words.windows(2).filter(|pair| pair[0] > pair[1]) {
        wrong.say("GLOSSARY.md", 1, format_args!("`{}` comes before `{}`", pair[1], pair[0]));
    }
    assert!(words.len() > 100, "{} words", words.len());
    wrong.none();
}

#[test]
fn every_page_is_in_the_index() {
    let mut wrong = Wrong::default();
    for index in ["docs/SUMMARY.md", "docs/README.md"] {
        let text = std::fs::read_to_string(root().join(index)).expect("readable");
        for page in files("docs").into_iter().filter(|page| page.name.ends_with(".md")) {
            let name = page.name.strip_prefix("docs/").expect("below docs");
            let is_index = name == "SUMMARY.md" || name == "README.md";
            if !is_index && !text.contains(&format!("]({name})")) {
                wrong.say(index, 1, format_args!("`{name}` is missing"));
            }
        }
    }
    wrong.none();
}

/// Returns the targets of the links and pictures in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches('#').trim().to_lowercase();
    let letters = letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    letters.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_between_pages_resolve() {
    let mut wrong = Wrong::default();
    for page in pages() {
        for (number, line) in prose(&page.text) {
            let code = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            for target in links(&code).filter(|target| !target.contains("://")) {
                let (path, section) = target.split_once('#').unwrap_or((target, ""));
                let here = root().join(&page.name);
                let file = if path.is_empty() { here } else { here.parent().expect("a directory").join(path) };
                if !file.exists() {
                    wrong.say(&page.name, number, format_args!("`{target}` does not exist"));
                } else if !section.is_empty() {
                    let text = std::fs::read_to_string(&file).unwrap_or_default();
                    let mut headings = prose(&text).filter(|(_, line)| line.starts_with('#'));
                    if !headings.any(|(_, heading)| anchor(heading) == section) {
                        wrong.say(&page.name, number, format_args!("`{target}` has no such heading"));
                    }
                }
            }
        }
    }
    wrong.none();
}

/// Where comments are plain English and at most [`MAX_COMMENT`] columns wide.
const PLAIN: &[&str] = &[
    "crates/check",
    "crates/report",
    "crates/linux",
    "crates/sim",
    "crates/model",
    "crates/workload",
    "crates/trace",
    "crates/zerolag",
    "crates/tools",
    "crates/host",
    "crates/lab",
    "crates/cli",
    "crates/tidy",
    "crates/core",
    "crates/runtime",
    "crates/tenants",
];

/// The widest comment line. Longer lines are hard to read, and too wide for two files side by side.
const MAX_COMMENT: usize = 100;

/// Comment lines that may keep a habit: file, part of the line, why.
const COMMENTS_MAY: &[(&str, &str, &str)] = &[];

/// Returns the comment lines of a source that are prose: number, whole line, text. Fenced blocks,
/// tables and drawings are not prose.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            return None;
        };
        let prose = comment.trim_start_matches(['/', '!']).trim_start();
        if prose.starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        let is_drawing = prose.starts_with('|') || prose.contains(|c| ('\u{2500}'..='\u{25ff}').contains(&c));
        (!is_fenced && !is_drawing).then_some((index + 1, line, prose))
    })
}

#[test]
fn comments_are_plain_english() {
    let mut wrong = Wrong::default();
    let mut used = vec![false; COMMENTS_MAY.len()];
    for source in PLAIN.iter().flat_map(|below| sources(below)) {
        for (number, _, prose) in comments(&source.text) {
            let may = COMMENTS_MAY.iter().position(|(file, part, _)| source.name == *file && prose.contains(part));
            match may {
                Some(index) => used[index] = true,
                None => {
                    for (habit, instead) in habits(prose) {
                        wrong.say(&source.name, number, format_args!("`{habit}`: {instead}"));
                    }
                }
            }
        }
    }
    for ((file, part, reason), _) in COMMENTS_MAY.iter().zip(used).filter(|(_, used)| !used) {
        wrong.say(file, 1, format_args!("nothing has `{part}` any more ({reason})"));
    }
    wrong.none();
}

#[test]
fn comments_wrap() {
    let mut wrong = Wrong::default();
    for source in PLAIN.iter().flat_map(|below| sources(below)) {
        for (number, line, prose) in comments(&source.text) {
            let columns = line.chars().count();
            // An address cannot be broken.
            if columns > MAX_COMMENT && !prose.contains("://") {
                wrong.say(&source.name, number, format_args!("{columns} columns: wrap comments at {MAX_COMMENT}"));
            }
        }
    }
    wrong.none();
}

#[test]
fn comments_are_found() {
    let text = "//! Head.\nfn f() {\n    // Why.\n    let a = 1; // not a line of its own\n}\n\
                /// | a |\n/// ```text\n/// who\n/// ```\n/// a ──► b\n/// Last.\n";
    let found: Vec<_> = comments(text).map(|(number, _, prose)| (number, prose)).collect();
    assert_eq!(found, [(1, "Head."), (3, "Why."), (11, "Last.")]);
}

/// Returns the texts of assertions and expectations in code: number of the line, text.
fn assertion_texts(text: &str) -> Vec<(usize, String)> {
    const CALLS: &[&str] = &["assert!(", "assert_eq!(", "assert_ne!(", "expect(", "panic!(", "unreachable!("];
    let mut found = Vec::new();
    // How many parentheses of a call are open.
    let mut open = 0_i32;
    for (number, line) in code(text) {
        let starts = CALLS.iter().filter_map(|call| line.find(call)).min();
        if open == 0 && starts.is_none() {
            continue;
        }
        let from = if open == 0 { starts.unwrap_or_default() } else { 0 };
        let (mut literal, mut is_escaped): (Option<String>, bool) = (None, false);
        for c in line[from..].chars() {
            match (&mut literal, c) {
                (Some(_), _) if is_escaped => is_escaped = false,
                (Some(_), '\\') => is_escaped = true,
                (Some(text), '"') => {
                    found.push((number, std::mem::take(text)));
                    literal = None;
                }
                (Some(text), c) => text.push(c),
                (None, '"') => literal = Some(String::new()),
                (None, '(') => open += 1,
                (None, ')') => open -= 1,
                (None, _) => {}
            }
        }
        open = if line.trim_end().ends_with(';') { 0 } else { open.max(0) };
    }
    found
}

/// What an assertion says is read by the person whose run it has ended.
#[test]
fn assertions_are_plain_english() {
    let mut wrong = Wrong::default();
    for source in PLAIN.iter().flat_map(|below| sources(&format!("{below}/src"))) {
        for (number, text) in assertion_texts(&source.text) {
            for (habit, instead) in habits(&text) {
                wrong.say(&source.name, number, format_args!("`{habit}`: {instead}"));
            }
        }
    }
    wrong.none();
}

#[test]
fn assertion_texts_are_found() {
    let text = "fn f() {\n    assert!(a(b), \"one\");\n    let x = y.expect(\"two \\\" of it\");\n    assert_eq!(\n        \
                a,\n        b,\n        \"three {c}\"\n    );\n    let z = \"none\";\n}\n";
    let found: Vec<String> = assertion_texts(text).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["one", "two  of it", "three {c}"]);
}

/// A monitor that no trace of its tests breaks could be one that never finds anything.
#[test]
fn every_monitor_is_broken_by_a_trace() {
    let table = std::fs::read_to_string(root().join("crates/check/src/monitors/mod.rs")).expect("readable");
    let names: Vec<&str> = table.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 10, "the table is found: {names:?}");
    let tests: String = sources("crates/check/src/monitors").map(|source| source.text).collect();
    let mut wrong = Wrong::default();
    for name in names {
        for (call, what) in [("breaks", "that breaks it"), ("holds", "on which it holds")] {
            let is_called = tests.split(&format!("{call}(")).skip(1).any(|rest| {
                rest.trim_start().strip_prefix('"').is_some_and(|rest| rest.starts_with(&format!("{name}\"")))
            });
            if !is_called {
                let says = format!("`{name}` has no trace {what}: {call}(\"{name}\", ...)");
                wrong.say("crates/check/src/monitors", 1, says);
            }
        }
    }
    wrong.none();
}

/// Where the tests of a crate are modules of one program, a file that is none would never be
/// compiled, and its tests would pass.
#[test]
fn every_test_of_the_core_is_compiled() {
    let mut wrong = Wrong::default();
    let main = std::fs::read_to_string(root().join("crates/core/tests/main.rs")).expect("readable");
    let tests = files("crates/core/tests").into_iter().filter_map(|source| {
        let name = source.name.strip_prefix("crates/core/tests/")?.strip_suffix(".rs")?.to_owned();
        (name != "main" && !name.contains('/')).then_some((source.name, name))
    });
    for (file, name) in tests {
        if !main.lines().any(|line| line == format!("mod {name};")) {
            wrong.say(&file, 1, format_args!("add `mod {name};` to crates/core/tests/main.rs"));
        }
    }
    wrong.none();
}

/// A page of the laboratory has one topic and its newest figures; older ones are in the history.
#[test]
fn pages_of_the_laboratory_have_no_date_in_their_name() {
    let mut wrong = Wrong::default();
    for page in files("docs/lab").into_iter().filter(|page| page.name.ends_with(".md")) {
        if page.name.contains("/20") {
            wrong.say(&page.name, 1, "a topic, not a date: add to its page, and replace the figures that are older");
        }
    }
    wrong.none();
}

/// The changelog has a page per version: what a user of the version before must know.
#[test]
fn a_version_has_one_page_in_the_changelog() {
    const MOST: usize = 700;
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("readable");
    let mut wrong = Wrong::default();
    for version in text.split("\n## ").skip(1) {
        let words = version.split_whitespace().count();
        if words > MOST {
            let name = version.lines().next().unwrap_or_default();
            wrong.say("CHANGELOG.md", 1, format_args!("{name} has {words} words, a page has {MOST}"));
        }
    }
    wrong.none();
}
