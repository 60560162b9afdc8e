// A report in a real browser: it opens without a network, zooms, explains, jumps, and can be used with a keyboard only.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const page_file = (name) => join(work, name + ".html");

/** Runs a command and writes its page. */
function report(name, args) {
  try {
    execFileSync(program, [...args, "--html", page_file(name)], { cwd: root, stdio: "pipe" });
  } catch (error) {
    if (error.status !== 99) throw error;
  }
}

let browser;
before(async () => {
  report("limit", ["run", "-q", "examples/web-service-limit.toml", "-d", "20s", "--seed", "1"]);
  report("hog", ["run", "-q", "examples/rt-hog.toml"]);
  report("compare", ["compare", "-q", "examples/noisy-neighbour.toml", "--kernel", "5.15", "--kernel", "6.12", "--runs", "2", "-d", "2s"]);
  report("sweep", ["sweep", "-q", "examples/noisy-neighbour.toml", "--set", "kernel=6.12,5.4,6.1,5.15", "--runs", "3", "-d", "1s"]);
  report("goals", ["sweep", "-q", "examples/web-service-limit.toml", "--set", "burst=0s,200ms", "--set", "limits.cpu=2,3,4", "--runs", "3", "-d", "10s"]);
  report("explain", ["explain", "-q", "examples/web-service-limit.toml", "--worst", "20", "-d", "20s"]);
  report("upgrade", ["compare", "-q", "examples/upgrade.toml", "--kernel", "5.15", "--kernel", "6.12", "--runs", "2", "-d", "5s"]);
  report("advise", ["advise", "-q", "examples/web-service-limit.toml", "--goal", "p99 <= 60ms", "-d", "2s", "--seeds", "2", "--risk", "50%"]);
  report("state", ["run", "-q", "examples/web-service-limit.toml", "-d", "1s", "--seed", "1", "--state"]);
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens a page; every request, message and error of it is a failure. */
async function open(name, options = {}, hash = "") {
  // Without smooth scrolling: places that are asked for in the middle of it would be wrong.
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const url = "file://" + page_file(name);
  page.on("request", (request) => assert.equal(request.url().split("#")[0], url, "no request but the page's own"));
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("console", (message) => assert.notEqual(message.type(), "error", message.text()));
  await page.goto(url + hash);
  await page.waitForSelector("html.ready");
  // The timeline draws in the next frame after that: a test that reads pixels at once could see an empty canvas.
  await settle(page);
  return page;
}

const view = (page) => page.evaluate(() => ({ from: window.zerolag.timeline.from, to: window.zerolag.timeline.to, run: window.zerolag.timeline.index }));
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

test("with --state, rows of the scheduler's own numbers are below the tasks, and decisions have reasons", async () => {
  for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 390, height: 844 } }]) {
    const page = await open("state", { ...options, bypassCSP: true });
    const kinds = await page.evaluate(() => window.zerolag.timeline.rows.map((row) => row.kind));
    assert.deepEqual([...new Set(kinds)], ["cpu", "task", "state"], "in this order");
    const labels = await page.evaluate(() => window.zerolag.timeline.rows.filter((row) => row.kind === "state").map((row) => row.label));
    assert.ok(labels.some((label) => label.startsWith("lag cpu ")) && labels.some((label) => label.startsWith("quota /")), labels.join());
    // The quota in the pool is never more than the limit, and some is taken.
    const pool = await page.evaluate(() => {
      const { state } = window.zerolag.timeline.run, row = state.rows.find((row) => row.label.startsWith("quota"));
      const line = row.lines.find((line) => line.name === "pool");
      return [...state.value.slice(line.lo, line.hi)].filter((value) => !Number.isNaN(value));
    });
    assert.ok(pool.length > 2 && Math.max(...pool) <= 200e6 && Math.min(...pool) < 190e6, pool.slice(0, 9).join());
    await page.locator("button", { hasText: "step ›" }).click();
    const first = await page.locator(".decided").innerText();
    assert.match(first, /^cpu \d+ at [\d.]+ s, decision 1: (picked `|idles: )/);
    await page.locator("button", { hasText: "step ›" }).click();
    assert.notEqual(await page.locator(".decided").innerText(), first);
    await page.selectOption("select[aria-label=Rows]", "state");
    await page.locator(".scroller").focus();
    await page.keyboard.press("ArrowDown");
    assert.match(await page.locator(".panel").innerText(), /: /);
    const [wide, narrow] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= narrow, `${wide} > ${narrow}`);
    await page.evaluate(readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8"));
    const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
    assert.deepEqual(found.violations.map((rule) => rule.id), []);
    await page.close();
  }
  const page = await open("limit");
  assert.equal(await page.locator(".decided, .steps").count(), 0, "without it nothing is there");
  await page.close();
});

/** Waits until what is read is as expected: a busy machine draws late. Then fails with what was read. */
async function until(page, read, is, what) {
  let found;
  for (let tries = 0; tries < 200; tries++) {
    found = await read();
    if (is(found)) return found;
    await page.waitForTimeout(50);
  }
  assert.fail(`${what}: ${JSON.stringify(found)}`);
}

/** How many pixels of the timeline differ from its background. */
const ink = (page) => page.evaluate(() => {
  const canvas = document.querySelector("canvas.rows");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] !== data[0] || data[i + 1] !== data[1] || data[i + 2] !== data[2]) count++;
  return count;
});

test("the timeline is drawn, zooms by keys and wheel, and moves by dragging", async () => {
  const page = await open("limit");
  await until(page, () => ink(page), (count) => count > 5000, "something is drawn");
  const whole = await view(page);
  assert.equal(whole.to - whole.from, 20e9);
  const box = await page.locator("canvas.rows").boundingBox();
  await page.locator("canvas.rows").scrollIntoViewIfNeeded();
  const at = await page.locator("canvas.rows").boundingBox();
  await page.mouse.move(at.x + at.width / 2, at.y + 60);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -600);
  await page.keyboard.up("Control");
  await settle(page);
  const zoomed = await view(page);
  assert.ok(zoomed.to - zoomed.from < whole.to - whole.from);
  await page.mouse.down();
  await page.mouse.move(at.x + at.width / 2 - 200, at.y + 60, { steps: 4 });
  await page.mouse.up();
  await settle(page);
  const moved = await view(page);
  assert.ok(moved.from > zoomed.from, "dragging to the left shows later times");
  assert.ok(Math.abs((moved.to - moved.from) / (zoomed.to - zoomed.from) - 1) < 1e-6);
  assert.ok(box);
  await page.close();
});

test("hovering a slice says what it is", async () => {
  const page = await open("hog");
  await page.locator("canvas.rows").scrollIntoViewIfNeeded();
  const at = await page.locator("canvas.rows").boundingBox();
  await page.mouse.move(at.x + at.width / 2, at.y + 36);
  await page.waitForSelector("#tip:not([hidden])");
  const text = await page.locator("#tip").innerText();
  assert.match(text, /cpu 0/);
  assert.match(text, /ran .*(s|ms|us)|idle/);
  await page.close();
});

test("a wait opens its explanation and jumps to its place", async () => {
  const page = await open("limit");
  const first = page.locator(".waits > li").first();
  await first.locator("summary").click();
  assert.match(await first.locator(".causes").innerText(), /throttled in \/web|queued behind/);
  const button = first.locator("button.jump");
  const [from, to, task] = await Promise.all(["data-from", "data-to", "data-task"].map((key) => button.getAttribute(key)));
  await button.click();
  await settle(page);
  const shown = await view(page);
  assert.ok(shown.from <= Number(from) && shown.to >= Number(to), "the wait is in the view");
  assert.ok(shown.to - shown.from < 2 * (Number(to) - Number(from)) + 1000, "and fills it");
  const selected = await page.evaluate(() => {
    const { timeline } = window.zerolag;
    return { task: timeline.run.task[timeline.selected], from: timeline.run.from[timeline.selected] };
  });
  assert.deepEqual(selected, { task: Number(task), from: Number(to) }, "the slice that ends it is chosen");
  assert.match(await page.locator(".panel").innerText(), /waited/);
  await page.close();
});

test("the address keeps the view, and opens it", async () => {
  const page = await open("limit");
  await page.locator(".scroller").focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const hash = await until(page, () => page.evaluate(() => location.hash), (hash) => hash.startsWith("#view:"), "the address");
  const was = await view(page);
  const other = await open("limit", {}, hash);
  const is = await view(other);
  assert.ok(Math.abs(is.from - was.from) <= 1 && Math.abs(is.to - was.to) <= 1 && was.to - was.from < 6e9);
  await page.close();
  await other.close();
});

test("the address keeps the row and the slice", async () => {
  const page = await open("limit");
  await page.locator(".waits > li").first().locator("summary").click();
  await page.locator("button.jump").first().click();
  await settle(page);
  const said = await page.locator(".panel").innerText();
  assert.match(said, /waited .*; meanwhile cpu \d+ /, "what ran during the wait");
  const hash = await until(page, () => page.evaluate(() => location.hash), (hash) => hash.includes("slice="), "the address");
  const other = await open("limit", {}, hash);
  assert.equal(await other.locator(".panel").innerText(), said);
  const row = (page) => page.evaluate(() => { const { rows, current } = window.zerolag.timeline; return rows[current].kind + rows[current].label; });
  assert.equal(await row(other), await row(page));
  await page.close();
  await other.close();
});

test("a wait that is clicked in the timeline leads to its explanation", async () => {
  const page = await open("limit");
  await page.locator(".waits > li summary").nth(2).click();
  await page.locator("button.jump").nth(2).click();
  await page.locator(".waits > li summary").nth(2).click();
  await settle(page);
  // The middle of the wait, on the row of its task, wherever the page was scrolled to.
  const at = await page.evaluate(() => {
    document.querySelector("canvas.rows").scrollIntoView();
    const { timeline } = window.zerolag, run = timeline.run, slice = timeline.selected, view = timeline.view();
    const box = document.querySelector("canvas.rows").getBoundingClientRect();
    timeline.select(-1, []);
    const middle = run.from[slice] - run.wait[slice] / 2;
    return { x: box.left + view.left + (middle - view.from) / (view.to - view.from) * view.width, y: box.top + timeline.rowY("task", run.task[slice], view) };
  });
  await page.mouse.click(at.x, at.y);
  assert.equal(await page.locator(".waits details").nth(2).getAttribute("open"), null);
  await page.locator(".panel button", { hasText: "Explain this wait" }).click();
  await page.locator(".waits details[open]").waitFor();
  assert.notEqual(await page.locator(".waits details").nth(2).getAttribute("open"), null);
  assert.match(await page.locator(".waits details").nth(2).innerText(), /meanwhile/);
  await page.close();
});

test("a time is chosen on the ruler and in the overview, and fingers pinch", async () => {
  const page = await open("limit", { hasTouch: true });
  await page.locator("canvas.rows").scrollIntoViewIfNeeded();
  const drag = async (locator, y) => {
    const box = await page.locator(locator).boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + y, { steps: 3 });
    await page.mouse.up();
    await settle(page);
    const { from, to } = await view(page);
    await page.locator(".scroller").focus();
    await page.keyboard.press("0");
    return (to - from) / 20e9;
  };
  for (const [locator, y] of [["canvas.rows", 10], ["canvas.overview", 20]]) {
    const part = await drag(locator, y);
    assert.ok(part > 0.15 && part < 0.3, `${locator}: ${part}`);
  }
  const box = await page.locator("canvas.rows").boundingBox();
  const finger = await page.context().newCDPSession(page);
  const touch = (type, apart) => finger.send("Input.dispatchTouchEvent", {
    type, touchPoints: type === "touchEnd" ? [] : [-1, 1].map((side, id) => ({ id, x: box.x + box.width / 2 + side * apart, y: box.y + 60 })),
  });
  await touch("touchStart", 60);
  for (const apart of [90, 140, 200]) await touch("touchMove", apart);
  await touch("touchEnd", 0);
  await settle(page);
  const pinched = await view(page);
  assert.ok(pinched.to - pinched.from < 12e9, `${pinched.to - pinched.from}`);
  await page.close();
});

test("names of plots and rows are whole in a narrow column, or keep their end", async () => {
  for (const [name, width] of [["compare", 390], ["sweep", 390], ["limit", 390], ["limit", 330]]) {
    const page = await open(name, { viewport: { width, height: 844 } });
    const cut = await page.evaluate(() => [...document.querySelectorAll("svg.plot")].filter((svg) => svg.getBoundingClientRect().width > 0).flatMap((svg) => {
      const frame = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter((text) => {
        const box = text.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1;
      }).map((text) => text.textContent);
    }));
    assert.deepEqual(cut, [], `${name}, ${width} wide`);
    assert.ok(await page.locator("svg.narrow:visible").count() >= 1);
    assert.equal(await page.locator("svg.plot:not(.narrow):visible").count(), 0);
    await page.close();
  }
});

test("everything can be reached with the keyboard", async () => {
  const page = await open("hog");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.className), "skip");
  const seen = new Set();
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    seen.add(await page.evaluate(() => {
      const element = document.activeElement;
      return element?.className?.baseVal ?? (element?.className || element?.tagName);
    }));
  }
  for (const part of ["scroller", "plot", "SUMMARY", "SELECT", "INPUT", "BUTTON"]) assert.ok(seen.has(part), `${part} of ${[...seen]}`);
  await page.locator(".scroller").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("n");
  await page.locator(".panel", { hasText: "ran " }).waitFor();
  const before = await view(page);
  await page.keyboard.press("Enter");
  await settle(page);
  const after = await view(page);
  assert.ok(after.to - after.from < before.to - before.from, "Enter zooms to the slice");
  await page.keyboard.press("0");
  await settle(page);
  assert.deepEqual(await view(page), before);
  await page.close();
});

test("the runs of a comparison are switched", async () => {
  const page = await open("compare");
  const names = await page.locator("select[aria-label=Run] option").allInnerTexts();
  assert.deepEqual(names, ["5.15", "6.12"]);
  await page.selectOption("select[aria-label=Run]", "1");
  await settle(page);
  assert.equal((await view(page)).run, 1);
  await until(page, () => ink(page), (count) => count > 5000, "something is drawn");
  await page.close();
});

test("a plot says the values under the pointer, and kernels stand in order of version", async () => {
  const page = await open("sweep");
  const figure = page.locator("figure").first();
  const at = await figure.locator("svg:visible").boundingBox();
  await page.mouse.move(at.x + at.width * 0.3, at.y + at.height * 0.5);
  await page.waitForSelector("#tip:not([hidden])");
  const texts = await figure.locator("svg:visible text").allTextContents();
  const versions = texts.filter((text) => /^\d\.\d+$/.test(text.trim())).slice(-4);
  assert.deepEqual(versions, ["5.4", "5.15", "6.1", "6.12"]);
  await page.close();
});

test("a page that is dark is dark everywhere", async () => {
  const page = await open("limit", { colorScheme: "dark" });
  const body = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const corner = () => page.evaluate(() => [...document.querySelector("canvas.rows").getContext("2d").getImageData(2, 40, 1, 1).data].slice(0, 3).join());
  assert.equal(await body(), "rgb(22, 24, 29)");
  await until(page, corner, (colour) => colour === "22,24,29", "the canvas is dark");
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await until(page, corner, (colour) => colour === "255,255,255", "it follows the system");
  await page.close();
});

for (const [what, options] of [["a phone", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }],
  ["a page at 200 %", { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 }]]) {
  test(`${what} needs no sideways scrolling`, async () => {
    for (const name of ["limit", "compare", "sweep", "explain", "upgrade", "goals", "advise"]) {
      const page = await open(name, options);
      const [wide, narrow] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= narrow, `${name}: ${wide} > ${narrow}`);
      await page.close();
    }
  });
}

test("accessibility rules hold, in light and dark", async () => {
  const axe = readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8");
  for (const name of ["limit", "compare", "sweep", "explain", "upgrade", "goals", "advise"]) {
    for (const colorScheme of ["light", "dark"]) {
      // The page's policy forbids scripts of others, rightly: the checker comes in beside it.
      const context = await browser.newContext({ colorScheme, bypassCSP: true, viewport: { width: 1280, height: 900 } });
      const page = await context.newPage();
      await page.goto("file://" + page_file(name));
      await page.waitForSelector("html.ready");
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
      const broken = found.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.target.join(" ")).slice(0, 4).join(", ")}`);
      assert.deepEqual(broken, [], `${name}, ${colorScheme}`);
      assert.ok(found.passes.length > 15);
      await context.close();
    }
  }
});

