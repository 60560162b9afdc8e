//! A policy of `sched_ext` that is written in the page, in JavaScript: `web/policy.js` has its
//! classes.
//!
//! Objects of JavaScript stay there, and have numbers here. A callback that the class does not
//! override is the default of the trait, without a call. For the time of a callback the state of
//! the host is in [`OPEN`], where the functions below find it; a task or an `scx` that is kept for
//! later has no state then, and says so. Times are numbers, which are exact below 2^53 ns, 104
//! days; queues and flags are `BigInt`, since they use bits that a number does not have.
//!
//! An exception ends the policy, as a fault does in a kernel, and [`raised`] has it.

use js_sys::Array;
use serde::Deserialize;
use std::cell::RefCell;
use std::mem;
use wasm_bindgen::prelude::*;
use zerolag::model::{CpuId, CpuMask, CpuMax, Distance, Duration, GroupId, TaskId};
use zerolag::policy::policies::Fifo;
use zerolag::policy::{
    Callback, DeqFlags, DsqId, EnqFlags, ExitInfo, KickFlags, Needs, Ops, OpsFlags, Policy, PolicyClone, PolicyFactory,
    Scx, WakeFlags, words,
};

#[wasm_bindgen]
extern "C" {
    /// Makes an object of the page's class: its number and what it says of itself, as JSON.
    #[wasm_bindgen(catch, js_name = zerolagPolicyMake)]
    fn policy_make() -> Result<String, JsValue>;
    /// Calls a method of an object.
    #[wasm_bindgen(catch, js_name = zerolagPolicyCall)]
    fn policy_call(object: u32, method: &str, arguments: &Array) -> Result<JsValue, JsValue>;
    /// Returns the object of a task, the same for each number.
    #[wasm_bindgen(js_name = zerolagPolicyTask)]
    fn policy_task(p: u32) -> JsValue;
    /// Forgets the object of a task that has exited.
    #[wasm_bindgen(js_name = zerolagPolicyForget)]
    fn policy_forget(p: u32);
    /// Returns what an exception says, with its place in the page's text.
    #[wasm_bindgen(js_name = zerolagPolicySays)]
    fn policy_says(exception: &JsValue) -> String;
}

/// What lasts for a callback.
struct Open {
    scx: Scx,
    is_open: bool,
}

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
    static RAISED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes what the first exception of a policy said.
pub(crate) fn raised() -> Option<String> {
    RAISED.with(RefCell::take)
}

fn keep(exception: &JsValue) {
    RAISED.with(|raised| {
        raised.borrow_mut().get_or_insert_with(|| policy_says(exception));
    });
}

/// Returns the page's policy as the value `own` of `policy`.
pub(crate) fn by_name(name: &str) -> Option<Result<PolicyFactory, (String, String)>> {
    (name == "own").then(|| Ok(PolicyFactory::new(Written::make)))
}

/// What an object says of itself.
#[derive(Deserialize)]
struct Said {
    object: u32,
    name: String,
    flags: String,
    timeout_ms: f64,
    dispatch_max_batch: usize,
    needs: String,
    overrides: Vec<String>,
}

/// A policy written in JavaScript.
struct Written {
    ops: Ops,
    /// For each callback whether the class overrides it.
    overrides: Vec<bool>,
    /// `None` if it could not be made.
    object: Option<u32>,
}

/// No run of the page goes on in two ways. If one did, the copy would fail at its first callback.
impl PolicyClone for Written {
    fn clone_policy(&self) -> Box<dyn Policy> {
        Box::new(Self { ops: self.ops.clone(), overrides: Vec::new(), object: None })
    }
}

/// Returns the name of a method.
fn method(callback: Callback) -> &'static str {
    match callback {
        Callback::Yield => "yield_",
        other => other.name().trim_start_matches("ops."),
    }
}

