/** Above a study's figures: the plans that it is about, its questions, its tables as the reference prints them. */
import { openPair } from "../../actions.js";
import { agreementWords, layerSheets, PAIRS, questionsOf, stepSheet } from "../../studyPages.js";
import { h, put } from "../common/dom.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid, tableView } from "../common/table.js";
import { written } from "./table.js";

/** @typedef {import("../../types.js").Study} Study */

/** @param {string} title @param {string} words @param {import("../../types.js").Table} table @param {HTMLElement} body */
const card = (title, words, table, body) =>
  h(
    "section",
    { class: "card w12" },
    h(
      "header",
      {},
      h("h3", { text: title }),
      h("span", { class: "sub", text: words }),
      h("span", { class: "acts" }, createTableSave({ title, name: () => title, tables: () => [table] })),
    ),
    body,
  );

export function createStudyPages() {
  const element = h("div", { class: "w12 column", id: "study-pages" });
  const words = h("span");
  const open = h("button", { type: "button", class: "ghost" });
  const row = h("p", { class: "row study-open", hidden: true }, open, words);

  /** @param {Study} study */
  function update({ study, figures }) {
    const pair = PAIRS[study];
    row.hidden = !pair;
    if (pair) {
      put(open, "Open in A | B");
      put(words, `${pair.words}, as Explore estimates them`);
      open.onclick = () => openPair(pair.a, pair.b);
    }
    const asked = questionsOf(study, figures, ({ value, decimals }) => written(value, decimals));
    const sheets = [stepSheet(figures), ...layerSheets(figures)].filter((one) => one !== null);
    element.replaceChildren(
      ...(asked.length ? [questionCard(asked)] : []),
      ...sheets.map(({ title, table, printed, agreeing }) => {
        const box = createScroller(title, "tall");
        box.fill(tableView(table));
        return card(title, agreementWords(printed, agreeing), table, box.element);
      }),
    );
  }
  return { element, row, update };
}

/** @param {import("../../studyPages.js").Question[]} asked */
function questionCard(asked) {
  const heads = ["question", "expression", "answer", "on condition that"];
  const table = {
    columns: heads.map((title) => ({ title, text: true })),
    rows: asked.map(({ asks, expression, answer, condition }) => [asks, expression, answer, condition]),
  };
  const box = createScroller("Questions and answers");
  box.element.classList.add("asked");
  box.fill(
    grid(
      heads,
      asked.map(({ part, asks, expression, answer, condition }) =>
        h(
          "tr",
          {},
          h("td", { class: "wrap text" }, h("b", { text: `(${part}) ` }), asks),
          h("td", { class: "wrap text formula", text: expression }),
          h("td", { class: "wrap text", text: answer }),
          h("td", { class: "wrap text", text: condition }),
        ),
      ),
      { texts: [0, 1, 2, 3] },
    ),
  );
  return card("Questions", "what follows from the equations", table, box.element);
}
