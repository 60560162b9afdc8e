//! Monitors: the specification of zerolag, executable over any trace.
//!
//! A scheduler that checks itself repeats its own mistakes, and a test of one kernel's internals
//! says nothing about another kernel. A [`Monitor`] therefore sees only a trace, record by record,
//! and never the scheduler. The same rules judge a simulation, the runtime and a recorded kernel.
//! All monitors are listed in [`monitors::TABLE`]; a new one is one file and one line there.
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
//! A rule that cannot be checked on a trace is *not applicable*, and the report gives the reason:
//! the trace has lost events at unknown times, the mode does not promise the rule, or the recorder
//! does not write the figures that the rule needs. Such a rule never counts as held.
//!
//! Complexity: O(1) per record, except where a rule says otherwise.
#![warn(missing_docs)]

mod checker;
mod monitor;
pub mod monitors;
mod report;
mod rt_queues;
mod servers;
mod stays;
mod task_time;
mod unconfirmed;

pub use checker::{Checker, check};
pub use monitor::{Context, LATE_SWITCH, LONGEST_PATH, Monitor, Options, Outcome, SETTLE, assumed_late_switch};
pub use report::{Findings, Report, Unseen, Verdict, Violation};
