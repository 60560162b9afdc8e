//! [`Fault`]: the scheduler bugs that were fixed upstream and that presets reproduce.
//!
//! A bug is a setting with a value that is wrong. Most have a setting of their own (`fault.*`);
//! some are one value of a setting that has had several, each with a bug of its own
//! (`fair_server.wakeup`), and some a rule that later kernels replaced because it did harm. Which
//! kernels have a bug follows from their presets, so it is not stated here once more; the versions
//! below are those of the commits, and can lie between two presets or in a stable kernel.

use super::{KernelVersion, Preempt, Settings};
use alloc::string::ToString as _;
use alloc::vec::Vec;

/// A bug of kernels, its commits, and the setting that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The setting.
    pub setting: &'static str,
    /// Its value in kernels with the bug.
    pub wrong: &'static str,
    /// What goes wrong.
    pub effect: &'static str,
    /// The release, and its commit if one began it.
    pub since: Release,
    /// The release with the fix, and its commit; `None` if it is not fixed.
    pub fixed: Option<Release>,
    /// The spec that shows the timelines with and without it.
    pub spec: &'static str,
}

/// A release and a commit in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// The release, as `6.14`.
    pub version: &'static str,
    /// The first twelve digits of the commit, if one is known.
    pub commit: Option<&'static str>,
}

/// A release whose commit is known.
const fn by(version: &'static str, commit: &'static str) -> Release {
    Release { version, commit: Some(commit) }
}

/// A release as a whole: the bug came with its mechanism.
const fn with(version: &'static str) -> Release {
    Release { version, commit: None }
}

