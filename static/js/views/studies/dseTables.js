/** Tables of the machine from technology: its plans on many chips, and what contradicts itself beside its correction. */
import { quantity } from "../../format.js";
import { h, put } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { tableView } from "../common/table.js";

/** @typedef {import("../../types.js").Table} Table */

/** @param {string} id @param {string} title */
function createTable(id, title) {
  const sub = h("span", { class: "sub" });
  const box = createScroller(title, "tall");
  const element = h("section", { class: "card w12", id }, h("header", {}, h("h3", { text: title }), sub), box.element);
  /** @param {Table} table @param {string} words */
  const update = (table, words) => {
    put(sub, words);
    box.fill(table.rows.length ? tableView(table) : h("p", { class: "empty", text: words }));
  };
  return { element, update };
}

export function createPathPlans() {
  const table = createTable("path-plans", "Plans on many chips");
  return {
    element: table.element,
    update: (/** @type {any} */ answer) => table.update(planTable(answer), words(answer)),
  };
}

/** @param {any} answer */
const words = ({ tried, chips, rows }) =>
  rows.length
    ? `${tried} plans on at most ${chips} chips, those that fit first; best: ${quantity(rows[0].seconds, "s")}`
    : `No plan on ${chips} chips: they have no link between them.`;

/** @param {any} answer @returns {Table} */
const planTable = ({ rows }) => ({
  columns: [
    { title: "", text: true },
    { title: "dp" },
    { title: "lp" },
    { title: "hlp" },
    { title: "kp of the cells", text: true },
    { title: "kp of the softmax", text: true },
    { title: "chips" },
    { title: "time", unit: "s" },
    { title: "memory", unit: "B" },
    { title: "fits", text: true },
    { title: "efficiency", unit: "frac" },
  ],
  rows: rows.map((/** @type {any} */ row, /** @type {number} */ at) => [
    at === 0 ? "best" : "",
    row.dp,
    row.lp,
    row.hlp,
    row.hidden,
    row.softmax,
    row.chips,
    row.seconds,
    row.bytes,
    row.fits ? "yes" : "no",
    row.efficiency_frac,
  ]),
});

export function createCorrections() {
  const table = createTable("path-corrections", "As the reference has it, and corrected");
  const list = h("ol", { class: "facts" });
  table.element.append(list);
  /** @param {any} seen  the server's answer */
  function update({ compared, inconsistencies }) {
    table.update(correctionTable(compared), "numbers in brackets: the contradictions below");
    const sentence = (/** @type {any} */ one) => h("li", { text: `${one.what}. Corrected: ${one.corrected}.` });
    list.replaceChildren(...inconsistencies.map(sentence));
  }
  return { element: table.element, update };
}

/** @param {any[]} compared @returns {Table} */
const correctionTable = (compared) => ({
  columns: [
    { title: "figure", text: true },
    { title: "reference" },
    { title: "corrected" },
    { title: "", text: true },
    { title: "contradiction", text: true },
  ],
  rows: compared.map((one) => [
    `${one.group}: ${one.name}`,
    one.value,
    one.corrected,
    one.unit,
    one.notes.map((/** @type {number} */ number) => `[${number}]`).join(" "),
  ]),
});
