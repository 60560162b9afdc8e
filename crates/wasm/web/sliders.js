// Sliders: the values of a scenario that are worth moving. Each is a line of its text, so what is moved is what is read, run and shared.

/**
 * A value in the text: `from` and `to` are its place, `at` that of the number that moves within its steps.
 * @typedef {{ key: string, owner: string, from: number, to: number, steps: number[], at: number, write: (step: number) => string, say: (step: number) => string,
 *   isChoice?: boolean }} Slider
 */

const MICROS = 1e3, MILLIS = 1e6, SECONDS = 1e9;
const NICE = Array.from({ length: 40 }, (_, i) => i - 20);
const SLICES = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100].map((ms) => ms * MILLIS);
/** Limits in hundredths of a CPU. */
const LIMITS = [5, 10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 350, 400, 500, 600, 800, 1200, 1600];
/** Bursts in hundredths of the quota: the kernel allows at most all of it. */
const BURSTS = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/** Budgets in hundredths of the period. */
const BUDGETS = [1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];

/** Periods of servers. */
const PERIODS = [10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000].map((ms) => ms * MILLIS);
/** Words that are worth trying one after the other. @type {Record<string, string[]>} */
const WORDS = {
  protocol: ["none", "inherit"],
  throttle: ["immediate", "boost_on_wakeup", "boost_groups", "at_user_return"],
  "sched_ext.policy": ["fifo", "vtime", "edf", "rm", "lottery", "flatcg", "linux", "srtf"],
};
const MOVABLE = "nice|slice|cpu.max|cpu.max.burst|cpu.rt_runtime_us|limits.cpu|runtime|fair_server.runtime|fair_server.period|protocol|throttle|sched_ext.policy";

/** A time as a scenario writes it, in nanoseconds; NaN if it is none. @param {string} text */
function readTime(text) {
  const found = text.match(/^([\d.]+)(ns|us|ms|s)$/);
  return found ? Number(found[1]) * { ns: 1, us: MICROS, ms: MILLIS, s: SECONDS }[/** @type {"ns" | "us" | "ms" | "s"} */ (found[2])] : NaN;
}

/** @param {number} ns */
function writeTime(ns) {
  const [unit, word] = ns >= SECONDS ? [SECONDS, "s"] : ns >= MILLIS ? [MILLIS, "ms"] : [MICROS, "us"];
  return `${Number((ns / unit).toFixed(3))}${word}`;
}

/** The steps of a slider with the present value among them. @param {number[]} steps @param {number} value */
function stepsWith(steps, value) {
  const all = [...new Set([...steps, value])].sort((a, b) => a - b);
  return { steps: all, at: all.indexOf(value) };
}

/** The values of a scenario that can be moved, at most eight, in their order. @param {string} text @returns {Slider[]} */
function slidersOf(text) {
  if (/^\s*[{/]/.test(text)) return [];
  const tables = [...text.matchAll(/^\s*\[\[?([^\]\n]+)\]\]?/gm)];
  /** @type {Slider[]} */
  const found = [];
  for (const line of text.matchAll(new RegExp(`^([ \\t]*"?(${MOVABLE.replaceAll(".", "\\.")})"?[ \\t]*=[ \\t]*)("[^"\\n]*"|-?[\\d.]+)`, "gm"))) {
    const table = tables.filter((head) => head.index < line.index).pop();
    const owner = table?.[1].match(/^(?:(?:task|service|group|mutex)\.)?(?:"([^"]+)"|([\w.-]+))$/);
    if (!table || !owner) continue;
    const from = line.index + line[1].length, to = from + line[3].length, value = line[3].replaceAll("\"", "");
    const end = tables.find((head) => head.index > line.index)?.index ?? text.length;
    const slider = sliderOf(line[2], value, text.slice(table.index, end));
    if (slider) found.push({ ...slider, key: line[2], owner: owner[1] ?? owner[2], from, to });
  }
  return found.slice(0, 8);
}

/** @param {string} key @param {string} value @param {string} table The text of its table. @returns {Omit<Slider, "key" | "owner" | "from" | "to"> | null} */
function sliderOf(key, value, table) {
  const other = (/** @type {string} */ name) => table.match(new RegExp(`^[ \\t]*"?${name.replaceAll(".", "\\.")}"?[ \\t]*=[ \\t]*"?([^"\\n]*)`, "m"))?.[1] ?? "";
  const number = Number(value), quoted = (/** @type {string} */ text) => `"${text}"`;
  if (WORDS[key]) {
    const words = [...new Set([...WORDS[key], value])];
    return { steps: words.map((_, i) => i), at: words.indexOf(value), write: (step) => quoted(words[step]), say: (step) => words[step], isChoice: true };
  }
  switch (key) {
    case "nice":
      return Number.isInteger(number) ? { ...stepsWith(NICE, number), write: String, say: String } : null;
    case "slice": {
      const time = readTime(value);
      return time > 0 ? { ...stepsWith(SLICES, time), write: (step) => quoted(writeTime(step)), say: writeTime } : null;
    }
    case "limits.cpu":
      return number > 0 ? { ...stepsWith(LIMITS.map((part) => part / 100), number), write: String, say: (step) => `${step} CPUs` } : null;
    case "cpu.max": {
      const [quota, period] = value.split(" ").map(Number);
      if (!(quota > 0 && period > 0)) return null;
      return { ...stepsWith(LIMITS.map((part) => Math.round(part * period / 100)), quota), write: (step) => quoted(`${step} ${period}`),
        say: (step) => `${Number((step / period).toFixed(2))} CPUs` };
    }
    case "cpu.max.burst": {
      const quota = Number(other("cpu.max").split(" ")[0]);
      if (!(quota > 0 && number >= 0)) return null;
      return { ...stepsWith(BURSTS.map((part) => Math.round(part * quota / 100)), number), write: String, say: (step) => writeTime(step * MICROS) };
    }
    case "cpu.rt_runtime_us": {
      const period = Number(other("cpu.rt_period_us"));
      if (!(number > 0 && period > 0)) return null;
      return { ...stepsWith(BUDGETS.map((part) => Math.round(part * period / 100)), number), write: String, say: (step) => writeTime(step * MICROS) };
    }
    case "fair_server.period": {
      const time = readTime(value), least = readTime(other("fair_server.runtime"));
      return time > 0 ? { ...stepsWith(PERIODS.filter((step) => !(step < least)), time), write: (step) => quoted(writeTime(step)), say: writeTime } : null;
    }
    default: {
      const time = readTime(value), period = readTime(other(key.replace("runtime", "period")));
      if (!(time > 0 && period > 0)) return null;
      return { ...stepsWith(BUDGETS.map((part) => part * period / 100), time), write: (step) => quoted(writeTime(step)), say: (step) => `${writeTime(step)} of ${writeTime(period)}` };
    }
  }
}

/** The text with a value moved to a step. A burst above the new quota becomes that quota: the kernel refuses more. @param {string} text @param {Slider} slider @param {number} step */
function movedTo(text, slider, step) {
  const changed = text.slice(0, slider.from) + slider.write(step) + text.slice(slider.to);
  if (slider.key !== "cpu.max") return changed;
  const burst = slidersOf(changed).find((other) => other.key === "cpu.max.burst" && other.owner === slider.owner);
  return burst && burst.steps[burst.at] > step ? changed.slice(0, burst.from) + burst.write(step) + changed.slice(burst.to) : changed;
}
