// Pages look as they were approved: screenshots compared with those in `approved/`. `./x browser --approve` writes them anew.
//
// The pages show recorded traces, so no change of the simulator moves them. Their text is set in one font that the tests bring, since
// machines have different ones; what text the font lacks is hidden. What is left to differ between machines is the smoothing of edges:
// pixelmatch leaves it out, and a share of `TOLERATED` pixels may differ. The last test breaks the style on purpose, in six small ways:
// each must be found.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import UPNG from "upng-js";

const { ZEROLAG_PROGRAM: program, CHROMIUM: executablePath, ROOT: root, WORK: work, APPROVE: approve } = process.env;
const approved = join(root, "browser/approved"), shots = join(work, "shots"), built = join(root, "target/playground/index.html");
const TOLERATED = 0.001;
const traces = { marks: "browser/data/marks.zlt", build: "crates/trace/tests/data/build-2cpu.perf.data.gz" };

let browser, fonts;
before(async () => {
  mkdirSync(shots, { recursive: true });
  mkdirSync(approved, { recursive: true });
  for (const [name, trace] of Object.entries(traces)) {
    // By its path in the checkout: the title of the page is the path that was given.
    execFileSync(program, ["report", trace, "--html", join(work, `shot-${name}.html`)], { stdio: "pipe", cwd: root });
  }
  const font = (weight) => readFileSync(join(work, `node_modules/@fontsource/noto-sans/files/noto-sans-latin-${weight}-normal.woff2`)).toString("base64");
  fonts = [400, 600].map((weight) => [String(weight), font(weight)]);
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"] });
});
after(() => browser?.close());

const COVER = "* { font-family: Shot !important; caret-color: transparent !important; } .keys, #version, #status, .hint { visibility: hidden; } html { scroll-behavior: auto !important; }";

/** Sets the texts of a page and of its frames in the tests' font. From a script: the policies of frames forbid other styles and fonts. */
async function dress(page, style = "") {
  for (const frame of page.frames()) {
    await frame.evaluate(async ([fonts, style]) => {
      for (const [weight, letters] of fonts) {
        const face = new FontFace("Shot", Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0)).buffer, { weight });
        document.fonts.add(await face.load());
      }
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(style);
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
      window.zerolag?.timeline.redraw();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }, [fonts, COVER + style]);
  }
}

async function open(file, options = {}, style = "") {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
  const page = await context.newPage();
  // A canvas takes its font from a script.
  await page.addInitScript(() => {
    const own = Object.getOwnPropertyDescriptor(CanvasRenderingContext2D.prototype, "font");
    Object.defineProperty(CanvasRenderingContext2D.prototype, "font", { ...own, set(font) { own.set.call(this, font.replace(/system-ui.*|sans-serif/, "Shot")); } });
  });
  await page.goto("file://" + file);
  await page.waitForSelector("html.ready", { timeout: 60000 });
  if (file === built) {
    // It opens with a run.
    await page.waitForSelector("#run:not([disabled])", { timeout: 60000 });
    await page.frameLocator("iframe").locator("html.ready").waitFor({ timeout: 60000 });
  }
  await dress(page, style);
  return page;
}

const report = (name) => join(work, `shot-${name}.html`);
const PHONE = { viewport: { width: 390, height: 844 } };
const DARK = { colorScheme: "dark" };

/** Zooms the timeline to a part of the run and brings it into view. */
const zoomed = (from, to) => async (page) => {
  await page.evaluate(([from, to]) => {
    const { timeline } = window.zerolag, { start, end } = timeline.run;
    timeline.show(start + (end - start) * from, start + (end - start) * to);
    document.querySelector("#timeline").scrollIntoView();
  }, [from, to]);
};
const caused = async (page) => {
  await page.evaluate(() => { location.hash = "waits"; });
  await page.locator(".icicle").first().evaluate((icicle) => icicle.scrollIntoView());
};
const summed = (page) => page.locator("#waits").evaluate((waits) => waits.scrollIntoView());

