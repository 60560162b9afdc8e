// The playground: a lesson, the page of its run beside it, its text below; the simulator is in a worker.

/**
 * @typedef {{ severity: string, says: string, help?: string | null, in?: string,
 *   places?: { line: number, column: number, length: number, text: string | null }[] }} Message
 * @typedef {{ ok: boolean, messages?: Message[], html?: string, goals?: { met: boolean, says: string }[], good?: boolean, records?: number, checks?: string, figures?: string }} Found
 * @typedef {{ name: string, title: string, text: string }} Example
 * @typedef {{ title: string, tells: string, asks: string, text: string, choices?: string[], right?: number, because?: string, policy?: string }} Lesson
 * @typedef {{ name: string, file: File } | { name: string, text: string, values: string, policy?: string }} Shown
 * @typedef {{ text: string, kernel: string, cpus: string, seed: string, duration: string, set: string, view?: string, policy?: string }} State
 */

/** @param {string} text @returns {Uint8Array} */
function fromBase64(text) {
  const letters = atob(text);
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
}

/** @param {Uint8Array} bytes @param {TransformStream} through @returns {Promise<Uint8Array>} */
async function piped(bytes, through) {
  return new Uint8Array(await new Response(new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)]).stream().pipeThrough(through)).arrayBuffer());
}

/** The simulator behind a worker; calls have answers, and are ended by ending the worker. */
class Simulator {
  /** @param {WebAssembly.Module} module @param {string} source */
  constructor(module, source) {
    this.module = module;
    this.address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.next = 0;
    /** @type {Map<number, { done: (found: any) => void, failed: (error: Error) => void, progress?: (part: number) => void }>} */
    this.open = new Map();
    this.begin();
  }

  begin() {
    this.worker = new Worker(this.address);
    this.worker.onmessage = ({ data }) => {
      const call = this.open.get(data.id);
      if (!call) return;
      if (data.part !== undefined) return call.progress?.(data.part);
      this.open.delete(data.id);
      if (data.failed) call.failed(new Error(data.failed));
      else call.done(data.found);
    };
    this.worker.postMessage({ kind: "start", module: this.module });
  }

  /** @param {object} request @param {(part: number) => void} [progress] @returns {Promise<any>} */
  call(request, progress) {
    const id = ++this.next;
    return new Promise((done, failed) => {
      this.open.set(id, { done, failed, progress });
      this.worker?.postMessage({ id, ...request });
    });
  }

  /** Ends every call. */
  cancel() {
    this.worker?.terminate();
    const calls = [...this.open.values()];
    this.open.clear();
    this.begin();
    for (const call of calls) call.failed(new Error("cancelled"));
  }
}

const editor = byId("text", HTMLTextAreaElement);
const controls = {
  kernel: byId("kernel", HTMLSelectElement), cpus: byId("cpus", HTMLInputElement), seed: byId("seed", HTMLInputElement),
  duration: byId("duration", HTMLInputElement), set: byId("set", HTMLInputElement),
};
const told = byId("status", HTMLElement), bar = byId("progress", HTMLProgressElement), messages = byId("messages", HTMLElement);
const lines = byId("lines", HTMLElement), results = byId("results", HTMLElement);
/** @type {Example[]} */
const gallery = JSON.parse(stored("data-gallery"));
/** @type {Lesson[]} */
const lessons = JSON.parse(stored("data-lessons"));
/** @type {Simulator} */
let simulator;
/** @type {string[]} */
let words = [];
/** The grammar of scenarios, as JSON schema. @type {any} */
let grammar = {};
let lesson = -1;
/** The name of the scenario's file, if it was opened. */
let opened = "";
/** What the timeline of the shown page shows, as its address would keep it. */
let view = "";
/** Where the trace of the shown page comes from. @type {Shown | null} */
let shown = null;

