/** The table of plans and measurements: sorted by its heads, grouped, each row a pick for A and for B, or a table to open. */
import { setSides, setTable, show, togglePin } from "../../actions.js";
import { api } from "../../api.js";
import { plural } from "../../format.js";
import { shownColumns } from "../../items.js";
import { median } from "../../measured.js";
import { chosenSides } from "../../sides.js";
import { state } from "../../state.js";
import { breakable, h, icon } from "../common/dom.js";
import { createRemove, forget } from "../common/remove.js";
import { createScroller } from "../common/scroller.js";

/** @typedef {import("../../items.js").Item} Item */
/** @typedef {import("../../items.js").ItemColumn} ItemColumn */

/** What is written as ±0 %. */
const LEAST_DELTA = 0.0005;

export function createItemTable() {
  const scroller = createScroller("Plans and measurements", "tall");
  const acts = {
    element: scroller.element,
    update,
    pick,
    shown: (/** @type {ItemColumn[]} */ all) => shownColumns(all, state.table),
    onopen: (/** @type {Item} */ _item) => {},
  };

  /** @type {string | null} */
  let modelOfA = null;

  /** Put an item at a side; the other side stays, and where it was this one it takes the one that leaves. @param {"A" | "B"} letter @param {Item} item */
  function pick(letter, { key, rows, values }) {
    if (rows && values.step_s === null) return;
    const [a, b] = chosenSides(state);
    if (letter === "A") setSides(key, b === key ? a : b);
    else setSides(a === key ? b || "plan" : a || "plan", key);
  }

  /** @param {Item} item @param {"A" | "B"} letter @param {boolean} on */
  const picker = (item, letter, on) =>
    h("button", {
      type: "button",
      class: "pick",
      text: letter,
      "aria-pressed": String(on),
      "aria-label": `${item.label} as ${letter}`,
      onclick: () => pick(letter, item),
    });

  /** What deletes an upload. @param {Item} item */
  function removal({ summary, label }) {
    const upload = summary?.upload_id;
    if (!upload) return null;
    const all = (state.measurements ?? []).filter(({ upload_id }) => upload_id === upload);
    // a file goes as a whole, from its line
    if (all.length > 1 && state.table.find) return null;
    const remove = () => api.removeUpload(upload).then(() => forget(all.map(({ id }) => id)));
    return createRemove(label, remove, "quiet-link");
  }

  /** @param {Item} item @param {ItemColumn[]} columns */
  function row(item, columns) {
    const [a, b] = chosenSides(state);
    const whole = item.rows > 0 && item.values.step_s === null;
    const pin = h(
      "button",
      {
        type: "button",
        class: "plain-x",
        "aria-pressed": String(item.pinned),
        "aria-label": `Pin ${item.label}`,
        onclick: () => togglePin(item.key),
      },
      icon("pin"),
    );
    const open = h("button", { type: "button", class: "link name", title: item.label }, breakable(item.label));
    open.onclick = () => {
      if (item.summary) acts.onopen(item);
      else {
        pick("B", item);
        show("explore");
      }
    };
    return h(
      "tr",
      { "data-item": item.key, class: item.pinned && "pinned" },
      h(
        "td",
        { class: "picks" },
        whole ? null : [picker(item, "A", item.key === a), picker(item, "B", item.key === b)],
        item.key === "plan" ? null : pin,
      ),
      h("td", { class: "text label" }, open, " ", removal(item)),
      columns.map(({ key, number, write }) => {
        const value = item.values[key] ?? null;
        const wide = key !== "step_s" && key !== "delta";
        const kind = [!number && "text", value === null && "quiet", wide && "wide"].filter(Boolean).join(" ");
        // steps of two models are longer or shorter, none of them is better
        const isJudged = key === "delta" && Math.abs(value ?? 0) >= LEAST_DELTA && item.values.model === modelOfA;
        const better = isJudged ? (value < 0 ? " better" : " worse") : "";
        return h("td", {
          class: kind + better,
          text: value === null ? "–" : write(value),
          title: typeof value === "number" ? String(value) : null,
        });
      }),
    );
  }

  /** @param {ItemColumn} column */
  function head({ key, title, number }) {
    const { sort } = state.table;
    const now = sort.replace(/^-/, "") === key ? (sort.startsWith("-") ? "descending" : "ascending") : null;
    const next = now === "ascending" ? `-${key}` : now === "descending" ? "" : key;
    const wide = key !== "step_s" && key !== "delta" && key !== "item";
    return h(
      "th",
      { scope: "col", "aria-sort": now, class: [!number && "text", wide && "wide"].filter(Boolean).join(" ") },
      h("button", {
        type: "button",
        class: "sort",
        text: `${title || key}${now ? (now === "ascending" ? " ↑" : " ↓") : ""}`,
        onclick: () => setTable({ sort: next }),
      }),
    );
  }

  /** @param {{name: string, items: Item[]}[]} groups @param {ItemColumn[]} all */
  function update(groups, all) {
    const [a] = chosenSides(state);
    modelOfA = groups.flatMap(({ items }) => items).find(({ key }) => key === a)?.values.model ?? null;
    const columns = acts.shown(all);
    const item = /** @type {ItemColumn} */ ({ key: "item", title: "item", number: false, write: String });
    const rows = groups.flatMap(({ name, items }) => {
      const lines = items.map((one) => row(one, columns));
      if (!state.table.group) return lines;
      const step_s = median(items.map(({ values }) => values.step_s).filter((value) => value > 0));
      const words = [
        name,
        plural(items.length, "item"),
        step_s && `median step ${all.find(({ key }) => key === "step_s")?.write(step_s)}`,
      ];
      return [
        h(
          "tr",
          { class: "group" },
          h("th", { colspan: columns.length + 2, scope: "rowgroup", text: words.filter(Boolean).join(" · ") }),
        ),
        ...lines,
      ];
    });
    const focused = document.activeElement?.closest("[data-item]")?.getAttribute("data-item");
    const label = document.activeElement?.getAttribute("aria-label");
    scroller.fill(
      h(
        "table",
        { class: "items" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "text" }, h("span", { class: "sr", text: "A and B" })),
            head(item),
            columns.map(head),
          ),
        ),
        h(
          "tbody",
          {},
          rows.length
            ? rows
            : [h("tr", {}, h("td", { class: "empty", colspan: columns.length + 2, text: "Nothing has that name." }))],
        ),
      ),
    );
    // what was pressed keeps the focus though its row was made again
    if (focused && label)
      /** @type {HTMLElement | null} */ (
        scroller.element.querySelector(`[data-item="${CSS.escape(focused)}"] [aria-label="${CSS.escape(label)}"]`)
      )?.focus();
  }
  return acts;
}

/**
 * What the table shows, with full precision. @param {Item[]} items @param {ItemColumn[]} columns
 * @returns {import("../../types.js").Table}
 */
export const itemsAsTable = (items, columns) => ({
  columns: [
    { title: "item", text: true },
    ...columns.map(({ key, title, kind, number }) => ({ title: title || key, unit: kind, text: !number })),
  ],
  rows: items.map(({ label, values }) => [label, ...columns.map(({ key }) => values[key] ?? null)]),
});
