//! [`Policies`]: which scheduler of `sched_ext` a change loads.
//!
//! A run has a policy: that of the caller, or of the setting `sched_ext.policy`. It is loaded from
//! the start, unless the first change of a policy loads it: none is loaded until then. A change can
//! also name a built-in one.

use crate::kernel::state::Kernel;
use crate::kernel::words::Begins;
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::{CpuId, Settings};
use zerolag_policy::{Policy, policies};
use zerolag_workload::change::{Change, TimedChange};

/// The policies that the changes of a run load.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    /// The policy of the run.
    own: Box<dyn Policy>,
    /// Which tasks a policy has where a change does not say so.
    tasks: SchedExt,
    seed: u64,
}

/// Returns the policies of a run, how it begins, and the settings that it begins with.
pub(crate) fn begin(
    changes: &[TimedChange],
    settings: &Settings,
    own: Option<Box<dyn Policy>>,
    seed: u64,
) -> (Option<Policies>, Begins, Settings) {
    let mut of_policies = changes.iter().map(|change| &change.what).filter(|what| what.is_of_policy());
    let Some(first) = of_policies.next() else { return (None, Begins::With(own), settings.clone()) };
    let own = own.unwrap_or_else(|| policies::named(settings.sched_ext_policy, seed));
    let is_loaded = settings.sched_ext != SchedExt::Off && !matches!(first, Change::Load { policy: None, .. });
    let tasks = if settings.sched_ext == SchedExt::Partial { SchedExt::Partial } else { SchedExt::All };
    // One that can be unloaded is a policy, not the built-in class.
    let begins = if is_loaded { Begins::With(Some(own.clone())) } else { Begins::Without };
    let in_force = Settings { sched_ext: if is_loaded { tasks } else { SchedExt::Off }, ..settings.clone() };
    (Some(Policies { own, tasks, seed }), begins, in_force)
}

impl Policies {
    /// Loads a policy.
    pub(crate) fn load(
        &self,
        kernel: &mut Kernel,
        cpu: CpuId,
        policy: Option<SchedExtPolicy>,
        tasks: Option<SchedExt>,
    ) {
        let policy = policy.map_or_else(|| self.own.clone(), |name| policies::named(name, self.seed));
        kernel.load_policy(cpu, policy, tasks.unwrap_or(self.tasks));
    }
}
