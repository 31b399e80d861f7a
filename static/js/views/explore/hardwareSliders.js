/**
 * Sliders of the hardware: FLOP/s, memory, link and network as multiples of the catalogue's, which is the middle; beside
 * each a box for what lies between or beyond. Of the plan, or of whatever else they are given.
 */
import { setMultiple } from "../../actions.js";
import { count } from "../../format.js";
import { hardwarePath } from "../../fieldSweep.js";
import { multiples, PARTS, timesWords } from "../../hardware.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createSweepButton } from "./sweepButton.js";

const MOST = 3; // powers of two either way
const STEP = 0.25;
const LEAST_TIMES = 0.001;
const MOST_TIMES = 1000;

/** The plan's hardware. @type {Moved} */
const OF_PLAN = {
  of: "",
  title: "What if",
  now: () => multiples(state.scenario, state.catalog),
  set: setMultiple,
  // between nodes there is nothing to multiply where there is one
  has: (part, times) => part !== "network" || times !== 1 || state.scenario.cluster.nodes > 1,
};

/**
 * What is moved: `of` says of what, "" for the plan, whose parts have sweeps; `has` whether a part is there.
 * @typedef {{of: string, title: string, now: () => Record<import("../../hardware.js").Part, number | null>,
 *   set: (part: import("../../hardware.js").Part, times: number) => void,
 *   has: (part: import("../../hardware.js").Part, times: number) => boolean}} Moved
 * @param {Moved} [moved]
 */
export function createHardwareSliders({ of, title, now: current, set, has } = OF_PLAN) {
  const rows = PARTS.map(([part, label]) => {
    const id = `${of ? "own-" : ""}multiple-${part}`;
    const spoken = of ? { "aria-label": `${of}: ${label}` } : {};
    const exact = h("input", {
      type: "number",
      min: LEAST_TIMES,
      step: "any",
      "aria-label": `${of && `${of}: `}${label}, exact multiple`,
    });
    const range = h("input", { type: "range", id, min: -MOST, max: MOST, step: STEP, value: 0, ...spoken });
    const say = (/** @type {number} */ times) => {
      exact.value = String(Number(times.toPrecision(3)));
      range.setAttribute("aria-valuetext", `${label} ${timesWords(times)}`);
    };
    range.addEventListener("input", () => say(2 ** range.valueAsNumber));
    range.addEventListener("change", () => set(part, 2 ** range.valueAsNumber));
    range.addEventListener("dblclick", () => set(part, 1));
    exact.addEventListener("change", () => {
      const times = exact.valueAsNumber;
      const good = times >= LEAST_TIMES && times <= MOST_TIMES;
      refused.hidden = good;
      if (good) {
        range.value = String(Math.log2(times));
        set(part, times);
      } else {
        refused.replaceChildren(
          h("b", { text: "Refused: " }),
          `${label} can be from ${LEAST_TIMES} to ${count(MOST_TIMES)} times the catalogue's.`,
        );
        say(current()[part] ?? 1);
      }
    });
    exact.addEventListener("focus", () => exact.select());
    const swept = createSweepButton(hardwarePath(part), label);
    const element = h(
      "div",
      { class: "multiple", "data-part": !of && hardwarePath(part) },
      h(of ? "span" : "label", {
        for: of ? null : id,
        text: label,
        title: `${label} as a multiple of the catalogue's; double-click: × 1.`,
      }),
      h("div", { class: "track" }, h("i"), range),
      h("span", { class: "times" }, "×", exact),
      !of && swept.element,
    );
    return { part, range, exact, say, swept, element };
  });
  const refused = h("div", { class: "problem", role: "alert", hidden: true });
  const changed = h("span", { class: "chosen" });
  const element = h(
    "details",
    { class: of ? "unfold own-multiples" : "unfold multiples" },
    h("summary", {}, h("b", { text: title }), changed),
    rows.map((row) => row.element),
    refused,
  );

  function update() {
    const now = current();
    for (const { part, range, exact, say, swept, element: row } of rows) {
      const times = now[part];
      swept.update();
      row.hidden = times === null || !has(part, times);
      if (times === null || [range, exact].some((one) => one === document.activeElement)) continue;
      range.value = String(Math.log2(times));
      say(times);
    }
    const moved = PARTS.filter(([part]) => now[part] !== null && now[part] !== 1);
    put(
      changed,
      moved.length
        ? moved.map(([part, label]) => `${label} ${timesWords(now[part] ?? 1)}`).join(", ")
        : PARTS.filter((_, at) => !of || !rows[at].element.hidden)
            .map(([, label]) => label)
            .join(", "),
    );
    element.classList.toggle("set", moved.length > 0);
  }
  return { element, update };
}
