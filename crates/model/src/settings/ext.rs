//! The classes of tasks that a loaded scheduler takes: [`SchedExt`].

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

impl Settings {
    /// Returns the attributes with which the scheduler runs a task that asks for `attr`: those of
    /// a loaded scheduler's tasks are [`SchedAttr::Ext`].
    ///
    /// Linux v7.3 `kernel/sched/ext/ext.c`, `task_should_scx`.
    #[must_use]
    pub const fn governed(&self, attr: SchedAttr) -> SchedAttr {
        match (self.sched_ext, attr) {
            (SchedExt::All, SchedAttr::Fair { policy, nice, .. })
            | (SchedExt::Partial, SchedAttr::Fair { policy: policy @ FairPolicy::Ext, nice, .. }) => {
                SchedAttr::Ext { policy, nice }
            }
            (SchedExt::Off, SchedAttr::Ext { policy, nice }) => SchedAttr::Fair { policy, nice, slice: None },
            (_, attr) => attr,
        }
    }
}
