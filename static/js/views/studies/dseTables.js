/** Tables of the machine from technology: its plans on many chips, and what contradicts itself beside its correction. */
import { plural, quantity, significant } from "../../format.js";
import { h, put } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { tableView } from "../common/table.js";

/** @typedef {import("../../types.js").Table} Table */

export function createPathPlans() {
  const sub = h("span", { class: "sub" });
  const title = "Plans on many chips";
  const box = createScroller(title, "tall");
  const head = h("header", {}, h("h3", { text: title }), sub);
  const element = h("section", { class: "card w12", id: "path-plans" }, head, box.element);
  /** @param {any} answer */
  function update(answer) {
    put(sub, words(answer));
    box.fill(answer.rows.length ? tableView(planTable(answer)) : h("p", { class: "empty", text: words(answer) }));
  }
  return { element, update };
}

/** @param {any} answer */
const words = ({ tried, chips, rows }) =>
  rows.length
    ? `${tried} plans on at most ${plural(chips, "chip")}, those that fit first; best: ${quantity(rows[0].seconds, "s")}`
    : `No plan on ${plural(chips, "chip")}: they have no link between them.`;

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

/** Folded: what it comes to stands in its heading. */
export function createCorrections() {
  const sub = h("span", { class: "sub" });
  const title = "As the reference has it, and corrected";
  const box = createScroller(title, "tall");
  const list = h("ol", { class: "facts" });
  const element = /** @type {HTMLDetailsElement} */ (
    h("details", { class: "card w12", id: "path-corrections" }, h("summary", {}, h("h3", { text: title }), sub))
  );
  element.append(box.element, list);
  /** @param {any} seen  the server's answer */
  function update({ compared, inconsistencies }) {
    const step = compared.find((/** @type {any} */ one) => one.group === "result" && one.name === "Time");
    const times = step && `${significant(step.value)} → ${significant(step.corrected)} ${step.unit}; `;
    put(sub, `${times || ""}${plural(inconsistencies.length, "contradiction")}, in brackets`);
    box.fill(tableView(correctionTable(compared)));
    const sentence = (/** @type {any} */ one) => h("li", { text: `${one.what}. Corrected: ${one.corrected}.` });
    list.replaceChildren(...inconsistencies.map(sentence));
  }
  return { element, update };
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
