//! The plan of a run: everything that the host refuses is reported before anything starts.

use crate::cgroup::Hierarchy;
use crate::host::{Host, refused_attr};
use crate::pipe;
use crate::sys;
use std::fmt;
use std::sync::Arc;
use zerolag_model::{CpuMask, Duration, RtPriority, SchedAttr, UtilClamp};
use zerolag_workload::Program;
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::{Action, AffinityChange, CpusetDef, ResourceKind};

/// The options of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The duration; `None` is until all tasks end, at most [`LIMIT`].
    pub duration: Option<Duration>,
    /// The CPUs to use; `None` is all that the process may use.
    pub cpus: Option<CpuMask>,
    /// The seed of the program's random streams.
    pub seed: u64,
    /// Whether to record the kernel's own events, if the host permits it.
    pub record: Recording,
}

/// Whether the kernel's own events are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recording {
    /// No: nothing disturbs the run.
    #[default]
    Off,
    /// Yes, by `perf record`. If perf is missing or not permitted, a note says so.
    Kernel,
}

/// The longest run of a workload without a duration.
pub const LIMIT: Duration = Duration::from_secs(600);
/// The most tasks of one run.
pub(crate) const THREADS_MAX: usize = 4096;

/// A part of the workload that the host refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The part of the workload: `task a-0`, `group /pod`.
    pub subject: String,
    /// What is refused, and the missing permission or a valid value.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.why)
    }
}

/// A program that this host accepts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tasks and their programs.
    pub program: Arc<Program>,
    /// The options of the caller.
    pub options: Options,
    /// The host.
    pub host: Host,
    /// The CPUs of tasks without an affinity.
    pub cpus: CpuMask,
    pub(crate) hierarchy: Option<Hierarchy>,
    /// The priority of the watchdog, if real-time or deadline tasks need one.
    pub(crate) watchdog: Option<RtPriority>,
    /// The priority of the sources of requests, above all tasks; `None` if there are none, or if
    /// they must be fair threads.
    pub(crate) sources: Option<RtPriority>,
}

impl Plan {
    /// Checks a program against the host. Changes nothing; tries each policy for a moment on a
    /// thread that does nothing.
    ///
    /// Does not check whether all deadline tasks together are admitted: the kernel decides that
    /// when they ask, before the workload starts ([`crate::RunError`]).
    ///
    /// # Errors
    /// Everything that the host refuses.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, Vec<Refusal>> {
        let host = Host::look();
        let mut refusals = Vec::new();
        let wanted = options.cpus.as_ref().map_or(host.cpus.clone(), |cpus| cpus.and(&host.cpus));
        if wanted.is_empty() {
            let why = format!("the process may use CPUs {} only", host.cpus);
            refusals.push(Refusal { subject: "the machine".to_owned(), why });
        }
        let threads: usize = program.tasks.iter().map(|def| def.instances as usize).sum();
        if threads > THREADS_MAX {
            let why = format!("{threads} threads; at most {THREADS_MAX} are started on a host");
            refusals.push(Refusal { subject: "the workload".to_owned(), why });
        }
        refuse_affinities(&program, &wanted, &mut refusals);
        refuse_syscalls(&program, &mut refusals);
        refuse_pipes(&program, &mut refusals);
        let watchdog = refuse_attrs(&program, &mut refusals);
        let is_partition = |index, set: &CpusetDef| set.partition || program.changes_partition(index);
        let partitions = program.cpusets.iter().enumerate().filter(|(index, set)| is_partition(*index, set));
        for (_, cpuset) in partitions {
            let why =
                "a partition is a root domain of the whole machine: a global setting, which a run does not change";
            refusals.push(Refusal { subject: format!("cpuset {}", cpuset.name), why: why.to_owned() });
        }
        for task in program.tasks.iter().filter(|task| task.created_on.is_some()) {
            let why = "threads are created where the program that starts them runs".to_owned();
            refusals.push(Refusal { subject: format!("created_on of task {}", task.name), why });
        }
        if !program.processes.is_empty() && !program.is_one_process() {
            let why = "all threads of a run are of one process: name one, for every task and service".to_owned();
            let names = program.processes.join(", ");
            refusals.push(Refusal { subject: format!("process {names}"), why });
        }
        let clamps_task = program.tasks.iter().any(|task| task.clamp != UtilClamp::NONE);
        if clamps_task || program.groups.iter().any(|group| group.clamp != UtilClamp::NONE) {
            let why = "utilisation clamps are not set on a host: most kernels of distributions lack them".to_owned();
            refusals.push(Refusal { subject: "uclamp".to_owned(), why });
        }
        refuse_global_changes(&program, &mut refusals);
        for group in program.groups.iter().filter(|group| group.max.slice.is_some()) {
            let why = "no kernel has a bandwidth slice per group (cpu.cfs_bandwidth_slice_us)".to_owned();
            refusals.push(Refusal { subject: format!("group {}", group.path), why });
        }
        for group in program.groups.iter().filter(|group| group.rt.is_some()) {
            let why = "`cpu.rt_runtime_us` is not set on a host: the groups above would need runtime first".to_owned();
            refusals.push(Refusal { subject: format!("group {}", group.path), why });
        }
        let hierarchy = if program.groups.is_empty() {
            None
        } else {
            match Hierarchy::find() {
                Ok(hierarchy) => Some(hierarchy),
                Err(why) => {
                    refusals.push(Refusal { subject: format!("group {}", program.groups[0].path), why });
                    None
                }
            }
        };
        if hierarchy.as_ref().is_some_and(|hierarchy| !hierarchy.takes_realtime()) {
            refuse_realtime_in_groups(&program, &mut refusals);
        }
        if refusals.is_empty() {
            let sources = watchdog.or(RtPriority::new(1)).filter(|_| !program.sources.is_empty());
            let sources = sources.filter(|priority| try_attr(SchedAttr::fifo(*priority)).is_ok());
            Ok(Self { program, options, host, cpus: wanted, hierarchy, watchdog, sources })
        } else {
            Err(refusals)
        }
    }
}

