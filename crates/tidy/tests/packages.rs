//! Every package in the dependency graph may be used under a licence that `deny.toml` allows.
//!
//! `cargo deny` does the same and more; it is not on every machine, and a licence enters with the
//! change that adds a package.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the licences that the policy allows.
fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("the policy");
    let (_, list) = text.split_once("allow = [").expect("a list of licences");
    let (list, _) = list.split_once(']').expect("its end");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether an expression of SPDX can be fulfilled with allowed licences: `(A OR B) AND C`;
/// old packages write `A/B` for `A OR B`. `AND` binds more strongly.
fn is_fulfilled(expression: &str, allowed: &[String]) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let holds = either(&words, &mut at, allowed);
    assert_eq!(at, words.len(), "`{expression}` is not an expression of SPDX");
    holds
}

fn either(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut holds = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= both(words, at, allowed);
    }
    holds
}

fn both(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut holds = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at, allowed);
    }
    holds
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let holds = either(words, at, allowed);
        *at += 1;
        return holds;
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{word} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
    }
    allowed.contains(&name)
}

/// Returns the packages of the workspace and what they depend on.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["packages"].as_array().cloned().expect("packages")
}

#[test]
fn every_package_has_an_allowed_licence() {
    let allowed = allowed();
    assert!(allowed.iter().any(|name| name == "MIT"), "{allowed:?}");
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| is_fulfilled(licence, &allowed)))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(wrong.is_empty(), "not allowed by deny.toml:\n{}", wrong.join("\n"));
}

#[test]
fn an_expression_is_read_as_spdx_says() {
    let allowed = ["MIT".to_owned(), "Zlib".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
    for (text, expected) in [
        ("MIT", true),
        ("GPL-2.0", false),
        ("GPL-2.0 OR MIT", true),
        ("GPL-2.0/MIT", true),
        ("GPL-2.0 AND MIT", false),
        ("GPL-2.0 AND Zlib OR MIT", true),
        ("(GPL-2.0 OR Zlib) AND MIT", true),
        ("(GPL-2.0 OR Zlib) AND (MPL-2.0 OR LGPL-3.0)", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0 WITH Other-exception", false),
    ] {
        assert_eq!(is_fulfilled(text, &allowed), expected, "{text}");
    }
}

/// Returns the packages of a lock file with their versions.
fn locked(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).expect("a lock file");
    let value = |block: &str, key: &str| {
        let (_, rest) = block.split_once(&format!("\n{key} = \""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    text.split("[[package]]").filter_map(|block| Some((value(block, "name")?, value(block, "version")?))).collect()
}

/// Returns what a version has in common with those that may replace it: `1`, `0.4`.
fn line(version: &str) -> &str {
    let end = if version.starts_with("0.") { 2 } else { 1 };
    let parts: Vec<_> = version.match_indices('.').map(|(at, _)| at).collect();
    parts.get(end - 1).map_or(version, |at| &version[..*at])
}

/// The Python package has a lock file of its own. A package of another version is compiled twice,
/// and a fault of it is mended in one of both only.
#[test]
fn the_python_package_uses_the_same_versions() {
    let ours = locked(&root().join("Cargo.lock"));
    let theirs = locked(&root().join("python/Cargo.lock"));
    assert!(ours.len() > 100 && theirs.len() > 50, "{} and {} packages", ours.len(), theirs.len());
    let differ = |(name, version): &&(String, String)| {
        let mut same_line = ours.iter().filter(|(other, theirs)| other == name && line(theirs) == line(version));
        same_line.clone().next().is_some() && !same_line.any(|(_, other)| other == version)
    };
    let wrong: Vec<_> = theirs.iter().filter(differ).collect();
    assert!(wrong.is_empty(), "cargo update -p NAME --precise VERSION in python/, as in Cargo.lock: {wrong:?}");
    assert_eq!((line("1.12.2"), line("0.4.8"), line("10.0.1")), ("1", "0.4", "10"));
}
