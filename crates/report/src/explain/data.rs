//! Explanations as data: every cause with its kind, its CPU and what it is about, for programs.

use super::{Cause, CauseShare, Chain, Episodes, Explained, Explanation, RequestTime, Summary, Why};
use crate::frame::Frame;
use crate::frame::columns::Of;
use schemars::JsonSchema;
use serde::Serialize;
use zerolag_model::{GroupId, TaskId};

/// Explained waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExplainedWaits {
    /// All waits of the selected tasks by cause.
    summary: WaitSummary,
    /// The requests of each service: a wait is a request, and its causes are what its worker did.
    requests: Vec<ServiceRequests>,
    /// The longest waits, the longest first.
    waits: Vec<ExplainedWait>,
}

/// The requests of a service by cause.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ServiceRequests {
    /// The service.
    service: String,
    /// Their sums.
    summary: WaitSummary,
}

/// All waits of the selected tasks by cause, and by task and main cause.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct WaitSummary {
    /// The number of waits.
    waits: u64,
    /// Their time together.
    total_ns: u64,
    /// The tail: the longest waits, at least 1 % of all.
    tail: WaitTail,
    /// Those beyond the goal; left out without a goal on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<WaitsMissed>,
    /// The causes, the largest total first: their times add up to those of all waits and of the
    /// tail.
    causes: Vec<SummaryCause>,
    /// Waits of tasks of one definition with the same main cause, the largest total first.
    episodes: Vec<SummaryEpisodes>,
}

/// The longest waits together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct WaitTail {
    /// The shortest length.
    from_ns: u64,
    /// The number of waits.
    waits: u64,
    /// Their time together.
    total_ns: u64,
}

/// The waits that are longer than a goal allows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct WaitsMissed {
    /// The goal, as written; several are separated by commas.
    goal: String,
    /// The number of waits.
    waits: u64,
    /// Their time together.
    total_ns: u64,
}

/// A cause over all waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SummaryCause {
    /// The clause, without CPUs, instances and times.
    says: String,
    /// Its time over all waits.
    total_ns: u64,
    /// Its time over the tail.
    tail_ns: u64,
    /// Its time over those beyond the goal; left out without a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_ns: Option<u64>,
    /// Its longest time in one wait.
    longest_ns: u64,
    /// The number of waits in which it occurs.
    waits: u64,
}

/// Waits of tasks of one definition with the same main cause.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SummaryEpisodes {
    /// The name of the task, or the part that instances share.
    tasks: String,
    /// The cause with the largest part of each wait.
    mostly: String,
    /// The number of waits.
    waits: u64,
    /// Their time together.
    total_ns: u64,
    /// The longest.
    longest_ns: u64,
    /// The start of the first.
    first_ns: u64,
}

/// A wait and its causes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ExplainedWait {
    /// The waiting task.
    task: NamedTask,
    /// Start of the wait.
    from_ns: u64,
    /// The instant at which it ran, or the trace ended.
    to_ns: u64,
    /// The length of the wait: the sum of its causes.
    length_ns: u64,
    /// How much of the wait lies in gaps of a recording; left out if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_gaps_ns: Option<u64>,
    /// The causes, the longest first.
    causes: Vec<WaitCause>,
    /// Where the loaded policy had the task meanwhile, in order of time; left out without a policy,
    /// and of a trace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy: Vec<PolicyPlace>,
}

/// A queue on which a loaded policy had a waiting task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PolicyPlace {
    /// How long it was there within the wait.
    time_ns: u64,
    /// The queue, the number of tasks before it there, and the operation that put it there.
    says: String,
}

/// A chain of causes and its time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct WaitCause {
    /// The time for which this chain kept the task.
    time_ns: u64,
    /// The chain as a clause, after the name of the waiting task.
    says: String,
    /// The chain: the first link is about the waiting task, each further one about the holder that
    /// the link before it names.
    chain: Vec<Link>,
}

/// A task and its name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct NamedTask {
    /// Its number in the trace.
    id: u32,
    /// Its name.
    name: String,
}

/// A task group and its path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct NamedGroup {
    /// Its number in the trace.
    id: u32,
    /// Its path.
    path: String,
}

