/** One choice among many: a menu over the values of its axis; what cannot be chosen says why. */
import { setField } from "../../actions.js";
import { fetchAxis, lastAxis, validAxis } from "../../axes.js";
import { change, saidTogether } from "../../format.js";
import { get } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createFieldProblem } from "../common/fieldProblem.js";

/**
 * @param {{path: string, label: string, choices: string[], help: string, word: (value: string) => string}} options
 */
export function createSelect({ path, label, choices, help, word }) {
  const id = `field-${path.replace(".", "-")}`;
  const problem = createFieldProblem(path);
  const select = h("select", { id, title: help, onchange: () => choose(select.value) });
  const fetchNow = () => void fetchAxis(path);
  const element = h(
    "div",
    { class: "choice", "data-field": path, onpointerenter: fetchNow, onfocusin: fetchNow },
    h("label", { for: id, text: label }),
    select,
    problem.element,
  );
  let refused = "";
  let asked = ""; // chosen while the axis that says whether it is legal is on its way
  /** @type {import("../../types.js").Scenario | null} */
  let refusedFor = null;
  let listed = "";

  const pointOf = (/** @type {string} */ value) => validAxis(path)?.points.find((one) => one.value === value);

  /** @param {string} value */
  async function choose(value) {
    asked = value;
    if (!validAxis(path)) await fetchAxis(path);
    if (asked !== value) return;
    asked = "";
    const problems = pointOf(value)?.problems ?? [];
    refused = saidTogether(problems);
    refusedFor = state.scenario;
    if (refused) update();
    else setField(path, value);
  }

  /** Values that differ for this plan, where the axis tells, each with what it would change. */
  function list() {
    const now = String(get(state.scenario, path));
    const offered = lastAxis(path)?.points.map(({ value }) => String(value)) ?? choices;
    const step_s = state.estimate?.step_time_s;
    const options = [...new Set([...offered, now])].map((value) => {
      const point = value === now ? null : pointOf(value);
      const frac = point?.estimate && step_s ? point.estimate.step_time_s / step_s - 1 : null;
      const note = point?.problems.length ? " (not possible)" : frac === null ? "" : ` (${change(frac)} time)`;
      return { value, text: word(value) + note };
    });
    const key = JSON.stringify(options);
    if (key !== listed && document.activeElement !== select)
      select.replaceChildren(...options.map(({ value, text }) => h("option", { value, text })));
    else if (key !== listed)
      // an open menu keeps its entries; only their words change
      for (const { value, text } of options) {
        const own = [...select.options].find((one) => one.value === value);
        if (own) put(own, text);
        else select.append(h("option", { value, text }));
      }
    listed = key;
    select.value = asked || now;
  }

  function update() {
    list();
    if (refusedFor !== state.scenario) refused = "";
    problem.update(refused);
  }
  return { element, update, path };
}