/** The values of the controls, as the simulator wants them. */
function values() {
  /** @type {Record<string, unknown>} */
  const all = {};
  for (const key of /** @type {const} */ (["kernel", "cpus", "duration"])) if (controls[key].value) all[key] = controls[key].value.trim();
  if (controls.seed.value) all.seed = Number(controls.seed.value);
  const pairs = controls.set.value.split(/\s*;\s*/).filter(Boolean);
  all.set = pairs.map((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [pair, ""] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  }).concat(ownLoaded.checked ? [["policy", "own"]] : []);
  return JSON.stringify(all);
}

/** @param {Message[]} found */
function showMessages(found) {
  messages.replaceChildren(...found.map((message) => {
    const item = document.createElement("li");
    item.className = message.severity;
    const place = message.places?.[0], area = message.in === "policy" ? ownText : editor;
    const head = document.createElement(place ? "button" : "p");
    head.textContent = `${message.severity}${area === editor ? "" : " of your scheduler"}${place ? ` at ${place.line}:${place.column}` : ""}: ${message.says}`;
    item.append(head);
    if (place) {
      head.setAttribute("type", "button");
      head.addEventListener("click", () => select(area, place.line, place.column, place.length));
      const code = document.createElement("pre");
      const line = area.value.split("\n")[place.line - 1] ?? "";
      code.textContent = `${String(place.line).padStart(4)} | ${line}\n     | ${" ".repeat(place.column - 1)}${"^".repeat(Math.max(1, place.length))}${place.text ? " " + place.text : ""}`;
      item.append(code);
    }
    if (message.help) {
      const help = document.createElement("p");
      help.className = "help";
      help.textContent = "help: " + message.help;
      item.append(help);
    }
    return item;
  }));
  const wrong = new Map(found.filter((message) => message.in !== "policy").flatMap((message) => (message.places ?? []).slice(0, 1).map((place) => [place.line, message.severity])));
  lines.replaceChildren(...editor.value.split("\n").map((_, i) => {
    const number = document.createElement("span");
    number.textContent = String(i + 1);
    const severity = wrong.get(i + 1);
    if (severity) number.className = severity;
    return number;
  }));
  const errors = found.filter((message) => message.severity === "error").length;
  editor.setAttribute("aria-invalid", String(errors > 0));
  return errors;
}

/** @param {HTMLTextAreaElement} area @param {number} line @param {number} column @param {number} length */
function select(area, line, column, length) {
  const before = area.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  if (area === ownText) ownHome.open = true;
  area.focus();
  area.setSelectionRange(before + column - 1, before + column - 1 + Math.max(length, 1));
}

let checking = 0;
function checkSoon() {
  clearTimeout(checking);
  lines.style.transform = `translateY(${-editor.scrollTop}px)`;
  showSliders();
  checking = setTimeout(async () => {
    /** @type {Found | null} */
    const found = await simulator.call({ kind: "check", text: editor.value, values: values(), ...ownPolicy() }).catch(() => null);
    // A cancelled run ends this call too; the next change asks again.
    if (!found) return;
    const errors = showMessages(await placed(withRaised(editor.value, found.messages ?? [])));
    // What a run said stays until something is wrong.
    if (errors || /^\d+ mistakes?$/.test(told.textContent ?? "") || told.textContent === "loading the simulator") {
      told.textContent = errors ? `${errors} ${errors === 1 ? "mistake" : "mistakes"}` : "";
    }
  }, 200);
}

/** Shows a page; beside the pinned one if there is one. @param {string} html @param {string} label @param {Shown} source */
function showPage(html, label, source) {
  shown = source;
  byId("perfetto", HTMLButtonElement).disabled = false;
  results.querySelector("iframe:not(.pinned)")?.remove();
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = label;
  frame.srcdoc = html;
  results.append(frame);
  byId("pin", HTMLButtonElement).disabled = false;
  byId("save", HTMLButtonElement).disabled = false;
}

function title() {
  const chosen = byId("example", HTMLSelectElement).value || opened;
  const name = lesson >= 0 ? lessons[lesson].title : chosen || "scenario";
  const said = Object.entries(controls).filter(([, control]) => control.value).map(([key, control]) => key === "set" ? control.value : `${key} ${control.value}`);
  if (ownLoaded.checked) said.push(`scheduled by ${ownName()}`);
  return said.length ? `${name}, ${said.join(", ")}` : name;
}

