// The elements of the page.

/** @template {HTMLElement} T @param {string} id @param {{ new (): T }} Kind @returns {T} */
function byId(id, Kind) {
  const element = document.getElementById(id);
  if (!(element instanceof Kind)) throw new Error(`the page has no ${id}`);
  return element;
}

/** @param {string} id */
const stored = (id) => (document.getElementById(id)?.textContent ?? "").trim();
