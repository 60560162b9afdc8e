//! The errors of the entry points, each with the kernel's errno.

use crate::words::ids::{CpusetId, ProcessId};
use core::fmt;
use zerolag_model::{CpuMask, DlParams, GroupId, ServerParams, TaskId};

/// The task is not on the run queue that was given: look up its home again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotHere(pub TaskId);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} is not on this run queue", self.0)
    }
}

impl core::error::Error for NotHere {}

/// Why a task cannot be created or changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// The affinity and the cpuset have no CPU in common.
    NoCpu(TaskId),
    /// There is no such cpuset.
    NoSuchCpuset(CpusetId),
    /// There is no such group.
    NoSuchGroup(GroupId),
    /// There is no such process.
    NoSuchProcess(ProcessId),
    /// The id is beyond the reserved ids.
    NotReserved(TaskId),
    /// The deadline parameters are invalid (EINVAL).
    DeadlineParams(TaskId, DlParamError),
    /// The affinity or the cpuset does not cover the root domain, so the task cannot be a deadline
    /// task (EPERM).
    NotWholeDomain(TaskId, Confined),
    /// A deadline task must be allowed on its whole root domain (EBUSY).
    DeadlineAffinity(TaskId, Confined),
    /// The root domain has too little bandwidth left (EBUSY).
    NoBandwidth(TaskId, BookedUp),
    /// The task's group has no real-time runtime (EPERM).
    NoRtRuntime(TaskId, GroupId),
    /// A deadline task forks: its child would be a deadline task that was not admitted (EAGAIN).
    DeadlineForks(TaskId),
    /// The task is not on the given run queue: look up its home again.
    NotHere(NotHere),
}

impl From<NotHere> for TaskError {
    fn from(error: NotHere) -> Self {
        Self::NotHere(error)
    }
}

impl TaskError {
    /// Returns the group that the error is about, if it is about one.
    #[must_use]
    pub const fn group(&self) -> Option<GroupId> {
        match self {
            Self::NoSuchGroup(group) | Self::NoRtRuntime(_, group) => Some(*group),
            _ => None,
        }
    }

    /// Returns the text of the error with a host's names in place of ids.
    #[must_use]
    pub const fn named<'a>(&'a self, task: &'a str, group: Option<&'a str>) -> Named<'a, Self> {
        Named { error: self, subject: Some(task), group }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named { error: self, subject: None, group: None }.fmt(f)
    }
}

/// An error whose text has names in place of ids: a host knows them, the core does not.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a, E> {
    pub(crate) error: &'a E,
    /// The name of the task or the group that asked.
    pub(crate) subject: Option<&'a str>,
    /// The name of the group that the error is about.
    pub(crate) group: Option<&'a str>,
}

/// A name in backquotes, or an id.
pub(crate) struct NameOr<'a, I>(pub(crate) Option<&'a str>, pub(crate) I);

impl<I: fmt::Display> fmt::Display for NameOr<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "`{name}`"),
            None => self.1.fmt(f),
        }
    }
}

