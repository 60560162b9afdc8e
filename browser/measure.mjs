// Measures the timeline of a long run in a browser: size, time to show, memory, time per frame. `./x browser --measure` prints a table
// (docs/lab has one with its machine). Figures of a busy machine are of no use; what a test can hold is in work.test.mjs.
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
console.log(`${cpus()[0].model.trim()}, ${cpus().length} CPUs, load ${readFileSync("/proc/loadavg", "utf8").split(" ")[0]}; Chromium ${browser.version()}\n`);
console.log("| simulated | records | file | shown after | heap | arrays | draw p50 | p95 | max | frames | over 16.7 ms |");
console.log("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
for (const duration of process.argv.slice(2).length ? process.argv.slice(2) : ["7600ms", "76s", "152s"]) {
  const file = join(work, "measure.html");
  try {
    execFileSync(program, ["run", "-q", join(root, "examples/noisy-neighbour.toml"), "-d", duration, "--no-check", "--html", file], { stdio: "pipe" });
  } catch (error) {
    if (error.status !== 99) throw error;
  }
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const devtools = await page.context().newCDPSession(page);
  const begin = performance.now();
  await page.goto("file://" + file);
  await page.waitForSelector("html.ready", { timeout: 60000 });
  const shown = performance.now() - begin;
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize } = await devtools.send("Runtime.getHeapUsage");
  const records = await page.evaluate(() => window.zerolag.timeline.run.head.records);
  // 240 steps: four orders of magnitude in, along the run, and out, a step per frame.
  const { draws, frames } = await page.evaluate(async () => {
    const { timeline } = window.zerolag;
    timeline.scroller.scrollIntoView();
    const draws = [], frames = [];
    let last = 0;
    const step = (/** @type {number} */ i) => i < 80 ? timeline.zoom(0.89) : i < 160 ? timeline.pan((timeline.to - timeline.from) / 9) : timeline.zoom(1 / 0.89);
    await new Promise((done) => {
      let i = 0;
      const frame = (/** @type {number} */ now) => {
        if (last) frames.push(now - last);
        last = now;
        if (i === 240) return done(null);
        step(i++);
        const from = performance.now();
        timeline.paint();
        draws.push(performance.now() - from);
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    return { draws, frames };
  });
  draws.sort((a, b) => a - b);
  const at = (part) => draws[Math.min(draws.length - 1, Math.floor(part * draws.length))].toFixed(1) + " ms";
  const mb = (bytes) => bytes === undefined ? "-" : (bytes / 1e6).toFixed(1) + " MB";
  const late = frames.filter((time) => time > 17.5).length;
  console.log(`| ${duration} | ${records.toLocaleString("en")} | ${mb(statSync(file).size)} | ${Math.round(shown)} ms | ${mb(usedSize)} | ${mb(backingStorageSize)} `
    + `| ${at(0.5)} | ${at(0.95)} | ${at(1)} | ${frames.length} | ${late} |`);
  await page.close();
}
await browser.close();
