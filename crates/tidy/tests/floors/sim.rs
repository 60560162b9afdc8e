//! The floors of `zerolag-sim`: the kernel, the devices, the programs, the administration, and the
//! machine that owns these four. Within each: state below, behaviour above.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    &["sketch"],
    &["costs", "outcome", "queue", "trace"],
    &["costs/servers"],
    // The kernel.
    &[
        "kernel/words",
        "kernel/books",
        "kernel/cache_lines",
        "kernel/shared_lines",
        "kernel/calls",
        "kernel/group_timers",
        "kernel/rules",
        "kernel/softirq_threads",
        "kernel/spread",
        "kernel/ticking",
    ],
    &["kernel/rq_lock", "kernel/time", "kernel/timing"],
    &["kernel/cpu"],
    &["kernel/body"],
    &["kernel/state"],
    &[
        "kernel/io",
        "kernel/ipi",
        "kernel/locks",
        "kernel/mode",
        "kernel/own",
        "kernel/path",
        "kernel/proxy",
        "kernel/softirq",
        "kernel/spin_on_owner",
        "kernel/standstill",
        "kernel/switch",
        "kernel/ticks",
        "kernel/timers",
        "kernel/totals",
        "kernel/wake",
    ],
    &["kernel"],
    // The devices.
    &["device/arrivals", "device/disk", "device/noise", "device/standstill"],
    &["device"],
    // The programs.
    &[
        "program/shared/file",
        "program/shared/pipe",
        "program/shared/rcu",
        "program/shared/request",
        "program/shared/rw_semaphore",
    ],
    &["program/shared"],
    &["program/task", "program/model", "program/calls"],
    &["program/state"],
    &[
        "program/act/adaptive",
        "program/act/compute",
        "program/act/futex",
        "program/act/mutex",
        "program/act/pipe",
        "program/act/rcu",
        "program/act/read",
        "program/act/request",
        "program/act/section",
        "program/act/semaphore",
        "program/act/spin",
        "program/act/wait",
    ],
    &["program/interpret"],
    &["program"],
    // The administration.
    &["admin/cpuset", "admin/hotplug", "admin/isolation", "admin/servers"],
    &["admin/groups"],
    &["admin/tasks"],
    &["admin/changes"],
    &["admin"],
    // The owner of the four.
    &["machine"],
    &["lib"],
];