impl Settings {
    /// The known bugs, by the area of the scheduler.
    pub const FAULTS: &'static [Fault] = &[
        Fault {
            setting: "fault.rt_period_timer_lost",
            wrong: "on",
            effect: "a real-time busy loop that runs when a limit is first set is throttled forever",
            since: with("2.6.25"),
            fixed: Some(by("5.17", "9b58e976b3b3")),
            spec: "rt-throttling/timer-lost.md",
        },
        Fault {
            setting: "features.RT_RUNTIME_SHARE",
            wrong: "on",
            effect: "a real-time loop borrows the runtime of other CPUs and starves the fair tasks of its own",
            since: with("2.6.25"),
            fixed: Some(by("5.10", "2586af1ac187")),
            spec: "rt-throttling/share.md",
        },
        Fault {
            setting: "rt_balance",
            wrong: "ipi_per_cpu",
            effect: "every CPU that lowers its priority sends a chain of IPIs of its own; they pile up on one CPU",
            since: by("4.1", "b6366f048e0c"),
            fixed: Some(by("4.15", "4bdced5c9a29")),
            spec: "ipi/chain-start.md",
        },
        Fault {
            setting: "rt_balance",
            wrong: "ipi_root_domain",
            effect: "a waiting real-time task is not pulled from a CPU that has disabled interrupts: the IPI waits",
            since: by("4.15", "4bdced5c9a29"),
            fixed: Some(by("7.2", "dd29c017aed6")),
            spec: "rt/pull-behind-irqs-off.md",
        },
        Fault {
            setting: "rt_overload",
            wrong: "queued",
            effect: "a CPU whose waiting tasks are all pinned counts as overloaded, and is sent IPIs for nothing",
            since: with("2.6.25"),
            fixed: Some(by("6.7", "612f769edd06")),
            spec: "ipi/overload-pushable.md",
        },
        Fault {
            setting: "rt_ipi_skip_self",
            wrong: "off",
            effect: "the root domain's IPI is sent by a CPU to itself",
            since: by("4.15", "4bdced5c9a29"),
            fixed: Some(by("7.0", "94894c9c477e")),
            spec: "ipi/root-skip-self.md",
        },
        Fault {
            setting: "fault.fair_server_resched_lost",
            wrong: "on",
            effect: "if a switch finds the fair server exhausted, the fair task keeps the CPU although others wait",
            since: by("6.12", "fd03c5b85855"),
            fixed: None,
            spec: "server/resched-lost.md",
        },
        Fault {
            setting: "fair_server.scaled",
            wrong: "on",
            effect: "the fair server runs longer on a slow CPU than its runtime says",
            since: with("6.12"),
            fixed: Some(by("6.16", "fc975cfb3639")),
            spec: "server/scaled-by-capacity.md",
        },
        Fault {
            setting: "fair_server.stop",
            wrong: "empty",
            effect: "fair tasks that sleep often start and stop the server's timer each time",
            since: with("6.12"),
            fixed: Some(by("6.17", "cccb45d7c429")),
            spec: "server/stop.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "stuck",
            effect: "a server that is started late begins a new period and runs at once, before real-time tasks",
            since: with("6.12"),
            fixed: Some(by("6.12.69", "115135422562")),
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "new_period",
            effect: "a server that is started before its deadline is deferred by a whole period",
            since: by("6.12.69", "115135422562"),
            fixed: Some(by("6.12.83", "14a857056466")),
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "revised_always",
            effect: "a server that is started before its deadline runs although its tasks have not starved",
            since: by("6.12.83", "14a857056466"),
            fixed: Some(by("6.12.103", "1842bf97af10")),
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fault.cfs_bandwidth_offline_loss",
            wrong: "on",
            effect: "tasks that are throttled on a CPU that goes offline stay there",
            since: with("3.2"),
            fixed: Some(by("3.17", "0e59bdaea75f")),
            spec: "bandwidth/offline-loss.md",
        },
        Fault {
            setting: "fault.cfs_bandwidth_hotplug_bypass",
            wrong: "on",
            effect: "a CPU that goes offline or online unthrottles the groups on all other CPUs",
            since: with("3.2"),
            fixed: Some(by("6.14", "af98d8a36a96")),
            spec: "bandwidth/hotplug-bypass.md",
        },
        Fault {
            setting: "cfs_bandwidth_expiry",
            wrong: "on",
            effect: "a group with threads on many CPUs is throttled although it uses less than its quota",
            since: with("3.2"),
            fixed: Some(by("5.4", "de53fd7aedb1")),
            spec: "bandwidth/expiry.md",
        },
        Fault {
            setting: "cfs_bandwidth_interleave",
            wrong: "off",
            effect: "the period timers of all limited groups fire at the same instant",
            since: with("3.2"),
            fixed: Some(by("6.4", "41abdba93747")),
            spec: "bandwidth/interleave.md",
        },
        Fault {
            setting: "cfs_bandwidth_zero_start",
            wrong: "on",
            effect: "a new limit gives a CPU no runtime, so that it can be throttled while a group above is unthrottled",
            since: with("3.2"),
            fixed: Some(by("6.18", "956dfda6a708")),
            spec: "bandwidth/zero-start.md",
        },
        Fault {
            setting: "throttle",
            wrong: "immediate",
            effect: "a task is throttled while it holds a lock of the kernel, and others wait for its group's next quota",
            since: with("3.2"),
            fixed: Some(by("6.18", "e1fad12dcb66")),
            spec: "bandwidth/page-lock.md",
        },
        Fault {
            setting: "recent_used_cpu",
            wrong: "waker",
            effect: "a task remembers where it last woke another, and does not return to the CPU where it ran, which idles",
            since: by("4.16", "32e839dda3ba"),
            fixed: Some(by("5.15", "89aafd67f28c")),
            spec: "fair/recent-used-cpu.md",
        },
        Fault {
            setting: "recent_used_cpu",
            wrong: "prev_unchecked",
            effect: "an idle CPU that a task remembers is passed over: the affinity of another CPU is checked",
            since: by("5.15", "89aafd67f28c"),
            fixed: Some(by("6.5", "ae2ad293d6be")),
            spec: "fair/recent-used-cpu.md",
        },
        Fault {
            setting: "newidle_cost_bump",
            wrong: "on",
            effect: "a failed new-idle search raises its recorded cost, so that an idle CPU stops looking for work",
            since: by("6.17", "155213a2aed4"),
            fixed: Some(by("6.19", "d206fbad9328")),
            spec: "fair/new-idle-cost.md",
        },
        Fault {
            setting: "yield_forfeits",
            wrong: "off",
            effect: "a task that yields alone is picked again and again; its deadline runs away, and it starves later",
            since: with("6.6"),
            fixed: Some(by("6.18", "79104becf42b")),
            spec: "fair/yield.md",
        },
        Fault {
            setting: "isolcpus_conflict",
            wrong: "off",
            effect: "a cpuset with isolated CPUs can be a partition, whose CPUs are not balanced",
            since: with("5.0"),
            fixed: Some(by("6.7", "4a74e418881f")),
            spec: "machine/isolcpus-partition.md",
        },
        Fault {
            setting: "fault.dl_replenish_early",
            wrong: "on",
            effect: "a throttled deadline task whose deadline is before the end of its period gets its next budget early",
            since: with("3.14"),
            fixed: Some(by("4.11", "5ac69d37784b")),
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_late_wakeup",
            wrong: "on",
            effect: "a deadline task that wakes between its deadline and the end of its period gets a new budget at once",
            since: with("3.14"),
            fixed: Some(by("4.11", "df8eac8cafce")),
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_wakeup_refill",
            wrong: "on",
            effect: "a constrained deadline task that suspends itself gets a whole budget at each wakeup",
            since: with("3.14"),
            fixed: Some(by("4.13", "3effcb4247e7")),
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_reclaim_short",
            wrong: "on",
            effect: "a reclaiming deadline task leaves a part of the reservable 95 % unused",
            since: with("4.13"),
            fixed: Some(by("6.5", "6a9d623aad89")),
            spec: "dl/reclaim-fault.md",
        },
        Fault {
            setting: "fault.nohz_full_limited",
            wrong: "on",
            effect: "a limited task that is alone on a nohz_full CPU is not throttled until something interrupts it",
            since: with("3.10"),
            fixed: Some(by("6.6", "88c56cfeaec4")),
            spec: "machine/nohz-full-faults.md",
        },
        Fault {
            setting: "fault.nohz_full_grouped",
            wrong: "on",
            effect: "two tasks of one group share a nohz_full CPU without a tick: the second waits for the first to block",
            since: by("6.12", "11cc374f4643"),
            fixed: Some(by("6.13", "c1f43c342e1f")),
            spec: "machine/nohz-full-faults.md",
        },
        Fault {
            setting: "fault.cfs_burst_cut",
            wrong: "on",
            effect: "a group whose limit is changed loses its burst",
            since: by("5.14", "f4183717b370"),
            fixed: Some(by("6.10", "49217ea147df")),
            spec: "bandwidth/burst-cut.md",
        },
        Fault {
            setting: "fault.idle_busy_interval",
            wrong: "on",
            effect: "a task waits for up to 0.1 s beside an idle CPU that ticks",
            since: with("2.6.23"),
            fixed: Some(by("3.16", "52a08ef1f13a")),
            spec: "machine/nohz-off.md",
        },
        Fault {
            setting: "fault.asym_strong_hides",
            wrong: "on",
            effect: "a task waits beside an idle CPU, because another group has stronger CPUs and a task on each",
            since: by("4.20", "4ad3831a9d4a"),
            fixed: Some(by("7.3", "50b101f6e586")),
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "fault.asym_misfit_hides",
            wrong: "on",
            effect: "a task waits beside idle CPUs, because a task next to it needs a stronger CPU than these",
            since: by("4.20", "cad68e552e77"),
            fixed: Some(by("7.3", "0fbd428d0788")),
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "fault.asym_thread_stays",
            wrong: "on",
            effect: "two tasks share a core for ever beside an idle core, where other CPUs are stronger",
            since: by("4.20", "4ad3831a9d4a"),
            fixed: Some(by("7.3", "180ff97c1869")),
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "features.PLACE_REL_DEADLINE",
            wrong: "off",
            effect: "a runnable task that is moved begins a new request, and keeps the CPU for up to a slice too long",
            since: with("6.6"),
            fixed: Some(by("6.12", "82e9d0456e06")),
            spec: "fair/place-rel-deadline.md",
        },
        Fault {
            setting: "base_slice_ns",
            wrong: "750us",
            effect: "where ticks are 1 ms and CPUs 8 or more, a turn takes 4 ms instead of 3",
            since: with("6.6"),
            fixed: Some(by("6.15", "2ae891b82695")),
            spec: "fair/base-slice.md",
        },
        Fault {
            setting: "slice_protection",
            wrong: "request",
            effect: "a task with a long slice keeps the CPU for all of it, whatever the slices of waiting tasks",
            since: with("6.6"),
            fixed: Some(by("6.17", "052c3d87c82e")),
            spec: "fair/min-slice.md",
        },
        Fault {
            setting: "wakeup_past_delayed",
            wrong: "off",
            effect: "a woken task with a short slice does not preempt: a sleeping task that is still queued is compared",
            since: by("6.12", "f12e148892ed"),
            fixed: Some(by("7.1", "ac8e69e69363")),
            spec: "fair/wakeup-past-delayed.md",
        },
        Fault {
            setting: "lag_limit",
            wrong: "own_slice",
            effect: "a task with a short slice forgets what it owes or is owed next to tasks with long ones",
            since: with("6.6"),
            fixed: Some(by("7.0", "6e3c0a4e1ad1")),
            spec: "fair/lag-limit.md",
        },
        Fault {
            setting: "delayed_debt_shrinks",
            wrong: "off",
            effect: "the debt of a sleeping task that is still queued grows as others join and leave",
            since: with("6.12"),
            fixed: Some(by("7.1", "c5cd6fd75b6a")),
            spec: "fair/delayed-debt.md",
        },
        Fault {
            setting: "smt_balance",
            wrong: "off",
            effect: "a task that leaves a full cache moves beside a busy thread although a whole core idles",
            since: with("5.5"),
            fixed: Some(by("6.6", "fee1759e4f04")),
            spec: "fair/smt-balance.md",
        },
        Fault {
            setting: "newidle_min_idle",
            wrong: "on",
            effect: "a CPU that idles often and briefly pulls no waiting task",
            since: with("2.6.32"),
            fixed: Some(by("5.16", "c5b0a7eefc70")),
            spec: "fair/new-idle-cost.md",
        },
        Fault {
            setting: "fault.uclamp_min_limit",
            wrong: "on",
            effect: "a task of a group with cpu.uclamp.min stays on a CPU that is weaker than that",
            since: by("5.4", "3eac870a3247"),
            fixed: Some(by("5.14", "0c18f2ecfcc2")),
            spec: "fair/uclamp.md",
        },
        Fault {
            setting: "features.SIS_PROP",
            wrong: "on",
            effect: "a CPU that seldom idles searches few CPUs for an idle one, also if most of them idle",
            since: by("4.13", "1ad3aaf3fcd2"),
            fixed: Some(by("6.0", "70fb5ccf2ebb")),
            spec: "fair/sis-prop.md",
        },
        Fault {
            setting: "softirq.timer_threads",
            wrong: "off",
            effect: "with preempt = rt, a timer of a fair task waits for other softirqs and for fair tasks",
            since: by("5.4", "1842f5a427f5"),
            fixed: Some(by("6.13", "49a17639508c")),
            spec: "machine/softirq-timers.md",
        },
        Fault {
            setting: "softirq.wait_for_thread",
            wrong: "on",
            effect: "softirqs of a busy network wait for a fair thread behind other tasks, also if their CPU is interrupted anyway",
            since: by("4.9", "4cd13c21b207"),
            fixed: Some(by("6.5", "d15121be7485")),
            spec: "machine/softirq-budget.md",
        },
        Fault {
            setting: "softirq.bh_lock",
            wrong: "on",
            effect: "with preempt = rt, a task that disables softirqs waits for every other one that does on its CPU",
            since: by("5.13", "8b1c04acad08"),
            fixed: Some(by("6.18", "3253cb49cbad")),
            spec: "machine/bh-lock.md",
        },
        Fault {
            setting: "uclamp",
            wrong: "util",
            effect: "a task that is bounded to the capacity of a CPU does not fit there: the margin of migration applies",
            since: with("5.3"),
            fixed: Some(by("6.2", "48d5e9daa8b7")),
            spec: "fair/uclamp.md",
        },
    ];
}