/** Whether a run is in progress, and whether another is wanted behind it. */
let running = false, again = false;

/** What is said of a link that was made during the run in progress: its end would write over it. */
let linked = "";

/** Runs what is written; ends the run in progress. */
async function run() {
  again = true;
  if (running) return simulator.cancel();
  running = true;
  linked = "";
  byId("run", HTMLButtonElement).disabled = true;
  byId("cancel", HTMLButtonElement).disabled = false;
  bar.classList.add("moves");
  try {
    while (again) {
      again = false;
      await runOnce();
    }
  } finally {
    running = false;
    byId("run", HTMLButtonElement).disabled = false;
    byId("cancel", HTMLButtonElement).disabled = true;
    bar.classList.remove("moves");
  }
}

let soon = 0;
/** Runs once nothing is moved for a moment. @param {number} [wait] */
function runSoon(wait = 120) {
  clearTimeout(soon);
  soon = setTimeout(run, wait);
}

async function runOnce() {
  // It moves by itself until the first part is done, and while the page is made.
  bar.removeAttribute("value");
  told.textContent = "running";
  const begin = performance.now();
  const asked = { text: editor.value, values: values(), ...ownPolicy() };
  try {
    /** @type {Found} */
    const found = await simulator.call({ kind: "run", ...asked, title: title() }, (part) => { bar.value = part; });
    keepRaised(asked.text, found.messages ?? []);
    if (!found.ok) {
      const errors = showMessages(await placed(found.messages ?? []));
      document.getElementById("verdict")?.replaceChildren();
      told.textContent = `not run: ${errors} ${errors === 1 ? "mistake" : "mistakes"}`;
      return;
    }
    showPage(found.html ?? "", title(), { name: lesson < 0 && (byId("example", HTMLSelectElement).value || opened) || "scenario", ...asked });
    const missed = (found.goals ?? []).filter((goal) => !goal.met).length;
    const goals = found.goals?.length ? (missed ? `, ${missed} of ${found.goals.length} goals missed (one seed)` : `, all ${found.goals.length} goals met (one seed)`) : "";
    const file = opened ? `${opened} is open; nothing was sent; ` : "";
    told.textContent = `${file}${found.records?.toLocaleString("en")} events in ${Math.round(performance.now() - begin)} ms${goals}${linked && `; ${linked}`}`;
    answerByRun(found);
  } catch (error) {
    told.textContent = error instanceof Error ? error.message : String(error);
  }
}

/** The steps of each slider or choice. @type {WeakMap<HTMLInputElement | HTMLSelectElement, number[]>} */
const stepsOf = new WeakMap();

/** Shows the sliders of what is written. The one that is being moved stays as it is. */
function showSliders() {
  const home = byId("moved", HTMLElement), all = slidersOf(editor.value);
  const names = all.map((one) => one.owner === "settings" ? one.key : `${one.key} of ${one.owner}`);
  const inputs = [...home.querySelectorAll("input, select")];
  if (inputs.length !== all.length || inputs.some((input, i) => input.getAttribute("name") !== names[i])) {
    home.replaceChildren(...names.map((name, i) => newSlider(name, i, !!all[i].isChoice)));
  }
  home.querySelectorAll("label").forEach((label, i) => {
    const input = label.querySelector("input") ?? label.querySelector("select"), said = label.querySelector("output"), slider = all[i];
    if (!input || !said || document.activeElement === input && stepsOf.has(input)) return;
    stepsOf.set(input, slider.steps);
    if (input instanceof HTMLSelectElement) input.replaceChildren(...slider.steps.map((step, at) => new Option(slider.say(step), String(at))));
    else input.max = String(slider.steps.length - 1);
    input.value = String(slider.at);
    sayStep(input, said, slider.say(slider.steps[slider.at]));
  });
}

