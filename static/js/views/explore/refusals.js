/** Values that a field refuses: how many, and, unfolded, why. */
import { count, plural } from "../../format.js";
import { h, put } from "../common/dom.js";

/** @typedef {import("../../axes.js").AxisPoint} AxisPoint */

export function createRefusals() {
  const button = h("button", { type: "button", class: "refused", hidden: true, "aria-expanded": "false" });
  const list = h("div", { class: "refusals", hidden: true });
  const open = (/** @type {boolean} */ yes) => {
    list.hidden = !yes;
    button.setAttribute("aria-expanded", String(yes));
  };
  button.onclick = () => open(Boolean(list.hidden));

  /** @param {AxisPoint[]} refused */
  function update(refused) {
    button.hidden = !refused.length;
    put(button, `${plural(refused.length, "value")} refused`);
    list.replaceChildren(
      ...reasons(refused).map(([reason, values]) =>
        h("div", {}, h("b", { text: `${values.map(count).join(", ")}: ` }), reason),
      ),
    );
    if (!refused.length) open(false);
  }
  return { button, list, update };
}

/**
 * Refused values by their reason, so that equal reasons are read once; a number in which they differ becomes "…".
 * @param {AxisPoint[]} points @returns {[string, number[]][]}
 */
function reasons(points) {
  /** @type {Map<string, {values: number[], parts: string[]}>} */
  const found = new Map();
  for (const { value, problems } of points) {
    const parts = problems
      .map(({ message }) => message)
      .join("; ")
      .split(/(\d+(?:\.\d+)?)/); // every second part is a number
    const key = parts.filter((_, at) => at % 2 === 0).join("#");
    const one = found.get(key) ?? { values: [], parts };
    one.values.push(value);
    one.parts = one.parts.map((part, at) => (part === parts[at] ? part : "…"));
    found.set(key, one);
  }
  return [...found.values()].map(({ values, parts }) => [parts.join(""), values]);
}
