//! A policy of `sched_ext` that is written in Python: `zerolag.policy.Policy`.
//!
//! A callback that the class does not override is that of [`Fifo`], the defaults of the trait, without
//! a call of the interpreter. For the time of a callback the state of the host is moved into the object `Scx`
//! that the method gets, and back: a copy of a few hundred bytes. An `Scx` or a task that is kept
//! for later has no state then, and says so.
//!
//! An exception ends the policy, as a fault does in a kernel, and the run: `Spec::raised` has it.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerolag::model::{CpuId, CpuMask, CpuMax, Distance, Duration, GroupId, TaskId};
use zerolag::policy::policies::Fifo;
use zerolag::policy::{
    Callback, DeqFlags, DsqId, EnqFlags, ExitInfo, KickFlags, Needs, Ops, OpsFlags, Policy, PolicyClone, Scx, WakeFlags,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class, function or object of `policy=`, and the first exception of a policy of it.
#[derive(Clone)]
pub(crate) struct Source {
    object: Arc<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { object: Arc::new(object.to_owned().unbind()), raised: Arc::default() })
    }
}

impl Source {
    /// Takes the first exception out.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        lock(&self.raised).take()
    }

    /// Returns whether a policy has raised an exception.
    pub(crate) fn has_raised(&self) -> bool {
        lock(&self.raised).is_some()
    }

    /// Makes a policy for a run: of a class or a function by calling it, of an object by copying it.
    pub(crate) fn make(&self) -> Written {
        let made = Python::attach(|py| {
            let given = self.object.bind(py);
            let object = if given.is_instance_of::<PyType>() || !given.is_instance(&base(py)?)? {
                given.call0()?
            } else {
                py.import("copy")?.call_method1("deepcopy", (given,))?
            };
            if !object.is_instance(&base(py)?)? {
                let kind = object.get_type().name()?;
                return Err(PyTypeError::new_err(format!("policy: expected a zerolag.policy.Policy, not `{kind}`")));
            }
            let overrides = Callback::ALL.iter().map(|callback| is_overridden(&object, *callback));
            let overrides = overrides.collect::<PyResult<Vec<_>>>()?;
            Ok((ops(&object)?, overrides, object.unbind()))
        });
        let mut written = Written {
            ops: Ops::named("policy"),
            overrides: Vec::new(),
            object: None,
            context: None,
            raised: Arc::clone(&self.raised),
        };
        match made {
            Ok((ops, overrides, object)) => {
                (written.ops, written.overrides, written.object) = (ops, overrides, Some(object));
            }
            Err(error) => written.keep(error),
        }
        written
    }
}

fn base(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("zerolag.policy")?.getattr("Policy")
}

/// Returns the name of a method: a keyword of Python has an underscore.
fn method(callback: Callback) -> &'static str {
    match callback {
        Callback::Yield => "yield_",
        other => other.name().trim_start_matches("ops."),
    }
}

fn is_overridden(object: &Bound<'_, PyAny>, callback: Callback) -> PyResult<bool> {
    let name = method(callback);
    let own = object.get_type().getattr(name)?;
    Ok(!own.is(base(object.py())?.getattr(name)?))
}

fn ops(object: &Bound<'_, PyAny>) -> PyResult<Ops> {
    let name: Option<String> = object.getattr("name")?.extract()?;
    let name = match name {
        Some(name) => name,
        None => object.get_type().name()?.to_string().to_lowercase(),
    };
    let timeout: u64 = object.getattr("timeout_ms")?.extract()?;
    Ok(Ops {
        flags: OpsFlags(object.getattr("flags")?.extract()?),
        timeout: Duration::from_millis(timeout),
        dispatch_max_batch: object.getattr("dispatch_max_batch")?.extract()?,
        needs: Needs(object.getattr("needs")?.extract()?),
        ..Ops::named(&name)
    })
}

/// Returns the kernel's words and their numbers.
#[pyfunction]
pub(crate) fn scx_words() -> Vec<(String, u64)> {
    zerolag::policy::words()
}

/// What lasts for a callback: the state of the host, and the tasks as objects.
struct State {
    scx: Scx,
    is_open: bool,
    tasks: Vec<Option<Py<ScxTask>>>,
}