impl fmt::Display for Named<'_, TaskError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |task: &TaskId| NameOr(self.subject, *task);
        let group = |group: &GroupId| NameOr(self.group, *group);
        match self.error {
            TaskError::NoCpu(task) => {
                write!(f, "no CPU left for task {}: its affinity and its cpuset share none", name(task))
            }
            TaskError::NoSuchCpuset(cpuset) => write!(f, "there is no cpuset {}", cpuset.0),
            TaskError::NoSuchGroup(at) => write!(f, "there is no group {}", group(at)),
            TaskError::NoSuchProcess(process) => write!(f, "there is no process {}", process.0),
            TaskError::NotReserved(task) => write!(f, "task id {task} is beyond what was reserved"),
            TaskError::DeadlineParams(task, wrong) => write!(f, "task {}: {wrong} (EINVAL)", name(task)),
            TaskError::NotWholeDomain(task, confined) => {
                let task = name(task);
                write!(
                    f,
                    "task {task} {confined}, but a deadline task must be allowed on all of them (EPERM): {REMEDY}"
                )
            }
            TaskError::DeadlineAffinity(task, confined) => {
                let task = name(task);
                write!(f, "deadline task {task} {confined}, but must be allowed on all of them (EBUSY): {REMEDY}")
            }
            TaskError::NoBandwidth(task, booked) => {
                let task = name(task);
                write!(f, "task {task} {booked} (EBUSY): lower its runtime, lengthen its period, or {ROOM}")
            }
            TaskError::NoRtRuntime(task, at) => {
                let (task, group) = (name(task), group(at));
                write!(
                    f,
                    "task {task} asks for a real-time policy in group {group}, {NO_RT_RUNTIME} (EPERM): {GIVE_RT}"
                )
            }
            TaskError::DeadlineForks(task) => write!(
                f,
                "deadline task {} cannot fork (EAGAIN): its child would be a deadline task that was not admitted; set \
                 SCHED_FLAG_RESET_ON_FORK, or fork before it asks for the policy",
                name(task)
            ),
            TaskError::NotHere(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TaskError {}

/// What lets a confined task be a deadline task.
const REMEDY: &str = "lift its affinity or cpuset, give it a root domain of its own (`cpuset.cpus.partition` = `root`), \
                      or switch admission off (`sched_rt_runtime_us` = -1)";

/// What makes a root domain larger.
const ROOM: &str = "let `sched_rt_runtime_us` leave more to the class, or give the root domain more CPUs";

/// Why a group takes no real-time task.
pub(crate) const NO_RT_RUNTIME: &str = "which has no real-time runtime";

/// What lets a group have real-time tasks.
pub(crate) const GIVE_RT: &str = "give it and the groups above it `cpu.rt_runtime_us` above 0 (with `hcbs`: `cpu.rt.max`), \
                                  keep the task in the root group, or switch the limit off (`sched_rt_runtime_us` = -1)";

/// CPUs that a task can use, and those of the root domain, which it must be able to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confined {
    /// The CPUs of the task.
    pub allowed: CpuMask,
    /// The CPUs of the root domain.
    pub domain: CpuMask,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is allowed on CPUs {} of a root domain with CPUs {}", self.allowed, self.domain)
    }
}

/// A request for more bandwidth than a root domain has left, in units of 2^-20 of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BookedUp {
    /// The requested bandwidth.
    pub wants: u64,
    /// What the other tasks and servers have reserved.
    pub reserved: u64,
    /// The most that can be reserved: the share of the class on all CPUs.
    pub limit: u64,
}

impl BookedUp {
    /// Returns the bandwidth that is left; zero if more is reserved than the limit now is.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.limit.saturating_sub(self.reserved)
    }
}

impl fmt::Display for BookedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [wants, reserved, limit, free] = [self.wants, self.reserved, self.limit, self.free()].map(Cpus);
        write!(
            f,
            "asks for {wants} CPUs; its root domain has {limit}, of which {reserved} are reserved and {free} free"
        )
    }
}

/// Groups with larger shares together than the group above them, in units of 2^-20 of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overcommit {
    /// What the changed group asks for.
    pub wants: u64,
    /// What the other groups have.
    pub reserved: u64,
    /// What the group above has.
    pub limit: u64,
}

impl fmt::Display for Overcommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.limit.saturating_sub(self.reserved);
        let [limit, reserved, free] = [self.limit, self.reserved, free].map(Cpus);
        write!(f, "{limit} of each CPU, of which {reserved} are reserved and {free} free")
    }
}

