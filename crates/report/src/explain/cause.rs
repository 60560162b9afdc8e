//! [`Cause`]: what keeps a task from running at an instant, and [`Names`]: its text.
//!
//! A task that waits behind one of its own rank has a plain reason: the other one has the turn. A
//! task that waits behind one of *lower* rank is the question that tools leave open, so that the
//! cause carries a [`Why`]: a deadline server runs the other task, the preemption model leaves it
//! alone in kernel mode, it has disabled preemption, or the CPU is on its way to switch.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::event::Disables;
use zerolag_model::{CpuId, GroupId, Instant, ServerKind, TaskId};
use zerolag_trace::Meta;

/// What keeps a task from running.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// It is queued where another task runs.
    Behind {
        /// The CPU.
        cpu: CpuId,
        /// The task that runs there.
        task: TaskId,
        /// Whether it may run on no other CPU.
        bound: bool,
        /// Why the CPU runs that task and not this one.
        why: Why,
    },
    /// It is queued on a CPU that runs no task: the CPU switches.
    Switch {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU serves an interrupt. The task is queued there and no task runs, or it has just been
    /// switched to.
    Interrupt {
        /// The CPU.
        cpu: CpuId,
    },
    /// It is queued on a CPU that idles, in a trace that does not give the reason: a limit of its
    /// group, or a late CPU.
    KeptOff {
        /// The CPU.
        cpu: CpuId,
    },
    /// It was migrated to a CPU that runs no task; that CPU switches.
    Moved {
        /// The target CPU.
        cpu: CpuId,
    },
    /// Its group, or one above, is throttled on its CPU.
    Throttled {
        /// The group with the limit.
        group: GroupId,
        /// The CPU.
        cpu: CpuId,
        /// Start of the throttling.
        since: Instant,
    },
    /// RT throttling: real-time tasks have used up their share of the period on its CPU.
    RtThrottled {
        /// The CPU.
        cpu: CpuId,
        /// The group whose real-time runtime is used up; `None` if it is that of the CPU.
        group: Option<GroupId>,
    },
    /// Its deadline budget is exhausted.
    Budget {
        /// The time of the next replenishment.
        until: Instant,
    },
    /// It is blocked on a lock.
    Lock {
        /// The lock.
        lock: u32,
        /// The holder; the next cause is about it. `None`: a device, or a task that has just been
        /// given the lock.
        holder: Option<TaskId>,
    },
    /// It runs: the end of a chain of holders.
    Runs {
        /// The CPU.
        cpu: CpuId,
        /// Whether the CPU is in an interrupt.
        irq: bool,
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

/// The kinds of causes that a reader looks for first; pictures colour waits by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Kind {
    /// A limit keeps the task off its CPU: a quota, RT throttling, a deadline budget.
    Throttled,
    /// Other tasks run where it is queued.
    Queued,
    /// It waits for a lock.
    Locked,
    /// Anything else: the CPU switches or serves an interrupt, or the trace does not say.
    #[default]
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Throttled, Self::Queued, Self::Locked, Self::Other];

    /// Returns its name in pages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Queued => "queued",
            Self::Locked => "locked",
            Self::Other => "other",
        }
    }
}

impl Cause {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Throttled { .. } | Self::RtThrottled { .. } | Self::Budget { .. } => Kind::Throttled,
            Self::Behind { .. } => Kind::Queued,
            Self::Lock { .. } | Self::Circle => Kind::Locked,
            Self::Switch { .. }
            | Self::Interrupt { .. }
            | Self::KeptOff { .. }
            | Self::Moved { .. }
            | Self::Runs { .. }
            | Self::Sleeps
            | Self::Waking
            | Self::Unknown => Kind::Other,
        }
    }

    /// Returns the CPU that it is about, if it is about one.
    pub(super) const fn cpu(self) -> Option<CpuId> {
        match self {
            Self::Behind { cpu, .. }
            | Self::Switch { cpu }
            | Self::Interrupt { cpu }
            | Self::KeptOff { cpu }
            | Self::Moved { cpu }
            | Self::Throttled { cpu, .. }
            | Self::RtThrottled { cpu, .. }
            | Self::Runs { cpu, .. } => Some(cpu),
            Self::Budget { .. } | Self::Lock { .. } | Self::Sleeps | Self::Waking | Self::Circle | Self::Unknown => {
                None
            }
        }
    }
}

