/** One choice of the plan: radio buttons that look like one control; what cannot be chosen says why. */
import { setField } from "../../actions.js";
import { fetchAxis, lastAxis, validAxis } from "../../axes.js";
import { bytes, change, saidTogether } from "../../format.js";
import { get, same } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createFieldProblem } from "../common/fieldProblem.js";

/** @param {{path: string, label: string, choices: {value: any, label: string}[], help: string}} options */
export function createSegments({ path, label, choices, help }) {
  const aside = h("span", { class: "delta" });
  const problem = createFieldProblem(path);
  let refused = "";
  /** @type {{value: any} | null} */
  let asked = null; // chosen while the axis that says whether it is legal is on its way
  const options = choices.map(({ value, label: text }) => {
    const input = h("input", { type: "radio", name: path, value: String(value), onchange: () => choose(value) });
    const element = h(
      "label",
      { onpointerenter: () => preview(value), onpointerleave: () => preview(null) },
      input,
      h("span", { text }),
    );
    return { value, text, input, element };
  });
  const element = h(
    "fieldset",
    {
      class: "choice",
      "data-field": path,
      onpointerenter: () => void fetchAxis(path),
      onfocusin: () => void fetchAxis(path),
    },
    h("legend", {}, h("span", { text: label, title: help }), aside),
    h(
      "div",
      { class: "segments" },
      options.map((one) => one.element),
    ),
    problem.element,
  );

  /** @param {any} value */
  const reasonOf = (value) => {
    const axis = validAxis(path);
    // what no choice heals is not this field's
    if (!axis?.legal.length) return "";
    if (!axis.points.some((one) => same(one.value, value))) return `“${value}” is not modelled yet.`;
    const point = axis.refused.find((one) => same(one.value, value));
    return point ? saidTogether(point.problems) : "";
  };

  /** @param {any} value */
  async function choose(value) {
    asked = { value };
    if (!validAxis(path)) await fetchAxis(path);
    if (asked?.value !== value) return;
    asked = null;
    refused = reasonOf(value);
    if (refused) update();
    else setField(path, value);
  }

  /** What a choice would change, while the pointer is on it. @param {any} value */
  function preview(value) {
    const point = value === null ? null : validAxis(path)?.legal.find((one) => same(one.value, value));
    const [there, here] = [point?.estimate, state.estimate];
    if (!there || !here || there === here || same(value, get(state.scenario, path))) return put(aside, "");
    const memory = there.memory.peak_bytes - here.memory.peak_bytes;
    return put(
      aside,
      `${change(there.step_time_s / here.step_time_s - 1)} time, ${memory < 0 ? "−" : "+"}${bytes(Math.abs(memory))}`,
    );
  }

  function update() {
    const now = asked ? asked.value : get(state.scenario, path);
    for (const option of options) {
      const on = same(option.value, now);
      option.input.checked = on;
      option.element.classList.toggle("on", on);
      const reason = on ? "" : reasonOf(option.value);
      option.element.classList.toggle("no", Boolean(reason));
      option.element.title = reason;
      option.input.setAttribute("aria-label", reason ? `${option.text}, refused: ${reason}` : option.text);
    }
    if (lastAxis(path) && refused && !options.some(({ value }) => reasonOf(value) === refused)) refused = "";
    problem.update(refused);
  }
  return { element, update, path };
}
