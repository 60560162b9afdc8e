// The values under the pointer in a plot, and parts of it. The plot itself is SVG in the page; this adds a line and a text, and
// draws a part of the horizontal axis anew.

/** @param {PlotAxis} axis @param {number} place @returns {number} */
function valueAt(axis, place) {
  const part = (place - axis.from) / (axis.to - axis.from);
  return axis.log ? axis.low * Math.pow(axis.high / axis.low, part) : axis.low + part * (axis.high - axis.low);
}

/** @param {PlotAxis} axis @param {number} value @returns {number} */
function placeOf(axis, value) {
  if (axis.names.length) return axis.from + (value + 0.5) / axis.names.length * (axis.to - axis.from);
  const part = axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low);
  return axis.from + part * (axis.to - axis.from);
}

/** The point of a series that belongs to a place. @param {PlotSeries} series @param {PlotAxis} axis @param {number} place */
function pointAt(series, axis, place) {
  const stepped = series.mark === "steps" || series.mark === "area";
  let found = -1, near = Infinity;
  for (let i = 0; i < series.x.length; i++) {
    const distance = place - placeOf(axis, series.x[i]);
    // A step holds until the next point.
    if (stepped ? distance >= -0.5 : Math.abs(distance) < near) {
      found = i;
      near = Math.abs(distance);
    }
  }
  return found;
}

/** @param {PlotData} plot @param {number} place @returns {string[]} */
function plotLines(plot, place) {
  const axis = plot.x;
  const lines = [];
  let at = valueAt(axis, place);
  for (const series of plot.series) {
    const point = pointAt(series, axis, place);
    if (point < 0) continue;
    if (series.mark !== "steps" && series.mark !== "area") at = series.x[point];
    const spread = series.spread[point];
    const range = spread ? ` (${showValue(spread[0], plot.y.unit)} to ${showValue(spread[1], plot.y.unit)})` : "";
    lines.push(`${series.name ? series.name + "  " : ""}${showValue(series.y[point], plot.y.unit)}${range}`);
  }
  if (lines.length) lines.unshift(axis.names.length ? axis.names[Math.round(at)] ?? "" : `${axis.label} ${showValue(at, axis.unit)}`);
  return lines;
}

/** The namespace of SVG, as the page's own drawings have it: a page refers to no address. */
const SVG = document.querySelector("svg")?.namespaceURI ?? null;

/** @param {string} kind @param {Record<string, string | number>} attributes @param {string} [text] */
function shape(kind, attributes, text = "") {
  const element = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, typeof value === "number" ? value.toFixed(1) : value);
  element.textContent = text;
  return element;
}

/** The ticks of a part of an axis: values and their texts. @param {PlotAxis} axis @returns {[number, string][]} */
function ticksOf(axis) {
  const { low, high, unit, log } = axis;
  /** @type {[number, string][]} */
  const ticks = [];
  if (log && high >= low * 4) {
    const factors = high > low * 100 ? [1] : [1, 2, 5];
    for (let power = Math.pow(10, Math.floor(Math.log10(low))); power <= high; power *= 10) {
      for (const factor of factors) if (power * factor >= low && power * factor <= high) ticks.push([power * factor, showValue(power * factor, unit)]);
    }
    return ticks;
  }
  const step = niceStep((high - low) / 5);
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push([i * step, unit === "ns" ? showTick(i * step, step) : showValue(Number((i * step).toPrecision(9)), unit)]);
  return ticks;
}

/** The corners of a line that is level until each next point. @param {[number, number][]} points @returns {[number, number][]} */
function cornersOf(points) {
  return points.flatMap((point, i) => i ? [/** @type {[number, number]} */ ([point[0], points[i - 1][1]]), point] : [point]);
}

