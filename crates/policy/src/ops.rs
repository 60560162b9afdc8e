//! [`Policy`]: the operations of a scheduler (`struct sched_ext_ops`).

use crate::exit::ExitInfo;
use crate::scx::Scx;
use crate::words::{DeqFlags, DsqId, EnqFlags, Needs, OpsFlags, WakeFlags};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, GroupId, TaskId};

/// What a policy says of itself when it is loaded: the fields of `sched_ext_ops` that are no
/// functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ops {
    /// Its name, as the kernel prints it.
    pub name: String,
    /// Its properties.
    pub flags: OpsFlags,
    /// How long a runnable task may wait before the policy is unloaded (`timeout_ms`): at most
    /// 30 s.
    pub timeout: Duration,
    /// How many tasks one [`dispatch`](Policy::dispatch) may insert before it moves some to the
    /// local queue (`dispatch_max_batch`).
    pub dispatch_max_batch: usize,
    /// What it asks of the workload that no kernel knows: such a policy runs in simulations only.
    pub needs: Needs,
}

impl Ops {
    /// The longest, and the default, time limit (`SCX_WATCHDOG_MAX_TIMEOUT`).
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(30);
    /// The default of [`dispatch_max_batch`](Self::dispatch_max_batch) (`SCX_DSP_DFL_MAX_BATCH`).
    pub const MAX_BATCH: usize = 32;

    /// Returns the kernel's defaults under a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            flags: OpsFlags::NONE,
            timeout: Self::TIMEOUT_MAX,
            dispatch_max_batch: Self::MAX_BATCH,
            needs: Needs::NONE,
        }
    }
}

/// A number that the user of a policy sets, `policy.NAME` in values and sweeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is, as a sentence without its point.
    pub meaning: Cow<'static, str>,
    /// It is a time, in nanoseconds; otherwise a number.
    pub is_time: bool,
    /// Its value unless it is set.
    pub default: u64,
    /// Its valid values.
    pub range: RangeInclusive<u64>,
}

impl Param {
    /// Returns a number.
    #[must_use]
    pub const fn count(name: &'static str, default: u64, range: RangeInclusive<u64>, meaning: &'static str) -> Self {
        let (name, meaning) = (Cow::Borrowed(name), Cow::Borrowed(meaning));
        Self { name, meaning, is_time: false, default, range }
    }

    /// Returns a time, in nanoseconds.
    #[must_use]
    pub const fn time(name: &'static str, default: u64, range: RangeInclusive<u64>, meaning: &'static str) -> Self {
        let (name, meaning) = (Cow::Borrowed(name), Cow::Borrowed(meaning));
        Self { name, meaning, is_time: true, default, range }
    }

    /// Reads a value: `3`, or `5ms` if it is a time.
    ///
    /// # Errors
    /// What would be right.
    pub fn read(&self, text: &str) -> Result<u64, String> {
        let value = if self.is_time {
            text.parse::<Duration>().map(Duration::as_nanos).map_err(|error| format!("{error}, as in 5ms"))?
        } else {
            text.parse().map_err(|_| String::from("expected a whole number"))?
        };
        let (least, most) = (self.show(*self.range.start()), self.show(*self.range.end()));
        if self.range.contains(&value) { Ok(value) } else { Err(format!("expected {least} to {most}")) }
    }

    /// Returns a value as users write it.
    #[must_use]
    pub fn show(&self, value: u64) -> String {
        if self.is_time { Duration::from_nanos(value).to_string() } else { value.to_string() }
    }
}

/// A text that the user of a policy sets, `policy.NAME` in values: the path of a file, or the text
/// itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextParam {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is, as a sentence without its point.
    pub meaning: Cow<'static, str>,
}

impl TextParam {
    /// The most bytes of a text: a host refuses a longer file.
    pub const BYTES_MAX: usize = 1 << 20;

    /// Returns a text.
    #[must_use]
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), meaning: Cow::Borrowed(meaning) }
    }

    /// Returns whether a value is the text itself, and not the path of a file: it has white space.
    #[must_use]
    pub fn is_text(value: &str) -> bool {
        value.contains(char::is_whitespace)
    }
}

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The reason.
    pub why: String,
    /// What would be right.
    pub help: String,
}

impl core::fmt::Display for Mistake {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.why)
    }
}

/// A scheduler of your own.
///
/// Every method is an operation of `sched_ext_ops` and has the kernel's default behaviour. `p` is
/// a task, `scx` is the kernel: its helpers (`scx_bpf_*`) are methods of [`Scx`].
///
/// A policy decides by its own state and that of `scx` alone: it reads no clock and draws no number
/// of its own, so that a run can be repeated, and a copy of it goes on as the original does.
#[expect(unused_variables, reason = "the names of parameters are part of the documentation")]
pub trait Policy: Send + PolicyClone {
    /// Returns its name, flags and limits.
    fn ops(&self) -> Ops;

    /// Returns the numbers that its user can set.
    fn params(&self) -> &[Param] {
        &[]
    }

    /// Sets one of them, by its index, before the policy is loaded.
    fn set_param(&mut self, index: usize, value: u64) {}

    /// Returns the texts that its user can set.
    fn texts(&self) -> &[TextParam] {
        &[]
    }

