//! [`Meta`]: the description of the run in a trace.
//!
//! It contains everything that a reader needs to judge a trace and that no record contains: the
//! origin, the machine and settings, the start and end, and the number of missing events.

use core::fmt;
use std::sync::Arc;
use zerolag_model::{CpuId, Duration, Instant, KernelVersion, Settings, TaskId, Topology};

/// The origin of a trace. It decides which properties a reader may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The simulator: complete from its first instant, every CPU idle at the start.
    Simulation,
    /// The in-process runtime.
    Runtime,
    /// A run on a kernel, recorded by zerolag: task affinities and policies are known.
    Linux,
    /// A recording by a kernel's tools (text, `perf.data`, Perfetto): it begins in the middle of a
    /// run and does not contain affinities.
    Text,
}

impl Source {
    /// Every source, in the order of the format's numbers.
    pub const ALL: [Self; 4] = [Self::Simulation, Self::Runtime, Self::Linux, Self::Text];

    /// Returns the name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulation => "simulation",
            Self::Runtime => "runtime",
            Self::Linux => "linux",
            Self::Text => "text",
        }
    }

    /// Returns whether the trace shows every event from the machine's first instant on. If not, the
    /// state of a CPU or a task before its first event is unknown.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        match self {
            Self::Simulation => true,
            Self::Runtime | Self::Linux | Self::Text => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The known properties of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Machine {
    /// Its complete topology.
    Known(Topology),
    /// Only the number of CPUs.
    Cpus(u32),
}

impl Machine {
    /// Returns the number of CPUs.
    #[must_use]
    pub const fn nr_cpus(&self) -> usize {
        match self {
            Self::Known(topology) => topology.nr_cpus(),
            Self::Cpus(cpus) => *cpus as usize,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(topology) => fmt::Display::fmt(topology, f),
            Self::Cpus(1) => f.write_str("1 CPU"),
            Self::Cpus(cpus) => write!(f, "{cpus} CPUs"),
        }
    }
}

/// The description of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The program and version that recorded it: `zerolag 0.1.0`.
    pub producer: String,
    /// Its origin.
    pub source: Source,
    /// The seed of the run, if it had one.
    pub seed: Option<u64>,
    /// The kernel preset (`6.12`) or, for a recorded run, the kernel's release; empty if unknown.
    pub kernel: String,
    /// The name of the cost profile (`zero`, `default`); empty if it does not apply.
    pub costs: String,
    /// The machine.
    pub machine: Machine,
    /// Settings as key and value, in the order of their table.
    pub settings: Vec<(String, String)>,
    /// The start of the trace: zero unless it was recorded on a running machine.
    pub start: Instant,
    /// The end of the trace: at or after the last record.
    pub end: Instant,
    /// Events that the recorder dropped.
    pub lost_events: u64,
    /// What a recording by a kernel's tools contains besides events; empty for all other traces.
    pub recorded: Recorded,
}

/// What a recording by a kernel's tools contains besides events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// The format that it was read from, for headings: `perf.data`; empty if that is not known.
    pub format: String,
    /// The threads, in order of task.
    pub threads: Vec<Thread>,
    /// Where events of a CPU are missing, in order of their start.
    pub gaps: Vec<Gap>,
    /// The part of the file that could not be read, if it is cut off: a sentence.
    pub dropped: Option<String>,
    /// The parts that were left out, by kind.
    pub skipped: Vec<Skipped>,
    /// Which task woke which, and by what, in this order.
    pub wakings: Vec<Wakings>,
    /// What tasks sent to sockets and received from them, in order of time; of a longer recording
    /// the first 2^20.
    pub messages: Vec<Message>,
    /// By number of the socket, the one at the other end, if it is known.
    pub peers: Vec<Option<u32>>,
}

/// Bytes that a task has sent to a socket, or received from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// When the call was done.
    pub at: Instant,
    /// The task that called.
    pub task: TaskId,
    /// The number of the socket in this recording, from 0.
    pub socket: u32,
    /// How many bytes; at least one.
    pub bytes: u32,
    /// Sent, else received.
    pub is_sent: bool,
}

/// Parts of a recording of one kind that were left out: they are no events, or contradict all
/// others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The kind, in the plural.
    pub what: String,
    /// How many there are.
    pub count: u64,
    /// The place of the first one.
    pub first: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out: {}: {}, the first: {}", self.what, self.count, self.first)
    }
}

/// How often a task was woken by another one, or by something else, and by what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakings {
    /// The task that woke it; `None` for an interrupt, an idle CPU, or if it is not known.
    pub waker: Option<TaskId>,
    /// The task that was woken.
    pub woken: TaskId,
    /// By what.
    pub means: Means,
    /// How often.
    pub count: u64,
}

