// The playground in a real browser, and its simulator against the program. Skipped where `./x playground` has not built the page.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";
import { chromium } from "playwright-core";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const built = join(root, "target/playground");
const file = join(built, "index.html");
const skip = existsSync(file) ? false : "./x playground has not been run";

let browser;
before(async () => {
  if (!skip) browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function open(options = {}, hash = "") {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("console", (message) => assert.notEqual(message.type(), "error", message.text()));
  page.on("request", (request) => assert.match(request.url(), /^(file|blob|data):|^about:/, "nothing is sent"));
  await page.goto("file://" + file + hash);
  await page.waitForSelector("html.ready", { timeout: 60000 });
  return page;
}

/** Waits for the run that the page has begun by itself, and returns the frame of its report. */
async function ran(page) {
  await page.waitForSelector("#run:not([disabled])", { timeout: 120000 });
  await page.waitForSelector("iframe:not(.pinned)", { timeout: 120000 });
  const frame = page.frameLocator("iframe:not(.pinned)");
  await frame.locator("html.ready").waitFor({ timeout: 60000 });
  return frame;
}

/** Runs the scenario and returns the frame of its report. */
async function run(page) {
  await page.waitForSelector("#run:not([disabled])", { timeout: 120000 });
  await page.evaluate(() => document.querySelector("iframe:not(.pinned)")?.remove());
  await page.click("#run");
  return ran(page);
}

/** The reports that the page has shown so far are marked: the next one is another. */
const markShown = (page) => page.evaluate(() => document.querySelector("iframe:not(.pinned)")?.setAttribute("data-old", ""));
const nextShown = (page) => page.waitForSelector("iframe:not(.pinned):not([data-old])", { timeout: 120000 });

const lessons = JSON.parse(readFileSync(join(root, "crates/wasm/web/lessons.json"), "utf8"));
/** A text of a lesson as the page shows it. */
const shownText = (text) => text.replaceAll("`", "");

test("the page opens with a finished run of the first lesson: its timeline, and the editor below", { skip }, async () => {
  for (const viewport of [{ width: 1400, height: 900 }, { width: 390, height: 844 }]) {
    const page = await open({ viewport });
    const frame = await ran(page);
    assert.match(await page.locator("#lesson h2").innerText(), /^1\. /);
    assert.match(await page.locator("#status").innerText(), /events in \d+ ms/);
    assert.equal(new URL(page.url()).hash, "", "the address is the visitor's");
    const first = await frame.locator("main > section").first().getAttribute("id");
    assert.equal(first, "timeline", "what was done comes before what it amounts to");
    const [result, editor] = await Promise.all(["iframe", "#text"].map((part) => page.locator(part).boundingBox()));
    assert.ok(result.y + result.height <= editor.y, "the result is above the editor");
    await page.context().close();
  }
});

for (const [i, lesson] of lessons.entries()) {
  test(`lesson ${i + 1} runs by its link, and its answer is judged: ${lesson.title}`, { skip }, async () => {
    const page = await open({}, `#lesson=${i + 1}`);
    const frame = await ran(page);
    assert.equal(await page.locator("#lesson h2").innerText(), `${i + 1}. ${lesson.title}`);
    assert.match(await page.locator("#status").innerText(), /events in \d+ ms/);
    await frame.locator("#tl canvas").first().waitFor();
    if (lesson.choices) {
      const [wrong] = lesson.choices.filter((_, at) => at !== lesson.right);
      await page.locator("#lesson button", { hasText: shownText(wrong) }).click();
      await page.locator("#verdict", { hasText: /Not so/ }).waitFor();
      await page.locator("#lesson button", { hasText: shownText(lesson.choices[lesson.right]) }).click();
    } else {
      await page.locator("#verdict", { hasText: /Not yet/ }).waitFor();
      const given = lesson.policy ?? lesson.text;
      const solved = lesson.solution.reduce((text, [from, to]) => text.replace(from, to), given);
      assert.notEqual(solved, given);
      await page.fill(lesson.policy ? "#policy" : "#text", solved);
      await run(page);
    }
    await page.locator("#verdict", { hasText: /^Right\./ }).waitFor();
    assert.ok((await page.locator("#verdict").innerText()).includes(shownText(lesson.because)));
    await page.context().close();
  });
}

test("a slider changes the text, and what it says runs at once", { skip }, async () => {
  const page = await open({}, "#lesson=2");
  await ran(page);
  const names = await page.locator("#moved label span").allInnerTexts();
  assert.deepEqual(names, ["nice of other"], "only what the scenario has");
  await markShown(page);
  await page.focus("#moved input");
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowRight");
  await nextShown(page);
  await page.locator("#verdict", { hasText: /^Right\./ }).waitFor({ timeout: 60000 });
  assert.match(await page.inputValue("#text"), /nice = 5/);
  assert.equal(await page.getAttribute("#moved input", "aria-valuetext"), "5");
  // A choice runs at once, too; and the kernel.
  await page.goto("file://" + file + "#lesson=15");
  await page.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("15."));
  await ran(page);
  await page.selectOption("#moved select", { label: "edf" });
  await page.locator("#verdict", { hasText: /^Right\./ }).waitFor({ timeout: 60000 });
  await page.goto("file://" + file + "#lesson=4");
  await page.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("4."));
  await ran(page);
  await markShown(page);
  await page.selectOption("#kernel", "5.4");
  await nextShown(page);
  assert.match(await page.getAttribute("iframe", "title"), /kernel 5\.4/);
  await page.context().close();
});

