//! [`Outcome`]: how a run ended. [`SimError`]: why it could not begin, or broke off.

use std::fmt;
use std::sync::Arc;
use zerolag_core::{ConfigError, GroupError, RtBandwidthError, ServerError, TaskError};
use zerolag_model::{CpuId, Duration, Instant, RtBandwidth};
use zerolag_policy::ExitInfo;
use zerolag_workload::program::GroupWeight;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When it ended.
    pub end: Instant,
    /// Why it ended.
    pub why: End,
    /// Its counts.
    pub stats: Stats,
    /// Tasks that waited for other tasks when nothing could happen any more, although the duration
    /// was not over. This is not a failure: a workload of given duration can end so, as rt-app's
    /// do.
    pub left_waiting: Vec<Wait>,
    /// Why the policy of `sched_ext` was unloaded, if it was: its tasks went on as fair ones. This
    /// is not a failure of the run.
    pub policy_exit: Option<Box<ExitInfo>>,
    /// What the kernel refused while the run went on (`on_refused = "continue"`).
    pub refused: Refused,
}

impl Outcome {
    /// Returns what was refused: the first refusals while the run went on, and the one that ended
    /// it.
    pub fn refusals(&self) -> impl Iterator<Item = &SimError> {
        let last = if let End::Failed(error) = &self.why { Some(error) } else { None };
        self.refused.first.iter().map(|(_, error)| error).chain(last)
    }
}

/// What the kernel refused, and how often.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Refused {
    /// The first [`Self::KEPT`], each with its time.
    pub first: Vec<(Instant, SimError)>,
    /// The number of all.
    pub count: u64,
}

impl Refused {
    /// How many are kept: a program can ask for the same without end.
    pub const KEPT: usize = 100;

    pub(crate) fn note(&mut self, at: Instant, error: SimError) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push((at, error));
        }
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The duration was over.
    Duration,
    /// Every task ended.
    Finished,
    /// The caller that follows its progress ended it.
    Interrupted,
    /// These tasks wait for each other in a circle.
    Deadlock(Vec<Wait>),
    /// Every task that has not ended waits, and nothing will end a wait.
    Stuck(Vec<Wait>),
    /// A CPU did not leave IPI and lock work: it could serve no timer for longer than
    /// `watchdog_thresh`.
    Lockup {
        /// The CPU.
        cpu: CpuId,
        /// When that work began.
        since: Instant,
        /// How long it had taken when that was noticed.
        stretch: Duration,
    },
    /// This task repeats its program without ever spending time.
    NoProgress(Arc<str>),
    /// Simulated time stays at an instant although events follow each other: a fault of the
    /// simulator, or an overhead of zero where something repeats without end.
    NoTime {
        /// The CPU that does not come to rest, if it is one alone.
        cpu: Option<CpuId>,
        /// The instant.
        at: Instant,
    },
    /// This task forked when [`FORKED_MAX`] forked tasks had not ended: a fork bomb, or a build far
    /// beyond the machine.
    TooManyForks(Arc<str>),
    /// A task gave back a lock that it does not hold.
    NotHeld {
        /// The task.
        task: Arc<str>,
        /// The lock.
        resource: Arc<str>,
    },
    /// A task or group could not be created or changed during the run.
    Failed(SimError),
}

/// The most tasks that may live in addition to those that the program starts with: as many as Linux
/// has process ids (`PID_MAX_DEFAULT`).
pub const FORKED_MAX: usize = 32_768;

impl End {
    /// Returns whether the run succeeded.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Duration | Self::Finished)
    }
}

