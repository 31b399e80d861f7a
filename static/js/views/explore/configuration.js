/** The settings of A and B, those that differ first. */
import { breakable, h, put } from "../common/dom.js";
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
  const element = h(
    "section",
    { class: "card", id: "configuration" },
    h("header", {}, h("h3", { text: "Configuration" }), sub),
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
    return box.fill(
      grid(
        ["setting", "A", "B"],
        names.map((path) =>
          h(
            "tr",
            { class: moved.includes(path) && "differs" },
            h("td", {}, breakable(path)),
            h("td", { class: "wrap", text: of(a, path) }),
            h("td", { class: "wrap", text: of(b, path) }),
          ),
        ),
      ),
    );
  }
  return { element, update };
}
