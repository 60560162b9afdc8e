// The scheduler's own numbers: lines below the timeline, and its decisions one by one.

const STATE_HEIGHT = 70, STEP_EVERY = 1100, STEPS_IN_VIEW = 10;

/**
 * @typedef {{ name: string, task: number | null, dash: boolean, step: boolean, points: number }} SentLine
 * @typedef {SentLine & { lo: number, hi: number }} StateLine
 * @typedef {{ label: string, says: string, unit: string, lines: StateLine[] }} StateRow
 * @typedef {{ rows: (Omit<StateRow, "lines"> & { lines: SentLine[] })[], says: string[], decisions: number, stride: number }} StateHead
 */

class StateTracks {
  /** @param {StateHead} head @param {Columns} columns @param {string} prefix */
  constructor(head, columns, prefix) {
    this.at = columns.read(prefix + "st.at", Float64Array);
    this.value = columns.read(prefix + "st.value", Float64Array);
    let place = 0;
    /** @type {StateRow[]} */
    this.rows = head.rows.map((row) => ({ ...row, lines: row.lines.map((line) => {
      const lo = place;
      for (let time = 0; place < lo + line.points; place++) {
        time = this.at[place] += time;
        // 0 ends a line; else the lowest bit is the sign.
        const sent = this.value[place] - 1;
        this.value[place] = sent < 0 ? NaN : sent % 2 ? -(sent + 1) / 2 : sent / 2;
      }
      return { ...line, lo, hi: place };
    }) }));
    this.says = head.says;
    this.decisions = head.decisions;
    this.stride = head.stride;
    this.when = columns.times(prefix + "d.at");
    this.cpus = columns.read(prefix + "d.cpu", Uint32Array);
    this.tasks = columns.read(prefix + "d.task", Uint32Array);
  }

  /** The first point of a line after a time. @param {StateLine} line @param {number} time */
  after(line, time) {
    let lo = line.lo, hi = line.hi;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.at[middle] > time) hi = middle;
      else lo = middle + 1;
    }
    return lo;
  }

  /** The value of a line at a time, NaN where it has none. @param {StateLine} line @param {number} time */
  valueAt(line, time) {
    const next = this.after(line, time);
    if (next === line.lo) return NaN;
    const before = this.value[next - 1];
    if (line.step || next === line.hi || Number.isNaN(this.value[next])) return before;
    const part = (time - this.at[next - 1]) / (this.at[next] - this.at[next - 1]);
    return before + (this.value[next] - before) * part;
  }

  /** The first decision at or after a time. @param {number} time */
  decisionAt(time) {
    let lo = 0, hi = this.when.length;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.when[middle] >= time) hi = middle;
      else lo = middle + 1;
    }
    return lo;
  }

  /** What a row says at a time. @param {StateRow} row @param {number} time @returns {string[]} */
  texts(row, time) {
    const found = row.lines.map((line) => ({ name: line.name, value: this.valueAt(line, time) })).filter(({ value }) => !Number.isNaN(value));
    const shown = found.slice(0, 12).map(({ name, value }) => `${name}: ${showValue(row.unit ? Math.round(value) : value, row.unit)}`);
    return [`${row.label}: ${row.says}`, ...shown, ...(found.length > 12 ? [`and ${found.length - 12} more`] : found.length ? [] : ["nothing is queued here"])];
  }

  /** The least and the largest value in a part of the run; 0 is between them. @param {StateRow} row @param {View} view */
  range(row, view) {
    let low = 0, high = 0;
    for (const line of row.lines) {
      for (let at = Math.max(line.lo, this.after(line, view.from) - 1); at < line.hi; at++) {
        const value = this.value[at];
        if (value < low) low = value;
        if (value > high) high = value;
        if (this.at[at] > view.to) break;
      }
    }
    return { low, high: high === low ? low + 1 : high };
  }

  /** Draws a row. @param {CanvasRenderingContext2D} context @param {Run} run @param {StateRow} row @param {View} view @param {Theme} theme @param {number} y @param {number} height */
  draw(context, run, row, view, theme, y, height) {
    const { low, high } = this.range(row, view), scale = view.width / (view.to - view.from);
    const yOf = (/** @type {number} */ value) => y + 5 + (high - value) / (high - low) * (height - 10);
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(view.left, yOf(0));
    context.lineTo(view.left + view.width, yOf(0));
    context.stroke();
    row.lines.forEach((line, i) => {
      context.strokeStyle = line.task === null ? line.name === "pool" ? theme.ink : theme.tasks[i * SHADES % theme.tasks.length] : theme.tasks[run.colours[line.task]];
      context.lineWidth = line.name === "pool" ? 2 : 1.5;
      context.setLineDash(line.dash ? [4, 3] : []);
      context.beginPath();
      let isOpen = false, before = 0, column = NaN, lowest = 0, highest = 0;
      for (let at = Math.max(line.lo, this.after(line, view.from) - 1); at < line.hi; at++) {
        const value = this.value[at], x = view.left + (this.at[at] - view.from) * scale;
        if (Number.isNaN(value)) {
          if (isOpen) context.lineTo(x, before);
          isOpen = false;
        } else {
          const to = yOf(value), pixel = Math.round(x);
          // Of many points in one pixel the first, the least, the largest and the last.
          if (pixel === column && isOpen && to >= lowest && to <= highest) {
            before = to;
            continue;
          }
          if (pixel !== column) {
            column = pixel;
            [lowest, highest] = [to, to];
          }
          [lowest, highest] = [Math.min(lowest, to), Math.max(highest, to)];
          if (!isOpen) context.moveTo(x, to);
          else if (line.step) context.lineTo(x, before);
          context.lineTo(x, to);
          [isOpen, before] = [true, to];
        }
        if (this.at[at] > view.to) break;
      }
      context.stroke();
    });
    context.setLineDash([]);
    context.fillStyle = theme.quiet;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    const right = view.left + view.width - 3;
    context.fillText(showValue(high, row.unit), right, y + 9);
    if (low < 0) context.fillText(showValue(low, row.unit), right, y + height - 8);
    context.textAlign = "left";
    context.font = FONT;
  }
}

