//! The C interface: what is read of an object, what it calls, and a [`Policy`] that calls it.
//!
//! Order and types here are those of `zerolag_policy.h`; a test compares them.
#![expect(unsafe_code, reason = "a C interface: what is behind its pointers cannot be checked")]

use crate::LoadError;
use crate::crash;
use crate::memory::{Memory, Sizes};
use core::ffi::{CStr, c_char, c_void};
use core::mem::{MaybeUninit, offset_of};
use std::cell::{Cell, UnsafeCell};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, GroupId, TaskId};
use zerolag_policy::policies::Fifo;
use zerolag_policy::{
    Callback, DeqFlags, DsqError, DsqId, EnqFlags, KickFlags, Needs, Ops, OpsFlags, Param, Policy, PolicyFactory, Scx,
    WakeFlags,
};

/// `ZEROLAG_POLICY_VERSION`
const VERSION: u32 = 2;
/// The sizes of `struct zerolag_policy` by version, from 1: each begins with the one before.
const SIZES: [usize; VERSION as usize] = [offset_of!(RawPolicy, needs), size_of::<RawPolicy>()];
/// `SCX_TASK_NONE`, `SCX_CGROUP_NONE`
const NONE: u32 = u32::MAX;
/// The most bytes of each kind of block, and the most parameters: more is a mistake.
const SIZE_MAX: usize = 1 << 20;
const PARAMS_MAX: u32 = 64;
/// `-EINVAL`, `-EEXIST`
const EINVAL: i32 = -22;
const EEXIST: i32 = -17;

/// `struct scx`, and behind what the header shows, what the helpers work on.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    helpers: *const Helpers,
    state: *mut c_void,
    scx: *mut Scx,
    memory: *mut Memory,
    params: *const [u64],
}

/// `struct scx_param`
#[repr(C)]
#[derive(Debug)]
struct RawParam {
    name: *const c_char,
    meaning: *const c_char,
    default: u64,
    min: u64,
    max: u64,
    is_time: u32,
    reserved: u32,
}

macro_rules! raw_policy {
    ($($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// `struct zerolag_policy`
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        struct RawPolicy {
            version: u32,
            size: u32,
            name: *const c_char,
            flags: u64,
            timeout_ns: u64,
            dispatch_max_batch: u32,
            nr_params: u32,
            params: *const RawParam,
            state_size: usize,
            task_size: usize,
            cpu_size: usize,
            cgroup_size: usize,
            $($name: Option<unsafe extern "C" fn(*mut Frame, $($arg),*) $(-> $ret)?>,)*
            needs: u64,
        }

        #[cfg(test)]
        const OPERATIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

raw_policy! {
    select_cpu: fn(u32, i32, u64) -> i32;
    enqueue: fn(u32, u64);
    dequeue: fn(u32, u64);
    dispatch: fn(i32, u32);
    tick: fn(u32);
    runnable: fn(u32, u64);
    running: fn(u32);
    stopping: fn(u32, i32);
    quiescent: fn(u32, u64);
    r#yield: fn(u32, u32) -> i32;
    set_weight: fn(u32, u32);
    set_cpumask: fn(u32);
    update_idle: fn(i32, i32);
    cpu_acquire: fn(i32);
    cpu_release: fn(i32);
    cpu_online: fn(i32);
    cpu_offline: fn(i32);
    init_task: fn(u32, i32);
    exit_task: fn(u32);
    enable: fn(u32);
    disable: fn(u32);
    cgroup_init: fn(u32);
    cgroup_exit: fn(u32);
    cgroup_move: fn(u32, u32, u32);
    cgroup_set_weight: fn(u32, u32);
    cgroup_set_bandwidth: fn(u32, u64, u64, u64);
    init: fn();
    timer: fn(u32);
}

thread_local! {
    /// The call that this thread is in.
    static CURRENT: Cell<*mut Frame> = const { Cell::new(std::ptr::null_mut()) };
}

/// Returns the name of a task for the error of a crash of this thread.
pub(crate) fn comm_of(task: u32) -> Option<&'static str> {
    let frame = CURRENT.get();
    // SAFETY: the frame of the current call lives as long as the call, and so does what it points
    // to. The name is used for the last message of the process only.
    unsafe {
        let scx: &'static Scx = frame.as_ref()?.scx.as_ref()?;
        Some(scx.name_of(TaskId(task)))
    }
}

/// Carries out a helper. One call too many cannot return into a loop of the policy, and a panic
/// must not unwind through it.
fn within<R>(frame: *mut Frame, help: impl FnOnce(&mut Scx, &mut Memory, &[u64]) -> R) -> R {
    if frame.is_null() || frame != CURRENT.get() {
        crash::stop("the context of another call is used");
    }
    // SAFETY: it is the frame of the call in which this thread is: `Plugin::call` has borrowed all
    // that it points to, and uses nothing of it until the call returns. No helper calls the policy,
    // so no other helper is under way.
    let (scx, memory, params) = unsafe { (&mut *(*frame).scx, &mut *(*frame).memory, &*(*frame).params) };
    if scx.is_exhausted() {
        crash::stop("no end after two million calls of helpers");
    }
    let result = catch_unwind(AssertUnwindSafe(|| help(scx, memory, params)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        crash::stop(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a helper panicked"))
    })
}

macro_rules! helpers {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = |$scx:pat_param, $memory:pat_param, $params:pat_param| $body:expr;)*) => {
        /// `struct scx_helpers`
        #[repr(C)]
        #[derive(Debug)]
        struct Helpers {
            $($name: extern "C" fn(*mut Frame, $($ty),*) $(-> $ret)?,)*
        }

        static HELPERS: Helpers = Helpers { $($name),* };

        #[cfg(test)]
        const HELPER_NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            extern "C" fn $name(frame: *mut Frame, $($arg: $ty),*) $(-> $ret)? {
                within(frame, |$scx, $memory, $params| $body)
            }
        )*
    };
}

