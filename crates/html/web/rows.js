// The rows of a run: for each CPU and each task its slices in order of time, with sums, so that the busy part of any interval
// is two binary searches away.

const BLOCKED = 1, ENDED = 2, OPEN = 3, WOKEN = 4, NEW = 8, PREEMPTED = 12, MERGED = 16, BY_LIMIT = 32, BY_LOCK = 64;
const THROTTLED = 0, RT_THROTTLED = 1, SERVER = 2, SPIN = 3, IRQ = 4, OFFLINE = 5, BOOSTED = 6, HOLDS = 7, WANTS = 8, NO_BUDGET = 9,
  TASK_THROTTLED = 10, UNSEEN = 11;
/** How many slices a sentence about a wait reads. */
const MEANWHILE = 4000;
/** How many slices of a task the figures of a part read one by one. */
const FIGURED = 2000;
const IPI = 0, MIGRATE = 1, REPLENISH = 2, OVERRUN = 3, LATE = 4, DROP = 5;
const IRQ_NAMES = ["tick", "timer", "IPI", "device", "softirq", "hardware", "NMI", "stolen"];
const IPI_NAMES = ["reschedule", "push real-time tasks", "balance", "hand the running task over"];
const MIGRATE_NAMES = ["wakeup", "push", "pull", "new-idle balance", "periodic balance", "active balance", "affinity", "hotplug", "?"];

/**
 * @typedef {{ kind: "cpu" | "task" | "state", id: number, label: string, lo: number, hi: number, spans: Uint32Array,
 *   reach: Float64Array, brief: Uint32Array, points: Uint32Array, track?: StateRow }} Row
 * `spans` are states, `reach` the latest end up to each of them; `brief` are interrupts and spinning, which do not last.
 */

class Run {
  // Set by `sortByTask`, which the constructor calls.
  /** Slices, task after task. @type {Uint32Array} */ order;
  /** The first place in `order` of each task. @type {Uint32Array} */ taskOf;
  /** Run time of the slices before each place in `order`. @type {Float64Array} */ taskSum;
  /** Waits of the slices before each place in `order`. @type {Float64Array} */ waitSum;
  /** Those of them that were for a limit, mostly. @type {Float64Array} */ limitSum;
  /** Those that were for a lock, mostly. @type {Float64Array} */ lockSum;

  /** @param {RunHead} head @param {Columns} columns */
  constructor(head, columns) {
    this.head = head;
    this.start = head.start;
    this.end = Math.max(head.end, head.start + 1);
    const read = (/** @type {string} */ name, /** @type {any} */ Kind) => columns.read(head.prefix + name, Kind);
    const gaps = read("gap", Float64Array), lengths = read("len", Float64Array);
    const count = gaps.length;
    /** Starts of slices, CPU after CPU. */
    this.from = gaps;
    this.to = lengths;
    this.task = read("task", Uint32Array);
    this.how = read("how", Uint8Array);
    this.wait = read("wait", Float64Array);
    this.by = read("by", Uint32Array);
    this.cpuOf = new Uint32Array(head.slices.length + 1);
    let at = 0;
    head.slices.forEach((slices, cpu) => {
      let time = head.start;
      this.cpuOf[cpu] = at;
      for (const last = at + slices; at < last; at++) {
        this.from[at] = time + gaps[at];
        time = this.to[at] = this.from[at] + lengths[at];
      }
    });
    this.cpuOf[head.slices.length] = at;
    /** Busy time of the CPU's slices before each one. */
    this.sum = new Float64Array(count + 1);
    for (let i = 0; i < count; i++) this.sum[i + 1] = this.sum[i] + this.to[i] - this.from[i];
    this.sortByTask(head.tasks.length);
    this.spans = {
      kind: read("s.kind", Uint8Array), from: columns.times(head.prefix + "s.from"), to: read("s.len", Float64Array),
      cpu: read("s.cpu", Uint32Array), task: read("s.task", Uint32Array), what: read("s.what", Uint32Array),
    };
    /** The spans in which events are missing. @type {number[]} */
    this.gaps = [];
    for (let i = 0; i < this.spans.to.length; i++) {
      this.spans.to[i] += this.spans.from[i];
      if (this.spans.kind[i] === UNSEEN) this.gaps.push(i);
    }
    this.points = {
      kind: read("p.kind", Uint8Array), at: columns.times(head.prefix + "p.at"), cpu: read("p.cpu", Uint32Array),
      task: read("p.task", Uint32Array), to: read("p.to", Uint32Array), what: read("p.what", Uint32Array),
    };
    /** Waits that had not ended: start by task. @type {Map<number, number>} */
    this.waiting = new Map();
    const who = read("w.task", Uint32Array), since = read("w.from", Float64Array);
    for (let i = 0; i < who.length; i++) this.waiting.set(who[i], since[i]);
    this.colours = this.colourTasks();
    /** The scheduler's own numbers, if the page has them. */
    this.state = head.state ? new StateTracks(head.state, columns, head.prefix) : null;
    this.rows = this.makeRows();
  }