/** Steps through the decisions of a run, each with its reason. */
class Stepper {
  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.index = -1;
    this.timer = 0;
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => {
      const element = make("button", { type: "button", title: label, "aria-label": label }, text);
      element.addEventListener("click", act);
      return element;
    };
    this.playing = button("▶ play", "Play the decisions one after another", () => this.timer ? this.pause() : this.play());
    this.bar = make("div", { class: "bar steps", role: "group", "aria-label": "Decisions" }, this.playing,
      button("‹ step", "The decision before", () => { this.pause(); this.step(-1); }), button("step ›", "The next decision", () => { this.pause(); this.step(1); }));
    this.says = make("p", { class: "decided", "aria-live": "polite" }, "Step through the decisions: each says why the CPU runs what it runs.");
  }

  /** The numbers of the shown run. */
  get state() {
    return this.timeline.whole.state;
  }

  /** Forgets the chosen decision: another run is shown. */
  reset() {
    this.pause();
    this.index = -1;
    this.timeline.cursor = NaN;
    this.bar.hidden = this.says.hidden = !this.state?.when.length;
  }

  play() {
    this.playing.textContent = "❚❚ pause";
    this.step(1);
    this.timer = setInterval(() => this.step(1), STEP_EVERY);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing.textContent = "▶ play";
  }

  /** @param {number} by */
  step(by) {
    const state = this.state, timeline = this.timeline;
    if (!state) return;
    const isIn = this.index >= 0 && timeline.cursor >= timeline.from && timeline.cursor <= timeline.to;
    const to = isIn ? this.index + by : by > 0 ? state.decisionAt(timeline.from) : state.decisionAt(timeline.to) - 1;
    if (to < 0 || to >= state.when.length) {
      this.pause();
      const more = state.decisions - state.when.length;
      this.says.textContent = to < 0 ? "This is the first decision."
        : more > 0 ? `The reasons of the first ${state.when.length} of ${state.decisions} decisions are kept: choose a shorter duration for those of later ones.`
        : "This is the last decision.";
      return;
    }
    this.go(to);
  }

  /** Shows a decision. @param {number} index */
  go(index) {
    const { state, timeline } = this;
    if (!state) return;
    this.index = index;
    const at = timeline.cursor = state.when[index];
    // So near that a few decisions are in view.
    const near = state.when[Math.min(state.when.length - 1, index + STEPS_IN_VIEW)] - state.when[Math.max(0, index - STEPS_IN_VIEW)];
    const length = timeline.to - timeline.from, wanted = Math.max(near, 20000);
    if (length > wanted * 3) timeline.show(at - wanted / 3, at + wanted * 2 / 3);
    else if (at < timeline.from + length * 0.05 || at > timeline.to - length * 0.15) timeline.show(at - length / 3, at + length * 2 / 3);
    this.says.replaceChildren(make("b", {}, `cpu ${state.cpus[index]}`), ` at ${showPlace(at)}, decision ${index + 1}: ${state.says[index]}.`);
    timeline.redraw();
  }
}