test("a limit below the burst takes the burst with it", { skip }, async () => {
  const page = await open({}, "#lesson=11");
  await ran(page);
  await page.fill("#text", (await page.inputValue("#text")).replace('"cpu.max.burst" = 0', '"cpu.max.burst" = 200000'));
  await page.locator("#moved label", { hasText: "cpu.max of /web" }).locator("input").focus();
  await markShown(page);
  await page.keyboard.press("Home");
  await nextShown(page);
  const text = await page.inputValue("#text");
  assert.match(text, /"cpu.max" = "5000 100000"/);
  assert.match(text, /"cpu.max.burst" = 5000\n/);
  assert.equal(await page.locator(".messages .error").count(), 0);
  await page.context().close();
});

test("decisions are stepped through and played, each with its reason", { skip }, async () => {
  const page = await open({}, "#lesson=3");
  const frame = await ran(page);
  const says = frame.locator(".decided");
  await frame.locator("button", { hasText: "step ›" }).click();
  assert.match(await says.innerText(), /^cpu 0 at [\d.]+ s, decision 1: picked `(busy|short)-0`/);
  // `short` is picked when it wakes up; the reason names the one that it comes before.
  let seen = "";
  for (let i = 0; i < 12 && !/picked `short-0`: /.test(seen); i++) {
    await frame.locator("button", { hasText: "step ›" }).click();
    seen = await says.innerText();
  }
  assert.match(seen, /picked `short-0`: (eligible|the only eligible one) \(lag [\d.]+(us|ms|ns)\)/);
  const before = await says.innerText();
  await frame.locator("button", { hasText: "‹ step" }).click();
  assert.notEqual(await says.innerText(), before);
  await frame.locator("button", { hasText: "play" }).click();
  await page.waitForFunction(() => true);
  await says.filter({ hasText: "decision" }).waitFor();
  const [a, b] = [await says.innerText(), await new Promise((done) => setTimeout(async () => done(await says.innerText()), 2600))];
  assert.notEqual(a, b, "it plays");
  await frame.locator("button", { hasText: "pause" }).click();
  const stopped = await says.innerText();
  await new Promise((done) => setTimeout(done, 1600));
  assert.equal(await says.innerText(), stopped, "it pauses");
  await page.context().close();
});

test("the scheduler's own numbers are rows below the tasks, of every class", { skip }, async () => {
  const rows = { 1: ["lag cpu 0", "virtual time cpu 0"], 5: ["budget cpu 0", "to deadline cpu 0"], 7: ["RT tasks"], 9: ["budget cpu 0"], 10: ["quota /web"] };
  for (const [number, expected] of Object.entries(rows)) {
    const page = await open({}, `#lesson=${number}`);
    await ran(page);
    const labels = await page.frames()[1].evaluate(() => window.zerolag.timeline.run.rows.filter((row) => row.kind === "state").map((row) => row.label));
    for (const label of expected) assert.ok(labels.includes(label), `lesson ${number} has ${labels}`);
    await page.context().close();
  }
  const page = await open({}, "#lesson=4");
  await ran(page);
  await page.selectOption("#kernel", "6.1");
  await page.waitForSelector("iframe[title*='6.1']", { timeout: 60000 });
  await page.context().close();
});

