// The values under the pointer in a plot. The plot itself is SVG in the page; this adds a line and a text.

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

/** @param {PageHead} head */
function bindPlots(head) {
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const plot = head.plots[Number(figure.getAttribute("data-plot"))];
    if (!plot) continue;
    const line = document.createElement("div");
    line.className = "hair";
    line.hidden = true;
    figure.append(line);
    for (const svg of figure.querySelectorAll("svg")) bindPlot(plot, figure, svg, line);
  }
}

/** One of the two drawings of a plot; the style sheet shows the one that fits. @param {SentPlot} all @param {Element} figure
 * @param {SVGSVGElement} svg @param {HTMLElement} line */
function bindPlot(all, figure, svg, line) {
  const frame = (/** @type {SentAxis} */ axis) => {
    const [from, to] = svg.classList.contains("narrow") ? axis.narrow : axis.wide;
    return { ...axis, from, to };
  };
  const plot = { ...all, x: frame(all.x), y: frame(all.y) };
  const move = (/** @type {number} */ place, /** @type {number} */ y) => {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    place = Math.min(plot.x.to, Math.max(plot.x.from, place));
    line.hidden = false;
    const own = figure.getBoundingClientRect();
    line.style.left = box.left - own.left + place * scale + "px";
    line.style.top = box.top - own.top + plot.y.to * scale + "px";
    line.style.height = (plot.y.from - plot.y.to) * scale + "px";
    showTip(plotLines(plot, place), box.left + place * scale, y);
    return place;
  };
  const leave = () => {
    line.hidden = true;
    hideTip();
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const pointer = /** @type {PointerEvent} */ (event);
    move((pointer.clientX - box.left) / box.width * svg.viewBox.baseVal.width, pointer.clientY);
  });
  svg.addEventListener("pointerleave", leave);
  // With the keyboard: arrows step through the plot.
  svg.setAttribute("tabindex", "0");
  let place = (plot.x.from + plot.x.to) / 2;
  const step = (/** @type {number} */ by) => {
    const box = svg.getBoundingClientRect();
    place = move(place + by, box.top + box.height / 3);
  };
  svg.addEventListener("focus", () => step(0));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 8 : event.key === "ArrowLeft" ? -8 : 0;
    if (event.key === "Escape") leave();
    if (!by) return;
    event.preventDefault();
    step(event.shiftKey ? by * 5 : by);
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
