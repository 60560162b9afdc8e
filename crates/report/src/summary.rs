//! [`Summary`]: the figures of a run.

use std::sync::Arc;
use zerolag_model::attr::{DlFlags, Nice, Prio, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    ClassId, CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, LayerTimes, MigrateReason, Policy, TaskId,
};
use zerolag_trace::Meta;
use zerolag_trace::replay::WaitCause;

/// The figures of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// What the trace says about itself.
    pub meta: Meta,
    /// How long the trace is.
    pub elapsed: Duration,
    /// Per task, in order of id.
    pub tasks: Vec<TaskSummary>,
    /// Per CPU, in order of id.
    pub cpus: Vec<CpuSummary>,
    /// Per service.
    pub services: Vec<ServiceSummary>,
    /// Per task group, in order of id; the root is not among them.
    pub groups: Vec<GroupSummary>,
    /// Moves between run queues.
    pub migrations: Migrations,
    /// Switches from one task (or idle) to another.
    pub switches: u64,
    /// Records that the figures were made of.
    pub records: u64,
    /// The longest waits, the longest first.
    pub worst_waits: Vec<Wait>,
}

impl Summary {
    /// Returns a task's figures by its name, the first if several bear it.
    #[must_use]
    pub fn task_by_name(&self, name: &str) -> Option<&TaskSummary> {
        self.tasks.iter().find(|task| &*task.name == name)
    }

    /// Returns the figures of a task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&TaskSummary> {
        let at = self.tasks.binary_search_by_key(&id, |task| task.task).ok()?;
        self.tasks.get(at)
    }

    /// Returns a service's figures by its name.
    #[must_use]
    pub fn service_by_name(&self, name: &str) -> Option<&ServiceSummary> {
        self.services.iter().find(|service| &*service.name == name)
    }

    /// Returns a group's figures by its path.
    #[must_use]
    pub fn group_by_path(&self, path: &str) -> Option<&GroupSummary> {
        self.groups.iter().find(|group| &*group.path == path)
    }

    /// Returns the time that all CPUs together were idle, and the time that there was.
    #[must_use]
    pub fn idle(&self) -> (Duration, Duration) {
        let idle = self.cpus.iter().fold(Duration::ZERO, |sum, cpu| sum.saturating_add(cpu.idle));
        (idle, self.elapsed.mul_div_floor(self.cpus.len() as u64, 1))
    }
}

/// The figures of one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSummary {
    /// Which.
    pub task: TaskId,
    /// Its name.
    pub name: Arc<str>,
    /// What it asked for during most of its run time.
    pub attr: SchedAttr,
    /// Time between being switched to and being switched from.
    pub run: Duration,
    /// CPU time charged by the scheduler, if the trace says it: interrupts and the scheduler's own path are not in it.
    pub exec: Option<Duration>,
    /// Times it was woken.
    pub activations: u64,
    /// Times it was switched to.
    pub switches_in: u64,
    /// Times the CPU was taken from it, or it yielded.
    pub preemptions: u64,
    /// Its moves.
    pub migrations: Migrations,
    /// Time that it wanted to run and did not.
    pub wait: Duration,
    /// The longest of these times.
    pub wait_max: Duration,
    /// Time from leaving a CPU to sleep until its next waking, or the end of the trace.
    pub sleep: Duration,
    /// From its wakings until it ran; `None` if it was never seen to wake and run.
    pub latency: Option<Latency>,
    /// Timers of its program that it came to wait for.
    pub timers: u64,
    /// Of these, timers that were due before it came.
    pub missed: u64,
    /// By how much it came late at worst.
    pub lateness_max: Duration,
    /// Times it was told that it had used up its budget (SIGXCPU); `None` if it does not ask for that (`SCHED_FLAG_DL_OVERRUN`).
    pub dl_overruns: Option<u64>,
}

/// The figures of one service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSummary {
    /// Its name.
    pub name: Arc<str>,
    /// The group of its workers; `None` is the root, or nobody ever took a request.
    pub group: Option<Arc<str>>,
    /// Requests that arrived.
    pub arrived: u64,
    /// Of these, requests that are done.
    pub completed: u64,
    /// Of these, requests that wait or are worked on at the end.
    pub unfinished: u64,
    /// Of these, requests that found the queue full.
    pub dropped: u64,
    /// From the intended arrival to the end; who is not done counts with its age. `None` if there was none.
    pub latency: Option<RequestTimes>,
    /// From the intended arrival until a worker took it.
    pub queued: Option<RequestTimes>,
}

/// A distribution of times of requests: quantiles, within 0.1 %, and the exact mean and extreme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestTimes {
    /// How many.
    pub count: u64,
    /// The mean, rounded down.
    pub mean: Duration,
    /// The median.
    pub p50: Duration,
    /// One in ten is longer.
    pub p90: Duration,
    /// One in a hundred is longer.
    pub p99: Duration,
    /// One in a thousand is longer.
    pub p999: Duration,
    /// The longest, exactly.
    pub max: Duration,
}

/// The figures of one task group: what `cpu.stat` and `cpu.stat.local` say of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSummary {
    /// Which.
    pub group: GroupId,
    /// Its path below the root, as `/pod/a`.
    pub path: Arc<str>,
    /// Its limit at the end.
    pub max: CpuMax,
    /// CPU time of its tasks and of those in groups below it (`usage_usec`); interrupts within are in it.
    pub usage: Duration,
    /// What its limit counted; nothing but zeros without a limit.
    pub stat: CpuStat,
    /// Time, added up over CPUs, that something of it was queued where it or a group above it was throttled
    /// (`cpu.stat.local`).
    pub local_throttled: Duration,
}

/// A distribution of latencies: three quantiles, within 1 %, and the exact extreme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// One in a hundred is longer.
    pub p99: Duration,
    /// The longest, exactly.
    pub max: Duration,
}

