/** The table under the step time: every category's prediction, measurement and signed error. It is also the legend. */
import { change, significant } from "../../format.js";
import { h, put, swatch } from "./dom.js";
import { createScroller } from "./scroller.js";

const LARGE_FRAC = 0.1;

/** Beside seconds a microsecond is nothing. @param {number} value */
const amount = (value) => (value > 0 && value < 0.001 ? "< 0.001" : significant(value));

export function createErrors() {
  const body = h("tbody");
  const heads = ["category", "predicted", "measured", "error", ""].map((text, at) =>
    h("th", { scope: "col", text, class: at === 4 && "wide" }),
  );
  const table = h("table", { class: "errors" }, h("thead", {}, h("tr", {}, heads)), body);
  const scroller = createScroller("Predicted and measured");
  scroller.fill(table);
  /** @type {Map<string, {row: HTMLElement, cells: HTMLElement[], bar: HTMLElement}>} */
  const lines = new Map();

  /** @param {string} label @param {string} token  "" for the step itself */
  function line(label, token) {
    const at = `${token} ${label}`;
    let found = lines.get(at);
    if (!found) {
      const bar = h("i");
      const cells = [1, 2, 3].map(() => h("td"));
      const first = h("td", {}, token ? swatch(token) : null, label);
      const row = h(
        "tr",
        { class: !token && "total" },
        first,
        cells,
        h("td", { class: "wide" }, h("span", { class: "diverge" }, bar)),
      );
      found = { row, cells, bar };
      lines.set(at, found);
    }
    return found;
  }

  /**
   * @param {{rows: import("../../figures/stepTime.js").Row[], scale: {factor: number,
   *   unit: string}, step: {predicted: number, measured: number | null}, same: boolean, judged: boolean,
   *   by: string}} input  `judged`: whether what the two differ by says anything
   */
  function update({ rows, scale, step, same, judged, by }) {
    put(heads[0], by);
    table.classList.toggle("alone", step.measured === null);
    // beside another scenario's run a difference is no error of the prediction
    put(heads[3], same || step.measured === null ? "error" : "difference");
    put(heads[4], step.measured === null || !judged ? "" : "of the step");
    const all = [...rows, { label: "step", token: "", ...step }];
    const largest = Math.max(
      0.02,
      ...rows.map(({ predicted, measured }) =>
        measured === null ? 0 : Math.abs(predicted - measured) / (step.measured || 1),
      ),
    );
    const wanted = all.map(({ label, token, predicted, measured }) => {
      const { row, cells, bar } = line(label, token);
      put(cells[0], amount(predicted / scale.factor));
      put(cells[1], measured === null ? "–" : amount(measured / scale.factor));
      const frac = measured ? predicted / measured - 1 : null;
      put(cells[2], measured === null || !judged ? "–" : frac === null ? "only predicted" : change(frac));
      cells[2].className = same && judged && frac !== null && Math.abs(frac) > LARGE_FRAC ? "worse" : "";
      const part =
        measured === null || !judged || !step.measured || !token ? 0 : (predicted - measured) / step.measured;
      const width = (50 * Math.abs(part)) / largest;
      Object.assign(bar.style, {
        width: `${width}%`,
        left: `${part < 0 ? 50 - width : 50}%`,
        background: token && `var(--${token})`,
      });
      /** @type {HTMLElement} */ (bar.parentElement).title = part ? `${change(part)} of the measured step` : "";
      /** @type {HTMLElement} */ (bar.parentElement).hidden = step.measured === null || !judged || !token;
      return row;
    });
    if (wanted.length !== body.children.length || wanted.some((row, at) => body.children[at] !== row))
      body.replaceChildren(...wanted);
  }
  return { element: scroller.element, update };
}