fn cpu_of(cpu: i32) -> CpuId {
    // A negative number is that of no CPU.
    CpuId(u32::try_from(cpu).unwrap_or(u32::MAX >> 1))
}

fn task_or_none(task: Option<TaskId>) -> u32 {
    task.map_or(NONE, |task| task.0)
}

fn to_cpu(cpu: CpuId) -> i32 {
    i32::try_from(cpu.0).unwrap_or(-1)
}

/// Reads a text of the policy, for the length of a helper.
fn text(msg: *const c_char) -> String {
    if msg.is_null() {
        return String::new();
    }
    // SAFETY: the header asks for a text that ends in a 0.
    unsafe { CStr::from_ptr(msg) }.to_string_lossy().into_owned()
}

helpers! {
    now() -> u64 = |scx, _, _| scx.now().as_nanos();
    nr_cpus() -> u32 = |scx, _, _| scx.nr_cpus() as u32;
    slice_dfl() -> u64 = |scx, _, _| scx.slice_dfl().as_nanos();
    param(index: u32) -> u64 = |_, _, params| params.get(index as usize).copied().unwrap_or(0);
    cpu_online(cpu: i32) -> i32 = |scx, _, _| scx.cpu_online(cpu_of(cpu)).into();
    cpu_curr(cpu: i32) -> u32 = |scx, _, _| task_or_none(scx.cpu_curr(cpu_of(cpu)));
    task_comm(p: u32, buf: *mut c_char, size: usize) -> usize = |scx, _, _| write_text(scx.comm(TaskId(p)), buf, size);
    task_weight(p: u32) -> u32 = |scx, _, _| scx.weight(TaskId(p));
    task_cgroup(p: u32) -> u32 = |scx, _, _| scx.task_cgroup(TaskId(p)).0;
    cgroup_weight(group: u32) -> u32 = |scx, _, _| scx.cgroup_weight(GroupId(group));
    task_cpu(p: u32) -> i32 = |scx, _, _| to_cpu(scx.task_cpu(TaskId(p)));
    task_running(p: u32) -> i32 = |scx, _, _| scx.task_running(TaskId(p)).into();
    task_allowed(p: u32, cpu: i32) -> i32 = |scx, _, _| scx.allowed(TaskId(p), cpu_of(cpu)).into();
    task_period(p: u32) -> u64 = |scx, _, _| scx.period(TaskId(p)).map_or(0, Duration::as_nanos);
    task_slice(p: u32) -> u64 = |scx, _, _| scx.slice(TaskId(p)).as_nanos();
    task_set_slice(p: u32, slice: u64) = |scx, _, _| scx.set_slice(TaskId(p), Duration::from_nanos(slice));
    task_vtime(p: u32) -> u64 = |scx, _, _| scx.dsq_vtime(TaskId(p));
    task_set_vtime(p: u32, vtime: u64) = |scx, _, _| scx.set_dsq_vtime(TaskId(p), vtime);
    create_dsq(dsq: u64) -> i32 = |scx, _, _| match scx.create_dsq(DsqId(dsq)) {
        Ok(()) => 0,
        Err(DsqError::Builtin) => EINVAL,
        Err(DsqError::Exists) => EEXIST,
    };
    destroy_dsq(dsq: u64) = |scx, _, _| scx.destroy_dsq(DsqId(dsq));
    dsq_insert(p: u32, dsq: u64, slice: u64, flags: u64) = |scx, _, _| {
        scx.dsq_insert(TaskId(p), DsqId(dsq), Duration::from_nanos(slice), EnqFlags(flags));
    };
    dsq_insert_vtime(p: u32, dsq: u64, slice: u64, vtime: u64, flags: u64) = |scx, _, _| {
        scx.dsq_insert_vtime(TaskId(p), DsqId(dsq), Duration::from_nanos(slice), vtime, EnqFlags(flags));
    };
    dsq_move_to_local(dsq: u64) -> i32 = |scx, _, _| scx.dsq_move_to_local(DsqId(dsq)).into();
    dsq_move(p: u32, dsq: u64, flags: u64) -> i32 = |scx, _, _| {
        scx.dsq_move(TaskId(p), DsqId(dsq), EnqFlags(flags)).into()
    };
    dsq_move_vtime(p: u32, dsq: u64, vtime: u64, flags: u64) -> i32 = |scx, _, _| {
        scx.dsq_move_vtime(TaskId(p), DsqId(dsq), vtime, EnqFlags(flags)).into()
    };
    dsq_nr_queued(dsq: u64) -> u32 = |scx, _, _| scx.dsq_nr_queued(DsqId(dsq)) as u32;
    dsq_peek(dsq: u64) -> u32 = |scx, _, _| task_or_none(scx.dsq_peek(DsqId(dsq)));
    dsq_next(p: u32) -> u32 = |scx, _, _| task_or_none(scx.dsq_next(TaskId(p)));
    cpu_idle(cpu: i32) -> i32 = |scx, _, _| scx.idle_cpumask().contains(cpu_of(cpu)).into();
    core_idle(cpu: i32) -> i32 = |scx, _, _| {
        let cpu = cpu_of(cpu);
        (cpu.index() < scx.nr_cpus() && scx.is_core_idle(cpu)).into()
    };
    test_and_clear_cpu_idle(cpu: i32) -> i32 = |scx, _, _| scx.test_and_clear_cpu_idle(cpu_of(cpu)).into();
    pick_idle_cpu(p: u32, flags: u64) -> i32 = |scx, _, _| {
        scx.pick_idle_cpu(TaskId(p), flags & PICK_IDLE_CORE != 0).map_or(-1, to_cpu)
    };
    select_cpu_dfl(p: u32, prev_cpu: i32, flags: u64, is_idle: *mut i32) -> i32 = |scx, _, _| {
        let prev_cpu = cpu_of(prev_cpu);
        let (cpu, idles) = match prev_cpu.index() < scx.nr_cpus() {
            true => scx.select_cpu_dfl(TaskId(p), prev_cpu, WakeFlags(flags)),
            false => (CpuId(0), false),
        };
        // SAFETY: the header asks for null, or a place for a number.
        if let Some(is_idle) = unsafe { is_idle.as_mut() } {
            *is_idle = idles.into();
        }
        to_cpu(cpu)
    };
    kick_cpu(cpu: i32, flags: u64) = |scx, _, _| scx.kick_cpu(cpu_of(cpu), KickFlags(flags));
    error(msg: *const c_char) = |scx, _, _| scx.error(&text(msg));
    exit(msg: *const c_char) = |scx, _, _| scx.exit(&text(msg));
    task_data(p: u32) -> *mut c_void = |scx, memory, _| match scx.weight(TaskId(p)) {
        0 => std::ptr::null_mut(),
        _ => memory.task(TaskId(p).index()),
    };
    cpu_data(cpu: i32) -> *mut c_void = |scx, memory, _| match cpu_of(cpu).index() {
        index if index < scx.nr_cpus() => memory.cpu(index),
        _ => std::ptr::null_mut(),
    };
    cgroup_data(group: u32) -> *mut c_void = |_, memory, _| match GroupId(group).index() {
        index if index < GROUPS_MAX => memory.group(index),
        _ => std::ptr::null_mut(),
    };
    timer_start(id: u32, after: u64) = |scx, _, _| scx.timer_start(id, Duration::from_nanos(after));
    timer_cancel(id: u32) -> i32 = |scx, _, _| scx.timer_cancel(id).into();
    cgroup_parent(group: u32) -> u32 = |scx, _, _| scx.cgroup_parent(GroupId(group)).map_or(NONE, |above| above.0);
    task_work_left(p: u32) -> u64 = |scx, _, _| scx.work_left(TaskId(p)).map_or(u64::MAX, Duration::as_nanos);
}

