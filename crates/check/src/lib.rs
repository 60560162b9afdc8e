//! Monitors: the specification of zerolag, executable over any trace.
//!
//! A [`Monitor`] holds one rule against a trace, record by record, whether the trace comes from a simulation, from the
//! runtime or from a kernel. It never sees the scheduler. All are listed in [`monitors::TABLE`]; a new one is one file and
//! one line there.
//!
//! ```
//! use zerolag_check::{Options, check};
//! use zerolag_trace::script::Script;
//!
//! let mut script = Script::new(2);
//! let a = script.fair("a");
//! script.wake(0, 0, a).run(0, 0, None, Some(a)).run(5, 1, None, Some(a));
//! let report = check(&script.end(10), &Options::default());
//! assert!(!report.is_clean());
//! assert!(report.to_string().contains("runs on cpu 1 while it runs on cpu 0"));
//! ```
//!
//! A rule that a trace cannot be held against is *not applicable*, with the reason: a trace with lost events, a mode that
//! promises no such thing, figures that the recorder does not write. It is never counted as held.
//!
//! Complexity: O(1) per record, except where a rule says otherwise.
#![warn(missing_docs)]

mod checker;
mod monitor;
pub mod monitors;
mod report;
mod rt_queues;
mod servers;

pub use checker::{Checker, check};
pub use monitor::{Context, Monitor, Options, Outcome};
pub use report::{Findings, Report, Verdict, Violation};