// axe does not judge texts on drawings.
test("texts of plots can be read on their paper: 4.5 to 1, in light and dark", async () => {
  for (const name of ["limit", "compare", "sweep"]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(name, { colorScheme });
      const faint = await page.evaluate(() => {
        const light = (/** @type {string} */ colour) => {
          const [r, g, b] = (colour.match(/\d+/g) ?? []).slice(0, 3).map((part) => Number(part) / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const paper = light(getComputedStyle(document.body).backgroundColor);
        const texts = [...document.querySelectorAll("svg.plot text")].map((text) => [text.textContent, getComputedStyle(text).fill]);
        if (texts.length < 20) return ["too few texts"];
        return texts.filter(([, fill]) => {
          const [low, high] = [light(fill), paper].sort((a, b) => a - b);
          return (high + 0.05) / (low + 0.05) < 4.5;
        });
      });
      assert.deepEqual(faint, [], `${name}, ${colorScheme}`);
      await page.close();
    }
  }
});

test("the policy stops a script that is not the page's own", async () => {
  const page = await browser.newPage();
  await page.goto("file://" + page_file("hog"));
  const ran = await page.evaluate(() => new Promise((done) => {
    const script = document.createElement("script");
    script.textContent = "window.harm = 1";
    document.body.append(script);
    setTimeout(() => done(window.harm ?? 0), 100);
  }));
  assert.equal(ran, 0);
  await page.close();
});

test("without its script a page still has the answer and every wait", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto("file://" + page_file("limit"));
  assert.match(await page.locator(".lead").innerText(), /goals?/);
  assert.equal(await page.locator(".waits > li").count(), 20);
  assert.ok(await page.locator("svg.plot").count() >= 3);
  await context.close();
});