/// `SCX_PICK_IDLE_CORE`
const PICK_IDLE_CORE: u64 = 1;
/// A number above is that of no group.
const GROUPS_MAX: usize = 1 << 20;

/// Writes a text with its 0 into a buffer of the policy, cut to its size; returns its length.
fn write_text(text: &str, buf: *mut c_char, size: usize) -> usize {
    if !buf.is_null() && size > 0 {
        let count = text.len().min(size - 1);
        // SAFETY: the header asks for a buffer of `size` bytes, which is none of ours.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), buf, count);
            buf.add(count).write(0);
        }
    }
    text.len()
}

/// A loaded object: it is never unloaded.
#[derive(Debug)]
struct Object {
    file: String,
    name: String,
    raw: RawPolicy,
    params: Vec<Param>,
}

// SAFETY: the pointers in it are to functions and constants of an object that stays loaded. That
// those can be called on several threads is what the header asks for: a policy has no variables.
unsafe impl Sync for Object {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Object {}

/// A policy of an object, in one run.
#[derive(Debug)]
struct Plugin {
    object: &'static Object,
    params: Vec<u64>,
    /// A copy needs the memory for itself, and has a reference only.
    memory: UnsafeCell<Memory>,
}

impl Clone for Plugin {
    fn clone(&self) -> Self {
        // SAFETY: a policy is not `Sync`: no other thread has a reference, and this one is in no
        // call, which would have it exclusively.
        let memory = unsafe { &mut *self.memory.get() }.copy();
        Self { object: self.object, params: self.params.clone(), memory: UnsafeCell::new(memory) }
    }
}

impl Plugin {
    fn new(object: &'static Object) -> Self {
        let RawPolicy { state_size, task_size, cpu_size, cgroup_size, .. } = object.raw;
        let sizes = Sizes { state: state_size, task: task_size, cpu: cpu_size, group: cgroup_size };
        let params = object.params.iter().map(|param| param.default).collect();
        Self { object, params, memory: UnsafeCell::new(Memory::new(sizes)) }
    }