/// Why a group cannot have a real-time runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RtGroupError {
    /// Groups have none in this kernel.
    Off,
    /// There is no period, or the runtime exceeds it (EINVAL).
    Params,
    /// The runtime becomes 0, but the group has so many tasks with a real-time policy (EBUSY).
    HasTasks(u32),
    /// A group would have a larger share than all real-time tasks together (EINVAL).
    Global {
        /// The group.
        group: GroupId,
        /// The share asked for, in units of 2^-20 of a CPU.
        wants: u64,
        /// The share that `sched_rt_runtime_us` allows.
        limit: u64,
    },
    /// The group above has too little left (EINVAL).
    Parent(GroupId, Overcommit),
    /// The groups below have more (EINVAL).
    Children(Overcommit),
    /// Of a group with servers (`rt_group_sched = hcbs`).
    Served(ServedError),
}

/// Why a group cannot have a budget for its servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServedError {
    /// A server cannot have this runtime and period (EINVAL).
    Params,
    /// So many real-time tasks would move to other servers (EINVAL).
    Moves(u32),
    /// The nearest group above with a budget, this one, has too little left (EINVAL).
    Above(GroupId, Overcommit),
    /// The groups below have more (EINVAL).
    Below(Overcommit),
    /// A root domain has too little left (EBUSY).
    Booked(BookedUp),
}

impl fmt::Display for Named<'_, ServedError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            ServedError::Params => f.write_str(
                "`cpu.rt.max` is RUNTIME PERIOD with a period of 100us to 4194304us and a runtime of 0, or of 1.024us to the \
                 period (EINVAL); `max` uses the budget of the group above",
            ),
            ServedError::Moves(tasks) => write!(
                f,
                "it has {tasks} tasks with a real-time policy, which other servers would run (EINVAL): set `cpu.rt.max` \
                 before they come, or make them SCHED_OTHER first"
            ),
            ServedError::Above(above, over) => write!(
                f,
                "asks for {} of each CPU; the nearest group above with a budget, {}, has {over} (EINVAL): lower \
                 `cpu.rt.max`, or raise that of the group above first",
                Cpus(over.wants),
                NameOr(self.group, *above)
            ),
            ServedError::Below(over) => write!(
                f,
                "would have {} of each CPU, but the groups below it have {} (EINVAL): lower theirs first",
                Cpus(over.limit),
                Cpus(over.reserved + over.wants)
            ),
            ServedError::Booked(booked) => write!(
                f,
                "{booked} (EBUSY): a budget counts on every CPU, together with deadline tasks and servers. Lower \
                 `cpu.rt.max`, or {ROOM}"
            ),
        }
    }
}

impl fmt::Display for ServedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named { error: self, subject: None, group: None }.fmt(f)
    }
}

impl core::error::Error for ServedError {}

impl RtGroupError {
    /// Returns the group above that has too little, if that is why.
    #[must_use]
    pub const fn above(&self) -> Option<GroupId> {
        match self {
            Self::Parent(above, _) | Self::Served(ServedError::Above(above, _)) => Some(*above),
            _ => None,
        }
    }
}

impl fmt::Display for RtGroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named { error: self, subject: None, group: None }.fmt(f)
    }
}

impl fmt::Display for Named<'_, RtGroupError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            RtGroupError::Off => f.write_str(
                "this kernel has no `cpu.rt_runtime_us` (ENOENT): set `rt_group_sched` = on, which is \
                 CONFIG_RT_GROUP_SCHED and cgroup v1, or = hcbs for `cpu.rt.max`, which is in no kernel yet",
            ),
            RtGroupError::Params => f.write_str(
                "`cpu.rt_runtime_us` is above `cpu.rt_period_us`, or there is no period (EINVAL): lower the runtime, or \
                 set it to -1",
            ),
            RtGroupError::HasTasks(tasks) => write!(
                f,
                "it has {tasks} tasks with a real-time policy, which could never run without runtime (EBUSY): move them \
                 away, or make them SCHED_OTHER, first"
            ),
            RtGroupError::Global { group: _, wants, limit } => write!(
                f,
                "asks for {} of each CPU, but all real-time tasks have {} (EINVAL): lower `cpu.rt_runtime_us`, or raise \
                 `sched_rt_runtime_us`",
                Cpus(*wants),
                Cpus(*limit)
            ),
            RtGroupError::Parent(above, over) => write!(
                f,
                "asks for {} of each CPU; the group above it, {}, has {over} (EINVAL): lower `cpu.rt_runtime_us`, or \
                 raise that of the group above first",
                Cpus(over.wants),
                NameOr(self.group, *above)
            ),
            RtGroupError::Children(over) => write!(
                f,
                "would have {} of each CPU, but the groups below it have {} (EINVAL): lower theirs first",
                Cpus(over.limit),
                Cpus(over.reserved + over.wants)
            ),
            RtGroupError::Served(error) => Named { error, subject: self.subject, group: self.group }.fmt(f),
        }
    }
}

