//! Tools of the field, on the simulated machine, with the tools' own options and output.

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
