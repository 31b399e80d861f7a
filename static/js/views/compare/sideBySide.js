/**
 * The table of a comparison: one line per item, deltas against the chosen baseline; and what their settings differ
 * in.
 */
import { setBaseline } from "../../actions.js";
import { arrow, bytes, change, csv, percent, quantity, seconds, short, significant } from "../../format.js";
import { same } from "../../scenario.js";
import { breakable, download, h, icon } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { columnOf, grid } from "../common/table.js";

/** @typedef {{items: any[], deltas: any[], differences: {field: string, values: any[]}[]}} Comparison */

const HEADS = ["item", "", "step time", "", "tokens\u200b/s", "MFU", "peak memory", "", "status", ""];
/** Columns that stand under another where narrow. */
const WIDE = [2, 4, 8, 9];
const LONGEST = 28;

export function createSideBySide() {
  /** @type {Comparison | null} */
  let shown = null;
  const table = createScroller("Compared");
  const button = (/** @type {string} */ text, /** @type {(now: Comparison) => void} */ act) =>
    h("button", {
      type: "button",
      text,
      "aria-label": `Side by side: download ${text}`,
      onclick: () => shown && act(shown),
    });
  const json = (/** @type {Comparison} */ now) =>
    download("headroom-compare.json", JSON.stringify(now, null, 2), "application/json");
  const back = h("button", { type: "button", class: "link", text: "Add Explore's scenario", hidden: true });
  const element = h(
    "section",
    { class: "card w12", id: "compared" },
    h(
      "header",
      {},
      h("h3", { text: "Side by side" }),
      h("span", { class: "sub", text: "deltas against the chosen baseline" }),
      back,
      h("span", { class: "acts" }, button("CSV", save), button("JSON", json)),
    ),
    table.element,
  );

  /** @param {(() => void) | null} act  brings the scenario of Explore back */
  function offer(act) {
    back.hidden = !act;
    back.onclick = act;
  }

  /**
   * @param {Comparison} comparison @param {number} baseline
   * @param {(() => void)[]} removes  take an item out @param {(() => void) | null} act
   */
  function update(comparison, baseline, removes, act) {
    shown = comparison;
    offer(act);
    const row = (/** @type {any} */ item, /** @type {number} */ at) =>
      line(item, comparison.deltas[at], at, baseline, removes[at]);
    const heads = [h("span", { class: "wide", text: "baseline" }), ...HEADS];
    table.fill(grid(heads, comparison.items.map(row), { texts: [1, 2], wide: WIDE }));
  }

  /** @param {(() => void) | null} act */
  function empty(act) {
    shown = null;
    offer(act);
    const text = "Nothing is compared: pick a measurement, pin a scenario in Explore, or add Explore's own.";
    table.fill(h("p", { class: "empty", text }));
  }
  return { element, update, empty };
}

/** That steps were disturbed, whose fastest is shown. @param {any} item */
const disturbed = ({ disturbance }) => (disturbance ? `disturbed: steps differ by ${disturbance.toFixed(1)}×` : "");

/** @param {any} item @param {any} its  deltas @param {number} at @param {number} baseline @param {() => void} remove */
function line(item, its, at, baseline, remove) {
  const of = at === baseline ? null : its;
  const choose = h("input", {
    type: "radio",
    name: "baseline",
    checked: at === baseline,
    "aria-label": `Baseline: ${item.label}`,
    onchange: () => setBaseline(at),
  });
  return h(
    "tr",
    {},
    h("td", {}, choose),
    h(
      "td",
      { class: "label", title: item.label },
      h("span", { class: "clamp", text: item.label }),
      h("small", {
        class: "stacked",
        text: [item.kind, item.status !== "ok" && item.status, disturbed(item)].filter(Boolean).join(", "),
      }),
    ),
    h("td", { class: "wide text quiet", text: item.kind }),
    h("td", {}, seconds(item.step_time_s), delta("small", of?.step_time_frac)),
    delta("td", of?.step_time_frac),
    h("td", { text: item.tokens_per_s ? short(item.tokens_per_s) : "–" }),
    h("td", { text: percent(item.mfu) }),
    h("td", {}, bytes(item.memory?.peak_bytes), delta("small", of?.peak_bytes_frac)),
    delta("td", of?.peak_bytes_frac),
    h("td", { class: "wide", text: disturbed(item) || (item.status ?? "") }),
    h(
      "td",
      {},
      h(
        "button",
        { type: "button", class: "plain-x", "aria-label": `Take out ${item.label}`, onclick: remove },
        icon("close"),
      ),
    ),
  );
}

