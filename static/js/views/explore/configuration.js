/** The settings of A and B, those that differ first. */
import { breakable, h, put } from "../common/dom.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";
import { differences } from "../../scenario.js";
import { state } from "../../state.js";

/** @param {any} value */
function text(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return value.label || value.name || JSON.stringify(value);
  return String(value).replaceAll("-", "\u2011");
}

/** @param {import("../../types.js").Scenario} scenario @returns {Map<string, any>} */
function flat(scenario) {
  const found = new Map([["model", scenario.model]]);
  for (const part of /** @type {const} */ (["cluster", "plan", "training"]))
    for (const [name, value] of Object.entries(scenario[part])) found.set(`${part}.${name}`, value);
  return found;
}

export function createConfiguration() {
  const sub = h("span", { class: "sub" });
  const box = createScroller("Settings of A and B", "tall");
  /** @type {string[][]} */
  let rows = [];
  const save = createTableSave({
    title: "Configuration",
    name: () => "headroom-configuration",
    tables: () => [{ columns: ["setting", "A", "B"].map((title) => ({ title, text: true })), rows }],
  });
  const element = h(
    "section",
    { class: "card", id: "configuration" },
    h("header", {}, h("h3", { text: "Configuration" }), sub, h("span", { class: "acts" }, save)),
    box.element,
  );

  function update() {
    const { pair } = state;
    const [a, b] = [pair?.a?.scenario, pair?.b?.scenario];
    const known = a ?? b;
    if (!known) {
      put(sub, "");
      return box.fill(h("p", { class: "empty", text: "Neither side records its settings." }));
    }
    const moved = a && b ? differences(a, b).map(({ path }) => path) : [];
    const names = [...new Set([...moved, ...flat(known).keys()])];
    const of = (/** @type {import("../../types.js").Scenario | null | undefined} */ one, /** @type {string} */ path) =>
      one ? text(flat(one).get(path)) : "–";
    put(
      sub,
      a && b ? (moved.length ? `${moved.length} differ` : "no recorded setting differs") : "one side records none",
    );
    rows = names.map((path) => [path, of(a, path), of(b, path)]);
    const line = (/** @type {string} */ path) =>
      h(
        "tr",
        { class: moved.includes(path) && "differs" },
        h("td", {}, breakable(path)),
        h("td", { class: "wrap", text: of(a, path) }),
        h("td", { class: "wrap", text: of(b, path) }),
      );
    const group = (/** @type {string} */ title, /** @type {string[]} */ paths) =>
      paths.length
        ? [
            h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: 3 }, h("span", { text: title }))),
            ...paths.map(line),
          ]
        : [];
    const same = names.filter((path) => !moved.includes(path));
    return box.fill(
      grid(
        ["setting", "A", "B"],
        moved.length
          ? [...group("What differs", moved), ...group(b ? "The same in both" : "Settings", same)]
          : names.map(line),
      ),
    );
  }
  return { element, update };
}
