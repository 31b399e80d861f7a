/** Sliders of the pathfinding page: power and its shares, energies, bandwidths, the model. Live while they move. */
import { count, significant } from "../../format.js";
import { h, put } from "../common/dom.js";

/**
 * @typedef {{name: string, label: string, low: number, high: number, log?: boolean, whole?: boolean, unit?: string,
 *   factor?: number}} Slider  `factor`: shown = value × factor
 */

const STEPS = 400;
const GIB = 2 ** 30;

/** @type {{title: string, sliders: Slider[]}[]} */
export const GROUPS = [
  {
    title: "Power",
    sliders: [
      { name: "power_w", label: "budget", low: 30, high: 3000, log: true, unit: "W" },
      { name: "core_power_frac", label: "compute", low: 0.005, high: 0.7, unit: "%", factor: 100 },
      { name: "dram_power_frac", label: "memory", low: 0.005, high: 0.7, unit: "%", factor: 100 },
      { name: "l2_power_frac", label: "L2", low: 0.001, high: 0.5, unit: "%", factor: 100 },
      { name: "shared_power_frac", label: "shared memory", low: 0.001, high: 0.5, unit: "%", factor: 100 },
      { name: "link_power_frac", label: "links", low: 0, high: 0.5, unit: "%", factor: 100 },
    ],
  },
  {
    title: "Energy and bandwidth",
    sliders: [
      { name: "core_j_per_flop", label: "a FLOP", low: 1e-13, high: 1e-10, log: true, unit: "pJ", factor: 1e12 },
      {
        name: "dram_j_per_bit",
        label: "a bit of memory",
        low: 1e-13,
        high: 1e-10,
        log: true,
        unit: "pJ",
        factor: 1e12,
      },
      { name: "l2_j_per_bit", label: "a bit of L2", low: 1e-16, high: 1e-12, log: true, unit: "fJ", factor: 1e15 },
      {
        name: "shared_j_per_bit",
        label: "a bit of shared memory",
        low: 1e-16,
        high: 1e-12,
        log: true,
        unit: "fJ",
        factor: 1e15,
      },
      {
        name: "hbm_stack_bytes_per_s",
        label: "a memory stack",
        low: 20 * GIB,
        high: 2000 * GIB,
        log: true,
        unit: "GiB/s",
        factor: 1 / GIB,
      },
      {
        name: "l2_bank_bytes_per_s",
        label: "a bank of L2",
        low: 100 * GIB,
        high: 1e5 * GIB,
        log: true,
        unit: "GiB/s",
        factor: 1 / GIB,
      },
    ],
  },
  {
    title: "Model",
    sliders: [
      { name: "batch", label: "batch", low: 1, high: 8192, log: true, whole: true },
      { name: "hidden", label: "hidden", low: 256, high: 65_536, log: true, whole: true },
      { name: "layers", label: "layers", low: 1, high: 64, log: true, whole: true },
      { name: "vocab", label: "vocabulary", low: 1000, high: 2_000_000, log: true, whole: true },
      { name: "sequence", label: "sequence", low: 1, high: 512, log: true, whole: true },
    ],
  },
];

/** @param {Slider} slider @param {number} place  0 to STEPS */
function valueAt({ low, high, log, whole }, place) {
  const part = place / STEPS;
  const value = log ? low * (high / low) ** part : low + (high - low) * part;
  return whole ? Math.round(value) : Number(value.toPrecision(4));
}

/** @param {Slider} slider @param {number} value */
function placeOf({ low, high, log }, value) {
  const part = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(STEPS * Math.min(1, Math.max(0, part)));
}

/**
 * @param {{preview: (settings: Record<string, string>) => void, change: (settings: Record<string, string>) => void}} on
 */
export function createPathSliders({ preview, change }) {
  /** @type {Record<string, string>} */
  let settings = {};
  /** @type {Record<string, string>}  sliders that move and were not let go yet */
  const moving = {};
  const rows = GROUPS.flatMap(({ sliders }) => sliders).map((slider) => createRow(slider));
  let at = 0;
  const element = h(
    "section",
    { class: "card w12", id: "path-sliders" },
    h("header", {}, h("h3", { text: "Technology and model" })),
    h(
      "div",
      { class: "path-groups" },
      GROUPS.map(({ title, sliders }) =>
        h("fieldset", {}, h("legend", { text: title }), ...sliders.map(() => rows[at++].element)),
      ),
    ),
  );

  /** @param {Slider} slider */
  function createRow(slider) {
    const id = `path-${slider.name}`;
    const range = h("input", { type: "range", id, min: 0, max: STEPS, step: 1 });
    const shown = h("output", { for: id });
    const row = h(
      "div",
      { class: "path-slider", "data-input": slider.name },
      h("label", { for: id, text: slider.label }),
      shown,
      range,
    );
    let origin = NaN;
    range.addEventListener("input", () => {
      const value = valueAt(slider, range.valueAsNumber);
      show(value);
      // A hand that comes back to where it began lets go without a `change`
      if (range.valueAsNumber === origin) delete moving[slider.name];
      else moving[slider.name] = String(value);
      preview(held(settings));
    });
    range.addEventListener("change", () => {
      settings = { ...settings, [slider.name]: String(valueAt(slider, range.valueAsNumber)) };
      delete moving[slider.name];
      change(settings);
    });
    const show = (/** @type {number} */ value) => {
      const number = slider.whole ? count(value) : significant(value * (slider.factor ?? 1));
      const text = `${number} ${slider.unit ?? ""}`.trim();
      put(shown, text);
      range.style.setProperty("--fill", `${(100 * placeOf(slider, value)) / STEPS}%`);
      range.setAttribute("aria-valuetext", text);
    };
    return {
      element: row,
      update: (/** @type {Record<string, any>} */ inputs) => {
        const value = Number(inputs[slider.name]);
        if (!(slider.name in moving)) origin = placeOf(slider, value);
        if (document.activeElement !== range) range.value = String(placeOf(slider, value));
        show(value);
      },
    };
  }

  /** What stands, and what a hand holds meanwhile. @param {Record<string, string>} now */
  const held = (now) => ({ ...now, ...moving });

  /** @param {Record<string, string>} now  what stands */
  function stand(now) {
    settings = now;
  }

  /** @param {Record<string, any>} inputs  as the server used them */
  function update(inputs) {
    for (const row of rows) row.update(inputs);
  }
  return { element, held, stand, update };
}
