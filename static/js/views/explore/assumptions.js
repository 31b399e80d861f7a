/** The list of what the prediction assumed. */
import { h } from "../common/dom.js";

export function createAssumptions() {
  const list = h("ul", { class: "facts" });
  const element = h(
    "section",
    { class: "card", id: "assumptions" },
    h(
      "header",
      {},
      h("h3", { text: "Assumed" }),
      h("span", { class: "sub", text: "what the prediction takes for granted" }),
    ),
    list,
  );
  const update = (/** @type {import("../../types.js").Estimate} */ { assumptions }) =>
    list.replaceChildren(
      ...(assumptions.length
        ? assumptions.map((text) => h("li", { text }))
        : [h("li", { text: "Nothing beyond the scenario." })]),
    );
  return { element, update };
}