impl core::error::Error for RtGroupError {}

/// A bandwidth in CPUs with three decimals, rounded to nearest: the core has no floats.
struct Cpus(u64);

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = (u128::from(self.0) * 1000 + (1 << 19)) >> 20;
        write!(f, "{}.{:03}", thousandths / 1000, thousandths % 1000)
    }
}

/// Why a server cannot be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The runtime is above the period, or the period is out of range (EINVAL).
    Params,
    /// The root domain has too little bandwidth left (EBUSY).
    NoBandwidth(BookedUp),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params => write!(
                f,
                "runtime is above period, or period is outside {} to {} (EINVAL)",
                ServerParams::PERIOD_MIN,
                ServerParams::PERIOD_MAX
            ),
            Self::NoBandwidth(booked) => {
                write!(f, "{booked} (EBUSY): lower its runtime, lengthen its period, or {ROOM}")
            }
        }
    }
}

impl core::error::Error for ServerError {}

/// Why the bandwidth of real-time tasks cannot be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RtBandwidthError {
    /// The runtime is above the period, or there is no period (EINVAL).
    Params,
    /// A group has a larger real-time share (EINVAL).
    Groups {
        /// The group.
        group: GroupId,
        /// What it has, in units of 2^-20 of a CPU.
        has: u64,
        /// What the new limit would allow.
        limit: u64,
    },
    /// Deadline tasks and servers of a root domain have reserved more (EBUSY).
    Promised {
        /// What is reserved, in units of 2^-20 of a CPU.
        reserved: u64,
        /// What the new limit would allow.
        limit: u64,
    },
}

impl RtBandwidthError {
    /// Returns the group that has more, if that is why.
    #[must_use]
    pub const fn group(&self) -> Option<GroupId> {
        match self {
            Self::Groups { group, .. } => Some(*group),
            Self::Params | Self::Promised { .. } => None,
        }
    }

    /// Returns the text of the error with a host's name of the group.
    #[must_use]
    pub const fn named<'a>(&'a self, group: Option<&'a str>) -> Named<'a, Self> {
        Named { error: self, subject: None, group }
    }
}

impl fmt::Display for RtBandwidthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named(None).fmt(f)
    }
}

impl fmt::Display for Named<'_, RtBandwidthError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            RtBandwidthError::Params => f.write_str(
                "sched_rt_runtime_us is above sched_rt_period_us (EINVAL): lower the runtime, lengthen the period, or \
                 set the runtime to -1",
            ),
            RtBandwidthError::Groups { group, has, limit } => write!(
                f,
                "group {} has {} of each CPU for its real-time tasks, this leaves {} (EINVAL): lower the group's \
                 `cpu.rt_runtime_us` first",
                NameOr(self.group, *group),
                Cpus(*has),
                Cpus(*limit)
            ),
            RtBandwidthError::Promised { reserved, limit } => {
                let (reserved, limit) = (Cpus(*reserved), Cpus(*limit));
                write!(
                    f,
                    "deadline tasks and servers of a root domain have been promised {reserved} CPUs, this leaves {limit} \
                     (EBUSY): end deadline tasks, lower the servers' runtimes (`fair_server`, `cpu.rt.max`), or give the \
                     root domain more CPUs, first"
                )
            }
        }
    }
}

impl core::error::Error for RtBandwidthError {}

