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
    for (const name of ["limit", "compare", "sweep"]) {
      const page = await open(name, options);
      const [wide, narrow] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= narrow, `${name}: ${wide} > ${narrow}`);
      await page.close();
    }
  });
}

test("accessibility rules hold, in light and dark", async () => {
  const axe = readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8");
  for (const name of ["limit", "compare", "sweep"]) {
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
  assert.match(await page.locator(".legend").innerText(), /events missing from the recording/);
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
  assert.doesNotMatch(await whole.locator(".legend").innerText(), /missing/);
  await whole.close();
});