/// The kernel as a policy sees it: the helpers `scx_bpf_*`, without that prefix.
#[pyclass(name = "Scx", module = "zerolag.policy", frozen)]
pub(crate) struct Context(Mutex<State>);

impl Context {
    fn with<R>(&self, ask: impl FnOnce(&mut Scx) -> R) -> PyResult<R> {
        let mut state = lock(&self.0);
        if state.is_open {
            Ok(ask(&mut state.scx))
        } else {
            Err(PyRuntimeError::new_err("scx and tasks have a state during a callback of their run only"))
        }
    }

    /// Returns the object of a task, the same each time.
    fn task(this: &Bound<'_, Self>, p: TaskId) -> PyResult<Py<ScxTask>> {
        let py = this.py();
        let mut state = lock(&this.get().0);
        if state.tasks.len() <= p.index() {
            state.tasks.resize_with(p.index() + 1, || None);
        }
        if let Some(task) = &state.tasks[p.index()] {
            return Ok(task.clone_ref(py));
        }
        let task = Py::new(py, ScxTask { id: p.0, context: this.clone().unbind() })?;
        state.tasks[p.index()] = Some(task.clone_ref(py));
        Ok(task)
    }

    fn tasks(this: &Bound<'_, Self>, of: Vec<TaskId>) -> PyResult<Vec<Py<ScxTask>>> {
        of.into_iter().map(|p| Self::task(this, p)).collect()
    }
}

/// Returns a CPU as the host takes it: a negative number is none, and the host says so.
fn cpu(number: i64) -> CpuId {
    CpuId(u32::try_from(number).unwrap_or(u32::MAX))
}

fn id(of: &Bound<'_, ScxTask>) -> TaskId {
    TaskId(of.get().id)
}

#[pymethods]
impl Context {
    /// The time in nanoseconds.
    #[getter]
    fn now(&self) -> PyResult<u64> {
        self.with(|scx| scx.now().as_nanos())
    }

    /// The number of CPUs; they are numbered from 0.
    #[getter]
    fn nr_cpus(&self) -> PyResult<usize> {
        self.with(|scx| scx.nr_cpus())
    }

    /// The default slice of this machine in nanoseconds.
    #[getter]
    fn slice_dfl(&self) -> PyResult<u64> {
        self.with(|scx| scx.slice_dfl().as_nanos())
    }

    /// Returns the CPUs of the core (`"smt"`), cache (`"llc"`), or socket (`"socket"`) of a CPU, itself among them.
    fn span(&self, of: u32, distance: &str) -> PyResult<Vec<u32>> {
        let distance = match distance {
            "smt" => Distance::Smt,
            "llc" => Distance::Llc,
            "socket" => Distance::Socket,
            other => return Err(PyValueError::new_err(format!("no distance `{other}`; known are smt, llc, socket"))),
        };
        let found = self
            .with(|scx| ((of as usize) < scx.nr_cpus()).then(|| scx.topology().span(CpuId(of), distance).collect()))?;
        found.ok_or_else(|| PyValueError::new_err(format!("there is no CPU {of}")))
    }

    /// Returns the capacity of a CPU: 1024 of the largest.
    fn capacity(&self, of: u32) -> PyResult<u16> {
        let found = self.with(|scx| ((of as usize) < scx.nr_cpus()).then(|| scx.topology().capacity(CpuId(of))))?;
        found.ok_or_else(|| PyValueError::new_err(format!("there is no CPU {of}")))
    }

    /// Returns whether a CPU is online.
    fn cpu_online(&self, of: i64) -> PyResult<bool> {
        self.with(|scx| scx.cpu_online(cpu(of)))
    }

    /// Returns the task of the policy that runs on a CPU.
    fn cpu_curr(this: &Bound<'_, Self>, of: i64) -> PyResult<Option<Py<ScxTask>>> {
        let current = this.get().with(|scx| scx.cpu_curr(cpu(of)))?;
        current.map(|p| Self::task(this, p)).transpose()
    }

    /// Returns the weight of a group: 100 unless it was set.
    fn cgroup_weight(&self, group: u32) -> PyResult<u32> {
        self.with(|scx| scx.cgroup_weight(GroupId(group)))
    }