impl Written {
    fn make() -> Self {
        let made = policy_make().and_then(|said| {
            serde_json::from_str::<Said>(&said).map_err(|error| JsValue::from_str(&format!("policy: {error}")))
        });
        match made {
            Ok(said) => Self {
                ops: Ops {
                    flags: OpsFlags(said.flags.parse().unwrap_or(0)),
                    timeout: Duration::from_millis(said.timeout_ms as u64),
                    dispatch_max_batch: said.dispatch_max_batch,
                    needs: Needs(said.needs.parse().unwrap_or(0)),
                    ..Ops::named(&said.name)
                },
                overrides: (Callback::ALL.iter())
                    .map(|callback| said.overrides.iter().any(|name| name == method(*callback)))
                    .collect(),
                object: Some(said.object),
            },
            Err(exception) => {
                keep(&exception);
                Self { ops: Ops::named("own"), overrides: Vec::new(), object: None }
            }
        }
    }

    /// Calls a method that is overridden: `None` if it is not. One that has raised an exception
    /// answers with `undefined`, and the policy ends.
    fn ask(&self, scx: &mut Scx, callback: Callback, arguments: &[JsValue]) -> Option<JsValue> {
        let Some(object) = self.object else {
            scx.error("the policy could not be made");
            return Some(JsValue::UNDEFINED);
        };
        if !self.overrides[callback as usize] {
            return None;
        }
        turn(scx, true);
        let called = policy_call(object, method(callback), &arguments.iter().collect());
        turn(scx, false);
        Some(called.unwrap_or_else(|exception| {
            keep(&exception);
            scx.error(&format!("the policy raised {}", policy_says(&exception)));
            JsValue::UNDEFINED
        }))
    }
}

/// Gives the state of the host to the functions of the page, or takes it back.
fn turn(scx: &mut Scx, is_open: bool) {
    OPEN.with(|open| {
        let mut open = open.borrow_mut();
        let open = open.get_or_insert_with(|| Open { scx: scx.clone(), is_open: false });
        mem::swap(&mut open.scx, scx);
        open.is_open = is_open;
    });
}

fn task(p: TaskId) -> JsValue {
    policy_task(p.0)
}

fn some_task(p: Option<TaskId>) -> JsValue {
    p.map_or(JsValue::NULL, task)
}

fn count(of: u64) -> JsValue {
    JsValue::from_f64(of as f64)
}

impl Policy for Written {
    fn ops(&self) -> Ops {
        self.ops.clone()
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> CpuId {
        let arguments = [task(p), prev_cpu.0.into(), wake_flags.0.into()];
        match self.ask(scx, Callback::SelectCpu, &arguments) {
            None => Fifo.select_cpu(scx, p, prev_cpu, wake_flags),
            // What is no number is none, and the host says so.
            Some(chosen) => chosen.as_f64().map_or(CpuId(u32::MAX), |cpu| CpuId(cpu as u32)),
        }
    }

    fn yield_(&mut self, scx: &mut Scx, from: TaskId, to: Option<TaskId>) -> bool {
        match self.ask(scx, Callback::Yield, &[task(from), some_task(to)]) {
            None => Fifo.yield_(scx, from, to),
            Some(answer) => answer.is_truthy(),
        }
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        if self.ask(scx, Callback::Enqueue, &[task(p), enq_flags.0.into()]).is_none() {
            Fifo.enqueue(scx, p, enq_flags);
        }
    }

    fn dequeue(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        self.ask(scx, Callback::Dequeue, &[task(p), deq_flags.0.into()]);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        self.ask(scx, Callback::Dispatch, &[cpu.0.into(), some_task(prev)]);
    }

    fn tick(&mut self, scx: &mut Scx, p: TaskId) {
        self.ask(scx, Callback::Tick, &[task(p)]);
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        self.ask(scx, Callback::Runnable, &[task(p), enq_flags.0.into()]);
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        self.ask(scx, Callback::Running, &[task(p)]);
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, runnable: bool) {
        self.ask(scx, Callback::Stopping, &[task(p), runnable.into()]);
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        self.ask(scx, Callback::Quiescent, &[task(p), deq_flags.0.into()]);
    }

    fn set_weight(&mut self, scx: &mut Scx, p: TaskId, weight: u32) {
        self.ask(scx, Callback::SetWeight, &[task(p), weight.into()]);
    }

    fn set_cpumask(&mut self, scx: &mut Scx, p: TaskId, _cpumask: Option<&CpuMask>) {
        // They are those of the task.
        self.ask(scx, Callback::SetCpumask, &[task(p)]);
    }

    fn update_idle(&mut self, scx: &mut Scx, cpu: CpuId, idle: bool) {
        self.ask(scx, Callback::UpdateIdle, &[cpu.0.into(), idle.into()]);
    }

    fn cpu_acquire(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.ask(scx, Callback::CpuAcquire, &[cpu.0.into()]);
    }

    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.ask(scx, Callback::CpuRelease, &[cpu.0.into()]);
    }