impl Fault {
    /// Returns whether a kernel with these settings has it. A kernel from before the bug has not if
    /// its setting has that value because the mechanism is missing: the value of the first preset.
    /// Any other value is a backport, or was set. A mechanism that is a backport brings all bugs
    /// that its commit began.
    #[must_use]
    pub fn is_in(&self, kernel: KernelVersion, settings: &Settings) -> bool {
        let is_since = number(kernel.name()) >= number(self.since.version);
        let is_backport =
            |fault: &Self| fault.is_wrong(settings) && !fault.is_wrong(&KernelVersion::V2_6_23.settings());
        let of_one_commit = |other: &&Self| self.since.commit.is_some() && other.since.commit == self.since.commit;
        let came_with = || Settings::FAULTS.iter().filter(of_one_commit).any(is_backport);
        self.is_wrong(settings) && (is_since || is_backport(self) || came_with())
    }

    /// Returns whether it can matter under these settings, if it is in the kernel.
    #[must_use]
    pub fn matters_under(&self, settings: &Settings) -> bool {
        let is_of_rt = matches!(self.setting, "softirq.timer_threads" | "softirq.bh_lock");
        !is_of_rt || settings.preempt == Preempt::Rt
    }

    /// Returns whether its setting has the wrong value.
    fn is_wrong(&self, settings: &Settings) -> bool {
        settings.entries().any(|(row, value)| row.name == self.setting && value == self.wrong)
    }

