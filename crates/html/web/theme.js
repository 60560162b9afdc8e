// Colours of the canvas. Those of the page are in its style sheet; a canvas cannot read classes.

/**
 * @typedef {{ paper: string, ink: string, quiet: string, line: string, stripe: string, wait: string, throttle: string,
 *   server: string, irq: string, spin: string, boost: string, lock: string, mark: string, tasks: string[],
 *   paperRgb: [number, number, number], waitRgb: [number, number, number],
 *   throttleRgb: [number, number, number], lockRgb: [number, number, number], tasksRgb: [number, number, number][] }} Theme
 */

// Okabe and Ito 2008: readers who confuse red and green tell these apart. The dark ones are lifted in dark mode.
const LIGHT = {
  paper: "#ffffff", ink: "#1c1e21", quiet: "#5f6670", line: "#dfe2e6", stripe: "#f6f7f9", wait: "#f0c060", throttle: "#c0392b",
  server: "#0072b2", irq: "#8a8f98", spin: "#1c1e21", boost: "#7a3fb0", lock: "#7a5c00", mark: "#5f6670",
  tasks: ["#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7f9f3f", "#a0725a"],
};
const DARK = {
  paper: "#16181d", ink: "#e8e8e8", quiet: "#a9b0bb", line: "#2e333b", stripe: "#1b1e24", wait: "#8a6a1f", throttle: "#ff7b6b",
  server: "#56a5e8", irq: "#7d8590", spin: "#e8e8e8", boost: "#c39bf0", lock: "#d6b656", mark: "#a9b0bb",
  tasks: ["#4a9ede", "#2fb890", "#d993ba", "#7fc8f0", "#e8803a", "#a98fd0", "#9fbf5f", "#c0927a"],
};

/** @param {string} colour @returns {[number, number, number]} */
function rgb(colour) {
  const bits = parseInt(colour.slice(1), 16);
  return [bits >> 16 & 255, bits >> 8 & 255, bits & 255];
}

/** Each colour of tasks in as many shades, so that neighbours of one name can be told apart. */
const SHADES = 3;

/** @param {boolean} dark @returns {Theme} */
function themeOf(dark) {
  const base = dark ? DARK : LIGHT;
  const paper = rgb(base.paper), ink = dark ? paper : rgb("#000000");
  const blend = (/** @type {[number, number, number]} */ a, /** @type {[number, number, number]} */ b, /** @type {number} */ part) =>
    /** @type {[number, number, number]} */ (a.map((value, i) => Math.round(value + (b[i] - value) * part)));
  const tasksRgb = base.tasks.flatMap((colour) => {
    const plain = rgb(colour);
    return [plain, blend(plain, dark ? [255, 255, 255] : paper, 0.28), blend(plain, ink, 0.24)];
  });
  const tasks = tasksRgb.map(([r, g, b]) => `rgb(${r},${g},${b})`);
  return { ...base, tasks, paperRgb: paper, waitRgb: rgb(base.wait), throttleRgb: rgb(base.throttle), lockRgb: rgb(base.lock), tasksRgb };
}

/** Black or white, whichever is easier to read on a colour. @param {[number, number, number]} colour */
function inkOn([r, g, b]) {
  return r * 0.299 + g * 0.587 + b * 0.114 > 140 ? "#111111" : "#ffffff";
}
