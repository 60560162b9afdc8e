//! [`Settings`] and [`Settings::TABLE`]: one row per setting.
//!
//! A row has all that is known of a setting, so a new one is added here and nowhere else:
//!
//! ```text
//! /// More for readers of code: the source, the commits.
//! "key": "meaning",
//!     field: Type(UNIT, LOW..=HIGH) = value at first, "6.13" by "commit" => value since 6.13;
//! ```
//!
//! A row names the release that changed the scheduler, never the next preset: a kernel between two
//! presets would get the faults of the earlier one. It names the commit too if one is known,
//! because a kernel with a backport is found by it (`backports.rs`). A value at first that no
//! kernel had, because the mechanism came later, is that of the newest kernel.
//!
//! The text of the possible values comes from the type, and for numbers from the unit or the range.
//! The macro makes of the rows the fields of `Settings` with their documentation, the values of a
//! kernel ([`KernelVersion::settings`](super::KernelVersion::settings)) and the table.
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

use super::release::Change;
use super::{
    BandwidthControl, Borrowing, CgroupMode, CgroupShares, CpuServers, FairAlgorithm, FairBalance, FairHierarchy,
    FairServer, Grain, IdleGovernor, LagLimit, LoadTracking, OverloadScope, Preempt, RecentUsedCpu, RtBalance,
    RtGroupSched, RtOverload, SchedExt, SchedExtPolicy, ServerBooking, ServerStart, ServerStop, ServerWakeup, Setting,
    SettingValue, SliceProtection, Throttle, ThrottleAt, TimerGrain, TunableScaling, Uclamp, read_duration,
    read_integer,
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
/// A runtime that is above every period, which is no limit: the kernel's -1.
const RT_UNLIMITED: Duration = Duration::from_micros((1 << 22) + 1);

/// Whether the changes of a row are in the order of releases.
const fn ascends(changes: &[Change]) -> bool {
    let mut at = 1;
    while at < changes.len() {
        if changes[at].release.is_until(changes[at - 1].release) {
            return false;
        }
        at += 1;
    }
    true
}

/// The change that a row names.
macro_rules! change {
    ($release:literal) => {
        const { Change::with($release) }
    };
    ($release:literal $commit:literal) => {
        const { Change::by($release, $commit) }
    };
}

/// The value of a setting in a kernel: that of the last change that the kernel has.
macro_rules! value {
    ($has:ident, $value:expr) => { $value };
    (
        $has:ident, $value:expr, $release:literal $($commit:literal)? => $step:expr
        $(, $later:literal $($later_commit:literal)? => $next:expr)*
    ) => {
        value!(
            $has,
            if $has(&change!($release $($commit)?)) { $step } else { $value }
            $(, $later $($later_commit)? => $next)*
        )
    };
}

/// One row of the table. The kind of its type decides how it is shown and read.
macro_rules! row {
    ($key:expr, $name:expr, $after:expr, $changes:expr, $doc:literal, $field:ident: Duration($unit:ident, $range:expr)) => {
        row!($key, $name, $after, $changes, $doc, $unit.name, $field.to_string, |text| {
            let value = read_duration(text, $unit.length)?;
            let range = $range;
            if !range.contains(&value) {
                return Err(format!("{value} is outside {}..={}", range.start(), range.end()));
            }
            value
        })
    };
    ($key:expr, $name:expr, $after:expr, $changes:expr, $doc:literal, $field:ident: u32($low:literal..=$high:literal)) => {
        row!($key, $name, $after, $changes, $doc, concat!($low, "..", $high), $field.to_string, |text| {
            let value = read_integer(text, $low, $high)?;
            u32::try_from(value).map_err(|_| format!("{value} does not fit 32 bits"))?
        })
    };
    ($key:expr, $name:expr, $after:expr, $changes:expr, $doc:literal, $field:ident: $type:ident) => {
        row!($key, $name, $after, $changes, $doc, <$type>::VALUES, $field.show, |text| SettingValue::read(text)?)
    };
    (
        $key:expr, $name:expr, $after:expr, $changes:expr, $doc:literal, $values:expr, $field:ident.$show:ident,
        |$text:ident| $read:expr
    ) => {
        Setting {
            key: $key,
            name: $name,
            after: $after,
            changes: $changes,
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
            $field:ident: $type:ident $(($($range:tt)+))? =
                $first:expr $(, $release:literal $(by $commit:literal)? => $step:expr)*;
        )+ }
        faults { $(
            $(#[$fault_more:meta])*
            $fault:literal: $fault_doc:literal $((recorded as $key:literal after $after:literal))?,
            $fault_field:ident: bool =
                $fault_first:expr $(, $fault_release:literal $(by $fault_commit:literal)? => $fault_step:expr)*;
        )+ }
    ) => {
        /// Every switch and tunable that the scheduler obeys.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Settings {
            $(
                #[doc = concat!("Key `", $name, "`: ", $doc, ".\n\n")]
                $(#[$more])*
                #[doc = concat!("\n\nAt first `", stringify!($first), "`", $(
                    "; since ", $release, $(" (commit ", $commit, ")",)? " `", stringify!($step), "`",
                )* ".")]
                pub $field: $type,
            )+
            $(
                #[doc = concat!("Key `", $fault, "`: ", $fault_doc, ".\n\n")]
                $(#[$fault_more])*
                #[doc = concat!("\n\nAt first `", stringify!($fault_first), "`", $(
                    "; since ", $fault_release, $(" (commit ", $fault_commit, ")",)? " `", stringify!($fault_step), "`",
                )* ".")]
                pub $fault_field: bool,
            )+
        }

        /// Every setting: one row each, faults last.
        pub(super) const ROWS: &[Setting] = &[
            $(row!(
                $name, $name, None, &[$(change!($release $($commit)?)),*], $doc, $field: $type $(($($range)+))?
            ),)+
            $(row!(
                either!($($key)? $fault), $fault, either!($(Some($after))? None),
                &[$(change!($fault_release $($fault_commit)?)),*], $fault_doc, $fault_field: bool
            ),)+
        ];

        const _: () = {
            $(assert!(ascends(&[$(change!($release $($commit)?)),*]), $name);)+
            $(assert!(ascends(&[$(change!($fault_release $($fault_commit)?)),*]), $fault);)+
        };

        /// Returns the value of each setting in a kernel that has some of the changes.
        pub(super) fn preset(has: &dyn Fn(&Change) -> bool) -> Settings {
            Settings {
                $($field: value!(has, $first $(, $release $($commit)? => $step)*),)+
                $($fault_field: value!(has, $fault_first $(, $fault_release $($fault_commit)? => $fault_step)*),)+
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
            fair: FairAlgorithm = FairAlgorithm::Cfs, "6.6" by "147f3efaa241" => FairAlgorithm::Eevdf;
        /// Since 7.2 the pull of 2007 is the default again outside PREEMPT_RT: an IPI waits where
        /// preemption is disabled for long. Presets before 7.1 are without this backport.
        "rt_balance": "how waiting real-time tasks find a CPU",
            rt_balance: RtBalance =
                RtBalance::Passive,
                "2.6.25" => RtBalance::PullLocked,
                "4.1" by "b6366f048e0c" => RtBalance::IpiPerCpu,
                "4.15" by "4bdced5c9a29" => RtBalance::IpiRootDomain,
                "7.2" by "dd29c017aed6" => RtBalance::PullLocked;
        /// The IPI modes of `rt_balance` always keep one mask per root domain, as do the kernels
        /// that have them: the IPI belongs to the root domain. So does `pull_claimed`.
        "overload_scope": "where the mask of RT-overloaded CPUs is kept (ipi_* and pull_claimed of rt_balance: per root domain)",
            overload_scope: OverloadScope =
                OverloadScope::Global,
                "2.6.25" => OverloadScope::RootDomain;
        "rt_overload": "what makes a CPU RT-overloaded",
            rt_overload: RtOverload = RtOverload::Queued, "6.7" by "612f769edd06" => RtOverload::Pushable;
        "dl_overload": "what lets a CPU push deadline tasks: two on its queue, or one that waits",
            dl_overload: RtOverload = RtOverload::Queued, "6.7" by "5fe7765997b1" => RtOverload::Pushable;
        /// `balance_dl` asks `on_dl_rq`; `pick_next_task_dl` did not.
        "dl_pull_beside": "a CPU also pulls an earlier deadline task where its own goes on with a later deadline",
            dl_pull_beside: bool = true, "5.4" by "6e2df0581f56" => false;
        /// Presets before 7.0 are without this backport.
        "rt_ipi_skip_self": "a CPU does not forward the root domain's IPI to itself",
            rt_ipi_skip_self: bool = false, "7.0" by "94894c9c477e" => true;
        /// Our reading of the title of a patch of 2016, "Avoid sending an IPI to a CPU already
        /// doing a push", which the 2017 text reverts; in no release.
        "rt_ipi_skip_pushing": "ipi_per_cpu: no request to a CPU that has yet to serve one; it can be lost",
            rt_ipi_skip_pushing: bool = false;
        "rt_push_skip_stuck": "push the next task when the first pushable one has nowhere to go",
            rt_push_skip_stuck: bool = false;
        /// Since 2.6.25. Otherwise it is enqueued where it ran and pushed from there, as in the
        /// 2007 text.
        "rt_select_on_wake": "a waking RT task selects a CPU before it is enqueued",
            rt_select_on_wake: bool = false, "2.6.25" => true;
        /// `rt_task` was true of a deadline task until then: its priority is below `MAX_RT_PRIO`.
        "rt_select_beside_dl": "a waking RT task selects another CPU where a deadline task runs; else it is queued there and pushed",
            rt_select_beside_dl: bool = true, "6.12" by "130fd056dd82" => false;
        /// A choice of the build, not of a version: `PREEMPT_LAZY` is there since 6.13 (commit
        /// 7c70cb94d29c), and assumed since 6.18.
        "preempt": "where kernel mode can be preempted",
            preempt: Preempt = Preempt::Voluntary, "6.18" => Preempt::Lazy;
        /// A boot option, since 2.6.39 (commit 8d32a307e4fa).
        "threadirqs": "handlers of interrupts run in threads (always with preempt = rt)",
            threadirqs: bool = false;
        /// A boot option. Without it an interrupt can go to any CPU, also to an isolated one.
        "irqaffinity": "CPUs that interrupts without CPUs of their own go to; empty is all",
            irqaffinity: CpuMask = CpuMask::new();
        /// `ktimers`, SCHED_FIFO 1; before, `ksoftirqd` expires them.
        "softirq.timer_threads": "with preempt = rt, timers of fair tasks expire in a real-time thread of their own",
            softirq_timer_threads: bool = false, "6.13" by "49a17639508c" => true;
        "softirq.wait_for_thread": "softirqs of an interrupt wait for ksoftirqd as long as that is to run",
            softirq_wait_for_thread: bool =
                false,
                "4.9" by "4cd13c21b207" => true,
                "6.5" by "d15121be7485" => false;
        /// Since 6.18 a build has the lock only with `PREEMPT_RT_NEEDS_BH_LOCK`.
        "softirq.bh_lock": "with preempt = rt, sections that disable softirqs hold a lock of their CPU",
            softirq_bh_lock: bool = true, "6.18" by "3253cb49cbad" => false;
        /// `CONFIG_RCU_BOOST`: on in a kernel with PREEMPT_RT, and a choice of experts elsewhere.
        "rcu.boost": "with preempt = rt, RCU readers that delay a grace period are boosted",
            rcu_boost: bool = true;
        /// `CONFIG_RCU_BOOST_DELAY`, rounded up to ticks.
        "rcu.boost_delay": "the age of a grace period from which on its readers are boosted",
            rcu_boost_delay: Duration(MS, Duration::ZERO..=Duration::from_secs(3)) = Duration::from_millis(500);
        /// `rcutree.kthread_prio`, whose default is 1 with `CONFIG_RCU_BOOST` and 0 without.
        "rcu.kthread_prio": "the real-time priority of RCU's threads; 0 is 1 where readers are boosted, else fair",
            rcu_kthread_prio: u32(0..=99) = 0;
        /// `HRTICK` is on since 7.1 (commits 558c18d3fbb6, 97015376642f, 5d88e424ec1b).
        "enforce.fair": "when an exhausted fair slice takes effect",
            enforce_fair: TimerGrain = TimerGrain::Tick, "7.1" by "5d88e424ec1b" => TimerGrain::Hrtick;
        "enforce.rt": "when an exhausted RR slice takes effect",
            enforce_rt: Grain = Grain::Tick;
        /// `HRTICK_DL`. The pick of a deadline task did not ask for the feature from 6.8 to 6.11:
        /// it asked `hrtick_enabled`, which is true with every high-resolution timer since 5.12.
        "enforce.dl": "when an exhausted deadline budget takes effect",
            enforce_dl: TimerGrain =
                TimerGrain::Tick,
                "6.8" by "63ba8422f876" => TimerGrain::Hrtick,
                "6.12" by "d16b7eb6f523" => TimerGrain::Tick,
                "7.1" by "5d88e424ec1b" => TimerGrain::Hrtick;
        /// `CONFIG_IRQ_TIME_ACCOUNTING`: a choice of the build, not of a version. Debian's kernels
        /// are built without.
        "irq_time_accounting": "the time of interrupts and softirqs is not charged to the task that they interrupt",
            irq_time_accounting: bool = true;
        /// `CONFIG_PARAVIRT_TIME_ACCOUNTING` and a hypervisor that tells the stolen time. Boot
        /// option `no-steal-acc`.
        "steal_clock": "the time that a hypervisor takes from a CPU (cost profile, stolen) is not charged to its task",
            steal_clock: bool = false, "3.1" by "095c0aa83e52" => true;
        /// Linux has 50 us (`init_task.timer_slack_ns`), and a program can change it. Zero in
        /// presets: docs/reference/kernels.md says why.
        "timer_slack_ns": "how much later than asked the sleep of a fair task may end",
            timer_slack: Duration(NS, Duration::ZERO..=Duration::from_secs(1)) = Duration::ZERO;
        "hz": "ticks per second",
            hz: u32(1..=10_000) = 250;
        /// For tasks that ask for it (`slice_extension` of a `user_spin_lock`). Boot option
        /// `rseq_slice_ext=`; kernels can be built without.
        "rseq_slice_ext":
            "a task that asks for it is preempted later, while it is in a short section of user mode (7.0)",
            rseq_slice_ext: bool = false, "7.0" by "3c78aaec19b0" => true;
        /// Debugfs, `rseq/slice_ext_nsec`.
        "rseq.slice_ext_nsec": "the longest time by which rseq_slice_ext delays a switch",
            rseq_slice_ext_time: Duration(NS, Duration::from_micros(5)..=Duration::from_micros(50)) =
                Duration::from_micros(5);
        "nohz": "idle CPUs stop their tick",
            nohz: bool = true;
        /// With the idle states of the costs. Hosts use it; the scheduler ignores it. Off by
        /// default: measured exits of a machine are those after the guesses of its governor.
        "idle_governor": "how an idle CPU chooses among the idle states of its costs",
            idle_governor: IdleGovernor = IdleGovernor::Exact;
        "nohz_full": "CPUs that stop their tick while one task runs",
            nohz_full: CpuMask = CpuMask::new();
        /// For tasks whose affinity names them.
        "isolcpus": "CPUs without load balancing, for tasks that are confined to them",
            isolcpus: CpuMask = CpuMask::new();
        /// Before, it could, and its isolated CPUs stayed without load balancing.
        "isolcpus_conflict": "a cpuset with isolated CPUs cannot be a partition",
            isolcpus_conflict: bool = false, "6.7" by "4a74e418881f" => true;
        "sched_rr_timeslice_ms": "time slice of SCHED_RR",
            rr_timeslice: Duration(MS, MS.length..=Duration::from_secs(1_000)) = Duration::from_millis(100);
        "tunable_scaling": "how fair granularities grow with the CPUs",
            tunable_scaling: TunableScaling = TunableScaling::Logarithmic;
        "base_slice_ns": "EEVDF: slice before scaling by CPUs",
            base_slice: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_micros(750),
                "6.15" by "2ae891b82695" => Duration::from_micros(700);
        /// 2.6.32 and 2.6.35 are the releases of the commits; 2.6.35 was read.
        "sched_latency_ns": "CFS: period in which every task runs once, before scaling",
            latency: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_millis(20),
                "2.6.32" by "172e082a9111" => Duration::from_millis(5),
                "2.6.35" => Duration::from_millis(6);
        /// 2.6.35 was read; 2.6.37 is not verified: the value is that of 3.2, and came after
        /// 2.6.35.
        "sched_min_granularity_ns": "CFS: shortest slice, before scaling",
            min_granularity: Duration(NS, GRANULARITY_MIN..=GRANULARITY_MAX) =
                Duration::from_micros(4_000),
                "2.6.32" by "172e082a9111" => Duration::from_micros(1_000),
                "2.6.35" => Duration::from_micros(2_000),
                "2.6.37" => Duration::from_micros(750);
        "sched_wakeup_granularity_ns": "CFS: how far behind a woken task must be to preempt, before scaling",
            wakeup_granularity: Duration(NS, Duration::ZERO..=GRANULARITY_MAX) =
                Duration::from_micros(10_000),
                "2.6.32" by "172e082a9111" => Duration::from_micros(1_000);
        "features.RUN_TO_PARITY": "EEVDF: current runs until its lag is zero or its slice ends",
            run_to_parity: bool = false, "6.6" by "63304558ba5d" => true;
        "slice_protection": "EEVDF: how long RUN_TO_PARITY protects a picked task",
            slice_protection: SliceProtection =
                SliceProtection::Request,
                "6.17" by "052c3d87c82e" => SliceProtection::MinSlice,
                "7.3" => SliceProtection::ZeroLag;
        "group_min_slice": "EEVDF: a group uses the shortest slice of its tasks",
            group_min_slice: bool = false, "6.12" by "aef6987d8954" => true;
        "yield_forfeits": "EEVDF: a task that yields forfeits the rest of its request (6.18)",
            yield_forfeits: bool = false, "6.18" by "79104becf42b" => true;
        "features.PLACE_LAG": "EEVDF: tasks keep their lag over sleep",
            place_lag: bool = false, "6.6" by "86bfbb7ce4f6" => true;
        "features.PLACE_REL_DEADLINE": "EEVDF: a task that migrates while runnable continues its request",
            place_rel_deadline: bool = false, "6.12" by "82e9d0456e06" => true;
        /// `reweight_entity`. 6.12.117 is without.
        "request_scaled": "EEVDF: the request of a waiting task follows a change of its weight (6.13)",
            request_scaled: bool = false, "6.13" by "6d71a9c61604" => true;
        "features.PREEMPT_SHORT": "EEVDF: a woken task with a shorter slice ends the protection of the current one",
            preempt_short: bool = false, "6.12" by "85e511df3cec" => true;
        /// `wakeup_preempt_fair`, `set_short_buddy`.
        "short_wakeup_first":
            "EEVDF: an eligible woken task with a shorter slice preempts whatever the deadlines, and runs next (7.3)",
            short_wakeup_first: bool = false, "7.3" => true;
        /// `pick_next_entity` (6.14 to 6.18), `pick_eevdf`. From 6.6 to 6.13 `NEXT_BUDDY`, which is
        /// off, switched this off, too.
        "features.PICK_BUDDY":
            "EEVDF: a group in which a task went to sleep, or a task with a short slice that woke (7.3), is picked next (6.14)",
            pick_buddy: bool = false, "6.14" by "2a77e4be12cb" => true;
        /// The rule has moved from the pick to what picks and wakeups share.
        "wakeup_after_buddy": "EEVDF: a woken task does not preempt if PICK_BUDDY prefers another entity (6.19)",
            wakeup_after_buddy: bool = false, "6.19" by "e837456fdca8" => true;
        /// `wakeup_preempt_fair`: the labels `update` and `preempt`.
        "wakeup_ends_protection":
            "EEVDF: a wakeup that preempts ends the current task's protection, any other shortens it (7.3)",
            wakeup_ends_protection: bool = false, "7.3" => true;
        /// 6.12.117 is without.
        "lag_limit": "EEVDF: how much lag a task keeps when it leaves its queue",
            lag_limit: LagLimit = LagLimit::OwnSlice, "7.0" by "6e3c0a4e1ad1" => LagLimit::LongestSlice;
        /// With the commit that c5cd6fd75b6a completes.
        "delayed_debt_shrinks":
            "EEVDF: a task with a delayed dequeue never owes more than when it blocked (7.1)",
            delayed_debt_shrinks: bool = false, "7.1" by "c5cd6fd75b6a" => true;
        "features.DELAY_DEQUEUE": "EEVDF: a blocked task stays queued until its lag is repaid",
            delay_dequeue: bool = false, "6.12" by "152e11f6df29" => true;
        /// With commit 9f6d929ee2c6. 6.12.117 is without.
        "wakeup_past_delayed":
            "EEVDF: a wakeup ends the delayed dequeues that it finds before the woken task (7.1)",
            wakeup_past_delayed: bool = false, "7.1" by "ac8e69e69363" => true;
        "features.SIS_UTIL": "the busier a cache is, the fewer of its CPUs are searched for an idle one",
            sis_util: bool = false, "6.0" by "70fb5ccf2ebb" => true;
        "features.SIS_PROP":
            "limits the search for an idle CPU in proportion to the waking CPU's average idle time (4.13 to 5.19)",
            sis_prop: bool =
                false,
                "4.13" by "1ad3aaf3fcd2" => true,
                "6.0" by "70fb5ccf2ebb" => false;
        /// The rules of 6.2 are also commits b48e16a69792, a2e7f03ed28f and 244226035a1f. The
        /// kernels of RHEL are built without clamps.
        "uclamp": "what utilisation clamps do where CPUs differ in capacity (5.3, 6.2)",
            uclamp: Uclamp =
                Uclamp::Off,
                "5.3" => Uclamp::Util,
                "6.2" by "48d5e9daa8b7" => Uclamp::Hint;
        "wake_wide": "a wakee is not pulled towards a waker with many wakees (3.12)",
            wake_wide: bool = false, "3.12" by "62470419e993" => true;
        "recent_used_cpu": "the CPU that a fair task remembers, to wake there if it idles (4.16, 5.15, 6.5)",
            recent_used_cpu: RecentUsedCpu =
                RecentUsedCpu::Off,
                "4.16" by "32e839dda3ba" => RecentUsedCpu::Waker,
                "5.15" by "89aafd67f28c" => RecentUsedCpu::PrevUnchecked,
                "6.5" by "ae2ad293d6be" => RecentUsedCpu::Prev;
        /// Commits dd5feea14a7d (2.6.34), 0b0695f2b34a (5.5). No preset has the rules of before
        /// 5.5.
        "fair_balance": "how balancing of fair tasks compares groups of CPUs (2.6.34, 5.5; presets: the rules of 5.5)",
            fair_balance: FairBalance = FairBalance::Kinds;
        /// Cores whose threads share them, idle cores first; a busy CPU does not balance groups
        /// that all have spare capacity. Commits fee1759e4f04, b1bfeab9b002, 7ff1693236f5.
        "smt_balance": "idle CPUs pull from cores that several tasks share; busy CPUs do not (6.6)",
            smt_balance: bool = false, "6.6" by "fee1759e4f04" => true;
        /// On machines with SMT and CPUs of different capacity. Commits 25a32e400a14, bf6aa722198d.
        "asym_idle_core":
            "where CPUs differ in capacity: a waking task prefers an idle core, a misfit moves only to one (7.2)",
            asym_idle_core: bool = false, "7.2" by "25a32e400a14" => true;
        /// The number of CPUs that are searched is that of the domain that spans all capacities.
        /// Commits fdfe5a8cd873, 61ea17a63719.
        "asym_sis_util": "where CPUs differ in capacity: SIS_UTIL limits the search of a waking task (7.2)",
            asym_sis_util: bool = false, "7.2" by "fdfe5a8cd873" => true;
        /// Off since 4.20 (commit 9c63e84db29b).
        "asym_prefer_sibling": "where CPUs differ in capacity: idle CPUs even out groups of CPUs, as elsewhere (7.3)",
            asym_prefer_sibling: bool = false, "7.3" by "f2c2ba7219e5" => true;
        "nohz_idle_core": "the idle CPU that a busy one asks to balance is on an idle core, if there is one (7.3)",
            nohz_idle_core: bool = false, "7.3" by "293f9611ae73" => true;
        "sched_idle_balance": "a CPU that runs only SCHED_IDLE tasks balances as often as an idle one (5.6)",
            sched_idle_balance: bool = false, "5.6" by "323af6deaf70" => true;
        /// `can_migrate_task`, `task_is_ineligible_on_dst_cpu`. 6.12.117 is without.
        "balance_eligible":
            "EEVDF: balancing leaves tasks that are not eligible where they are, unless the last round failed (6.14)",
            balance_eligible: bool = false, "6.14" by "873199d27bb2" => true;
        "newidle_min_idle":
            "no new-idle balancing on a CPU whose average idle time is below migration_cost_ns (until 5.15)",
            newidle_min_idle: bool =
                false,
                "2.6.32" by "1b9508f6831e" => true,
                "5.16" by "c5b0a7eefc70" => false;
        /// The stable kernels of 6.1 had it for some months of 2025, too; which ones was not read.
        "newidle_cost_bump":
            "a failed new-idle search raises the recorded search cost to 1.5 times its maximum (6.17, 6.18)",
            newidle_cost_bump: bool =
                false,
                "6.17" by "155213a2aed4" => true,
                "6.19" by "d206fbad9328" => false;
        /// Presets 6.1, 6.6, 6.12 and 6.18 are without this backport.
        "features.NI_RANDOM":
            "new-idle balancing searches a domain as often as searches there succeed, by draws",
            ni_random: bool = false, "6.19" by "33cf66d88306" => true;
        /// 6.12.117 is without.
        "features.NI_RATE": "NI_RANDOM: the less often a CPU becomes idle, the more often it searches (7.2)",
            ni_rate: bool = false, "7.2" => true;
        /// `check_preempt_wakeup`; off in all releases since 2.6.32, and of EEVDF not built.
        "features.NEXT_BUDDY": "CFS: any woken task is picked next unless that is unfair, if the CPU is crowded",
            next_buddy: bool = false;
        /// `check_preempt_wakeup` (2.6.28 to 6.5); presets of older kernels have it too.
        "features.LAST_BUDDY": "CFS: a task that a woken one preempts goes on after it unless that is unfair, if the CPU is crowded",
            last_buddy: bool = true;
        "features.WAKEUP_PREEMPTION": "a woken fair task may preempt the current one",
            wakeup_preemption: bool = true;
        /// Commits df0d98475954 and others; 067a31358143 is the switch. It has an effect on
        /// machines with several caches, each of several CPUs, and on processes of several threads.
        "llc_balancing": "fair tasks are moved to the cache where their process ran most (7.2)",
            llc_balancing: bool = false, "7.2" by "067a31358143" => true;
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
            fair_hierarchy: FairHierarchy = FairHierarchy::Nested, "7.3" => FairHierarchy::Flat;
        /// debugfs `sched/cgroup_mode`; `calc_group_shares` before.
        "cgroup_mode": "the weight of a group on the CPUs that its tasks are on",
            cgroup_mode: CgroupMode = CgroupMode::Smp, "7.3" => CgroupMode::Concur;
        "throttle": "which tasks stop where a limited group has no quota left",
            throttle: Throttle = Throttle::Immediate, "6.18" by "e1fad12dcb66" => Throttle::AtUserReturn;
        "load_tracking": "the measure of load for placing and balancing fair tasks",
            load_tracking: LoadTracking = LoadTracking::Weights, "3.11" by "b92486cbf2aa" => LoadTracking::Pelt;
        "bandwidth": "where the quota of a limited group is kept",
            bandwidth: BandwidthControl = BandwidthControl::Pool;
        /// Linux v2.6.33 `kernel/sched_rt.c`, `do_balance_runtime`, has `always`. The others are in
        /// no kernel.
        "hard_limits.borrow": "how often a CPU may borrow quota, with bandwidth = hard_limits",
            hard_limits_borrow: Borrowing = Borrowing::Always;
        /// With `throttle = immediate` or `at_user_return`. Since 7.2 the charge calls
        /// `throttle_cfs_rq`, not the switch that it asked for.
        "throttle_at": "when a group's queue without quota is throttled",
            throttle_at: ThrottleAt = ThrottleAt::Switch, "7.2" => ThrottleAt::Charge;
        /// Linux v2.6.33 `kernel/sched.c`, `tg_shares_up`; 2.6.38 (commit 2069dd75c7d0) ended it.
        "cgroup_shares": "when a CPU's part of a group's weight is computed, with load_tracking = weights",
            cgroup_shares: CgroupShares = CgroupShares::Continuous;
        /// Since 3.2. Without it, a CPU whose tasks are all throttled does no new-idle balancing.
        "hierarchical_running":
            "throttled tasks do not count as running, and none is migrated to a CPU where its group is throttled",
            hierarchical_running: bool = false, "3.2" by "953bfcd10e6f" => true;
        "sched_cfs_bandwidth_slice_us": "quota that a CPU takes out of a limited group's pool at a time",
            bandwidth_slice: Duration(US, US.length..=Duration::from_secs(1_000)) = Duration::from_millis(5);
        /// Turner & Rao 2010, "some sort of limited step-function"; in no kernel.
        "cfs_bandwidth_slice_steps":
            "a CPU's first two requests are a quarter and half of a slice, none is more than a quarter of the pool",
            bandwidth_slice_steps: bool = false;
        /// Since 6.17, off unless built in.
        "proxy_exec": "a task that waits for a lock in the kernel lends its turn to the holder",
            proxy_exec: bool = false;
        /// The scheduler ignores it: hosts use it. RHEL 8.8 and 9.3 have the
        /// function, but it gives up when the waiter is the first, not when it is not: no waiter
        /// spins there.
        "rt_mutex_spin": "the first waiter for a priority-inheriting mutex spins while its holder runs (5.15)",
            rt_mutex_spin: bool = false, "5.15" by "992caf7f1724" => true;
        /// The host draws the offset. Without it, the periods of all groups begin at the same time.
        "cfs_bandwidth_interleave": "each limited group's periods begin at a random offset",
            bandwidth_interleave: bool = false, "6.4" by "41abdba93747" => true;
        /// The CPU can then be throttled while a group above it is unthrottled. Not among the
        /// faults: it did harm only with throttling task by task, which no release before the fix
        /// has (6.18-rc1 to rc4).
        "cfs_bandwidth_zero_start": "a new limit gives a CPU a runtime of 0 instead of 1 ns (until 6.17)",
            bandwidth_zero_start: bool = true, "6.18" by "956dfda6a708" => false;
        /// With bandwidth control, since 3.2.
        "cfs_bandwidth_expiry": "a CPU's unused quota expires at the end of the period",
            bandwidth_expiry: bool = true, "5.4" by "de53fd7aedb1" => false;
        "cfs_bandwidth_slack": "a CPU without tasks of a limited group to run returns its quota, all but 1 ms",
            bandwidth_slack: bool = false, "3.2" => true;
        "migration_cost_ns": "a task that ran more recently than this is cache hot",
            migration_cost: Duration(NS, Duration::ZERO..=GRANULARITY_MAX) = Duration::from_micros(500);
        "nr_migrate": "most tasks that one round of balancing examines",
            nr_migrate: u32(1..=1024) = 32;
        "rt_throttling": "real-time tasks get at most a share of each period",
            rt_throttling: bool =
                false,
                "2.6.25" by "fa85ae2418e6" => true,
                "6.12" by "5f6bd380c7bd" => false;
        "sched_rt_runtime_us": "time that real-time tasks of a CPU may run per period, with rt_throttling",
            rt_runtime: Duration(US, Duration::ZERO..=RT_UNLIMITED) =
                Duration::from_millis(950),
                "7.2" => Duration::from_secs(1);
        "sched_rt_period_us": "period of rt_throttling",
            rt_period: Duration(US, US.length..=RT_MAX) = Duration::from_secs(1);
        /// A CPU whose real-time tasks need more borrows.
        "features.RT_RUNTIME_SHARE": "a CPU borrows real-time runtime from the others of its root domain",
            rt_runtime_share: bool = true, "5.10" by "2586af1ac187" => false;
        /// `CONFIG_RT_GROUP_SCHED` (2.6.25), with the controller `cpu` of cgroup v1; since 6.15 a
        /// boot option too. Off unless built in. `hcbs` is in no kernel: the patches replace `on`.
        "rt_group_sched": "what limits real-time tasks of groups: on: a runtime per period and CPU, 0 at first \
            (cgroup v1, cpu.rt_runtime_us); hcbs: deadline servers (cpu.rt.max, patches of 2026)",
            rt_group_sched: RtGroupSched = RtGroupSched::Off;
        "fair_server": "deadline server of each CPU's fair tasks",
            fair_server: FairServer = FairServer::Off, "6.12" by "5f6bd380c7bd" => FairServer::Deferred;
        "fair_server.start": "which tasks must be queued for the fair server to start",
            fair_server_start: ServerStart = ServerStart::Fair;
        "fair_server.runtime": "runtime of the fair server per period",
            fair_server_runtime: Duration(NS, Duration::ZERO..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.runtime;
        "fair_server.period": "period of the fair server",
            fair_server_period: Duration(NS, ServerParams::PERIOD_MIN..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.period;
        /// A server is charged for work, not for run time, so it runs longer on slower CPUs.
        /// Frequencies are not modelled, capacities are.
        "fair_server.scaled": "the fair server's runtime is scaled by the capacity of its CPU (6.12 to 6.15)",
            fair_server_scaled: bool =
                false,
                "6.12" => true,
                "6.16" by "fc975cfb3639" => false;
        /// Before 6.12, without a server, as since 6.17.
        "fair_server.stop": "when a server without fair tasks stops",
            fair_server_stop: ServerStop =
                ServerStop::Picked,
                "6.12" => ServerStop::Empty,
                "6.17" by "cccb45d7c429" => ServerStop::Picked,
                "6.19" by "e636ffb9e31b" => ServerStop::Idle;
        /// Before 6.12, without a server, as since 7.2.
        "fair_server.wakeup": "what a deferred server does if it is started with a job that it may not continue",
            fair_server_wakeup: ServerWakeup =
                ServerWakeup::Revised,
                "6.12" => ServerWakeup::Stuck,
                "6.19" by "115135422562" => ServerWakeup::NewPeriod,
                "7.0" by "14a857056466" => ServerWakeup::RevisedAlways,
                "7.2" by "1842bf97af10" => ServerWakeup::Revised;
        /// `pick_next_task_dl` of patch 4 of the series asks `hrtick_enabled` instead of the
        /// feature `HRTICK_DL`, for the remaining runtime of the served *fair* task, which is zero.
        /// Releases that ask so (6.8 to 6.11) have no fair server.
        "fair_server.hrtick":
            "the high-resolution tick fires 10 us after each pick by a server (patches of 2023)",
            fair_server_hrtick: bool = false;
        "fair_server.cpus": "CPUs with a different fair server",
            fair_server_cpus: CpuServers = CpuServers::default();
        /// In kernels since 6.12 (commit f0e1a0643a59).
        "sched_ext": "which tasks a loaded scheduler has (6.12)",
            sched_ext: SchedExt = SchedExt::Off;
        "sched_ext.policy": "the loaded scheduler",
            sched_ext_policy: SchedExtPolicy = SchedExtPolicy::Fifo;
        "sched_ext.slice": "time slice of the loaded scheduler",
            sched_ext_slice: Duration(NS, Duration::from_micros(1)..=Duration::from_secs(1)) =
                Duration::from_millis(20);
        /// It is as the fair server, and obeys the settings that say when
        /// that one starts, stops and continues.
        "ext_server": "deadline server of each CPU's tasks of a loaded scheduler",
            ext_server: FairServer = FairServer::Off, "7.0" by "cd959a356205" => FairServer::Deferred;
        "ext_server.runtime": "runtime of that server per period",
            ext_server_runtime: Duration(NS, Duration::ZERO..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.runtime;
        "ext_server.period": "period of that server",
            ext_server_period: Duration(NS, ServerParams::PERIOD_MIN..=ServerParams::PERIOD_MAX) =
                ServerParams::DEFAULT.period;
        "ext_server.booked": "which deadline servers have bandwidth",
            ext_server_booked: ServerBooking =
                ServerBooking::Both,
                "7.2" by "e7b63427fdb4" => ServerBooking::Needed;
        /// The scheduler ignores it: hosts and monitors use it.
        "watchdog_thresh": "how long a CPU may be in IPI and lock work without serving a timer",
            watchdog_thresh: Duration(SECONDS_OR_NEVER, Duration::ZERO..=Duration::from_secs(60)) =
                Duration::from_secs(10);
    }
    faults {
        "fault.cfs_bandwidth_hotplug_bypass":
            "a CPU that goes offline or online unthrottles the groups on all other CPUs (until 6.13)"
            (recorded as "cfs_bandwidth_hotplug_bypass" after "cfs_bandwidth_zero_start"),
            bandwidth_hotplug_bypass: bool = true, "6.14" by "af98d8a36a96" => false;
        "fault.cfs_bandwidth_offline_loss":
            "tasks that are throttled on a CPU that goes offline stay there (until 3.16)"
            (recorded as "cfs_bandwidth_offline_loss" after "cfs_bandwidth_zero_start"),
            bandwidth_offline_loss: bool = true, "3.17" by "0e59bdaea75f" => false;
        /// `sched_rt_runtime_us` set for the first time. 4.9.337 is without the fix.
        "fault.rt_period_timer_lost":
            "a real-time busy loop that runs when a limit is set is throttled forever (until 5.16)"
            (recorded as "rt_period_timer_lost" after "features.RT_RUNTIME_SHARE"),
            rt_period_timer_lost: bool =
                false,
                "2.6.25" => true,
                "5.17" by "9b58e976b3b3" => false;
        /// The reschedule request is lost, and the fair task runs no longer under the server.
        "fault.fair_server_resched_lost":
            "if a switch finds the fair server exhausted, the fair task keeps the CPU although others wait (since 6.12)"
            (recorded as "fair_server.resched_lost" after "fair_server.wakeup"),
            fair_server_resched_lost: bool = false, "6.12" by "fd03c5b85855" => true;
        /// The timer of a throttled task is set to its deadline, also if its period ends later.
        "fault.dl_replenish_early":
            "a throttled constrained deadline task is replenished at its deadline, before its period ends (3.14 to 4.10)",
            dl_replenish_early: bool =
                false,
                "3.14" by "aab03e05e8f7" => true,
                "4.11" by "5ac69d37784b" => false;
        "fault.dl_late_wakeup":
            "a constrained deadline task that wakes after its deadline begins a job before its period ends (3.14 to 4.10)",
            dl_late_wakeup: bool =
                false,
                "3.14" by "aab03e05e8f7" => true,
                "4.11" by "df8eac8cafce" => false;
        "fault.dl_wakeup_refill":
            "a constrained deadline task that wakes with too much budget begins a job instead of losing budget (3.14 to 4.12)",
            dl_wakeup_refill: bool =
                false,
                "3.14" by "aab03e05e8f7" => true,
                "4.13" by "3effcb4247e7" => false;
        "fault.dl_reclaim_short":
            "a reclaiming deadline task is charged as if all CPU time were to be reserved, and leaves 5 % unused (4.13 to 6.4)",
            dl_reclaim_short: bool =
                false,
                "4.13" => true,
                "6.5" by "6a9d623aad89" => false;
        "fault.nohz_full_limited":
            "a nohz_full CPU stops its tick although the group of its only task has a limit (3.10 to 6.5)",
            nohz_full_limited: bool =
                false,
                "3.10" => true,
                "6.6" by "88c56cfeaec4" => false;
        "fault.nohz_full_grouped":
            "a nohz_full CPU stops its tick although several tasks share it, if they are in one group (6.12)",
            nohz_full_grouped: bool =
                false,
                "6.12" by "11cc374f4643" => true,
                "6.13" by "c1f43c342e1f" => false;
        /// `sched_move_task` asks for a switch only if the task was running.
        "fault.group_move_unnoticed":
            "a fair task that waits and is moved to another group stays unnoticed until something else makes its CPU switch (until 6.19)",
            group_move_unnoticed: bool = true, "7.0" by "e34881c84c25" => false;
        "fault.buddy_before_short":
            "a woken task with a shorter slice is compared with the next buddy, and waits for it (6.14 to 7.0)",
            buddy_before_short: bool =
                false,
                "6.14" by "2a77e4be12cb" => true,
                "7.1" by "78cde54ea5f0" => false;
        "fault.uclamp_min_limit":
            "cpu.uclamp.min is the most that a task of the group can ask for, not the least that it gets (5.4 to 5.13)",
            uclamp_min_limit: bool =
                false,
                "5.4" by "3eac870a3247" => true,
                "5.14" by "0c18f2ecfcc2" => false;
        /// RHEL 9.3 is without the fix.
        "fault.cfs_burst_cut":
            "writing cpu.max divides the group's cpu.max.burst by 1000 (5.14 to 6.9)",
            burst_cut: bool =
                false,
                "5.14" by "f4183717b370" => true,
                "6.10" by "49217ea147df" => false;
        /// An idle CPU without a tick is asked to balance by
        /// a busy one, whatever its own interval is.
        "fault.idle_busy_interval":
            "an idle CPU that ticks waits for the end of a busy CPU's balancing interval (until 3.15)",
            idle_busy_interval: bool = true, "3.16" by "52a08ef1f13a" => false;
        "fault.asym_strong_hides":
            "a group of stronger CPUs without a waiting task hides a group with one (4.20 to 7.2)",
            asym_strong_hides: bool =
                false,
                "4.20" by "4ad3831a9d4a" => true,
                "7.3" by "50b101f6e586" => false;
        "fault.asym_misfit_hides":
            "tasks that wait under the cache of a misfit stay there, if the idle CPU cannot take the misfit (4.20 to 7.2)",
            asym_misfit_hides: bool =
                false,
                "4.20" by "cad68e552e77" => true,
                "7.3" by "0fbd428d0788" => false;
        "fault.asym_thread_stays":
            "where CPUs differ in capacity, tasks that share a core stay there beside an idle core (4.20 to 7.2)",
            asym_thread_stays: bool =
                false,
                "4.20" by "4ad3831a9d4a" => true,
                "7.3" by "180ff97c1869" => false;
    }
}