test("a printed page is on white paper, without controls", async () => {
  const page = await open("limit", { colorScheme: "dark" });
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  assert.equal(await page.locator(".bar").isVisible(), false);
  await page.close();
});

test("a plot zooms by dragging, and the timeline follows", async () => {
  const page = await open("limit");
  const figure = page.locator("figure", { hasText: "Use of the CPUs" }).first(), svg = figure.locator("svg.plot:visible");
  await svg.scrollIntoViewIfNeeded();
  const box = await svg.boundingBox();
  const ticks = () => svg.locator(".part text").allInnerTexts();
  assert.deepEqual(await ticks(), []);
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  assert.ok((await ticks()).length >= 3, "the part has its own ticks");
  assert.equal(await svg.locator(":scope > .data").isVisible(), false);
  const near = await view(page);
  assert.ok(near.to - near.from < 8e9 && near.from > 4e9, JSON.stringify(near));
  const budget = page.locator("figure", { hasText: "Budget of /web" }).locator("svg.plot:visible .part text");
  assert.deepEqual(await budget.allInnerTexts(), await ticks(), "plots over time show the same part");
  // The line of the part is that of the values: as high at a place as the whole one there.
  const spans = await svg.evaluate((svg) => {
    const points = (/** @type {string} */ text) => [...svg.querySelectorAll(text)].map((line) => line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)));
    const heights = (/** @type {number[][]} */ line) => Math.min(...line.map(([, y]) => y));
    return [heights(points(".data polyline")[0]), heights(points(".part polyline")[0])];
  });
  assert.ok(Math.abs(spans[0] - spans[1]) < 0.2, String(spans));
  await figure.locator("button.whole").click();
  assert.deepEqual(await ticks(), []);
  assert.equal((await view(page)).to - (await view(page)).from, 20e9);
  await svg.focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  assert.ok((await ticks()).length >= 3);
  const closer = await view(page);
  assert.ok(Math.abs((closer.to - closer.from) / 5e9 - 1) < 1e-6);
  await page.keyboard.press("0");
  assert.deepEqual(await ticks(), []);
  const latency = page.locator("figure", { hasText: "Request latency" }).first().locator("svg.plot:visible");
  await latency.focus();
  for (let i = 0; i < 12; i++) await page.keyboard.press("+");
  assert.ok(await latency.locator(".part text").count() >= 1, "a logarithmic axis has ticks at any zoom");
  assert.equal((await view(page)).to - (await view(page)).from, 20e9, "another axis does not move the timeline");
  await page.close();
});

