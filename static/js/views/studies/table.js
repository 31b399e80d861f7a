/** Figures of a study in their groups: value, unit, what the reference prints, and whether both agree. */
import { count, significant } from "../../format.js";
import { breakable, h, put } from "../common/dom.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/** @typedef {import("../../types.js").StudyFigure} Figure */

/** Without zeros behind the point, which say nothing where nobody knows how many digits count. @param {string} text */
const plain = (text) => text.replace(/(\.\d*?)0+(?=e|$)/, "$1").replace(/\.(?=e|$)/, "");

/** Write a value with the digits of the reference, where those are known. @param {number | string} value @param {number | null} decimals */
export function written(value, decimals) {
  if (typeof value === "string") return value;
  if (decimals === null || decimals < 0) return Number.isInteger(value) ? count(value) : plain(significant(value, 6));
  const [whole, part] = Math.abs(value).toFixed(decimals).split(".");
  return `${value < 0 ? "−" : ""}${count(Number(whole))}${part ? `.${part}` : ""}`;
}

/** @param {{name: () => string}} options */
export function createStudyTable({ name }) {
  /** @type {Figure[]} */
  let figures = [];
  const sub = h("span", { class: "sub" });
  const filter = h("input", {
    type: "text",
    placeholder: "Filter figures",
    "aria-label": "Filter figures",
    oninput: () => fill(),
  });
  const box = createScroller("Figures of the study", "tall");
  const save = createTableSave({
    title: "Figures",
    name: () => `${name()}-figures`,
    tables: () => [
      {
        columns: ["group", "name", "value", "unit", "printed"].map((title) => ({ title })),
        rows: figures.map((one) => [one.group, one.name, one.value, one.unit, one.printed]),
      },
    ],
  });
  const element = h(
    "section",
    { class: "card w12", id: "study-figures" },
    h("header", {}, h("h3", { text: "Figures" }), sub, h("span", { class: "acts" }, filter, save)),
    box.element,
  );

  function fill() {
    const wanted = filter.value.trim().toLowerCase();
    const some = figures.filter((one) => `${one.group} ${one.name}`.toLowerCase().includes(wanted));
    const compared = figures.some(({ printed }) => printed !== null);
    /** @type {HTMLElement[]} */
    const rows = [];
    some.forEach((one, at) => {
      if (one.group !== some[at - 1]?.group)
        rows.push(
          h(
            "tr",
            { class: "group" },
            h("th", { scope: "rowgroup", colspan: compared ? 5 : 3 }, h("span", { text: one.group })),
          ),
        );
      rows.push(row(one, compared));
    });
    box.fill(
      rows.length
        ? grid(["figure", "value", "", ...(compared ? ["printed", ""] : [])], rows, { texts: [2], wide: [3] })
        : h("p", { class: "empty", text: "No figure has that name." }),
    );
  }

  /** @param {Figure[]} now @param {boolean} another  of another study, so that its filter is not this one's */
  function update(now, another) {
    if (another) filter.value = "";
    figures = now;
    const compared = now.filter(({ agrees }) => agrees !== null);
    const agree = compared.filter(({ agrees }) => agrees).length;
    const numbers = `${count(now.length)} figures`;
    put(
      sub,
      compared.length ? `${numbers}; ${agree} of ${compared.length} printed ones agree to the digits printed` : numbers,
    );
    sub.classList.toggle("worse", agree < compared.length);
    fill();
  }
  return { element, update };
}

/** @param {Figure} one @param {boolean} compared  whether the reference prints any */
function row({ name, value, unit, printed, decimals, agrees }, compared) {
  const exact = typeof value === "number" ? String(value) : null;
  const mark = agrees === null ? "" : agrees ? "✓" : "≠";
  const words = agrees === null ? null : agrees ? "agrees" : "differs";
  return h(
    "tr",
    {},
    h("td", { title: name.length > 30 ? name : null }, breakable(name)),
    h(
      "td",
      { title: exact, class: typeof value === "string" && "wrap" },
      written(value, decimals),
      // where narrow only what differs has room for both
      agrees === false && h("small", { class: "stacked", text: `printed ${written(printed ?? "", decimals)}` }),
    ),
    h("td", { class: "text quiet", text: unit }),
    compared &&
      h("td", {
        text: printed === null ? "" : written(printed, decimals),
        class: `wide ${typeof printed === "string" ? "wrap" : ""}`,
      }),
    compared &&
      h("td", { class: agrees === false ? "worse" : "better", text: mark, title: words, "aria-label": words }),
  );
}
