//! rt-app JSON: read as rt-app reads it, lowered to a [`crate::Program`].
//!
//! | module | decides |
//! |---|---|
//! | `json` | the structure of the text: json-c's dialect, with positions |
//! | `duplicates` | the meaning of duplicate keys |
//! | `object` | types and ranges of members |
//! | `event` | which keys are events, and their actions |
//! | `sched` | policies, priorities, deadlines, and how they persist |
//! | `lower` | global section, tasks, phases |
//! | `export` | the opposite direction: a program as an rt-app file |
//!
//! `docs/reference/rt-app.md` has the complete grammar and all differences. Reference:
//! scheduler-tools/rt-app 55cb0c0 (2026-05-06); its behaviour was read and run, none of its text is
//! here.

mod duplicates;
mod event;
mod export;
mod json;
mod lower;
mod object;
mod sched;
mod state;

pub use duplicates::DuplicatePolicy;
pub use event::{CHASE_RANDOM, CHASE_SEQUENTIAL, MEMORY_BYTES_PER_US, RUNTIME_CHUNK};
pub use export::export;
pub(crate) use sched::{SLICE_MAX, SLICE_MIN, deadline_error};

use crate::diagnostic::{Diagnostics, Report, Source};
use crate::{LoadOptions, Scenario};

/// Reads an rt-app file. See [`crate::load`].
///
/// # Errors
/// All mistakes in it.
pub fn load(name: &str, text: &str, options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let mut report = Report::default();
    let source = || Source::new(name, text);
    let Some(json::Parsed { mut root, has_duplicates }) = json::parse(text, &mut report) else {
        return Err(report.finish(source()));
    };
    if has_duplicates {
        duplicates::resolve(&mut root, options.duplicates, &mut report);
    }
    let lowered = lower::lower(&root, options, &mut report);
    drop(root);
    match lowered {
        Some(lowered) if !report.has_errors() => Ok(Scenario {
            program: lowered.program,
            machine: options.machine_override.clone(),
            duration: lowered.duration,
            ..Scenario::empty(report.finish(source()))
        }),
        Some(_) | None => Err(report.finish(source())),
    }
}