    fn cpu_online(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.ask(scx, Callback::CpuOnline, &[cpu.0.into()]);
    }

    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.ask(scx, Callback::CpuOffline, &[cpu.0.into()]);
    }

    fn init_task(&mut self, scx: &mut Scx, p: TaskId, fork: bool) {
        self.ask(scx, Callback::InitTask, &[task(p), fork.into()]);
    }

    fn exit_task(&mut self, scx: &mut Scx, p: TaskId) {
        self.ask(scx, Callback::ExitTask, &[task(p)]);
        policy_forget(p.0);
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        self.ask(scx, Callback::Enable, &[task(p)]);
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        self.ask(scx, Callback::Disable, &[task(p)]);
    }

    fn cgroup_init(&mut self, scx: &mut Scx, group: GroupId) {
        self.ask(scx, Callback::CgroupInit, &[group.0.into()]);
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        self.ask(scx, Callback::CgroupExit, &[group.0.into()]);
    }

    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, from: GroupId, to: GroupId) {
        self.ask(scx, Callback::CgroupMove, &[task(p), from.0.into(), to.0.into()]);
    }

    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {
        self.ask(scx, Callback::CgroupSetWeight, &[group.0.into(), weight.into()]);
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        let quota = limit.quota.map_or(JsValue::NULL, |quota| count(quota.as_nanos()));
        let times = [count(limit.period.as_nanos()), count(limit.burst.as_nanos())];
        let [period, burst] = times;
        self.ask(scx, Callback::CgroupSetBandwidth, &[group.0.into(), quota, period, burst]);
    }

    fn timer(&mut self, scx: &mut Scx, id: u32) {
        self.ask(scx, Callback::Timer, &[id.into()]);
    }

    fn init(&mut self, scx: &mut Scx) {
        self.ask(scx, Callback::Init, &[]);
    }

    fn exit(&mut self, info: &ExitInfo) {
        let Some(object) = self.object.filter(|_| self.overrides[Callback::Exit as usize]) else { return };
        let words = [info.kind.reason(), info.msg.as_str()].map(JsValue::from_str);
        if let Err(exception) = policy_call(object, method(Callback::Exit), &words.iter().collect()) {
            keep(&exception);
        }
    }
}

fn with<R>(ask: impl FnOnce(&mut Scx) -> R) -> Result<R, JsError> {
    OPEN.with(|open| match &mut *open.borrow_mut() {
        Some(open) if open.is_open => Ok(ask(&mut open.scx)),
        _ => Err(JsError::new("scx and tasks have a state during a callback of their run only")),
    })
}

/// As [`with`], of a CPU that there is.
fn with_cpu<R>(of: u32, ask: impl FnOnce(&mut Scx, CpuId) -> R) -> Result<R, JsError> {
    with(|scx| ((of as usize) < scx.nr_cpus()).then(|| ask(scx, CpuId(of))))?
        .ok_or_else(|| JsError::new(&format!("there is no CPU {of}")))
}

