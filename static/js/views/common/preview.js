/** A preview of a text's tables before they are kept: what each column is and its unit, to correct, and what is read so. */
import { api, ApiError } from "../../api.js";
import { plural, quantity } from "../../format.js";
import { corrections, NAMES, nameOf, UNITS, unitOf } from "../../headers.js";
import { beginningOf } from "../../upload.js";
import { createDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { tablesOf, tableView } from "./table.js";
import { warningList } from "./warnings.js";

/** @typedef {import("../../headers.js").SeenTable} SeenTable */

const SETTLED_MS = 300;

/** @param {(blob: Blob, name: string, columns: string) => void} keep */
export function createPreview(keep) {
  const tables = h("div", { class: "seen" });
  const read = h("div", { class: "seen", "aria-live": "polite" });
  const part = h("p", { class: "hint", hidden: true });
  const accept = h("button", { type: "button", class: "primary", text: "Import" });
  const known = h(
    "datalist",
    { id: "column-names" },
    NAMES.map((name) => h("option", { value: name })),
  );
  const element = createDialog("What was read", [
    h(
      "div",
      { class: "seen-head" },
      h("p", { class: "hint", text: "Say what a column is and its unit where they were read wrong." }),
      accept,
    ),
    part,
    tables,
    h("h4", { text: "As it will be kept" }),
    read,
    known,
  ]);
  element.classList.add("broad");
  /** @type {Map<string, import("../../headers.js").Said>} */
  let said = new Map();
  /** @type {SeenTable[]} */
  let seen = [];
  /** @type {Record<string, Record<string, string>>} */
  let before = {}; // what was said of it when it was imported
  let asked = 0;
  /** @type {Blob | null} */
  let shown = null; // what the dialog is of

  /** @param {SeenTable} table @param {() => void} changed */
  function correctable({ line, kind, columns, units, cells, rows }, changed) {
    const heads = columns.map((header, at) => {
      const known_ = { name: nameOf(header, units[at]), unit: unitOf(units[at]) };
      const label = `Line ${line}, column ${at + 1}`;
      const name = h("input", {
        type: "text",
        value: known_.name,
        list: "column-names",
        "aria-label": `${label}: name`,
      });
      const unit = h(
        "select",
        { "aria-label": `${label}: unit` },
        h("option", { value: "", text: "no unit" }),
        [...new Set([...UNITS, known_.unit].filter(Boolean))].map((one) => h("option", { value: one, text: one })),
      );
      unit.value = known_.unit;
      const tell = () => {
        said.set(`${line}.${at}`, { name: name.value, unit: unit.value });
        changed();
      };
      name.oninput = tell;
      unit.onchange = tell;
      return h("th", { scope: "col" }, name, unit);
    });
    return h(
      "section",
      {},
      h("p", { class: "quiet", text: `Line ${line}: ${kind.replaceAll("-", " ")}, ${plural(rows, "row")}` }),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `Line ${line}` },
        h(
          "table",
          { class: "raw" },
          h("thead", {}, h("tr", {}, heads)),
          h(
            "tbody",
            {},
            cells.map((row) =>
              h(
                "tr",
                {},
                row.map((text) => h("td", { text })),
              ),
            ),
          ),
        ),
      ),
    );
  }

  /**
   * @param {Blob} blob @param {string} name
   * @param {string} [earlier]  what was said of its columns before, as `keep` got it
   * @returns {Promise<boolean>} whether there are tables to look at
   */
  async function open(blob, name, earlier = "") {
    said = new Map();
    seen = [];
    before = earlier ? JSON.parse(earlier) : {};
    tables.replaceChildren();
    read.replaceChildren(h("p", { class: "quiet", text: "reading" }));
    accept.disabled = true;
    accept.onclick = () => {
      element.close();
      keep(blob, name, columns());
    };
    element.showModal();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let waiting;
    shown = blob;
    const sample = await beginningOf(blob);
    part.hidden = sample === blob;
    part.textContent = `Of ${quantity(blob.size, "bytes")} the first ${quantity(sample.size, "bytes")} are shown; all is imported.`;
    if (shown === blob) await show(sample, name);
    if (shown !== blob) return true; // another text was opened meanwhile
    tables.replaceChildren(
      ...seen.map((table) =>
        correctable(table, () => {
          clearTimeout(waiting);
          waiting = setTimeout(() => shown === blob && void show(sample, name), SETTLED_MS);
        }),
      ),
    );
    return seen.length > 0;
  }

  const columns = () => {
    const found = corrections(seen, said, before);
    return Object.keys(found).length ? JSON.stringify(found) : "";
  };

  /** @param {Blob} blob @param {string} name */
  async function show(blob, name) {
    const number = ++asked;
    try {
      const found = await api.preview(blob, name, columns());
      if (number !== asked) return;
      if (!seen.length) seen = found.tables;
      accept.disabled = false;
      read.replaceChildren(
        ...found.measurements.flatMap(({ label, format, rows, count }) => [
          h(
            "p",
            {},
            h("b", { text: label }),
            ` ${format.replace(/^text\//, "").replaceAll("-", " ")}, ${plural(count, "row")}`,
          ),
          ...tablesOf(rows).map(({ table }) =>
            h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, tableView(table)),
          ),
        ]),
        warningList(found.warnings),
      );
    } catch (error) {
      if (number !== asked) return;
      accept.disabled = true;
      const words = error instanceof ApiError ? error.message : "The answer could not be read.";
      read.replaceChildren(h("p", {}, h("b", { class: "worse", text: "Not read. " }), words));
    }
  }
  return { element, open };
}
