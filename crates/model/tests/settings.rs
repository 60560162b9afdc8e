//! Every setting as users and traces see it, compared with a recorded text: names, meanings,
//! values, the releases that changed them, refusals, and the order in traces.

use std::fmt::Write as _;
use zerolag_model::Settings;

const RECORDED: &str = include_str!("data/settings.txt");

/// Texts that most settings refuse, each for another reason.
const TEXTS: [&str; 5] = ["x", "0", "18446744073709551615", "18446744073709551616", "400s"];

fn describe() -> String {
    let mut text = String::new();
    for (row, setting) in Settings::TABLE.iter().enumerate() {
        writeln!(text, "{}: {} ({})", setting.name, setting.doc, setting.values).expect("a string takes everything");
        for (change, value) in Settings::history(setting) {
            let since = change.map_or_else(|| "at first".to_owned(), |change| change.to_string());
            writeln!(text, "  {since} `{value}`").expect("a string takes everything");
        }
        for wrong in TEXTS {
            let mut settings = Settings::default();
            match settings.set(setting.name, wrong) {
                Err(error) => writeln!(text, "  refused: {error}").expect("a string takes everything"),
                Ok(()) => {
                    let value = settings.entries().nth(row).expect("a row").1;
                    writeln!(text, "  {wrong:?} is `{value}`").expect("a string takes everything");
                }
            }
        }
    }
    let settings = Settings::default();
    let keys: Vec<&str> = settings.recorded().map(|(key, _)| key).collect();
    writeln!(text, "in traces: {}", keys.join(", ")).expect("a string takes everything");
    text
}

#[test]
fn settings_are_as_recorded() {
    let described = describe();
    if described == RECORDED {
        return;
    }
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/settings.txt");
    std::fs::write(path, &described).expect("a writable directory");
    let differs = described.lines().zip(RECORDED.lines()).position(|(now, then)| now != then);
    let line = differs.unwrap_or_else(|| described.lines().count().min(RECORDED.lines().count()));
    panic!(
        "line {}: {:?}, recorded {:?}; if that is meant, copy {path} to tests/data",
        line + 1,
        described.lines().nth(line),
        RECORDED.lines().nth(line)
    );
}

/// The kernel's names as a table of the documentation.
fn spellings() -> String {
    let mut text = "| the kernel's | setting | values |\n|---|---|---|\n".to_owned();
    for row in Settings::SPELLINGS {
        let values: Vec<String> = row.values.iter().map(|(theirs, ours)| format!("{theirs} is `{ours}`")).collect();
        let (key, place) = (row.key, row.place);
        let file = if place.starts_with('/') { format!("`{place}/{key}`") } else { format!("{place}: `{key}`") };
        writeln!(text, "| {file} | `{}` | {} |", row.setting, values.join(", ")).expect("a string takes everything");
    }
    text.replace("|  |", "| |")
}

#[test]
fn the_documentation_has_the_table_of_spellings() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let table = spellings();
    assert!(page.contains(&table), "docs/reference/settings.md must contain:\n{table}");
}
