//! Compares the tree with that of the crate `toml`: the same texts are valid, with the same values
//! at the same positions.

use super::*;
use proptest::prelude::*;
use std::fmt::Write;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Prints a tree, members by name.
fn ours(node: &Value<'_>, out: &mut String) {
    match node {
        Value::String(text) => write!(out, "{text:?}"),
        Value::Integer(number) => write!(out, "{number} {} {:?}", number.as_str(), number.value()),
        Value::Float(number) => write!(out, "{number} {}", number.as_str()),
        Value::Boolean(value) => write!(out, "{value}"),
        Value::Datetime => write!(out, "date"),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write!(out, "{:?} ", item.span()).expect("a String takes it");
                ours(item.get_ref(), out);
                out.push(',');
            }
            write!(out, "]")
        }
        Value::Table(table) => {
            ours_table(table, out);
            Ok(())
        }
    }
    .expect("a String takes it");
}

fn ours_table(table: &Members<'_>, out: &mut String) {
    let mut members: Vec<_> = table.as_slice().iter().collect();
    assert!(members.is_sorted_by_key(|member| member.key_span), "in the order of the text");
    members.sort_by(|a, b| a.key.cmp(&b.key));
    out.push('{');
    for member in members {
        write!(out, "{:?} {:?} {:?} ", member.key, member.key_span, member.item.span()).expect("a String takes it");
        ours(member.item.get_ref(), out);
        out.push(',');
    }
    out.push('}');
}

fn theirs(node: &DeValue<'_>, out: &mut String) {
    match node {
        DeValue::String(text) => write!(out, "{text:?}"),
        DeValue::Integer(number) => {
            let value = i128::from_str_radix(number.as_str(), number.radix()).ok();
            write!(out, "{number} {} {value:?}", number.as_str())
        }
        DeValue::Float(number) => write!(out, "{number} {}", number.as_str()),
        DeValue::Boolean(value) => write!(out, "{value}"),
        DeValue::Datetime(_) => write!(out, "date"),
        DeValue::Array(items) => {
            out.push('[');
            for item in items.iter() {
                write!(out, "{:?} ", Span::new(item.span())).expect("a String takes it");
                theirs(item.get_ref(), out);
                out.push(',');
            }
            write!(out, "]")
        }
        DeValue::Table(table) => {
            theirs_table(table, out);
            Ok(())
        }
    }
    .expect("a String takes it");
}

fn theirs_table(table: &DeTable<'_>, out: &mut String) {
    let mut members: Vec<(&Spanned<_>, _)> = table.iter().collect();
    members.sort_by(|(a, _), (b, _)| a.get_ref().cmp(b.get_ref()));
    out.push('{');
    for (key, item) in members {
        let (key_span, span) = (Span::new(key.span()), Span::new(item.span()));
        write!(out, "{:?} {key_span:?} {span:?} ", key.get_ref()).expect("a String takes it");
        theirs(item.get_ref(), out);
        out.push(',');
    }
    out.push('}');
}

/// Compares the two; returns whether the text is valid.
fn compare(text: &str) -> bool {
    let (wanted, errors) = DeTable::parse_recoverable(text);
    let found = parse(text, 0);
    assert_eq!(found.is_ok(), errors.is_empty(), "{errors:?} of {text:?}");
    let Ok(found) = found else { return false };
    let (mut one, mut other) = (String::new(), String::new());
    ours_table(&found, &mut one);
    theirs_table(wanted.get_ref(), &mut other);
    assert_eq!(one, other, "{text:?}");
    true
}

#[test]
fn what_tables_may_be_opened_twice() {
    let good = [
        "",
        "a = 1",
        "[a]\n[a.b]\n[a.c]\nd = 1",
        "[a.b.c]\nx = 1\n[a]\ny = 2\n[a.b]\nz = 3",
        "[a.b]\n[c]\n[a]\nx = 1",
        "[[a]]\nx = 1\n[a.b]\ny = 1\n[[a]]\nx = 2\n[a.b]\ny = 2",
        "[[a.b]]\n[[a.b]]\n[a.b.c]\n[[a.b.d]]",
        "a.b.c = 1\na.b.d = 2\na.e = 3",
        "a.b = 1\n[c]\nd.e = 1\nd.f = 2",
        "[a]\nb.c = 1\n[a.d]\n",
        "a = { b.c = 1, b.d = 2 }",
        "a = [{ b = 1 }, { b = 2 }]",
        "'a b'.\"c\\n\" = 1",
        "[a.b.c]\n[a]\nx.y = 1",
    ];
    for text in good {
        assert!(compare(text), "{text}");
    }
    let bad = [
        "a = 1\na = 2",
        "[a]\n[a]",
        "[a]\nb = 1\n[a.b]",
        "a.b = 1\n[a]\nc = 1",
        "[a.b.c]\n[a]\nb.d = 1\n[a.b]",
        "a = { b = 1 }\n[a.c]",
        "a = { b.c = 1 }\n[a.b]",
        "a = { b = 1 }\na.c = 2",
        "a = { b = 1, b = 2 }",
        "a = { b = { c = 1 }, b.d = 2 }",
        "a = []\n[[a]]",
        "a = [{ b = 1 }]\n[a.c]",
        "a = [1]\n[[a]]",
        "[[a]]\n[a]",
        "[a]\n[[a]]",
        "[[a.b]]\n[a]\nb.c = 1",
        "a = 1\n[a.b]",
        "a =",
        "= 1",
        "[a",
        "a = [1",
        "a = { b = 1",
        "a = { b }",
        "a = \"x",
        "a = 1 b = 2",
        "a = 01",
        "a = 1__0",
        "a = 2026-13-01",
        "a = \"\\q\"",
        "a = \"\u{7f}\"",
        "a b = 1",
        "a. = 1",
        "]",
    ];
    for text in bad {
        assert!(!compare(text), "{text}");
    }
}

