//! [`Fault`]: the scheduler bugs that were fixed upstream and that presets reproduce.
//!
//! A bug is a setting with a value that is wrong. Most have a setting of their own (`fault.*`);
//! some are one value of a setting that has had several, each with a bug of its own
//! (`fair_server.wakeup`), and some a rule that later kernels replaced because it did harm. Which
//! kernels have a bug, since when, and which commit fixed it follow from the row of the setting
//! (`table.rs`) and the backports (`backports.rs`), so they are not stated here once more. Only
//! where the wrong value is the row's first does a fault name a release: that of its mechanism.

use super::{Change, KernelVersion, Preempt, Setting, Settings};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// A bug of kernels, and the setting that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The setting.
    pub setting: &'static str,
    /// Its value in kernels with the bug.
    pub wrong: &'static str,
    /// What goes wrong.
    pub effect: &'static str,
    /// The change that brought the mechanism with the bug, if the setting's row has no such change:
    /// the wrong value is its first.
    mechanism: Option<Change>,
    /// The spec that shows the timelines with and without it.
    pub spec: &'static str,
}

impl Settings {
    /// The known bugs, by the area of the scheduler.
    pub const FAULTS: &'static [Fault] = &[
        Fault {
            setting: "fault.rt_period_timer_lost",
            wrong: "on",
            effect: "a real-time busy loop that runs when a limit is first set is throttled forever",
            mechanism: None,
            spec: "rt-throttling/timer-lost.md",
        },
        Fault {
            setting: "features.RT_RUNTIME_SHARE",
            wrong: "on",
            effect: "a real-time loop borrows the runtime of other CPUs and starves the fair tasks of its own",
            mechanism: Some(Change::with("2.6.25")),
            spec: "rt-throttling/share.md",
        },
        Fault {
            setting: "rt_balance",
            wrong: "ipi_per_cpu",
            effect: "every CPU that lowers its priority sends a chain of IPIs of its own; they pile up on one CPU",
            mechanism: None,
            spec: "ipi/chain-start.md",
        },
        Fault {
            setting: "rt_balance",
            wrong: "ipi_root_domain",
            effect: "a waiting real-time task is not pulled from a CPU that has disabled interrupts: the IPI waits",
            mechanism: None,
            spec: "rt/pull-behind-irqs-off.md",
        },
        Fault {
            setting: "rt_overload",
            wrong: "queued",
            effect: "a CPU whose waiting tasks are all pinned counts as overloaded, and is sent IPIs for nothing",
            mechanism: Some(Change::with("2.6.25")),
            spec: "ipi/overload-pushable.md",
        },
        Fault {
            setting: "rt_ipi_skip_self",
            wrong: "off",
            effect: "the root domain's IPI is sent by a CPU to itself",
            mechanism: Some(Change::by("4.15", "4bdced5c9a29")),
            spec: "ipi/root-skip-self.md",
        },
        Fault {
            setting: "fault.fair_server_resched_lost",
            wrong: "on",
            effect: "if a switch finds the fair server exhausted, the fair task keeps the CPU although others wait",
            mechanism: None,
            spec: "server/resched-lost.md",
        },
        Fault {
            setting: "fair_server.scaled",
            wrong: "on",
            effect: "the fair server runs longer on a slow CPU than its runtime says",
            mechanism: None,
            spec: "server/scaled-by-capacity.md",
        },
        Fault {
            setting: "fair_server.stop",
            wrong: "empty",
            effect: "fair tasks that sleep often start and stop the server's timer each time",
            mechanism: None,
            spec: "server/stop.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "stuck",
            effect: "a server that is started late begins a new period and runs at once, before real-time tasks",
            mechanism: None,
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "new_period",
            effect: "a server that is started before its deadline is deferred by a whole period",
            mechanism: None,
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fair_server.wakeup",
            wrong: "revised_always",
            effect: "a server that is started before its deadline runs although its tasks have not starved",
            mechanism: None,
            spec: "server/wakeup.md",
        },
        Fault {
            setting: "fault.cfs_bandwidth_offline_loss",
            wrong: "on",
            effect: "tasks that are throttled on a CPU that goes offline stay there",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/offline-loss.md",
        },
        Fault {
            setting: "fault.cfs_bandwidth_hotplug_bypass",
            wrong: "on",
            effect: "a CPU that goes offline or online unthrottles the groups on all other CPUs",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/hotplug-bypass.md",
        },
        Fault {
            setting: "cfs_bandwidth_expiry",
            wrong: "on",
            effect: "a group with threads on many CPUs is throttled although it uses less than its quota",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/expiry.md",
        },
        Fault {
            setting: "cfs_bandwidth_interleave",
            wrong: "off",
            effect: "the period timers of all limited groups fire at the same instant",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/interleave.md",
        },
        Fault {
            setting: "cfs_bandwidth_zero_start",
            wrong: "on",
            effect: "a new limit gives a CPU no runtime, so that it can be throttled while a group above is unthrottled",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/zero-start.md",
        },
        Fault {
            setting: "throttle",
            wrong: "immediate",
            effect: "a task is throttled while it holds a lock of the kernel, and others wait for its group's next quota",
            mechanism: Some(Change::with("3.2")),
            spec: "bandwidth/page-lock.md",
        },
        Fault {
            setting: "recent_used_cpu",
            wrong: "waker",
            effect: "a task remembers where it last woke another, and does not return to the CPU where it ran, which idles",
            mechanism: None,
            spec: "fair/recent-used-cpu.md",
        },
        Fault {
            setting: "recent_used_cpu",
            wrong: "prev_unchecked",
            effect: "an idle CPU that a task remembers is passed over: the affinity of another CPU is checked",
            mechanism: None,
            spec: "fair/recent-used-cpu.md",
        },
        Fault {
            setting: "newidle_cost_bump",
            wrong: "on",
            effect: "a failed new-idle search raises its recorded cost, so that an idle CPU stops looking for work",
            mechanism: None,
            spec: "fair/new-idle-cost.md",
        },
        Fault {
            setting: "yield_forfeits",
            wrong: "off",
            effect: "a task that yields alone is picked again and again; its deadline runs away, and it starves later",
            mechanism: Some(Change::with("6.6")),
            spec: "fair/yield.md",
        },
        Fault {
            setting: "isolcpus_conflict",
            wrong: "off",
            effect: "a cpuset with isolated CPUs can be a partition, whose CPUs are not balanced",
            mechanism: Some(Change::with("5.0")),
            spec: "machine/isolcpus-partition.md",
        },
        Fault {
            setting: "fault.dl_replenish_early",
            wrong: "on",
            effect: "a throttled deadline task whose deadline is before the end of its period gets its next budget early",
            mechanism: None,
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_late_wakeup",
            wrong: "on",
            effect: "a deadline task that wakes between its deadline and the end of its period gets a new budget at once",
            mechanism: None,
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_wakeup_refill",
            wrong: "on",
            effect: "a constrained deadline task that suspends itself gets a whole budget at each wakeup",
            mechanism: None,
            spec: "dl/constrained-faults.md",
        },
        Fault {
            setting: "fault.dl_reclaim_short",
            wrong: "on",
            effect: "a reclaiming deadline task leaves a part of the reservable 95 % unused",
            mechanism: None,
            spec: "dl/reclaim-fault.md",
        },
        Fault {
            setting: "fault.nohz_full_limited",
            wrong: "on",
            effect: "a limited task that is alone on a nohz_full CPU is not throttled until something interrupts it",
            mechanism: None,
            spec: "machine/nohz-full-faults.md",
        },
        Fault {
            setting: "fault.nohz_full_grouped",
            wrong: "on",
            effect: "two tasks of one group share a nohz_full CPU without a tick: the second waits for the first to block",
            mechanism: None,
            spec: "machine/nohz-full-faults.md",
        },
        Fault {
            setting: "fault.group_move_unnoticed",
            wrong: "on",
            effect: "a task that is moved out of a throttled group stays queued on an idle CPU until something wakes that CPU",
            mechanism: Some(Change::by("2.6.24", "29f59db3a74b")),
            spec: "machine/group-move.md",
        },
        Fault {
            setting: "fault.buddy_before_short",
            wrong: "on",
            effect: "a woken task with a short slice waits for a group whose tasks sleep and wake all the time",
            mechanism: None,
            spec: "fair/next-buddy.md",
        },
        Fault {
            setting: "fault.cfs_burst_cut",
            wrong: "on",
            effect: "a group whose limit is changed loses its burst",
            mechanism: None,
            spec: "bandwidth/burst-cut.md",
        },
        Fault {
            setting: "fault.idle_busy_interval",
            wrong: "on",
            effect: "a task waits for up to 0.1 s beside an idle CPU that ticks",
            mechanism: Some(Change::with("2.6.23")),
            spec: "machine/nohz-off.md",
        },
        Fault {
            setting: "fault.asym_strong_hides",
            wrong: "on",
            effect: "a task waits beside an idle CPU, because another group has stronger CPUs and a task on each",
            mechanism: None,
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "fault.asym_misfit_hides",
            wrong: "on",
            effect: "a task waits beside idle CPUs, because a task next to it needs a stronger CPU than these",
            mechanism: None,
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "fault.asym_thread_stays",
            wrong: "on",
            effect: "two tasks share a core for ever beside an idle core, where other CPUs are stronger",
            mechanism: None,
            spec: "fair/asym-faults.md",
        },
        Fault {
            setting: "features.PLACE_REL_DEADLINE",
            wrong: "off",
            effect: "a runnable task that is moved begins a new request, and keeps the CPU for up to a slice too long",
            mechanism: Some(Change::with("6.6")),
            spec: "fair/place-rel-deadline.md",
        },
        Fault {
            setting: "base_slice_ns",
            wrong: "750us",
            effect: "where ticks are 1 ms and CPUs 8 or more, a turn takes 4 ms instead of 3",
            mechanism: Some(Change::with("6.6")),
            spec: "fair/base-slice.md",
        },
        Fault {
            setting: "slice_protection",
            wrong: "request",
            effect: "a task with a long slice keeps the CPU for all of it, whatever the slices of waiting tasks",
            mechanism: Some(Change::with("6.6")),
            spec: "fair/min-slice.md",
        },
        Fault {
            setting: "wakeup_past_delayed",
            wrong: "off",
            effect: "a woken task with a short slice does not preempt: a sleeping task that is still queued is compared",
            mechanism: Some(Change::by("6.12", "f12e148892ed")),
            spec: "fair/wakeup-past-delayed.md",
        },
        Fault {
            setting: "lag_limit",
            wrong: "own_slice",
            effect: "a task with a short slice forgets what it owes or is owed next to tasks with long ones",
            mechanism: Some(Change::with("6.6")),
            spec: "fair/lag-limit.md",
        },
        Fault {
            setting: "delayed_debt_shrinks",
            wrong: "off",
            effect: "the debt of a sleeping task that is still queued grows as others join and leave",
            mechanism: Some(Change::with("6.12")),
            spec: "fair/delayed-debt.md",
        },
        Fault {
            setting: "smt_balance",
            wrong: "off",
            effect: "a task that leaves a full cache moves beside a busy thread although a whole core idles",
            mechanism: Some(Change::with("5.5")),
            spec: "fair/smt-balance.md",
        },
        Fault {
            setting: "newidle_min_idle",
            wrong: "on",
            effect: "a CPU that idles often and briefly pulls no waiting task",
            mechanism: None,
            spec: "fair/new-idle-cost.md",
        },
        Fault {
            setting: "fault.uclamp_min_limit",
            wrong: "on",
            effect: "a task of a group with cpu.uclamp.min stays on a CPU that is weaker than that",
            mechanism: None,
            spec: "fair/uclamp.md",
        },
        Fault {
            setting: "features.SIS_PROP",
            wrong: "on",
            effect: "a CPU that seldom idles searches few CPUs for an idle one, also if most of them idle",
            mechanism: None,
            spec: "fair/sis-prop.md",
        },
        Fault {
            setting: "softirq.timer_threads",
            wrong: "off",
            effect: "with preempt = rt, a timer of a fair task waits for other softirqs and for fair tasks",
            mechanism: Some(Change::by("5.4", "1842f5a427f5")),
            spec: "machine/softirq-timers.md",
        },
        Fault {
            setting: "softirq.wait_for_thread",
            wrong: "on",
            effect: "softirqs of a busy network wait for a fair thread behind other tasks, also if their CPU is interrupted anyway",
            mechanism: None,
            spec: "machine/softirq-budget.md",
        },
        Fault {
            setting: "softirq.bh_lock",
            wrong: "on",
            effect: "with preempt = rt, a task that disables softirqs waits for every other one that does on its CPU",
            mechanism: Some(Change::by("5.13", "8b1c04acad08")),
            spec: "machine/bh-lock.md",
        },
        Fault {
            setting: "uclamp",
            wrong: "util",
            effect: "a task that is bounded to the capacity of a CPU does not fit there: the margin of migration applies",
            mechanism: None,
            spec: "fair/uclamp.md",
        },
    ];
}