/**
 * Less is better for time and for memory; the change has its own cell, or stands under its number where narrow.
 * @param {"td" | "small"} tag @param {number | null | undefined} frac
 */
function delta(tag, frac) {
  const where = tag === "td" ? "wide" : "stacked";
  if (frac === null || frac === undefined) return h(tag, { class: where });
  const colour = Math.abs(frac) < 0.0005 ? "" : frac < 0 ? "better" : "worse";
  return h(tag, { class: `${where} ${colour}`, text: `${arrow(frac)}${tag === "td" ? " " : ""}${change(frac)}` });
}

/** @param {Comparison} comparison */
function save({ items }) {
  const categories = [...new Set(items.flatMap(({ breakdown_s }) => Object.keys(breakdown_s ?? {})))];
  const titles = ["label", "kind", "step_time_s", "tokens_per_s", "mfu", "peak_bytes"];
  const rows = items.map((item) => [
    ...titles.map((title) => (title === "peak_bytes" ? item.memory?.peak_bytes : item[title])),
    ...categories.map((name) => item.breakdown_s?.[name]),
  ]);
  const columns = [...titles, ...categories.map((name) => `${name}_s`)].map((title) => ({ title }));
  download("headroom-compare.csv", csv({ columns, rows }));
}

export function createDifferences() {
  const element = h("section", { class: "card w12", id: "differences" });

  /** @param {Comparison} comparison @param {number} baseline */
  function update({ items, differences }, baseline) {
    const known = items.filter(({ scenario }) => Object.keys(scenario ?? {}).length).length;
    const sub =
      known < 2
        ? "fewer than two of these record their settings"
        : differences.length
          ? "only what differs"
          : "no recorded setting differs";
    const heads = items.map(({ label }) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label));
    const cell = (/** @type {string} */ field, /** @type {any} */ value, /** @type {any} */ of) =>
      h("td", {
        text: text(field, value),
        title: typeof value === "number" ? String(value) : null,
        class: [typeof value === "string" && "wrap", same(value, of) && "same"].filter(Boolean).join(" "),
      });
    const rows = differences.map(({ field, values }) =>
      h(
        "tr",
        {},
        h("td", {}, breakable(field)),
        values.map((value) => cell(field, value, values[baseline])),
      ),
    );
    element.hidden = items.length < 2;
    element.replaceChildren(
      h("header", {}, h("h3", { text: "Configuration" }), h("span", { class: "sub", text: sub })),
    );
    if (!rows.length || known < 2) return;
    const scroller = createScroller("Configuration differences");
    scroller.fill(grid(["field", ...heads], rows));
    element.append(scroller.element);
  }
  return { element, update };
}

/** Units that take a decimal prefix, and their kinds. @type {Record<string, string>} */
const PREFIXED = { bytes: "bytes", "B/s": "bytes_per_s", FLOP: "flops", "FLOP/s": "flops_per_s", s: "s", Hz: "Hz" };

/** @param {string} field @param {any} value */
function text(field, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") {
    const unit = field.endsWith("_hz") ? "Hz" : (columnOf(field).unit ?? "");
    if (PREFIXED[unit]) return quantity(value, PREFIXED[unit]);
    if (unit === "frac") return percent(value);
    // counts such as a sequence length are read in full
    return [Number.isInteger(value) ? significant(value, 15) : significant(value), unit].filter(Boolean).join(" ");
  }
  return typeof value === "object" ? value.label || value.name || JSON.stringify(value) : String(value);
}
