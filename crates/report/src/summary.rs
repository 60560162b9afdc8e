//! [`Summary`]: the figures of a run.

use crate::human::Human;
use crate::quantiles::Quantiles;
use crate::table::shorten;
use std::sync::Arc;
use zerolag_model::attr::{DlFlags, Nice, Prio, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    ClassId, CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, LayerTimes, MigrateReason, Policy, TaskId,
};
use zerolag_trace::replay::WaitCause;
use zerolag_trace::{Meta, Source, Thread};

/// The figures of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The trace's description of itself.
    pub meta: Meta,
    /// The length of the trace.
    pub elapsed: Duration,
    /// Per task, in order of id.
    pub tasks: Vec<TaskSummary>,
    /// Per CPU, in order of id.
    pub cpus: Vec<CpuSummary>,
    /// Per service.
    pub services: Vec<ServiceSummary>,
    /// Per task group, in order of id; the root is not among them.
    pub groups: Vec<GroupSummary>,
    /// The time that CPUs were idle while a task waited that was allowed there and not throttled,
    /// added up; of a simulation.
    pub idle_with_work: Option<Duration>,
    /// The pressure on the CPUs of the machine; of a simulation, if it was asked for.
    pub pressure: Option<PressureSummary>,
    /// Migrations between run queues.
    pub migrations: Migrations,
    /// Switches from one task (or idle) to another.
    pub switches: u64,
    /// The number of records.
    pub records: u64,
    /// The longest waits, the longest first.
    pub worst_waits: Vec<Wait>,
}

impl Summary {
    /// Returns what a recording does not show, as a sentence; `None` if it has no gaps.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let gaps = match self.meta.recorded.gaps.len() {
            0 if self.switches == 0 && self.meta.source == Source::Text => {
                return Some(
                    "no `sched_switch` is recorded: what ran, and how long tasks waited, is not known.".to_owned(),
                );
            }
            0 => return None,
            1 => "one gap".to_owned(),
            several => format!("{several} gaps"),
        };
        let unseen = Human(self.cpus.iter().fold(Duration::ZERO, |sum, cpu| sum.saturating_add(cpu.unseen)));
        let lost = match self.meta.lost_events {
            0 => "events are missing".to_owned(),
            lost => format!("{lost} events were lost"),
        };
        Some(format!("{lost}: {gaps}, {unseen} of CPU time unseen; `~` marks figures of which a part lies in gaps."))
    }

    /// Returns a task's figures by its name; the first if several have that name.
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

    /// Returns the run time of all tasks by switches, and what the kernel has charged them
    /// (`sched_stat_runtime`); `None` if the trace does not contain charges.
    #[must_use]
    pub fn charged(&self) -> Option<(Duration, Duration)> {
        let mut sums = None;
        for task in &self.tasks {
            if let Some(charged) = task.charged() {
                let (run, all) = sums.unwrap_or((Duration::ZERO, Duration::ZERO));
                sums = Some((task.run.saturating_add(run), charged.saturating_add(all)));
            }
        }
        sums
    }

    /// Returns a task as sentences name it: with its thread id, or its own id, if another has the
    /// same name.
    #[must_use]
    pub fn label(&self, task: TaskId) -> String {
        let Some(task) = self.task(task) else { return format!("task {task}") };
        let name = shorten(&task.name, NAME_WIDTH);
        if self.tasks.iter().filter(|other| other.name == task.name).nth(1).is_none() {
            return name;
        }
        match &task.thread {
            Some(thread) => format!("{name} (tid {})", thread.tid),
            None => format!("{name}#{}", task.task),
        }
    }

    /// Returns the idle time of all CPUs together, and their total time.
    #[must_use]
    pub fn idle(&self) -> (Duration, Duration) {
        let idle = self.cpus.iter().fold(Duration::ZERO, |sum, cpu| sum.saturating_add(cpu.idle));
        (idle, self.elapsed.mul_div_floor(self.cpus.len() as u64, 1))
    }
}