    /// Returns the group above a group; None of the root, and of one that does not exist.
    fn cgroup_parent(&self, group: u32) -> PyResult<Option<u32>> {
        self.with(|scx| scx.cgroup_parent(GroupId(group)).map(|above| above.0))
    }

    /// Creates a queue; its number is below 2**63.
    fn create_dsq(&self, dsq: u64) -> PyResult<()> {
        self.with(|scx| scx.create_dsq(DsqId(dsq)))?.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Destroys an empty queue.
    fn destroy_dsq(&self, dsq: u64) -> PyResult<()> {
        self.with(|scx| scx.destroy_dsq(DsqId(dsq)))
    }

    /// Inserts a task at the end of a queue, to run for `slice` nanoseconds; 0 keeps the old slice.
    #[pyo3(signature = (p, dsq, slice, enq_flags=0))]
    fn dsq_insert(&self, p: &Bound<'_, ScxTask>, dsq: u64, slice: u64, enq_flags: u64) -> PyResult<()> {
        let slice = Duration::from_nanos(slice);
        self.with(|scx| scx.dsq_insert(id(p), DsqId(dsq), slice, EnqFlags(enq_flags)))
    }

    /// Inserts a task by virtual time: the least is the first.
    #[pyo3(signature = (p, dsq, slice, vtime, enq_flags=0))]
    fn dsq_insert_vtime(
        &self,
        p: &Bound<'_, ScxTask>,
        dsq: u64,
        slice: u64,
        vtime: u64,
        enq_flags: u64,
    ) -> PyResult<()> {
        let slice = Duration::from_nanos(slice);
        self.with(|scx| scx.dsq_insert_vtime(id(p), DsqId(dsq), slice, vtime, EnqFlags(enq_flags)))
    }

    /// Moves the first task of a queue that may run on the CPU of `dispatch` to its local queue; returns whether there was one.
    fn dsq_move_to_local(&self, dsq: u64) -> PyResult<bool> {
        self.with(|scx| scx.dsq_move_to_local(DsqId(dsq)))
    }

    /// Moves a task from the queue on which it is to another one; returns whether it was on one.
    #[pyo3(signature = (p, to, enq_flags=0))]
    fn dsq_move(&self, p: &Bound<'_, ScxTask>, to: u64, enq_flags: u64) -> PyResult<bool> {
        self.with(|scx| scx.dsq_move(id(p), DsqId(to), EnqFlags(enq_flags)))
    }

    /// As `dsq_move`, by virtual time.
    #[pyo3(signature = (p, to, vtime, enq_flags=0))]
    fn dsq_move_vtime(&self, p: &Bound<'_, ScxTask>, to: u64, vtime: u64, enq_flags: u64) -> PyResult<bool> {
        self.with(|scx| scx.dsq_move_vtime(id(p), DsqId(to), vtime, EnqFlags(enq_flags)))
    }

    /// Returns the number of tasks of a queue; 0 if it does not exist.
    fn dsq_nr_queued(&self, dsq: u64) -> PyResult<usize> {
        self.with(|scx| scx.dsq_nr_queued(DsqId(dsq)))
    }

    /// Returns the first task of a queue.
    fn dsq_peek(this: &Bound<'_, Self>, dsq: u64) -> PyResult<Option<Py<ScxTask>>> {
        let first = this.get().with(|scx| scx.dsq_peek(DsqId(dsq)))?;
        first.map(|p| Self::task(this, p)).transpose()
    }

    /// Returns the tasks of a queue, in order.
    fn dsq_iter(this: &Bound<'_, Self>, dsq: u64) -> PyResult<Vec<Py<ScxTask>>> {
        let all = this.get().with(|scx| scx.dsq_iter(DsqId(dsq)).collect())?;
        Self::tasks(this, all)
    }

    /// Returns the CPUs that idle and have not been chosen for a task since.
    fn idle_cpus(&self) -> PyResult<Vec<u32>> {
        self.with(|scx| scx.idle_cpumask().iter().map(|cpu| cpu.0).collect())
    }

    /// Returns whether all CPUs of a core idle.
    fn is_core_idle(&self, of: u32) -> PyResult<bool> {
        let found = self.with(|scx| ((of as usize) < scx.nr_cpus()).then(|| scx.is_core_idle(CpuId(of))))?;
        found.ok_or_else(|| PyValueError::new_err(format!("there is no CPU {of}")))
    }

    /// Chooses an idle CPU; returns whether it idled. No later search finds it until it has run.
    fn test_and_clear_cpu_idle(&self, of: i64) -> PyResult<bool> {
        self.with(|scx| scx.test_and_clear_cpu_idle(cpu(of)))
    }

    /// Chooses the lowest idle CPU on which a task is allowed, with `whole_core` rather of a core that idles as a whole.
    #[pyo3(signature = (p, whole_core=false))]
    fn pick_idle_cpu(&self, p: &Bound<'_, ScxTask>, whole_core: bool) -> PyResult<Option<u32>> {
        self.with(|scx| scx.pick_idle_cpu(id(p), whole_core).map(|cpu| cpu.0))
    }

    /// Chooses a CPU as the kernel's default does; returns it, and whether it idles.
    fn select_cpu_dfl(&self, p: &Bound<'_, ScxTask>, prev_cpu: i64, wake_flags: u64) -> PyResult<(u32, bool)> {
        let (cpu, is_idle) = self.with(|scx| scx.select_cpu_dfl(id(p), cpu(prev_cpu), WakeFlags(wake_flags)))?;
        Ok((cpu.0, is_idle))
    }

    /// Lets a CPU schedule; with SCX_KICK_PREEMPT its current task loses its slice.
    #[pyo3(signature = (of, kick_flags=0))]
    fn kick_cpu(&self, of: i64, kick_flags: u64) -> PyResult<()> {
        self.with(|scx| scx.kick_cpu(cpu(of), KickFlags(kick_flags)))
    }

    /// Calls `timer` once with this number, after so many nanoseconds, at least 1 us; one that runs is
    /// started anew.
    fn timer_start(&self, id: u32, after: u64) -> PyResult<()> {
        self.with(|scx| scx.timer_start(id, Duration::from_nanos(after)))
    }

    /// Stops a timer; returns whether it ran.
    fn timer_cancel(&self, id: u32) -> PyResult<bool> {
        self.with(|scx| scx.timer_cancel(id))
    }

    /// Ends the policy with an error.
    fn error(&self, msg: &str) -> PyResult<()> {
        self.with(|scx| scx.error(msg))
    }

    /// Ends the policy.
    fn exit(&self, msg: &str) -> PyResult<()> {
        self.with(|scx| scx.exit(msg))
    }
}

/// A task of a policy (`struct task_struct`). A policy can give it attributes of its own; they last as long as the task.
#[pyclass(name = "Task", module = "zerolag.policy", frozen, dict, weakref)]
pub(crate) struct ScxTask {
    id: u32,
    context: Py<Context>,
}

impl ScxTask {
    fn with<R>(&self, ask: impl FnOnce(&mut Scx, TaskId) -> R) -> PyResult<R> {
        let p = TaskId(self.id);
        self.context.get().with(|scx| ask(scx, p))
    }
}

#[pymethods]
impl ScxTask {
    /// Its number.
    #[getter]
    const fn pid(&self) -> u32 {
        self.id
    }

