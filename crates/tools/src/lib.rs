//! Tools of the field, on the simulated machine, with the tools' own options and output.
//!
//! A tool is a workload, and a sink that computes the tool's figures from the trace while the
//! workload runs. Each module has both, and the text that the real tool prints; [`json`] has the
//! same figures as data, [`shown`] as the tables and plots of a page.
//!
//! | module | gives |
//! |---|---|
//! | [`cyclictest`] | wakeup latency of threads |
//! | [`timerlat`], [`osnoise`], [`rtla`] | latency and noise per CPU, as `rtla` reports them |
//! | [`rt_migrate`] | more real-time threads than CPUs |
//! | [`rtapp_log`], [`rtapp_marks`] | what rt-app logs of a run |
//! | [`build_load`], [`kernel_load`], [`workstation`] | what runs beside a measurement |
#![warn(missing_docs)]

use zerolag::results::Document;
use zerolag_model::{CpuId, Duration, SchedAttr};
use zerolag_workload::program::{Action, TaskDef};
use zerolag_workload::random::Dist;

pub mod build_load;
pub mod cyclictest;
pub mod json;
pub mod kernel_load;
pub mod osnoise;
pub mod rt_migrate;
pub mod rtapp_log;
pub mod rtapp_marks;
pub mod rtla;
pub mod shown;
pub mod timerlat;
pub mod workstation;

/// Returns a fair task of one CPU that never sleeps.
#[must_use]
pub fn busy_loop(cpu: CpuId) -> TaskDef {
    let forever = Action::Run(Dist::Constant(Duration::from_secs(3_600)));
    TaskDef::looping(format!("f/{cpu}"), SchedAttr::NORMAL, vec![forever]).on(cpu)
}

/// The published forms of the results of this crate.
pub const DOCUMENTS: &[Document] = &[json::TIMERLAT, json::OSNOISE];
