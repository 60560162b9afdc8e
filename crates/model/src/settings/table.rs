//! The rows of [`Settings::TABLE`]: the key of each setting, and how it is shown and read.

use super::{Setting, Value, read_duration, read_integer};
use crate::server::ServerParams;
use crate::time::Duration;
use alloc::format;
use alloc::string::ToString as _;

macro_rules! value {
    ($key:literal, $field:ident, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            name: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.show(),
            read: |settings, text| {
                settings.$field = Value::read(text)?;
                Ok(())
            },
        }
    };
}

/// A fault of kernels that presets reproduce. `$key` is its earlier name, which traces keep.
macro_rules! fault {
    ($name:literal, $key:literal, $field:ident, $doc:literal) => {
        Setting { name: $name, ..value!($key, $field, "on | off", $doc) }
    };
}

macro_rules! duration {
    ($key:literal, $field:ident, $unit:expr, $low:expr, $high:expr, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            name: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.to_string(),
            read: |settings, text| {
                let value = read_duration(text, $unit)?;
                if value < $low || value > $high {
                    return Err(format!("{value} is outside {}..={}", $low, $high));
                }
                settings.$field = value;
                Ok(())
            },
        }
    };
}

macro_rules! integer {
    ($key:literal, $field:ident, $low:literal, $high:literal, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            name: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.to_string(),
            read: |settings, text| {
                let value = read_integer(text, $low, $high)?;
                settings.$field = u32::try_from(value).map_err(|_| format!("{value} does not fit 32 bits"))?;
                Ok(())
            },
        }
    };
}

pub(super) const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);
/// The kernel's bounds of every granularity (`kernel/sched/debug.c`): 100 us to 1 s.
const GRANULARITY_MIN: Duration = Duration::from_micros(100);
const GRANULARITY_MAX: Duration = Duration::from_secs(1);