/// A task that waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task.
    pub task: Arc<str>,
    /// The kind of resource that it waits for.
    pub what: &'static str,
    /// The name of the resource.
    pub resource: Arc<str>,
    /// The task that holds the resource, if one does.
    pub holder: Option<Arc<str>>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {} `{}`", self.task, self.what, self.resource)?;
        match &self.holder {
            Some(holder) => write!(f, ", held by {holder}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, waits: &[Wait]| {
            for wait in waits.iter().take(LISTED) {
                write!(f, "\n  {wait}")?;
            }
            match waits.len().saturating_sub(LISTED) {
                0 => Ok(()),
                more => write!(f, "\n  and {more} more"),
            }
        };
        match self {
            Self::Duration => f.write_str("the duration was over"),
            Self::Finished => f.write_str("every task ended"),
            Self::Interrupted => f.write_str("the run was interrupted"),
            Self::Deadlock(waits) => {
                f.write_str("deadlock:")?;
                list(f, waits)
            }
            Self::Stuck(waits) => {
                f.write_str("nothing can happen any more:")?;
                list(f, waits)
            }
            Self::TooManyForks(task) => write!(
                f,
                "task {task} forks without end: {FORKED_MAX} tasks beyond those at the start have not ended (on Linux its \
                 fork would fail with EAGAIN)"
            ),
            Self::Lockup { cpu, since, stretch } => write!(
                f,
                "lockup: cpu {cpu} has been in IPI and lock work for {stretch}, since {since} (watchdog_thresh)"
            ),
            Self::NoProgress(task) => {
                write!(f, "task {task} goes round its program without ever spending time")
            }
            Self::NoTime { cpu, at } => {
                match cpu {
                    Some(cpu) => write!(f, "cpu {cpu} does not come to rest at {at}")?,
                    None => write!(f, "the CPUs do not come to rest at {at}")?,
                }
                f.write_str(": time does not pass there. This is a fault of the simulator; please report the scenario")
            }
            Self::NotHeld { task, resource } => {
                write!(f, "task {task} gives back `{resource}`, which it does not hold")
            }
            Self::Failed(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// How many waits a message lists.
const LISTED: usize = 20;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events of the machine's queue.
    pub events: u64,
    /// Ticks of all CPUs.
    pub ticks: u64,
    /// Switches to another task or to idle.
    pub switches: u64,
    /// Tasks that were woken or started.
    pub wakeups: u64,
    /// Computations that ended.
    pub completions: u64,
    /// IPIs sent, reschedules included.
    pub ipis: u64,
    /// Requests for RT pushes; one to a CPU whose interrupt is already on its way sends none.
    pub rt_ipis: u64,
    /// Accesses to the state of root domains' IPIs.
    pub rto_accesses: u64,
    /// The longest time that a CPU was in IPI and lock work without being free for a timer.
    pub ipi_stretch: Duration,
    /// Times a CPU had to wait for a run-queue lock.
    pub lock_waits: u64,
    /// Tasks moved by balancing, RT or fair.
    pub migrations: u64,
    /// Rounds of RT balancing: zero without RT overload.
    pub rt_balance: u64,
}

/// Why a run cannot begin, or broke off.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SimError {
    /// Cpusets do not fit the machine.
    Config(ConfigError),
    /// A task cannot be created or changed.
    Task {
        /// Its name.
        name: Arc<str>,
        /// The path of the group that the error is about, if it is about one.
        group: Option<Arc<str>>,
        /// Why.
        error: TaskError,
    },
    /// A group's weight is out of range.
    GroupWeight {
        /// Its path.
        path: Arc<str>,
        /// The weight.
        weight: GroupWeight,
    },
    /// A deadline server cannot be set to these parameters.
    Server {
        /// The CPU of the server.
        cpu: CpuId,
        /// Why.
        error: ServerError,
    },
    /// The bandwidth of real-time tasks cannot be set to this.
    RtBandwidth {
        /// The bandwidth.
        bandwidth: RtBandwidth,
        /// The path of the group that has more, if that is why.
        group: Option<Arc<str>>,
        /// Why.
        error: RtBandwidthError,
    },
    /// A policy is to be loaded while another one is.
    PolicyLoaded,
    /// A group cannot be created or changed.
    Group {
        /// Its path.
        path: Arc<str>,
        /// The path of the group above that has too little left, if that is why.
        above: Option<Arc<str>>,
        /// Why.
        error: GroupError,
    },
    /// A group does not take a task.
    GroupRefuses {
        /// The task's name.
        name: Arc<str>,
        /// The group's path.
        path: Arc<str>,
        /// Why.
        error: GroupError,
    },
    /// A task is to be in a group that does not exist.
    NoGroup {
        /// The task's name.
        name: Arc<str>,
        /// The group's path.
        path: Arc<str>,
    },
    /// A task is to be created on a CPU that the machine does not have.
    NoCpu {
        /// The task's name.
        name: Arc<str>,
        /// The CPU.
        cpu: CpuId,
    },
    /// A group is to be made that exists already: it was not removed, or its tasks have not ended
    /// yet.
    GroupThere {
        /// Its path.
        path: Arc<str>,
    },
}

impl SimError {
    /// Returns the table of a scenario that asks for what is refused: its kind, and its name.
    #[must_use]
    pub fn subject(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Task { name, .. }
            | Self::GroupRefuses { name, .. }
            | Self::NoGroup { name, .. }
            | Self::NoCpu { name, .. } => Some(("task", name)),
            Self::Group { path, .. } | Self::GroupWeight { path, .. } | Self::GroupThere { path } => {
                Some(("group", path))
            }
            Self::Config(_) | Self::Server { .. } | Self::RtBandwidth { .. } | Self::PolicyLoaded => None,
        }
    }

    /// Returns whether this is the answer of a call of the kernel, after which its caller can go
    /// on. Others are mistakes of a scenario, or have no meaning on a real machine.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Task { error, .. } => matches!(
                error,
                TaskError::DeadlineParams(..)
                    | TaskError::NotWholeDomain(..)
                    | TaskError::DeadlineAffinity(..)
                    | TaskError::NoBandwidth(..)
                    | TaskError::NoRtRuntime(..)
                    | TaskError::DeadlineForks(_)
            ),
            Self::Group { error, .. } => {
                matches!(error, GroupError::IsIdle(_) | GroupError::Rt(..) | GroupError::Max(_))
            }
            Self::Server { .. }
            | Self::RtBandwidth { .. }
            | Self::PolicyLoaded
            | Self::GroupRefuses { .. }
            | Self::NoGroup { .. }
            | Self::GroupThere { .. } => true,
            Self::Config(_) | Self::GroupWeight { .. } | Self::NoCpu { .. } => false,
        }
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => fmt::Display::fmt(error, f),
            Self::Task { name, group, error } => error.named(name, group.as_deref()).fmt(f),
            Self::GroupWeight { path, weight } => match weight {
                GroupWeight::Weight(weight) => {
                    write!(f, "group `{path}`: cpu.weight {weight} is outside 1..=10000")
                }
                GroupWeight::Shares(shares) => {
                    write!(f, "group `{path}`: cpu.shares {shares} is outside 2..=262144")
                }
                GroupWeight::Nice(nice) => {
                    write!(f, "group `{path}`: cpu.weight.nice {} is outside -20..=19", nice.value())
                }
            },
            Self::Server { cpu, error } => write!(f, "fair_server/cpu{cpu}: {error}"),
            Self::RtBandwidth { bandwidth: RtBandwidth { runtime: Some(runtime), period }, group, error } => {
                write!(f, "{runtime} in {period} for real-time tasks: {}", error.named(group.as_deref()))
            }
            Self::RtBandwidth { bandwidth: RtBandwidth { runtime: None, .. }, group, error } => {
                write!(f, "no limit for real-time tasks: {}", error.named(group.as_deref()))
            }
            Self::Group { path, above, error } => error.named(path, above.as_deref()).fmt(f),
            Self::GroupRefuses { name, path, error } => {
                write!(f, "task `{name}` cannot join group `{path}`: {}", error.named(path, None))
            }
            Self::PolicyLoaded => {
                f.write_str("sched_ext: a scheduler is loaded already (EBUSY); unload it before: sched_ext = \"off\"")
            }
            Self::NoGroup { name, path } => write!(f, "task `{name}`: group `{path}` is not there (ENOENT)"),
            Self::NoCpu { name, cpu } => {
                write!(f, "task `{name}` cannot be created on CPU {cpu}, which does not exist")
            }
            Self::GroupThere { path } => {
                write!(f, "group `{path}` is still there: not all of its tasks have ended (EEXIST)")
            }
        }
    }
}

impl std::error::Error for SimError {}

impl From<ConfigError> for SimError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