/// Moves between run queues, by the mechanism that made them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrations([u64; MigrateReason::ALL.len()]);

impl Migrations {
    /// Counts a move.
    pub const fn count(&mut self, reason: MigrateReason) {
        self.0[reason as usize] += 1;
    }

    /// Returns the moves that a mechanism made.
    #[must_use]
    pub const fn of(&self, reason: MigrateReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns all moves.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The figures of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuSummary {
    /// Which.
    pub cpu: CpuId,
    /// Time that a task was switched to.
    pub busy: Duration,
    /// Time that the idle task was switched to.
    pub idle: Duration,
    /// Switches.
    pub switches: u64,
    /// Where its time went, if the trace says it.
    pub layers: Option<LayerTimes>,
    /// Time that it spun for run-queue locks.
    pub lock_wait: Duration,
    /// The longest of these times.
    pub lock_wait_max: Duration,
    /// Inter-processor interrupts that it sent.
    pub ipis_sent: u64,
    /// Inter-processor interrupts that were sent to it.
    pub ipis_received: u64,
    /// Its interrupts by kind, in the order of [`Irq::ALL`].
    pub irqs: [IrqSummary; Irq::ALL.len()],
}

impl CpuSummary {
    /// Returns the figures of a kind of interrupt.
    #[must_use]
    pub const fn irq(&self, irq: Irq) -> IrqSummary {
        self.irqs[irq as usize]
    }
}

/// The figures of one kind of interrupt on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IrqSummary {
    /// How many.
    pub count: u64,
    /// Their time, that of interrupts within them included.
    pub time: Duration,
    /// The longest.
    pub max: Duration,
}

/// A time in which a task wanted to run and did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Who waited.
    pub task: TaskId,
    /// Its effective priority.
    pub prio: Prio,
    /// From when.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
    /// On which run queue; the last, if it was moved while it waited.
    pub cpu: CpuId,
    /// How it came to wait.
    pub cause: WaitCause,
    /// What ended it.
    pub end: WaitEnd,
    /// Who ran meanwhile on the run queues on which it waited, the longest first.
    pub blocked_by: Vec<Blocker>,
}

impl Wait {
    /// Returns how long the task waited.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Returns the part of the wait that [`Wait::blocked_by`] does not explain: before the wakeup reached a run queue, or
    /// further back than the history that is kept.
    #[must_use]
    pub fn unexplained(&self) -> Duration {
        let explained = self.blocked_by.iter().fold(Duration::ZERO, |sum, by| sum.saturating_add(by.time));
        self.length().saturating_sub(explained)
    }
}

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitEnd {
    /// The task ran.
    Ran,
    /// The trace ended: the task still waits.
    TraceEnded,
}

/// Who ran while another waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocker {
    /// Who; `None` if the CPU was idle.
    pub who: Option<TaskId>,
    /// Its effective priority when it was switched out.
    pub prio: Prio,
    /// For how long in all.
    pub time: Duration,
}

impl Blocker {
    /// Returns how the blocker relates to one who waits at `prio`.
    #[must_use]
    pub const fn relation(&self, prio: Prio) -> Relation {
        if self.who.is_none() {
            Relation::Idle
        } else if matches!((self.prio.class(), prio.class()), (ClassId::Fair, ClassId::Fair)) {
            Relation::Fair
        } else if self.prio.beats(prio) {
            Relation::Beats
        } else if prio.beats(self.prio) {
            Relation::Loses
        } else {
            Relation::Equal
        }
    }
}

/// How one who runs relates to one who waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    /// It is more urgent: the wait is by design.
    Beats,
    /// It is as urgent: first come, first served.
    Equal,
    /// Both are fair tasks: they share the CPU.
    Fair,
    /// It is less urgent: something is in the way (a section without preemption, a server, a task that cannot move).
    Loses,
    /// Nobody ran: the CPU was on its way (interrupts, the switch itself) or nobody told it.
    Idle,
}

impl Relation {
    /// Returns the word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Beats => "higher",
            Self::Equal => "equal",
            Self::Fair => "shares",
            Self::Loses => "LOWER",
            Self::Idle => "idle",
        }
    }
}

/// Returns a policy and its parameter as tables write it: `FIFO 5`, `OTHER 0`, `DEADLINE 10ms/100ms`.
#[must_use]
pub fn policy_text(attr: SchedAttr) -> String {
    match attr {
        SchedAttr::Fair { nice, .. } => format!("{} {nice}", bare(attr.policy())),
        SchedAttr::Rt { priority, .. } => format!("{} {priority}", bare(attr.policy())),
        SchedAttr::Deadline(params) if params.runtime.is_zero() => bare(attr.policy()).to_owned(),
        SchedAttr::Deadline(params) => {
            let flags = DlFlags::ALL.into_iter().filter(|(flag, _)| params.flags.has(*flag));
            let flags: String = flags.flat_map(|(_, name)| [" ", name]).collect();
            format!("{} {}/{}{flags}", bare(attr.policy()), params.runtime, params.period)
        }
    }
}

/// Returns an effective priority in the words of its class: `RT 5`, `nice 0`.
#[must_use]
pub fn prio_text(prio: Prio) -> String {
    match prio.class() {
        ClassId::Stop => "stop".to_owned(),
        ClassId::Deadline => "deadline".to_owned(),
        ClassId::Rt => format!("RT {}", 99 - prio.raw()),
        ClassId::Fair => format!("nice {}", prio.raw() - Prio::from_nice(Nice::ZERO).raw()),
        ClassId::Idle => "idle".to_owned(),
    }
}

fn bare(policy: Policy) -> &'static str {
    policy.name().strip_prefix("SCHED_").unwrap_or(policy.name())
}
