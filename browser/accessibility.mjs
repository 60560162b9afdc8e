// Prints the accessibility report of docs/lab: the rules of axe on each page that `./x browser --pictures` made, in light and dark.
// `./x browser --accessibility`, after that.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { CHROMIUM: executablePath, ROOT: root, WORK: work } = process.env;
const pages = ["run", "explain", "compare", "sweep", "advise", "what-if", "timerlat", "validate"].map((name) => [name, join(work, `picture-${name}.html`)]);
pages.push(["playground", join(root, "target/playground/index.html")]);
const axe = readFileSync(join(work, "node_modules/axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
console.log(`axe ${JSON.parse(readFileSync(join(work, "node_modules/axe-core/package.json"), "utf8")).version}, ${TAGS.join(", ")}; Chromium ${browser.version()}\n`);
console.log("| page | scheme | rules passed | violated | undecided by axe |\n|---|---|--:|--:|---|");
for (const [name, file] of pages.filter(([, file]) => existsSync(file))) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme, bypassCSP: true, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.goto("file://" + file);
    await page.waitForSelector("html.ready", { timeout: 60000 });
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    await page.evaluate(axe);
    const found = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), TAGS);
    const undecided = found.incomplete.map((rule) => `${rule.id} (${rule.nodes.length})`).join(", ");
    console.log(`| ${name} | ${colorScheme} | ${found.passes.length} | ${found.violations.map((rule) => rule.id).join(", ") || 0} | ${undecided || "-"} |`);
    await context.close();
  }
}
await browser.close();
