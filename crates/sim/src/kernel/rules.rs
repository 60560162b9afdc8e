//! [`Rules`]: what the settings and costs of a run say to the simulated kernel, apart from numbers
//! that are looked up in [`Costs`]. Nothing here changes during a run.

use crate::costs::Costs;
use zerolag_model::settings::{Preempt, TimerGrain};
use zerolag_model::{Duration, Settings};

/// The rules of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether tasks lend their turns (`proxy_exec`).
    pub(super) lends_turns: bool,
    /// Whether switches to fair tasks cost more than others (`fair_switch`), what switches cost is
    /// drawn (`switch_late`) or in part spent before they pick (`pick`), or they set a timer when
    /// they are over (`enforce.fair = hrtick`).
    pub(super) has_other_switches: bool,
    /// How much later than asked the sleep of a fair task may end.
    pub(super) timer_slack: Duration,
    /// Whether interrupts leave softirqs to the thread as long as that is to run.
    pub(super) softirqs_wait_for_thread: bool,
    /// Whether the kernel knows the time that a hypervisor takes.
    pub(super) steal_clock: bool,
    /// The time slice extensions that the kernel grants (`rseq_slice_ext`).
    pub(super) extension: Option<ExtensionRule>,
}

/// How the kernel grants time slice extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtensionRule {
    pub(super) time: Duration,
    /// Only a request that is lazy can wait.
    pub(super) only_lazy: bool,
}

impl Rules {
    pub(super) fn new(settings: &Settings, costs: &Costs) -> Self {
        let has_other_switches = !costs.fair_switch.is_zero()
            || !costs.switch_late.is_zero()
            || !costs.late_switch().is_zero()
            || settings.enforce_fair == TimerGrain::Hrtick;
        Self {
            lends_turns: settings.proxy_exec,
            has_other_switches,
            timer_slack: settings.timer_slack,
            softirqs_wait_for_thread: settings.softirq_wait_for_thread,
            steal_clock: settings.steal_clock,
            extension: settings.rseq_slice_ext.then_some(ExtensionRule {
                time: settings.rseq_slice_ext_time,
                only_lazy: settings.preempt == Preempt::Rt,
            }),
        }
    }
}