test("the gaps of a recording are on the timeline, beside the answer, and at the waits that they touch", async () => {
  report("lost", ["explain", "crates/trace/tests/data/lost-2cpu.perf.data.gz"]);
  const page = await open("lost");
  assert.match(await page.locator("#answer").innerText(), /3628 events were lost: 66 gaps, .* of CPU time unseen/);
  assert.match(await page.locator("#tl .legend").innerText(), /events missing from the recording/);
  const gap = await page.evaluate(() => {
    const { timeline } = window.zerolag, { run } = timeline;
    const longest = run.gaps.reduce((a, b) => run.spans.to[a] - run.spans.from[a] >= run.spans.to[b] - run.spans.from[b] ? a : b);
    const from = run.spans.from[longest], to = run.spans.to[longest];
    timeline.show(from - (to - from), to + (to - from));
    document.querySelector("#timeline").scrollIntoView();
    return { count: run.gaps.length, cpu: run.spans.cpu[longest] - 1 };
  });
  assert.equal(gap.count, 66);
  await settle(page);
  const box = await page.locator("canvas.rows").boundingBox();
  await page.mouse.move(box.x + 132 + (box.width - 138) / 2, box.y + 22 + 26 * gap.cpu + 13);
  await page.locator("#tip:not([hidden])").filter({ hasText: /events of this CPU are missing/ }).waitFor();
  await page.screenshot({ path: join(work, "gaps.png") });
  assert.match(await page.locator(".waits .unseen").first().textContent(), /^Events of its CPU are missing for .* of it/);
  await page.close();
  const whole = await open("hog");
  assert.doesNotMatch(await whole.locator("#tl .legend").innerText(), /missing/);
  await whole.close();
});