/// Why a CPU runs another task than the waiting one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Why {
    /// The other task ranks higher, or is an equal that has the turn.
    Rank,
    /// The other task ranks higher, and the deadline server of the waiting task's class waits to
    /// see whether the class gets its share without it.
    Defers {
        /// The server.
        server: ServerKind,
        /// The latest time at which the server starts.
        until: Instant,
    },
    /// The other task ranks higher, and the deadline server of the waiting task's class has no
    /// runtime left.
    Exhausted {
        /// The server.
        server: ServerKind,
        /// The time of its next replenishment.
        until: Instant,
    },
    /// The other task ranks lower: a deadline server of the CPU runs it.
    Served {
        /// The server.
        server: ServerKind,
    },
    /// The other task is in kernel mode, where the preemption model does not interrupt it.
    InKernel {
        /// The preemption model.
        model: Sparing,
    },
    /// The other task has disabled preemption or interrupts.
    Disabled {
        /// What it disabled.
        disables: Disables,
    },
    /// The other task ranks lower, and its CPU serves an interrupt.
    Interrupted,
    /// The other task ranks lower, and its CPU has been asked to switch.
    Switching,
    /// The other task ranks lower; the trace does not say why it runs.
    Unknown,
}

/// A preemption model (`preempt`) that spares tasks in kernel mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sparing {
    /// `none`.
    None,
    /// `voluntary`: up to the next explicit point.
    Voluntary,
    /// `lazy`: from fair tasks, up to the next tick.
    Lazy,
}

impl Sparing {
    /// Returns the model of a value of `preempt`, if it spares kernel mode.
    #[must_use]
    pub fn of(preempt: &str) -> Option<Self> {
        match preempt {
            "none" => Some(Self::None),
            "voluntary" => Some(Self::Voluntary),
            "lazy" => Some(Self::Lazy),
            _ => None,
        }
    }

    /// Returns the value of `preempt`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Voluntary => "voluntary",
            Self::Lazy => "lazy",
        }
    }
}

/// Names of tasks, groups and locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) tasks: BTreeMap<TaskId, Arc<str>>,
    /// The thread ids of a kernel's recording, in order of task.
    pub(super) tids: Vec<u32>,
    pub(super) groups: BTreeMap<GroupId, Arc<str>>,
    pub(super) locks: BTreeMap<u32, String>,
}

/// Whether a clause contains start times, and whether it names CPUs, locks and instances of tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dated {
    Yes,
    /// Neither: equal for causes that a reader counts as one.
    Alike,
}

impl Names {
    /// Returns what a trace's description names.
    pub(super) fn new(meta: &Meta) -> Self {
        let tids = meta.recorded.threads.iter().map(|thread| thread.tid).collect();
        Self { tids, locks: meta.locks().map(|(lock, name)| (lock, name.to_owned())).collect(), ..Self::default() }
    }

    pub(super) fn task(&self, task: TaskId) -> String {
        match (self.tasks.get(&task), self.tids.get(task.index())) {
            (None, _) => format!("task {task}"),
            (Some(name), None) => name.to_string(),
            (Some(name), Some(tid)) => format!("{name} (tid {tid})"),
        }
    }

