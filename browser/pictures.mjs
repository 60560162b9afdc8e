// Writes the pictures of docs/lab/pages: eight reports and the playground, each light, dark and on a phone, with few colours, so that they
// stay small. `./x browser --pictures`; look at each before it is committed.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { PNG } from "pngjs";
import UPNG from "upng-js";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const out = join(root, "docs/lab/pages"), built = join(root, "target/playground/index.html");
const REPORTS = {
  run: ["run", "-q", "examples/web-service-limit.toml"],
  compare: ["compare", "-q", "examples/upgrade.toml", "--kernel", "5.15", "--kernel", "6.12"],
  sweep: ["sweep", "-q", "examples/web-service-limit.toml", "--set", "burst=0s,50ms,100ms,200ms", "--set", "kernel=5.15,6.12"],
  explain: ["explain", "-q", "examples/web-service-limit.toml"],
  advise: ["advise", "-q", "examples/web-service-limit.toml", "-d", "5s", "--seeds", "3", "--risk", "20%", "--goal", "p99 <= 40ms"],
  "what-if": ["explain", "-q", "examples/web-service-limit.toml", "--what-if", "burst=200ms", "--worst", "5"],
  timerlat: ["timerlat", "hist", "-q", "-u", "-d", "3s", "--cpus", "4", "--load", "build"],
  validate: ["validate", "-q", "conformance"],
};
const LOOKS = {
  light: { viewport: { width: 1100, height: 760 } },
  dark: { viewport: { width: 1100, height: 760 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1.5 },
};

mkdirSync(out, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

async function keep(page, name) {
  await page.waitForTimeout(300);
  const { data, width, height } = PNG.sync.read(await page.screenshot());
  const bytes = Buffer.from(UPNG.encode([data.buffer.slice(data.byteOffset, data.byteOffset + data.length)], width, height, 64));
  writeFileSync(join(out, name + ".png"), bytes);
  console.log(`${name}.png: ${bytes.length} bytes`);
}

for (const [name, args] of Object.entries(REPORTS)) {
  const file = join(work, `picture-${name}.html`);
  try {
    execFileSync(program, [...args, "--html", file], { cwd: root, stdio: "pipe" });
  } catch (error) {
    if (error.status !== 99) throw error;
  }
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await browser.newPage({ ...options, reducedMotion: "reduce" });
    await page.goto("file://" + file);
    await page.waitForSelector("html.ready");
    await keep(page, `${name}-${look}`);
    if (name === "run" && look !== "phone") {
      // The timeline, at the longest wait.
      await page.locator(".waits summary").first().click();
      await page.locator("button.jump").first().click();
      await keep(page, `timeline-${look}`);
    }
    await page.close();
  }
}
if (existsSync(built)) {
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await browser.newPage({ ...options, reducedMotion: "reduce", viewport: look === "phone" ? options.viewport : { width: 1400, height: 860 } });
    await page.goto("file://" + built);
    await page.waitForSelector("html.ready", { timeout: 60000 });
    const ran = async () => {
      await page.waitForSelector("#run:not([disabled])", { timeout: 120000 });
      await page.frameLocator("iframe:not(.pinned)").locator("html.ready").waitFor({ timeout: 120000 });
    };
    await ran();
    if (look !== "phone") {
      await page.selectOption("#lessons", look === "dark" ? "9" : "2");
      await ran();
      // A few decisions on: the reason of one, and where it is in the rows.
      for (let i = 0; i < (look === "dark" ? 40 : 6); i++) await page.frameLocator("iframe").locator("button", { hasText: "step ›" }).click();
    }
    if (look === "phone") await page.evaluate(() => scrollTo(0, 0));
    await keep(page, `playground-${look}`);
    await page.close();
  }
}
await browser.close();