    /// Its name.
    #[getter]
    fn comm(&self) -> PyResult<String> {
        self.with(|scx, p| scx.comm(p).to_owned())
    }

    /// Its weight: 100 for nice 0, between 1 and 10000.
    #[getter]
    fn weight(&self) -> PyResult<u32> {
        self.with(|scx, p| scx.weight(p))
    }

    /// The period of its timer in the workload in nanoseconds, which a kernel does not know; None without one.
    #[getter]
    fn period(&self) -> PyResult<Option<u64>> {
        self.with(|scx, p| scx.period(p).map(Duration::as_nanos))
    }

    /// The CPU time in nanoseconds until it waits or completes its request, for a policy that `needs` it; None if no wait is in sight.
    #[getter]
    fn work_left(&self) -> PyResult<Option<u64>> {
        self.with(|scx, p| scx.work_left(p).map(Duration::as_nanos))
    }

    /// Its group.
    #[getter]
    fn cgroup(&self) -> PyResult<u32> {
        self.with(|scx, p| scx.task_cgroup(p).0)
    }

    /// The CPU on which it runs, waits, or ran last.
    #[getter]
    fn cpu(&self) -> PyResult<u32> {
        self.with(|scx, p| scx.task_cpu(p).0)
    }

    /// Whether it runs.
    #[getter]
    fn running(&self) -> PyResult<bool> {
        self.with(|scx, p| scx.task_running(p))
    }