/// Why deadline parameters are invalid (EINVAL).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DlParamError {
    /// The runtime is below 1024 ns.
    Runtime,
    /// The runtime is above the deadline.
    Deadline,
    /// The deadline is above the period.
    Order,
    /// The period is outside 100 us to 4.194304 s.
    Period,
}

impl fmt::Display for DlParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime => write!(f, "runtime is below {}", DlParams::RUNTIME_MIN),
            Self::Deadline => f.write_str("runtime is above deadline"),
            Self::Order => f.write_str("deadline is above period"),
            Self::Period => write!(f, "period is outside {} to {}", DlParams::PERIOD_MIN, DlParams::PERIOD_MAX),
        }
    }
}

/// Checks deadline parameters: `__checkparam_dl`.
pub(crate) fn check_params(params: DlParams) -> Result<(), DlParamError> {
    let DlParams { runtime, deadline, period, flags: _ } = params;
    if runtime < DlParams::RUNTIME_MIN {
        return Err(DlParamError::Runtime);
    }
    if period < deadline {
        return Err(DlParamError::Order);
    }
    if deadline < runtime {
        return Err(DlParamError::Deadline);
    }
    if period < DlParams::PERIOD_MIN || period > DlParams::PERIOD_MAX { Err(DlParamError::Period) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use zerolag_model::{CpuId, DlParams, Duration};

    #[test]
    fn a_refusal_says_what_is_free() {
        let cpus = |thousandths: u64| (thousandths << 20) / 1000;
        let booked = BookedUp { wants: cpus(300), reserved: cpus(1800), limit: cpus(1900) };
        let text = TaskError::NoBandwidth(TaskId(6), booked).to_string();
        let says = "asks for 0.300 CPUs; its root domain has 1.900, of which 1.800 are reserved and 0.100 free (EBUSY)";
        assert!(text.contains(says), "{text}");
        let lowered = BookedUp { limit: cpus(1000), ..booked };
        assert_eq!(lowered.free(), 0, "a lowered limit can be below what is reserved");
    }

    #[test]
    fn a_refusal_of_a_confined_task_names_both_sets() {
        let confined = Confined { allowed: CpuMask::single(CpuId(1)), domain: CpuMask::first_n(4) };
        let text = TaskError::NotWholeDomain(TaskId(0), confined).to_string();
        assert!(text.contains("is allowed on CPUs 1 of a root domain with CPUs 0-3"), "{text}");
        assert!(text.contains("(EPERM): lift its affinity"), "{text}");
    }

    #[test]
    fn a_refusal_of_a_group_says_what_the_group_above_has_left() {
        let share = |thousandths: u64| (thousandths << 20) / 1000;
        let over = Overcommit { wants: share(300), reserved: share(600), limit: share(800) };
        let error = RtGroupError::Parent(GroupId(3), over);
        let text = Named { error: &error, subject: None, group: Some("/a") }.to_string();
        let says = "asks for 0.300 of each CPU; the group above it, `/a`, has 0.800 of each CPU, of which 0.600 are reserved and \
                    0.200 free (EINVAL): lower `cpu.rt_runtime_us`";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn parameters_are_refused_as_the_kernel_refuses_them() {
        let check = |runtime, deadline, period| {
            let ns = Duration::from_nanos;
            check_params(DlParams::new(ns(runtime), ns(deadline), ns(period)))
        };
        assert_eq!(check(1024, 100_000, 100_000), Ok(()));
        assert_eq!(check(1023, 100_000, 100_000), Err(DlParamError::Runtime));
        assert_eq!(check(100_001, 100_000, 100_000), Err(DlParamError::Deadline));
        assert_eq!(check(2000, 100_001, 100_000), Err(DlParamError::Order));
        assert_eq!(check(2000, 90_000, 99_999), Err(DlParamError::Period));
        assert_eq!(check(2000, 90_000, 4_194_304_000), Ok(()));
        assert_eq!(check(2000, 90_000, 4_194_304_001), Err(DlParamError::Period));
    }
}
