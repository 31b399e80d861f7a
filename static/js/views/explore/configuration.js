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

/**
 * Settings by name: of a scenario, else those that a traced program was run with.
 * @param {import("../../sides.js").Side | null | undefined} side @returns {Map<string, any>}
 */
function flat(side) {
  const scenario = side?.scenario;
  if (!scenario) return new Map(Object.entries(side?.settings ?? {}));
  const found = new Map([["model", scenario.model]]);
  for (const part of /** @type {const} */ (["cluster", "plan", "training"]))
    for (const [name, value] of Object.entries(scenario[part])) found.set(`${part}.${name}`, value);
  return found;
}

/**
 * Which settings differ between two scenarios, or two traced programs; none where one side is of the other kind.
 * @param {import("../../sides.js").Side | null | undefined} a @param {import("../../sides.js").Side | null | undefined} b
 * @param {Map<string, any>} flatA @param {Map<string, any>} flatB
 */
function changed(a, b, flatA, flatB) {
  if (a?.scenario && b?.scenario) return differences(a.scenario, b.scenario).map(({ path }) => path);
  if (a?.scenario || b?.scenario || !flatA.size || !flatB.size) return [];
  return [...new Set([...flatA.keys(), ...flatB.keys()])].filter((name) => flatA.get(name) !== flatB.get(name));
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
    const [flatA, flatB] = [flat(pair?.a), flat(pair?.b)];
    const [a, b] = [flatA.size > 0, flatB.size > 0];
    if (!a && !b) {
      put(sub, "");
      return box.fill(h("p", { class: "empty", text: "Neither side records its settings." }));
    }
    const moved = changed(pair?.a, pair?.b, flatA, flatB);
    const names = [...new Set([...moved, ...flatA.keys(), ...flatB.keys()])];
    const of = (/** @type {Map<string, any>} */ one, /** @type {string} */ path) => text(one.get(path));
    put(
      sub,
      a && b ? (moved.length ? `${moved.length} differ` : "no recorded setting differs") : "one side records none",
    );
    rows = names.map((path) => [path, of(flatA, path), of(flatB, path)]);
    const line = (/** @type {string} */ path) =>
      h(
        "tr",
        { class: moved.includes(path) && "differs" },
        h("td", {}, breakable(path)),
        h("td", { class: "wrap", text: of(flatA, path) }),
        h("td", { class: "wrap", text: of(flatB, path) }),
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
