//! [`Settings`] and [`Settings::TABLE`]: one row per setting.
//!
//! A row has all that is known of a setting, so a new one is added here and nowhere else:
//!
//! ```text
//! /// More for readers of code: the source, the commits.
//! "key": "meaning",
//!     field: Type(UNIT, LOW..=HIGH) = value in the first preset, V6_12 => value since 6.12;
//! ```
//!
//! The text of the possible values comes from the type, and for numbers from the unit or the range.
//! The macro makes of the rows the fields of `Settings` with their documentation, the presets
//! ([`KernelVersion::settings`]) and the table.
//!
//! Faults of kernels are a section of their own. Four of them were settings like others at first:
//! traces keep their earlier key and its place among the settings (`recorded as ... after ...`), so
//! that the same run gives the same bytes. A new fault needs neither.
//!
//! Two faults of kernels are values of other settings: `recent_used_cpu = prev_unchecked` and
//! `fair_server.wakeup = stuck`. They exclude the other values of their setting: a CPU remembered
//! as in 4.16 cannot also be remembered as in 5.15, and a server that begins a new period cannot
//! also cut its runtime. A switch next to the setting would add combinations that no kernel has,
//! and a second key to every trace.

use super::{
    BandwidthControl, CgroupMode, CpuServers, FairAlgorithm, FairBalance, FairHierarchy, FairServer, Grain,
    KernelVersion, LagLimit, LoadTracking, OverloadScope, Preempt, RecentUsedCpu, RtBalance, RtOverload, SchedExt,
    ServerBooking, ServerStart, ServerStop, ServerWakeup, Setting, SliceProtection, Throttle, TimerGrain,
    TunableScaling, Uclamp, Value, read_duration, read_integer,
};
use crate::cpumask::CpuMask;
use crate::server::ServerParams;
use crate::time::Duration;
use alloc::format;
use alloc::string::ToString as _;

/// The unit of a bare number.
pub(super) struct Unit {
    pub(super) length: Duration,
    /// How it is written in help texts.
    name: &'static str,
}

pub(super) const NS: Unit = Unit { length: Duration::from_nanos(1), name: "nanoseconds" };
const US: Unit = Unit { length: Duration::from_micros(1), name: "microseconds" };
const MS: Unit = Unit { length: Duration::from_millis(1), name: "milliseconds" };
const SECONDS_OR_NEVER: Unit = Unit { length: Duration::from_secs(1), name: "seconds; 0 is never" };

/// The kernel's bounds of every granularity (`kernel/sched/debug.c`): 100 us to 1 s.
const GRANULARITY_MIN: Duration = Duration::from_micros(100);
const GRANULARITY_MAX: Duration = Duration::from_secs(1);
/// The longest period of RT throttling (2^22 us).
const RT_MAX: Duration = Duration::from_micros(1 << 22);