/** Draws a part of a plot over its drawing, as Rust draws the whole. @param {PlotData} plot @param {SentAxis} whole @param {SVGSVGElement} svg */
function drawPart(plot, whole, svg) {
  svg.querySelector(":scope > .part")?.remove();
  const { x, y } = plot, isWhole = x.low <= whole.low && x.high >= whole.high;
  svg.classList.toggle("zoomed", !isWhole);
  if (isWhole) return;
  const part = shape("g", { class: "part" });
  let free = -Infinity;
  for (const [value, text] of ticksOf(x)) {
    const at = placeOf(x, value), half = text.length * 3.4;
    part.append(shape("line", { x1: at, x2: at, y1: y.from, y2: y.from + 4, class: "a" }));
    if (at - half < free) continue;
    part.append(shape("text", { x: at, y: y.from + 18, "font-size": "12", "text-anchor": "middle", class: "q" }, text));
    free = at + half + 6;
  }
  // An inner drawing cuts what is beside the axes; a line on the edge keeps its width.
  const box = [x.from, y.to - 4, x.to - x.from, y.from - y.to + 8];
  const inner = shape("svg", { x: box[0], y: box[1], width: box[2], height: box[3], viewBox: box.join(" ") });
  const old = { ...x, low: whole.low, high: whole.high };
  plot.series.forEach((series, index) => {
    const colour = `k${index % 7}`, isStepped = series.mark === "steps" || series.mark === "area";
    if (series.mark === "bars") {
      for (const bar of svg.querySelectorAll(`.data rect.${colour}`)) {
        const [left, width] = ["x", "width"].map((name) => Number(bar.getAttribute(name)));
        const [from, to] = [left, left + width].map((place) => placeOf(x, valueAt(old, place)));
        const copy = /** @type {Element} */ (bar.cloneNode());
        copy.setAttribute("x", String(from));
        copy.setAttribute("width", String(to - from));
        inner.append(copy);
      }
      return;
    }
    const at = (/** @type {number} */ i, /** @type {number} */ value) => /** @type {[number, number]} */ ([placeOf(x, series.x[i]), placeOf(y, value)]);
    const shown = (/** @type {[number, number][]} */ points) => points.filter((point) => point.every(Number.isFinite));
    const points = shown(series.x.map((_, i) => at(i, series.y[i])));
    const line = isStepped ? cornersOf(points) : points;
    const fill = (/** @type {[number, number][]} */ outline) => inner.append(shape("polygon", { points: outline.join(" "), "fill-opacity": "0.16", class: colour }));
    if (series.mark === "area" && line.length) fill([[line[0][0], y.from], ...line, [line[line.length - 1][0], y.from]]);
    const lows = shown(series.spread.map(([low], i) => at(i, low))), highs = shown(series.spread.map(([, high], i) => at(i, high)));
    if (lows.length > 1 && (series.mark === "line" || series.mark === "dashed")) fill([...lows, ...highs.reverse()]);
    else if (lows.length > 1 && series.mark === "steps") fill([...cornersOf(lows), ...cornersOf(highs).reverse()]);
    else lows.forEach(([place, low], i) => inner.append(shape("path", { d: `M${place} ${low}V${highs[i][1]}`, fill: "none", "stroke-width": "1.2", class: colour + "s" })));
    if (series.mark !== "points") {
      // Lines that coincide are told apart by their widths.
      const width = svg.querySelector(`.data polyline.${colour}s`)?.getAttribute("stroke-width") ?? "2";
      inner.append(shape("polyline", { points: line.join(" "), fill: "none", "stroke-width": width, "stroke-linejoin": "round",
        "stroke-dasharray": series.mark === "dashed" ? "6 4" : "none", class: colour + "s" }));
    }
    const inside = points.filter(([place]) => place >= x.from && place <= x.to);
    if (!isStepped && inside.length <= 64) for (const [cx, cy] of inside) inner.append(shape("circle", { cx, cy, r: "3.5", class: colour }));
  });
  part.append(inner);
  svg.append(part);
}

/** The shown part of a plot's horizontal axis, the same in both of its drawings. */
class Part {
  /** @param {SentPlot} sent @param {Element} figure */
  constructor(sent, figure) {
    this.sent = sent;
    this.low = sent.x.low;
    this.high = sent.x.high;
    /** @type {(() => void)[]} */
    this.drawings = [];
    this.canZoom = !sent.x.names.length && sent.series.some((series) => series.x.length > 1);
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.className = "whole";
    this.button.textContent = "whole range";
    this.button.hidden = true;
    if (this.canZoom) figure.append(this.button);
  }

  get isWhole() {
    return this.low <= this.sent.x.low && this.high >= this.sent.x.high;
  }

  /** @param {number} low @param {number} high */
  show(low, high) {
    const { x } = this.sent;
    this.low = Math.max(x.low, low);
    this.high = Math.min(x.high, high);
    this.button.hidden = this.isWhole;
    for (const draw of this.drawings) draw();
  }
}

/** @param {PageHead} head @param {(from: number, to: number) => void} showTime shows a part of the run in the timeline */
function bindPlots(head, showTime) {
  /** Plots over the time of the run show the same part of it. @type {Part[]} */
  const linked = [];
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const plot = head.plots[Number(figure.getAttribute("data-plot"))];
    if (!plot) continue;
    const line = document.createElement("div");
    line.className = "hair";
    line.hidden = true;
    figure.append(line);
    const part = new Part(plot, figure);
    const run = head.runs[0];
    const isTime = run && plot.x.unit === "ns" && Math.abs(plot.x.low - run.start) < 2 && Math.abs(plot.x.high - run.end) < 2;
    if (isTime) linked.push(part);
    const zoom = (/** @type {number} */ low, /** @type {number} */ high) => {
      // Closer than the values are it shows nothing more.
      const least = plot.x.log ? Math.log(plot.x.high / plot.x.low) / 200 : (plot.x.high - plot.x.low) / 200;
      if (!part.canZoom || (plot.x.log ? Math.log(high / low) : high - low) < least) return;
      for (const one of isTime ? linked : [part]) one.show(low, high);
      if (isTime) showTime(part.low, part.high);
    };
    part.button.addEventListener("click", () => zoom(plot.x.low, plot.x.high));
    for (const svg of figure.querySelectorAll("svg")) bindPlot(part, zoom, figure, svg, line);
  }
}