    /// Sets one of them, by its index, before the policy is loaded.
    ///
    /// # Errors
    /// All mistakes of the text, which then changes nothing.
    fn set_text(&mut self, index: usize, text: &str) -> Result<(), Vec<Mistake>> {
        Ok(())
    }

    /// Chooses a CPU for a task that wakes. A task that is inserted into a queue here is not passed
    /// to [`enqueue`](Self::enqueue).
    ///
    /// The default takes an idle CPU near the last one, and runs the task there.
    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> CpuId {
        let (cpu, is_idle) = scx.select_cpu_dfl(p, prev_cpu, wake_flags);
        if is_idle {
            scx.dsq_insert(p, DsqId::LOCAL, scx.slice_dfl(), EnqFlags::NONE);
        }
        cpu
    }

    /// Queues a runnable task: inserts it into a queue, or keeps it until
    /// [`dispatch`](Self::dispatch). The default inserts it into [`DsqId::GLOBAL`].
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        scx.dsq_insert(p, DsqId::GLOBAL, scx.slice_dfl(), enq_flags);
    }

    /// A task that the policy kept, or had on a queue of its own, is no longer its to run.
    fn dequeue(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {}

    /// A CPU has no local task: move or insert some. `prev` is the task that ran, if it could run
    /// on.
    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {}

    /// A tick while a task runs.
    fn tick(&mut self, scx: &mut Scx, p: TaskId) {}

    /// A task becomes runnable.
    fn runnable(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {}

    /// A task begins to run.
    fn running(&mut self, scx: &mut Scx, p: TaskId) {}

    /// A task stops running; `runnable` if it could run on.
    fn stopping(&mut self, scx: &mut Scx, p: TaskId, runnable: bool) {}

    /// A task is no longer runnable.
    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {}

    /// A task gives up the CPU, in favour of `to` if that is some task; returns whether that was
    /// followed. The default ends its slice.
    fn yield_(&mut self, scx: &mut Scx, from: TaskId, to: Option<TaskId>) -> bool {
        scx.set_slice(from, Duration::ZERO);
        false
    }

    /// The weight of a task changes: 1 to 10000, 100 for nice 0.
    fn set_weight(&mut self, scx: &mut Scx, p: TaskId, weight: u32) {}

    /// The CPUs of a task change; `None` means every CPU.
    fn set_cpumask(&mut self, scx: &mut Scx, p: TaskId, cpumask: Option<&CpuMask>) {}

    /// A CPU begins or ends to idle. The kernel's own mask is kept too
    /// (`SCX_OPS_KEEP_BUILTIN_IDLE`).
    fn update_idle(&mut self, scx: &mut Scx, cpu: CpuId, idle: bool) {}

    /// A CPU returns from a class above.
    fn cpu_acquire(&mut self, scx: &mut Scx, cpu: CpuId) {}

    /// A CPU is taken by a class above.
    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {}

    /// A CPU comes online.
    fn cpu_online(&mut self, scx: &mut Scx, cpu: CpuId) {}

    /// A CPU goes offline.
    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {}

    /// A task exists from now on; `fork` if it is new.
    fn init_task(&mut self, scx: &mut Scx, p: TaskId, fork: bool) {}

    /// A task exits.
    fn exit_task(&mut self, scx: &mut Scx, p: TaskId) {}

    /// A task is the policy's from now on.
    fn enable(&mut self, scx: &mut Scx, p: TaskId) {}

    /// A task is no longer the policy's.
    fn disable(&mut self, scx: &mut Scx, p: TaskId) {}

    /// A group exists from now on.
    fn cgroup_init(&mut self, scx: &mut Scx, group: GroupId) {}

    /// A group is removed.
    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {}

    /// A task changes its group.
    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, from: GroupId, to: GroupId) {}

    /// The weight of a group changes (`cpu.weight`).
    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {}

    /// The limit of a group changes (`cpu.max`), which a kernel leaves to the policy.
    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {}

    /// The policy is loaded: create queues here.
    fn init(&mut self, scx: &mut Scx) {}

    /// A timer is due that [`Scx::timer_start`] has started. (In a kernel timers are those of BPF,
    /// and their functions no operations.)
    fn timer(&mut self, scx: &mut Scx, id: u32) {}

    /// The policy has been unloaded.
    fn exit(&mut self, info: &ExitInfo) {}
}

/// Copies of a policy, for a run that goes on in two ways. Every policy that is `Clone` has it.
pub trait PolicyClone {
    /// Returns a copy that shares nothing with the policy.
    fn clone_policy(&self) -> Box<dyn Policy>;
}

impl<T: Policy + Clone + 'static> PolicyClone for T {
    fn clone_policy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        (**self).clone_policy()
    }
}

/// Makes a policy for each run: several runs, also on several threads, share nothing.
#[derive(Clone)]
pub struct PolicyFactory(Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync>);

impl PolicyFactory {
    /// Returns the factory of a function.
    pub fn new<T: Policy + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || -> Box<dyn Policy> { Box::new(make()) }))
    }

    /// Makes a policy.
    #[must_use]
    pub fn make(&self) -> Box<dyn Policy> {
        (self.0)()
    }
}

impl core::fmt::Debug for PolicyFactory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.make().ops().name)
    }
}

impl core::fmt::Debug for dyn Policy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.ops().name)
    }
}
