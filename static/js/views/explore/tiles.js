/** The headline: step time, tokens/s per chip, MFU, peak memory, what limits the step. */
import { arrow, bytes, change, percent, quantity, short, split } from "../../format.js";
import { comparable, disturbance, stepTime } from "../../measured.js";
import { chipOf, chipWord, same } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createRemedies } from "./remedies.js";
import { capacityHint } from "./specs.js";

/** @param {string} id @param {string} title @param {string} kind */
function tile(id, title, kind = "") {
  const parts = {
    title: h("span", { text: title }),
    value: h("span"),
    unit: h("small"),
    note: h("span"),
    delta: h("span"),
  };
  const meter = id === "peak-memory" ? h("div", { class: "meter", "aria-hidden": true }, h("i")) : null;
  const element = h(
    "div",
    { class: `card tile ${kind}`, id: `tile-${id}` },
    h("dt", {}, parts.title),
    kind ? h("dd", { class: "more" }, h("p", {}, parts.value)) : h("dd", {}, parts.value, parts.unit),
    kind ? null : h("dd", { class: "more" }, meter, h("p", {}, parts.note, h("br"), parts.delta)),
  );
  return { ...parts, meter, element };
}

export function createTiles() {
  const step = tile("step-time", "Step time");
  const tokens = tile("tokens", "Tokens/s per GPU");
  const mfu = tile("mfu", "MFU");
  mfu.element.title =
    "Model FLOPs per second over the chips' dense peak, with the full attention square and nothing recomputed (PaLM's convention). " +
    "Hardware: what the chips execute, with recomputation, but without tiles that a causal kernel skips.";
  const peak = tile("peak-memory", "Peak memory");
  const limits = tile("limits", "What limits this step", "limits");
  const faster = createRemedies();
  limits.element.append(h("dd", { class: "more" }, faster.element));
  const element = h(
    "dl",
    { class: "tiles" },
    [step, tokens, mfu, peak, limits].map((one) => one.element),
  );
  element.classList.add("skeleton");

  function update() {
    const { estimate } = state;
    if (!estimate) return;
    element.classList.remove("skeleton");
    const chip = chipWord(chipOf(state.estimated ?? state.scenario, state.catalog));
    const against = reference();
    const compare = (
      /** @type {(e: import("../../types.js").Estimate) => number} */ pick,
      /** @type {HTMLElement} */ into,
      /** @type {boolean} */ lessIsBetter,
    ) => {
      const before = against && pick(against.estimate);
      delta(into, before ? pick(estimate) / before - 1 : null, against?.word ?? "", lessIsBetter);
    };
    number(step, split(estimate.step_time_s, "s"));
    const [low, high] = estimate.interval_s;
    put(step.note, `${split(low, "s")[0]}–${quantity(high, "s")} at 80 %`);
    compare((one) => one.step_time_s, step.delta, true);
    if (!against) besideMeasured(step.delta, estimate);
    put(tokens.title, `Tokens/s per ${chip}`);
    number(tokens, [short(estimate.tokens_per_s_per_chip), ""]);
    put(tokens.note, estimate.chips > 1 ? `${short(estimate.tokens_per_s)} in all` : `one ${chip}`);
    compare((one) => one.tokens_per_s_per_chip, tokens.delta, false);
    number(mfu, [percent(estimate.mfu).replace(" %", ""), "%"]);
    put(mfu.note, `hardware ${percent(estimate.hfu)}`);
    compare((one) => one.mfu, mfu.delta, false);
    memory(estimate);
    compare((one) => one.memory.peak_bytes, peak.delta, true);
    put(limits.value, estimate.limits);
  }

  /** @param {import("../../types.js").Estimate} estimate */
  function memory({ memory: { peak_bytes, reserved_bytes, capacity_bytes, fits, stages } }) {
    number(peak, split(peak_bytes, "bytes"));
    const capacity = bytes(capacity_bytes);
    // one unit is enough where both share it: 61.2 of 141 GB
    put(
      peak.unit,
      capacity.endsWith(` ${peak.unit.textContent}`) ? `of ${capacity}` : `${peak.unit.textContent} of ${capacity}`,
    );
    peak.unit.title = capacityHint();
    const meter = /** @type {HTMLElement} */ (peak.meter);
    meter.classList.toggle("over", !fits);
    /** @type {HTMLElement} */ (meter.firstElementChild).style.width =
      `${Math.min(100, (100 * peak_bytes) / capacity_bytes)}%`;
    const fullest =
      stages.length > 1
        ? `stage ${stages.reduce((a, b) => (b.peak_bytes > a.peak_bytes ? b : a)).stage + 1} of ${stages.length} · `
        : "";
    const reserves = reserved_bytes > peak_bytes ? `${bytes(reserved_bytes)} reserved, ` : "";
    put(
      peak.note,
      fullest +
        (fits
          ? `fits, ${percent(peak_bytes / capacity_bytes)} used`
          : `does not fit: ${reserves}${bytes(Math.max(peak_bytes, reserved_bytes) - capacity_bytes)} over`),
    );
    peak.note.className = fits ? "" : "worse";
  }
  return { element, update, updateRemedies: faster.update };
}

/** What the numbers are compared with: the state when a slider was grabbed, else the pinned baseline. */
function reference() {
  if (state.drag?.estimate && state.drag.estimate.step_time_s !== state.estimate?.step_time_s)
    return { estimate: state.drag.estimate, word: "before" };
  if (state.baselineEstimate) return { estimate: state.baselineEstimate, word: "baseline" };
  return null;
}

/** @param {{value: HTMLElement, unit: HTMLElement}} tile @param {[string, string]} text */
function number({ value, unit }, [text, of]) {
  put(value, text);
  put(unit, of);
}

/** @param {HTMLElement} into @param {number | null} frac @param {string} word @param {boolean} lessIsBetter */
function delta(into, frac, word, lessIsBetter) {
  const none = frac === null || !Number.isFinite(frac);
  into.className = none || Math.abs(frac) < 0.0005 ? "" : frac < 0 === lessIsBetter ? "better" : "worse";
  put(into, none ? "" : `${arrow(frac)} ${change(frac)} vs ${word}`.trim());
}

/** @param {HTMLElement} into @param {import("../../types.js").Estimate} estimate */
function besideMeasured(into, estimate) {
  const seconds = stepTime(state.measurement);
  const own = state.measurement && isMeasuredScenario();
  if (!seconds || !own) return undefined;
  into.className = "";
  if (!comparable(state.measurement, state.estimated ?? state.scenario, state.catalog)) {
    const what = disturbance(state.measurement) ? "disturbed" : "peaks not known";
    return put(into, `${quantity(seconds, "s")} measured; ${what}`);
  }
  const error = estimate.step_time_s / seconds - 1;
  return put(into, `${arrow(error)} ${change(error)} vs measured`);
}

/** Whether the shown scenario is the one that was measured; known once the measurement's own is completed. */
export const isMeasuredScenario = () =>
  Boolean(state.measuredScenario && same(state.measuredScenario, state.estimated ?? state.scenario));