/** @param {string} named @param {number} i @param {boolean} isChoice */
function newSlider(named, i, isChoice) {
  const label = document.createElement("label"), name = document.createElement("span"), said = document.createElement("output");
  const input = isChoice ? document.createElement("select") : document.createElement("input");
  name.textContent = input.name = named;
  if (input instanceof HTMLInputElement) input.type = "range";
  label.className = isChoice ? "choice" : "";
  input.addEventListener("input", () => {
    // Moving one changes the places of the others: each is found by its number.
    const slider = slidersOf(editor.value)[i], step = stepsOf.get(input)?.[Number(input.value)];
    if (!slider || step === undefined) return;
    editor.value = movedTo(editor.value, slider, step);
    sayStep(input, said, slider.say(step));
    checkSoon();
    runSoon();
  });
  label.append(name, said, input);
  return label;
}

/** @param {HTMLInputElement | HTMLSelectElement} input @param {HTMLOutputElement} output @param {string} text */
function sayStep(input, output, text) {
  output.textContent = text;
  if (input instanceof HTMLInputElement) input.setAttribute("aria-valuetext", text);
}

function pin() {
  const frame = results.querySelector("iframe:not(.pinned)");
  results.querySelector("iframe.pinned")?.remove();
  if (frame) frame.className = "pinned";
  byId("unpin", HTMLButtonElement).disabled = !frame;
  results.classList.toggle("two", !!frame);
  told.textContent = "kept on the left: change something and run again";
}

function unpin() {
  results.querySelector("iframe.pinned")?.remove();
  results.classList.remove("two");
  byId("unpin", HTMLButtonElement).disabled = true;
}

/** Removes what is shown: lesson, example, pages. */
function replace() {
  showLesson(-1);
  byId("lessons", HTMLSelectElement).value = "";
  byId("example", HTMLSelectElement).value = "";
  unpin();
  results.replaceChildren();
  document.body.classList.remove("traced");
  for (const id of ["pin", "save", "perfetto"]) byId(id, HTMLButtonElement).disabled = true;
}

/** Loads a scenario, or reports a trace. @param {File} file */
async function openFile(file) {
  if (!/\.(toml|json)$/.test(file.name)) return openTrace(file);
  replace();
  load(await file.text());
  opened = file.name;
  run();
}

/** Saves a file where the browser puts downloads. @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** A name without the ends that say what a file is. @param {string} name */
const baseName = (name) => name.replace(/(\.(toml|json|zlt|txt|data|gz|xz|zst|pftrace))+(?=$|, )/, "");

/** Reports and checks a trace. @param {File} file */
async function openTrace(file) {
  if (running) {
    again = false;
    simulator.cancel();
  }
  told.textContent = `reading ${file.name}`;
  byId("cancel", HTMLButtonElement).disabled = false;
  try {
    /** @type {Found} */
    const found = await simulator.call({ kind: "report", name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) });
    if (found.ok) {
      // The trace is all that the page shows then: it has no scenario, and what was there was of another one.
      replace();
      load("");
      clearTimeout(checking);
      showMessages([]);
      document.body.classList.add("traced");
      keepAddress("#");
      showPage(found.html ?? "", file.name, { name: file.name, file });
    } else {
      showMessages(found.messages ?? []);
    }
    told.textContent = found.ok ? `${file.name}: ${found.records?.toLocaleString("en")} events; ${found.checks}; nothing was sent` : `${file.name} cannot be read`;
  } catch (error) {
    told.textContent = `${file.name}: ${error instanceof Error ? error.message : error}`;
  } finally {
    byId("cancel", HTMLButtonElement).disabled = true;
  }
}

const PERFETTO = "https://ui.perfetto.dev";

/**
 * Gives a trace to Perfetto's page by its protocol: PING until it says PONG, then the trace. Whether that page took it.
 * @param {Window} other @param {{ buffer: ArrayBufferLike, title: string, fileName: string }} perfetto
 * @returns {Promise<boolean>}
 */
