// A scheduler that is written in the page: the operations of Linux's `sched_ext` as methods of a class, the helpers `scx_bpf_*` as methods of `scx`.
// It runs in the worker, beside the simulator.

/** @type {Map<number, Task>} */
const tasksOfPolicy = new Map();
/** @type {Policy[]} */
const policies = [];
/** The class that the page's text makes. @type {(new () => Policy) | null} */
let policyClass = null;

/** A queue: a number of your own, or one of SCX_DSQ_*. @typedef {number | bigint} Dsq */

/** @param {number} p @returns {Task | null} */
const taskOrNull = (p) => p < 0 ? null : zerolagPolicyTask(p);

/** A CPU that is no number is none: the host says so. @param {number} cpu */
const cpuNumber = (cpu) => Number.isInteger(cpu) && cpu >= 0 ? cpu : 0xffffffff;

/** A task (`struct task_struct`). What is written to other names stays with it until it exits. */
class Task {
  /** @param {number} pid */
  constructor(pid) {
    this.pid = pid;
    Object.defineProperty(this, "pid", { writable: false });
  }
  /** Its name. */
  get comm() { return wasm_bindgen.task_comm(this.pid); }
  /** Its weight: 100 for nice 0, between 1 and 10000. */
  get weight() { return wasm_bindgen.task_weight(this.pid); }
  /** The period of its timer in the workload in nanoseconds, which a kernel does not know; null without one. */
  get period() {
    const period = wasm_bindgen.task_period(this.pid);
    return Number.isNaN(period) ? null : period;
  }
  /** The CPU time in nanoseconds until it waits or completes its request, for a policy that `needs` it; null if no wait is in sight. */
  get work_left() {
    const left = wasm_bindgen.task_work_left(this.pid);
    return Number.isNaN(left) ? null : left;
  }
  /** Its group. */
  get cgroup() { return wasm_bindgen.task_cgroup(this.pid); }
  /** The CPU on which it runs, waits, or ran last. */
  get cpu() { return wasm_bindgen.task_cpu(this.pid); }
  /** Whether it runs. */
  get running() { return wasm_bindgen.task_running(this.pid); }
  /** The CPUs on which it is allowed; null for every CPU. */
  get cpus() { return wasm_bindgen.task_cpus(this.pid) ?? null; }
  /** Whether it is allowed on a CPU. @param {number} cpu */
  allowed(cpu) { return wasm_bindgen.task_allowed(this.pid, cpuNumber(cpu)); }
  /** What is left of its slice, in nanoseconds. */
  get slice() { return wasm_bindgen.task_slice(this.pid); }
  set slice(slice) { wasm_bindgen.task_set_slice(this.pid, slice); }
  /** The virtual time by which it was last inserted, or what was set. */
  get dsq_vtime() { return wasm_bindgen.task_dsq_vtime(this.pid); }
  set dsq_vtime(vtime) { wasm_bindgen.task_set_dsq_vtime(this.pid, vtime); }
}

