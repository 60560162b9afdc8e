//! Policies from shared objects: `zerolag run --policy FILE.so`.
//!
//! The interface is one C header, [`HEADER`]: a struct of functions with the names of
//! `sched_ext_ops`, and the helpers (`scx_bpf_*`) as a struct of functions that each call gets. So
//! C, C++, Zig and Rust (`cdylib`) write policies, and the simulator sees another
//! [`Policy`](zerolag_policy::Policy).
//!
//! * **Copies.** A run can be copied, and several run at a time. So the memory of a policy is
//!   here, as bytes that it names the size of, and not in the object.
//! * **Faults.** What is wrong with the *rules* is found by the class as with any policy. A signal
//!   (SIGSEGV, an abort, a Rust panic that reaches the border) ends the program with an error that
//!   names operation, task and time. A child process that could be lost instead would make each of
//!   a million calls a message, and after a crash of a policy there is no result to save. A
//!   callback that does not end is ended after 10 s by a thread that watches.
//! * **Unloading.** An object stays loaded until the end of the process.
//!
//! All `unsafe` of policies is in this crate, in `abi` (calls in both directions) and `crash`
//! (signals).
#![warn(missing_docs)]

#[cfg(all(unix, not(all(target_env = "musl", target_feature = "crt-static"))))]
mod abi;
#[cfg(all(unix, not(all(target_env = "musl", target_feature = "crt-static"))))]
mod crash;
#[cfg(all(unix, not(all(target_env = "musl", target_feature = "crt-static"))))]
mod memory;

use std::fmt;
use std::path::Path;
use zerolag_policy::PolicyFactory;

/// The header `zerolag_policy.h`, for those who write policies.
pub const HEADER: &str = include_str!("zerolag_policy.h");

/// Why an object cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// The reason.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LoadError {}

impl LoadError {
    fn new(why: impl fmt::Display, help: impl Into<String>) -> Self {
        Self { message: why.to_string(), help: help.into() }
    }
}

/// Returns whether the value of `--policy` names a file, and no policy that is built in: it ends in
/// `.so`, `.dylib` or `.dll`, or has a slash.
#[must_use]
pub fn is_file(name: &str) -> bool {
    let ends = |end: &str| Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
    name.contains('/') || ["so", "dylib", "dll"].into_iter().any(ends)
}

/// Loads a policy. It stays loaded until the end of the process, and from here on a signal that
/// arises in a policy ends the process with a message.
///
/// # Errors
/// There is no such file, it is no shared object, it has no policy, or one of another version.
pub fn load(path: &Path) -> Result<PolicyFactory, LoadError> {
    if let Err(error) = std::fs::metadata(path) {
        return Err(LoadError::new(error, "the path of a shared object, or the name of a built-in policy"));
    }
    load_object(path)
}

#[cfg(all(unix, not(all(target_env = "musl", target_feature = "crt-static"))))]
fn load_object(path: &Path) -> Result<PolicyFactory, LoadError> {
    abi::load(path)
}

#[cfg(not(all(unix, not(all(target_env = "musl", target_feature = "crt-static")))))]
fn load_object(_path: &Path) -> Result<PolicyFactory, LoadError> {
    let help =
        "use a build of zerolag for Linux with glibc (x86_64-unknown-linux-gnu), or write the policy in Rust or Python";
    Err(LoadError::new("this program is linked statically, or not for unix: it cannot load shared objects", help))
}
