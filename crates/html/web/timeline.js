// The timeline: an overview, and rows of CPUs and tasks that zoom and pan with pointer, touch and keys.

const OVERVIEW = 46, FONT = "12px system-ui, sans-serif";
const KEYS = [
  ["← →", "move"], ["+ −", "zoom"], ["↑ ↓", "choose a row"], ["n p", "next, previous slice"], ["t", "pin the row, as a click on its name does"], ["Enter", "zoom to the slice"],
  ["0", "whole run"], ["Ctrl + wheel", "zoom"], ["drag", "move; on the ruler: choose a time"],
];
const MARKS = [
  ["run", "runs"], ["wait", "waits"], ["throttle", "throttled, no budget; waits for that"], ["server", "fair server competes"],
  ["boost", "boosted"], ["lock", "holds or wants a lock; waits for that"], ["irq", "interrupt"], ["spin", "spins for a run queue"],
  ["gap", "events missing from the recording"], ["wake", "from the waker to the woken"], ["ipi", "IPI, move to another CPU"], ["point", "new budget; red: late, overrun, queue full"],
];

/** A name with at most so many letters. Its end stays: instances differ there. @param {string} name @param {number} letters */
function shorten(name, letters) {
  if (name.length <= letters) return name;
  const end = name.match(/[^\w]?\d+$/)?.[0].slice(-5) ?? "";
  return name.slice(0, Math.max(1, letters - 1 - end.length)) + "…" + end;
}

class Timeline {
  // Set by `build`, `choose` and `arrange`, which the constructor calls.
  /** What is drawn: the whole run, or a part of it. @type {Run} */ run;
  /** @type {Run} */ whole;
  /** @type {Row[]} */ rows;
  /** @type {Float64Array} */ tops;
  /** @type {number} */ from;
  /** @type {number} */ to;
  /** @type {HTMLSelectElement} */ runChoice;
  /** @type {HTMLCanvasElement} */ overview;
  /** @type {HTMLCanvasElement} */ canvas;
  /** @type {HTMLDivElement} */ spacer;
  /** @type {HTMLDivElement} */ scroller;
  /** @type {HTMLParagraphElement} */ panel;
  /** @type {HTMLParagraphElement} */ legend;
  /** @type {HTMLParagraphElement} */ detail;
  /** The figures of the shown part. @type {HTMLParagraphElement} */ figures;
  /** @type {Stepper | null} */ stepper;
  /** @type {Painter} */ painter;
  /** @type {Float64Array} */ load;
  /** @type {Run | null} */ overviewOf = null;
  /** @type {number} */ overviewWidth = 0;
  /** @type {Theme | null} */ overviewTheme = null;