    /// The CPUs on which it is allowed; None for every CPU.
    #[getter]
    fn cpus(&self) -> PyResult<Option<Vec<u32>>> {
        self.with(|scx, p| scx.cpumask(p).map(|mask| mask.iter().map(|cpu| cpu.0).collect()))
    }

    /// Returns whether it is allowed on a CPU.
    fn allowed(&self, of: i64) -> PyResult<bool> {
        self.with(|scx, p| scx.allowed(p, cpu(of)))
    }

    /// What is left of its slice, in nanoseconds.
    #[getter]
    fn slice(&self) -> PyResult<u64> {
        self.with(|scx, p| scx.slice(p).as_nanos())
    }

    #[setter]
    fn set_slice(&self, slice: u64) -> PyResult<()> {
        self.with(|scx, p| scx.set_slice(p, Duration::from_nanos(slice)))
    }

    /// The virtual time by which it was last inserted, or what was set.
    #[getter]
    fn dsq_vtime(&self) -> PyResult<u64> {
        self.with(|scx, p| scx.dsq_vtime(p))
    }

    #[setter]
    fn set_dsq_vtime(&self, vtime: u64) -> PyResult<()> {
        self.with(|scx, p| scx.set_dsq_vtime(p, vtime))
    }

    fn __repr__(&self) -> String {
        let name = self.with(|scx, p| scx.comm(p).to_owned()).unwrap_or_default();
        format!("{name}[{}]", self.id)
    }
}

/// A policy written in Python.
pub(crate) struct Written {
    ops: Ops,
    /// For each callback whether the class overrides it.
    overrides: Vec<bool>,
    /// `None` if it could not be made.
    object: Option<Py<PyAny>>,
    /// `None` before the first callback.
    context: Option<Py<Context>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

/// No run of Python's goes on in two ways. If one did, the copy would fail at its first callback.
impl PolicyClone for Written {
    fn clone_policy(&self) -> Box<dyn Policy> {
        Box::new(Self {
            ops: self.ops.clone(),
            overrides: Vec::new(),
            object: None,
            context: None,
            raised: Arc::clone(&self.raised),
        })
    }
}

/// Tasks hold the context and the context holds tasks: one of both ends here.
impl Drop for Written {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            // Dropped outside of the lock: an object can have a destructor in Python.
            let tasks = core::mem::take(&mut lock(&context.get().0).tasks);
            Python::attach(|_| drop((tasks, context)));
        }
    }
}

impl Written {
    fn keep(&self, error: PyErr) {
        lock(&self.raised).get_or_insert(error);
    }

    const fn overrides(&self, callback: Callback) -> bool {
        self.overrides.as_slice()[callback as usize]
    }