/** One of the two drawings of a plot; the style sheet shows the one that fits.
 * @param {Part} part @param {(low: number, high: number) => void} zoom @param {Element} figure @param {SVGSVGElement} svg @param {HTMLElement} line */
function bindPlot(part, zoom, figure, svg, line) {
  const all = part.sent;
  const frame = (/** @type {SentAxis} */ axis) => {
    const [from, to] = svg.classList.contains("narrow") ? axis.narrow : axis.wide;
    return { ...axis, from, to };
  };
  const plot = { ...all, x: frame(all.x), y: frame(all.y) };
  part.drawings.push(() => {
    plot.x.low = part.low;
    plot.x.high = part.high;
    drawPart(plot, all.x, svg);
  });
  const within = (/** @type {number} */ place) => Math.min(plot.x.to, Math.max(plot.x.from, place));
  const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  /** Puts the line at a place, or over the chosen part. @param {number} from @param {number} to */
  const mark = (from, to) => {
    const box = svg.getBoundingClientRect(), own = figure.getBoundingClientRect();
    line.hidden = false;
    line.style.left = box.left - own.left + from * scale() + "px";
    line.style.width = from === to ? "" : (to - from) * scale() + "px";
    line.classList.toggle("chosen", from !== to);
    line.style.top = box.top - own.top + plot.y.to * scale() + "px";
    line.style.height = (plot.y.from - plot.y.to) * scale() + "px";
  };
  const move = (/** @type {number} */ place, /** @type {number} */ y) => {
    place = within(place);
    mark(place, place);
    showTip(plotLines(plot, place), svg.getBoundingClientRect().left + place * scale(), y);
    return place;
  };
  const leave = () => {
    line.hidden = true;
    hideTip();
  };
  const placeAt = (/** @type {PointerEvent} */ event) => (event.clientX - svg.getBoundingClientRect().left) / scale();
  let from = -1;
  if (part.canZoom) figure.classList.add("zooms");
  svg.addEventListener("pointerdown", (event) => {
    if (!part.canZoom || event.button !== 0) return;
    from = within(placeAt(event));
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    const place = within(placeAt(event));
    if (from < 0 || Math.abs(place - from) < 4) return move(place, event.clientY);
    hideTip();
    mark(Math.min(from, place), Math.max(from, place));
  });
  svg.addEventListener("pointerup", (event) => {
    const to = within(placeAt(event)), [low, high] = [Math.min(from, to), Math.max(from, to)];
    if (from >= 0 && high - low >= 4) {
      zoom(valueAt(plot.x, low), valueAt(plot.x, high));
      leave();
    }
    from = -1;
  });
  svg.addEventListener("pointercancel", () => {
    from = -1;
    leave();
  });
  svg.addEventListener("dblclick", () => zoom(all.x.low, all.x.high));
  svg.addEventListener("pointerleave", () => { if (from < 0) leave(); });
  // With the keyboard: arrows step through the plot, plus and minus zoom around the place.
  svg.setAttribute("tabindex", "0");
  let place = (plot.x.from + plot.x.to) / 2;
  const step = (/** @type {number} */ by) => {
    const box = svg.getBoundingClientRect();
    place = move(place + by, box.top + box.height / 3);
  };
  /** Zooms around the place, which keeps its value. @param {number} factor */
  const around = (factor) => {
    const at = valueAt(plot.x, place);
    zoom(valueAt(plot.x, place - (place - plot.x.from) * factor), valueAt(plot.x, place + (plot.x.to - place) * factor));
    place = within(placeOf(plot.x, at));
    step(0);
  };
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) step(0); });
  svg.addEventListener("blur", leave);
  /** @type {Record<string, () => void>} */
  const acts = { "+": () => around(0.5), "=": () => around(0.5), "-": () => around(2), 0: () => { zoom(all.x.low, all.x.high); step(0); } };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.key === "ArrowRight" ? 8 : event.key === "ArrowLeft" ? -8 : 0;
    if (event.key === "Escape") leave();
    const act = part.canZoom ? acts[event.key] : undefined;
    if (!by && !act) return;
    event.preventDefault();
    if (act) act();
    else step(event.shiftKey ? by * 5 : by);
  });
}

/** Shows lines of text at a place of the window. @param {string[]} lines @param {number} x @param {number} y */
function showTip(lines, x, y) {
  const tip = document.getElementById("tip");
  if (!tip) return;
  if (!lines.length) return hideTip();
  tip.replaceChildren(...lines.map((text, index) => {
    const line = document.createElement("div");
    if (index === 0) line.className = "first";
    line.textContent = text;
    return line;
  }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, x + 14 + box.width > innerWidth - 4 ? x - 14 - box.width : x + 14) + "px";
  tip.style.top = Math.max(4, Math.min(innerHeight - box.height - 4, y + 16)) + "px";
}

function hideTip() {
  const tip = document.getElementById("tip");
  if (tip) tip.hidden = true;
}
