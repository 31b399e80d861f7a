/** Below what limits the step: changes of one field that make it faster, once all of their axes are estimated. */
import { setField } from "../../actions.js";
import { validAxis } from "../../axes.js";
import { change, seconds } from "../../format.js";
import { hasAxis } from "../../predict.js";
import { REMEDY_FIELDS, remedies } from "../../remedies.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { word } from "./plan.js";

const MOST = 3;

/** The axes of every field that may help; null until the last of them is there. */
function axesHere() {
  const axes = REMEDY_FIELDS.filter(hasAxis).map((field) => ({ field, points: validAxis(field)?.legal ?? null }));
  return axes.every(({ points }) => points) ? /** @type {any} */ (axes) : null;
}

/** @param {import("../../remedies.js").Remedy} remedy */
function line({ field, value, gain_frac, step_time_s }) {
  const name = field.slice(field.indexOf(".") + 1).replaceAll("_", " ");
  const text = typeof value === "boolean" ? `${value ? "" : "no "}${name}` : `${name} ${word(String(value))}`;
  const choose = () => setField(field, value);
  return h(
    "li",
    {},
    h("button", { type: "button", class: "link", text, onclick: choose }),
    ` ${change(-gain_frac)}: ${seconds(step_time_s)}`,
  );
}

export function createRemedies() {
  const element = h("ul", { class: "remedies", "aria-label": "Faster by one change" });

  function update() {
    const { estimate, estimated, scenario, drag, problems } = state;
    const axes = !drag && !problems.length && estimate && estimated === scenario ? axesHere() : null;
    const { step_time_s = 0 } = estimate ?? {};
    const found = axes ? remedies({ scenario, step_time_s, axes }).slice(0, MOST).map(line) : [];
    const none = h("li", { text: axes ? "No other value of one field is faster by 2 %." : "" });
    element.replaceChildren(...(found.length ? found : [none]));
  }
  return { element, update };
}