/// The figures of one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSummary {
    /// Its id.
    pub task: TaskId,
    /// Its name.
    pub name: Arc<str>,
    /// The attributes that it had during most of its run time.
    pub attr: SchedAttr,
    /// The thread that it is, if it was recorded on a kernel.
    pub thread: Option<Thread>,
    /// Time between a switch to it and the switch from it.
    pub run: Duration,
    /// The part of it in gaps of its CPUs: it could have been less.
    pub run_unsure: Duration,
    /// The part of its waits in gaps of its run queues: it could have run meanwhile.
    pub wait_unsure: Duration,
    /// CPU time charged by the scheduler, if the trace contains it: without interrupts. The
    /// scheduler's own path counts for the task that it runs for, as with the kernel's
    /// `rq_clock_task`.
    pub exec: Option<Duration>,
    /// How many times it was woken.
    pub activations: u64,
    /// How many times it was switched to.
    pub switches_in: u64,
    /// How many times it was preempted or yielded.
    pub preemptions: u64,
    /// Its migrations.
    pub migrations: Migrations,
    /// Time for which it was runnable and did not run.
    pub wait: Duration,
    /// The longest of these times.
    pub wait_max: Duration,
    /// The most CPU time by which it was behind an ideal sharing by weight; `None` if it took no
    /// part in one.
    pub lag_max: Option<Duration>,
    /// Time from each switch out to sleep until the next waking, or the end of the trace.
    pub sleep: Duration,
    /// From its wakings until it ran; `None` if no waking followed by a run was seen.
    pub latency: Option<Latency>,
    /// How many timers its program waited for.
    pub timers: u64,
    /// How many of these timers were already due.
    pub missed: u64,
    /// The longest time by which it was late for a timer.
    pub lateness_max: Duration,
    /// When it ended, from the start of the trace; `None` if it did not.
    pub end: Option<Duration>,
    /// How many turns of its program it completed; `None` if the trace has no marks of its program.
    pub turns: Option<u64>,
    /// How many overrun signals (SIGXCPU) it got; `None` if it does not ask for them
    /// (`SCHED_FLAG_DL_OVERRUN`).
    pub dl_overruns: Option<u64>,
}

impl TaskSummary {
    /// Returns the CPU time that the kernel has charged it, if the trace contains that.
    #[must_use]
    pub fn charged(&self) -> Option<Duration> {
        self.thread.as_ref()?.charged
    }
}

/// The figures of one service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSummary {
    /// Its name.
    pub name: Arc<str>,
    /// The group of its workers; `None` is the root, or no request was ever taken.
    pub group: Option<Arc<str>>,
    /// Requests that arrived.
    pub arrived: u64,
    /// Of these, requests that are done.
    pub completed: u64,
    /// Of these, requests that wait or are worked on at the end.
    pub unfinished: u64,
    /// Of these, requests that found the queue full.
    pub dropped: u64,
    /// From the intended arrival to the end; an unfinished request counts with its age. `None` if
    /// there was no request.
    pub latency: Option<RequestTimes>,
    /// From the intended arrival until a worker took it.
    pub queued: Option<RequestTimes>,
}

/// A distribution of request times: quantiles, within 0.1 %, and the exact mean and maximum.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// All of them, for other percentiles.
    pub quantiles: Quantiles,
}

/// The figures of one task group, as in `cpu.stat` and `cpu.stat.local`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSummary {
    /// Its id.
    pub group: GroupId,
    /// Its path below the root, as `/pod/a`.
    pub path: Arc<str>,
    /// Its limit at the end.
    pub max: CpuMax,
    /// CPU time of its tasks and of those in groups below it (`usage_usec`): what
    /// the scheduler charges them, without interrupts under `irq_time_accounting`.
    pub usage: Duration,
    /// How that time divides; `None` if the trace does not tell.
    pub modes: Option<ModeTimes>,
    /// When the last task of it and of groups below it ended, from the start of the trace; `None`
    /// if one did not, or there was none.
    pub end: Option<Duration>,
    /// The counters of its limit; zeros without a limit.
    pub stat: CpuStat,
    /// Time, added up over CPUs, for which a task of it was queued where it or a group above it was
    /// throttled (`cpu.stat.local`).
    pub local_throttled: Duration,
    /// Time, added up over CPUs, for which its real-time tasks were throttled by its own real-time
    /// runtime (`cpu.rt_runtime_us`).
    pub rt_throttled: Duration,
    /// The pressure on its CPUs; of a simulation, if it was asked for.
    pub pressure: Option<PressureSummary>,
}

/// The CPU time of a group by mode, as in `cpu.stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModeTimes {
    /// In user mode (`user_usec`).
    pub user: Duration,
    /// In system calls, other steps of kernel mode, and interrupts that are not accounted apart
    /// (`system_usec`).
    pub system: Duration,
    /// The part of `user` of tasks with a nice level above 0 (`nice_usec`).
    pub nice: Duration,
}

/// Pressure stall information (`cpu.pressure`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PressureSummary {
    /// A task waited.
    pub some: PressureLine,
    /// Tasks waited, and none ran; always zero for the machine.
    pub full: PressureLine,
}

/// A line of `cpu.pressure`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PressureLine {
    /// The time of it, where CPUs count by the time for which they were not idle.
    pub total: Duration,
    /// Its share of the last 10 s, decaying, in millionths.
    pub avg10: u64,
    /// Its share of the last minute.
    pub avg60: u64,
    /// Its share of the last 5 minutes.
    pub avg300: u64,
    /// How often triggers on it have fired; `None` without a trigger.
    pub fired: Option<Fired>,
}

/// The events of triggers on a line of `cpu.pressure`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fired {
    /// How many.
    pub events: u64,
    /// The first, from the start of the trace.
    pub first: Option<Duration>,
}