test("the bars of an icicle say their time, are as wide as the page when clicked, and move with the keys", async () => {
  const page = await open("explain");
  const first = await page.evaluate(() => [...document.querySelectorAll("main > section")][1].id);
  assert.equal(first, "waits", "the causes come first");
  assert.match(await page.locator(".lead").innerText(), /waits take .* together: .*% is (queued|throttled)/);
  const bar = page.locator(".icicle svg svg.throttled[data-row='0']").first();
  const shape = (/** @type {import("playwright-core").Locator} */ of) => of.evaluate((element) => [element.getAttribute("x"), parseFloat(element.getAttribute("width"))]);
  const [, before] = await shape(bar);
  assert.ok(before > 1 && before < 90, String(before));
  await bar.hover();
  assert.match(await page.locator("#tip").innerText(), /is throttled in \/web on its CPU\n.*s, \d+\.\d% of all waiting/);
  await bar.click();
  assert.deepEqual(await shape(bar), ["0%", 100]);
  const shown = await page.locator(".icicle svg svg").evaluateAll((bars) => bars.filter((bar) => bar.getAttribute("display") !== "none").map((bar) => bar.getAttribute("class")));
  assert.deepEqual([...new Set(shown)], ["throttled"], "only it and its parts");
  await page.keyboard.press("ArrowDown");
  assert.match(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? ""), /^web-\*, is throttled/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? ""), /^cpu \d, web-\*, is throttled/);
  assert.equal((await shape(page.locator(".icicle :focus")))[1], 100);
  await page.keyboard.press("Escape");
  assert.ok(Math.abs((await shape(bar))[1] - before) < 1e-6);
  assert.equal(await page.locator(".icicle svg [tabindex='0']").count(), 1, "one tab stop");
  // Its parts add up: those of a row to the bar above.
  const sums = await page.locator(".icicle svg svg").evaluateAll((bars) => [0, 1, 2].map((row) => bars.filter((bar) => bar.getAttribute("data-row") === String(row))
    .reduce((sum, bar) => sum + parseFloat(bar.getAttribute("width")), 0)));
  assert.ok(sums.every((sum) => sum > 97 && sum < 100.1), String(sums));
  await page.close();
});