const opened = async (page) => {
  // On a phone the section is folded.
  await page.evaluate(() => { location.hash = "waits"; });
  await page.locator(".waits summary").first().click();
  await page.locator(".waits").first().evaluate((waits) => waits.scrollIntoView());
};
const dropped = async (page) => {
  await page.evaluate((letters) => {
    const carried = new DataTransfer();
    carried.items.add(new File([Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0))], "marks.zlt"));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
  }, readFileSync(join(root, traces.marks)).toString("base64"));
  await page.waitForSelector(".traced iframe[title='marks.zlt']", { timeout: 60000 });
  await page.frameLocator("iframe").locator("html.ready").waitFor({ timeout: 60000 });
  await dress(page);
};

/** Without the page of the run in it: the simulator may change, and its pages are other scenes. */
const unrun = (page) => page.locator("iframe").evaluate((frame) => { frame.style.visibility = "hidden"; });

/** What is looked at: a name, a page, its options, and what is done before. */
const SCENES = [
  ["report", report("build"), {}],
  ["report-dark", report("build"), DARK],
  ["report-phone", report("build"), PHONE],
  ["timeline", report("build"), {}, zoomed(0, 1)],
  ["timeline-near", report("build"), {}, zoomed(0.5, 0.502)],
  ["timeline-near-dark", report("build"), DARK, zoomed(0.5, 0.502)],
  ["marks", report("marks"), {}, zoomed(0, 1)],
  ["waits", report("build"), {}, opened],
  ["causes", report("build"), {}, summed],
  ["causes-dark", report("build"), DARK, caused],
  ["causes-phone", report("build"), PHONE, caused],
  ["waits-phone-dark", report("build"), { ...PHONE, ...DARK }, opened],
  ["print", report("build"), {}, (page) => page.emulateMedia({ media: "print" })],
  ["playground", built, {}, unrun],
  ["playground-dark", built, DARK, unrun],
  ["playground-phone", built, PHONE, unrun],
  ["playground-trace", built, {}, dropped],
];

async function shoot([, file, options, act], style = "") {
  const page = await open(file, options, style);
  await act?.(page);
  await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 150)));
  const bytes = await page.screenshot({ animations: "disabled" });
  await page.context().close();
  return bytes;
}

/** The share of the pixels that differ, and the picture of the differences. */
function compare(one, other) {
  const [a, b] = [PNG.sync.read(one), PNG.sync.read(other)];
  if (a.width !== b.width || a.height !== b.height) return { share: 1, picture: b };
  const picture = new PNG({ width: a.width, height: a.height });
  const count = pixelmatch(a.data, b.data, picture.data, a.width, a.height, { threshold: 0.12, includeAA: false });
  return { share: count / (a.width * a.height), picture };
}

for (const scene of SCENES) {
  const [name, file] = scene, path = join(approved, name + ".png");
  test(`${name} looks as approved`, { skip: file === built && !existsSync(built) ? "./x playground has not been run" : false }, async () => {
    const shot = await shoot(scene);
    writeFileSync(join(shots, name + ".png"), shot);
    if (approve) {
      // Without loss, and a third smaller than Chromium's own.
      const { data, width, height } = PNG.sync.read(shot);
      return writeFileSync(path, Buffer.from(UPNG.encode([data.buffer.slice(data.byteOffset, data.byteOffset + data.length)], width, height, 0)));
    }
    const { share, picture } = compare(readFileSync(path), shot);
    if (share > TOLERATED) writeFileSync(join(shots, name + ".differs.png"), PNG.sync.write(picture));
    assert.ok(share <= TOLERATED, `${(share * 100).toFixed(2)} % of the pixels differ (${TOLERATED * 100} % are tolerated): see target/browser/shots/${name}.png `
      + `and ${name}.differs.png; if it is meant so, ./x browser --approve`);
  });
}

test("a style that is broken on purpose is found", async () => {
  const broken = [
    ["report", ".answer { border-left-width: 12px; margin-left: 4px; }"],
    ["report", ".plot .k0s { stroke: #d55e00; } .plot .k0 { fill: #d55e00; }"],
    ["report-phone", ".figures { margin-left: 6px; }"],
    ["report-dark", "body { background: #ffffff; }"],
    ["waits", ".waits summary { padding: 10px 4px; }"],
    ["waits", ".why { display: none; }"],
  ];
  for (const [name, style] of broken) {
    const scene = SCENES.find(([other]) => other === name);
    const { share } = compare(readFileSync(join(approved, name + ".png")), await shoot(scene, style));
    assert.ok(share > TOLERATED, `${name} with ${style}: only ${(share * 100).toFixed(3)} % differ`);
  }
});