/// By what a task was woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Means {
    /// The recording does not tell: it has neither stacks nor system calls.
    #[default]
    Unknown,
    /// A futex: a lock, a condition, a semaphore or a join of user space.
    Futex,
    /// Bytes in a pipe.
    Pipe,
    /// Data, or a connection, of a socket.
    Socket,
    /// Room in a pipe or socket that was full: the reader wakes the writer.
    Room,
    /// An `eventfd`.
    Event,
    /// A signal.
    Signal,
    /// The end of a thread or a process.
    Exit,
    /// A timer, or the end of a sleep.
    Timer,
    /// A disk.
    Disk,
    /// Something else within the kernel: a work queue, a lock, RCU.
    Kernel,
}

impl Means {
    /// Every one, in the order of the format's numbers.
    pub const ALL: [Self; 11] = [
        Self::Unknown,
        Self::Futex,
        Self::Pipe,
        Self::Socket,
        Self::Room,
        Self::Event,
        Self::Signal,
        Self::Exit,
        Self::Timer,
        Self::Disk,
        Self::Kernel,
    ];

    /// Returns the name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Room => "room",
            Self::Event => "eventfd",
            Self::Signal => "signal",
            Self::Exit => "exit",
            Self::Timer => "timer",
            Self::Disk => "disk",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Recorded {
    /// Returns the thread of a task.
    #[must_use]
    pub fn thread(&self, task: TaskId) -> Option<&Thread> {
        self.threads.get(task.index())
    }
}

/// The thread of a kernel that a task is. Linux calls the first of these ids `pid` in trace points
/// and tables of the scheduler, and the second `tgid`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its thread id.
    pub tid: u32,
    /// Its process id, if the recording contains it.
    pub pid: Option<u32>,
    /// The name of its process, if the recording contains it: that of the process's first thread.
    pub process: Option<Arc<str>>,
    /// The group of cgroup v2 that it was moved to last, or that its parent was in when it was
    /// forked, if the recording shows a move (`cgroup_attach_task`); `/` is the root.
    pub group: Option<Arc<str>>,
    /// The groups of cgroup v1 that it, or a task that forked it, was moved to, in that order. Each
    /// is of one of several hierarchies, and the event does not tell of which controller.
    pub groups_v1: Vec<Arc<str>>,
    /// The CPU time that the scheduler has charged it (`sched_stat_runtime`); `None` if the
    /// recording has no such events. Too low where events were lost.
    pub charged: Option<Duration>,
}

/// An interval from which events of a CPU are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The CPU that recorded the missing events.
    pub cpu: CpuId,
    /// The last event of the CPU before.
    pub from: Instant,
    /// The first event of the CPU after.
    pub until: Instant,
    /// The number of missing events; 0 if the recorder does not tell.
    pub events: u64,
}

/// How the keys of locks' names begin.
const LOCK: &str = "lock.";

impl Meta {
    /// Returns the name of its origin in headings: of a recording, the format that was read.
    #[must_use]
    pub fn origin(&self) -> &str {
        if self.recorded.format.is_empty() { self.source.name() } else { &self.recorded.format }
    }

    /// Returns the description of a run that has not started: no seed, no settings, from zero to
    /// zero.
    #[must_use]
    pub fn new(source: Source, machine: Machine) -> Self {
        Self {
            producer: concat!("zerolag ", env!("CARGO_PKG_VERSION")).to_owned(),
            source,
            seed: None,
            kernel: String::new(),
            costs: String::new(),
            machine,
            settings: Vec::new(),
            start: Instant::ZERO,
            end: Instant::ZERO,
            lost_events: 0,
            recorded: Recorded::default(),
        }
    }

    /// Returns the settings of the run. A setting that the trace does not contain has the value of
    /// the trace's kernel, or of [`Settings::default`] if that is not known.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = KernelVersion::of_release(&self.kernel).unwrap_or_default().settings();
        for (key, value) in &self.settings {
            // An unknown key or value, of another version, is treated as missing.
            let _ = settings.set(key, value);
        }
        settings
    }

    /// Returns the value of a setting, if the trace contains it.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the entry of `settings` that names a lock of the workload. Events name locks by
    /// number; a name is no setting, but it belongs to the description of the run as they do.
    #[must_use]
    pub fn lock_name(lock: u32, name: &str) -> (String, String) {
        (format!("{LOCK}{lock}"), name.to_owned())
    }

    /// Returns the locks of the workload and their names, as far as the trace contains them.
    pub fn locks(&self) -> impl Iterator<Item = (u32, &str)> {
        let lock = |key: &str| key.strip_prefix(LOCK)?.parse().ok();
        self.settings.iter().filter_map(move |(key, name)| Some((lock(key)?, &**name)))
    }
}