test("a table sorts by its heads, with units, and is saved as CSV", async () => {
  const page = await open("limit");
  const table = page.locator("#s-tasks table"), head = table.locator("th", { hasText: "longest wait" });
  const column = await head.evaluate((head) => head.cellIndex);
  const texts = () => table.locator(`tbody td:nth-child(${column + 1})`).allInnerTexts();
  const ns = (/** @type {string} */ text) => parseFloat(text) * { ns: 1, us: 1e3, ms: 1e6, s: 1e9 }[text.replace(/[\d.]/g, "")];
  const before = await texts();
  await head.locator("button").click();
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  const falling = (await texts()).map(ns);
  assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
  assert.deepEqual((await texts()).sort(), before.sort(), "the same rows");
  await head.locator("button").press("Enter");
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  assert.equal(await table.locator("th[aria-sort]").count(), 1);
  const name = table.locator("th", { hasText: "task" }).first();
  await name.locator("button").click();
  const names = await table.locator("tbody td:first-child").allInnerTexts();
  assert.deepEqual(names.slice(0, 3), ["web-0", "web-1", "web-2"], "numbers in names count as numbers");
  assert.ok(names.indexOf("web-9") < names.indexOf("web-10"));
  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Tasks as CSV" }).click()]);
  assert.equal(saved.suggestedFilename(), "tasks.csv");
  const lines = readFileSync(await saved.path(), "utf8").trim().split("\n");
  assert.equal(lines.length, 17);
  assert.match(lines[0], /^task,policy,/);
  assert.match(lines[1], /^web-0,OTHER 0,/);
  await page.close();
});

