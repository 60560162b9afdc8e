// `zerolag serve` in a real browser: the page asks its server for what it shows.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
let browser, server, url;

before(async () => {
  const trace = join(work, "long.zlt");
  try {
    execFileSync(program, ["run", "-q", join(root, "examples/noisy-neighbour.toml"), "-d", "150s", "--no-check", "--trace", trace], { stdio: "pipe" });
  } catch (error) {
    if (error.status !== 99) throw error;
  }
  server = spawn(program, ["serve", "-q", trace], { stdio: ["ignore", "pipe", "inherit"] });
  url = String((await once(server.stdout, "data"))[0]).trim();
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => {
  server?.kill("SIGINT");
  await browser?.close();
});

async function open(view = "") {
  const page = await browser.newPage({ viewport: { width: 1300, height: 900 }, reducedMotion: "reduce" });
  page.on("pageerror", (error) => assert.fail(error.message));
  page.on("request", (request) => assert.ok(request.url().startsWith(url) || request.url().startsWith("data:"), request.url()));
  const parts = [];
  page.on("response", (answer) => { if (answer.url().includes("/part?")) parts.push(answer); });
  await page.goto(url + view);
  await page.waitForSelector("html.ready", { timeout: 60000 });
  return { page, parts };
}

/** Waits until the page has asked for nothing for half a second: each zoom asks anew. */
async function quiet(page, parts) {
  for (let seen = -1; seen !== parts.length;) {
    seen = parts.length;
    await page.waitForTimeout(500);
  }
}

const shown = (page) => page.evaluate(() => {
  const { run, whole, from, to, rows } = window.zerolag.timeline;
  const row = rows[0];
  return { isPart: run !== whole, slices: run.endsAfter(row, to) - run.endsAfter(row, from), rows: rows.length, merged: run.how.some((how) => how & 16) };
});

test("zoomed in, every slice is there; zoomed out, the page asks for nothing", async () => {
  const { page, parts } = await open();
  const detail = page.locator(".detail");
  await detail.filter({ hasText: /slices shorter than .* merged .* Zoom in for all of it/ }).waitFor();
  const before = await shown(page);
  assert.deepEqual([before.isPart, before.merged, parts.length], [false, true, 0]);
  await page.locator(".scroller").focus();
  for (let i = 0; i < 8; i++) await page.keyboard.press("+");
  await page.locator(".detail", { hasText: "Everything that was recorded" }).waitFor();
  await quiet(page, parts);
  const inside = await shown(page);
  assert.deepEqual([inside.isPart, inside.merged, inside.rows], [true, false, before.rows], "the rows stay");
  assert.ok(parts.length >= 1 && parts.every((answer) => answer.status() === 200));
  // What is asked for reaches further than the view: moving a little asks for nothing.
  const asked = parts.length;
  await page.keyboard.press("ArrowRight");
  await quiet(page, parts);
  assert.equal(parts.length, asked);
  await page.keyboard.press("0");
  await page.locator(".detail", { hasText: "merged" }).waitFor();
  assert.equal((await shown(page)).isPart, false);
  await page.close();
});

test("slices are stepped through over the end of a part, and a link opens at its view", async () => {
  const { page, parts } = await open("#view:run=0,from=70000000000,to=70010000000");
  await page.locator(".detail", { hasText: "Everything that was recorded" }).waitFor();
  await page.locator(".scroller").focus();
  const from = await page.evaluate(() => window.zerolag.timeline.from);
  assert.ok(Math.abs(from - 70e9) < 1e6, `${from}`);
  await quiet(page, parts);
  const asked = parts.length;
  for (let i = 0; i < 200 && parts.length === asked; i++) {
    await page.keyboard.press("n");
    await page.waitForTimeout(20);
  }
  await quiet(page, parts);
  assert.ok(parts.length > asked, "more was asked for");
  await page.keyboard.press("n");
  assert.match(await page.locator(".panel").innerText(), /on cpu 0; ran /);
  await page.close();
});

test("a long wait is shown at its place with its exact slice", async () => {
  const { page } = await open();
  await page.locator(".waits summary").first().click();
  await page.locator("button.jump").first().click();
  await page.locator(".detail", { hasText: "Everything that was recorded" }).waitFor();
  assert.match(await page.locator(".panel").innerText(), /ran .*; waited .* after it was/);
  await page.close();
});

test("accessibility rules hold on a served page", async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForSelector("html.ready", { timeout: 60000 });
  await page.evaluate(readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((rule) => rule.id), []);
  await context.close();
});

test("when the server is gone the page says so and keeps what it has", async () => {
  const { page } = await open();
  await page.route("**/part?*", (route) => route.abort());
  await page.locator(".scroller").focus();
  for (let i = 0; i < 8; i++) await page.keyboard.press("+");
  await page.locator(".detail", { hasText: "The server does not answer" }).waitFor();
  assert.equal((await shown(page)).isPart, false);
  await page.close();
});
