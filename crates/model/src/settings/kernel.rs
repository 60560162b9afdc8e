//! Presets: the value of each setting in the kernels of twenty years.

use super::{
    BandwidthControl, CpuServers, FairAlgorithm, FairServer, Grain, LoadTracking, OverloadScope, Preempt,
    RecentUsedCpu, RtBalance, RtOverload, ServerStart, ServerStop, ServerWakeup, Settings, SliceProtection, Throttle,
    TunableScaling, Value,
};
use crate::cpumask::CpuMask;
use crate::server::ServerParams;
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// A kernel version whose scheduler is known as a preset.
    KernelVersion {
        /// CFS arrives; RT tasks are moved by the periodic balancer only.
        V2_6_23 = "2.6.23",
        /// Active RT push and pull.
        V2_6_25 = "2.6.25",
        /// CPU bandwidth control.
        V3_2 = "3.2",
        /// RT pull by IPI, a chain per CPU.
        V4_1 = "4.1",
        /// RT pull by one IPI per root domain.
        V4_15 = "4.15",
        /// No expiry of local quota.
        V5_4 = "5.4",
        /// Burst; widely used as the base for upgrades.
        V5_15 = "5.15",
        /// The last long-term kernel with CFS.
        V6_1 = "6.1",
        /// EEVDF.
        V6_6 = "6.6",
        /// Fair server, delayed dequeue, custom slices.
        V6_12 = "6.12",
        /// Throttling at the return to user mode.
        V6_18 = "6.18",
    }
}