test("the progress of a long run moves", { skip }, async () => {
  const page = await open({}, "#example=noisy-neighbour.toml");
  await ran(page);
  await page.fill("#duration", "80s");
  await page.evaluate(() => {
    window.seen = [];
    const look = () => { window.moves ||= document.querySelector("#progress").matches(".moves:indeterminate"); window.seen.push(document.querySelector("#progress").value); requestAnimationFrame(look); };
    look();
  });
  await run(page);
  const seen = await page.evaluate(() => [...new Set(window.seen)].filter((part) => part > 0 && part < 1));
  assert.equal(await page.evaluate(() => window.moves), true, "it moves before the first part is done");
  assert.ok(seen.length >= 2 && seen.every((part, i) => i === 0 || part > seen[i - 1]), seen.join());
  await page.context().close();
});

test("the simulator gives the bytes of the program, for every example: trace and figures", { skip }, () => {
  const context = vm.createContext({ TextEncoder, TextDecoder, WebAssembly, console, performance, Uint8Array, ArrayBuffer, DataView, Object });
  const glue = readFileSync(join(built, "engine/zerolag_wasm.js"), "utf8");
  const engine = vm.runInContext(glue + "\nwasm_bindgen", context);
  engine.initSync({ module: new WebAssembly.Module(new Uint8Array(readFileSync(join(built, "engine/zerolag_wasm_bg.wasm")))) });
  let compared = 0;
  for (const name of readdirSync(join(root, "examples")).filter((name) => /\.(toml|json)$/.test(name))) {
    const path = join(root, "examples", name), trace = join(work, "t.zlt");
    let json;
    try {
      json = execFileSync(program, ["run", "-q", path, "-d", "2s", "--json", "--trace", trace], { stdio: "pipe", maxBuffer: 1 << 28 });
    } catch (error) {
      if (error.status !== 99) throw error;
      json = error.stdout;
    }
    const text = readFileSync(path, "utf8"), values = JSON.stringify({ duration: "2s" });
    const ours = Buffer.from(engine.trace(text, values));
    assert.ok(ours.length > 100 && ours.equals(readFileSync(trace)), `${name}: ${ours.length} bytes that differ; is the page older than the program? ./x playground builds it anew`);
    // Text by text, not number by number: a reader of JSON rounds what is above 2^53.
    const { figures, html } = JSON.parse(engine.run(text, values, name, () => {}));
    assert.ok(figures.length > 1000 && figures.trimEnd() === json.toString().trimEnd(), `${name}: the JSON differs`);
    assert.ok(html.includes("Content-Security-Policy"), name);
    compared++;
  }
  assert.ok(compared >= 14);
});

test("an example runs, and its report opens in the page", { skip }, async () => {
  const page = await open();
  await page.selectOption("#example", "noisy-neighbour.toml");
  await page.fill("#duration", "2s");
  const frame = await run(page);
  assert.match(await frame.locator(".lead").innerText(), /CPUs|goal/);
  await page.locator("#status").filter({ hasText: /events in \d+ ms/ }).waitFor();
  await frame.locator(".waits summary").first().click();
  await frame.locator("button.jump").first().click();
  assert.match(await frame.locator(".panel").innerText(), /waited/);
  await page.context().close();
});

test("a mistake is shown at its place, and nothing runs", { skip }, async () => {
  const page = await open();
  await ran(page);
  await page.fill("#text", "[machine]\ncpus = 2\n[task.a]\nsteps = [{ rum = \"1ms\" }]\n");
  await page.locator(".messages .error").first().waitFor();
  const text = await page.locator(".messages").innerText();
  assert.match(text, /error at 4:\d+/);
  assert.match(text, /\^\^\^/);
  await page.locator(".messages button").first().click();
  const chosen = await page.evaluate(() => {
    const editor = document.querySelector("#text");
    return editor.value.slice(editor.selectionStart, editor.selectionEnd);
  });
  assert.equal(chosen, "rum");
  await page.click("#run");
  await page.locator("#status", { hasText: "not run" }).waitFor();
  assert.match(await page.getAttribute("iframe", "title"), /Who runs next/, "the last run stays");
  await page.context().close();
});