    /// Calls the object.
    fn call<R>(&mut self, scx: &mut Scx, callback: Callback, task: u32, call: impl FnOnce(*mut Frame) -> R) -> R {
        crash::enter(&self.object.file, callback, task, scx.now().as_nanos());
        let memory = self.memory.get_mut();
        let mut frame =
            Frame { helpers: &raw const HELPERS, state: memory.state(), scx, memory, params: &raw const *self.params };
        CURRENT.set(&raw mut frame);
        let result = call(&raw mut frame);
        CURRENT.set(std::ptr::null_mut());
        crash::leave();
        result
    }
}

/// Calls an operation, if the object has it. The context is that of the call, and the arguments
/// are numbers.
macro_rules! forward {
    ($self:ident, $scx:ident, $callback:ident, $task:expr, $name:ident($($arg:expr),*)) => {
        $self.object.raw.$name.map(|operation| {
            $self.call($scx, Callback::$callback, $task, |frame| {
                // SAFETY: the header gives the function this type, and the object stays loaded.
                // The frame and all it points to live until the call returns.
                unsafe { operation(frame, $($arg),*) }
            })
        })
    };
}

impl Policy for Plugin {
    fn ops(&self) -> Ops {
        let RawPolicy { flags, timeout_ns, dispatch_max_batch, needs, .. } = self.object.raw;
        let default = Ops::named(&self.object.name);
        Ops {
            flags: OpsFlags(flags),
            needs: Needs(needs),
            timeout: if timeout_ns == 0 { default.timeout } else { Duration::from_nanos(timeout_ns) },
            dispatch_max_batch: match dispatch_max_batch {
                0 => default.dispatch_max_batch,
                batch => batch as usize,
            },
            ..default
        }
    }

