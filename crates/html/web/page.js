// Starts the page: unpacks its data, fills in what needs a script, and keeps the view in the address.

const VIEW = "#view:";

/** Reads a view from an address. @param {string} hash @returns {URLSearchParams | null} */
function readView(hash) {
  return hash.startsWith(VIEW) ? new URLSearchParams(hash.slice(VIEW.length).replaceAll(",", "&")) : null;
}

async function start() {
  const store = document.getElementById("data");
  const home = document.getElementById("tl");
  const { head, columns } = await unpack((store?.textContent ?? "").trim());
  // Its text is not needed again.
  store?.remove();
  /** @type {Timeline | null} */
  let shown = null;
  bindPlots(head, (from, to) => shown?.show(from, to));
  if (!home || !head.runs.length) return;
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
    if (view && location.hash !== own) timeline.go(view);
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
      details.open = true;
      details.scrollIntoView({ block: "center" });
      details.querySelector("summary")?.focus({ preventScroll: true });
    } : null;
  };
  apply();
  addEventListener("hashchange", apply);
  for (const button of document.querySelectorAll("button.jump")) {
    button.addEventListener("click", () => {
      const number = (/** @type {string} */ key) => Number(button.getAttribute("data-" + key));
      const task = button.getAttribute("data-task") ? number("task") : -1;
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
