//! How a run ended, and why one cannot begin.

use std::fmt;
use std::sync::Arc;
use zerolag_core::{ConfigError, GroupError, RtBandwidthError, ServerError, TaskError};
use zerolag_model::{CpuId, Duration, Instant, RtBandwidth};
use zerolag_workload::program::GroupWeight;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When.
    pub end: Instant,
    /// Why.
    pub why: End,
    /// What was counted.
    pub stats: Stats,
    /// Who was left waiting for what would never come, when that was so before the duration was over. Not a failure: a
    /// workload of given duration ends by it, as rt-app's do.
    pub left_waiting: Vec<Wait>,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The duration was over.
    Duration,
    /// Every task ended.
    Finished,
    /// Whoever watched the run ended it.
    Interrupted,
    /// These tasks wait for each other in a circle.
    Deadlock(Vec<Wait>),
    /// Every task that is left waits for something that will never come.
    Stuck(Vec<Wait>),
    /// A CPU did not leave IPI and lock work: no timer could be served there for longer than `watchdog_thresh`.
    Lockup {
        /// Which.
        cpu: CpuId,
        /// Since when.
        since: Instant,
        /// For how long, when it was noticed.
        stretch: Duration,
    },
    /// This task goes round its program without ever spending time.
    NoProgress(Arc<str>),
    /// This task forked one more when there were already [`FORKED_MAX`] that had not ended: a fork bomb, or a build far beyond
    /// the machine.
    TooManyForks(Arc<str>),
    /// A task gave back what it does not hold.
    NotHeld {
        /// Who.
        task: Arc<str>,
        /// What.
        resource: Arc<str>,
    },
    /// A task or group could not be created or changed in the middle of the run.
    Failed(SimError),
}

/// The most tasks that may live beside those that the program starts with: as many as Linux has process ids
/// (`PID_MAX_DEFAULT`).
pub const FORKED_MAX: usize = 32_768;

impl End {
    /// Returns whether the run is to be called a success.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Duration | Self::Finished)
    }
}

/// Who waits for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub task: Arc<str>,
    /// For what kind of thing.
    pub what: &'static str,
    /// Its name.
    pub resource: Arc<str>,
    /// Who has it, if somebody does.
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
            Self::NotHeld { task, resource } => {
                write!(f, "task {task} gives back `{resource}`, which it does not hold")
            }
            Self::Failed(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// How many waits a message lists.
const LISTED: usize = 20;

/// What a run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events of the machine's queue.
    pub events: u64,
    /// Ticks.
    pub ticks: u64,
    /// Switches to another task or to idle.
    pub switches: u64,
    /// Tasks that were woken or started.
    pub wakeups: u64,
    /// Computations that ended.
    pub completions: u64,
    /// IPIs sent, reschedules included.
    pub ipis: u64,
    /// Requests for RT pushes; those to a CPU that has an interrupt on its way already send none.
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
    /// A task cannot be.
    Task {
        /// Its name.
        name: Arc<str>,
        /// Why.
        error: TaskError,
    },
    /// A group's weight is out of range.
    GroupWeight {
        /// Its path.
        path: Arc<str>,
        /// What was asked for.
        weight: GroupWeight,
    },
    /// A deadline server cannot be set so.
    Server {
        /// Whose.
        cpu: CpuId,
        /// Why.
        error: ServerError,
    },
    /// What real-time tasks may run cannot be set so.
    RtBandwidth {
        /// What was asked for.
        bandwidth: RtBandwidth,
        /// Why.
        error: RtBandwidthError,
    },
    /// A group cannot be.
    Group {
        /// Its path.
        path: Arc<str>,
        /// Why.
        error: GroupError,
    },
    /// A task wants to be in a group that is not there.
    NoGroup {
        /// The task's name.
        name: Arc<str>,
        /// The group's path.
        path: Arc<str>,
    },
    /// A group is to be made that is there already, or that is to go and whose tasks have not ended yet.
    GroupThere {
        /// Its path.
        path: Arc<str>,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => fmt::Display::fmt(error, f),
            Self::Task { name, error } => write!(f, "task `{name}`: {error}"),
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
            Self::RtBandwidth { bandwidth: RtBandwidth { runtime: Some(runtime), period }, error } => {
                write!(f, "{runtime} in {period} for real-time tasks: {error}")
            }
            Self::RtBandwidth { bandwidth: RtBandwidth { runtime: None, .. }, error } => {
                write!(f, "no limit for real-time tasks: {error}")
            }
            Self::Group { path, error } => write!(f, "group `{path}`: {error}"),
            Self::NoGroup { name, path } => write!(f, "task `{name}`: group `{path}` is not there (ENOENT)"),
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