    fn params(&self) -> &[Param] {
        &self.object.params
    }

    fn set_param(&mut self, index: usize, value: u64) {
        if let Some(param) = self.params.get_mut(index) {
            *param = value;
        }
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> CpuId {
        match forward!(self, scx, SelectCpu, p.0, select_cpu(p.0, to_cpu(prev_cpu), wake_flags.0)) {
            Some(cpu) => cpu_of(cpu),
            None => Fifo.select_cpu(scx, p, prev_cpu, wake_flags),
        }
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        if forward!(self, scx, Enqueue, p.0, enqueue(p.0, enq_flags.0)).is_none() {
            Fifo.enqueue(scx, p, enq_flags);
        }
    }

    fn dequeue(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        forward!(self, scx, Dequeue, p.0, dequeue(p.0, deq_flags.0));
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        forward!(self, scx, Dispatch, task_or_none(prev), dispatch(to_cpu(cpu), task_or_none(prev)));
    }

    fn tick(&mut self, scx: &mut Scx, p: TaskId) {
        forward!(self, scx, Tick, p.0, tick(p.0));
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        forward!(self, scx, Runnable, p.0, runnable(p.0, enq_flags.0));
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        forward!(self, scx, Running, p.0, running(p.0));
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, runnable: bool) {
        forward!(self, scx, Stopping, p.0, stopping(p.0, runnable.into()));
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        forward!(self, scx, Quiescent, p.0, quiescent(p.0, deq_flags.0));
    }

    fn yield_(&mut self, scx: &mut Scx, from: TaskId, to: Option<TaskId>) -> bool {
        match forward!(self, scx, Yield, from.0, r#yield(from.0, task_or_none(to))) {
            Some(is_followed) => is_followed != 0,
            None => Fifo.yield_(scx, from, to),
        }
    }

    fn set_weight(&mut self, scx: &mut Scx, p: TaskId, weight: u32) {
        forward!(self, scx, SetWeight, p.0, set_weight(p.0, weight));
    }

    fn set_cpumask(&mut self, scx: &mut Scx, p: TaskId, _cpumask: Option<&CpuMask>) {
        forward!(self, scx, SetCpumask, p.0, set_cpumask(p.0));
    }

    fn update_idle(&mut self, scx: &mut Scx, cpu: CpuId, idle: bool) {
        forward!(self, scx, UpdateIdle, NONE, update_idle(to_cpu(cpu), idle.into()));
    }

    fn cpu_acquire(&mut self, scx: &mut Scx, cpu: CpuId) {
        forward!(self, scx, CpuAcquire, NONE, cpu_acquire(to_cpu(cpu)));
    }

    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {
        forward!(self, scx, CpuRelease, NONE, cpu_release(to_cpu(cpu)));
    }

    fn cpu_online(&mut self, scx: &mut Scx, cpu: CpuId) {
        forward!(self, scx, CpuOnline, NONE, cpu_online(to_cpu(cpu)));
    }

    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {
        forward!(self, scx, CpuOffline, NONE, cpu_offline(to_cpu(cpu)));
    }

    fn init_task(&mut self, scx: &mut Scx, p: TaskId, fork: bool) {
        self.memory.get_mut().forget_task(p.index());
        forward!(self, scx, InitTask, p.0, init_task(p.0, fork.into()));
    }

    fn exit_task(&mut self, scx: &mut Scx, p: TaskId) {
        forward!(self, scx, ExitTask, p.0, exit_task(p.0));
        self.memory.get_mut().forget_task(p.index());
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        forward!(self, scx, Enable, p.0, enable(p.0));
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        forward!(self, scx, Disable, p.0, disable(p.0));
    }

    fn cgroup_init(&mut self, scx: &mut Scx, group: GroupId) {
        forward!(self, scx, CgroupInit, NONE, cgroup_init(group.0));
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        forward!(self, scx, CgroupExit, NONE, cgroup_exit(group.0));
    }

    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, from: GroupId, to: GroupId) {
        forward!(self, scx, CgroupMove, p.0, cgroup_move(p.0, from.0, to.0));
    }

    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {
        forward!(self, scx, CgroupSetWeight, NONE, cgroup_set_weight(group.0, weight));
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        let quota = limit.quota.map_or(u64::MAX, Duration::as_nanos);
        let (period, burst) = (limit.period.as_nanos(), limit.burst.as_nanos());
        forward!(self, scx, CgroupSetBandwidth, NONE, cgroup_set_bandwidth(group.0, period, quota, burst));
    }

