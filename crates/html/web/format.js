// Times and numbers as a reader wants them, in the form of the tables: three digits and a unit; elements.

/** @param {number} ns @returns {string} */
function showTime(ns) {
  const sign = ns < 0 ? "-" : "";
  const abs = Math.abs(ns);
  if (abs < 1000) return sign + Math.round(abs) + "ns";
  for (const [unit, word] of /** @type {[number, string][]} */ ([[1e3, "us"], [1e6, "ms"], [1e9, "s"]])) {
    const value = abs / unit;
    for (const [places, limit] of [[2, 9.995], [1, 99.95], [0, 999.5]]) {
      if (value < limit) return sign + value.toFixed(places) + word;
    }
  }
  return sign + Math.round(abs / 1e9) + "s";
}

/** A time on an axis whose ticks are `step` apart. @param {number} ns @param {number} step @returns {string} */
function showTick(ns, step) {
  if (ns === 0) return "0";
  const [unit, word] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 1e2 ? [1e3, "us"] : [1, "ns"];
  const places = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return (ns / unit).toFixed(Math.min(places, 3)) + word;
}

/** A place in a run: seconds with all digits that the zoom can tell. @param {number} ns @returns {string} */
function showPlace(ns) {
  return (ns / 1e9).toFixed(9).replace(/0{3}$/, "").replace(/0{3}$/, "") + " s";
}

/** @param {number} value @param {string} unit @returns {string} */
function showValue(value, unit) {
  if (unit === "ns") return showTime(value);
  const text = Number.isInteger(value) ? String(value) : value.toPrecision(4).replace(/\.?0+$/, "");
  return text + unit;
}

/** The smallest 1, 2 or 5 times a power of ten that is at least `value`. @param {number} value */
function niceStep(value) {
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  const factor = value / power;
  return power * (factor <= 1.000001 ? 1 : factor <= 2.000001 ? 2 : factor <= 5.000001 ? 5 : 10);
}

/** @template {keyof HTMLElementTagNameMap} K @param {K} kind @param {Record<string, string>} [attributes] @param {...(Node | string)} children */
function make(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
