/** Kernels of A beside those of B, matched by name and shape, else by the work that they do; the selected cause first. */
import { change, scaleFor, significant } from "../../format.js";
import { categoryIn, tokenOfKey } from "../../figures/base.js";
import { matched } from "../../figures/matched.js";
import { state } from "../../state.js";
import { breakable, h, put, swatch } from "../common/dom.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/** @typedef {import("../../figures/matched.js").Matched} Matched */

const SHOWN = 60;
const LONG = 72;
const KEYS = /** @type {const} */ (["name", "shape", "category", "a_count", "a_s", "b_count", "b_s", "by"]);

/** The kernels that the page sets side by side now. */
const matchedNow = () => {
  const { pair, measurement, catalog } = state;
  return pair ? matched(pair, measurement?.expected?.ops, catalog.sends) : [];
};

/** @param {string} text */
const brief = (text) => (text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text);

/** @param {{name: () => string}} options */
export function createKernels({ name }) {
  const sub = h("span", { class: "sub" });
  const box = createScroller("Kernels of A and B", "tall");
  /** @type {Matched[]} */
  let rows = [];
  let all = false;
  const save = createTableSave({
    title: "Kernels",
    name: () => `${name()}-kernels`,
    tables: () => [{ columns: KEYS.map((title) => ({ title })), rows: rows.map((row) => KEYS.map((key) => row[key])) }],
  });
  const element = h(
    "section",
    { class: "card", id: "kernels" },
    h("header", {}, h("h3", { text: "Kernels" }), sub, h("span", { class: "acts" }, save)),
    box.element,
  );

  function update() {
    const { pair, selected, catalog } = state;
    if (!pair) return;
    rows = matchedNow();
    const wanted = categoryIn(selected, catalog.categories);
    const inside = wanted ? rows.filter(({ category }) => category === wanted) : [];
    const rest = rows.filter((row) => !inside.includes(row));
    const scale = scaleFor(Math.max(0, ...rows.map(({ a_s, b_s }) => Math.max(a_s ?? 0, b_s ?? 0))), "s");
    const text = (/** @type {number | null} */ value) => (value === null ? "–" : significant(value / scale.factor));
    const sum = (/** @type {Matched[]} */ some, /** @type {"a_s" | "b_s"} */ key) =>
      some.reduce((whole, row) => whole + (row[key] ?? 0), 0);
    const line = (/** @type {Matched} */ row) => {
      const { names, by, a_s, b_s } = row;
      const other = by === "work" ? names[1] : "";
      const both = a_s !== null && b_s !== null;
      return h(
        "tr",
        {},
        h(
          "td",
          { class: "wrap", title: [...new Set(names.filter(Boolean))].join(" ⇄ ") },
          swatch(tokenOfKey(catalog.categories, row.category)),
          breakable(brief(row.name)),
          other ? h("small", {}, " ⇄ ", breakable(brief(other))) : null,
        ),
        h("td", { class: "wide text", text: brief(row.shape) }),
        h("td", {
          class: "wide",
          text: [row.a_count, row.b_count].map((n) => (n ? significant(n, 6) : "–")).join(" / "),
        }),
        h("td", { text: text(a_s), title: a_s === null ? null : String(a_s) }),
        h("td", { text: text(b_s), title: b_s === null ? null : String(b_s) }),
        h("td", { text: both ? `${b_s >= a_s ? "+" : "−"}${text(Math.abs(b_s - a_s))}` : "" }),
        h("td", { class: "wide", text: both && a_s ? change(b_s / a_s - 1) : "" }),
      );
    };
    const head = (/** @type {string} */ title, /** @type {Matched[]} */ some) =>
      h(
        "tr",
        { class: "group" },
        h("th", { scope: "rowgroup" }, h("span", { text: title })),
        h("td", { class: "wide" }),
        h("td", { class: "wide" }),
        h("td", { text: text(sum(some, "a_s")) }),
        h("td", { text: text(sum(some, "b_s")) }),
        h("td"),
        h("td", { class: "wide" }),
      );
    const label = catalog.categories.find(({ key }) => key === wanted)?.label ?? wanted;
    const joined = rows.filter(({ by }) => by);
    put(
      sub,
      joined.length
        ? `${joined.length} of ${rows.length} in both, by name and shape or by their work`
        : `${rows.length} of one side`,
    );
    if (!rows.length) return box.fill(h("p", { class: "empty", text: "Neither side names kernels." }));
    const most = all ? Infinity : SHOWN;
    const hidden = rest.length - Math.min(rest.length, most);
    const more = hidden
      ? h("button", {
          type: "button",
          class: "ghost",
          text: `Show ${hidden} more`,
          onclick: () => {
            all = true;
            update();
          },
        })
      : null;
    const table = grid(
      ["kernel or op", "shape", "calls A / B", `A, ${scale.unit}`, `B, ${scale.unit}`, "B − A", "B over A"],
      [
        ...(inside.length ? [head(label, inside), ...inside.slice(0, most).map(line), head("the rest", rest)] : []),
        ...rest.slice(0, most).map(line),
      ],
      { texts: [1], wide: [1, 2, 6] },
    );
    return box.fill(...[table, more].filter((one) => one !== null));
  }
  return { element, update };
}