/// Whether the steps of a preset are in the order of versions.
const fn ascends(ranks: &[u8]) -> bool {
    let mut at = 1;
    while at < ranks.len() {
        if ranks[at - 1] >= ranks[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The value of a setting in a kernel: that of the last step that the kernel has reached.
macro_rules! preset {
    ($kernel:ident, $value:expr) => { $value };
    ($kernel:ident, $value:expr, $since:ident => $step:expr $(, $later:ident => $next:expr)*) => {
        preset!(
            $kernel,
            if $kernel as u8 >= KernelVersion::$since as u8 { $step } else { $value }
            $(, $later => $next)*
        )
    };
}

/// One row of the table. The kind of its type decides how it is shown and read.
macro_rules! row {
    ($key:expr, $name:expr, $after:expr, $doc:literal, $field:ident: Duration($unit:ident, $range:expr)) => {
        row!($key, $name, $after, $doc, $unit.name, $field.to_string, |text| {
            let value = read_duration(text, $unit.length)?;
            let range = $range;
            if !range.contains(&value) {
                return Err(format!("{value} is outside {}..={}", range.start(), range.end()));
            }
            value
        })
    };
    ($key:expr, $name:expr, $after:expr, $doc:literal, $field:ident: u32($low:literal..=$high:literal)) => {
        row!($key, $name, $after, $doc, concat!($low, "..", $high), $field.to_string, |text| {
            let value = read_integer(text, $low, $high)?;
            u32::try_from(value).map_err(|_| format!("{value} does not fit 32 bits"))?
        })
    };
    ($key:expr, $name:expr, $after:expr, $doc:literal, $field:ident: $type:ident) => {
        row!($key, $name, $after, $doc, <$type>::VALUES, $field.show, |text| Value::read(text)?)
    };
    (
        $key:expr, $name:expr, $after:expr, $doc:literal, $values:expr, $field:ident.$show:ident,
        |$text:ident| $read:expr
    ) => {
        Setting {
            key: $key,
            name: $name,
            after: $after,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.$show(),
            read: |settings, $text| {
                settings.$field = $read;
                Ok(())
            },
        }
    };
}

macro_rules! settings {
    (
        settings { $(
            $(#[$more:meta])*
            $name:literal: $doc:literal,
            $field:ident: $type:ident $(($($range:tt)+))? = $first:expr $(, $since:ident => $step:expr)*;
        )+ }
        faults { $(
            $(#[$fault_more:meta])*
            $fault:literal: $fault_doc:literal $((recorded as $key:literal after $after:literal))?,
            $fault_field:ident: bool = $fault_first:expr $(, $fault_since:ident => $fault_step:expr)*;
        )+ }
    ) => {
        /// Every switch and tunable that the scheduler obeys.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Settings {
            $(
                #[doc = concat!("Key `", $name, "`: ", $doc, ".\n\n")]
                $(#[$more])*
                pub $field: $type,
            )+
            $(
                #[doc = concat!("Key `", $fault, "`: ", $fault_doc, ".\n\n")]
                $(#[$fault_more])*
                pub $fault_field: bool,
            )+
        }

        /// Every setting: one row each, faults last.
        pub(super) const ROWS: &[Setting] = &[
            $(row!($name, $name, None, $doc, $field: $type $(($($range)+))?),)+
            $(row!(
                either!($($key)? $fault), $fault, either!($(Some($after))? None), $fault_doc, $fault_field: bool
            ),)+
        ];

        /// Returns the value of each setting in a kernel.
        pub(super) fn preset(kernel: KernelVersion) -> Settings {
            $(const { assert!(ascends(&[$(KernelVersion::$since as u8),*]), $name) };)+
            $(const { assert!(ascends(&[$(KernelVersion::$fault_since as u8),*]), $fault) };)+
            Settings {
                $($field: preset!(kernel, $first $(, $since => $step)*),)+
                $($fault_field: preset!(kernel, $fault_first $(, $fault_since => $fault_step)*),)+
            }
        }
    };
}

/// The first of one or two.
macro_rules! either {
    ($first:literal $($second:literal)?) => {
        $first
    };
    (Some($first:literal) None) => {
        Some($first)
    };
    (None) => {
        None
    };
}

settings! {
    settings {
        "fair": "algorithm of the fair class",
            fair: FairAlgorithm = FairAlgorithm::Cfs, V6_6 => FairAlgorithm::Eevdf;
        /// The IPI of 4.15 (commit 4bdced5c9a29) is in the stable kernels of 4.4, 4.9 and 4.14.
        ///
        /// Since 7.2, and in the stable kernels of mid-2026 (7.1.13 has it), the pull of 2007 is
        /// the default again outside PREEMPT_RT: an IPI waits where preemption is disabled for long
        /// (commit dd29c017aed6). Presets before 7.1 are without it, although 5.10.261, 5.15.215
        /// and 6.12.96 have it.
        "rt_balance": "how waiting real-time tasks find a CPU",
            rt_balance: RtBalance =
                RtBalance::Passive,
                V2_6_25 => RtBalance::PullLocked,
                V4_1 => RtBalance::IpiPerCpu,
                V4_4 => RtBalance::IpiRootDomain,
                V7_1 => RtBalance::PullLocked;
        /// The IPI modes of `rt_balance` always keep one mask per root domain, as do the kernels
        /// that have them: the IPI belongs to the root domain. So does `pull_claimed`.
        "overload_scope": "where the mask of RT-overloaded CPUs is kept (ipi_* and pull_claimed of rt_balance: per root domain)",
            overload_scope: OverloadScope = OverloadScope::Global, V2_6_25 => OverloadScope::RootDomain;
        /// Commit 612f769edd06, 6.7.
        "rt_overload": "what makes a CPU RT-overloaded",
            rt_overload: RtOverload = RtOverload::Queued, V6_8 => RtOverload::Pushable;
        /// Commit 5fe7765997b1, 6.7.
        "dl_overload": "what lets a CPU push deadline tasks: two on its queue, or one that waits",
            dl_overload: RtOverload = RtOverload::Queued, V6_8 => RtOverload::Pushable;
        /// Commit 94894c9c477e, 7.0. Presets before 7.0 are without it, although 5.10.252,
        /// 5.15.215, 6.1.165, 6.12.75 and 6.18.15 have it.
        "rt_ipi_skip_self": "a CPU does not forward the root domain's IPI to itself",
            rt_ipi_skip_self: bool = false, V7_0 => true;
        /// Our reading of the title of a patch of 2016, "Avoid sending an IPI to a CPU already
        /// doing a push", which the 2017 text reverts; in no release.
        "rt_ipi_skip_pushing": "ipi_per_cpu: no request to a CPU that has yet to serve one; it can be lost",
            rt_ipi_skip_pushing: bool = false;
        "rt_push_skip_stuck": "push the next task when the first pushable one has nowhere to go",
            rt_push_skip_stuck: bool = false;
        /// Since 2.6.25. Otherwise it is enqueued where it ran and pushed from there, as in the
        /// 2007 text.
        "rt_select_on_wake": "a waking RT task selects a CPU before it is enqueued",
            rt_select_on_wake: bool = false, V2_6_25 => true;
        "preempt": "where kernel mode can be preempted",
            preempt: Preempt = Preempt::Voluntary, V6_18 => Preempt::Lazy;
        /// `HRTICK` is on since 7.1 (commits 558c18d3fbb6, 97015376642f, 5d88e424ec1b).
        /// A boot option, since 2.6.39 (commit 8d32a307e4fa).
        "threadirqs": "handlers of interrupts run in threads (always with preempt = rt)",
            threadirqs: bool = false;
        /// A boot option. Without it an interrupt can go to any CPU, also to an isolated one.
        "irqaffinity": "CPUs that interrupts without CPUs of their own go to; empty is all",
            irqaffinity: CpuMask = CpuMask::new();
        /// `ktimers`, SCHED_FIFO 1. Commit 49a17639508c, 6.13, and in RHEL 9; before, `ksoftirqd`
        /// expires them.
        "softirq.timer_threads": "with preempt = rt, timers of fair tasks expire in a real-time thread of their own",
            softirq_timer_threads: bool = false, V5_14 => true, V5_15 => false, V6_18 => true;
        /// Commit 4cd13c21b207, 4.9; reverted by d15121be7485, 6.5.
        "softirq.wait_for_thread": "softirqs of an interrupt wait for ksoftirqd as long as that is to run",
            softirq_wait_for_thread: bool = false, V4_9 => true, V6_6 => false;
        /// Since 6.18 a build has the lock only with `PREEMPT_RT_NEEDS_BH_LOCK` (commit
        /// 3253cb49cbad).
        "softirq.bh_lock": "with preempt = rt, sections that disable softirqs hold a lock of their CPU",
            softirq_bh_lock: bool = true, V6_18 => false;
        /// `CONFIG_RCU_BOOST`: on in a kernel with PREEMPT_RT, and a choice of experts elsewhere.
        "rcu.boost": "with preempt = rt, RCU readers that delay a grace period are boosted",
            rcu_boost: bool = true;
        /// `CONFIG_RCU_BOOST_DELAY`, rounded up to ticks.
        "rcu.boost_delay": "the age of a grace period from which on its readers are boosted",
            rcu_boost_delay: Duration(MS, Duration::ZERO..=Duration::from_secs(3)) = Duration::from_millis(500);
        /// `rcutree.kthread_prio`, whose default is 1 with `CONFIG_RCU_BOOST` and 0 without.
        "rcu.kthread_prio": "the real-time priority of RCU's threads; 0 is 1 where readers are boosted, else fair",
            rcu_kthread_prio: u32(0..=99) = 0;
        "enforce.fair": "when an exhausted fair slice takes effect",
            enforce_fair: TimerGrain = TimerGrain::Tick, V7_1 => TimerGrain::Hrtick;
        "enforce.rt": "when an exhausted RR slice takes effect",
            enforce_rt: Grain = Grain::Tick;
        /// `HRTICK_DL` is on since 7.1.
        "enforce.dl": "when an exhausted deadline budget takes effect",
            enforce_dl: TimerGrain = TimerGrain::Tick, V7_1 => TimerGrain::Hrtick;
        /// `CONFIG_IRQ_TIME_ACCOUNTING`: a choice of the build, not of a version. Debian's kernels
        /// are built without.
        "irq_time_accounting": "the time of interrupts and softirqs is not charged to the task that they interrupt",
            irq_time_accounting: bool = true;
        /// `CONFIG_PARAVIRT_TIME_ACCOUNTING` and a hypervisor that tells the stolen time: commit
        /// 095c0aa83e52, 3.1. Boot option `no-steal-acc`.
        "steal_clock": "the time that a hypervisor takes from a CPU (cost profile, stolen) is not charged to its task",
            steal_clock: bool = false, V3_2 => true;
        /// Linux has 50 us (`init_task.timer_slack_ns`), and a program can change it. Zero in
        /// presets: docs/reference/kernels.md says why.
        "timer_slack_ns": "how much later than asked the sleep of a fair task may end",
            timer_slack: Duration(NS, Duration::ZERO..=Duration::from_secs(1)) = Duration::ZERO;
        "hz": "ticks per second",
            hz: u32(1..=10_000) = 250;
        "nohz": "idle CPUs stop their tick",
            nohz: bool = true;
        "nohz_full": "CPUs that stop their tick while one task runs",
            nohz_full: CpuMask = CpuMask::new();
        /// For tasks whose affinity names them.
        "isolcpus": "CPUs without load balancing, for tasks that are confined to them",
            isolcpus: CpuMask = CpuMask::new();
        /// Since 6.7, commit 4a74e418881f, and in RHEL 9. Before, it could, and its isolated CPUs
        /// stayed without load balancing.
        "isolcpus_conflict": "a cpuset with isolated CPUs cannot be a partition",
            isolcpus_conflict: bool = false, V5_14 => true, V5_15 => false, V6_8 => true;
        "sched_rr_timeslice_ms": "time slice of SCHED_RR",
            rr_timeslice: Duration(MS, MS.length..=Duration::from_secs(1_000)) = Duration::from_millis(100);
        "tunable_scaling": "how fair granularities grow with the CPUs",
            tunable_scaling: TunableScaling = TunableScaling::Logarithmic;
        "base_slice_ns": "EEVDF: slice before scaling by CPUs",
            base_slice: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_micros(750), V6_12 => Duration::from_micros(700);
        "sched_latency_ns": "CFS: period in which every task runs once, before scaling",
            latency: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_millis(20), V3_2 => Duration::from_millis(6);
        "sched_min_granularity_ns": "CFS: shortest slice, before scaling",
            min_granularity: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_micros(4_000), V3_2 => Duration::from_micros(750);
        "sched_wakeup_granularity_ns": "CFS: how far behind a woken task must be to preempt, before scaling",
            wakeup_granularity: Duration(NS, Duration::ZERO..=GRANULARITY_MAX) =
                Duration::from_micros(10_000), V3_2 => Duration::from_micros(1_000);
        "features.RUN_TO_PARITY": "EEVDF: current runs until its lag is zero or its slice ends",
            run_to_parity: bool = false, V6_6 => true;
        "slice_protection": "EEVDF: how long RUN_TO_PARITY protects a picked task",
            slice_protection: SliceProtection =
                SliceProtection::Request,
                V6_18 => SliceProtection::MinSlice,
                V7_3 => SliceProtection::ZeroLag;
        /// Since 6.12.
        "group_min_slice": "EEVDF: a group uses the shortest slice of its tasks",
            group_min_slice: bool = false, V6_12 => true;
        /// Commit 79104becf42b; in the stable kernels of 6.12 since 6.12.63.
        "yield_forfeits": "EEVDF: a task that yields forfeits the rest of its request (6.18)",
            yield_forfeits: bool = false, V6_12 => true;
        "features.PLACE_LAG": "EEVDF: tasks keep their lag over sleep",
            place_lag: bool = false, V6_6 => true;
        /// Since 6.12.
        "features.PLACE_REL_DEADLINE": "EEVDF: a task that migrates while runnable continues its request",
            place_rel_deadline: bool = false, V6_12 => true;
        /// Since 6.12.
        "features.PREEMPT_SHORT": "EEVDF: a woken task with a shorter slice ends the protection of the current one",
            preempt_short: bool = false, V6_12 => true;
        /// `wakeup_preempt_fair`, `set_short_buddy`.
        "short_wakeup_first":
            "EEVDF: an eligible woken task with a shorter slice preempts whatever the deadlines, and runs next (7.3)",
            short_wakeup_first: bool = false, V7_3 => true;
        /// `wakeup_preempt_fair`: the labels `update` and `preempt`.
        "wakeup_ends_protection":
            "EEVDF: a wakeup that preempts ends the current task's protection, any other shortens it (7.3)",
            wakeup_ends_protection: bool = false, V7_3 => true;
        /// Commit 6e3c0a4e1ad1, 7.0; 6.12.117 is without.
        "lag_limit": "EEVDF: how much lag a task keeps when it leaves its queue",
            lag_limit: LagLimit = LagLimit::OwnSlice, V7_0 => LagLimit::LongestSlice;
        /// Commit c5cd6fd75b6a and the one that it completes, 7.1.
        "delayed_debt_shrinks":
            "EEVDF: a task with a delayed dequeue never owes more than when it blocked (7.1)",
            delayed_debt_shrinks: bool = false, V7_1 => true;
        /// Since 6.12.
        "features.DELAY_DEQUEUE": "EEVDF: a blocked task stays queued until its lag is repaid",
            delay_dequeue: bool = false, V6_12 => true;
        /// Commits ac8e69e69363 and 9f6d929ee2c6; also in the stable kernels of 6.18 and 7.0 since
        /// May 2026, not in 6.12.117. 6.19 had ended by then.
        "wakeup_past_delayed":
            "EEVDF: a wakeup ends the delayed dequeues that it finds before the woken task (7.1)",
            wakeup_past_delayed: bool = false, V6_18 => true, V6_19 => false, V7_0 => true;
        /// Since 6.0, commit 70fb5ccf2ebb, and in 5.15.148 and RHEL 8 and 9.
        "features.SIS_UTIL": "the busier a cache is, the fewer of its CPUs are searched for an idle one",
            sis_util: bool = false, V4_18 => true, V4_19 => false, V5_14 => true;
        /// Commits 1ad3aaf3fcd2, 70fb5ccf2ebb. Off in 5.15.148 and RHEL 8 and 9.
        "features.SIS_PROP":
            "limits the search for an idle CPU in proportion to the waking CPU's average idle time (4.13 to 5.19)",
            sis_prop: bool = false, V4_14 => true, V4_18 => false, V4_19 => true, V5_14 => false;
        /// Commits b48e16a69792, a2e7f03ed28f, 244226035a1f. The rules of 6.2 are also in the
        /// stable kernels from 5.10 on (5.10.163) and in RHEL 9.3; the kernels of RHEL are built
        /// without clamps.
        "uclamp": "what utilisation clamps do where CPUs differ in capacity (5.3, 6.2)",
            uclamp: Uclamp = Uclamp::Off, V5_4 => Uclamp::Util, V5_10 => Uclamp::Hint;
        "wake_wide": "a wakee is not pulled towards a waker with many wakees (3.12)",
            wake_wide: bool = false, V4_1 => true;
        /// RHEL 8.8 and 9.3 have the rule of 5.15, 6.1.42 has that of 6.5.
        "recent_used_cpu": "the CPU that a fair task remembers, to wake there if it idles (4.16, 5.15, 6.5)",
            recent_used_cpu: RecentUsedCpu =
                RecentUsedCpu::Off,
                V4_18 => RecentUsedCpu::PrevUnchecked,
                V4_19 => RecentUsedCpu::Waker,
                V5_14 => RecentUsedCpu::PrevUnchecked,
                V6_1 => RecentUsedCpu::Prev;
        /// Commits dd5feea14a7d (2.6.34), 0b0695f2b34a (5.5). No preset has the rules of before
        /// 5.5.
        "fair_balance": "how balancing of fair tasks compares groups of CPUs (2.6.34, 5.5; presets: the rules of 5.5)",
            fair_balance: FairBalance = FairBalance::Kinds;
        /// Cores whose threads share them, idle cores first; a busy CPU does not balance groups
        /// that all have spare capacity. Commits fee1759e4f04, b1bfeab9b002, 7ff1693236f5.
        "smt_balance": "idle CPUs pull from cores that several tasks share; busy CPUs do not (6.6)",
            smt_balance: bool = false, V6_6 => true;
        /// On machines with SMT and CPUs of different capacity. Commits 25a32e400a14, bf6aa722198d.
        "asym_idle_core":
            "where CPUs differ in capacity: a waking task prefers an idle core, a misfit moves only to one (7.2)",
            asym_idle_core: bool = false, V7_2 => true;
        /// The number of CPUs that are searched is that of the domain that spans all capacities.
        /// Commits fdfe5a8cd873, 61ea17a63719.
        "asym_sis_util": "where CPUs differ in capacity: SIS_UTIL limits the search of a waking task (7.2)",
            asym_sis_util: bool = false, V7_2 => true;
        /// Off since 4.20 (9c63e84db29b), on since commit f2c2ba7219e5.
        "asym_prefer_sibling": "where CPUs differ in capacity: idle CPUs even out groups of CPUs, as elsewhere (7.3)",
            asym_prefer_sibling: bool = false, V7_3 => true;
        /// Commit 293f9611ae73.
        "nohz_idle_core": "the idle CPU that a busy one asks to balance is on an idle core, if there is one (7.3)",
            nohz_idle_core: bool = false, V7_3 => true;
        /// From 2.6.32; removed by commit c5b0a7eefc70, also in RHEL 9.
        "newidle_min_idle":
            "no new-idle balancing on a CPU whose average idle time is below migration_cost_ns (until 5.15)",
            newidle_min_idle: bool = false, V3_2 => true, V5_14 => false, V5_15 => true, V6_1 => false;
        /// Commit 155213a2aed4, reverted by d206fbad9328. The stable kernels of 6.1 and 6.12 had it
        /// for some months of 2025 (6.12.43 to 6.12.63); 6.18.15 is without it.
        "newidle_cost_bump":
            "a failed new-idle search raises the recorded search cost to 1.5 times its maximum (6.17, 6.18)",
            newidle_cost_bump: bool = false;
        /// Commit 33cf66d88306, 6.19. Presets 6.1, 6.12 and 6.18 are without it, although 6.1.160,
        /// 6.12.65 and 6.18.15 have it.
        "features.NI_RANDOM":
            "new-idle balancing searches a domain as often as searches there succeed, by draws",
            ni_random: bool = false, V6_19 => true;
        /// In 7.2; 6.12.117 is without.
        "features.NI_RATE": "NI_RANDOM: the less often a CPU becomes idle, the more often it searches (7.2)",
            ni_rate: bool = false, V7_2 => true;
        "features.WAKEUP_PREEMPTION": "a woken fair task may preempt the current one",
            wakeup_preemption: bool = true;
        /// Commits df0d98475954 and others, 067a31358143 (the switch). It has an effect on machines
        /// with several caches, each of several CPUs, and on processes of several threads.
        "llc_balancing": "fair tasks are moved to the cache where their process ran most (7.2)",
            llc_balancing: bool = false, V7_2 => true;
        /// Commit c1e7fe5e75ed. Here it bounds threads only: the memory of a process has no size.
        "llc_balancing.aggr_tolerance":
            "a process may run this many times as many threads as fit a cache; 0: none is gathered, 100: all are",
            llc_aggr_tolerance: u32(0..=100) = 1;
        /// In whole ticks, at least one: `HZ / 100`.
        "llc_balancing.epoch_period": "processes are scanned at this interval, in which their run times halve",
            llc_epoch_period: Duration(MS, MS.length..=Duration::from_secs(10)) = Duration::from_millis(10);
        "llc_balancing.epoch_affinity_timeout":
            "epochs without a scan after which a process prefers no cache any more",
            llc_epoch_affinity_timeout: u32(0..=100_000) = 5;
        "llc_balancing.overaggr_pct":
            "util in percent up to which a cache takes tasks that prefer it; half as much again without SMT",
            llc_overaggr_pct: u32(0..=100) = 50;
        "llc_balancing.imb_pct": "how much more util than another in percent makes a cache much fuller",
            llc_imb_pct: u32(0..=1000) = 20;
        /// Linux v7.3 `kernel/sched/fair.c`, `enqueue_hierarchy`, `__calc_prop_weight`,
        /// `reweight_eevdf`.
        "fair_hierarchy": "where the fair tasks of groups compete (7.3)",
            fair_hierarchy: FairHierarchy = FairHierarchy::Nested, V7_3 => FairHierarchy::Flat;
        /// debugfs `sched/cgroup_mode`; `calc_group_shares` before.
        "cgroup_mode": "the weight of a group on the CPUs that its tasks are on",
            cgroup_mode: CgroupMode = CgroupMode::Smp, V7_3 => CgroupMode::Concur;
        "throttle": "which tasks stop where a limited group has no quota left",
            throttle: Throttle = Throttle::Immediate, V6_18 => Throttle::AtUserReturn;
        "load_tracking": "the measure of load for placing and balancing fair tasks",
            load_tracking: LoadTracking = LoadTracking::Weights, V4_1 => LoadTracking::Pelt;
        "bandwidth": "where the quota of a limited group is kept",
            bandwidth: BandwidthControl = BandwidthControl::Pool;
        /// Since 3.2. Without it, a CPU whose tasks are all throttled does no new-idle balancing.
        "hierarchical_running":
            "throttled tasks do not count as running, and none is migrated to a CPU where its group is throttled",
            hierarchical_running: bool = false, V3_2 => true;
        "sched_cfs_bandwidth_slice_us": "quota that a CPU takes out of a limited group's pool at a time",
            bandwidth_slice: Duration(US, US.length..=Duration::from_secs(1_000)) = Duration::from_millis(5);
        /// Turner & Rao 2010, "some sort of limited step-function"; in no kernel.
        "cfs_bandwidth_slice_steps":
            "a CPU's first two requests are a quarter and half of a slice, none is more than a quarter of the pool",
            bandwidth_slice_steps: bool = false;
        /// Since 6.17, off unless built in.
        "proxy_exec": "a task that waits for a lock in the kernel lends its turn to the holder",
            proxy_exec: bool = false;
        /// The scheduler ignores it: hosts use it. Commit 992caf7f1724. RHEL 8.8 and 9.3 have the
        /// function, but it gives up when the waiter is the first, not when it is not: no waiter
        /// spins there.
        "rt_mutex_spin": "the first waiter for a priority-inheriting mutex spins while its holder runs (5.15)",
            rt_mutex_spin: bool = false, V5_15 => true;
        /// The host draws the offset (6.4, commit 41abdba93747). Without it, the periods of all
        /// groups begin at the same time.
        "cfs_bandwidth_interleave": "each limited group's periods begin at a random offset",
            bandwidth_interleave: bool = false, V6_6 => true;
        /// The CPU can then be throttled while a group above it is unthrottled (fixed in 6.18 by
        /// commit 956dfda6a708). Not among the faults: it did harm only with throttling task by
        /// task, which no release before the fix has (6.18-rc1 to rc4).
        "cfs_bandwidth_zero_start": "a new limit gives a CPU a runtime of 0 instead of 1 ns (until 6.17)",
            bandwidth_zero_start: bool = true, V6_18 => false;
        /// From 3.2 to 5.3. Removed by commit de53fd7aedb1, also in the stable kernels of 4.14,
        /// 4.19 and 5.3, and in RHEL 8.
        "cfs_bandwidth_expiry": "a CPU's unused quota expires at the end of the period",
            bandwidth_expiry: bool = true, V4_14 => false, V4_15 => true, V4_18 => false;
        /// Since 3.2.
        "cfs_bandwidth_slack": "a CPU without tasks of a limited group to run returns its quota, all but 1 ms",
            bandwidth_slack: bool = false, V3_2 => true;
        "migration_cost_ns": "a task that ran more recently than this is cache hot",
            migration_cost: Duration(NS, Duration::ZERO..=GRANULARITY_MAX) = Duration::from_micros(500);
        "nr_migrate": "most tasks that one round of balancing examines",
            nr_migrate: u32(1..=1024) = 32;
        "rt_throttling": "real-time tasks get at most a share of each period",
            rt_throttling: bool = false, V2_6_25 => true, V6_12 => false;
        "sched_rt_runtime_us": "time that real-time tasks of a CPU may run per period, with rt_throttling",
            rt_runtime: Duration(US, Duration::ZERO..=RT_MAX) = Duration::from_millis(950), V7_2 => Duration::from_secs(1);
        "sched_rt_period_us": "period of rt_throttling",
            rt_period: Duration(US, US.length..=RT_MAX) = Duration::from_secs(1);
        /// A CPU whose real-time tasks need more borrows. Off since 5.10 (commit 2586af1ac187), and
        /// in 5.4.286 and RHEL 8.
        "features.RT_RUNTIME_SHARE": "a CPU borrows real-time runtime from the others of its root domain",
            rt_runtime_share: bool = true, V4_18 => false, V4_19 => true, V5_4 => false;
        "fair_server": "deadline server of each CPU's fair tasks",
            fair_server: FairServer = FairServer::Off, V6_12 => FairServer::Deferred;
        "fair_server.start": "which tasks must be queued for the fair server to start",
            fair_server_start: ServerStart = ServerStart::Fair;
        "fair_server.runtime": "runtime of the fair server per period",
            fair_server_runtime: Duration(NS, Duration::ZERO..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.runtime;
        "fair_server.period": "period of the fair server",
            fair_server_period: Duration(NS, ServerParams::PERIOD_MIN..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.period;
        /// A server is charged for work, not for run time, so it runs longer on slower CPUs (fixed
        /// by commit fc975cfb3639, also in 6.12.39). Frequencies are not modelled, capacities are.
        "fair_server.scaled": "the fair server's runtime is scaled by the capacity of its CPU (6.12 to 6.15)",
            fair_server_scaled: bool = false;
        "fair_server.stop": "when a server without fair tasks stops",
            fair_server_stop: ServerStop = ServerStop::Picked, V6_19 => ServerStop::Idle;
        "fair_server.wakeup": "what a deferred server does if it is started with a job that it may not continue",
            fair_server_wakeup: ServerWakeup = ServerWakeup::Revised;
        "fair_server.cpus": "CPUs with a different fair server",
            fair_server_cpus: CpuServers = CpuServers::default();
        /// In kernels since 6.12 (commit f0e1a0643a59). The scheduler is built in: the one that the
        /// kernel's default callbacks make, which is `scx_simple` with `-f`.
        "sched_ext": "which tasks a loaded scheduler has (6.12)",
            sched_ext: SchedExt = SchedExt::Off;
        "sched_ext.slice": "time slice of the loaded scheduler",
            sched_ext_slice: Duration(NS, Duration::from_micros(1)..=Duration::from_secs(1)) =
                Duration::from_millis(20);
        /// Commit cd959a356205, 7.0. It is as the fair server, and obeys the settings that say when
        /// that one starts, stops and continues.
        "ext_server": "deadline server of each CPU's tasks of a loaded scheduler",
            ext_server: FairServer = FairServer::Off, V7_0 => FairServer::Deferred;
        "ext_server.runtime": "runtime of that server per period",
            ext_server_runtime: Duration(NS, Duration::ZERO..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.runtime;
        "ext_server.period": "period of that server",
            ext_server_period: Duration(NS, ServerParams::PERIOD_MIN..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.period;
        "ext_server.booked": "which deadline servers have bandwidth",
            ext_server_booked: ServerBooking = ServerBooking::Both, V7_2 => ServerBooking::Needed;
        /// The scheduler ignores it: hosts and monitors use it.
        "watchdog_thresh": "how long a CPU may be in IPI and lock work without serving a timer",
            watchdog_thresh: Duration(SECONDS_OR_NEVER, Duration::ZERO..=Duration::from_secs(60)) =
                Duration::from_secs(10);
    }
    faults {
        /// Fixed in 6.14 by commit af98d8a36a96.
        "fault.cfs_bandwidth_hotplug_bypass":
            "a CPU that goes offline or online unthrottles the groups on all other CPUs (until 6.13)"
            (recorded as "cfs_bandwidth_hotplug_bypass" after "cfs_bandwidth_zero_start"),
            bandwidth_hotplug_bypass: bool = true, V6_18 => false;
        /// Fixed in 3.17 by commit 0e59bdaea75f.
        "fault.cfs_bandwidth_offline_loss":
            "tasks that are throttled on a CPU that goes offline stay there (until 3.16)"
            (recorded as "cfs_bandwidth_offline_loss" after "cfs_bandwidth_zero_start"),
            bandwidth_offline_loss: bool = true, V4_1 => false;
        /// `sched_rt_runtime_us` set for the first time. Fixed in 5.17 by commit 9b58e976b3b3, in
        /// the stable kernels of January 2022 (4.14.263), not in 4.9.337, and in RHEL 8.
        "fault.rt_period_timer_lost":
            "a real-time busy loop that runs when a limit is set is throttled forever (until 5.16)"
            (recorded as "rt_period_timer_lost" after "features.RT_RUNTIME_SHARE"),
            rt_period_timer_lost: bool =
                false,
                V2_6_25 => true,
                V4_14 => false,
                V4_15 => true,
                V4_18 => false;
        /// The reschedule request is lost, and the fair task runs no longer under the server. Since
        /// commit fd03c5b85855; not fixed in 7.1.
        "fault.fair_server_resched_lost":
            "if a switch finds the fair server exhausted, the fair task keeps the CPU although others wait (since 6.12)"
            (recorded as "fair_server.resched_lost" after "fair_server.wakeup"),
            fair_server_resched_lost: bool = false, V6_12 => true;
        /// The timer of a throttled task is set to its deadline, also if its period ends later.
        /// Fixed in 4.11 by commit 5ac69d37784b, and in the stable kernels of 4.4 and 4.9, as the
        /// next two.
        "fault.dl_replenish_early":
            "a throttled constrained deadline task is replenished at its deadline, before its period ends (3.14 to 4.10)",
            dl_replenish_early: bool = false, V4_1 => true, V4_4 => false;
        /// Fixed in 4.11 by commit df8eac8cafce.
        "fault.dl_late_wakeup":
            "a constrained deadline task that wakes after its deadline begins a job before its period ends (3.14 to 4.10)",
            dl_late_wakeup: bool = false, V4_1 => true, V4_4 => false;
        /// Fixed in 4.13 by commit 3effcb4247e7.
        "fault.dl_wakeup_refill":
            "a constrained deadline task that wakes with too much budget begins a job instead of losing budget (3.14 to 4.12)",
            dl_wakeup_refill: bool = false, V4_1 => true, V4_4 => false;
        /// Fixed in 6.5 by commit 6a9d623aad89.
        "fault.dl_reclaim_short":
            "a reclaiming deadline task is charged as if all CPU time were to be reserved, and leaves 5 % unused (4.13 to 6.4)",
            dl_reclaim_short: bool = false, V4_14 => true, V6_6 => false;
        /// Fixed in 6.6 by commit 88c56cfeaec4.
        "fault.nohz_full_limited":
            "a nohz_full CPU stops its tick although the group of its only task has a limit (3.10 to 6.5)",
            nohz_full_limited: bool = false, V4_1 => true, V6_6 => false;
        /// In 6.12 by commit 11cc374f4643, fixed in 6.13 and in the stable kernels of 6.12 by
        /// commit c1f43c342e1f.
        "fault.nohz_full_grouped":
            "a nohz_full CPU stops its tick although several tasks share it, if they are in one group (6.12)",
            nohz_full_grouped: bool = false;
        /// Since 3eac870a3247, fixed in 5.14 and 5.10.50 by commit 0c18f2ecfcc2. 5.4.286 has the
        /// fix.
        "fault.uclamp_min_limit":
            "cpu.uclamp.min is the most that a task of the group can ask for, not the least that it gets (5.4 to 5.13)",
            uclamp_min_limit: bool = false;
        /// Fixed in 6.10, in 6.1.93 and 6.6.32, and in 5.15.215, by commit 49217ea147df; not in
        /// RHEL 9.3.
        "fault.cfs_burst_cut":
            "writing cpu.max divides the group's cpu.max.burst by 1000 (5.14 to 6.9)",
            burst_cut: bool = false, V5_14 => true, V5_15 => false;
        /// Fixed in 3.16 by commit 52a08ef1f13a. An idle CPU without a tick is asked to balance by
        /// a busy one, whatever its own interval is.
        "fault.idle_busy_interval":
            "an idle CPU that ticks waits for the end of a busy CPU's balancing interval (until 3.15)",
            idle_busy_interval: bool = true, V4_1 => false;
        /// Since 4.20; fixed by commit 50b101f6e586, which is in 7.2.13.
        "fault.asym_strong_hides":
            "a group of stronger CPUs without a waiting task hides a group with one (4.20 to 7.2)",
            asym_strong_hides: bool = false, V5_4 => true, V7_2 => false;
        /// Since 4.20; fixed by commit 0fbd428d0788.
        "fault.asym_misfit_hides":
            "tasks that wait under the cache of a misfit stay there, if the idle CPU cannot take the misfit (4.20 to 7.2)",
            asym_misfit_hides: bool = false, V5_4 => true, V7_3 => false;
        /// Since 4.20; fixed by commit 180ff97c1869.
        "fault.asym_thread_stays":
            "where CPUs differ in capacity, tasks that share a core stay there beside an idle core (4.20 to 7.2)",
            asym_thread_stays: bool = false, V5_4 => true, V7_3 => false;
    }
}
