//! Simulations: from a workload and values to figures.
//!
//! ```text
//! Workload ─► Simulation ──plan()──► Prepared ──run()──► RunResult
//!             kernel, machine,       Plan, notes         figures, tables, goals, checks
//!             values, seed, ...
//! ```
//!
//! | module | gives |
//! |---|---|
//! | `builder` | [`Simulation`]: a workload and the values that a caller chooses; [`Prepared`] |
//! | `estimate` | [`Estimate`]: what a run costs at least, before it begins |
//! | [`figures`] | the JSON of a run |
//! | `plan` | [`Plan`]: everything that a simulation depends on; [`Watch`]: observes a run |
//! | `policy` | the policy of a simulation, and its parameters |
//! | `result` | [`RunResult`]: what a run gives, as figures, tables, text and JSON |
//! | `verdicts` | the verdicts of monitors, as text and JSON |
//!
//! Nothing here is global: simulations are values, can be sent to other threads, and any number of
//! them can run at a time. The same simulation gives the same bytes.

mod builder;
mod estimate;
pub mod figures;
mod plan;
mod policy;
mod result;
pub mod verdicts;

pub use builder::{Cancel, Note, Prepared, Progress, Simulation};
pub use estimate::{Contributor, Estimate};
pub(crate) use figures::DOCUMENT;
pub(crate) use plan::Begun;
pub use plan::{Checks, DEFAULT_DURATION, Histograms, Observe, Plan, PlanError, Report, StateTracks, Watch};
pub use policy::PolicyLoader;
pub use result::{RunResult, shown};