fn nanos(of: f64) -> Duration {
    Duration::from_nanos(of as u64)
}

/// A task that is not there is -1: `Option<u32>` is the same, and slower.
fn number(of: Option<TaskId>) -> i32 {
    of.map_or(-1, |p| p.0 as i32)
}

/// Returns the kernel's words with their numbers as text, as JSON.
#[wasm_bindgen]
pub fn scx_words() -> String {
    let all: serde_json::Map<String, serde_json::Value> =
        words().into_iter().map(|(name, value)| (name, value.to_string().into())).collect();
    serde_json::Value::Object(all).to_string()
}

/// The functions of a class: each asks the host as its body says.
macro_rules! helpers {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty = |$scx:ident| $body:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of `web/policy.js`.")]
            #[wasm_bindgen]
            pub fn $name($($argument: $kind),*) -> Result<$answer, JsError> {
                with(|$scx| $body)
            }
        )*
    };
}

helpers! {
    scx_now() -> f64 = |scx| scx.now().as_nanos() as f64;
    scx_nr_cpus() -> u32 = |scx| scx.nr_cpus() as u32;
    scx_slice_dfl() -> f64 = |scx| scx.slice_dfl().as_nanos() as f64;
    scx_cpu_online(cpu: u32) -> bool = |scx| scx.cpu_online(CpuId(cpu));
    scx_cpu_curr(cpu: u32) -> i32 = |scx| number(scx.cpu_curr(CpuId(cpu)));
    scx_cgroup_weight(group: u32) -> u32 = |scx| scx.cgroup_weight(GroupId(group));
    scx_cgroup_parent(group: u32) -> Option<u32> = |scx| scx.cgroup_parent(GroupId(group)).map(|above| above.0);
    scx_destroy_dsq(dsq: u64) -> () = |scx| scx.destroy_dsq(DsqId(dsq));
    scx_dsq_insert(p: u32, dsq: u64, slice: f64, flags: u64) -> () =
        |scx| scx.dsq_insert(TaskId(p), DsqId(dsq), nanos(slice), EnqFlags(flags));
    scx_dsq_insert_vtime(p: u32, dsq: u64, slice: f64, vtime: f64, flags: u64) -> () =
        |scx| scx.dsq_insert_vtime(TaskId(p), DsqId(dsq), nanos(slice), vtime as u64, EnqFlags(flags));
    scx_dsq_move_to_local(dsq: u64) -> bool = |scx| scx.dsq_move_to_local(DsqId(dsq));
    scx_dsq_move(p: u32, to: u64, flags: u64) -> bool = |scx| scx.dsq_move(TaskId(p), DsqId(to), EnqFlags(flags));
    scx_dsq_move_vtime(p: u32, to: u64, vtime: f64, flags: u64) -> bool =
        |scx| scx.dsq_move_vtime(TaskId(p), DsqId(to), vtime as u64, EnqFlags(flags));
    scx_dsq_nr_queued(dsq: u64) -> u32 = |scx| scx.dsq_nr_queued(DsqId(dsq)) as u32;
    scx_dsq_peek(dsq: u64) -> i32 = |scx| number(scx.dsq_peek(DsqId(dsq)));
    scx_dsq_iter(dsq: u64) -> Vec<u32> = |scx| scx.dsq_iter(DsqId(dsq)).map(|p| p.0).collect();
    scx_idle_cpus() -> Vec<u32> = |scx| scx.idle_cpumask().iter().map(|cpu| cpu.0).collect();
    scx_test_and_clear_cpu_idle(cpu: u32) -> bool = |scx| scx.test_and_clear_cpu_idle(CpuId(cpu));
    scx_pick_idle_cpu(p: u32, whole_core: bool) -> i32 =
        |scx| scx.pick_idle_cpu(TaskId(p), whole_core).map_or(-1, |cpu| cpu.0 as i32);
    scx_select_cpu_dfl(p: u32, prev_cpu: u32, flags: u64) -> Vec<u32> = |scx| {
        let (cpu, is_idle) = scx.select_cpu_dfl(TaskId(p), CpuId(prev_cpu), WakeFlags(flags));
        vec![cpu.0, u32::from(is_idle)]
    };
    scx_kick_cpu(cpu: u32, flags: u64) -> () = |scx| scx.kick_cpu(CpuId(cpu), KickFlags(flags));
    scx_timer_start(id: u32, after: f64) -> () = |scx| scx.timer_start(id, nanos(after));
    scx_timer_cancel(id: u32) -> bool = |scx| scx.timer_cancel(id);
    scx_error(msg: &str) -> () = |scx| scx.error(msg);
    scx_exit(msg: &str) -> () = |scx| scx.exit(msg);
    task_comm(p: u32) -> String = |scx| scx.comm(TaskId(p)).to_owned();
    task_weight(p: u32) -> u32 = |scx| scx.weight(TaskId(p));
    task_period(p: u32) -> f64 = |scx| scx.period(TaskId(p)).map_or(f64::NAN, |period| period.as_nanos() as f64);
    task_work_left(p: u32) -> f64 = |scx| scx.work_left(TaskId(p)).map_or(f64::NAN, |left| left.as_nanos() as f64);
    task_cgroup(p: u32) -> u32 = |scx| scx.task_cgroup(TaskId(p)).0;
    task_cpu(p: u32) -> u32 = |scx| scx.task_cpu(TaskId(p)).0;
    task_running(p: u32) -> bool = |scx| scx.task_running(TaskId(p));
    task_cpus(p: u32) -> Option<Vec<u32>> =
        |scx| scx.cpumask(TaskId(p)).map(|mask| mask.iter().map(|cpu| cpu.0).collect());
    task_allowed(p: u32, cpu: u32) -> bool = |scx| scx.allowed(TaskId(p), CpuId(cpu));
    task_slice(p: u32) -> f64 = |scx| scx.slice(TaskId(p)).as_nanos() as f64;
    task_set_slice(p: u32, slice: f64) -> () = |scx| scx.set_slice(TaskId(p), nanos(slice));
    task_dsq_vtime(p: u32) -> f64 = |scx| scx.dsq_vtime(TaskId(p)) as f64;
    task_set_dsq_vtime(p: u32, vtime: f64) -> () = |scx| scx.set_dsq_vtime(TaskId(p), vtime as u64);
}