test("pages begin with their answer: what differs, which cells meet the goals, what to set", async () => {
  const ids = (page) => page.evaluate(() => [...document.querySelectorAll("main > section")].map((section) => section.id));
  const compared = await open("upgrade");
  assert.deepEqual((await ids(compared)).slice(0, 4), ["answer", "s-figures", "s-plots", "s-settings-that-differ"]);
  assert.match(await compared.locator("#s-settings-that-differ").innerText(), /fair\s+cfs\s+eevdf\s/);
  const named = await compared.locator("#s-figures tbody tr").evaluateAll((rows) => rows.map((row) => row.cells[0].textContent));
  const drawn = await compared.locator("#s-plots figure h3").allInnerTexts();
  assert.ok(drawn.length > 1 && drawn.every((title) => named.includes(title.split(" of ")[1])), String(drawn));
  await compared.close();
  const swept = await open("goals");
  assert.deepEqual((await ids(swept)).slice(0, 3), ["answer", "s-goals", "s-plots"]);
  assert.match(await swept.locator(".lead").innerText(), /in \d of 6 cells; the cheapest of them is burst \d+m?s, limits.cpu \d/);
  const marks = await swept.locator("#s-goals tbody td:first-child").allInnerTexts();
  assert.equal(marks.filter((mark) => mark === "met, cheapest").length, 1, String(marks));
  await swept.close();
  const advised = await open("advise");
  assert.deepEqual((await ids(advised)).slice(0, 4), ["answer", "s-alternatives", "s-plots", "s-what-would-narrow-it"]);
  await advised.close();
});

test("no column is cut at 1280 pixels, and on paper neither a column nor the timeline", async () => {
  for (const name of ["limit", "explain", "upgrade", "goals", "advise"]) {
    const page = await open(name);
    const cut = () => page.evaluate(() => [...document.querySelectorAll(".wide, canvas")].filter((part) => {
      const box = part.getBoundingClientRect();
      return part.scrollWidth > part.clientWidth + 1 || box.right > document.documentElement.clientWidth + 1;
    }).map((part) => part.getAttribute("aria-label") ?? part.className));
    assert.deepEqual(await cut(), [], name);
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize({ width: 718, height: 1000 });
    assert.deepEqual(await cut(), [], `${name}, on A4`);
    const pages = (await page.pdf({ format: "A4", preferCSSPageSize: true })).toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g)?.length ?? 0;
    assert.ok(pages >= 1 && pages <= 3, `${name}: ${pages} pages of paper`);
    await page.close();
  }
});

test("a page on a phone is below 4,000 pixels, and a link unfolds what it names", async () => {
  const phone = { viewport: { width: 390, height: 844 } };
  for (const name of ["limit", "explain", "upgrade", "goals", "advise", "sweep", "compare"]) {
    const page = await open(name, phone);
    const tall = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(tall < 4000, `${name}: ${tall}`);
    await page.close();
  }
  const page = await open("limit", phone);
  const settings = page.locator("#s-settings dl"), waits = page.locator("#waits .icicle");
  assert.equal(await settings.isVisible(), false);
  assert.equal(await waits.isVisible(), false);
  for (const [name, part] of [["Settings", settings], ["Waits", waits]]) {
    await page.locator("nav a", { hasText: name }).click();
    assert.equal(await part.isVisible(), true, name);
  }
  await page.locator("#waits h2 button").click();
  assert.equal(await waits.isVisible(), false, "the heading folds it again");
  await page.close();
});

test("a shared link scrolls to its view", async () => {
  const page = await open("limit", {}, "#view:run=0,from=1000000000,to=2000000000,row=cpu1,pin=task3+cpu1");
  const top = await page.evaluate(() => document.querySelector("#tl").getBoundingClientRect().top);
  assert.ok(top > -2 && top < 300, String(top));
  assert.deepEqual(await page.evaluate(() => window.zerolag.timeline.rows.slice(0, 2).map((row) => row.label)), ["cpu 1", "web-3"]);
  await page.close();
});