test("a run is cancelled, and the next one works", { skip }, async () => {
  const page = await open();
  await page.selectOption("#example", "noisy-neighbour.toml");
  await ran(page);
  await page.fill("#duration", "500s");
  await page.click("#run");
  await page.locator("#status", { hasText: "running" }).waitFor();
  await page.click("#cancel");
  await page.locator("#status", { hasText: "cancelled" }).waitFor();
  await page.fill("#duration", "1s");
  await run(page);
  await page.context().close();
});

test("two runs stand side by side", { skip }, async () => {
  const page = await open();
  await page.selectOption("#example", "rt-hog.toml");
  await page.fill("#duration", "3s");
  await run(page);
  await page.click("#pin");
  await page.selectOption("#kernel", "5.4");
  await page.waitForSelector("iframe:not(.pinned)", { timeout: 60000 });
  await ran(page);
  assert.equal(await page.locator("iframe").count(), 2);
  const [a, b] = await Promise.all([0, 1].map((i) => page.locator("iframe").nth(i).boundingBox()));
  assert.ok(a.x + a.width <= b.x + 1, "beside each other");
  await page.context().close();
});

test("a link opens the scenario again", { skip }, async () => {
  const page = await open();
  const text = "# <b>ä</b>\n[machine]\ncpus = 1\n[task.a]\nsteps = [{ run = \"1ms\" }]\nloop = 3\n";
  await page.fill("#text", text);
  await page.selectOption("#kernel", "6.1");
  await page.click("#share");
  await page.locator("#status", { hasText: "link" }).waitFor();
  const hash = new URL(page.url()).hash;
  // The run that the page began by itself may end before or after that: what is said of the link stays.
  await ran(page);
  assert.match(await page.locator("#status").innerText(), /link is .*; the scenario is in it/);
  const other = await open({}, hash);
  assert.equal(await other.inputValue("#text"), text);
  assert.equal(await other.inputValue("#kernel"), "6.1");
  await ran(other);
  assert.match(await other.locator("#status").innerText(), /events in/, "it runs by itself");
  await page.context().close();
  await other.context().close();
});

test("a link keeps the place in the run, and opens there", { skip }, async () => {
  const page = await open();
  await page.selectOption("#example", "rt-hog.toml");
  await page.fill("#duration", "2s");
  const frame = await run(page);
  // The report tells the page its view a while after each change.
  const told = page.evaluate(() => new Promise((done) => addEventListener("message", ({ data }) => {
    if (data?.zerolag === "view" && String(data.view).includes("slice=")) done(null);
  })));
  await frame.locator(".waits summary").first().click();
  await frame.locator("button.jump").first().click();
  const said = await frame.locator(".panel").innerText();
  await told;
  await page.click("#share");
  await page.locator("#status", { hasText: "link" }).waitFor();
  const other = await open({}, new URL(page.url()).hash);
  await other.waitForSelector("iframe", { timeout: 120000 });
  const opened = other.frameLocator("iframe");
  await opened.locator(".panel", { hasText: "waited" }).waitFor({ timeout: 60000 });
  assert.equal(await opened.locator(".panel").innerText(), said);
  await page.context().close();
  await other.context().close();
});

test("a click on a slice says what ran, and why a wait was long", { skip }, async () => {
  const page = await open();
  await page.selectOption("#lessons", "9");
  await page.fill("#duration", "3s");
  const frame = await run(page);
  await frame.locator("button.jump").first().evaluate((button) => button.click());
  assert.match(await frame.locator(".panel").innerText(), /waited .*; meanwhile cpu \d (ran web-|was idle)/);
  await frame.locator(".panel button").click();
  assert.match(await frame.locator(".waits details[open]").first().innerText(), /(throttled in \/web|queued behind web-)/);
  await page.context().close();
});