/** The kernel as a policy sees it. Times are nanoseconds. */
class Scx {
  get now() { return wasm_bindgen.scx_now(); }
  get nr_cpus() { return wasm_bindgen.scx_nr_cpus(); }
  /** The default slice of this machine. */
  get slice_dfl() { return wasm_bindgen.scx_slice_dfl(); }
  /** The CPUs of the core ("smt"), cache ("llc"), or socket ("socket") of a CPU, itself among them. @param {number} cpu @param {string} distance */
  span(cpu, distance) { return wasm_bindgen.scx_span(cpuNumber(cpu), distance); }
  /** 1024 of the largest CPU. @param {number} cpu */
  capacity(cpu) { return wasm_bindgen.scx_capacity(cpuNumber(cpu)); }
  /** @param {number} cpu */
  cpu_online(cpu) { return wasm_bindgen.scx_cpu_online(cpuNumber(cpu)); }
  /** The task of the policy that runs on a CPU. @param {number} cpu */
  cpu_curr(cpu) { return taskOrNull(wasm_bindgen.scx_cpu_curr(cpuNumber(cpu))); }
  /** 100 unless it was set. @param {number} group */
  cgroup_weight(group) { return wasm_bindgen.scx_cgroup_weight(group); }
  /** The group above a group; null of the root, and of one that does not exist. @param {number} group */
  cgroup_parent(group) { return wasm_bindgen.scx_cgroup_parent(group) ?? null; }
  /** Its number is below 2^63. @param {Dsq} dsq */
  create_dsq(dsq) { wasm_bindgen.scx_create_dsq(BigInt(dsq)); }
  /** @param {Dsq} dsq */
  destroy_dsq(dsq) { wasm_bindgen.scx_destroy_dsq(BigInt(dsq)); }
  /** At the end of a queue; a slice of 0 keeps the old one. @param {Task} p @param {Dsq} dsq @param {number} slice */
  dsq_insert(p, dsq, slice, enq_flags = 0n) { wasm_bindgen.scx_dsq_insert(p.pid, BigInt(dsq), Number(slice), BigInt(enq_flags)); }
  /** By virtual time: the least is the first. @param {Task} p @param {Dsq} dsq @param {number} slice @param {number} vtime */
  dsq_insert_vtime(p, dsq, slice, vtime, enq_flags = 0n) {
    wasm_bindgen.scx_dsq_insert_vtime(p.pid, BigInt(dsq), Number(slice), vtime, BigInt(enq_flags));
  }
  /** Moves the first task of a queue that may run on the CPU of `dispatch` to its local queue; whether there was one. @param {Dsq} dsq */
  dsq_move_to_local(dsq) { return wasm_bindgen.scx_dsq_move_to_local(BigInt(dsq)); }
  /** Whether it was on a queue. @param {Task} p @param {Dsq} to */
  dsq_move(p, to, enq_flags = 0n) { return wasm_bindgen.scx_dsq_move(p.pid, BigInt(to), BigInt(enq_flags)); }
  /** @param {Task} p @param {Dsq} to @param {number} vtime */
  dsq_move_vtime(p, to, vtime, enq_flags = 0n) { return wasm_bindgen.scx_dsq_move_vtime(p.pid, BigInt(to), vtime, BigInt(enq_flags)); }
  /** 0 if there is no such queue. @param {Dsq} dsq */
  dsq_nr_queued(dsq) { return wasm_bindgen.scx_dsq_nr_queued(BigInt(dsq)); }
  /** The first task. @param {Dsq} dsq */
  dsq_peek(dsq) { return taskOrNull(wasm_bindgen.scx_dsq_peek(BigInt(dsq))); }
  /** The tasks, in order. @param {Dsq} dsq @returns {Task[]} */
  dsq_iter(dsq) { return Array.from(wasm_bindgen.scx_dsq_iter(BigInt(dsq)), zerolagPolicyTask); }
  /** The CPUs that idle and have not been chosen for a task since. @returns {number[]} */
  idle_cpus() { return Array.from(wasm_bindgen.scx_idle_cpus()); }
  /** @param {number} cpu */
  is_core_idle(cpu) { return wasm_bindgen.scx_is_core_idle(cpuNumber(cpu)); }
  /** Chooses an idle CPU; whether it idled. @param {number} cpu */
  test_and_clear_cpu_idle(cpu) { return wasm_bindgen.scx_test_and_clear_cpu_idle(cpuNumber(cpu)); }
  /** The lowest idle CPU on which a task is allowed, or null. @param {Task} p */
  pick_idle_cpu(p, whole_core = false) {
    const cpu = wasm_bindgen.scx_pick_idle_cpu(p.pid, whole_core);
    return cpu < 0 ? null : cpu;
  }
  /** The CPU that the kernel's default chooses, and whether it idles. @param {Task} p @param {number} prev_cpu @param {bigint} wake_flags @returns {[number, boolean]} */
  select_cpu_dfl(p, prev_cpu, wake_flags) {
    const [cpu, idle] = wasm_bindgen.scx_select_cpu_dfl(p.pid, cpuNumber(prev_cpu), BigInt(wake_flags));
    return [cpu, idle === 1];
  }
  /** @param {number} cpu */
  kick_cpu(cpu, kick_flags = 0n) { wasm_bindgen.scx_kick_cpu(cpuNumber(cpu), BigInt(kick_flags)); }
  /** Calls `timer` once with this number, after so many nanoseconds. @param {number} id @param {number} after */
  timer_start(id, after) { wasm_bindgen.scx_timer_start(id, after); }
  /** Whether it ran. @param {number} id */
  timer_cancel(id) { return wasm_bindgen.scx_timer_cancel(id); }
  /** Ends the policy with an error. @param {string} msg */
  error(msg) { wasm_bindgen.scx_error(String(msg)); }
  /** Ends the policy. @param {string} msg */
  exit(msg) { wasm_bindgen.scx_exit(String(msg)); }
}

const theScx = new Scx();

