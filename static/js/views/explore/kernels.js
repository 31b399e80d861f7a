/** Kernels of A beside those of B, matched by name: calls, seconds, and where the difference is. The selected cause first. */
import { change, csv, seconds, significant } from "../../format.js";
import { tokenOfKey } from "../../figures/base.js";
import { worksOf, worksOfKernels } from "../../figures/points.js";
import { state } from "../../state.js";
import { download, h, put, swatch } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/** @typedef {{name: string, category: string, a_s: number | null, b_s: number | null, a_count: number, b_count: number}} Matched */

const SHOWN = 120;

/** @param {import("../../sides.js").Side | null} side @returns {import("../../figures/points.js").Work[]} */
function worksIn(side) {
  if (!side) return [];
  if (side.estimate) return worksOf(side.estimate.ops);
  return worksOfKernels(side.measurement?.kernels ?? []);
}

/** @param {import("../../sides.js").Pair} pair @returns {Matched[]} */
export function matched({ a, b }) {
  /** @type {Map<string, Matched>} */
  const found = new Map();
  for (const [side, letter] of /** @type {const} */ ([
    [a, "a"],
    [b, "b"],
  ]))
    for (const work of worksIn(side)) {
      const row = found.get(work.name) ?? {
        name: work.name,
        category: work.category,
        a_s: null,
        b_s: null,
        a_count: 0,
        b_count: 0,
      };
      row[`${letter}_s`] = (row[`${letter}_s`] ?? 0) + work.seconds;
      row[`${letter}_count`] += work.count;
      found.set(work.name, row);
    }
  const size = (/** @type {Matched} */ row) => Math.abs((row.b_s ?? 0) - (row.a_s ?? 0));
  return [...found.values()].sort((x, y) => size(y) - size(x));
}

/** @param {{name: () => string}} options */
export function createKernels({ name }) {
  const sub = h("span", { class: "sub" });
  const box = createScroller("Kernels of A and B", "tall");
  /** @type {Matched[]} */
  let rows = [];
  const keys = /** @type {const} */ (["name", "category", "a_count", "a_s", "b_count", "b_s"]);
  const save = () =>
    download(
      `${name()}-kernels.csv`,
      csv({ columns: keys.map((title) => ({ title })), rows: rows.map((row) => keys.map((key) => row[key])) }),
    );
  const element = h(
    "section",
    { class: "card", id: "kernels" },
    h(
      "header",
      {},
      h("h3", { text: "Kernels" }),
      sub,
      h(
        "span",
        { class: "acts" },
        h("button", { type: "button", text: "CSV", "aria-label": "Kernels: download CSV", onclick: save }),
      ),
    ),
    box.element,
  );

  function update() {
    const { pair, selected, catalog } = state;
    if (!pair) return;
    rows = matched(pair);
    const wanted = selected.split(" ")[0];
    const inside = wanted ? rows.filter(({ category }) => category === wanted) : [];
    const rest = rows.filter((row) => !inside.includes(row));
    const sum = (/** @type {Matched[]} */ some, /** @type {"a_s" | "b_s"} */ key) =>
      some.reduce((all, row) => all + (row[key] ?? 0), 0);
    const text = (/** @type {number | null} */ value) => (value === null ? "–" : seconds(value));
    const line = (/** @type {Matched} */ row) =>
      h(
        "tr",
        {},
        h(
          "td",
          { class: "wrap" },
          swatch(tokenOfKey(catalog.categories, row.category)),
          row.name.length > 90 ? `${row.name.slice(0, 89)}…` : row.name,
        ),
        h("td", {
          class: "wide",
          text: [row.a_count, row.b_count].map((n) => (n ? significant(n, 6) : "–")).join(" / "),
        }),
        h("td", { text: text(row.a_s) }),
        h("td", { text: text(row.b_s) }),
        h("td", { text: row.a_s !== null && row.b_s !== null ? change(row.b_s / (row.a_s || 1) - 1) : "" }),
      );
    const head = (/** @type {string} */ title, /** @type {Matched[]} */ some) =>
      h(
        "tr",
        { class: "group" },
        h("th", { scope: "rowgroup", colspan: 2 }, h("span", { text: title })),
        h("td", { text: text(sum(some, "a_s")) }),
        h("td", { text: text(sum(some, "b_s")) }),
        h("td"),
      );
    const label = catalog.categories.find(({ key }) => key === wanted)?.label ?? wanted;
    put(sub, `${rows.length} by name; device seconds of one step`);
    if (!rows.length) return box.fill(h("p", { class: "empty", text: "Neither side names kernels." }));
    return box.fill(
      grid(
        ["kernel or op", "calls A / B", "A", "B", "B over A"],
        [
          ...(inside.length ? [head(label, inside), ...inside.slice(0, SHOWN).map(line), head("the rest", rest)] : []),
          ...rest.slice(0, SHOWN).map(line),
        ],
        { wide: [1] },
      ),
    );
  }
  return { element, update };
}
