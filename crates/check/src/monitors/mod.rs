//! The rules: one file and one line of the table each.

use crate::monitor::{Context, Monitor};

mod affinity;
mod bandwidth;
mod counters;
mod dl_bandwidth;
mod dl_tardiness;
mod group_starved;
mod kernel_mode;
mod locks;
mod no_task_lost;
mod one_cpu;
mod rcu;
mod rt_groups;
mod rt_order;
mod rt_quiescence;
mod rt_supply;
mod server_laxity;
mod server_share;
mod time_conserved;
mod watchdog;

/// A rule.
pub struct Rule {
    /// Its name in reports.
    pub name: &'static str,
    /// Its demand, in one sentence.
    pub says: &'static str,
    /// Starts to check it against a trace, or says why that is impossible.
    pub(crate) begin: fn(&Context<'_>) -> Result<Box<dyn Monitor>, String>,
}

impl core::fmt::Debug for Rule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

/// Every rule.
pub const TABLE: &[Rule] = &[
    Rule {
        name: "one-cpu",
        says: "a task runs on one CPU at a time, after a wakeup, and a CPU leaves the task that it ran",
        begin: one_cpu::begin,
    },
    Rule {
        name: "time-conserved",
        says: "time never goes back, and the layers of a CPU add up to the elapsed time and agree with its switches",
        begin: time_conserved::begin,
    },
    Rule {
        name: "no-task-lost",
        says: "a runnable task is on exactly one run queue, and no CPU stays idle while a task waits that may run there",
        begin: no_task_lost::begin,
    },
    Rule { name: "affinity", says: "a task is queued and runs only on CPUs that it may use", begin: affinity::begin },
    Rule {
        name: "rt-order",
        says: "a CPU never switches to a task while a more urgent real-time task is queued there",
        begin: rt_order::begin,
    },
    Rule {
        name: "rt-groups",
        says: "no real-time task runs while its group has used its real-time runtime, and no group gets more of it than its periods have",
        begin: rt_groups::begin,
    },
    Rule {
        name: "rt-supply",
        says: "real-time tasks of a group that want to run on a CPU get the runtime of the group's server there in every two periods",
        begin: rt_supply::begin,
    },
    Rule {
        name: "rt-quiescence",
        says: "when nothing has happened for a while, no single move would let a waiting real-time task preempt a less urgent task",
        begin: rt_quiescence::begin,
    },
    Rule {
        name: "dl-bandwidth",
        says: "no deadline task and no server runs for more than its bandwidth over any window of time",
        begin: dl_bandwidth::begin,
    },
    Rule {
        name: "dl-tardiness",
        says: "an admitted deadline task gets its budget by its deadline on one CPU, within the known bound of global EDF on several",
        begin: dl_tardiness::begin,
    },
    Rule {
        name: "server-laxity",
        says: "a deferred deadline server never competes with real-time tasks earlier than it must",
        begin: server_laxity::begin,
    },
    Rule {
        name: "server-share",
        says: "a fair class that wants to run gets its server's runtime in every two periods",
        begin: server_share::begin,
    },
    Rule {
        name: "bandwidth",
        says: "a limited group uses no more than its quota, burst and slack, throttled tasks do not run, and no CPU is forgotten",
        begin: bandwidth::begin,
    },
    Rule {
        name: "group-starved",
        says: "no group that may run waits many times longer than its weight implies while its CPU runs other fair tasks",
        begin: group_starved::begin,
    },
    Rule {
        name: "kernel-mode",
        says: "where throttling spares kernel mode, no task is stopped inside a system call",
        begin: kernel_mode::begin,
    },
    Rule {
        name: "locks",
        says: "a lock is released by its holder, while it runs; a turn is lent once, to the holder; a circle of waits ends the run",
        begin: locks::begin,
    },
    Rule {
        name: "rcu",
        says: "a grace period of RCU ends after the sections that began before it, and only its old readers are boosted",
        begin: rcu::begin,
    },
    Rule {
        name: "watchdog",
        says: "no CPU stays in IPI and lock work for longer than watchdog_thresh",
        begin: watchdog::begin,
    },
    Rule { name: "counters", says: "the counters of a task equal the trace", begin: counters::begin },
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Options, Verdict, check};
    use zerolag_trace::Trace;

    fn verdict(monitor: &str, trace: &Trace) -> Verdict {
        check(trace, &Options::default()).verdict(monitor).expect("a monitor of the table").clone()
    }

    /// Asserts that a rule holds on a trace.
    #[track_caller]
    pub(crate) fn holds(monitor: &str, trace: &Trace) {
        assert_eq!(verdict(monitor, trace), Verdict::Held);
    }

    /// Asserts that a rule is broken, and that one of the violations contains this sentence.
    #[track_caller]
    pub(crate) fn breaks(monitor: &str, trace: &Trace, sentence: &str) {
        match verdict(monitor, trace) {
            Verdict::Broken(found) => {
                let said: Vec<&str> = found.first().iter().map(|violation| &*violation.says).collect();
                assert!(said.contains(&sentence), "`{sentence}` is not among {said:#?}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// Asserts that a rule cannot be checked on a trace.
    #[track_caller]
    pub(crate) fn not_applicable(monitor: &str, trace: &Trace, reason: &str) {
        assert_eq!(verdict(monitor, trace), Verdict::NotApplicable(reason.to_owned()));
    }

    #[test]
    fn names_are_unique_and_sentences_are_sentences() {
        for (index, rule) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.name != rule.name));
            assert!(!rule.says.ends_with('.') && rule.says.starts_with(char::is_lowercase), "{}", rule.says);
        }
    }

    #[test]
    fn lost_events_make_every_rule_inapplicable() {
        let mut trace = zerolag_trace::script::Script::new(1).end(10);
        trace.meta.lost_events = 3;
        for rule in TABLE {
            not_applicable(rule.name, &trace, "3 events were lost");
        }
    }
}
