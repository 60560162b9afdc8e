//! The page about the port of a server shows the difference between the two programs as they are,
//! and the tutorial shows parts of its server as they are.

use std::fs::read_to_string;
use std::path::Path;

/// Checks that the hunks of a unified difference turn one text into the other.
fn applies(diff: &str, before: &str, after: &str) {
    let [before, after] = [before, after].map(|text| text.lines().collect::<Vec<_>>());
    let (mut made, mut at) = (Vec::new(), 0);
    for line in diff.lines() {
        if let Some(place) = line.strip_prefix("@@ -") {
            let first: usize = place.split([',', ' ']).next().and_then(|first| first.parse().ok()).expect("a line");
            made.extend(&before[at..first - 1]);
            at = first - 1;
        } else if !line.starts_with("---") && !line.starts_with("+++") {
            let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            if kind != "+" {
                assert_eq!(before.get(at).copied(), Some(text), "line {} of the program before", at + 1);
                at += 1;
            }
            if kind != "-" {
                made.push(text);
            }
        }
    }
    made.extend(&before[at..]);
    assert_eq!(made, after, "the page's difference does not give the program after");
}

fn read(path: &str) -> String {
    read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is in the repository")
}

/// The indentation of a part is that of its place, so it does not count.
#[test]
fn the_tutorial_has_parts_of_the_server() {
    let unindented = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let page = read("../../docs/tutorial/server-author.md");
    let server = unindented(&read("examples/axum_tenants/main.rs"));
    let parts: Vec<&str> = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(parts.len(), 2, "the page shows the layer and the tenant of a request");
    for part in parts {
        assert!(server.contains(&unindented(part)), "examples/axum_tenants/main.rs has no such lines:\n{part}");
    }
}

#[test]
fn the_page_has_the_difference() {
    let page = read("../../docs/how-to/runtime-port.md");
    let (_, diff) = page.split_once("```diff\n").expect("a block with a difference");
    let (diff, _) = diff.split_once("```").expect("its end");
    let [plain, grouped] = ["plain", "grouped"].map(|name| read(&format!("examples/log_query/{name}.rs")));
    applies(diff, &plain, &grouped);
    let changed = diff.lines().filter(|line| line.starts_with(['+', '-'])).count() - 2;
    assert!(page.contains(&format!("{changed} changed lines")), "{changed} lines");
}
