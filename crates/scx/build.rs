//! Compiles the kernel's half with clang. Headers of libbpf are those of `libbpf-sys`.

use std::path::PathBuf;
use std::process::Command;

/// What is tried unless CLANG names a compiler.
const COMPILERS: &[&str] = &["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16"];

fn main() {
    for name in ["bpf/policy.bpf.c", "bpf/kernel.h", "bpf/shared.h"] {
        println!("cargo:rerun-if-changed={name}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let named = variable("CLANG");
    let candidates = named.as_deref().map_or(COMPILERS.to_vec(), |name| vec![name]);
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    let Some(clang) = candidates.iter().copied().find(runs) else {
        fail(&format!("no clang (tried {}): apt-get install clang, or name one in CLANG", candidates.join(", ")));
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
        fail(&format!("{clang} does not compile bpf/policy.bpf.c: it must know the target bpf (clang 16 or later)"));
    }
}

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts by variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    std::process::exit(1);
}
