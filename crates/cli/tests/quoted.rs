//! The outputs that README and guides quote are those that the commands print.
//!
//! A fenced block that begins with `$ zerolag ...` is such a quote: its other lines must be lines
//! of the output, in that order; `...` stands for lines left out. A block that begins with
//! `$ cat FILE` quotes a file of the repository in the same way. A picture that a command draws
//! must have the bytes of the one in the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Commands whose output depends on the host, or that run for minutes: parts of their lines.
const NOT_RUN: &[(&str, &str)] = &[
    ("--on linux", "runs on the host's kernel"),
    ("calibrate", "measures the host"),
    ("validate --live", "runs on the host's kernel"),
    ("repro ", "runs for minutes; tests/repro.rs has shorter ones"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command line with the lines quoted after it.
struct Quote {
    place: String,
    command: String,
    lines: Vec<String>,
}

/// Returns the quotes of a page.
fn quotes(page: &str, text: &str) -> Vec<Quote> {
    let mut found: Vec<Quote> = Vec::new();
    let (mut is_fenced, mut is_quote, mut continues) = (false, false, false);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            (is_fenced, is_quote, continues) = (!is_fenced, false, false);
            continue;
        }
        let begun = line.strip_prefix("$ ").filter(|_| is_fenced);
        if continues {
            let quote = found.last_mut().expect("a command has begun");
            quote.command.push_str(line.trim_end_matches('\\'));
            continues = line.ends_with('\\');
        } else if let Some(command) = begun {
            is_quote = ["zerolag ", "cat "].iter().any(|program| command.starts_with(program));
            if is_quote {
                let place = format!("{page}:{}", number + 1);
                found.push(Quote { place, command: command.trim_end_matches('\\').to_owned(), lines: Vec::new() });
                continues = command.ends_with('\\');
            }
        } else if is_quote && !line.trim().is_empty() {
            found.last_mut().expect("a command has begun").lines.push(line.to_owned());
        }
    }
    found
}

/// Splits a command line at blanks, but not in single quotes; a comment ends it.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            '#' if !is_quoted => break,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().expect("one at least").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the first quoted line that the output lacks behind those before it.
fn missing<'a>(lines: &'a [String], output: &str) -> Option<&'a str> {
    let mut rest = output.lines();
    let quoted = lines.iter().map(|line| line.trim()).filter(|line| *line != "...");
    quoted.into_iter().find(|line| !rest.any(|printed| printed.trim() == *line))
}

/// Lets a command draw below `target`; returns the picture that it names, and that which it draws.
fn picture(command: &mut [String]) -> Option<(String, String)> {
    let at = command.iter().position(|word| word == "--plot")? + 1;
    let kept = command[at].clone();
    let drawn = format!("target/{}", kept.rsplit('/').next().expect("one at least"));
    command[at].clone_from(&drawn);
    Some((kept, drawn))
}

fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for kind in ["tutorial", "how-to", "explanation"] {
        let below = fs::read_dir(root().join("docs").join(kind)).expect("a directory");
        let names = below.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
        // tests/gallery.rs compares the gallery.
        let quoting = names.filter(|name| name.ends_with(".md") && name != "gallery.md");
        pages.extend(quoting.map(|name| format!("docs/{kind}/{name}")));
    }
    pages.sort();
    pages
}

/// What commands print, each run once: several pages quote the same.
type Outputs = Mutex<BTreeMap<String, Arc<OnceLock<String>>>>;

fn output(command: &[String]) -> String {
    if command[0] == "cat" {
        return fs::read_to_string(root().join(&command[1])).expect("a file of the repository");
    }
    let program = Command::new(env!("CARGO_BIN_EXE_zerolag")).args(&command[1..]).current_dir(root()).output();
    String::from_utf8_lossy(&program.expect("the program starts").stdout).into_owned()
}

/// Runs the commands of a page in their order: later ones read what earlier ones write. Returns
/// how many were compared, and what is wrong.
fn judge(page: &str, outputs: &Outputs) -> (usize, Vec<String>) {
    let (mut compared, mut wrong) = (0, Vec::new());
    let text = fs::read_to_string(root().join(page)).expect("readable");
    for quote in quotes(page, &text) {
        if quote.lines.is_empty() || NOT_RUN.iter().any(|(part, _)| quote.command.contains(part)) {
            continue;
        }
        let mut command = words(quote.command.split(" | ").next().expect("one at least"));
        let picture = picture(&mut command);
        let printed = Arc::clone(outputs.lock().expect("no panic").entry(command.join("\0")).or_default());
        compared += 1;
        let missing = missing(&quote.lines, printed.get_or_init(|| output(&command)));
        if let Some((kept, drawn)) = picture {
            let [kept, drawn] = [kept, drawn].map(|file| fs::read(root().join(file)).expect("a picture"));
            if kept != drawn {
                wrong.push(format!("{}: `{}` draws another picture", quote.place, quote.command));
            }
        }
        if let Some(line) = missing {
            wrong.push(format!("{}: `{}` does not print, in this place:\n  {line}", quote.place, quote.command));
        }
    }
    (compared, wrong)
}

#[test]
fn quoted_outputs_are_those_of_the_commands() {
    // Where the commands of pages write traces, for the commands below them, and pictures.
    fs::create_dir_all(root().join("target")).expect("the repository can be written");
    let (outputs, pages, next) = (Outputs::default(), pages(), AtomicUsize::new(0));
    let run = || {
        let pages = std::iter::from_fn(|| pages.get(next.fetch_add(1, Ordering::Relaxed)));
        pages.map(|page| judge(page, &outputs)).collect::<Vec<_>>()
    };
    // Two pages at a time: half of the commands simulate on one thread.
    let judged: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        run().into_iter().chain(other.join().expect("it ends")).collect()
    });
    let compared: usize = judged.iter().map(|(compared, _)| compared).sum();
    let wrong: Vec<String> = judged.into_iter().flat_map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 4, "only {compared} quotes were found");
}

#[test]
fn a_wrong_quote_is_found() {
    let page = "```\n$ zerolag run a.toml --set 'b=c d' \\\n    -q # quietly\nfirst\n...\nlast\n$ ls\nnothing\n```\n";
    let found = quotes("page", page);
    assert_eq!(found.len(), 1);
    assert_eq!(words(&found[0].command), ["zerolag", "run", "a.toml", "--set", "b=c d", "-q"]);
    assert_eq!(missing(&found[0].lines, "first\nsecond\nlast\n"), None);
    assert_eq!(missing(&found[0].lines, "last\nfirst\n"), Some("last"), "the order counts");
    assert_eq!(missing(&found[0].lines, "first\nlast one\n"), Some("last"));
    let mut draws = words("zerolag sweep a.toml --plot docs/b.svg");
    assert_eq!(picture(&mut draws), Some(("docs/b.svg".to_owned(), "target/b.svg".to_owned())));
    assert_eq!(draws.last().map(String::as_str), Some("target/b.svg"));
    let files = quotes("page", "```\n$ cat a.toml\ncpus = 1\n```\n");
    assert_eq!(words(&files[0].command), ["cat", "a.toml"]);
    assert_eq!(files[0].lines, ["cpus = 1"]);
}