test("a run is edited, started and read with keys only", { skip }, async () => {
  const page = await open();
  await ran(page);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "text", "the first link leads to the editor");
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"1ms\" }]\nloop = 9\n");
  await markShown(page);
  await page.keyboard.press("Control+Enter");
  await nextShown(page);
  await ran(page);
  const seen = new Set();
  const walk = async (key, last) => {
    for (let i = 0; i < 40 && !seen.has(last); i++) {
      await page.keyboard.press(key);
      seen.add(await page.evaluate(() => document.activeElement?.id || document.activeElement?.tagName));
    }
  };
  // From the editor up to the report, and from the top of the page down to it.
  await walk("Shift+Tab", "cpus");
  await page.focus("#lessons");
  await walk("Tab", "IFRAME");
  for (const part of ["example", "open", "kernel", "cpus", "duration", "seed", "set", "run", "pin", "share", "save", "perfetto", "IFRAME"]) assert.ok(seen.has(part), `${part} of ${[...seen]}`);
  await page.context().close();
});

for (const [what, options] of [["on a phone", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }],
  ["at 200 %", { viewport: { width: 700, height: 450 }, deviceScaleFactor: 2 }]]) {
  test(`the page ${what} needs no sideways scrolling, with a run and a lesson`, { skip }, async () => {
    const page = await open(options);
    await page.selectOption("#lessons", "0");
    await run(page);
    const [wide, narrow] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= narrow, `${wide} > ${narrow}`);
    const frame = page.frames()[1];
    const inner = await frame.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(inner[0] <= inner[1], `the report: ${inner}`);
    await page.context().close();
  });
}

test("a dark page and its report are dark", { skip }, async () => {
  const page = await open({ colorScheme: "dark" });
  await page.selectOption("#example", "rt-hog.toml");
  await page.fill("#duration", "1s");
  await run(page);
  const paper = () => getComputedStyle(document.body).backgroundColor;
  assert.deepEqual([await page.evaluate(paper), await page.frames()[1].evaluate(paper)], ["rgb(22, 24, 29)", "rgb(22, 24, 29)"]);
  await page.context().close();
});

test("a lesson asks, and judges the answer", { skip }, async () => {
  const page = await open();
  await page.selectOption("#lessons", "0");
  await page.locator("#lesson button", { hasText: "a half" }).click();
  await page.locator("#verdict").filter({ hasText: /Not so/ }).waitFor();
  await page.locator("#lesson button", { hasText: "quarter" }).click();
  await page.locator("#verdict").filter({ hasText: /Right/ }).waitFor();
  await page.selectOption("#lessons", "1");
  await run(page);
  await page.locator("#verdict").filter({ hasText: /Not yet/ }).waitFor();
  await page.fill("#text", (await page.inputValue("#text")).replace("nice = 0", "nice = 5"));
  await run(page);
  await page.locator("#verdict").filter({ hasText: /Right/ }).waitFor();
  await page.context().close();
});

/** Waits until something holds in the page. Its policy forbids how the browser's driver would wait. */
async function until(page, holds) {
  for (let i = 0; i < 600; i++) {
    if (await page.evaluate(holds)) return;
    await page.waitForTimeout(200);
  }
  assert.fail(`never: ${holds}`);
}

/** Changes the text of the scheduler, runs, and returns what the page says. */
async function changeOwn(page, from, to) {
  const text = await page.inputValue("#policy");
  assert.ok(text.includes(from), from);
  await page.fill("#policy", text.replace(from, to));
  await page.click("#run");
  await page.waitForTimeout(500);
  await page.waitForSelector("#run:not([disabled])", { timeout: 120000 });
  return { status: await page.textContent("#status"), says: await page.textContent("#messages"), verdict: await page.textContent("#verdict") };
}

