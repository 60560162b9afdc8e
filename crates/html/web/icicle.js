// Icicles: the drawing is in the page; this shows a bar as wide as the drawing, and says what each is.

/** @param {Element} home */
function bindIcicle(home) {
  const svg = home.querySelector("svg");
  if (!svg) return;
  const all = [...svg.children].map((element) => {
    const [x, width, row] = ["x", "width", "data-row"].map((key) => parseFloat(element.getAttribute(key) ?? "0"));
    return { element: /** @type {SVGSVGElement} */ (element), from: x, to: x + width, row, says: element.getAttribute("data-says") ?? "" };
  });
  if (!all.length) return;
  /** @typedef {typeof all[0]} Bar */
  const whole = make("button", { type: "button", class: "whole" }, "all waits");
  whole.hidden = true;
  home.append(whole);
  let current = all[0], from = 0, to = 100;
  const isShown = (/** @type {Bar} */ bar) => bar.to - from > 1e-3 && to - bar.from > 1e-3;
  const isBelow = (/** @type {Bar} */ bar, /** @type {Bar} */ above) => bar.row > above.row && bar.from > above.from - 1e-3 && bar.to < above.to + 1e-3;
  /** Shows a part of the whole as wide as the drawing. @param {number} low @param {number} high */
  const show = (low, high) => {
    [from, to] = [low, high];
    whole.hidden = to - from > 99.99;
    for (const bar of all) {
      const place = (/** @type {number} */ at) => Math.min(100, Math.max(0, (at - from) / (to - from) * 100));
      bar.element.setAttribute("x", place(bar.from) + "%");
      bar.element.setAttribute("width", place(bar.to) - place(bar.from) + "%");
      bar.element.setAttribute("display", isShown(bar) ? "inline" : "none");
    }
    hideTip();
  };
  /** The bar that has the only tab stop. @param {Bar | undefined} bar */
  const choose = (bar) => {
    if (!bar) return;
    current.element.setAttribute("tabindex", "-1");
    current = bar;
    bar.element.setAttribute("tabindex", "0");
    bar.element.focus();
  };
  const tell = (/** @type {Bar} */ bar, /** @type {number} */ x, /** @type {number} */ y) => showTip(bar.says.split("\n"), x, y);
  svg.setAttribute("role", "tree");
  for (const bar of all) {
    const { element } = bar;
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(bar.row + 1));
    element.setAttribute("aria-label", bar.says.replace("\n", ": "));
    element.setAttribute("tabindex", bar === current ? "0" : "-1");
    element.addEventListener("click", () => { choose(bar); show(bar.from, bar.to); });
    element.addEventListener("pointermove", (event) => tell(bar, event.clientX, event.clientY));
    element.addEventListener("pointerleave", hideTip);
    element.addEventListener("blur", hideTip);
    element.addEventListener("focus", () => {
      const box = element.getBoundingClientRect();
      if (element.matches(":focus-visible")) tell(bar, box.left + Math.min(40, box.width / 2), box.bottom - 8);
    });
  }
  whole.addEventListener("click", () => { show(0, 100); choose(all[0]); });
  svg.addEventListener("keydown", (event) => {
    const beside = all.filter((bar) => bar.row === current.row && isShown(bar)), at = beside.indexOf(current);
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowRight: () => choose(beside[at + 1]), ArrowLeft: () => choose(beside[at - 1]),
      ArrowDown: () => choose(all.find((bar) => bar.row === current.row + 1 && isBelow(bar, current))),
      ArrowUp: () => choose(all.find((bar) => bar.row === current.row - 1 && isBelow(current, bar))),
      Enter: () => show(current.from, current.to), " ": () => show(current.from, current.to), Escape: () => show(0, 100),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}