function handOver(other, perfetto) {
  const begin = performance.now();
  return new Promise((done) => {
    const end = (/** @type {boolean} */ taken) => {
      clearInterval(timer);
      removeEventListener("message", hear);
      done(taken);
    };
    const hear = (/** @type {MessageEvent} */ event) => {
      if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
      other.postMessage({ perfetto }, PERFETTO);
      end(true);
    };
    addEventListener("message", hear);
    const timer = setInterval(() => {
      if (other.closed || performance.now() - begin > 30000) end(false);
      // It says nothing, so that it may reach the empty page which is there before Perfetto's.
      else other.postMessage("PING", "*");
    }, 50);
  });
}

/** Opens the shown trace in Perfetto; where that cannot be, its file is saved. */
async function openInPerfetto() {
  if (!shown) return;
  const button = byId("perfetto", HTMLButtonElement), source = shown;
  // Browsers allow a new tab only at once after a click.
  const other = open(PERFETTO, "_blank");
  button.disabled = true;
  told.textContent = "writing the trace for Perfetto";
  try {
    const request = "file" in source ? { bytes: new Uint8Array(await source.file.arrayBuffer()) } : { text: source.text, values: source.values, policy: source.policy };
    /** @type {Uint8Array<ArrayBuffer>} */
    const trace = await simulator.call({ kind: "perfetto", ...request });
    const fileName = baseName(source.name) + ".pftrace";
    told.textContent = "waiting for Perfetto's page";
    if (other && await handOver(other, { buffer: trace.buffer, title: `${source.name}, zerolag`, fileName })) {
      told.textContent = `${source.name} is open in Perfetto, within this browser`;
      return;
    }
    save(new Blob([trace]), fileName);
    const why = other ? "Perfetto's page did not answer" : "the browser blocked the new tab";
    told.textContent = `${why}: ${fileName} is saved instead; open it at ui.perfetto.dev`;
  } catch (error) {
    other?.close();
    told.textContent = error instanceof Error ? error.message : String(error);
  } finally {
    button.disabled = false;
  }
}

/** @returns {State} */
function state() {
  return { text: editor.value, kernel: controls.kernel.value, cpus: controls.cpus.value, seed: controls.seed.value, duration: controls.duration.value, set: controls.set.value, view, ...ownPolicy() };
}

async function share() {
  const packed = await piped(new TextEncoder().encode(JSON.stringify(state())), new CompressionStream("deflate-raw"));
  let letters = "";
  packed.forEach((byte) => { letters += String.fromCharCode(byte); });
  const link = location.href.split("#")[0] + "#s=" + btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  history.replaceState(null, "", link);
  let where = `copied (${link.length} characters)`;
  try {
    await navigator.clipboard.writeText(link);
  } catch {
    where = "in the address bar";
  }
  linked = `the link is ${where}; the scenario is in it, nothing was sent`;
  told.textContent = running ? `running; ${linked}` : linked;
}