    /// Returns the presets that have it.
    #[must_use]
    pub fn presets(&self) -> Vec<KernelVersion> {
        KernelVersion::ALL.iter().copied().filter(|kernel| self.is_in(*kernel, &kernel.settings())).collect()
    }

    /// Returns its name: that of its setting, with the value unless it is a switch that is on.
    #[must_use]
    pub fn name(&self) -> alloc::string::String {
        match self.wrong {
            "on" => self.setting.to_string(),
            wrong => alloc::format!("{} = {wrong}", self.setting),
        }
    }
}

/// Returns the numbers of a release: two, and before 3.0 the third.
fn number(release: &str) -> [u32; 3] {
    let mut parts = release.split('.').map(|part| part.parse().unwrap_or(0));
    let [first, second, third] = core::array::from_fn(|_| parts.next().unwrap_or(0));
    [first, second, if first < 3 { third } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_a_value_of_a_setting() {
        for fault in Settings::FAULTS {
            let mut settings = KernelVersion::V6_18.settings();
            settings.set(fault.setting, fault.wrong).unwrap_or_else(|error| panic!("{}: {error}", fault.name()));
            assert!(fault.is_in(KernelVersion::V7_2, &settings), "{}", fault.name());
            let first = KernelVersion::V2_6_23;
            let is_of_old = fault.since.version == "2.6.23";
            assert_eq!(fault.is_in(first, &first.settings()), is_of_old, "{}", fault.name());
            let commits = [Some(fault.since), fault.fixed].into_iter().flatten().filter_map(|release| release.commit);
            for commit in commits {
                assert!(commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
            }
        }
    }

    #[test]
    fn each_fault_is_in_the_presets_that_were_reviewed() {
        let reviewed = include_str!("../../tests/data/fault-presets.txt");
        let line = |fault: &Fault| {
            let presets: Vec<&str> = fault.presets().iter().map(|kernel| kernel.name()).collect();
            alloc::format!("{} = {}: {}", fault.setting, fault.wrong, presets.join(" "))
        };
        let lines: Vec<_> = Settings::FAULTS.iter().map(line).collect();
        let known: Vec<&str> = reviewed.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(known, trimmed, "{}", trimmed.join("\n"));
    }

    #[test]
    fn presets_since_the_fix_do_not_have_it() {
        for fault in Settings::FAULTS {
            for kernel in fault.presets() {
                let fixed = fault.fixed.map(|fix| number(fix.version));
                let is_before = fixed.is_none_or(|fixed| number(kernel.name()) < fixed);
                assert!(is_before, "{kernel} has {}", fault.name());
            }
        }
    }

    #[test]
    fn a_backported_bug_is_found_and_a_missing_mechanism_is_none() {
        let presets = |setting: &str, wrong: &str| {
            let fault = Settings::FAULTS.iter().find(|fault| fault.setting == setting && fault.wrong == wrong);
            let presets = fault.expect("a known fault").presets();
            presets.iter().map(|kernel| kernel.name()).collect::<Vec<_>>().join(" ")
        };
        // RHEL 8 and 9 have the rule of 5.15.
        assert!(presets("recent_used_cpu", "prev_unchecked").starts_with("4.18 5.14 5.15"));
        // The stable kernels of 4.4 to 4.14 have the IPI of 4.15, and what is wrong with it.
        assert!(presets("rt_balance", "ipi_root_domain").starts_with("4.4 4.9 4.14 4.15"));
        assert!(presets("rt_ipi_skip_self", "off").starts_with("4.4 4.9 4.14 4.15"));
        // A CFS kernel has no request to forfeit.
        assert!(presets("yield_forfeits", "off").starts_with("6.6 "));
    }
}
