//! The classes of tasks that a loaded scheduler takes: [`SchedExt`]; which one it is:
//! [`SchedExtPolicy`].

use super::{SettingValue, Settings};
use crate::attr::{FairPolicy, SchedAttr};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// The tasks that a loaded scheduler has.
    SchedExt {
        /// None is loaded: SCHED_EXT tasks are fair ones.
        Off = "off",
        /// Those with the policy SCHED_EXT (`SCX_OPS_SWITCH_PARTIAL`).
        Partial = "partial",
        /// Those with a fair policy too.
        All = "all",
    }
}

switch! {
    /// The loaded scheduler. Each but the first is a policy of `zerolag-policy`.
    SchedExtPolicy {
        /// The kernel's default callbacks: first in, first out (`scx_simple -f`).
        Fifo = "fifo",
        /// Sharing by weight, in order of virtual time (`scx_simple`).
        Vtime = "vtime",
        /// Sharing by weight, by chance.
        Lottery = "lottery",
        /// One CPU decides for all (`scx_central`).
        Central = "central",
        /// Earliest deadline first: a deadline is the end of the period of the task's timer.
        Edf = "edf",
        /// Rate monotonic: the shorter the period of its timer, the more urgent is a task.
        Rm = "rm",
        /// Groups share by weight on one level, within their limits (`scx_flatcg`).
        Flatcg = "flatcg",
        /// Shortest remaining time first: only a simulator knows that time.
        Srtf = "srtf",
        /// The fair class: EEVDF with groups and limits, on one tree for all CPUs.
        Linux = "linux",
    }
}

impl SchedExt {
    /// Returns the attributes with which the scheduler runs a task that asks for `attr`: those of
    /// a loaded scheduler's tasks are [`SchedAttr::Ext`].
    ///
    /// Linux v7.3 `kernel/sched/ext/ext.c`, `task_should_scx`.
    #[must_use]
    pub const fn governs(self, attr: SchedAttr) -> SchedAttr {
        match (self, attr) {
            (Self::All, SchedAttr::Fair { policy, nice, slice })
            | (Self::Partial, SchedAttr::Fair { policy: policy @ FairPolicy::Ext, nice, slice }) => {
                SchedAttr::Ext { policy, nice, slice }
            }
            (Self::Off, SchedAttr::Ext { policy, nice, slice }) => SchedAttr::Fair { policy, nice, slice },
            (_, attr) => attr,
        }
    }
}

impl Settings {
    /// Loads a scheduler: for all tasks with a fair policy, unless the settings say that it has
    /// those of SCHED_EXT only.
    pub const fn load_scheduler(&mut self, policy: SchedExtPolicy) {
        self.sched_ext_policy = policy;
        if matches!(self.sched_ext, SchedExt::Off) {
            self.sched_ext = SchedExt::All;
        }
    }

    /// Returns what [`SchedExt::governs`] does under these settings.
    #[must_use]
    pub const fn governed(&self, attr: SchedAttr) -> SchedAttr {
        self.sched_ext.governs(attr)
    }
}