/** Opens what the address names, and runs it: a scenario, a lesson, an example. */
async function openLink() {
  const number = location.hash.match(/^#lesson=(\d+)$/)?.[1];
  if (number && lessons[Number(number) - 1]) return chooseLesson(Number(number) - 1), true;
  const name = location.hash.match(/^#example=([\w.-]+)$/)?.[1];
  if (name && gallery.some((one) => one.name === name)) return chooseExample(name), true;
  const coded = location.hash.match(/^#s=([\w-]+)$/)?.[1];
  if (!coded) return false;
  try {
    const bytes = await piped(fromBase64(coded.replaceAll("-", "+").replaceAll("_", "/")), new DecompressionStream("deflate-raw"));
    /** @type {Partial<State>} */
    const found = JSON.parse(new TextDecoder().decode(bytes));
    replace();
    editor.value = String(found.text ?? "");
    for (const [key, control] of Object.entries(controls)) control.value = String(found[/** @type {keyof State} */ (key)] ?? "");
    showOwn(found.policy === undefined ? undefined : String(found.policy));
    view = /^#view:[\w=,@+-]+$/.test(found.view ?? "") ? String(found.view) : "";
    told.textContent = "opened from the link";
    run();
    return true;
  } catch {
    told.textContent = "the link is damaged: its scenario cannot be read";
    return true;
  }
}

/** Keeps what is chosen in the address. @param {string} hash */
function keepAddress(hash) {
  try {
    history.replaceState(null, "", hash);
  } catch {
    // Some viewers do not let a page change its address.
  }
}

/** Shows a lesson and runs it. @param {number} index */
function chooseLesson(index) {
  byId("lessons", HTMLSelectElement).value = index < 0 ? "" : String(index);
  byId("example", HTMLSelectElement).value = "";
  document.body.classList.remove("traced");
  showLesson(index);
  if (index < 0) return;
  keepAddress(`#lesson=${index + 1}`);
  run();
}

/** Shows an example and runs it. @param {string} name */
function chooseExample(name) {
  const one = gallery.find((other) => other.name === name);
  if (!one) return;
  showLesson(-1);
  byId("lessons", HTMLSelectElement).value = "";
  byId("example", HTMLSelectElement).value = name;
  document.body.classList.remove("traced");
  load(one.text);
  keepAddress(`#example=${name}`);
  run();
}

/** @param {string} text */
function load(text) {
  view = opened = "";
  editor.value = text;
  for (const control of Object.values(controls)) control.value = "";
  showOwn();
  checkSoon();
}

/** A text whose names are in backticks. @param {string} text @returns {(Node | string)[]} */
function coded(text) {
  return text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

/** @param {number} index */
function showLesson(index) {
  lesson = index;
  const home = byId("lesson", HTMLElement);
  home.hidden = index < 0;
  if (index < 0) return;
  const one = lessons[index];
  load(one.text);
  if (one.policy !== undefined) showOwn(one.policy);
  const say = (/** @type {string} */ kind, /** @type {string} */ text, name = "") => {
    const element = document.createElement(kind);
    element.append(...coded(text));
    element.className = name;
    return element;
  };
  const verdict = say("p", "", "verdict");
  verdict.id = "verdict";
  verdict.setAttribute("role", "status");
  /** @type {HTMLElement[]} */
  const choices = (one.choices ?? []).map((choice, i) => {
    const button = say("button", choice);
    button.setAttribute("type", "button");
    button.addEventListener("click", () => judge(i === one.right, one.because ?? ""));
    return button;
  });
  const next = say("button", index + 1 < lessons.length ? "next lesson" : "first lesson");
  next.addEventListener("click", () => chooseLesson((index + 1) % lessons.length));
  home.replaceChildren(say("h2", `${index + 1}. ${one.title}`), say("p", one.tells), say("p", one.asks, "asks"), ...choices, verdict, next);
}

/** @param {boolean} right @param {string} because */
function judge(right, because) {
  const verdict = byId("verdict", HTMLElement);
  verdict.replaceChildren(...coded(right ? `Right. ${because}` : "Not so. Look at the timeline, and step through the decisions."));
  verdict.className = right ? "verdict right" : "verdict wrong";
}

/** A lesson without choices asks for goals that the run must meet. @param {Found} found */
function answerByRun(found) {
  if (lesson < 0 || lessons[lesson].choices) return;
  const missed = (found.goals ?? []).find((goal) => !goal.met);
  const verdict = byId("verdict", HTMLElement);
  verdict.replaceChildren(...coded(missed ? `Not yet: ${missed.says}` : `Right. ${lessons[lesson].because ?? ""}`));
  verdict.className = missed ? "verdict wrong" : "verdict right";
}

/** The parts of the grammar that a part stands for: its alternatives, without references. @param {any} schema @returns {any[]} */
function forms(schema) {
  if (!schema || typeof schema !== "object") return [];
  if (schema.$ref) return forms(grammar.$defs?.[schema.$ref.split("/").pop()]);
  return [schema, ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])].flatMap(forms)];
}

/** The parts of the grammar below a key, or in a list. @param {any[]} parts @param {string} key */
function below(parts, key) {
  return parts.flatMap((part) => part.properties?.[key] ? forms(part.properties[key])
    : typeof part.additionalProperties === "object" ? forms(part.additionalProperties) : []);
}

/** The words that can stand behind a text of a scenario: keys of its table, or values of its key. @param {string} before @returns {string[]} */
function wordsAt(before) {
  const header = [...before.matchAll(/^[ \t]*\[\[?([^\]\n]*)\]/gm)].pop();
  const path = header ? [...header[1].matchAll(/"([^"]*)"|([^.\s"]+)/g)].map((part) => part[1] ?? part[2]) : [];
  let parts = forms(grammar);
  for (const key of path) parts = below(parts, key).flatMap((part) => part.type === "array" ? forms(part.items) : [part]);
  const body = before.slice(header ? (header.index ?? 0) + header[0].length : 0).replace(/#.*$/gm, "");
  const line = body.slice(body.lastIndexOf("\n") + 1);
  const value = line.match(/^\s*([\w.-]+)\s*=(.*)$/);
  const inside = before.match(/^[ \t]*\[\[?[^\]\n]*$/m) && !line.includes("]");
  if (inside && /^\s*\[/.test(line)) return Object.keys(grammar.properties ?? {});
  if (!value) return parts.flatMap((part) => Object.keys(part.properties ?? {}));
  parts = below(parts, value[1]);
  // Within braces and brackets: the keys of each `{` that is open.
  const open = [];
  for (const token of value[2].matchAll(/[[{}\]]|([\w.-]+)\s*=/g)) {
    if (token[0] === "{" || token[0] === "[") open.push("");
    else if (token[0] === "}" || token[0] === "]") open.pop();
    else if (open.length) open[open.length - 1] = token[1];
  }
  let isKey = false;
  for (const key of open) {
    parts = parts.flatMap((part) => part.type === "array" || part.items ? forms(part.items) : [part]);
    isKey = true;
    if (key && /=[^,{}]*$/.test(value[2])) {
      parts = below(parts, key);
      isKey = false;
    }
  }
  const last = value[2].match(/([{,=])\s*"?[\w.-]*$/)?.[1];
  if (isKey || last === "{" || last === ",") return parts.flatMap((part) => Object.keys(part.properties ?? {}));
  return parts.flatMap((part) => [...(part.enum ?? []), ...(part.const ? [part.const] : [])]).filter((word) => typeof word === "string");
}

/** The words that begin with the word before the caret: those of its place, else any of the grammar. */
function complete() {
  const list = byId("words", HTMLElement);
  const before = editor.value.slice(0, editor.selectionStart);
  const start = before.match(/[\w.-]*$/)?.[0] ?? "";
  const fits = (/** @type {string} */ word) => word.startsWith(start) && word !== start;
  const here = [...new Set(wordsAt(before))].filter(fits).sort();
  const found = (here.length ? here : words.filter(fits)).slice(0, 12);
  list.hidden = !found.length;
  list.replaceChildren(...found.map((word) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = word;
    button.addEventListener("click", () => {
      const at = editor.selectionStart;
      editor.setRangeText(word, at - start.length, at, "end");
      list.hidden = true;
      editor.focus();
      checkSoon();
    });
    return button;
  }));
  list.querySelector("button")?.focus();
}

/** Every key and word of a grammar. @param {any} schema @param {Set<string>} into */
function collect(schema, into) {
  if (!schema || typeof schema !== "object") return into;
  for (const key of Object.keys(schema.properties ?? {})) into.add(key);
  for (const word of schema.enum ?? []) if (typeof word === "string") into.add(word);
  for (const value of Object.values(schema)) if (typeof value === "object") collect(value, into);
  return into;
}

async function begin() {
  const engine = await piped(fromBase64(stored("data-engine")), new DecompressionStream("deflate-raw"));
  const module = await WebAssembly.compile(/** @type {Uint8Array<ArrayBuffer>} */ (engine));
  simulator = new Simulator(module, stored("data-glue") + "\n" + stored("data-worker"));
  const about = await simulator.call({ kind: "about" });
  byId("version", HTMLElement).textContent = about.version;
  controls.kernel.append(...about.kernels.map((/** @type {string} */ kernel) => new Option(kernel, kernel)));
  controls.kernel.options[0].text = `the file's, else ${about.default}`;
  byId("settings", HTMLDataListElement).append(...about.settings.map((/** @type {string} */ key) => new Option(`${key}=`)));
  grammar = about.schema;
  words = [...collect(grammar, new Set())].sort();
  const example = byId("example", HTMLSelectElement);
  example.append(new Option("none", ""), ...gallery.map((one) => new Option(`${one.name}: ${one.title}`, one.name)));
  example.addEventListener("change", () => chooseExample(example.value));
  const choice = byId("lessons", HTMLSelectElement);
  choice.append(...lessons.map((one, i) => new Option(`${i + 1}. ${one.title}`, String(i))));
  choice.addEventListener("change", () => chooseLesson(choice.value === "" ? -1 : Number(choice.value)));
  editor.addEventListener("input", checkSoon);
  editor.addEventListener("scroll", () => { lines.style.transform = `translateY(${-editor.scrollTop}px)`; });
  for (const control of Object.values(controls)) {
    control.addEventListener("input", checkSoon);
    control.addEventListener("keydown", (event) => { if (event instanceof KeyboardEvent && event.key === "Enter") run(); });
  }
  controls.kernel.addEventListener("change", () => runSoon());
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    else if (event.key === " " && event.ctrlKey) complete();
    else return;
    event.preventDefault();
  });
  byId("words", HTMLElement).addEventListener("keydown", (event) => {
    const button = /** @type {HTMLElement | null} */ (document.activeElement);
    const to = event.key === "ArrowDown" ? button?.nextElementSibling : event.key === "ArrowUp" ? button?.previousElementSibling : null;
    if (event.key === "Escape") {
      byId("words", HTMLElement).hidden = true;
      editor.focus();
    }
    if (to instanceof HTMLElement) {
      event.preventDefault();
      to.focus();
    }
  });
  byId("run", HTMLButtonElement).addEventListener("click", run);
  byId("cancel", HTMLButtonElement).addEventListener("click", () => {
    again = false;
    simulator.cancel();
  });
  byId("pin", HTMLButtonElement).addEventListener("click", pin);
  byId("unpin", HTMLButtonElement).addEventListener("click", unpin);
  byId("share", HTMLButtonElement).addEventListener("click", share);
  byId("perfetto", HTMLButtonElement).addEventListener("click", openInPerfetto);
  addEventListener("message", ({ source, data }) => {
    const frame = results.querySelector("iframe:not(.pinned)");
    if (!(frame instanceof HTMLIFrameElement) || source !== frame.contentWindow) return;
    if (data?.zerolag === "view") view = String(data.view);
    // A link keeps the view of the run that it was made with, and a run that of the run before it.
    if (data?.zerolag === "ready" && view) frame.contentWindow?.postMessage({ view }, "*");
  });
  addEventListener("hashchange", async () => { if (await openLink()) checkSoon(); });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const file = event.dataTransfer?.files[0];
    if (file) openFile(file);
  });
  const chosen = byId("file", HTMLInputElement);
  byId("open", HTMLButtonElement).addEventListener("click", () => chosen.click());
  chosen.addEventListener("change", () => {
    const file = chosen.files?.[0];
    if (file) openFile(file);
    // The same file can be opened again.
    chosen.value = "";
  });
  byId("save", HTMLButtonElement).addEventListener("click", () => {
    const frame = results.querySelector("iframe:not(.pinned)");
    if (!(frame instanceof HTMLIFrameElement)) return;
    const name = `${baseName(frame.title)}.html`;
    save(new Blob([frame.srcdoc], { type: "text/html" }), name);
    told.textContent = `${name} is saved: it needs no network and no playground`;
  });
  beginOwn(run, pin, checkSoon);
  byId("run", HTMLButtonElement).disabled = false;
  if (!await openLink()) {
    chooseLesson(0);
    // The address of a visitor stays as it came.
    keepAddress(location.href.split("#")[0]);
  }
  checkSoon();
}

begin().then(() => document.documentElement.classList.add("ready"), (error) => {
  told.textContent = `The simulator cannot be started: ${error instanceof Error ? error.message : error}. This needs a browser of 2023 or later.`;
});