#[test]
fn scalars_of_every_kind() {
    for value in [
        "0",
        "-0",
        "+0",
        "17",
        "-17",
        "+17",
        "1_000",
        "0xDEAD_beef",
        "0o17",
        "0b1_0",
        "99999999999999999999999999999999999999999",
        "1.5",
        "+1.5",
        "-1.5e3",
        "1_0.5",
        "6.02e+23",
        "inf",
        "-inf",
        "+inf",
        "nan",
        "-nan",
        "true",
        "false",
        "\"\"",
        "''",
        "\"a\\tb\"",
        "'a\\tb'",
        "\"\"\"a\nb\"\"\"",
        "'''a\n'b'\n'''",
        "\"ü€\"",
        "1979-05-27",
        "1979-05-27 07:32:00",
        "07:32:00.999",
        "1979-05-27T00:32:00-07:00",
        "[]",
        "[ 1, 2, ]",
        "[\n# c\n1\n]",
        "{}",
        "{ a = 1, }",
        "{\na = 1\n}",
    ] {
        assert!(compare(&format!("a = {value}\nb = [{value}, {value}] # c")), "{value}");
    }
}

#[test]
fn nesting_and_long_keys_end_where_they_end_in_toml() {
    for depth in [1, 79, 80, 81, 82, 1000, 100_000] {
        compare(&format!("a = {}{}", "[".repeat(depth), "]".repeat(depth)));
        compare(&format!("a = {}1{}", "{a=".repeat(depth), "}".repeat(depth)));
        compare(&format!("a{} = 1", ".a".repeat(depth)));
        compare(&format!("[a{}]", ".a".repeat(depth)));
        compare(&format!("a = {{ a{} = 1 }}", ".a".repeat(depth)));
        compare(&format!("a = {}", "[".repeat(depth)));
    }
}

#[test]
fn large_tables_find_their_members() {
    let mut text = String::new();
    for number in 0..3000 {
        writeln!(text, "[t.k{number}]\nv = {number}\nsteps = [\n  {{ run = \"1ms\" }},\n]").expect("a String takes it");
    }
    assert!(compare(&text));
    assert!(!compare(&format!("{text}[t.k17]\n")));
    assert!(!compare(&format!("{text}[t]\nk2999 = 1\n")));
    assert!(compare(&format!("{text}[t.k17.more]\n[t.other]\n")));
}

/// Files of this repository.
fn files() -> Vec<String> {
    let mut files = Vec::new();
    for directory in ["../../examples", "tests/fixtures", "../../conformance/bandwidth/workloads"] {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let mut paths: Vec<_> =
            std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("one").path()).collect();
        paths.sort();
        let scenarios = paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.extend(scenarios.map(|path| std::fs::read_to_string(path).expect("a file")));
    }
    assert!(files.len() > 9);
    files
}

#[test]
fn the_files_of_this_repository_read_the_same() {
    files().iter().for_each(|text| assert!(compare(text), "{text}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Pieces of grammar in any order: some results are valid.
    #[test]
    fn pieces_in_any_order_read_the_same(pieces in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "c", ".", " = ", "1", "\"s\"", "'t'", "[", "]", "[[", "]]", "{", "}", ", ", "\n", "# x\n", "1.5", "true", " ",
        "a = 1\n", "[a]\n", "[a.b]\n", "[[a]]\n", "[[a.b]]\n", "b.c = 1\n", "{ a = 1 }", "{ a.b = 1 }", "[1, 2]", "\r", "\\",
    ]), 0..14)) {
        compare(&pieces.concat());
    }

    /// Statements in any order: most results are valid.
    #[test]
    fn statements_in_any_order_read_the_same(statements in prop::collection::vec(prop::sample::select(vec![
        "a = 1", "b = 1", "a.b = 1", "a.c = 1", "a.b.c = 1", "b.a.c = {}", "[a]", "[b]", "[a.b]", "[a.b.c]", "[b.a]", "[[a]]", "[[a.b]]", "[[b]]",
        "c = { a.b = 1, a.c = 2 }", "c = [{}, {}]", "a = {}", "[c.a]", "[[c]]", "[c.b.a]", "d.e = []", "[d]", "x = 1", "y = 1",
    ]), 0..10)) {
        compare(&statements.join("\n"));
    }

    /// Damaged files.
    #[test]
    fn damaged_files_read_the_same(file in 0_usize..1000, at in 0_usize..100_000, byte in any::<char>(), length in 0_usize..4) {
        let files = files();
        let mut text = files[file % files.len()].clone();
        let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
        let from = at % places.len();
        let end = places.get(from + length).copied().unwrap_or(text.len());
        text.replace_range(places[from]..end, &byte.to_string());
        compare(&text);
    }
}
