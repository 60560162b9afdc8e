//! No input, however broken, causes a panic, a stack overflow or an endless loop.

use proptest::prelude::*;
use std::path::Path;
use zerolag_workload::{DuplicatePolicy, LoadOptions, Severity, builtin, load};

/// Loads under every format and policy; any result must be printable.
fn survive(bytes: &[u8]) {
    for (name, duplicates) in [
        ("f.json", DuplicatePolicy::Workgen),
        ("f.json", DuplicatePolicy::JsonC),
        ("f.toml", DuplicatePolicy::Error),
        ("-", DuplicatePolicy::Error),
    ] {
        match load(name, bytes, &LoadOptions { duplicates, ..LoadOptions::default() }) {
            Ok(scenario) => {
                assert_eq!(scenario.warnings.count(Severity::Error), 0);
                let _ = scenario.warnings.to_string();
            }
            Err(errors) => {
                assert!(errors.count(Severity::Error) > 0, "a refusal says why");
                assert!(!errors.to_string().is_empty());
                let mut out = String::new();
                let carets = errors.carets();
                miette::NarratableReportHandler::new().render_report(&mut out, &carets).expect("renders");
            }
        }
    }
}

/// Valid files: the examples and the fixtures.
fn valid_files() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = [root.join("../../examples"), root.join("tests/fixtures")]
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).expect("readable").flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "toml"))
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("readable")))
        .collect();
    files.sort();
    files
}

#[test]
fn fixtures_are_valid() {
    for (name, bytes) in valid_files() {
        load(&name, &bytes, &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

fn error_of(name: &str, text: &[u8]) -> String {
    load(name, text, &LoadOptions::default()).expect_err("refused").to_string()
}

#[test]
fn hundred_thousand_levels_are_refused() {
    for open in ["[", "{\"a\":", "{\"tasks\":[", "(", "/*"] {
        survive(open.repeat(100_000).as_bytes());
    }
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{a=".repeat(100_000)),
        format!("{}a = 1", "a.".repeat(100_000)),
        format!("[{}a]", "a.".repeat(100_000)),
        format!("[[{}a]]\n", "a.".repeat(100_000)),
        format!("a = {}", "[\n".repeat(100_000)),
    ] {
        survive(text.as_bytes());
    }
    assert_eq!(
        error_of("f.json", "[".repeat(100_000).as_bytes()),
        "f.json:1:129: error: brackets are nested deeper than 128"
    );
    let deep = error_of("f.toml", format!("a = {}", "[".repeat(100_000)).as_bytes());
    assert!(deep.contains("f.toml:1:85: error: brackets are nested deeper than 80"), "{deep}");
    assert_eq!(deep.matches("deeper").count(), 1, "said once: {deep}");
}

#[test]
fn a_million_mistakes_are_counted_not_listed() {
    let tasks = "\"t\":{\"run\":1},".repeat(1_000_000);
    let errors = error_of("f.json", format!("{{\"tasks\":{{{}}}}}", tasks.replace("run", "rum")).as_bytes());
    assert!(errors.ends_with("more warnings") && errors.lines().count() < 1_000, "{}", errors.lines().count());
    let keys = "a = 1\n".repeat(300_000);
    let errors = error_of("f.toml", keys.as_bytes());
    assert!(errors.ends_with("and 299899 more errors"), "{}", &errors[errors.len() - 60..]);
    let items = "0,".repeat(12_000_000);
    let errors = error_of("f.json", format!("[{items}]").as_bytes());
    assert!(errors.contains("the file has more than 10000000 values"), "{errors}");
    survive("[task.a]\nsteps = [".repeat(10_000).as_bytes());
}

#[test]
fn special_files_are_refused_with_reasons() {
    for (bytes, reason) in [
        (&b"\x89PNG\r\n\x1a\n\0\0"[..], "is not UTF-8 text"),
        (b"{\"tasks\"\0:{}}", "this is not a text file"),
        (b"", "the scenario has no tasks"),
        (b"{\"tasks\": {\"a\": {\"run\": 1}", "the file ends inside an object: is it cut off?"),
        (b"{\"tasks\": {\"a\": {\"run\": 123456789012345678901234567890}}}", "is outside 0..=2147483647 us"),
        (b"\"just a string\"", "key with no value"),
    ] {
        let errors = error_of("input", bytes);
        assert!(errors.contains(reason), "{errors}");
    }
    let scenario = load("f.json", "\u{feff}{\"tasks\": {\"a\": {\"run\": 1}}}".as_bytes(), &LoadOptions::default());
    assert!(
        scenario
            .expect("stepped over")
            .warnings
            .to_string()
            .starts_with("f.json:1:1: warning: the file starts with a byte order mark")
    );
}

/// Text out of the words of both grammars: gets deeper than arbitrary bytes.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "=",
        "\n",
        ".",
        "\"",
        "'",
        "/*",
        "*/",
        "//",
        "#",
        "\\",
        "\u{e9}",
        "\u{feff}",
        "0",
        "-1",
        "1e9",
        "99999999999999999999",
        "true",
        "null",
        "NaN",
        "\"tasks\"",
        "\"global\"",
        "\"resources\"",
        "\"phases\"",
        "\"run\"",
        "\"loop\"",
        "\"cpus\"",
        "\"timer\"",
        "\"ref\"",
        "\"policy\"",
        "\"SCHED_FIFO\"",
        "\"suspend\"",
        "\"fork\"",
        "\"barrier\"",
        "\"memrun\"",
        "[task.a]\n",
        "[[task.a.phase]]\n",
        "steps = [",
        "{ run = \"1ms\" }",
        "[settings]\n",
        "[cpuset.a]\n",
        "[machine]\n",
        "cpus = 4\n",
        "\"1ms\"",
        "uniform",
        "exponential",
        "kernel = \"6.12\"\n",
        "[group.\"/x\"]\n",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
        let _ = builtin::periodic(&String::from_utf8_lossy(&bytes), builtin::PeriodicPolicy::Deadline);
    }

    #[test]
    fn words_of_the_grammars_do_no_harm(text in words()) {
        survive(text.as_bytes());
    }

    #[test]
    fn damaged_files_do_no_harm(
        file in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..5, any::<u8>()), 1..6),
    ) {
        let files = valid_files();
        let mut bytes = file.get(&files).1.clone();
        for (place, how, byte) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, byte & 0x7f),
                _ => {
                    let end = bytes.len().min(at + usize::from(byte));
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        survive(&bytes);
    }

    #[test]
    fn damaged_tables_do_no_harm(at in any::<prop::sample::Index>(), byte in any::<char>()) {
        let mut text = builtin::W4.to_string();
        let at = at.index(text.len());
        text.insert(at, byte);
        let _ = builtin::periodic(&text, builtin::PeriodicPolicy::RateMonotonicFifo);
    }
}