  /** @param {HTMLElement} home @param {RunHead[]} heads @param {Columns} columns @param {() => void} changed @param {Ask | null} ask */
  constructor(home, heads, columns, changed, ask) {
    this.home = home;
    this.heads = heads;
    this.columns = columns;
    this.changed = changed;
    this.ask = ask;
    /** What the server gave last. @type {{ from: number, to: number, note: string | null, run: Run } | null} */
    this.part = null;
    /** @type {AbortController | null} */
    this.asked = null;
    this.timer = 0;
    this.figuring = 0;
    /** @type {Map<number, Run>} */
    this.runs = new Map();
    this.index = 0;
    this.shows = "both";
    this.filter = "";
    /** The time of the decision that is shown; NaN without one. */
    this.cursor = NaN;
    /** The rows that are kept in view, by kind and number. @type {Set<string>} */
    this.pinned = new Set();
    this.pins = 0;
    this.selected = -1;
    this.current = 0;
    /** @type {{ lo: number, hi: number } | null} */
    this.marked = null;
    this.frame = 0;
    /** Milliseconds that the last frames took to draw. @type {number[]} */
    this.times = [];
    /** Opens the explanation of a wait, if the page has it. @type {(run: number, task: number, to: number) => (() => void) | null} */
    this.explain = () => null;
    this.theme = themeOf(matchMedia("(prefers-color-scheme: dark)").matches);
    this.build();
    this.choose(0);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.colour(dark.matches));
    addEventListener("beforeprint", () => this.colour(false));
    addEventListener("afterprint", () => this.colour(dark.matches));
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
  }

  /** @param {boolean} isDark */
  colour(isDark) {
    this.theme = themeOf(isDark);
    this.paint();
  }

  build() {
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => {
      const element = make("button", { type: "button", "aria-label": label, title: label }, text);
      element.addEventListener("click", act);
      return element;
    };
    const runs = make("select", { "aria-label": "Run" }, ...this.heads.map((head, i) => make("option", { value: String(i) }, head.name)));
    runs.addEventListener("change", () => { this.choose(Number(runs.value)); this.changed(); });
    this.runChoice = runs;
    const hasState = this.heads.some((head) => head.state);
    const kinds = hasState ? [["both", "CPUs, tasks, state"], ["cpu", "CPUs"], ["task", "Tasks"], ["state", "State"]]
      : [["both", "CPUs and tasks"], ["cpu", "CPUs"], ["task", "Tasks"]];
    const shows = make("select", { "aria-label": "Rows" }, ...kinds
      .map(([value, text]) => make("option", { value }, text)));
    shows.addEventListener("change", () => { this.shows = shows.value; this.arrange(); });
    const find = make("input", { type: "search", placeholder: "find a task", "aria-label": "Show only tasks whose name contains this" });
    find.addEventListener("input", () => { this.filter = find.value.toLowerCase(); this.arrange(); });
    const bar = make("div", { class: "bar", role: "group", "aria-label": "Timeline controls" },
      ...(this.heads.length > 1 ? [runs] : []), shows, find, button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
      button("whole run", "Show the whole run", () => this.show(this.run.start, this.run.end)));
    this.overview = make("canvas", { class: "overview", "aria-hidden": "true" });
    this.canvas = make("canvas", { class: "rows" });
    this.spacer = make("div", { class: "spacer" });
    this.scroller = make("div", { class: "scroller", tabindex: "0", role: "application", "aria-roledescription": "timeline",
      "aria-label": "Timeline of CPUs and tasks", "aria-describedby": "tl-keys" }, this.canvas, this.spacer);
    this.panel = make("p", { class: "panel", "aria-live": "polite" });
    const keys = make("p", { id: "tl-keys", class: "keys" }, ...KEYS.flatMap(([key, text]) => [make("kbd", {}, key), ` ${text}  `]));
    this.detail = make("p", { class: "quiet detail", role: "status" });
    this.detail.hidden = !this.ask;
    this.legend = make("p", { class: "legend" });
    this.figures = make("p", { class: "figured", "aria-live": "off" });
    this.stepper = hasState ? new Stepper(this) : null;
    const steps = this.stepper ? [this.stepper.bar, this.stepper.says] : [];
    this.home.replaceChildren(bar, ...steps, this.overview, this.detail, this.scroller, this.figures, this.panel, this.legend, keys);
    this.home.hidden = false;
    this.painter = new Painter(/** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d")));
    this.scroller.addEventListener("scroll", () => this.redraw());
    this.bindPointer();
    this.bindOverview();
    this.scroller.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {number} index */
  choose(index) {
    let run = this.runs.get(index);
    if (!run) {
      run = new Run(this.heads[index], this.columns);
      this.runs.set(index, run);
    }
    const before = this.run;
    this.run = this.whole = run;
    this.part = null;
    this.index = index;
    this.runChoice.value = String(index);
    this.selected = -1;
    this.marked = null;
    if (!before) [this.from, this.to] = [run.start, run.end];
    const marks = MARKS.filter(([kind]) => kind !== "gap" || run.gaps.length);
    this.legend.replaceChildren(...marks.map(([kind, text]) => make("span", {}, make("i", { class: "m-" + kind, "aria-hidden": "true" }), text)));
    this.stepper?.reset();
    this.arrange();
    this.say([]);
    this.refine();
    this.figure();
  }

  /** Draws the part that the server gave if it has the view, else the whole run; asks for a better part where there is one. */
  refine() {
    const { ask, whole, part } = this;
    if (!ask) return;
    const length = this.to - this.from;
    // The page has as much of so large a view as a part would.
    const isLarge = !whole.head.note || length * 12 > whole.end - whole.start;
    const here = !isLarge && part && part.from <= this.from && part.to >= this.to ? part : null;
    this.draw(here ? here.run : whole);
    const note = here ? here.note : whole.head.note;
    this.detail.textContent = note ? `${note} Zoom in for all of it.` : "Everything that was recorded at this time is shown.";
    clearTimeout(this.timer);
    if (isLarge || here && (!here.note || length * 6 > here.to - here.from)) return;
    this.timer = setTimeout(async () => {
      const from = Math.floor(Math.max(whole.start, this.from - length)), to = Math.ceil(Math.min(whole.end, this.to + length));
      this.asked?.abort();
      const asked = this.asked = new AbortController();
      try {
        const { head, columns } = await ask(from, to, asked.signal);
        if (asked.signal.aborted) return;
        const { slices, prefix } = head.runs[0];
        this.part = { from, to, note: head.note ?? null, run: new Run({ ...whole.head, slices, prefix, state: undefined }, columns) };
        this.refine();
      } catch (error) {
        if (!asked.signal.aborted) this.detail.textContent = `The server does not answer (${error instanceof Error ? error.message : error}). Shown: what the page has.`;
      }
    }, 60);
  }

  /** Draws another run of the same rows; a chosen slice stays chosen if it has it. @param {Run} run */
  draw(run) {
    if (this.run === run) return;
    const slice = this.selected, cpu = slice < 0 ? -1 : this.run.cpu(slice), from = this.run.from[slice];
    this.run = run;
    const place = cpu < 0 ? -1 : run.running(cpu, from);
    this.selected = place >= 0 && run.from[place] === from ? place : -1;
    this.arrange();
  }

  /** Lists the rows that are shown. */
  arrange() {
    const shown = (/** @type {Row} */ row) => (this.shows === "both" || this.shows === row.kind)
      && (row.kind !== "task" || !this.filter || row.label.toLowerCase().includes(this.filter));
    // Pinned rows are first, and do not scroll.
    const isPinned = (/** @type {Row} */ row) => this.pinned.has(row.kind + row.id);
    const pinned = this.run.rows.filter(isPinned);
    this.pins = pinned.length;
    this.rows = [...pinned, ...this.run.rows.filter((row) => shown(row) && !isPinned(row))];
    this.tops = new Float64Array(this.rows.length + 1);
    this.rows.forEach((row, i) => {
      const gap = i > 0 && row.kind !== this.rows[i - 1].kind ? 10 : 0;
      this.tops[i] += gap;
      this.tops[i + 1] = this.tops[i] + rowHeight(row);
    });
    const height = this.tops[this.rows.length] + RULER + 4;
    this.scroller.style.height = Math.min(height, Math.max(220, innerHeight * 0.7)) + "px";
    this.spacer.style.height = height + "px";
    this.redraw();
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const run = this.run, length = Math.min(Math.max(to - from, 100), run.end - run.start);
    const middle = (from + to) / 2;
    this.from = Math.max(run.start, Math.min(middle - length / 2, run.end - length));
    this.to = this.from + length;
    this.refine();
    this.redraw();
    this.figure();
    this.changed();
  }

  /** Says the figures of the shown part, once it stays. */
  figure() {
    clearTimeout(this.figuring);
    this.figuring = setTimeout(() => { this.figures.textContent = this.run.figures(this.from, this.to); }, 120);
  }

  /** @param {number} factor @param {number} [around] */
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /** @param {number} by */
  pan(by) {
    const length = this.to - this.from;
    const from = Math.max(this.run.start, Math.min(this.from + by, this.run.end - length));
    this.show(from, from + length);
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const begin = performance.now();
      this.paint();
      this.times.push(performance.now() - begin);
      if (this.times.length > 600) this.times.shift();
    });
  }

  /** @returns {View} */
  view() {
    const width = this.scroller.clientWidth;
    const left = width < 560 ? 76 : 132;
    return { from: this.from, to: this.to, left, width: Math.max(40, width - left - 6), top: RULER, bottom: this.scroller.clientHeight, scroll: this.scroller.scrollTop };
  }

  /** Fits a canvas to its box and the screen's pixels. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
  fit(canvas, width, height) {
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  paint() {
    const view = this.view(), theme = this.theme, run = this.run;
    const width = this.scroller.clientWidth, height = this.scroller.clientHeight;
    if (width === 0) return;
    const context = this.fit(this.canvas, width, height);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(0, RULER, width, height - RULER);
    context.clip();
    let isExact = true;
    for (const i of this.seen(view)) {
      const y = this.rowTop(i, view.scroll), row = this.rows[i], tall = rowHeight(row);
      if (i < this.pins) {
        context.fillStyle = theme.paper;
        context.fillRect(0, y, width, tall);
      }
      if (i % 2 === 0) {
        context.fillStyle = theme.stripe;
        context.fillRect(view.left, y, view.width, tall);
      }
      if (i === this.current && document.activeElement === this.scroller) {
        context.fillStyle = theme.line;
        context.fillRect(0, y, view.left - 4, tall);
      }
      context.save();
      context.beginPath();
      context.rect(view.left, y, view.width, tall);
      context.clip();
      isExact = this.painter.row(run, row, view, theme, y, tall) && isExact;
      this.painter.spans(run, row, view, theme, y, tall);
      context.restore();
      context.fillStyle = row.kind === "cpu" ? theme.ink : theme.quiet;
      context.font = (i < this.pins ? "600 " : "") + FONT;
      const letters = Math.floor((view.left - 12) / 6.6);
      context.fillText(shorten(row.label, letters), 6, y + tall / 2 + 0.5);
    }
    context.font = FONT;
    // An arrow of a wakeup before the view begins left of it, where the names are.
    this.clip(view);
    this.marks(view);
    if (isExact) this.arrows(view);
    context.restore();
    this.selection(view);
    if (this.cursor >= view.from && this.cursor <= view.to) {
      const x = Math.round(view.left + (this.cursor - view.from) / (view.to - view.from) * view.width) + 0.5;
      context.strokeStyle = theme.ink;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x, RULER);
      context.lineTo(x, height);
      context.stroke();
    }
    context.restore();
    this.ruler(context, view);
    this.paintOverview();
  }

  /** Keeps a row in view, above the others, or no longer. @param {number} i */
  pin(i) {
    const row = this.rows[i];
    if (!row) return;
    const key = row.kind + row.id;
    if (!this.pinned.delete(key)) this.pinned.add(key);
    this.arrange();
    this.current = this.rows.indexOf(row);
    this.say([`${row.label} is ${this.pinned.has(key) ? "pinned" : "no longer pinned"}`]);
    this.changed();
  }

  /** Where a row begins on the canvas. @param {number} i @param {number} scroll */
  rowTop(i, scroll) {
    return RULER + this.tops[i] - (i < this.pins ? 0 : scroll);
  }

  /** The rows that can be seen, the pinned ones last: they cover what scrolls behind them. @param {View} view @returns {number[]} */
  seen(view) {
    const behind = view.scroll + this.tops[this.pins], seen = [];
    for (let i = this.pins; i < this.rows.length && this.tops[i] - view.scroll < view.bottom - RULER; i++) if (this.tops[i + 1] > behind) seen.push(i);
    for (let i = 0; i < this.pins; i++) seen.push(i);
    return seen;
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view */
  ruler(context, view) {
    const theme = this.theme, scale = view.width / (view.to - view.from);
    const step = niceStep((view.to - view.from) / Math.max(2, view.width / 96));
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, view.left + view.width + 6, RULER);
    context.fillStyle = theme.quiet;
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.textAlign = "left";
    // Zoomed in, ticks count from a round time, which the corner tells.
    const origin = view.to - view.from < 1e7 && step < view.from / 1e4 ? Math.floor(view.from / (step * 10)) * step * 10 : 0;
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = Math.round(view.left + (at - view.from) * scale) + 0.5;
      context.beginPath();
      context.moveTo(x, RULER - 7);
      context.lineTo(x, RULER);
      context.stroke();
      if (x < view.left + view.width - 30) context.fillText((origin ? "+" : "") + showTick(at - origin, step), x + 3, RULER / 2);
    }
    if (origin) context.fillText(showPlace(origin).replace(/\.?0+ s$/, " s"), 6, RULER / 2);
    context.beginPath();
    context.moveTo(view.left, RULER - 0.5);
    context.lineTo(view.left + view.width, RULER - 0.5);
    context.stroke();
  }

  /** The middle of the row of a CPU or a task, if it is shown. @param {"cpu" | "task"} kind @param {number} id @param {View} view */
  rowY(kind, id, view) {
    const i = this.rows.findIndex((row) => row.kind === kind && row.id === id);
    if (i < 0) return null;
    const middle = this.rowTop(i, view.scroll) + rowHeight(this.rows[i]) / 2;
    return i >= this.pins && middle < RULER + this.tops[this.pins] ? null : middle;
  }

  /** Saves the context and limits it to the plot, a line's width around it included. @param {View} view */
  clip(view) {
    const context = this.painter.context;
    context.save();
    context.beginPath();
    context.rect(view.left - 2, RULER, view.width + 4, view.bottom);
    context.clip();
  }

  /** Points: arrows of IPIs and migrations where they are few, marks else. @param {View} view */
  marks(view) {
    const run = this.run, points = run.points, scale = view.width / (view.to - view.from);
    const context = this.painter.context;
    for (const i of this.seen(view)) {
      const row = this.rows[i], y = this.rowTop(i, view.scroll);
      const first = run.firstAt(row.points, points.at, view.from), last = run.firstAt(row.points, points.at, view.to);
      const isDense = last - first > 40;
      if (last - first > 2000) continue;
      for (let at = first; at < last; at++) {
        const point = row.points[at], kind = points.kind[point];
        const x = view.left + (points.at[point] - view.from) * scale;
        context.fillStyle = kind === OVERRUN || kind === LATE || kind === DROP ? this.theme.throttle : this.theme.mark;
        const middle = y + rowHeight(row) / 2;
        context.beginPath();
        if (isDense) {
          context.rect(x, y + 1, 1, 3);
        } else if (kind === IPI || kind === MIGRATE) {
          context.moveTo(x - 3, y + 1);
          context.lineTo(x + 3, y + 1);
          context.lineTo(x, y + 6);
        } else {
          context.moveTo(x, middle - 4);
          context.lineTo(x + 4, middle);
          context.lineTo(x, middle + 4);
          context.lineTo(x - 4, middle);
        }
        context.fill();
        const other = kind === IPI && last - first < 40 ? this.rowY("cpu", points.to[point] - 1, view) : null;
        if (other !== null && other !== middle) {
          context.strokeStyle = this.theme.mark;
          context.globalAlpha = 0.5;
          context.setLineDash([2, 3]);
          context.beginPath();
          context.moveTo(x, middle);
          context.lineTo(x, other);
          context.stroke();
          context.setLineDash([]);
          context.globalAlpha = 1;
        }
      }
    }
  }

  /** Wakeups as arrows from the waker to the woken task, where they are few. @param {View} view */
  arrows(view) {
    const run = this.run;
    /** @type {number[]} */
    const found = [];
    for (const row of run.rows) {
      if (row.kind !== "cpu") break;
      for (let slice = run.endsAfter(row, view.from); slice < row.hi && run.from[slice] <= view.to; slice++) {
        if (run.by[slice] && (run.how[slice] & PREEMPTED) && !(run.how[slice] & MERGED)) found.push(slice);
        if (found.length > 160) return;
      }
    }
    for (const slice of found) this.wakeArrow(slice, view, false);
  }

  /** @param {number} slice @param {View} view @param {boolean} strong */
  wakeArrow(slice, view, strong) {
    const run = this.run, scale = view.width / (view.to - view.from);
    const wakerCpu = (run.by[slice] - 1) >> 1, woken = run.from[slice] - run.wait[slice];
    const to = this.rowY("cpu", run.cpu(slice), view) ?? this.rowY("task", run.task[slice], view);
    let from = this.rowY("cpu", wakerCpu, view);
    if (from === null) {
      const waker = run.running(wakerCpu, woken);
      from = waker < 0 ? to : this.rowY("task", run.task[waker], view);
    }
    if (to === null || from === null) return;
    this.painter.arrow(view.left + (woken - view.from) * scale, from, view.left + (run.from[slice] - view.from) * scale, to,
      strong ? this.theme.ink : this.theme.quiet, strong);
  }

  /** @param {View} view */
  selection(view) {
    const run = this.run, context = this.painter.context, scale = view.width / (view.to - view.from);
    if (this.marked) {
      const x = view.left + (this.marked.lo - view.from) * scale, right = view.left + (this.marked.hi - view.from) * scale;
      context.fillStyle = this.theme.ink;
      context.globalAlpha = 0.08;
      context.fillRect(Math.max(view.left, x), RULER, Math.min(right, view.left + view.width) - Math.max(view.left, x), view.bottom);
      context.globalAlpha = 1;
    }
    const slice = this.selected;
    if (slice < 0) return;
    context.strokeStyle = this.theme.ink;
    context.lineWidth = 2;
    const x = view.left + (run.from[slice] - view.from) * scale, width = Math.max(2, (run.to[slice] - run.from[slice]) * scale);
    this.clip(view);
    for (const [kind, id] of /** @type {["cpu" | "task", number][]} */ ([["cpu", run.cpu(slice)], ["task", run.task[slice]]])) {
      const middle = this.rowY(kind, id, view);
      const tall = kind === "cpu" ? CPU_HEIGHT : TASK_HEIGHT;
      if (middle !== null) context.strokeRect(x, middle - tall / 2 + 1, width, tall - 2);
    }
    if (run.by[slice] && (run.how[slice] & PREEMPTED)) this.wakeArrow(slice, view, true);
    context.restore();
  }

  paintOverview() {
    const width = this.scroller.clientWidth, theme = this.theme, run = this.whole, view = this.view();
    const context = this.fit(this.overview, width, OVERVIEW);
    const isDrawn = this.overviewOf === run && this.overviewWidth === width && this.overviewTheme === theme;
    if (!isDrawn) {
      this.overviewOf = run;
      this.overviewWidth = width;
      this.overviewTheme = theme;
      const cpus = run.rows.filter((row) => row.kind === "cpu");
      const columns = Math.max(1, Math.floor(view.width)), step = (run.end - run.start) / columns;
      this.load = new Float64Array(columns);
      for (const row of cpus) {
        let before = 0;
        for (let x = 0; x < columns; x++) {
          const to = run.start + (x + 1) * step, place = run.endsAfter(row, to);
          const sum = run.sum[place] - run.sum[row.lo] + (place < row.hi ? Math.max(0, to - run.from[place]) : 0);
          this.load[x] += (sum - before) / step / cpus.length;
          before = sum;
        }
      }
    }
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, OVERVIEW);
    context.fillStyle = theme.stripe;
    context.fillRect(view.left, 0, view.width, OVERVIEW);
    context.fillStyle = theme.server;
    context.globalAlpha = 0.55;
    this.load.forEach((part, x) => context.fillRect(view.left + x, OVERVIEW - part * (OVERVIEW - 4), 1.2, part * (OVERVIEW - 4)));
    context.globalAlpha = 1;
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = theme.quiet;
    context.fillText(view.left < 100 ? "load" : "load, whole run", 6, OVERVIEW / 2);
    const scale = view.width / (run.end - run.start);
    let drawn = -Infinity;
    for (const gap of run.gaps) {
      // Of gaps that fall into one pixel the first.
      const x = view.left + (run.spans.from[gap] - run.start) * scale, right = view.left + (run.spans.to[gap] - run.start) * scale;
      if (right <= drawn) continue;
      context.fillRect(x, 0, Math.max(1, right - x), 4);
      drawn = Math.max(right, x + 1);
    }
    const x = view.left + (this.from - run.start) * scale, right = view.left + (this.to - run.start) * scale;
    context.fillStyle = theme.paper;
    context.globalAlpha = 0.6;
    context.fillRect(view.left, 0, x - view.left, OVERVIEW);
    context.fillRect(right, 0, view.left + view.width - right, OVERVIEW);
    context.globalAlpha = 1;
    context.strokeStyle = theme.ink;
    context.lineWidth = 1.5;
    context.strokeRect(x, 1, Math.max(2, right - x), OVERVIEW - 2);
  }

  /** @param {number} x @returns {number} */
  timeAt(x) {
    const view = this.view();
    return view.from + (x - view.left) / view.width * (view.to - view.from);
  }

  /** The row at a height of the canvas, or -1. @param {number} y */
  rowAt(y) {
    const place = y - RULER, scrolled = place < this.tops[this.pins] ? place : place + this.scroller.scrollTop;
    return place < 0 ? -1 : this.rows.findIndex((_, i) => scrolled >= this.tops[i] && scrolled < this.tops[i + 1]);
  }

  /** The row and the texts at a place of the canvas. @param {number} x @param {number} y */
  at(x, y) {
    const view = this.view(), run = this.run, i = this.rowAt(y);
    if (i < 0 || x < view.left) return null;
    const own = this.rows[i].track;
    if (own && run.state) return { row: i, slice: -1, lines: run.state.texts(own, this.timeAt(x)), time: this.timeAt(x) };
    const row = this.rows[i], time = this.timeAt(x), near = (view.to - view.from) / view.width * 3;
    const found = run.endsAfter(row, time - near);
    let slice = -1, distance = Infinity;
    for (let at = found; at < Math.min(found + 32, row.hi); at++) {
      const one = run.slice(row, at);
      const away = Math.max(run.from[one] - time, time - run.to[one], 0);
      if (away < distance) [slice, distance] = [one, away];
      if (run.from[one] > time) break;
    }
    // A task's wait belongs to the slice that ends it.
    const next = run.endsAfter(row, time);
    if (distance > near && next < row.hi && row.kind === "task") {
      const one = run.slice(row, next);
      if (run.from[one] - run.wait[one] <= time) [slice, distance] = [one, 0];
    }
    const lines = slice >= 0 && distance <= near ? run.sliceText(slice) : [row.label, `idle or asleep at ${showPlace(time)}`];
    if (distance > near) slice = -1;
    let spans = 0;
    run.eachSpan(row, time - near, time + near, (span) => {
      if (spans++ < 5) lines.push(`${run.spanText(span)}, ${showTime(run.spans.to[span] - run.spans.from[span])}`);
    });
    for (let p = run.firstAt(row.points, run.points.at, time - near), n = 0; p < row.points.length && run.points.at[row.points[p]] <= time + near && n < 4; p++, n++) {
      lines.push(run.pointText(row.points[p]));
    }
    return { row: i, slice, lines, time };
  }

  bindPointer() {
    /** @type {Map<number, { x: number, y: number }>} */
    const down = new Map();
    let moved = false, fromRuler = -1, pinch = 0;
    const place = (/** @type {PointerEvent} */ event) => {
      const box = this.canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      const at = place(event);
      down.set(event.pointerId, at);
      moved = false;
      fromRuler = at.y < RULER && down.size === 1 ? this.timeAt(at.x) : -1;
      pinch = 0;
      this.canvas.setPointerCapture(event.pointerId);
      hideTip();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const at = place(event), before = down.get(event.pointerId);
      if (!before) {
        const found = event.pointerType === "touch" ? null : this.at(at.x, at.y);
        return found ? showTip(found.lines, event.clientX, event.clientY) : hideTip();
      }
      if (Math.abs(at.x - before.x) > 3) moved = true;
      if (down.size === 2) {
        down.set(event.pointerId, at);
        const [a, b] = [...down.values()];
        const apart = Math.abs(a.x - b.x);
        if (pinch > 8 && apart > 8) this.zoom(pinch / apart, this.timeAt((a.x + b.x) / 2));
        pinch = apart;
      } else if (fromRuler >= 0) {
        const time = this.timeAt(at.x);
        this.marked = { lo: Math.min(fromRuler, time), hi: Math.max(fromRuler, time) };
        this.redraw();
      } else if (moved) {
        const view = this.view();
        this.pan((before.x - at.x) / view.width * (view.to - view.from));
        down.set(event.pointerId, at);
      }
    });
    const up = (/** @type {PointerEvent} */ event) => {
      const at = place(event);
      if (!down.delete(event.pointerId)) return;
      if (fromRuler >= 0 && moved && this.marked) {
        const { lo, hi } = this.marked;
        this.marked = null;
        this.show(lo, hi);
      } else if (!moved && event.type === "pointerup") {
        const found = this.at(at.x, at.y);
        if (!found && at.x < this.view().left) this.pin(this.rowAt(at.y));
        if (found) {
          this.current = found.row;
          this.select(found.slice, found.lines);
        }
      }
      fromRuler = -1;
    };
    this.canvas.addEventListener("pointerup", up);
    this.canvas.addEventListener("pointercancel", up);
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("dblclick", (event) => this.zoom(0.25, this.timeAt(place(/** @type {PointerEvent} */ (event)).x)));
    this.scroller.addEventListener("wheel", (event) => {
      const box = this.canvas.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), this.timeAt(event.clientX - box.left));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        const view = this.view();
        this.pan((event.deltaX || event.deltaY) / view.width * (view.to - view.from));
      }
    }, { passive: false });
  }

  bindOverview() {
    let from = -1;
    const time = (/** @type {PointerEvent} */ event) => {
      const view = this.view(), box = this.overview.getBoundingClientRect();
      const part = (event.clientX - box.left - view.left) / view.width;
      return this.run.start + Math.min(1, Math.max(0, part)) * (this.run.end - this.run.start);
    };
    this.overview.addEventListener("pointerdown", (event) => {
      from = time(event);
      this.overview.setPointerCapture(event.pointerId);
    });
    this.overview.addEventListener("pointermove", (event) => {
      if (from < 0) return;
      const to = time(event);
      if (Math.abs(to - from) > (this.run.end - this.run.start) / 400) this.show(Math.min(from, to), Math.max(from, to));
    });
    this.overview.addEventListener("pointerup", (event) => {
      const to = time(event), length = this.to - this.from;
      if (from >= 0 && Math.abs(to - from) <= (this.run.end - this.run.start) / 400) this.show(to - length / 2, to + length / 2);
      from = -1;
    });
  }

  /** Chooses a slice, and says what it is. @param {number} slice @param {string[]} lines */
  select(slice, lines) {
    this.selected = slice;
    this.say(slice < 0 ? lines : this.run.sliceText(slice));
    const open = slice < 0 ? null : this.explain(this.index, this.run.task[slice], this.run.from[slice]);
    if (open) {
      const button = make("button", { type: "button" }, "Explain this wait");
      button.addEventListener("click", open);
      this.panel.append(" ", button);
    }
    this.redraw();
    this.changed();
  }

  /** The view as the address keeps it: run, time, row, and the start of the chosen slice. */
  place() {
    const row = this.rows[this.current], parts = [`run=${this.index}`, `from=${Math.round(this.from)}`, `to=${Math.round(this.to)}`];
    if (row) parts.push(`row=${row.kind}${row.id}`);
    if (this.pinned.size) parts.push(`pin=${[...this.pinned].join("+")}`);
    if (this.selected >= 0) parts.push(`slice=${this.run.cpu(this.selected)}@${this.run.from[this.selected]}`);
    return parts.join(",");
  }

  /** Shows a view that `place` gave. @param {URLSearchParams} view */
  go(view) {
    const index = Number(view.get("run")), from = Number(view.get("from")), to = Number(view.get("to"));
    if (index !== this.index && this.heads[index]) this.choose(index);
    if (to > from) this.show(from, to);
    this.pinned = new Set((view.get("pin") ?? "").split(" ").filter(Boolean));
    this.arrange();
    const i = this.rows.findIndex((row) => row.kind + row.id === view.get("row"));
    if (i >= 0) {
      this.current = i;
      this.reveal(i);
    }
    const [cpu, start] = (view.get("slice") ?? "").split("@").map(Number);
    const slice = view.has("slice") ? this.run.running(cpu, start) : -1;
    if (slice >= 0 && this.run.from[slice] === start) this.select(slice, []);
    else if (i >= 0) this.say([`${this.rows[i].label}: ${this.rows[i].hi - this.rows[i].lo} slices`]);
  }

  /** @param {string[]} lines */
  say(lines) {
    this.panel.textContent = lines.length ? lines.join("; ") + "." : "Click a slice, or choose a row with ↑ ↓ and its slices with n and p.";
  }

  /** Shows a wait: its time in the view, its task's row, and the slice that ends it.
   * @param {number} index @param {number} task @param {number} from @param {number} to */
  jump(index, task, from, to) {
    if (index !== this.index) this.choose(index);
    const length = to - from;
    this.show(from - length * 0.25, to + length * 0.25);
    const run = this.run;
    this.marked = { lo: from, hi: to };
    let i = this.rows.findIndex((row) => row.kind === "task" && row.id === task);
    if (i < 0 && task >= 0) {
      this.filter = "";
      this.shows = "both";
      this.arrange();
      i = this.rows.findIndex((row) => row.kind === "task" && row.id === task);
    }
    if (i >= 0) {
      this.current = i;
      this.reveal(i);
      const row = this.rows[i], place = run.endsAfter(row, to);
      if (place < row.hi && run.from[run.slice(row, place)] <= to + 1) this.select(run.slice(row, place), []);
      else this.select(-1, [`${row.label} waits from ${showPlace(from)} to ${showPlace(to)}`]);
    }
    this.home.scrollIntoView({ block: "start" });
    this.scroller.focus({ preventScroll: true });
  }

  /** @param {number} i */
  reveal(i) {
    if (i < this.pins) return;
    const pinned = this.tops[this.pins], top = this.tops[i], bottom = this.tops[i + 1], shown = this.scroller.clientHeight - RULER;
    if (top < this.scroller.scrollTop + pinned) this.scroller.scrollTop = top - pinned;
    if (bottom > this.scroller.scrollTop + shown) this.scroller.scrollTop = bottom - shown + 8;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const length = this.to - this.from;
    const row = this.rows[this.current];
    const choose = (/** @type {number} */ by) => {
      this.current = Math.max(0, Math.min(this.rows.length - 1, this.current + by));
      this.reveal(this.current);
      const chosen = this.rows[this.current];
      this.selected = -1;
      if (chosen) this.say([chosen.track ? `${chosen.label}: ${chosen.track.says}` : `${chosen.label}: ${chosen.hi - chosen.lo} slices`]);
      this.redraw();
      this.changed();
    };
    const step = (/** @type {number} */ by) => {
      if (!row) return;
      let place;
      if (this.selected >= 0) {
        const start = this.run.from[this.selected];
        const own = this.run.endsAfter(row, start);
        place = by > 0 ? (own < row.hi && this.run.slice(row, own) === this.selected ? own + 1 : own) : own - 1;
      } else {
        place = this.run.endsAfter(row, this.from);
      }
      if (place < row.lo || place >= row.hi) {
        // A part ends where the server was not asked for more.
        if (this.run === this.whole) return this.say(["no more slices"]);
        return this.pan(by * length / 2);
      }
      const slice = this.run.slice(row, place);
      this.select(slice, []);
      if (this.run.to[slice] > this.to || this.run.from[slice] < this.from) this.pan((this.run.from[slice] + this.run.to[slice]) / 2 - (this.from + this.to) / 2);
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => this.pan(-length / 8), ArrowRight: () => this.pan(length / 8), a: () => this.pan(-length / 8), d: () => this.pan(length / 8),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), w: () => this.zoom(0.5), "-": () => this.zoom(2), s: () => this.zoom(2),
      0: () => this.show(this.run.start, this.run.end), Home: () => this.show(this.run.start, this.run.start + length),
      End: () => this.show(this.run.end - length, this.run.end), ArrowUp: () => choose(-1), ArrowDown: () => choose(1),
      n: () => step(1), p: () => step(-1), t: () => this.pin(this.current),
      Enter: () => {
        if (this.selected < 0) return step(1);
        const from = this.run.from[this.selected] - this.run.wait[this.selected], to = this.run.to[this.selected];
        this.show(from - (to - from) / 2, to + (to - from) / 2);
      },
      Escape: () => { this.selected = -1; this.marked = null; this.say([]); this.redraw(); },
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