  /** Slices task after task, each in order of time: a place in `order` for each. @param {number} tasks */
  sortByTask(tasks) {
    const count = this.task.length;
    const firsts = new Uint32Array(tasks + 1);
    for (let i = 0; i < count; i++) firsts[this.task[i] + 1]++;
    for (let t = 0; t < tasks; t++) firsts[t + 1] += firsts[t];
    const order = new Uint32Array(count), next = firsts.slice();
    for (let i = 0; i < count; i++) order[next[this.task[i]]++] = i;
    for (let t = 0; t < tasks; t++) {
      let sorted = true;
      for (let i = firsts[t] + 1; sorted && i < firsts[t + 1]; i++) sorted = this.from[order[i - 1]] <= this.from[order[i]];
      if (!sorted) order.subarray(firsts[t], firsts[t + 1]).sort((a, b) => this.from[a] - this.from[b]);
    }
    this.order = order;
    this.taskOf = firsts;
    this.taskSum = new Float64Array(count + 1);
    this.waitSum = new Float64Array(count + 1);
    this.limitSum = new Float64Array(count + 1);
    this.lockSum = new Float64Array(count + 1);
    for (let i = 0; i < count; i++) {
      const slice = order[i], how = this.how[slice];
      this.limitSum[i + 1] = this.limitSum[i] + (how & BY_LIMIT ? this.wait[slice] : 0);
      this.lockSum[i + 1] = this.lockSum[i] + (how & BY_LOCK ? this.wait[slice] : 0);
      this.taskSum[i + 1] = this.taskSum[i] + this.to[slice] - this.from[slice];
      this.waitSum[i + 1] = this.waitSum[i] + this.wait[slice];
    }
  }

  /** Instances of one task have one hue, and three shades in turn. */
  colourTasks() {
    /** @type {Map<string, { hue: number, seen: number }>} */
    const bases = new Map();
    return Uint8Array.from(this.head.tasks, (task) => {
      // Instances have a number, threads of a recording their id.
      const name = task.replace(/(-\d+| \d+)$/, "");
      const base = bases.get(name) ?? { hue: bases.size % LIGHT.tasks.length, seen: 0 };
      bases.set(name, base);
      return base.hue * SHADES + base.seen++ % SHADES;
    });
  }

