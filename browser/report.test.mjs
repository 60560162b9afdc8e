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
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const url = "file://" + page_file(name);
  page.on("request", (request) => assert.equal(request.url().split("#")[0], url, "no request but the page's own"));
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("console", (message) => assert.notEqual(message.type(), "error", message.text()));
  await page.goto(url + hash);
  await page.waitForSelector("html.ready");
  return page;
}

const view = (page) => page.evaluate(() => ({ from: window.zerolag.timeline.from, to: window.zerolag.timeline.to, run: window.zerolag.timeline.index }));
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

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
  assert.ok(await ink(page) > 5000, "something is drawn");
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
  // The policy forbids the `eval` of Playwright's own waiting.
  let hash = "";
  while (!hash.startsWith("#view:")) hash = await page.evaluate(() => new Promise((done) => setTimeout(() => done(location.hash), 20)));
  const was = await view(page);
  const other = await open("limit", {}, hash);
  const is = await view(other);
  assert.ok(Math.abs(is.from - was.from) <= 1 && Math.abs(is.to - was.to) <= 1 && was.to - was.from < 6e9);
  await page.close();
  await other.close();
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
  assert.match(await page.locator(".panel").innerText(), /ran /);
  const before = await view(page);
  await page.keyboard.press("Enter");
  const after = await view(page);
  assert.ok(after.to - after.from < before.to - before.from, "Enter zooms to the slice");
  await page.keyboard.press("0");
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
  assert.ok(await ink(page) > 5000);
  await page.close();
});

test("a plot says the values under the pointer, and kernels stand in order of version", async () => {
  const page = await open("sweep");
  const figure = page.locator("figure").first();
  const at = await figure.locator("svg").boundingBox();
  await page.mouse.move(at.x + at.width * 0.3, at.y + at.height * 0.5);
  await page.waitForSelector("#tip:not([hidden])");
  const texts = await figure.locator("svg text").allTextContents();
  const versions = texts.filter((text) => /^\d\.\d+$/.test(text.trim())).slice(-4);
  assert.deepEqual(versions, ["5.4", "5.15", "6.1", "6.12"]);
  await page.close();
});

test("a page that is dark is dark everywhere", async () => {
  const page = await open("limit", { colorScheme: "dark" });
  const colours = await page.evaluate(() => {
    const canvas = document.querySelector("canvas.rows");
    const [r, g, b] = canvas.getContext("2d").getImageData(2, 40, 1, 1).data;
    return { body: getComputedStyle(document.body).backgroundColor, canvas: [r, g, b] };
  });
  assert.deepEqual(colours, { body: "rgb(22, 24, 29)", canvas: [22, 24, 29] });
  await page.emulateMedia({ colorScheme: "light" });
  await settle(page);
  const light = await page.evaluate(() => [...document.querySelector("canvas.rows").getContext("2d").getImageData(2, 40, 1, 1).data].slice(0, 3));
  assert.deepEqual(light, [255, 255, 255], "it follows the system");
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