    /// Returns the name that a task shares with the other instances of its definition; in a
    /// recording, with threads of its name.
    pub(super) fn kind_of(&self, task: TaskId) -> String {
        let Some(name) = self.tasks.get(&task) else { return self.task(task) };
        if self.tids.get(task.index()).is_some() {
            return name.to_string();
        }
        let base = name.rsplit_once('-').filter(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()));
        base.map_or_else(|| name.to_string(), |(base, _)| format!("{base}-*"))
    }

    pub(super) fn group(&self, group: GroupId) -> String {
        self.groups.get(&group).map_or_else(|| format!("group {group}"), ToString::to_string)
    }

    /// Returns the name of a lock: the workload's own, or its number.
    pub(super) fn lock(&self, lock: u32) -> String {
        self.locks.get(&lock).map_or_else(|| format!("lock {lock}"), |name| format!("lock `{name}`"))
    }

    /// Returns a chain as a clause.
    pub(super) fn text(&self, chain: &[Cause], dated: Dated) -> String {
        let links: Vec<String> = chain.iter().map(|cause| self.link(*cause, dated)).collect();
        links.join(", which ")
    }

    fn link(&self, cause: Cause, dated: Dated) -> String {
        let at = |cpu| CpuClause(cpu, dated);
        let name = |task| if dated == Dated::Yes { self.task(task) } else { self.kind_of(task) };
        match cause {
            Cause::Behind { cpu, task, bound, why } => {
                let bound = if bound { ", bound to it" } else { "" };
                let (task, server) = (name(task), ServerClause(why, dated));
                format!("is queued behind {task}{} on {}{bound}{server}", TaskClause(why), at(cpu))
            }
            Cause::Switch { cpu } => format!("is being switched to on {}", at(cpu)),
            Cause::Interrupt { cpu } => format!("is kept by an interrupt on {}", at(cpu)),
            Cause::KeptOff { cpu } => {
                format!("is queued on {}, which idles: kept off by a limit, or not served yet", at(cpu))
            }
            Cause::Moved { cpu } => format!("has been moved to {}, which is switching to it", at(cpu)),
            Cause::Throttled { group, cpu, since } => match dated {
                Dated::Yes => format!("is throttled in {} on {} since {since}", self.group(group), at(cpu)),
                Dated::Alike => format!("is throttled in {} on {}", self.group(group), at(cpu)),
            },
            Cause::RtThrottled { cpu, group: None } => format!("is kept by RT throttling on {}", at(cpu)),
            Cause::RtThrottled { cpu, group: Some(group) } => {
                format!("is throttled: {} has used its real-time runtime on {}", self.group(group), at(cpu))
            }
            Cause::Budget { until } => match dated {
                Dated::Yes => format!("has no deadline budget until {until}"),
                Dated::Alike => "has no deadline budget".to_owned(),
            },
            Cause::Lock { lock, holder } => {
                let holder = holder.map_or_else(|| "no task".to_owned(), name);
                format!("waits for {} held by {holder}", self.lock(lock))
            }
            Cause::Runs { cpu, irq: false } => format!("runs on {}", at(cpu)),
            Cause::Runs { cpu, irq: true } => format!("is interrupted on {}", at(cpu)),
            Cause::Sleeps => "sleeps".to_owned(),
            Cause::Waking => "is being woken".to_owned(),
            Cause::Circle => "waits for it: a circle".to_owned(),
            Cause::Unknown => "is in a state that the trace does not show".to_owned(),
        }
    }
}

/// A CPU in a clause.
struct CpuClause(CpuId, Dated);

impl fmt::Display for CpuClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Dated::Yes => write!(f, "cpu{}", self.0),
            Dated::Alike => f.write_str("its CPU"),
        }
    }
}

/// A reason that is about the other task, behind its name.
struct TaskClause(Why);

impl fmt::Display for TaskClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Why::Rank | Why::Defers { .. } | Why::Exhausted { .. } => Ok(()),
            Why::Served { server } => write!(f, " (run by {})", server.name()),
            Why::InKernel { model } => write!(f, " (in kernel mode, preempt = {})", model.name()),
            Why::Disabled { disables } => write!(f, " ({} disabled)", disables.name()),
            Why::Interrupted => f.write_str(" (in an interrupt)"),
            Why::Switching => f.write_str(" (asked to switch)"),
            Why::Unknown => f.write_str(" (of lower rank, for a reason that the trace does not show)"),
        }
    }
}

/// A reason that is about the server of the waiting task, behind the name of the CPU.
struct ServerClause(Why, Dated);

impl fmt::Display for ServerClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, does, until) = match self.0 {
            Why::Defers { server, until } => (server, "defers", until),
            Why::Exhausted { server, until } => (server, "has no runtime left", until),
            _ => return Ok(()),
        };
        write!(f, ", where {} {does}", server.name())?;
        match self.1 {
            Dated::Yes => write!(f, " until {until}"),
            Dated::Alike => Ok(()),
        }
    }
}