    /// Calls a method that is overridden. `None` if it is not, or has raised an exception.
    fn ask<R>(
        &mut self,
        scx: &mut Scx,
        callback: Callback,
        arguments: impl FnOnce(&Bound<'_, Context>) -> PyResult<Py<PyTuple>>,
        answer: fn(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        let answered = Python::attach(|py| {
            let object = self.object.as_ref().ok_or_else(|| PyRuntimeError::new_err("the policy could not be made"))?;
            let context = match &self.context {
                Some(context) => context.bind(py).clone(),
                None => {
                    let state = State { scx: scx.clone(), is_open: false, tasks: Vec::new() };
                    let made = Bound::new(py, Context(Mutex::new(state)))?;
                    self.context = Some(made.clone().unbind());
                    made
                }
            };
            let turn = |scx: &mut Scx, is_open: bool| {
                let mut state = lock(&context.get().0);
                core::mem::swap(&mut state.scx, scx);
                state.is_open = is_open;
            };
            turn(scx, true);
            let called = arguments(&context)
                .and_then(|arguments| object.bind(py).call_method1(method(callback), arguments.into_bound(py)))
                .and_then(|result| answer(&result));
            turn(scx, false);
            called
        });
        match answered {
            Ok(answer) => Some(answer),
            Err(error) => {
                scx.error(&format!("the policy raised {error}"));
                self.keep(error);
                None
            }
        }
    }
}

/// Returns the number of a CPU.
fn number(answer: &Bound<'_, PyAny>) -> PyResult<i64> {
    answer.extract().map_err(|_| {
        let kind = answer.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("select_cpu returns the number of a CPU, not `{kind}`"))
    })
}

fn truth(answer: &Bound<'_, PyAny>) -> PyResult<bool> {
    answer.is_truthy()
}

fn nothing(_: &Bound<'_, PyAny>) -> PyResult<()> {
    Ok(())
}

/// A callback of a policy: its method if it is overridden, the default otherwise. Each argument is what Python gets.
macro_rules! callback {
    ($self:ident, $scx:ident, $callback:ident, |$context:ident| [$($argument:expr),*], $default:expr) => {
        if $self.object.is_some() && !$self.overrides(Callback::$callback) {
            $default
        } else {
            let arguments = |$context: &Bound<'_, Context>| {
                let items = ($context, $($argument,)*);
                items.into_pyobject($context.py()).map(Bound::unbind)
            };
            $self.ask($scx, Callback::$callback, arguments, nothing);
        }
    };
}

impl Policy for Written {
    fn ops(&self) -> Ops {
        self.ops.clone()
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> CpuId {
        if self.object.is_some() && !self.overrides(Callback::SelectCpu) {
            return Fifo.select_cpu(scx, p, prev_cpu, wake_flags);
        }
        let arguments = |scx: &Bound<'_, Context>| {
            let items = (scx, Context::task(scx, p)?, prev_cpu.0, wake_flags.0);
            items.into_pyobject(scx.py()).map(Bound::unbind)
        };
        self.ask(scx, Callback::SelectCpu, arguments, number).map_or(prev_cpu, cpu)
    }

