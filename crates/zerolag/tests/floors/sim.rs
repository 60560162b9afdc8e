//! The floors of `zerolag-sim`.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    &["costs", "outcome", "queue", "trace"],
    &[
        "cache changes cpu cpuset groups hotplug interpret ipi isolation lock machine noise path pipe proxy requests servers \
       spin sync syscall task",
    ],
    &["lib"],
];
