/** A finished run's result beside its prediction: phases, step, peak memory. */
import { api, ApiError } from "../../api.js";
import { errorRows } from "../../figures/stepTime.js";
import { bytes, change, scaleFor } from "../../format.js";
import { comparable, disturbance, doubtOf, misnamedWords, spreadWords, stepTime, total } from "../../measured.js";
import { complete } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createErrors } from "../common/errorTable.js";

export function createResult() {
  const errors = createErrors();
  const sub = h("span", { class: "sub" });
  const hint = h("p", { class: "hint" });
  const element = h(
    "section",
    { class: "card", id: "run-result", hidden: true },
    h("header", {}, h("h3", { text: "Result" }), sub),
    errors.element,
    hint,
  );
  let shown = "";
  let empty = true;

  /** @param {string} id  of the measurement, "" for none */
  async function update(id) {
    if (!id || id === shown) {
      element.hidden = !id || empty;
      return;
    }
    const measurement = await api
      .measurement(id)
      .catch((error) => (error instanceof ApiError ? null : Promise.reject(error)));
    shown = measurement ? id : "";
    const { prediction } = measurement ?? {};
    const step_s = stepTime(measurement);
    element.hidden = empty = !prediction || !step_s;
    if (empty) return;
    const scale = scaleFor(Math.max(step_s ?? 0, prediction.step_time_s), "s");
    put(sub, `prediction against measurement, ${scale.unit}`);
    const misnamed = misnamedWords(measurement, state.catalog.chips);
    const ran = complete(measurement.scenario, state.catalog);
    const judged = comparable(measurement, ran, state.catalog);
    const measured = !disturbance(measurement) && total(measurement.phases_s) ? measurement.phases_s : null;
    errors.update({
      rows: errorRows({ predicted: prediction.phases_s, measured, names: state.catalog.phases }),
      scale,
      step: { predicted: prediction.step_time_s, measured: step_s },
      same: !misnamed,
      judged,
      by: "phase",
    });
    const peak = measurement.memory.peak_bytes;
    const held = prediction.memory.peak_bytes;
    const peaks = peak && `Peak memory ${bytes(held)} predicted, ${bytes(peak)} measured, ${change(held / peak - 1)}.`;
    put(hint, [misnamed, spreadWords(measurement), doubtOf(ran, state.catalog), peaks].filter(Boolean).join(" "));
  }
  return { element, update };
}