  /** @returns {Row[]} */
  makeRows() {
    const cpus = this.head.slices.length, tasks = this.head.tasks.length;
    /** Lists the indices of a column by row. @param {number} rows @param {ArrayLike<number>} keys @param {(i: number) => boolean} wanted */
    const lists = (rows, keys, wanted) => {
      const firsts = new Uint32Array(rows + 1);
      for (let i = 0; i < keys.length; i++) if (keys[i] && keys[i] <= rows && wanted(i)) firsts[keys[i]]++;
      for (let r = 0; r < rows; r++) firsts[r + 1] += firsts[r];
      const all = new Uint32Array(firsts[rows]), next = firsts.slice();
      for (let i = 0; i < keys.length; i++) if (keys[i] && keys[i] <= rows && wanted(i)) all[next[keys[i] - 1]++] = i;
      return (/** @type {number} */ row) => all.subarray(firsts[row], firsts[row + 1]);
    };
    const always = () => true;
    const isBrief = (/** @type {number} */ i) => this.spans.kind[i] === IRQ || this.spans.kind[i] === SPIN;
    const cpuSpans = lists(cpus, this.spans.cpu, (i) => !isBrief(i)), cpuBrief = lists(cpus, this.spans.cpu, isBrief);
    const taskSpans = lists(tasks, this.spans.task, always), none = new Uint32Array(0);
    const reach = (/** @type {Uint32Array} */ list) => {
      let latest = -Infinity;
      return Float64Array.from(list, (span) => latest = Math.max(latest, this.spans.to[span]));
    };
    const cpuPoints = lists(cpus, this.points.cpu.map((cpu) => cpu + 1), (i) => this.points.kind[i] === IPI || this.points.kind[i] === DROP);
    const taskPoints = lists(tasks, this.points.task, always);
    const shown = new Set(this.head.rows);
    /** @type {Row[]} */
    const rows = [];
    for (let cpu = 0; cpu < cpus; cpu++) {
      rows.push({ kind: "cpu", id: cpu, label: "cpu " + cpu, lo: this.cpuOf[cpu], hi: this.cpuOf[cpu + 1],
        spans: cpuSpans(cpu), reach: reach(cpuSpans(cpu)), brief: cpuBrief(cpu), points: cpuPoints(cpu) });
    }
    for (let task = 0; task < tasks; task++) {
      const lo = this.taskOf[task], hi = this.taskOf[task + 1];
      if (lo === hi && !this.waiting.has(task) && !shown.has(task)) continue;
      rows.push({ kind: "task", id: task, label: this.head.tasks[task], lo, hi,
        spans: taskSpans(task), reach: reach(taskSpans(task)), brief: none, points: taskPoints(task) });
    }
    this.state?.rows.forEach((track, id) => rows.push({ kind: "state", id, label: track.label, lo: 0, hi: 0, spans: none,
      reach: new Float64Array(0), brief: none, points: none, track }));
    return rows;
  }

  /** The slice at a place of a row. @param {Row} row @param {number} place */
  slice(row, place) {
    return row.kind === "cpu" ? place : this.order[place];
  }