    fn init(&mut self, scx: &mut Scx) {
        forward!(self, scx, Init, NONE, init());
    }

    fn timer(&mut self, scx: &mut Scx, id: u32) {
        forward!(self, scx, Timer, NONE, timer(id));
    }
}

/// Loads an object.
///
/// # Errors
/// It is no shared object, has no policy, or one of another version.
pub(crate) fn load(path: &Path) -> Result<PolicyFactory, LoadError> {
    if let Some((_, object)) = loaded().iter().find(|(known, _)| known == path) {
        return Ok(factory(object));
    }
    let make =
        "make one with `cc -O2 -shared -fPIC -I DIR -o mine.so mine.c`; `zerolag schema policy` prints the header";
    let error = |why: &str, help: &str| LoadError::new(why, help);
    // `dlopen` looks for a name without a slash in other places.
    let place = if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
    let place = CString::new(place.as_os_str().as_bytes()).map_err(|_| error("the name has a 0 in it", make))?;
    // SAFETY: loading runs the object's initializers: its user asked for that.
    let handle = unsafe { libc::dlopen(place.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(error(&format!("it cannot be loaded: {}", last_error()), make));
    }
    // SAFETY: the handle is one, and the name ends in a 0.
    let found = unsafe { libc::dlsym(handle, c"zerolag_policy".as_ptr()) };
    if found.is_null() {
        let help = "export one: `ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"mine\", ... };`";
        return Err(error("it has no object `zerolag_policy`", help));
    }
    // SAFETY: every version of the struct begins with these two numbers, and an object of that
    // name has at least them.
    let [version, size] = unsafe { found.cast::<[u32; 2]>().read_unaligned() };
    let known = (version as usize).checked_sub(1).and_then(|index| SIZES.get(index));
    if known.is_none_or(|known| *known != size as usize) {
        let why = format!(
            "its interface is version {version} ({size} bytes), that of this program version {VERSION} ({} bytes)",
            size_of::<RawPolicy>()
        );
        return Err(error(&why, "compile it anew with the header that `zerolag schema policy` prints"));
    }
    let mut raw = MaybeUninit::<RawPolicy>::zeroed();
    // SAFETY: it says that it has the version and the size of the struct up to there, which is at
    // most this struct. The rest is zero, and a function that is zero is `None`.
    let raw = unsafe {
        std::ptr::copy_nonoverlapping(found.cast::<u8>(), raw.as_mut_ptr().cast::<u8>(), size as usize);
        raw.assume_init()
    };
    let object = read(path, raw).map_err(|why| error(&why, "correct the object `zerolag_policy`"))?;
    crash::arm();
    let object: &'static Object = Box::leak(Box::new(object));
    loaded().push((path.to_owned(), object));
    Ok(factory(object))
}

fn factory(object: &'static Object) -> PolicyFactory {
    PolicyFactory::new(move || Plugin::new(object))
}

/// Returns the objects that are loaded: a sweep asks for one at each of its points.
fn loaded() -> MutexGuard<'static, Vec<(PathBuf, &'static Object)>> {
    static LOADED: Mutex<Vec<(PathBuf, &'static Object)>> = Mutex::new(Vec::new());
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn last_error() -> String {
    // SAFETY: it returns null, or a text that ends in a 0 and is valid until the next error.
    let text = unsafe { libc::dlerror() };
    self::text(text)
}

/// Reads what a policy says of itself.
fn read(path: &Path, raw: RawPolicy) -> Result<Object, String> {
    let name = text(raw.name);
    if name.is_empty() {
        return Err("its policy has no name".to_owned());
    }
    let known = Needs::ALL.iter().fold(0, |known, (_, needed)| known | needed.0);
    if raw.needs & !known != 0 {
        return Err(format!("needs is {:#x}, and known are ZEROLAG_NEEDS_PERIOD and ZEROLAG_NEEDS_WORK", raw.needs));
    }
    for (what, size) in [
        ("state_size", raw.state_size),
        ("task_size", raw.task_size),
        ("cpu_size", raw.cpu_size),
        ("cgroup_size", raw.cgroup_size),
    ] {
        if size > SIZE_MAX {
            return Err(format!("{what} is {size}, above {SIZE_MAX}"));
        }
    }
    if raw.nr_params > PARAMS_MAX || raw.nr_params > 0 && raw.params.is_null() {
        return Err(format!("it has {} parameters (at most {PARAMS_MAX}), and no array of them", raw.nr_params));
    }
    let param = |index: u32| {
        // SAFETY: the policy says that its array has so many.
        let raw = unsafe { &*raw.params.add(index as usize) };
        let param = Param {
            name: text(raw.name).into(),
            meaning: text(raw.meaning).into(),
            is_time: raw.is_time != 0,
            default: raw.default,
            range: raw.min..=raw.max,
        };
        let is_valid = !param.name.is_empty() && param.range.contains(&param.default);
        is_valid
            .then_some(param)
            .ok_or_else(|| format!("parameter {index} has no name, or a default outside its range"))
    };
    let params = (0..raw.nr_params).map(param).collect::<Result<_, _>>()?;
    Ok(Object { file: path.display().to_string(), name, raw, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the functions of a struct of the header, in order.
    fn functions(of: &str) -> Vec<&'static str> {
        let (_, rest) = crate::HEADER.split_once(&format!("struct {of} {{")).expect("the struct");
        let (body, _) = rest.split_once("\n};").expect("its end");
        body.lines().filter_map(|line| line.split_once("(*")?.1.split_once(')')).map(|(name, _)| name).collect()
    }

    #[test]
    fn the_header_has_the_functions_in_the_same_order() {
        assert_eq!(functions("scx_helpers"), HELPER_NAMES);
        let operations: Vec<_> = OPERATIONS.iter().map(|name| name.trim_start_matches("r#")).collect();
        assert_eq!(functions("zerolag_policy"), operations);
        assert!(crate::HEADER.contains(&format!("#define ZEROLAG_POLICY_VERSION {VERSION}\n")));
    }

    #[test]
    fn the_header_has_the_values_of_flags() {
        let value = |name: &str| {
            let line = crate::HEADER.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
            let line = line.unwrap_or_else(|| panic!("{name} is in the header"));
            let text = line.split("/*").next().unwrap_or(line).trim().trim_matches(['(', ')']);
            let number = |part: &str| {
                let part = part.trim().trim_end_matches("ULL");
                part.strip_prefix("0x")
                    .map_or_else(|| part.parse(), |hex| u64::from_str_radix(hex, 16))
                    .expect("a number")
            };
            text.split_once("<<").map_or_else(|| number(text), |(one, shift)| number(one) << number(shift))
        };
        let kinds = [
            ("WAKE", WakeFlags::ALL.iter().map(|(name, flag)| (*name, flag.0)).collect::<Vec<_>>()),
            ("ENQ", EnqFlags::ALL.iter().map(|(name, flag)| (*name, flag.0)).collect()),
            ("DEQ", DeqFlags::ALL.iter().map(|(name, flag)| (*name, flag.0)).collect()),
            ("KICK", KickFlags::ALL.iter().map(|(name, flag)| (*name, flag.0)).collect()),
            ("OPS", OpsFlags::ALL.iter().map(|(name, flag)| (*name, flag.0)).collect()),
        ];
        for (kind, flags) in kinds {
            for (name, flag) in flags {
                assert_eq!(value(&format!("SCX_{kind}_{name} ")), flag, "SCX_{kind}_{name}");
            }
        }
        for (name, flag) in Needs::ALL {
            assert_eq!(value(&format!("ZEROLAG_NEEDS_{name} ")), flag.0, "ZEROLAG_NEEDS_{name}");
        }
    }
}