pub(super) const ROWS: &[Setting] = &[
    value!("fair", fair, "cfs | eevdf", "algorithm of the fair class"),
    value!(
        "rt_balance",
        rt_balance,
        "passive | active_and_passive | pull_locked | ipi_per_cpu | ipi_root_domain",
        "how waiting real-time tasks find a CPU"
    ),
    value!(
        "overload_scope",
        overload_scope,
        "global | cpuset | root_domain",
        "where the mask of RT-overloaded CPUs is kept (the IPI modes of rt_balance: per root domain)"
    ),
    value!("rt_overload", rt_overload, "queued | pushable", "what makes a CPU RT-overloaded"),
    value!("rt_ipi_skip_self", rt_ipi_skip_self, "on | off", "a CPU does not forward the root domain's IPI to itself"),
    value!(
        "rt_push_skip_stuck",
        rt_push_skip_stuck,
        "on | off",
        "push the next task when the first pushable one has nowhere to go"
    ),
    value!("rt_select_on_wake", rt_select_on_wake, "on | off", "a waking RT task selects a CPU before it is enqueued"),
    value!("preempt", preempt, "none | voluntary | full | lazy | rt", "where kernel mode can be preempted"),
    value!("enforce.fair", enforce_fair, "tick | exact", "when an exhausted fair slice takes effect"),
    value!("enforce.rt", enforce_rt, "tick | exact", "when an exhausted RR slice takes effect"),
    value!("enforce.dl", enforce_dl, "tick | exact", "when an exhausted deadline budget takes effect"),
    integer!("hz", hz, 1, 10000, "1..10000", "ticks per second"),
    value!("nohz", nohz, "on | off", "idle CPUs stop their tick"),
    value!("nohz_full", nohz_full, "a list of CPUs", "CPUs that stop their tick while one task runs"),
    value!("isolcpus", isolcpus, "a list of CPUs", "CPUs without load balancing, for tasks that are confined to them"),
    value!("isolcpus_conflict", isolcpus_conflict, "on | off", "a cpuset with isolated CPUs cannot be a partition"),
    duration!(
        "sched_rr_timeslice_ms",
        rr_timeslice,
        MS,
        MS,
        Duration::from_secs(1_000),
        "milliseconds",
        "time slice of SCHED_RR"
    ),
    value!(
        "tunable_scaling",
        tunable_scaling,
        "none | logarithmic | linear",
        "how fair granularities grow with the CPUs"
    ),
    duration!(
        "base_slice_ns",
        base_slice,
        NS,
        GRANULARITY_MIN,
        GRANULARITY_MAX,
        "nanoseconds",
        "EEVDF: slice before scaling by CPUs"
    ),
    duration!(
        "sched_latency_ns",
        latency,
        NS,
        GRANULARITY_MIN,
        GRANULARITY_MAX,
        "nanoseconds",
        "CFS: period in which every task runs once, before scaling"
    ),
    duration!(
        "sched_min_granularity_ns",
        min_granularity,
        NS,
        GRANULARITY_MIN,
        GRANULARITY_MAX,
        "nanoseconds",
        "CFS: shortest slice, before scaling"
    ),
    duration!(
        "sched_wakeup_granularity_ns",
        wakeup_granularity,
        NS,
        Duration::ZERO,
        GRANULARITY_MAX,
        "nanoseconds",
        "CFS: how far behind a woken task must be to preempt, before scaling"
    ),
    value!(
        "features.RUN_TO_PARITY",
        run_to_parity,
        "on | off",
        "EEVDF: current runs until its lag is zero or its slice ends"
    ),
    value!(
        "slice_protection",
        slice_protection,
        "request | min_slice",
        "EEVDF: how long RUN_TO_PARITY protects a picked task"
    ),
    value!("group_min_slice", group_min_slice, "on | off", "EEVDF: a group uses the shortest slice of its tasks"),
    value!(
        "yield_forfeits",
        yield_forfeits,
        "on | off",
        "EEVDF: a task that yields forfeits the rest of its request (6.18)"
    ),
    value!("features.PLACE_LAG", place_lag, "on | off", "EEVDF: tasks keep their lag over sleep"),
    value!(
        "features.PLACE_REL_DEADLINE",
        place_rel_deadline,
        "on | off",
        "EEVDF: a task that migrates while runnable continues its request"
    ),
    value!(
        "features.PREEMPT_SHORT",
        preempt_short,
        "on | off",
        "EEVDF: a woken task with a shorter slice ends the protection of the current one"
    ),
    value!(
        "features.DELAY_DEQUEUE",
        delay_dequeue,
        "on | off",
        "EEVDF: a blocked task stays queued until its lag is repaid"
    ),
    value!(
        "features.SIS_UTIL",
        sis_util,
        "on | off",
        "the busier a cache is, the fewer of its CPUs are searched for an idle one"
    ),
    value!(
        "features.SIS_PROP",
        sis_prop,
        "on | off",
        "limits the search for an idle CPU in proportion to the waking CPU's average idle time (4.13 to 5.19)"
    ),
    value!("wake_wide", wake_wide, "on | off", "a wakee is not pulled towards a waker with many wakees (3.12)"),
    value!(
        "recent_used_cpu",
        recent_used_cpu,
        "off | waker | prev_unchecked | prev",
        "the CPU that a fair task remembers, to wake there if it idles (4.16, 5.15, 6.5)"
    ),
    value!(
        "smt_balance",
        smt_balance,
        "on | off",
        "idle CPUs pull from cores that several tasks share; busy CPUs do not (6.6)"
    ),
    value!(
        "newidle_min_idle",
        newidle_min_idle,
        "on | off",
        "no new-idle balancing on a CPU whose average idle time is below migration_cost_ns (until 5.15)"
    ),
    value!(
        "newidle_cost_bump",
        newidle_cost_bump,
        "on | off",
        "a failed new-idle search raises the recorded search cost to 1.5 times its maximum (6.17, 6.18)"
    ),
    value!(
        "features.WAKEUP_PREEMPTION",
        wakeup_preemption,
        "on | off",
        "a woken fair task may preempt the current one"
    ),
    value!(
        "throttle",
        throttle,
        "immediate | boost_on_wakeup | boost_in_kernel | at_user_return",
        "which tasks stop where a limited group has no quota left"
    ),
    value!(
        "load_tracking",
        load_tracking,
        "weights | pelt",
        "the measure of load for placing and balancing fair tasks"
    ),
    value!("bandwidth", bandwidth, "pool | hard_limits", "where the quota of a limited group is kept"),
    value!(
        "hierarchical_running",
        hierarchical_running,
        "on | off",
        "throttled tasks do not count as running, and none is migrated to a CPU where its group is throttled"
    ),
    duration!(
        "sched_cfs_bandwidth_slice_us",
        bandwidth_slice,
        Duration::from_micros(1),
        Duration::from_micros(1),
        Duration::from_secs(1_000),
        "microseconds",
        "quota that a CPU takes out of a limited group's pool at a time"
    ),
    value!(
        "cfs_bandwidth_slice_steps",
        bandwidth_slice_steps,
        "on | off",
        "a CPU's first two requests are a quarter and half of a slice, none is more than a quarter of the pool"
    ),
    value!(
        "proxy_exec",
        proxy_exec,
        "on | off",
        "a task that waits for a lock in the kernel lends its turn to the holder"
    ),
    value!(
        "cfs_bandwidth_interleave",
        bandwidth_interleave,
        "on | off",
        "each limited group's periods begin at a random offset"
    ),
    value!(
        "cfs_bandwidth_zero_start",
        bandwidth_zero_start,
        "on | off",
        "a new limit gives a CPU a runtime of 0 instead of 1 ns (until 6.17)"
    ),
    fault!(
        "fault.cfs_bandwidth_hotplug_bypass",
        "cfs_bandwidth_hotplug_bypass",
        bandwidth_hotplug_bypass,
        "a CPU that goes offline or online unthrottles the groups on all other CPUs (until 6.13)"
    ),
    fault!(
        "fault.cfs_bandwidth_offline_loss",
        "cfs_bandwidth_offline_loss",
        bandwidth_offline_loss,
        "tasks that are throttled on a CPU that goes offline stay there (until 3.16)"
    ),
    value!(
        "cfs_bandwidth_expiry",
        bandwidth_expiry,
        "on | off",
        "a CPU's unused quota expires at the end of the period"
    ),
    value!(
        "cfs_bandwidth_slack",
        bandwidth_slack,
        "on | off",
        "a CPU without tasks of a limited group to run returns its quota, all but 1 ms"
    ),
    duration!(
        "migration_cost_ns",
        migration_cost,
        NS,
        Duration::ZERO,
        GRANULARITY_MAX,
        "nanoseconds",
        "a task that ran more recently than this is cache hot"
    ),
    integer!("nr_migrate", nr_migrate, 1, 1024, "1..1024", "most tasks that one round of balancing examines"),
    value!("rt_throttling", rt_throttling, "on | off", "real-time tasks get at most a share of each period"),
    duration!(
        "sched_rt_runtime_us",
        rt_runtime,
        US,
        Duration::ZERO,
        Duration::from_micros(1 << 22),
        "microseconds",
        "time that real-time tasks of a CPU may run per period, with rt_throttling"
    ),
    duration!(
        "sched_rt_period_us",
        rt_period,
        US,
        US,
        Duration::from_micros(1 << 22),
        "microseconds",
        "period of rt_throttling"
    ),
    value!(
        "features.RT_RUNTIME_SHARE",
        rt_runtime_share,
        "on | off",
        "a CPU borrows real-time runtime from the others of its root domain"
    ),
    fault!(
        "fault.rt_period_timer_lost",
        "rt_period_timer_lost",
        rt_period_timer_lost,
        "a real-time busy loop that runs when a limit is set is throttled forever (until 5.16)"
    ),
    value!("fair_server", fair_server, "off | immediate | deferred", "deadline server of each CPU's fair tasks"),
    value!(
        "fair_server.start",
        fair_server_start,
        "rt_and_fair | fair",
        "which tasks must be queued for the fair server to start"
    ),
    duration!(
        "fair_server.runtime",
        fair_server_runtime,
        NS,
        Duration::ZERO,
        ServerParams::PERIOD_MAX,
        "nanoseconds",
        "runtime of the fair server per period"
    ),
    duration!(
        "fair_server.period",
        fair_server_period,
        NS,
        ServerParams::PERIOD_MIN,
        ServerParams::PERIOD_MAX,
        "nanoseconds",
        "period of the fair server"
    ),
    value!(
        "fair_server.scaled",
        fair_server_scaled,
        "on | off",
        "the fair server's runtime is scaled by the capacity of its CPU (6.12 to 6.15)"
    ),
    value!("fair_server.stop", fair_server_stop, "empty | picked", "when a server without fair tasks stops"),
    value!(
        "fair_server.wakeup",
        fair_server_wakeup,
        "stuck | new_period | revised_always | revised",
        "what a deferred server does if it is started with a job that it may not continue"
    ),
    fault!(
        "fault.fair_server_resched_lost",
        "fair_server.resched_lost",
        fair_server_resched_lost,
        "if a switch finds the fair server exhausted, the fair task keeps the CPU although others wait (since 6.12)"
    ),
    value!(
        "fair_server.cpus",
        fair_server_cpus,
        "CPUS=off|immediate|deferred[:RUNTIME/PERIOD]; ...",
        "CPUs with a different fair server"
    ),
    duration!(
        "watchdog_thresh",
        watchdog_thresh,
        MS * 1_000,
        Duration::ZERO,
        Duration::from_secs(60),
        "seconds; 0 is never",
        "how long a CPU may be in IPI and lock work without serving a timer"
    ),
];