/// Creates a queue; its number is below 2^63.
#[wasm_bindgen]
pub fn scx_create_dsq(dsq: u64) -> Result<(), JsError> {
    with(|scx| scx.create_dsq(DsqId(dsq)))?.map_err(|error| JsError::new(&error.to_string()))
}

/// Returns the CPUs of the core (`"smt"`), cache (`"llc"`), or socket (`"socket"`) of a CPU.
#[wasm_bindgen]
pub fn scx_span(of: u32, distance: &str) -> Result<Vec<u32>, JsError> {
    let distance = match distance {
        "smt" => Distance::Smt,
        "llc" => Distance::Llc,
        "socket" => Distance::Socket,
        other => return Err(JsError::new(&format!("no distance `{other}`; known are smt, llc, socket"))),
    };
    with_cpu(of, |scx, of| scx.topology().span(of, distance).collect())
}

/// Returns the capacity of a CPU: 1024 of the largest.
#[wasm_bindgen]
pub fn scx_capacity(of: u32) -> Result<u16, JsError> {
    with_cpu(of, |scx, of| scx.topology().capacity(of))
}

/// Returns whether all CPUs of a core idle.
#[wasm_bindgen]
pub fn scx_is_core_idle(of: u32) -> Result<bool, JsError> {
    with_cpu(of, |scx, of| scx.is_core_idle(of))
}