/// What keeps a task from running.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Link {
    /// It is queued where another task runs.
    Behind {
        /// The CPU.
        cpu: u32,
        /// The task that runs there.
        task: NamedTask,
        /// Whether the waiting task may run on no other CPU.
        bound: bool,
        /// Why the CPU runs that task and not the waiting one.
        why: Reason,
    },
    /// It is queued on a CPU that runs no task: the CPU switches.
    Switch {
        /// The CPU.
        cpu: u32,
    },
    /// The CPU serves an interrupt.
    Interrupt {
        /// The CPU.
        cpu: u32,
    },
    /// It is queued on a CPU that idles, in a trace that does not give the reason.
    KeptOff {
        /// The CPU.
        cpu: u32,
    },
    /// It was migrated to a CPU that runs no task; that CPU switches.
    Moved {
        /// The target CPU.
        cpu: u32,
    },
    /// Its group, or one above, is throttled on its CPU.
    Throttled {
        /// The group with the limit.
        group: NamedGroup,
        /// The CPU.
        cpu: u32,
        /// Start of the throttling.
        since_ns: u64,
    },
    /// Real-time tasks have used up their share of the period on its CPU.
    RtThrottled {
        /// The CPU.
        cpu: u32,
        /// The group whose real-time runtime is used up; not there if it is that of all real-time
        /// tasks of the CPU.
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<NamedGroup>,
    },
    /// Its deadline budget is exhausted.
    Budget {
        /// The time of the next replenishment.
        until_ns: u64,
    },
    /// It is blocked on a lock.
    Lock {
        /// The number of the lock.
        lock: u32,
        /// Its name in the workload; null in a trace without names.
        name: Option<String>,
        /// The holder: the next link is about it. Null: a device, or a task that has just been
        /// given the lock.
        holder: Option<NamedTask>,
    },
    /// It runs: the end of a chain of holders.
    Runs {
        /// The CPU.
        cpu: u32,
        /// Whether the CPU is in an interrupt.
        in_interrupt: bool,
    },
    /// It sleeps by itself: for a time, or for a device.
    Sleeps,
    /// It was woken and is on its way to a run queue.
    Waking,
    /// The tasks wait for each other in a circle.
    Circle,
    /// The trace does not say.
    Unknown,
}

/// Why a CPU runs another task than the waiting one.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Reason {
    /// The other task ranks higher, or is an equal that has the turn.
    Rank,
    /// The other task ranks higher, and the deadline server of the waiting task's class defers.
    Defers {
        /// The server.
        server: &'static str,
        /// The latest time at which the server starts.
        until_ns: u64,
    },
    /// The other task ranks higher, and the deadline server of the waiting task's class has no
    /// runtime left.
    Exhausted {
        /// The server.
        server: &'static str,
        /// The time of its next replenishment.
        until_ns: u64,
    },
    /// The other task ranks lower: a deadline server of the CPU runs it.
    Served {
        /// The server.
        server: &'static str,
    },
    /// The other task is in kernel mode, where the preemption model does not interrupt it.
    InKernel {
        /// The value of `preempt`.
        preempt: &'static str,
    },
    /// The other task has disabled preemption or interrupts.
    Disabled {
        /// `preemption` or `interrupts`.
        disables: &'static str,
    },
    /// The other task ranks lower, and its CPU serves an interrupt.
    Interrupted,
    /// The other task ranks lower, and its CPU has been asked to switch.
    Switching,
    /// The other task ranks lower; the trace does not say why it runs.
    Unknown,
}

impl From<Why> for Reason {
    fn from(why: Why) -> Self {
        match why {
            Why::Rank => Self::Rank,
            Why::Defers { server, until } => Self::Defers { server: server.name(), until_ns: until.as_nanos() },
            Why::Exhausted { server, until } => Self::Exhausted { server: server.name(), until_ns: until.as_nanos() },
            Why::Served { server } => Self::Served { server: server.name() },
            Why::InKernel { model } => Self::InKernel { preempt: model.name() },
            Why::Disabled { disables } => Self::Disabled { disables: disables.name() },
            Why::Interrupted => Self::Interrupted,
            Why::Switching => Self::Switching,
            Why::Unknown => Self::Unknown,
        }
    }
}

impl From<&Summary> for WaitSummary {
    fn from(all: &Summary) -> Self {
        let cause = |cause: &CauseShare| SummaryCause {
            says: cause.says.clone(),
            total_ns: cause.total.as_nanos(),
            tail_ns: cause.tail.as_nanos(),
            missed_ns: all.missed.is_some().then(|| cause.missed.as_nanos()),
            longest_ns: cause.longest.as_nanos(),
            waits: cause.waits,
        };
        let episodes = |row: &Episodes| SummaryEpisodes {
            tasks: row.tasks.clone(),
            mostly: row.mostly.clone(),
            waits: row.waits,
            total_ns: row.total.as_nanos(),
            longest_ns: row.longest.as_nanos(),
            first_ns: row.first.as_nanos(),
        };
        Self {
            waits: all.count,
            total_ns: all.total.as_nanos(),
            tail: WaitTail { from_ns: all.tail_from.as_nanos(), waits: all.tail_count, total_ns: all.tail.as_nanos() },
            missed: all.missed.as_ref().map(|missed| WaitsMissed {
                goal: missed.goal.clone(),
                waits: missed.count,
                total_ns: missed.total.as_nanos(),
            }),
            causes: all.causes.iter().map(cause).collect(),
            episodes: all.episodes.iter().map(episodes).collect(),
        }
    }
}