/// Refuses changes that a run would make to the whole host.
fn refuse_global_changes(program: &Program, refusals: &mut Vec<Refusal>) {
    if program.changes.iter().any(|change| matches!(change.what, Change::Server { .. })) {
        let why = "deadline servers are a global setting of the kernel, which a run does not change".to_owned();
        refusals.push(Refusal { subject: "fair_server".to_owned(), why });
    }
    if program.changes.iter().any(|change| matches!(change.what, Change::RtRuntime { .. } | Change::RtPeriod { .. })) {
        let why = "real-time throttling is a global setting of the kernel, which a run does not change";
        refusals.push(Refusal { subject: "sched_rt_runtime_us, sched_rt_period_us".to_owned(), why: why.to_owned() });
    }
    if program.changes.iter().any(|change| change.what.is_of_policy()) {
        let why = "a scheduler is loaded for the whole host, which a run does not change; zerolag-scx loads one";
        refusals.push(Refusal { subject: "sched_ext".to_owned(), why: why.to_owned() });
    }
    if program.changes.iter().any(|change| matches!(change.what, Change::Cpu { .. })) {
        let why = "a CPU that goes offline does so for the whole host, which a run does not change".to_owned();
        refusals.push(Refusal { subject: "the machine".to_owned(), why });
    }
}

fn refuse_affinities(program: &Program, cpus: &CpuMask, refusals: &mut Vec<Refusal>) {
    for (at, def) in program.tasks.iter().enumerate() {
        let cpuset = def.cpuset.map_or(cpus.clone(), |set| cpus.and(&program.cpusets[set].cpus));
        let of_phases = def.phases.iter().filter_map(|phase| match &phase.affinity {
            AffinityChange::Set(mask) => Some(&**mask),
            AffinityChange::Keep | AffinityChange::Reset => None,
        });
        let of_changes = program.changes.iter().filter_map(|change| match &change.what {
            Change::Affinity { task, cpus } if *task == at => cpus.as_deref(),
            _ => None,
        });
        let nowhere =
            of_phases.chain(def.affinity.as_deref()).chain(of_changes).find(|mask| mask.and(&cpuset).is_empty());
        if let Some(mask) = nowhere {
            let why = format!("CPUs {mask} are not among those it may use ({cpuset})");
            refusals.push(Refusal { subject: format!("task {}", program.tasks[at].name_of(0)), why });
        }
    }
}

/// Refuses system calls with given inner steps: the kernel's steps cannot be chosen.
fn refuse_syscalls(program: &Program, refusals: &mut Vec<Refusal>) {
    for line in &program.interrupts {
        let why = "devices and their interrupts can only be simulated".to_owned();
        refusals.push(Refusal { subject: format!("interrupt {}", line.name), why });
    }
    for (at, def) in program.tasks.iter().enumerate() {
        let mut actions = def.phases.iter().flat_map(|phase| &phase.actions);
        if actions.any(|action| matches!(action, Action::InKernel(_))) {
            let why = "the inner steps of a system call, its semaphores and its disks can only be simulated";
            refusals.push(Refusal { subject: format!("task {}", program.tasks[at].name_of(0)), why: why.to_owned() });
        }
    }
}