impl Fault {
    /// Returns the change that began it: the one that set the wrong value, or brought the
    /// mechanism.
    #[must_use]
    pub fn since(&self) -> Change {
        let since_first = Change { release: KernelVersion::V2_6_23.release(), commit: None };
        let set = || self.history().into_iter().find(|(_, value)| value == self.wrong).and_then(|(change, _)| change);
        self.mechanism.or_else(set).unwrap_or(since_first)
    }

    /// Returns the change that fixed it; `None` if it is not fixed.
    #[must_use]
    pub fn fixed(&self) -> Option<Change> {
        let history = self.history();
        let is_since = |change: Option<Change>| change.is_some_and(|change| change.release > self.since().release);
        // The value at first can be that of another mechanism.
        let begun = history.iter().position(|(_, value)| value == self.wrong)?;
        let is_fix = |(change, value): &&(Option<Change>, String)| is_since(*change) && value != self.wrong;
        history[begun..].iter().find(is_fix).and_then(|(change, _)| *change)
    }

    /// Returns the values of its setting in the kernels of kernel.org.
    fn history(&self) -> Vec<(Option<Change>, String)> {
        self.row().map(Settings::history).unwrap_or_default()
    }

    fn row(&self) -> Option<&'static Setting> {
        Settings::TABLE.iter().find(|setting| setting.name == self.setting)
    }

    /// Returns whether a kernel with these settings has it: its setting has the wrong value, and
    /// not only because the mechanism is missing. The kernel has the mechanism by its release, by a
    /// backport, or with another bug that the same commit began.
    #[must_use]
    pub fn is_in(&self, kernel: KernelVersion, settings: &Settings) -> bool {
        let has = |mechanism: Change| {
            let came_along = |other: &&Self| mechanism.commit.is_some() && other.began_by(mechanism);
            kernel.has(&mechanism) || Settings::FAULTS.iter().filter(came_along).any(|other| other.is_wrong(settings))
        };
        self.is_wrong(settings) && self.mechanism.is_none_or(has)
    }

    /// Returns whether a change of its setting's row set the wrong value.
    fn began_by(&self, change: Change) -> bool {
        self.mechanism.is_none()
            && self.row().is_some_and(|row| row.changes.contains(&change))
            && self.since() == change
    }

    /// Returns whether it can matter under these settings, if it is in the kernel.
    #[must_use]
    pub fn matters_under(&self, settings: &Settings) -> bool {
        let is_of_rt = matches!(self.setting, "softirq.timer_threads" | "softirq.bh_lock");
        !is_of_rt || settings.preempt == Preempt::Rt
    }

    /// Returns whether its setting has the wrong value.
    fn is_wrong(&self, settings: &Settings) -> bool {
        self.row().is_some_and(|row| row.value(settings) == self.wrong)
    }

    /// Returns the presets that have it.
    #[must_use]
    pub fn presets(&self) -> Vec<KernelVersion> {
        KernelVersion::ALL.iter().copied().filter(|kernel| self.is_in(*kernel, &kernel.settings())).collect()
    }

    /// Returns its name: that of its setting, with the value unless it is a switch that is on.
    #[must_use]
    pub fn name(&self) -> String {
        match self.wrong {
            "on" => self.setting.to_string(),
            wrong => alloc::format!("{} = {wrong}", self.setting),
        }
    }
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
            let is_of_old = fault.since().release == first.release();
            assert_eq!(fault.is_in(first, &first.settings()), is_of_old, "{}", fault.name());
        }
    }

    /// The kernels of the reviewed list. A preset that is added later is not among them.
    fn reviewed() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let lines = include_str!("../../tests/data/fault-presets.txt").lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| {
            let (name, presets) = line.split_once(": ").or(line.split_once(':')).expect("a fault and its presets");
            (name, presets.split_whitespace().collect())
        })
    }

    #[test]
    fn each_fault_is_in_the_presets_that_were_reviewed() {
        let all: Vec<&str> = reviewed().find(|(name, _)| *name == "presets").expect("the presets").1;
        let named = |fault: &Fault| alloc::format!("{} = {}", fault.setting, fault.wrong);
        let mut wrong = String::new();
        for (name, presets) in reviewed().filter(|(name, _)| *name != "presets") {
            let Some(fault) = Settings::FAULTS.iter().find(|fault| named(fault) == name) else {
                wrong += &alloc::format!("{name}: no such fault\n");
                continue;
            };
            let has = |preset: &&str| {
                let kernel = KernelVersion::from_name(preset).expect("a preset");
                fault.is_in(kernel, &kernel.settings())
            };
            let now: Vec<&str> = all.iter().copied().filter(has).collect();
            if now != presets {
                wrong += &alloc::format!("{name}: {}\n    reviewed: {}\n", now.join(" "), presets.join(" "));
            }
        }
        for fault in Settings::FAULTS.iter().filter(|fault| reviewed().all(|(name, _)| name != named(fault))) {
            wrong += &alloc::format!("{}: not reviewed\n", named(fault));
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn a_kernel_between_presets_has_what_its_release_has() {
        let faults = |kernel: &str| {
            let kernel = KernelVersion::from_name(kernel).expect("a kernel");
            let settings = kernel.settings();
            Settings::FAULTS.iter().filter(|fault| fault.is_in(kernel, &settings)).map(Fault::name).collect::<Vec<_>>()
        };
        let has = |kernel: &str, name: &str| faults(kernel).iter().any(|fault| fault == name);
        for (name, fixed, last) in [
            ("fault.cfs_bandwidth_hotplug_bypass", "6.14", "6.13"),
            ("fault.nohz_full_grouped", "6.13", "6.12.0"),
            ("softirq.timer_threads = off", "6.13", "6.12"),
            ("slice_protection = request", "6.17", "6.16"),
        ] {
            assert!(!has(fixed, name) && !has("6.18", name), "{fixed} has {name}");
            assert!(has(last, name), "{last} has not {name}");
        }
        assert!(has("6.16", "fair_server.wakeup = stuck"));
    }

    #[test]
    fn kernels_since_the_fix_do_not_have_it() {
        for fault in Settings::FAULTS {
            for kernel in fault.presets() {
                let is_before = fault.fixed().is_none_or(|fixed| kernel.release() < fixed.release);
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
