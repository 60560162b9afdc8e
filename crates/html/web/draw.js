// Drawing: slices one by one where they are wide, and as a strip of columns where many fall into one pixel.

const RULER = 22, CPU_HEIGHT = 26, TASK_HEIGHT = 20;

/**
 * @typedef {{ from: number, to: number, left: number, width: number, top: number, bottom: number, scroll: number }} View
 */

/** @param {Row} row */
function rowHeight(row) {
  return row.kind === "cpu" ? CPU_HEIGHT : row.kind === "task" ? TASK_HEIGHT : STATE_HEIGHT;
}

class Painter {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
    this.strip = document.createElement("canvas");
    this.stripContext = /** @type {CanvasRenderingContext2D} */ (this.strip.getContext("2d", { willReadFrequently: true }));
    /** @type {ImageData | null} */
    this.image = null;
  }

  /**
   * Draws the slices of a row. Returns whether each was drawn by itself.
   * @param {Run} run @param {Row} row @param {View} view @param {Theme} theme @param {number} y @param {number} height
   */
  row(run, row, view, theme, y, height) {
    if (row.track) {
      run.state?.draw(this.context, run, row.track, view, theme, y, height);
      return true;
    }
    const first = run.endsAfter(row, view.from);
    const last = run.endsAfter(row, view.to, first);
    if (last - first > view.width / 3) {
      this.dense(run, row, view, theme, y, height, first);
      return false;
    }
    const context = this.context, scale = view.width / (view.to - view.from);
    const isTask = row.kind === "task";
    for (let place = first; place < Math.min(last + 1, row.hi); place++) {
      const slice = run.slice(row, place);
      const from = run.from[slice], to = run.to[slice];
      const wait = run.wait[slice];
      if (from - (isTask ? wait : 0) > view.to) break;
      if (isTask && wait > 0) this.waiting(view, theme, from - wait, from, y, height, run.how[slice]);
      if (from > view.to) continue;
      const x = Math.max(view.left - 1, view.left + (from - view.from) * scale);
      const right = Math.min(view.left + view.width + 1, view.left + (to - view.from) * scale);
      const colour = run.colours[run.task[slice]];
      context.fillStyle = theme.tasks[colour];
      const gap = right - x > 3 ? 0.6 : 0;
      context.fillRect(x, y + 1, Math.max(right - x - gap, 0.8), height - 2);
      if (right - x > 34 && !isTask) this.label(run.head.tasks[run.task[slice]], x, right, y + height / 2, inkOn(theme.tasksRgb[colour]));
      if (run.how[slice] & MERGED) {
        context.fillStyle = theme.paper;
        context.fillRect(x, y + height - 4, right - x, 1);
      }
    }
    const open = isTask ? run.waiting.get(row.id) : undefined;
    if (open !== undefined) this.waiting(view, theme, open, run.end, y, height, 0);
    return true;
  }

  /** A wait, in the colour of what took most of it; that for a limit is the tallest.
   * @param {View} view @param {Theme} theme @param {number} from @param {number} to @param {number} y @param {number} height @param {number} how */
  waiting(view, theme, from, to, y, height, how) {
    const scale = view.width / (view.to - view.from);
    const x = Math.max(view.left, view.left + (from - view.from) * scale);
    const right = Math.min(view.left + view.width, view.left + (to - view.from) * scale);
    if (right <= x) return;
    const width = Math.max(right - x, 0.8);
    if (how & BY_LIMIT) return this.hatch(x, y + height * 0.2, width, height * 0.68, theme.throttle);
    this.context.fillStyle = how & BY_LOCK ? theme.lock : theme.wait;
    this.context.fillRect(x, y + height * 0.58, width, height * 0.3);
  }

  /** @param {string} text @param {number} x @param {number} right @param {number} y @param {string} ink */
  label(text, x, right, y, ink) {
    const context = this.context, room = right - x - 8;
    const letters = Math.floor(room / 6.4);
    // A few letters of a long name would be those that all instances share.
    if (letters < Math.min(text.length, 7)) return;
    context.fillStyle = ink;
    context.fillText(text.length <= letters ? text : text.slice(0, Math.max(letters - 1, 1)) + "…", x + 4, y + 0.5);
  }

  /**
   * A strip of one column per pixel: its colour is that of the task that ran most, its strength the busy part, which is exact.
   * Of a task the lower part of the row shows the waiting part.
   * @param {Run} run @param {Row} row @param {View} view @param {Theme} theme @param {number} y @param {number} height @param {number} first
   */
  dense(run, row, view, theme, y, height, first) {
    const width = Math.max(1, Math.ceil(view.width)), isTask = row.kind === "task";
    if (!this.image || this.image.width !== width) {
      this.strip.width = width;
      this.strip.height = 2;
      this.image = this.stripContext.createImageData(width, 2);
    }
    const pixels = new Uint32Array(this.image.data.buffer);
    const sums = isTask ? run.taskSum : run.sum;
    const step = (view.to - view.from) / width;
    const [paperR, paperG, paperB] = theme.paperRgb;
    let place = first;
    for (let x = 0; x < width; x++) {
      const from = view.from + x * step, to = from + step;
      let busy = 0, waited = 0, limited = 0, locked = 0, best = -1, longest = 0, count = 0;
      let at = place;
      for (; at < row.hi; at++) {
        const slice = isTask ? run.order[at] : at;
        const start = run.from[slice], end = run.to[slice];
        if (isTask) {
          const waits = Math.min(start, to) - Math.max(start - run.wait[slice], from);
          if (waits > 0) waited += waits;
          if (waits > 0 && run.how[slice] & BY_LIMIT) limited += waits;
          if (waits > 0 && run.how[slice] & BY_LOCK) locked += waits;
        }
        if (start >= to) break;
        const part = Math.min(end, to) - Math.max(start, from);
        busy += part;
        if (part > longest) {
          longest = part;
          best = slice;
        }
        if (end > to) break;
        if (++count === 24) {
          // Many: the sums say the rest.
          const behind = run.endsAfter(row, to, at + 1);
          busy += sums[behind] - sums[at + 1];
          if (isTask) {
            waited += run.waitSum[behind] - run.waitSum[at + 1];
            limited += run.limitSum[behind] - run.limitSum[at + 1];
            locked += run.lockSum[behind] - run.lockSum[at + 1];
          }
          if (behind < row.hi) busy += Math.max(0, to - run.from[isTask ? run.order[behind] : behind]);
          at = behind;
          break;
        }
      }
      place = Math.min(at, row.hi);
      const [r, g, b] = best < 0 ? theme.paperRgb : theme.tasksRgb[run.colours[run.task[best]]];
      const part = Math.min(1, busy / step), strength = part <= 0 ? 0 : 0.2 + 0.8 * part;
      pixels[x] = mix(paperR, r, strength) | mix(paperG, g, strength) << 8 | mix(paperB, b, strength) << 16 | 0xff000000;
      const share = Math.min(1, waited / step);
      if (isTask && share > 0.02) {
        const weight = 0.25 + 0.75 * share;
        // Throttling is seen even where it is the smaller part.
        const [waitR, waitG, waitB] = limited * 4 > waited ? theme.throttleRgb : locked * 2 > waited ? theme.lockRgb : theme.waitRgb;
        pixels[width + x] = mix(paperR, waitR, weight) | mix(paperG, waitG, weight) << 8 | mix(paperB, waitB, weight) << 16 | 0xff000000;
      } else {
        pixels[width + x] = pixels[x];
      }
    }
    this.stripContext.putImageData(this.image, 0, 0);
    const context = this.context;
    context.imageSmoothingEnabled = false;
    const split = isTask ? Math.round((height - 2) * 0.6) : height - 2;
    context.drawImage(this.strip, 0, 0, width, 1, view.left, y + 1, view.width, split);
    if (isTask) context.drawImage(this.strip, 0, 1, width, 1, view.left, y + 1 + split, view.width, height - 2 - split);
  }

  /**
   * Draws the spans of a row; of those that fall into one pixel the first.
   * @param {Run} run @param {Row} row @param {View} view @param {Theme} theme @param {number} y @param {number} height
   */
  spans(run, row, view, theme, y, height) {
    const context = this.context, spans = run.spans;
    const scale = view.width / (view.to - view.from), pixel = 1 / scale;
    const drawn = new Float64Array(12).fill(-Infinity);
    run.eachSpan(row, view.from, view.to, (span) => {
      const kind = spans.kind[span];
      if (spans.to[span] <= drawn[kind]) return;
      const from = Math.max(spans.from[span], view.from), to = Math.min(spans.to[span], view.to);
      drawn[kind] = from + Math.max(to - from, pixel);
      this.span(kind, spans.what[span] - 1, view.left + (from - view.from) * scale, Math.max(1, (to - from) * scale), y, height, theme, context);
    });
  }

  /**
   * @param {number} kind @param {number} what @param {number} x @param {number} width @param {number} y @param {number} height
   * @param {Theme} theme @param {CanvasRenderingContext2D} context
   */
  span(kind, what, x, width, y, height, theme, context) {
    const bottom = y + height - 1;
    switch (kind) {
      case THROTTLED: case RT_THROTTLED: case TASK_THROTTLED: case NO_BUDGET:
        // The loudest mark: over the whole row, and solid at its foot.
        this.hatch(x, y + 1, width, height - 2, theme.throttle);
        context.fillRect(x, bottom - 3, width, 3);
        break;
      case SERVER:
        // A server that defers is the rule, and no news.
        if (what !== 0) break;
        context.fillStyle = theme.server;
        context.fillRect(x, y, width, 2.5);
        break;
      case SPIN: context.fillStyle = theme.spin; context.fillRect(x, y + 3, width, 3); break;
      case IRQ: context.fillStyle = theme.irq; context.fillRect(x, y + 1, width, 3); break;
      case UNSEEN: this.unseen(x, y, width, height, theme); break;
      case OFFLINE: this.hatch(x, y + 1, width, height - 2, theme.quiet); break;
      case BOOSTED: context.fillStyle = theme.boost; context.fillRect(x, y + 1, width, 3); break;
      case HOLDS: context.fillStyle = theme.lock; context.fillRect(x, bottom - 2, width, 2); break;
      case WANTS: this.hatch(x, y + height * 0.45, width, height * 0.3, theme.lock); break;
    }
  }

  /** Stripes, which differ from plain colours also for readers without colours. */
  hatch(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ width, /** @type {number} */ height, /** @type {string} */ colour) {
    const context = this.context;
    context.fillStyle = colour;
    if (width < 4) return context.fillRect(x, y, width, height);
    context.save();
    context.globalAlpha = 0.3;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1.4;
    context.beginPath();
    for (let at = x - height - (x % 6); at < x + width; at += 6) {
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
  }

  /** A veil over what was not seen, and an edge where it begins and ends. @param {number} x @param {number} y @param {number} width
   * @param {number} height @param {Theme} theme */
  unseen(x, y, width, height, theme) {
    const context = this.context;
    context.fillStyle = theme.paper;
    context.globalAlpha = 0.62;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    context.fillStyle = theme.quiet;
    if (width < 4) return context.fillRect(x, y, width, height);
    context.fillRect(x, y, 1, height);
    context.fillRect(x + width - 1, y, 1, height);
    for (let at = x + 4; at < x + width - 4; at += 6) context.fillRect(at, y + height / 2 - 1, 2, 2);
    if (width > 90) {
      context.fillStyle = theme.paper;
      const text = "events missing", long = context.measureText(text).width;
      context.fillRect(x + 7, y + 3, long + 6, height - 6);
      context.fillStyle = theme.quiet;
      context.fillText(text, x + 10, y + height / 2 + 0.5);
    }
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} colour */
  arrow(x0, y0, x1, y1, colour, strong = false) {
    const context = this.context;
    context.strokeStyle = context.fillStyle = colour;
    context.globalAlpha = strong ? 1 : 0.55;
    context.lineWidth = strong ? 2 : 1;
    const bend = Math.max(6, Math.abs(x1 - x0) / 2);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 5, y1 - 3);
    context.lineTo(x1 - 5, y1 + 3);
    context.fill();
    context.globalAlpha = 1;
  }
}

/** @param {number} paper @param {number} ink @param {number} part */
function mix(paper, ink, part) {
  return paper + (ink - paper) * part & 255;
}