  /** The first place of a row whose slice ends after a time. @param {Row} row @param {number} time */
  endsAfter(row, time, lo = row.lo) {
    let hi = row.hi;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.to[this.slice(row, middle)] > time) hi = middle;
      else lo = middle + 1;
    }
    return lo;
  }

  /** The slice that a CPU runs at a time, or -1. @param {number} cpu @param {number} time */
  running(cpu, time) {
    const row = this.rows[cpu];
    if (!row || row.kind !== "cpu") return -1;
    const place = this.endsAfter(row, time);
    return place < row.hi && this.from[place] <= time ? place : -1;
  }

  /** The CPU of a slice. @param {number} slice */
  cpu(slice) {
    let lo = 0, hi = this.cpuOf.length - 1;
    while (lo + 1 < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.cpuOf[middle] <= slice) lo = middle;
      else hi = middle;
    }
    // CPUs without slices share their place with the next one.
    while (this.cpuOf[lo + 1] <= slice) lo++;
    return lo;
  }

  /** The first place of a list of points or spans at or after a time. @param {Uint32Array} list @param {Float64Array} times @param {number} time */
  firstAt(list, times, time) {
    let lo = 0, hi = list.length;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (times[list[middle]] >= time) hi = middle;
      else lo = middle + 1;
    }
    return lo;
  }

  /** Calls `each` with the states of a row, then its brief spans, that touch an interval.
   * @param {Row} row @param {number} from @param {number} to @param {(span: number) => void} each */
  eachSpan(row, from, to, each) {
    let lo = 0, hi = row.reach.length;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (row.reach[middle] > from) hi = middle;
      else lo = middle + 1;
    }
    const { from: starts, to: ends } = this.spans;
    for (let at = lo; at < row.spans.length && starts[row.spans[at]] <= to; at++) if (ends[row.spans[at]] >= from) each(row.spans[at]);
    for (let at = Math.max(0, this.firstAt(row.brief, starts, from) - 8); at < row.brief.length && starts[row.brief[at]] <= to; at++) {
      if (ends[row.brief[at]] >= from) each(row.brief[at]);
    }
  }

  /** The figures of a part of the run: the busy part of the CPUs, the waits by cause, and the tasks that run most.
   * @param {number} from @param {number} to @returns {string} */
  figures(from, to) {
    const cpus = this.rows.filter((row) => row.kind === "cpu"), tasks = this.rows.filter((row) => row.kind === "task");
    /** The running time of a row within the part. @param {Row} row */
    const ran = (row) => {
      const sums = row.kind === "cpu" ? this.sum : this.taskSum;
      const before = (/** @type {number} */ time) => {
        const at = this.endsAfter(row, time);
        return sums[at] + (at < row.hi ? Math.max(0, time - this.from[this.slice(row, at)]) : 0);
      };
      return before(to) - before(from);
    };
    const busy = cpus.reduce((sum, row) => sum + ran(row), 0);
    const waits = { throttled: 0, locked: 0, queued: 0 };
    /** @type {[string, number][]} */
    const most = [];
    for (const row of tasks) {
      most.push([row.label, ran(row)]);
      // Waits that end within the part, those at its edges as far as they are in it.
      for (let at = this.endsAfter(row, from), n = 0; at < row.hi; at++) {
        const slice = this.slice(row, at), end = this.from[slice];
        if (++n > FIGURED) {
          const last = this.endsAfter(row, to, at);
          const [all, limit, lock] = [this.waitSum, this.limitSum, this.lockSum].map((sums) => sums[last] - sums[at]);
          waits.throttled += limit;
          waits.locked += lock;
          waits.queued += all - limit - lock;
          break;
        }
        const time = Math.min(end, to) - Math.max(end - this.wait[slice], from);
        if (time > 0) waits[this.how[slice] & BY_LIMIT ? "throttled" : this.how[slice] & BY_LOCK ? "locked" : "queued"] += time;
        if (end > to) break;
      }
      const open = this.waiting.get(row.id);
      if (open !== undefined && open < to) waits.queued += to - Math.max(open, from);
    }
    const kinds = Object.entries(waits).filter(([, time]) => time >= 1).map(([kind, time]) => `${kind} ${showTime(time)}`);
    const names = most.filter(([, time]) => time >= 1).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, time]) => `${name} ${showTime(time)}`);
    const share = cpus.length ? (busy / (to - from) / cpus.length * 100).toFixed(1) : "0";
    return `${showTime(to - from)} from ${showPlace(from)}: CPUs busy ${share}%; waits: ${kinds.join(", ") || "none"}; most: ${names.join(", ") || "no task"}.`;
  }

  /** What a span means. @param {number} span */
  spanText(span) {
    const what = this.spans.what[span] - 1;
    switch (this.spans.kind[span]) {
      case THROTTLED: return `group ${this.head.groups[what] ?? "?"} is throttled here`;
      case RT_THROTTLED: return "real-time tasks are throttled here (RT throttling)";
      case SERVER: return what === 0 ? "the fair server competes" : "the fair server is deferred";
      case SPIN: return `waits for the run-queue lock of cpu ${what}`;
      case IRQ: return `interrupt: ${IRQ_NAMES[what] ?? "?"}`;
      case OFFLINE: return "offline";
      case BOOSTED: return what === 0 ? "boosted: runs although its group is throttled" : "boosted by a task that waits for it";
      case HOLDS: return `holds lock ${what}`;
      case WANTS: return `waits for lock ${what}`;
      case NO_BUDGET: return "its deadline budget is exhausted";
      case TASK_THROTTLED: return "dequeued: its group is throttled";
      case UNSEEN: return `${what > 0 ? `${what} events` : "events"} of this CPU are missing: what is drawn is what the events around suggest`;
      default: return "";
    }
  }

  /** What a point means. @param {number} point */
  pointText(point) {
    const points = this.points, task = this.head.tasks[points.task[point] - 1] ?? "?";
    switch (points.kind[point]) {
      case IPI: return `IPI from cpu ${points.cpu[point]} to cpu ${points.to[point] - 1}: ${IPI_NAMES[points.what[point]] ?? "?"}`;
      case MIGRATE: return `${task} moves from cpu ${points.cpu[point]} to cpu ${points.to[point] - 1} (${MIGRATE_NAMES[points.what[point]] ?? "?"})`;
      case REPLENISH: return `${task} gets a new deadline budget`;
      case OVERRUN: return `${task} is told of an overrun`;
      case LATE: return `${task} was late for a timer`;
      case DROP: return "a request found the queue full";
      default: return "";
    }
  }

  /** A slice in sentences. @param {number} slice @returns {string[]} */
  sliceText(slice) {
    const cpu = this.cpu(slice), from = this.from[slice], how = this.how[slice], wait = this.wait[slice];
    const task = this.head.tasks[this.task[slice]];
    const lines = [`${task} on cpu ${cpu}`, `ran ${showTime(this.to[slice] - from)} from ${showPlace(from)}`];
    if (how & MERGED) return [`${task} and others on cpu ${cpu}`, `short slices, merged: ${showTime(this.to[slice] - from)} from ${showPlace(from)}`];
    const cause = how & PREEMPTED;
    if (cause) {
      const word = cause === WOKEN ? "woken" : cause === NEW ? "created" : "preempted";
      const by = how & BY_LIMIT ? ", most of it throttled" : how & BY_LOCK ? ", most of it for a lock" : "";
      lines.push(`waited ${showTime(wait)} after it was ${word}${this.wakerText(slice)}${by}`);
      if (wait > 0) lines.push(...this.meanwhile(slice));
    }
    const end = how & 3;
    lines.push(end === BLOCKED ? "then it blocked" : end === ENDED ? "then it ended" : end === OPEN ? "until the end of the trace" : "then it was preempted");
    return lines;
  }

  /** What was recorded during the wait before a slice: of its CPU, and of its task. @param {number} slice @returns {string[]} */
  meanwhile(slice) {
    const cpu = this.cpu(slice), to = this.from[slice], from = to - this.wait[slice];
    /** @type {Map<number, number>} */
    const ran = new Map();
    let busy = 0;
    const first = this.endsAfter(this.rows[cpu], from);
    // Of a wait with very many slices the sums say how long others ran, but not which.
    for (let at = Math.max(first, slice - MEANWHILE); at < slice; at++) {
      if (!(this.how[at] & MERGED)) ran.set(this.task[at], (ran.get(this.task[at]) ?? 0) + this.to[at] - Math.max(this.from[at], from));
    }
    if (first < slice) busy = this.sum[slice] - this.sum[first] - Math.max(0, from - this.from[first]);
    const most = [...ran].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 3);
    const rest = busy - most.reduce((sum, [, time]) => sum + time, 0);
    const others = most.map(([task, time]) => `${this.head.tasks[task]} for ${showTime(time)}`);
    if (rest >= 1) others.push(`others for ${showTime(rest)}`);
    const idle = this.wait[slice] - busy, parts = others.length ? [`ran ${others.join(", ")}`] : [];
    if (idle >= 1) parts.push(`was idle for ${showTime(idle)}`);
    const lines = parts.length ? [`meanwhile cpu ${cpu} ${parts.join(" and ")}`] : [];
    const own = this.rows.find((one) => one.kind === "task" && one.id === this.task[slice]);
    /** @type {Map<string, number>} */
    const states = new Map();
    for (const [row, kinds] of /** @type {[Row | undefined, number[]][]} */ ([[this.rows[cpu], [THROTTLED, RT_THROTTLED, UNSEEN]], [own, [TASK_THROTTLED, NO_BUDGET, WANTS]]])) {
      if (!row) continue;
      this.eachSpan(row, from, to, (span) => {
        const time = Math.min(this.spans.to[span], to) - Math.max(this.spans.from[span], from), text = this.spanText(span);
        if (time > 0 && kinds.includes(this.spans.kind[span])) states.set(text, (states.get(text) ?? 0) + time);
      });
    }
    for (const [text, time] of states) lines.push(`${text}: ${showTime(time)} of it`);
    return lines;
  }

  /** @param {number} slice */
  wakerText(slice) {
    const by = this.by[slice];
    if (!by) return "";
    const cpu = (by - 1) >> 1;
    if ((by - 1) & 1) return ` by an interrupt on cpu ${cpu}`;
    const waker = this.running(cpu, this.from[slice] - this.wait[slice]);
    return waker < 0 ? ` on cpu ${cpu}` : ` by ${this.head.tasks[this.task[waker]]} on cpu ${cpu}`;
  }
}
