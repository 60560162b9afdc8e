//! [`Report`]: the findings of all monitors.

use core::fmt;
use zerolag_model::{CpuId, Duration, Instant, TaskId};
use zerolag_trace::Replay;

/// One violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The time of the violation.
    pub at: Instant,
    /// The CPU, if the rule is about CPUs.
    pub cpu: Option<CpuId>,
    /// The tasks concerned; the first is the one that suffers.
    pub tasks: Vec<TaskId>,
    /// A description in one sentence, with names.
    pub says: String,
    /// The setting by which the run reproduces a kernel fault that explains this.
    pub fault: Option<&'static str>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        if let Some(cpu) = self.cpu {
            write!(f, " cpu {cpu}")?;
        }
        write!(f, ": {}", self.says)?;
        match self.fault {
            None => Ok(()),
            Some(fault) => write!(f, " (by {fault})"),
        }
    }
}

/// The violations of one rule: the first of them, and their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Findings {
    first: Vec<Violation>,
    total: u64,
    /// The number of violations that no reproduced fault explains.
    unexplained: u64,
    /// How often the rule could not judge, by reason.
    skipped: Vec<(&'static str, u64)>,
    kept: usize,
}

impl Findings {
    pub(crate) const fn new(kept: usize) -> Self {
        Self { first: Vec::new(), total: 0, unexplained: 0, skipped: Vec::new(), kept }
    }

    /// Adds a violation. The sentence is only formatted if it is kept.
    pub fn push(&mut self, at: Instant, cpu: Option<CpuId>, tasks: &[TaskId], says: impl FnOnce() -> String) {
        self.push_by(None, at, cpu, tasks, says);
    }

    /// As [`push`](Self::push), for a violation that a fault of the kernel can explain, if the run
    /// reproduces that fault: `fault` is its setting.
    pub fn push_by(
        &mut self,
        fault: Option<&'static str>,
        at: Instant,
        cpu: Option<CpuId>,
        tasks: &[TaskId],
        says: impl FnOnce() -> String,
    ) {
        self.total += 1;
        self.unexplained += u64::from(fault.is_none());
        if self.first.len() < self.kept {
            self.first.push(Violation { at, cpu, tasks: tasks.to_vec(), says: says(), fault });
        }
    }

    /// Notes that the rule cannot judge here, and why. The reason is a part of a sentence: "not
    /// judged: a CPU goes offline".
    pub fn skip(&mut self, reason: &'static str) {
        match self.skipped.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, times)) => *times += 1,
            None => self.skipped.push((reason, 1)),
        }
    }

    pub(crate) fn skipped(&self) -> &[(&'static str, u64)] {
        &self.skipped
    }

    /// Returns the violations that were kept: the first ones.
    #[must_use]
    pub fn first(&self) -> &[Violation] {
        &self.first
    }

    /// Returns the number of all violations.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

/// The result of one rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The rule holds.
    Held,
    /// The rule cannot be checked on this trace, for this reason.
    NotApplicable(String),
    /// The rule is broken.
    Broken(Findings),
}

/// A part of a trace that a rule could not judge. Its verdict is about the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotJudged {
    /// The name of the monitor.
    pub monitor: &'static str,
    /// Why it could not judge.
    pub reason: &'static str,
    /// How often that was so.
    pub times: u64,
}

impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            1 => write!(f, "not judged once: {}", self.reason),
            times => write!(f, "not judged {times} times: {}", self.reason),
        }
    }
}

/// The result of a check: a verdict per rule, in the order of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The name of each monitor and its verdict.
    pub verdicts: Vec<(&'static str, Verdict)>,
    /// The parts of the trace that rules could not judge, in the order of the table.
    pub not_judged: Vec<NotJudged>,
    /// The part of the trace that was not judged because events are missing.
    pub unseen: Option<Unseen>,
}

/// The part of a trace that was not judged because events are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unseen {
    /// The number of gaps; those that overlap count once.
    pub gaps: u64,
    /// Their time together.
    pub time: Duration,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gaps = if self.gaps == 1 { "gap" } else { "gaps" };
        write!(f, "{} in {} {gaps} were not judged: events are missing", self.time, self.gaps)
    }
}

impl Report {
    /// Returns whether no rule is broken. Rules that are not applicable are ignored.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.verdicts.iter().all(|(_, verdict)| !matches!(verdict, Verdict::Broken(_)))
    }

    /// Returns the settings of the reproduced kernel faults that explain all violations, each once;
    /// `None` if one is unexplained.
    #[must_use]
    pub fn faults(&self) -> Option<Vec<&'static str>> {
        let unexplained = |verdict: &Verdict| matches!(verdict, Verdict::Broken(findings) if findings.unexplained > 0);
        if self.verdicts.iter().any(|(_, verdict)| unexplained(verdict)) {
            return None;
        }
        let mut faults: Vec<&'static str> = self.violations().filter_map(|(_, violation)| violation.fault).collect();
        faults.sort_unstable();
        faults.dedup();
        Some(faults)
    }

    /// Returns the parts of the trace that a monitor could not judge.
    pub fn not_judged_by(&self, monitor: &str) -> impl Iterator<Item = &NotJudged> {
        self.not_judged.iter().filter(move |part| part.monitor == monitor)
    }

    /// Returns the verdict of a monitor.
    #[must_use]
    pub fn verdict(&self, monitor: &str) -> Option<&Verdict> {
        self.verdicts.iter().find(|(name, _)| *name == monitor).map(|(_, verdict)| verdict)
    }

    /// Returns the violations that were kept, of all rules, in the order of the rules.
    pub fn violations(&self) -> impl Iterator<Item = (&'static str, &Violation)> {
        self.verdicts.iter().flat_map(|(name, verdict)| {
            let first = match verdict {
                Verdict::Broken(findings) => findings.first(),
                Verdict::Held | Verdict::NotApplicable(_) => &[],
            };
            first.iter().map(move |violation| (*name, violation))
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(unseen) = self.unseen {
            writeln!(f, "{unseen}")?;
        }
        for (name, verdict) in &self.verdicts {
            match verdict {
                Verdict::Held => writeln!(f, "{name:<15} held")?,
                Verdict::NotApplicable(reason) => writeln!(f, "{name:<15} not applicable: {reason}")?,
                Verdict::Broken(findings) => {
                    let times = if findings.total == 1 { "once" } else { "times" };
                    match findings.total {
                        1 => writeln!(f, "{name:<15} BROKEN {times}")?,
                        total => writeln!(f, "{name:<15} BROKEN {total} {times}")?,
                    }
                    for violation in &findings.first {
                        writeln!(f, "  {violation}")?;
                    }
                    match findings.total - findings.first.len() as u64 {
                        0 => {}
                        more => writeln!(f, "  and {more} more")?,
                    }
                }
            }
            for part in self.not_judged_by(name) {
                writeln!(f, "  {part}")?;
            }
        }
        Ok(())
    }
}

/// Returns a task as it is named in sentences: `name (task 3)`, or `name (tid 4711)` if it was
/// recorded on a kernel.
pub(crate) fn label(replay: &Replay, task: TaskId) -> String {
    match (replay.task(task).map(|view| &*view.name), replay.tid(task)) {
        (None | Some(""), None) => format!("task {task}"),
        (None | Some(""), Some(tid)) => format!("tid {tid}"),
        (Some(name), None) => format!("{name} (task {task})"),
        (Some(name), Some(tid)) => format!("{name} (tid {tid})"),
    }
}