test("a scheduler that is written in the page has the tasks, and a lesson asks for one", { skip }, async () => {
  const number = lessons.findIndex((lesson) => lesson.policy) + 1;
  const page = await open({}, `#lesson=${number}`);
  await ran(page);
  assert.match(await page.textContent("#verdict"), /^Not yet: missed/);
  const { solution } = lessons[number - 1];
  const solved = await changeOwn(page, solution[0][0], solution[0][1]);
  assert.match(solved.verdict, /^Right\./);
  assert.equal(solved.says, "");
  // The page of the run says whose it is, and a link has the scheduler.
  assert.match(await page.getAttribute("iframe:not(.pinned)", "title"), /scheduled by Mine$/);
  await page.click("#share");
  await until(page, () => location.hash.startsWith("#s="));
  const again = await open({}, await page.evaluate(() => location.hash));
  await ran(again);
  assert.match(await again.inputValue("#policy"), /SCX_ENQ_WAKEUP/);
  assert.match(await again.textContent("#status"), /all 1 goals met/);
  await again.context().close();
  await page.context().close();
});

test("a mistake of a scheduler is shown at its place, whether it is found by reading or by running", { skip }, async () => {
  const number = lessons.findIndex((lesson) => lesson.policy) + 1;
  const page = await open({}, `#lesson=${number}`);
  await ran(page);
  const raised = await changeOwn(page, "20e6, enq_flags);", "20e6, enq_flag);");
  await page.waitForTimeout(500); // The check behind it finds nothing, and leaves it.
  assert.match(await page.textContent("#messages"), /^error of your scheduler at 7:32: ReferenceError: enq_flag is not defined/);
  assert.match(raised.status, /1 mistake/);
  const unread = await changeOwn(page, "20e6, enq_flag);", "20e6, enq_flags;");
  assert.match(unread.says, /^error of your scheduler at 7:\d+: SyntaxError: missing \)/);
  await page.click("#messages button");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "policy");
  const none = await changeOwn(page, "extends Policy", "");
  assert.match(none.says, /there is no class: write/);
  // One that breaks a rule of the kernel is unloaded, in the kernel's words, and the run goes on.
  await page.fill("#policy", "class Bad extends Policy {\n  enqueue(scx, p) { scx.dsq_insert(p, 7, 1e6); }\n}\n");
  await page.click("#run");
  const frame = await ran(page);
  await frame.getByText(/The scheduler bad was unloaded at .*non-existent DSQ/).first().waitFor();
  await page.context().close();
});

test("the kernel's scheduler and your own stand side by side", { skip }, async () => {
  const page = await open({}, "#example=web-build.toml");
  await ran(page);
  await page.click("#own summary");
  await page.click("#beside");
  await until(page, () => !!document.querySelector("iframe.pinned") && / scheduled by Vtime$/.test(document.querySelector("iframe:not(.pinned)")?.title ?? ""));
  assert.doesNotMatch(await page.getAttribute("iframe.pinned", "title"), /scheduled by/);
  await page.context().close();
});

test("schedulers of the page that the program has too do the same", { skip }, () => {
  // The class that is `fifo` costs some other nanoseconds.
  for (const name of ["vtime", "srtf"]) {
    const context = vm.createContext({ TextEncoder, TextDecoder, WebAssembly, console, performance, Uint8Array, Uint32Array, ArrayBuffer, DataView, Object, BigInt });
    vm.runInContext("globalThis.self = globalThis;", context);
    const web = (file) => readFileSync(join(root, "crates/wasm/web", file), "utf8");
    const engine = vm.runInContext(readFileSync(join(built, "engine/zerolag_wasm.js"), "utf8") + "\n" + web("policy.js") + "\nglobalThis.wasm_bindgen = wasm_bindgen", context);
    engine.initSync({ module: new WebAssembly.Module(new Uint8Array(readFileSync(join(built, "engine/zerolag_wasm_bg.wasm")))) });
    const text = web(`policies/${name}.js`), kind = text.match(/^class (\w+)/m)[1];
    vm.runInContext(`defineWords(); policyClass = (() => { ${text}\n; return ${kind}; })();`, context);
    const path = join(root, "examples/web-build.toml");
    const given = ["run", "-q", path, "-d", "1s", "--kernel", "7.3", "--policy", name, "--set", "sched_ext.slice=5ms", "--json"];
    let json;
    try {
      json = execFileSync(program, given, { stdio: "pipe", maxBuffer: 1 << 28 });
    } catch (error) {
      if (error.status !== 99) throw error;
      json = error.stdout;
    }
    const values = { duration: "1s", kernel: "7.3", set: [["sched_ext.slice", "5ms"], ["policy", "own"]] };
    const found = JSON.parse(engine.run(readFileSync(path, "utf8"), JSON.stringify(values), name, () => {}));
    assert.ok(found.ok, JSON.stringify(found.messages));
    const tasks = (text) => JSON.stringify(JSON.parse(text).tasks);
    assert.ok(tasks(json.toString()).length > 1000);
    assert.equal(tasks(found.figures), tasks(json.toString()), name);
  }
});

