//! What bash completes.

use std::path::Path;
use std::process::Command;

/// Types a line in bash, and the tabulator behind it. `None` if there is no bash.
fn completed(line: &str) -> Option<Vec<String>> {
    const TYPED: &str = r#"
        PATH=$3:$PATH; source <(zerolag completions bash); COMP_WORDBREAKS=$2
        COMP_LINE=$1; COMP_POINT=${#1}; _zerolag; printf '%s\n' "${COMPREPLY[@]}""#;
    let program = Path::new(env!("CARGO_BIN_EXE_zerolag")).parent().expect("a directory");
    let words = " \t\n\"'@><=;|&(:";
    let args = ["-c", TYPED, "_", line, words, program.to_str().expect("UTF-8")];
    let output = Command::new("bash").args(args).output().ok()?;
    Some(String::from_utf8(output.stdout).expect("UTF-8").lines().map(ToOwned::to_owned).collect())
}

#[test]
fn bash_completes_values() {
    let cases: [(&str, &[&str]); 9] = [
        ("zerolag swe", &["sweep"]),
        ("zerolag run x.toml --kernel 7.", &["7.0", "7.1", "7.2", "7.3"]),
        ("zerolag run x.toml --costs z", &["zero"]),
        ("zerolag run x.toml --set rt_bal", &["rt_balance="]),
        // Bash replaces what follows the sign.
        ("zerolag run x.toml --set preempt=", &["none", "voluntary", "full", "lazy", "rt"]),
        ("zerolag compare x.toml --vary preempt=none,f", &["none,full"]),
        ("zerolag sweep x.toml --smallest cpu.m", &["cpu.max", "cpu.max.burst"]),
        (
            "zerolag advise x.toml --goal web.request_latency.p99",
            &["web.request_latency.p99", "web.request_latency.p99.9"],
        ),
        ("zerolag export x.toml --type no", &[]),
    ];
    for (line, answers) in cases {
        let Some(found) = completed(line) else {
            eprintln!("skipped: there is no bash");
            return;
        };
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        assert_eq!(found, answers, "{line}");
    }
}