impl KernelVersion {
    /// Returns the settings of this kernel in its default configuration (HZ=250).
    ///
    /// Sources: `kernel/sched/fair.c` (granularities), `kernel/sched/features.h`,
    /// `kernel/Kconfig.preempt` of each version. The year of each RT mechanism is that of its
    /// commit (`b6366f048e0c` in 4.1, `4bdced5c9a29` in 4.15, `612f769edd06` in 6.7).
    ///
    /// * RT throttling is the default from 2.6.25 to 6.11, and shares its runtime by default until
    ///   5.9 (`2586af1ac187`).
    /// * Kernels since 6.12 have the fair server instead (`5f6bd380c7bd`), until 6.15 with a
    ///   runtime that is scaled by the capacity of the CPU (`fc975cfb3639`). Its stop and wakeup
    ///   are those of the stable kernels of 2026 (6.12.103 and later); [`ServerStop`] and
    ///   [`ServerWakeup`] document earlier behaviour.
    /// * Since 6.18 limits throttle task by task (`throttle_cfs_rq_work`).
    /// * The fix of 5.17 and of the stable kernels of January 2022 (`9b58e976b3b3`, 4.14.263) is
    ///   included in 5.4 and later.
    #[must_use]
    pub fn settings(self) -> Settings {
        let rank = self as u8;
        let since = |version: Self| rank >= version as u8;
        Settings {
            fair: if since(Self::V6_6) { FairAlgorithm::Eevdf } else { FairAlgorithm::Cfs },
            rt_balance: if since(Self::V4_15) {
                RtBalance::IpiRootDomain
            } else if since(Self::V4_1) {
                RtBalance::IpiPerCpu
            } else if since(Self::V2_6_25) {
                RtBalance::PullLocked
            } else {
                RtBalance::Passive
            },
            overload_scope: if since(Self::V2_6_25) { OverloadScope::RootDomain } else { OverloadScope::Global },
            rt_overload: if since(Self::V6_12) { RtOverload::Pushable } else { RtOverload::Queued },
            rt_ipi_skip_self: false,
            rt_push_skip_stuck: false,
            rt_select_on_wake: since(Self::V2_6_25),
            preempt: if since(Self::V6_18) { Preempt::Lazy } else { Preempt::Voluntary },
            enforce_fair: Grain::Tick,
            enforce_rt: Grain::Tick,
            enforce_dl: Grain::Tick,
            hz: 250,
            nohz: true,
            nohz_full: CpuMask::new(),
            isolcpus: CpuMask::new(),
            isolcpus_conflict: since(Self::V6_12),
            rr_timeslice: Duration::from_millis(100),
            tunable_scaling: TunableScaling::Logarithmic,
            base_slice: if since(Self::V6_12) { Duration::from_micros(700) } else { Duration::from_micros(750) },
            latency: Duration::from_millis(if since(Self::V3_2) { 6 } else { 20 }),
            min_granularity: Duration::from_micros(if since(Self::V3_2) { 750 } else { 4_000 }),
            wakeup_granularity: Duration::from_micros(if since(Self::V3_2) { 1_000 } else { 10_000 }),
            run_to_parity: since(Self::V6_6),
            slice_protection: if since(Self::V6_18) { SliceProtection::MinSlice } else { SliceProtection::Request },
            group_min_slice: since(Self::V6_12),
            place_lag: since(Self::V6_6),
            place_rel_deadline: since(Self::V6_12),
            preempt_short: since(Self::V6_12),
            delay_dequeue: since(Self::V6_12),
            sis_util: since(Self::V6_1),
            sis_prop: since(Self::V4_15) && !since(Self::V6_1),
            wake_wide: since(Self::V4_1),
            recent_used_cpu: if since(Self::V6_6) {
                RecentUsedCpu::Prev
            } else if since(Self::V5_15) {
                RecentUsedCpu::PrevUnchecked
            } else if since(Self::V5_4) {
                RecentUsedCpu::Waker
            } else {
                RecentUsedCpu::Off
            },
            smt_balance: since(Self::V6_6),
            newidle_min_idle: since(Self::V3_2) && !since(Self::V6_1),
            newidle_cost_bump: since(Self::V6_18),
            wakeup_preemption: true,
            bandwidth: BandwidthControl::Pool,
            hierarchical_running: since(Self::V3_2),
            bandwidth_slice: Duration::from_millis(5),
            bandwidth_slice_steps: false,
            bandwidth_interleave: since(Self::V6_6),
            bandwidth_zero_start: !since(Self::V6_18),
            bandwidth_hotplug_bypass: !since(Self::V6_18),
            bandwidth_offline_loss: !since(Self::V4_1),
            yield_forfeits: since(Self::V6_18),
            proxy_exec: false,
            bandwidth_expiry: !since(Self::V5_4),
            bandwidth_slack: since(Self::V3_2),
            throttle: if since(Self::V6_18) { Throttle::AtUserReturn } else { Throttle::Immediate },
            load_tracking: if since(Self::V4_1) { LoadTracking::Pelt } else { LoadTracking::Weights },
            migration_cost: Duration::from_micros(500),
            nr_migrate: 32,
            rt_throttling: since(Self::V2_6_25) && !since(Self::V6_12),
            rt_runtime: Duration::from_millis(950),
            rt_period: Duration::from_secs(1),
            rt_runtime_share: !since(Self::V5_15),
            rt_period_timer_lost: since(Self::V2_6_25) && !since(Self::V5_4),
            fair_server: if since(Self::V6_12) { FairServer::Deferred } else { FairServer::Off },
            fair_server_start: ServerStart::Fair,
            fair_server_runtime: ServerParams::DEFAULT.runtime,
            fair_server_period: ServerParams::DEFAULT.period,
            fair_server_scaled: since(Self::V6_12) && !since(Self::V6_18),
            fair_server_stop: ServerStop::Picked,
            fair_server_wakeup: ServerWakeup::Revised,
            fair_server_resched_lost: since(Self::V6_12),
            fair_server_cpus: CpuServers::default(),
            watchdog_thresh: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// Returns whether loads are averaged over time (`load_tracking = pelt`).
    #[must_use]
    pub fn tracks_load(&self) -> bool {
        self.load_tracking == LoadTracking::Pelt
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub const fn tick_period(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / self.hz as u64)
    }
}

#[expect(clippy::derivable_impls, reason = "the macro that makes the switches knows no default variant")]
impl Default for KernelVersion {
    fn default() -> Self {
        Self::V6_12
    }
}

impl Default for Settings {
    fn default() -> Self {
        KernelVersion::default().settings()
    }
}