    fn yield_(&mut self, scx: &mut Scx, from: TaskId, to: Option<TaskId>) -> bool {
        if self.object.is_some() && !self.overrides(Callback::Yield) {
            return Fifo.yield_(scx, from, to);
        }
        let arguments = |scx: &Bound<'_, Context>| {
            let to = to.map(|to| Context::task(scx, to)).transpose()?;
            (scx, Context::task(scx, from)?, to).into_pyobject(scx.py()).map(Bound::unbind)
        };
        self.ask(scx, Callback::Yield, arguments, truth).unwrap_or(false)
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        callback!(self, scx, Enqueue, |scx| [Context::task(scx, p)?, enq_flags.0], Fifo.enqueue(scx, p, enq_flags));
    }

    fn dequeue(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        callback!(self, scx, Dequeue, |scx| [Context::task(scx, p)?, deq_flags.0], Fifo.dequeue(scx, p, deq_flags));
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        callback!(
            self,
            scx,
            Dispatch,
            |scx| [cpu.0, prev.map(|prev| Context::task(scx, prev)).transpose()?],
            Fifo.dispatch(scx, cpu, prev)
        );
    }

    fn tick(&mut self, scx: &mut Scx, p: TaskId) {
        callback!(self, scx, Tick, |scx| [Context::task(scx, p)?], Fifo.tick(scx, p));
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        callback!(self, scx, Runnable, |scx| [Context::task(scx, p)?, enq_flags.0], Fifo.runnable(scx, p, enq_flags));
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        callback!(self, scx, Running, |scx| [Context::task(scx, p)?], Fifo.running(scx, p));
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, runnable: bool) {
        callback!(self, scx, Stopping, |scx| [Context::task(scx, p)?, runnable], Fifo.stopping(scx, p, runnable));
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        callback!(self, scx, Quiescent, |scx| [Context::task(scx, p)?, deq_flags.0], Fifo.quiescent(scx, p, deq_flags));
    }

    fn set_weight(&mut self, scx: &mut Scx, p: TaskId, weight: u32) {
        callback!(self, scx, SetWeight, |scx| [Context::task(scx, p)?, weight], Fifo.set_weight(scx, p, weight));
    }

    fn set_cpumask(&mut self, scx: &mut Scx, p: TaskId, cpumask: Option<&CpuMask>) {
        let cpus: Option<Vec<u32>> = cpumask.map(|mask| mask.iter().map(|cpu| cpu.0).collect());
        callback!(self, scx, SetCpumask, |scx| [Context::task(scx, p)?, cpus], Fifo.set_cpumask(scx, p, cpumask));
    }

    fn update_idle(&mut self, scx: &mut Scx, cpu: CpuId, idle: bool) {
        callback!(self, scx, UpdateIdle, |scx| [cpu.0, idle], Fifo.update_idle(scx, cpu, idle));
    }

    fn cpu_acquire(&mut self, scx: &mut Scx, cpu: CpuId) {
        callback!(self, scx, CpuAcquire, |scx| [cpu.0], Fifo.cpu_acquire(scx, cpu));
    }

    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {
        callback!(self, scx, CpuRelease, |scx| [cpu.0], Fifo.cpu_release(scx, cpu));
    }

    fn cpu_online(&mut self, scx: &mut Scx, cpu: CpuId) {
        callback!(self, scx, CpuOnline, |scx| [cpu.0], Fifo.cpu_online(scx, cpu));
    }

    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {
        callback!(self, scx, CpuOffline, |scx| [cpu.0], Fifo.cpu_offline(scx, cpu));
    }

    fn init_task(&mut self, scx: &mut Scx, p: TaskId, fork: bool) {
        callback!(self, scx, InitTask, |scx| [Context::task(scx, p)?, fork], Fifo.init_task(scx, p, fork));
    }

    fn exit_task(&mut self, scx: &mut Scx, p: TaskId) {
        callback!(self, scx, ExitTask, |scx| [Context::task(scx, p)?], Fifo.exit_task(scx, p));
        if let Some(context) = &self.context {
            let gone = lock(&context.get().0).tasks.get_mut(p.index()).and_then(Option::take);
            Python::attach(|_| drop(gone));
        }
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        callback!(self, scx, Enable, |scx| [Context::task(scx, p)?], Fifo.enable(scx, p));
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        callback!(self, scx, Disable, |scx| [Context::task(scx, p)?], Fifo.disable(scx, p));
    }

    fn cgroup_init(&mut self, scx: &mut Scx, group: GroupId) {
        callback!(self, scx, CgroupInit, |scx| [group.0], Fifo.cgroup_init(scx, group));
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        callback!(self, scx, CgroupExit, |scx| [group.0], Fifo.cgroup_exit(scx, group));
    }

    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, from: GroupId, to: GroupId) {
        callback!(
            self,
            scx,
            CgroupMove,
            |scx| [Context::task(scx, p)?, from.0, to.0],
            Fifo.cgroup_move(scx, p, from, to)
        );
    }

    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {
        callback!(self, scx, CgroupSetWeight, |scx| [group.0, weight], Fifo.cgroup_set_weight(scx, group, weight));
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        let [quota, period] = [limit.quota, Some(limit.period)].map(|of| of.map(Duration::as_nanos));
        let burst = limit.burst.as_nanos();
        callback!(
            self,
            scx,
            CgroupSetBandwidth,
            |scx| [group.0, quota, period, burst],
            Fifo.cgroup_set_bandwidth(scx, group, limit)
        );
    }

    fn timer(&mut self, scx: &mut Scx, id: u32) {
        callback!(self, scx, Timer, |scx| [id], Fifo.timer(scx, id));
    }

    fn init(&mut self, scx: &mut Scx) {
        callback!(self, scx, Init, |scx| [], Fifo.init(scx));
    }

    fn exit(&mut self, info: &ExitInfo) {
        let Some(object) = self.object.as_ref().filter(|_| self.overrides(Callback::Exit)) else { return };
        let words = (info.kind.reason(), info.msg.as_str(), info.place());
        let told = Python::attach(|py| object.bind(py).call_method1(method(Callback::Exit), words).map(drop));
        if let Err(error) = told {
            self.keep(error);
        }
    }
}
