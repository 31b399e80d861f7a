/** Sliders of the hardware: FLOP/s, memory, link and network as multiples of the catalogue's, which is the middle. */
import { setMultiple } from "../../actions.js";
import { multiples, PARTS, timesWords } from "../../hardware.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";

const MOST = 3; // powers of two either way
const STEP = 0.25;

export function createHardwareSliders() {
  const rows = PARTS.map(([part, label]) => {
    const id = `multiple-${part}`;
    const said = h("output", { for: id });
    const range = h("input", { type: "range", id, min: -MOST, max: MOST, step: STEP, value: 0 });
    range.addEventListener("input", () => put(said, timesWords(2 ** range.valueAsNumber)));
    range.addEventListener("change", () => setMultiple(part, 2 ** range.valueAsNumber));
    range.addEventListener("dblclick", () => setMultiple(part, 1));
    const element = h(
      "div",
      { class: "multiple" },
      h("label", { for: id, text: label, title: `${label} as a multiple of the catalogue's; double-click: × 1.` }),
      h("div", { class: "track" }, h("i"), range),
      said,
    );
    return { part, label, range, said, element };
  });
  const changed = h("span", { class: "chosen" });
  const element = h(
    "details",
    { class: "unfold multiples" },
    h("summary", {}, h("b", { text: "What if" }), changed),
    rows.map((row) => row.element),
  );

  function update() {
    const now = multiples(state.scenario, state.catalog);
    for (const { part, label, range, said, element: row } of rows) {
      const times = now[part];
      row.hidden = times === null;
      if (times === null || document.activeElement === range) continue;
      range.value = String(Math.log2(times));
      range.setAttribute("aria-valuetext", `${label} ${timesWords(times)}`);
      put(said, timesWords(times));
    }
    const moved = PARTS.filter(([part]) => now[part] !== null && now[part] !== 1);
    put(
      changed,
      moved.length
        ? moved.map(([part, label]) => `${label} ${timesWords(now[part] ?? 1)}`).join(", ")
        : "FLOP/s, memory, link, network × catalogue",
    );
    element.classList.toggle("set", moved.length > 0);
  }
  return { element, update };
}