test("words of the grammar complete what is typed", { skip }, async () => {
  const page = await open();
  const offered = async (text) => {
    await page.fill("#text", text);
    await page.press("#text", "Control+End");
    await page.press("#text", "Control+Space");
    const words = await page.locator("#words button").allInnerTexts();
    await page.keyboard.press("Escape");
    return words;
  };
  // Keys are those of their table, and values those of their key.
  const keys = await offered("[machine]\ncpus = 2\n[task.a]\np");
  assert.ok(keys.includes("policy") && keys.includes("priority") && !keys.includes("protocol"), keys.join());
  assert.ok((await offered("[task.a]\npolicy = \"SCHED_F")).includes("SCHED_FIFO"));
  const steps = await offered("[task.a]\nsteps = [{ run = \"1ms\" }, { s");
  assert.ok(steps.includes("sleep") && !steps.includes("seed"), steps.join());
  await page.fill("#text", "dura");
  await page.press("#text", "End");
  await page.press("#text", "Control+Space");
  await page.locator("#words button", { hasText: "duration" }).first().click();
  assert.equal(await page.inputValue("#text"), "duration");
  await page.context().close();
});

/** Drops a file on the page, as a user does. */
async function drop(page, name, bytes) {
  await page.evaluate(([name, letters]) => {
    const carried = new DataTransfer();
    carried.items.add(new File([Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0))], name));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
  }, [name, bytes.toString("base64")]);
}

test("a dropped recording is reported and judged, without its gaps", { skip }, async () => {
  const page = await open();
  await drop(page, "lost.perf.data.gz", readFileSync(join(root, "crates/trace/tests/data/lost-2cpu.perf.data.gz")));
  await page.locator("#status", { hasText: "checks: " }).waitFor({ timeout: 60000 });
  const frame = page.frameLocator("iframe:not(.pinned)");
  await frame.locator("html.ready").waitFor({ timeout: 60000 });
  assert.match(await frame.locator("#s-checks").innerText(), /one-cpu\s+ok\n/);
  assert.match(await frame.locator("#answer").innerText(), /in 57 gaps were not judged: events are missing/);
  assert.equal(await page.getAttribute("iframe", "title"), "lost.perf.data.gz");
  // It replaces what was there: the lesson, its text, its run.
  assert.equal(await page.locator("iframe").count(), 1);
  for (const part of ["#lesson", "#text", "#sliders"]) assert.equal(await page.isVisible(part), false, part);
  assert.deepEqual([await page.inputValue("#lessons"), await page.inputValue("#example")], ["", ""]);
  await drop(page, "no-trace.bin", Buffer.from([0, 1, 2, 3]));
  await page.locator("#status", { hasText: "no-trace.bin cannot be read" }).waitFor();
  await page.selectOption("#lessons", "1");
  await ran(page);
  assert.equal(await page.isVisible("#text"), true, "a lesson replaces the trace");
  await page.context().close();
});

/** Stands for Perfetto's page: it says PONG a while after it opened, and keeps what it is given. */
const PERFETTO = `<!doctype html><script>
  setTimeout(() => addEventListener("message", (event) => {
    if (event.data === "PING") opener.postMessage("PONG", "*");
    else if (event.data.perfetto) window.given = { ...event.data.perfetto, bytes: [...new Uint8Array(event.data.perfetto.buffer)] };
  }), 300);
</script>`;