test("the shown part of the timeline has its own figures, and pinned rows stay", async () => {
  const page = await open("limit", { viewport: { width: 1280, height: 420 } });
  const says = () => page.locator(".figured").innerText();
  const whole = await until(page, says, (text) => text.startsWith("20.0s from "), "the whole run");
  const [, busy] = whole.match(/CPUs busy ([\d.]+)%; waits: throttled [\d.]+m?s, queued/) ?? assert.fail(whole);
  assert.match(await page.locator("#s-load-over-time figcaption").first().innerText(), new RegExp(`busy for ${busy.replace(".", "\\.")}% of the time`));
  // The sums that a part is read from agree with its slices.
  const apart = await page.evaluate(() => {
    const { timeline } = window.zerolag, { run } = timeline;
    const [from, to] = [run.start + 3.1e9, run.start + 9.7e9];
    let busy = 0;
    for (let slice = 0; slice < run.from.length; slice++) busy += Math.max(0, Math.min(run.to[slice], to) - Math.max(run.from[slice], from));
    const share = busy / (to - from) / run.head.slices.length * 100;
    return [share.toFixed(1), run.figures(from, to)];
  });
  assert.ok(apart[1].includes(`CPUs busy ${apart[0]}%`), String(apart));
  await page.locator("canvas.rows").scrollIntoViewIfNeeded();
  const box = await page.locator("canvas.rows").boundingBox();
  const label = () => page.evaluate(() => window.zerolag.timeline.rows[0].label);
  assert.equal(await label(), "cpu 0");
  await page.mouse.click(box.x + 20, box.y + 22 + 26 * 2 + 13);
  assert.equal(await label(), "cpu 2");
  await page.locator(".scroller").evaluate((scroller) => { scroller.scrollTop = scroller.scrollHeight; });
  await settle(page);
  const places = await page.evaluate(() => {
    const { timeline } = window.zerolag, view = timeline.view();
    return [timeline.rowY("cpu", 2, view), timeline.rowY("cpu", 0, view), view.scroll];
  });
  assert.deepEqual([places[0], places[1], places[2] > 50], [22 + 13, null, true], "it stays, and covers what scrolls behind it");
  await page.locator(".scroller").focus();
  await page.keyboard.press("t");
  assert.equal(await label(), "cpu 0");
  await page.close();
});

test("waits for a limit are told apart, and a deferred server is no mark", async () => {
  const page = await open("limit");
  assert.doesNotMatch(await page.locator("#tl .legend").innerText(), /deferred/);
  const [limited, others] = await page.evaluate(() => {
    const { run } = window.zerolag.timeline;
    let limited = 0, others = 0;
    for (let slice = 0; slice < run.wait.length; slice++) if (run.how[slice] & 32) limited += run.wait[slice]; else others += run.wait[slice];
    return [limited / 1e9, others / 1e9];
  });
  assert.ok(limited > 1 && others > 1, `${limited} ${others}`);
  // The longest wait is one of them, and says so.
  await page.locator(".waits summary").first().click();
  await page.locator("button.jump").first().click();
  assert.match(await page.locator(".panel").innerText(), /waited .*, most of it throttled/);
  await page.close();
});

test("texts on the bars of an icicle can be read, in light and dark, under the pointer too", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open("explain", { colorScheme });
    const bar = page.locator(".icicle svg svg.throttled").first();
    await bar.hover();
    const contrasts = await page.locator(".icicle svg svg").evaluateAll((bars) => {
      const parts = (/** @type {string} */ colour) => (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
      const light = (/** @type {number[]} */ colour) => {
        const [r, g, b] = colour.map((part) => part / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const paper = parts(getComputedStyle(document.body).backgroundColor);
      return bars.map((bar) => {
        const { fill, fillOpacity } = getComputedStyle(bar.querySelector("rect")), part = Number(fillOpacity);
        const behind = light(parts(fill).map((value, i) => value * part + paper[i] * (1 - part)));
        const [low, high] = [behind, light(parts(getComputedStyle(bar.querySelector("text")).fill))].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      });
    });
    assert.ok(contrasts.length > 4 && Math.min(...contrasts) >= 4.5, `${colorScheme}: ${Math.min(...contrasts)}`);
    await page.close();
  }
});