/** A scheduler. A method that a class does not override does what the kernel does without one, and costs no call. */
class Policy {
  /** As the kernel prints it; the name of the class without one. @type {string | null} */
  name = null;
  /** SCX_OPS_*. */
  flags = 0n;
  /** How long a runnable task may wait before the policy is unloaded. */
  timeout_ms = 30000;
  /** How many tasks one `dispatch` may insert. */
  dispatch_max_batch = 32;
  /** ZEROLAG_NEEDS_*: what it asks of the workload that no kernel knows. */
  needs = 0n;
  /** @param {Scx} scx @param {Task} p @param {number} prev_cpu @param {bigint} wake_flags @returns {number} */
  select_cpu(scx, p, prev_cpu, wake_flags) {
    const [cpu, idle] = scx.select_cpu_dfl(p, prev_cpu, wake_flags);
    if (idle) scx.dsq_insert(p, DSQ_LOCAL, scx.slice_dfl);
    return cpu;
  }
  /** @param {Scx} scx @param {Task} p @param {bigint} enq_flags */
  enqueue(scx, p, enq_flags) { scx.dsq_insert(p, DSQ_GLOBAL, scx.slice_dfl, enq_flags); }
  /** @param {Scx} _scx @param {Task} p @param {Task | null} _to @returns {boolean} */
  yield_(_scx, p, _to) {
    p.slice = 0;
    return false;
  }
}
/** The operations that do nothing unless a class has them. */
const OPERATIONS = ["dequeue", "dispatch", "tick", "runnable", "running", "stopping", "quiescent", "set_weight", "set_cpumask", "update_idle", "cpu_acquire",
  "cpu_release", "cpu_online", "cpu_offline", "init_task", "exit_task", "enable", "disable", "cgroup_init", "cgroup_exit", "cgroup_move", "cgroup_set_weight",
  "cgroup_set_bandwidth", "timer", "init", "exit"];
for (const name of OPERATIONS) Object.defineProperty(Policy.prototype, name, { value() {}, writable: true });

let DSQ_GLOBAL = 0n, DSQ_LOCAL = 0n;
/** The kernel's words: SCX_ENQ_HEAD and so on, as `BigInt`, since some are above 2^53. */
function defineWords() {
  /** @type {Record<string, string>} */
  const words = JSON.parse(wasm_bindgen.scx_words());
  for (const [name, value] of Object.entries(words)) {
    Object.defineProperty(self, name, { value: name === "SCX_SLICE_INF" ? Number(value) : BigInt(value), configurable: true });
  }
  [DSQ_GLOBAL, DSQ_LOCAL] = [BigInt(words.SCX_DSQ_GLOBAL), BigInt(words.SCX_DSQ_LOCAL)];
}

/** Makes the class of a text: its last class that extends Policy. @param {string} text */
function readPolicy(text) {
  policyClass = null;
  const name = [...text.matchAll(/^[ \t]*class\s+([A-Za-z_$][\w$]*)\s+extends\b/gm)].pop()?.[1];
  if (!name) throw new Error("there is no class: write `class Mine extends Policy { ... }`");
  const file = fileOfPolicy(text, name);
  try {
    importScripts(file);
  } finally {
    URL.revokeObjectURL(file);
  }
  const found = /** @type {any} */ (self).zerolagPolicy;
  if (!(found?.prototype instanceof Policy)) throw new Error(`the last class, ${name}, does not extend Policy`);
  policyClass = found;
}

/** Forgets the objects of the last run. */
function forgetPolicies() {
  policies.length = 0;
  tasksOfPolicy.clear();
}

// What the simulator calls.

function zerolagPolicyMake() {
  if (!policyClass) throw new Error("there is no policy in this page");
  const policy = new policyClass();
  policies.push(policy);
  const overrides = ["select_cpu", "enqueue", "yield_", ...OPERATIONS].filter((name) => /** @type {any} */ (policy)[name] !== /** @type {any} */ (Policy.prototype)[name]);
  return JSON.stringify({ object: policies.length - 1, name: String(policy.name ?? policyClass.name.toLowerCase()), flags: String(BigInt(policy.flags)),
    timeout_ms: Number(policy.timeout_ms), dispatch_max_batch: Number(policy.dispatch_max_batch), needs: String(BigInt(policy.needs)), overrides });
}

/** @param {number} object @param {string} method @param {unknown[]} given */
function zerolagPolicyCall(object, method, given) {
  return /** @type {any} */ (policies[object])[method](theScx, ...given);
}

/** @param {number} p @returns {Task} */
function zerolagPolicyTask(p) {
  let task = tasksOfPolicy.get(p);
  if (!task) tasksOfPolicy.set(p, task = new Task(p));
  return task;
}

/** @param {number} p */
function zerolagPolicyForget(p) {
  tasksOfPolicy.delete(p);
}

/** What an exception says, behind its place in the text: `LINE:COLUMN: `. @param {any} exception */
function zerolagPolicySays(exception) {
  const said = exception instanceof Error ? exception.message.replace(/^Failed to execute 'importScripts'.*?: /, "") : String(exception);
  const says = exception instanceof Error ? `${exception.name}: ${said}` : said;
  // The frames of other files are those of this worker.
  const own = String(exception?.stack ?? "").split("\n").find((line) => /blob:/.test(line) && !/(zerolag|wasm|readPolicy|onmessage)/.test(line));
  const place = own?.match(/blob:\S*?:(\d+):(\d+)/);
  return place ? `${place[1]}:${place[2]}: ${says}` : says;
}