test("Perfetto is given the trace of a run and of a file, byte for byte that of the program", { skip }, async () => {
  const page = await open();
  await page.context().route("https://ui.perfetto.dev/**", (route) => route.fulfill({ contentType: "text/html", body: PERFETTO }));
  const given = async () => {
    const [tab] = await Promise.all([page.context().waitForEvent("page"), page.click("#perfetto")]);
    await tab.waitForFunction(() => window.given, null, { timeout: 60000 });
    assert.equal(new URL(tab.url()).href, "https://ui.perfetto.dev/");
    const { bytes, title, fileName } = await tab.evaluate(() => window.given);
    await page.locator("#status", { hasText: "open in Perfetto" }).waitFor();
    return { bytes: Buffer.from(bytes), title, fileName };
  };
  await page.selectOption("#example", "rt-hog.toml");
  await page.fill("#duration", "1s");
  await run(page);
  const native = join(work, "t.pftrace"), own = join(work, "t.zlt");
  const plain = join(work, "t-plain.pftrace");
  for (const file of [native, own, plain]) {
    try {
      execFileSync(program, ["run", "-q", join(root, "examples/rt-hog.toml"), "-d", "1s", "--no-check", ...(file === native ? ["--state"] : []), "--trace", file], { stdio: "pipe" });
    } catch (error) {
      if (error.status !== 99) throw error;
    }
  }
  const ofRun = await given();
  assert.deepEqual([ofRun.fileName, ofRun.title], ["rt-hog.pftrace", "rt-hog.toml, zerolag"]);
  assert.ok(ofRun.bytes.equals(readFileSync(native)), "the run");
  await drop(page, "hog.zlt", readFileSync(own));
  await page.locator("#status", { hasText: "hog.zlt" }).filter({ hasText: "checks: " }).waitFor({ timeout: 60000 });
  const ofFile = await given();
  assert.equal(ofFile.fileName, "hog.pftrace");
  assert.ok(ofFile.bytes.equals(readFileSync(plain)), "the file");
  await page.context().close();
});

test("a scenario and a trace open by a button too, and the page of a run is saved", { skip }, async () => {
  const page = await open({ acceptDownloads: true });
  const choose = async (name, buffer) => {
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click("#open")]);
    await chooser.setFiles({ name, mimeType: "application/octet-stream", buffer });
  };
  await choose("mine.toml", Buffer.from("[machine]\ncpus = 1\n[task.own]\ninstances = 2\nsteps = [{ run = \"1ms\" }]\nloop = 9\n"));
  await page.locator("#status", { hasText: "mine.toml is open" }).waitFor();
  assert.equal(await page.inputValue("#example"), "");
  const frame = await run(page);
  assert.equal(await frame.locator("h1").innerText(), "mine.toml");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  assert.equal(saved.suggestedFilename(), "mine.html");
  const path = join(work, "saved.html");
  await saved.saveAs(path);
  const alone = await page.context().newPage();
  await alone.goto("file://" + path);
  await alone.waitForSelector("html.ready");
  assert.match(await alone.locator("#waits").innerText(), /own-\d/);
  await choose("marks.zlt", readFileSync(join(root, "browser/data/marks.zlt")));
  await page.locator("#status", { hasText: "marks.zlt: " }).waitFor({ timeout: 60000 });
  await page.context().close();
});

test("where the browser blocks a new tab, the trace is saved, with the reason", { skip }, async () => {
  const page = await open({ acceptDownloads: true });
  await page.evaluate(() => { window.open = () => null; });
  await page.selectOption("#example", "rt-hog.toml");
  await page.fill("#duration", "200ms");
  await run(page);
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#perfetto")]);
  assert.equal(saved.suggestedFilename(), "rt-hog.pftrace");
  assert.ok(readFileSync(await saved.path()).length > 1000);
  await page.locator("#status").filter({ hasText: /blocked the new tab: rt-hog.pftrace is saved/ }).waitFor();
  await page.context().close();
});

test("accessibility rules hold, in light and dark", { skip }, async () => {
  const axe = readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8");
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme, bypassCSP: true });
    const page = await context.newPage();
    await page.goto("file://" + file);
    await page.waitForSelector("html.ready", { timeout: 60000 });
    await page.selectOption("#lessons", "0");
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
    assert.deepEqual(found.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.target.join(" ")).slice(0, 4).join(", ")}`), [], colorScheme);
    await context.close();
  }
});