/// Creates each pipe for a moment.
fn refuse_pipes(program: &Program, refusals: &mut Vec<Refusal>) {
    for resource in &program.resources {
        if let ResourceKind::Pipe { capacity } = resource.kind
            && let Some(why) = pipe::refused(capacity)
        {
            refusals.push(Refusal { subject: format!("pipe {}", resource.name), why });
        }
    }
}

/// Returns all attributes that a task has or gets.
fn attrs_of(program: &Program, at: usize) -> impl Iterator<Item = SchedAttr> {
    let def = &program.tasks[at];
    let of_changes = program.changes.iter().filter_map(move |change| match &change.what {
        Change::Attr { task, attr } if *task == at => Some(*attr),
        _ => None,
    });
    [def.attr].into_iter().chain(def.phases.iter().filter_map(|phase| phase.attr)).chain(of_changes)
}

/// Returns whether a task has or gets a real-time policy.
pub(crate) fn may_be_realtime(program: &Program, at: usize) -> bool {
    attrs_of(program, at).any(|attr| matches!(attr, SchedAttr::Rt { .. }))
}

/// Tries each of the program's policies; returns the watchdog's priority.
fn refuse_attrs(program: &Program, refusals: &mut Vec<Refusal>) -> Option<RtPriority> {
    let mut tried: Vec<SchedAttr> = vec![SchedAttr::NORMAL];
    let mut needs_watchdog = false;
    let mut highest = 0;
    for at in 0..program.tasks.len() {
        for attr in attrs_of(program, at) {
            if let SchedAttr::Rt { priority, .. } = attr {
                highest = highest.max(priority.value());
            }
            needs_watchdog |= !matches!(attr, SchedAttr::Fair { .. });
            if tried.contains(&attr) {
                continue;
            }
            tried.push(attr);
            if let Err(why) = try_attr(attr) {
                refusals.push(Refusal { subject: format!("task {}", program.tasks[at].name_of(0)), why });
            }
        }
    }
    if !needs_watchdog {
        return None;
    }
    let watchdog = RtPriority::new(i64::from(highest) + 1);
    let refused = match watchdog {
        None => Some("priority 99 leaves none for the watchdog above it; use at most 98".to_owned()),
        Some(priority) => try_attr(SchedAttr::fifo(priority)).err(),
    };
    if let Some(why) = refused.filter(|_| refusals.is_empty()) {
        refusals.push(Refusal { subject: "the watchdog".to_owned(), why });
    }
    watchdog
}

/// Tries attributes on a thread that ends at once.
fn try_attr(attr: SchedAttr) -> Result<(), String> {
    if let SchedAttr::Deadline(_) = attr {
        // Not tried: the bandwidth of a deadline task is released only a period after its end.
        return if has_sys_nice() {
            Ok(())
        } else {
            Err(refused_attr(attr, &std::io::Error::from_raw_os_error(rustix::io::Errno::PERM.raw_os_error())))
        };
    }
    let tried = std::thread::Builder::new().name("zerolag-try".to_owned()).spawn(move || sys::set_attr(attr));
    match tried.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(refused_attr(attr, &error)),
        Ok(Err(_)) | Err(_) => Err("no thread can be started".to_owned()),
    }
}

/// Returns whether the process has the capability `CAP_SYS_NICE`.
fn has_sys_nice() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> CAP_SYS_NICE & 1 == 1)
}

/// Refuses real-time tasks in groups: a kernel with `CONFIG_RT_GROUP_SCHED` gives a new group no
/// real-time budget, and granting one takes it from others.
fn refuse_realtime_in_groups(program: &Program, refusals: &mut Vec<Refusal>) {
    for (at, def) in program.tasks.iter().enumerate() {
        let moves = |change: &TimedChange| match change.what {
            Change::Group { task, group } => task == at && group.is_some(),
            _ => false,
        };
        let in_group = def.group.is_some()
            || def.phases.iter().any(|phase| phase.group.is_some())
            || program.changes.iter().any(moves);
        if in_group && may_be_realtime(program, at) {
            let why =
                "this kernel (CONFIG_RT_GROUP_SCHED) gives a new group no real-time budget; leave the task in the root";
            refusals.push(Refusal { subject: format!("task {}", program.tasks[at].name_of(0)), why: why.to_owned() });
        }
    }
}
