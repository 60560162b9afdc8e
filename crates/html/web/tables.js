// Tables: a click on a head sorts by its column, and a button gives the rows as CSV.

/** Factors of units, so that 900us is less than 1.2ms. @type {Record<string, number>} */
const UNITS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, "%": 1 };

/** The number that a cell begins with, in the unit of its column's others; NaN for words. @param {string} text */
function numberOf(text) {
  // A factor is told as percent below it: x3.0 stands where +200% would.
  if (/^x\d/.test(text)) return (Number(text.slice(1)) - 1) * 100;
  const [, number, unit] = /^[<>~]?\s*([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(ns|us|ms|s|%)?(?![\w])/.exec(text) ?? [];
  return number === undefined ? NaN : Number(number) * (UNITS[unit] ?? 1);
}

/** @param {string} text */
function csvField(text) {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {HTMLTableElement} table @param {string} name */
function bindTable(table, name) {
  const heads = [...table.tHead?.rows[0].cells ?? []], body = table.tBodies[0];
  if (!heads.length || !body) return;
  const textOf = (/** @type {HTMLTableRowElement} */ row, /** @type {number} */ column) => row.cells[column]?.textContent ?? "";
  const sort = (/** @type {number} */ column) => {
    const head = heads[column], isNumber = head.classList.contains("n");
    // Of numbers the largest are looked for first, of names the first.
    const falls = head.ariaSort ? head.ariaSort === "ascending" : isNumber;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    // As a decimal 5.15 would be older than 5.4.
    const isVersion = head.textContent === "kernel";
    const keyed = [...body.rows].map((row) => ({ row, text: textOf(row, column), number: isVersion ? NaN : numberOf(textOf(row, column)) }));
    const sign = falls ? -1 : 1;
    keyed.sort((a, b) => {
      // A row without a value is last, whichever way.
      if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
      return sign * (Number.isNaN(a.number) ? a.text.localeCompare(b.text, undefined, { numeric: true }) : a.number - b.number);
    });
    body.append(...keyed.map(({ row }) => row));
  };
  heads.forEach((head, column) => {
    if (!head.textContent || body.rows.length < 2) return;
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.append(button);
  });
  const save = make("button", { type: "button", class: "csv", "aria-label": `${name} as CSV` }, "CSV");
  save.addEventListener("click", () => {
    const lines = [...table.rows].map((row) => [...row.cells].map((cell) => csvField(cell.textContent ?? "")).join(","));
    const address = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    make("a", { href: address, download: name.replace(/\W+/g, "-").toLowerCase() + ".csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });
  table.parentElement?.after(save);
}