/// A distribution of latencies: quantiles, within 1 %, and the exact maximum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    /// The number of values.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// One in a hundred is longer.
    pub p99: Duration,
    /// The longest, exactly.
    pub max: Duration,
    /// All of them, for other percentiles.
    pub quantiles: Quantiles,
}

/// Migrations between run queues, by their mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrations([u64; MigrateReason::ALL.len()]);

impl Migrations {
    /// Counts a migration.
    pub const fn count(&mut self, reason: MigrateReason) {
        self.0[reason as usize] += 1;
    }

    /// Returns the number of migrations that a mechanism made.
    #[must_use]
    pub const fn of(&self, reason: MigrateReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the number of all migrations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The figures of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuSummary {
    /// Its id.
    pub cpu: CpuId,
    /// Time with a task.
    pub busy: Duration,
    /// Time with the idle task.
    pub idle: Duration,
    /// Time in which the recording does not tell whether a task ran: in gaps, and on a CPU without
    /// a switch.
    pub unseen: Duration,
    /// Switches.
    pub switches: u64,
    /// Its time by layer, if the trace contains it.
    pub layers: Option<LayerTimes>,
    /// Time for which it spun for run-queue locks.
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
    /// The number of interrupts.
    pub count: u64,
    /// Their time, including interrupts that nest in them.
    pub time: Duration,
    /// The longest.
    pub max: Duration,
}

/// A time in which a task was runnable and did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The task.
    pub task: TaskId,
    /// Its effective priority.
    pub prio: Prio,
    /// Start of the wait.
    pub from: Instant,
    /// End of the wait.
    pub to: Instant,
    /// Its run queue; the last, if it was migrated while it waited.
    pub cpu: CpuId,
    /// The reason for which it began to wait.
    pub cause: WaitCause,
    /// The event that ended it.
    pub end: WaitEnd,
    /// The part of it in gaps of its run queue: it could have run meanwhile.
    pub unsure: Duration,
    /// The tasks that ran meanwhile on the run queues on which it waited, the longest first.
    pub blocked_by: Vec<Blocker>,
}

impl Wait {
    /// Returns how long the task waited.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Returns the part of the wait that [`Wait::blocked_by`] does not explain: the time before the
    /// wakeup reached a run queue, or before the start of the history.
    #[must_use]
    pub fn unexplained(&self) -> Duration {
        let explained = self.blocked_by.iter().fold(Duration::ZERO, |sum, by| sum.saturating_add(by.time));
        self.length().saturating_sub(explained)
    }
}

/// The event that ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitEnd {
    /// The task ran.
    Ran,
    /// The trace ended: the task still waits.
    TraceEnded,
}

/// A task that ran while another waited, or the limit that kept the other off its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocker {
    /// The task; `None` if the CPU was idle, or the waiting task's group was throttled.
    pub task: Option<TaskId>,
    /// The group that had used up its limit. Whatever ran there meanwhile is not the cause.
    pub throttled: Option<GroupId>,
    /// Its effective priority when it was switched out.
    pub prio: Prio,
    /// Its total run time meanwhile.
    pub time: Duration,
}

impl Blocker {
    /// Returns how the blocker relates to a task that waits at `prio`.
    #[must_use]
    pub const fn relation(&self, prio: Prio) -> Relation {
        if self.throttled.is_some() {
            Relation::Throttled
        } else if self.task.is_none() {
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

/// How a running task relates to a waiting one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    /// It is more urgent: the wait is by design.
    Beats,
    /// It is as urgent: first come, first served.
    Equal,
    /// Both are fair tasks: they share the CPU.
    Fair,
    /// It is less urgent: something delays the switch (a section without preemption, a server, a
    /// task that cannot move).
    Loses,
    /// No task ran: the CPU was on its way (interrupts, the switch itself), or was never told of
    /// the waiting task.
    Idle,
    /// The group of the waiting task had used up its limit.
    Throttled,
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
            Self::Throttled => "throttled",
        }
    }
}

/// Returns a policy and its parameter as tables write it: `FIFO 5`, `OTHER 0`,
/// `DEADLINE 10ms/100ms`.
#[must_use]
pub fn policy_text(attr: SchedAttr) -> String {
    match attr {
        SchedAttr::Fair { nice, .. } | SchedAttr::Ext { nice, .. } => format!("{} {nice}", bare(attr.policy())),
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
        ClassId::Ext => format!("ext {}", prio.kernel() - Prio::from_nice(Nice::ZERO).raw()),
        ClassId::Idle => "idle".to_owned(),
    }
}

fn bare(policy: Policy) -> &'static str {
    policy.name().strip_prefix("SCHED_").unwrap_or(policy.name())
}

/// Longer names are cut in tables and sentences.
pub(crate) const NAME_WIDTH: usize = 20;
