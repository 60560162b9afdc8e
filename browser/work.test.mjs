// The work of a frame is bounded by the pixels, not by the events: a million events stay below fixed bars. Counted, not timed: how often the canvas is
// called, and how often each block of the page's script runs (the engine's own coverage counters), so a busy machine changes nothing.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const file = (name) => join(work, `work-${name}.html`);
/** Calls of the canvas in a frame. */
const DRAWS_MAX = 20_000;
/** Runs of blocks of the script in a frame: a pixel of a row takes some, at most 24 slices of it are looked at. */
const BLOCKS_MAX = 4_500_000;

let browser;
before(async () => {
  for (const [name, duration] of [["million", "76s"], ["tenth", "7600ms"]]) {
    try {
      execFileSync(program, ["run", "-q", join(root, "examples/noisy-neighbour.toml"), "-d", duration, "--no-check", "--html", file(name)], { stdio: "pipe" });
    } catch (error) {
      if (error.status !== 99) throw error;
    }
  }
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function measure(name) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(() => {
    window.draws = 0;
    const own = CanvasRenderingContext2D.prototype;
    for (const key of ["fillRect", "strokeRect", "fill", "stroke", "fillText", "drawImage", "putImageData"]) {
      const call = own[key];
      own[key] = function (...all) { window.draws++; return call.apply(this, all); };
    }
  });
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Profiler.enable");
  await devtools.send("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  await page.goto("file://" + file(name));
  await page.waitForSelector("html.ready", { timeout: 60000 });
  const records = await page.evaluate(() => window.zerolag.timeline.run.head.records);
  const frames = [];
  // The whole run, then nearer by a factor of four, around a time at which all CPUs work.
  for (let step = 0; step < 12; step++) {
    await devtools.send("Profiler.takePreciseCoverage");
    const draws = await page.evaluate(() => { window.draws = 0; window.zerolag.timeline.paint(); return window.draws; });
    const { result } = await devtools.send("Profiler.takePreciseCoverage");
    const ranges = result.flatMap((script) => script.functions).flatMap((one) => one.ranges);
    const blocks = ranges.reduce((sum, range) => sum + range.count, 0);
    frames.push({ draws, blocks });
    await page.evaluate(() => window.zerolag.timeline.zoom(0.25));
  }
  await page.close();
  return { records, frames };
}

test("the work of a frame of a million events is bounded", async () => {
  assert.ok(statSync(file("million")).size <= 3_000_000, "the page is at most 3 MB");
  const million = await measure("million"), tenth = await measure("tenth");
  assert.ok(million.records >= 1_000_000, `${million.records} records`);
  const most = ({ frames }, key) => Math.max(...frames.map((frame) => frame[key]));
  for (const [key, bar] of [["draws", DRAWS_MAX], ["blocks", BLOCKS_MAX]]) {
    const [whole, part] = [most(million, key), most(tenth, key)];
    assert.ok(whole > 100, `${key} are counted: ${whole}`);
    assert.ok(whole <= bar, `${whole} ${key} in a frame; at most ${bar}: ${JSON.stringify(million.frames)}`);
    assert.ok(part < whole, "a tenth is less");
  }
  console.log(`# a frame of ${million.records} records: at most ${most(million, "draws")} draws and ${most(million, "blocks")} blocks; `
    + `of ${tenth.records}: ${most(tenth, "draws")} and ${most(tenth, "blocks")}`);
});
