// Starts the page: unpacks its data, fills in what needs a script, and keeps the view in the address.

const VIEW = "#view:";

/** Reads a view from the address. @returns {URLSearchParams | null} */
function readView() {
  return location.hash.startsWith(VIEW) ? new URLSearchParams(location.hash.slice(VIEW.length).replaceAll(",", "&")) : null;
}

async function start() {
  const store = document.getElementById("data");
  const home = document.getElementById("tl");
  const { head, columns } = await unpack((store?.textContent ?? "").trim());
  // Its text is not needed again.
  store?.remove();
  bindPlots(head);
  if (!home || !head.runs.length) return;
  let timer = 0;
  let own = "";
  const timeline = new Timeline(home, head.runs, columns, () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      own = `${VIEW}run=${timeline.index},from=${Math.round(timeline.from)},to=${Math.round(timeline.to)}`;
      try {
        history.replaceState(null, "", own);
      } catch {
        // Some viewers do not let a page change its address.
      }
      parent.postMessage({ zerolag: "view", view: own }, "*");
    }, 250);
  }, typeof askServer === "function" ? askServer : null);
  const apply = () => {
    const view = readView();
    if (!view || location.hash === own) return;
    const index = Number(view.get("run")), from = Number(view.get("from")), to = Number(view.get("to"));
    if (index !== timeline.index && head.runs[index]) timeline.choose(index);
    if (to > from) timeline.show(from, to);
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