impl Explanation {
    /// Returns all waits and totals as data.
    #[must_use]
    pub fn data(&self) -> ExplainedWaits {
        let service =
            |of: &RequestTime| ServiceRequests { service: of.service.clone(), summary: WaitSummary::from(&of.summary) };
        ExplainedWaits {
            summary: WaitSummary::from(&self.summary),
            requests: self.requests.iter().map(service).collect(),
            waits: self.waits.iter().map(|wait| self.wait(wait)).collect(),
        }
    }

    /// Returns a row per variant, wait and cause, the longest wait and the longest cause first.
    #[must_use]
    pub fn frame(variants: &[(&str, &Self)]) -> Frame {
        struct CauseRow<'e> {
            variant: &'e str,
            of: &'e Explanation,
            rank: usize,
            wait: &'e Explained,
            cause: &'e (Chain, zerolag_model::Duration),
        }
        let mut lines = Vec::new();
        for (variant, of) in variants {
            for (rank, wait) in (1..).zip(&of.waits) {
                lines.extend(wait.causes.iter().map(|cause| CauseRow { variant, of, rank, wait, cause }));
            }
        }
        Of::new("explain", &lines)
            .text("variant", |line| line.variant.into())
            .u64("wait", |line| line.rank as u64)
            .u64("task", |line| line.wait.task.0.into())
            .text("task_name", |line| line.of.names.task(line.wait.task).into())
            .u64("from_ns", |line| line.wait.from.as_nanos())
            .u64("to_ns", |line| line.wait.to.as_nanos())
            .u64("length_ns", |line| line.wait.length().as_nanos())
            .u64("in_gaps_ns", |line| line.wait.in_gaps.as_nanos())
            .u64("time_ns", |line| line.cause.1.as_nanos())
            .text("says", |line| line.of.clause(&line.cause.0).into())
            .done()
    }

    fn wait(&self, wait: &Explained) -> ExplainedWait {
        let cause = |(chain, time): &(Chain, zerolag_model::Duration)| WaitCause {
            time_ns: time.as_nanos(),
            says: self.clause(chain),
            chain: chain.iter().map(|cause| self.link(*cause)).collect(),
        };
        ExplainedWait {
            task: self.named(wait.task),
            from_ns: wait.from.as_nanos(),
            to_ns: wait.to.as_nanos(),
            length_ns: wait.length().as_nanos(),
            in_gaps_ns: (!wait.in_gaps.is_zero()).then(|| wait.in_gaps.as_nanos()),
            causes: wait.causes.iter().map(cause).collect(),
            policy: wait
                .places()
                .into_iter()
                .map(|(time, says)| PolicyPlace { time_ns: time.as_nanos(), says })
                .collect(),
        }
    }

    fn named(&self, task: TaskId) -> NamedTask {
        NamedTask { id: task.0, name: self.names.task(task) }
    }

    fn path(&self, group: GroupId) -> NamedGroup {
        NamedGroup { id: group.0, path: self.names.group(group) }
    }

    fn link(&self, cause: Cause) -> Link {
        match cause {
            Cause::Behind { cpu, task, bound, why } => {
                Link::Behind { cpu: cpu.0, task: self.named(task), bound, why: why.into() }
            }
            Cause::Switch { cpu } => Link::Switch { cpu: cpu.0 },
            Cause::Interrupt { cpu } => Link::Interrupt { cpu: cpu.0 },
            Cause::KeptOff { cpu } => Link::KeptOff { cpu: cpu.0 },
            Cause::Moved { cpu } => Link::Moved { cpu: cpu.0 },
            Cause::Throttled { group, cpu, since } => {
                Link::Throttled { group: self.path(group), cpu: cpu.0, since_ns: since.as_nanos() }
            }
            Cause::RtThrottled { cpu, group } => {
                Link::RtThrottled { cpu: cpu.0, group: group.map(|group| self.path(group)) }
            }
            Cause::Budget { until } => Link::Budget { until_ns: until.as_nanos() },
            Cause::Lock { lock, holder } => Link::Lock {
                lock,
                name: self.names.locks.get(&lock).cloned(),
                holder: holder.map(|holder| self.named(holder)),
            },
            Cause::Runs { cpu, irq } => Link::Runs { cpu: cpu.0, in_interrupt: irq },
            Cause::Sleeps => Link::Sleeps,
            Cause::Waking => Link::Waking,
            Cause::Circle => Link::Circle,
            Cause::Unknown => Link::Unknown,
        }
    }
}
