//! Compiles the kernel's half with clang. Headers of libbpf are those of `libbpf-sys`.

use std::path::PathBuf;
use std::process::Command;

/// What is tried unless CLANG names a compiler.
const COMPILERS: &[&str] = &["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16"];
/// What clang 14 says of types of functions (BTF), 7.3 does not take for its own: the program is refused when it is loaded.
const OLDEST: u32 = 16;

fn main() {
    for name in ["bpf/policy.bpf.c", "bpf/kernel.h", "bpf/shared.h"] {
        println!("cargo:rerun-if-changed={name}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let named = variable("CLANG");
    let candidates = named.as_deref().map_or(COMPILERS.to_vec(), |name| vec![name]);
    let versions: Vec<(&str, Option<u32>)> = candidates.iter().map(|name| (*name, version(name))).collect();
    let Some((clang, _)) = versions.iter().find(|(_, version)| version.is_some_and(|version| version >= OLDEST)) else {
        let said = |(name, version): &(&str, Option<u32>)| match version {
            Some(version) => format!("{name} is {version}"),
            None => format!("no {name}"),
        };
        let tried: Vec<String> = versions.iter().map(said).collect();
        fail(&format!(
            "no clang of {OLDEST} or later ({}): apt-get install clang-{OLDEST}, or name one in CLANG",
            tried.join(", ")
        ));
    };
    let include = variable("DEP_BPF_INCLUDE").unwrap_or_else(|| fail("libbpf-sys names no headers"));
    let object =
        PathBuf::from(variable("OUT_DIR").unwrap_or_else(|| fail("cargo names no OUT_DIR"))).join("policy.bpf.o");
    let status = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-Ibpf", "-I", &include])
        .args(["-c", "bpf/policy.bpf.c", "-o"])
        .arg(&object)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        fail(&format!("{clang} does not compile bpf/policy.bpf.c: it must know the target bpf"));
    }
}

/// Returns the first number of the version of a clang; `None` without one.
fn version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts by variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    std::process::exit(1);
}
