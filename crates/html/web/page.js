// Starts the page: unpacks its data, fills in what needs a script, and keeps the view in the address.

const VIEW = "#view:";

/** Reads a view from an address. @param {string} hash @returns {URLSearchParams | null} */
function readView(hash) {
  return hash.startsWith(VIEW) ? new URLSearchParams(hash.slice(VIEW.length).replaceAll(",", "&")) : null;
}

/** The height, in pixels, that a page on a phone does not exceed before a reader asks for more. */
const TALL = 3900;

/** Folds the sections for which a phone has no room: the first that fit stay. */
function foldTall() {
  if (!matchMedia("(max-width: 640px)").matches) return;
  for (const section of [...document.querySelectorAll("main > section")].reverse()) {
    const head = section.querySelector(":scope > h2");
    if (!head || document.documentElement.scrollHeight <= TALL) continue;
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    const fold = (/** @type {boolean} */ isShort) => {
      section.classList.toggle("short", isShort);
      button.setAttribute("aria-expanded", String(!isShort));
    };
    button.addEventListener("click", () => fold(!section.classList.contains("short")));
    section.addEventListener("unfold", () => fold(false));
    head.append(button);
    fold(true);
  }
}

/** Unfolds all that an element is in, and what it is the section of. @param {Element} element */
function unfold(element) {
  const own = element.querySelector(":scope > details.fold");
  if (own instanceof HTMLDetailsElement) own.open = true;
  for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  element.closest("section")?.dispatchEvent(new Event("unfold"));
}

/** Shows the section that an address names. */
function showNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (!named) return;
  unfold(named);
  named.scrollIntoView();
}

async function start() {
  for (const region of document.querySelectorAll(".wide")) {
    const table = region.querySelector("table");
    if (table) bindTable(table, (region.getAttribute("aria-label") ?? "").replace(/, table$/, ""));
  }
  document.querySelectorAll(".icicle").forEach(bindIcicle);
  addEventListener("hashchange", showNamed);
  const store = document.getElementById("data");
  const home = document.getElementById("tl");
  const { head, columns } = await unpack((store?.textContent ?? "").trim());
  // Its text is not needed again.
  store?.remove();
  /** @type {Timeline | null} */
  let shown = null;
  bindPlots(head, (from, to) => shown?.show(from, to));
  if (!home || !head.runs.length) {
    foldTall();
    return showNamed();
  }
  let timer = 0;
  let own = "";
  const timeline = new Timeline(home, head.runs, columns, () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      own = VIEW + timeline.place();
      try {
        history.replaceState(null, "", own);
      } catch {
        // Some viewers do not let a page change its address.
      }
      parent.postMessage({ zerolag: "view", view: own }, "*");
    }, 250);
  }, typeof askServer === "function" ? askServer : null);
  shown = timeline;
  const apply = () => {
    const view = readView(location.hash);
    if (!view || location.hash === own) return;
    timeline.go(view);
    // A shared link leads to what it shows.
    unfold(home);
    home.scrollIntoView();
  };
  // The page around a frame keeps the view of its link.
  addEventListener("message", ({ source, data }) => {
    const view = source === parent && source !== window && typeof data?.view === "string" ? readView(data.view) : null;
    if (view) timeline.go(view);
  });
  /** Explained waits by run, task and end. @type {Map<string, HTMLDetailsElement>} */
  const explained = new Map();
  for (const button of document.querySelectorAll("button.jump")) {
    const details = button.closest("details");
    if (details) explained.set(["run", "task", "to"].map((key) => button.getAttribute("data-" + key)).join(), details);
  }
  timeline.explain = (run, task, to) => {
    const details = explained.get([run, task, to].join());
    return details ? () => {
      unfold(details);
      details.open = true;
      details.scrollIntoView({ block: "center" });
      details.querySelector("summary")?.focus({ preventScroll: true });
    } : null;
  };
  foldTall();
  showNamed();
  apply();
  addEventListener("hashchange", apply);
  for (const button of document.querySelectorAll("button.jump")) {
    button.addEventListener("click", () => {
      const number = (/** @type {string} */ key) => Number(button.getAttribute("data-" + key));
      const task = button.getAttribute("data-task") ? number("task") : -1;
      unfold(home);
      timeline.jump(number("run"), task, number("from"), number("to"));
    });
  }
  if (parent !== window) parent.postMessage({ zerolag: "ready" }, "*");
  // For tests: what the timeline shows, and how long it took to draw.
  Object.defineProperty(window, "zerolag", { value: { timeline } });
}

document.documentElement.classList.add("js");
start().then(() => document.documentElement.classList.add("ready"), (error) => {
  const home = document.getElementById("tl");
  if (home) {
    home.hidden = false;
    home.textContent = `The timeline cannot be shown: ${error instanceof Error ? error.message : error}. This needs a browser of 2023 or later.`;
  }
});
