/** The menu of a card by which it is taken along: pictures, tables and JSON that opens again as this state of the page. */
import { csv } from "../../format.js";
import { download, h, icon } from "./dom.js";
import { pageNow } from "./pageNow.js";
import { trying } from "./toast.js";

/** @typedef {import("../../types.js").Table} Table */

const open = () => [...document.querySelectorAll("details.save[open]")];
/** @param {Element} one */
const close = (one) => one.removeAttribute("open");

addEventListener("pointerdown", ({ target }) => {
  for (const one of open()) if (!(target instanceof Node && one.contains(target))) close(one);
});
addEventListener("keydown", (event) => {
  const [one] = open();
  if (event.key !== "Escape" || !one) return;
  close(one);
  one.querySelector("summary")?.focus();
});

/**
 * @param {{title: string, choices: [text: string, act: () => unknown][], mark?: string}} options  `mark`: an icon
 *   instead of the word
 */
export function createSave({ title, choices, mark = "" }) {
  const element = h(
    "details",
    { class: "save" },
    h("summary", { "aria-label": `${title}: Save` }, mark ? icon(mark) : "Save"),
    h(
      "div",
      {},
      choices.map(([text, act]) =>
        h("button", {
          type: "button",
          text,
          "aria-label": `${title}: download ${text}`,
          onclick: () => {
            close(element);
            void trying(Promise.resolve(act()));
          },
        }),
      ),
    ),
  );
  return element;
}

/** A name that every file system takes. @param {string} name */
export const fileName = (name) => name.replace(/[^\w.-]+/g, "-");

/** A panel's numbers with their units, beside what opens them again. @param {string} title @param {Table[]} tables */
export async function panelJson(title, tables) {
  const panel = {
    title,
    tables: tables.map(({ columns, rows }) => ({
      columns: columns.map(({ title: name, unit = "" }) => ({ name, unit })),
      rows,
    })),
  };
  return JSON.stringify({ ...(await pageNow()), panel }, null, 1);
}

/**
 * CSV and JSON of a card that is a table.
 * @param {{title: string, name: () => string, tables: () => Table[]}} options  `name`: of the file, without its ending
 */
export function createTableSave({ title, name, tables }) {
  const saveCsv = () => {
    const all = tables();
    all.forEach((table, at) => download(fileName(`${name()}${all.length > 1 ? `-${at + 1}` : ""}.csv`), csv(table)));
  };
  const saveJson = async () =>
    download(fileName(`${name()}.json`), await panelJson(title, tables()), "application/json");
  return createSave({
    title,
    choices: [
      ["CSV", saveCsv],
      ["JSON", saveJson],
    ],
  });
}
