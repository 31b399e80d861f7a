// @ts-check
/** Explore: the scenario at the left; at the right its numbers, its figures and the measured run beside them. */
import { loadMeasurement, setScenario } from "../actions.js";
import { memory } from "../figures/memory.js";
import { HEIGHT_PX, roofline } from "../figures/roofline.js";
import { stepTime as stepTimeFigure } from "../figures/steptime.js";
import { bytes, said, significant } from "../format.js";
import { memoryTokenOf, words } from "../figures/base.js";
import { stepTime } from "../measured.js";
import { differences } from "../scenario.js";
import { set, state, subscribe } from "../state.js";
import { pinned } from "../url.js";
import { api } from "../api.js";
import { announce, colour, h, narrow, put, swatch } from "./dom.js";
import { createErrors } from "./errors.js";
import { FigureCard } from "./figure.js";
import { createLayers } from "./layers.js";
import { createAssumptions, createCommunication } from "./lists.js";
import { createPanel } from "./panel.js";
import { createPins } from "./pins.js";
import { later, watch } from "./queue.js";
import { tableView } from "./table.js";
import { createTiles } from "./tiles.js";
import { warningList } from "./warnings.js";

/** @param {HTMLElement} root */
export function createExplore(root) {
  const panel = createPanel();
  const pins = createPins();
  const tiles = createTiles();
  const errors = createErrors();
  const notices = h("div", { class: "notices", "aria-live": "polite" });
  const name = () => `headroom-${String(typeof state.scenario.model === "string" ? state.scenario.model : state.scenario.model.name || "model").replace(/[^\w.-]+/g, "-")}`;
  /** @type {"category" | "phase"} */
  let by = "category";
  const modes = /** @type {const} */ (["category", "phase"]).map((word) => h("button", { type: "button", text: `by ${word}`, "aria-pressed": String(word === by), onclick: () => {
    by = word;
    modes.forEach((mode) => mode.setAttribute("aria-pressed", String(mode.textContent === `by ${word}`)));
    drawTime();
  } }));
  const time = new FigureCard({ id: "step-time", title: "Step time", height: 118, span: "w7", actions: modes, table: false, name });
  const mem = new FigureCard({ id: "memory", title: "Memory", height: 284, span: "w5", name });
  const roof = new FigureCard({ id: "roofline", title: "Roofline", height: HEIGHT_PX, span: "w7", name });
  const layers = createLayers({ name });
  const communication = createCommunication({ name });
  const assumptions = createAssumptions();
  const tables = [communication, assumptions, layers].map(({ element, update }) => ({ seen: false, element, update }));
  for (const table of tables) watch(table, table.element);
  const legend = h("div", { class: "legend" });
  const stages = h("div", { class: "scroll" });
  const warnings = h("details", { class: "warned", hidden: true });
  time.below.append(errors.element, warnings);
  mem.below.append(legend, stages);
  const leftOut = h("p", { class: "hint" });
  roof.below.append(leftOut);
  roof.sub.textContent = "○ predicted · ● measured · area: share of the step";
  const content = h("main", { id: "content", tabindex: -1 }, pins.element, notices, tiles.element, time.element, mem.element, roof.element,
    h("div", { class: "column w5" }, communication.element, assumptions.element), layers.element);
  root.append(panel.panel, content, panel.button);

  /** @type {{x: number[], y: number[]} | null} */
  let heldRange = null;

  function drawTime() {
    const { estimate, measurement, drag } = state;
    if (!estimate) return;
    const measuredStep_s = stepTime(measurement);
    const figure = stepTimeFigure({ estimate, measurement, measuredStep_s, by, largest_s: drag?.largest_s ?? 0, colour, narrow: narrow() });
    const { rows, scale } = figure;
    time.now(() => figure);
    put(time.sub, `${measurement ? "predicted against measured" : "predicted; no measurement chosen"}, ${scale.unit}`);
    const known = state.measuredScenario;
    errors.update({ rows, scale, by, step: { predicted: estimate.step_time_s, measured: measuredStep_s }, same: Boolean(known && !differences(state.scenario, known).length) });
  }

  function drawRest() {
    const { estimate, measurement, drag } = state;
    if (!estimate) return;
    mem.later(() => {
      const figure = memory({ memory: estimate.memory, measured: measurement?.memory ?? null, largest_bytes: drag?.largest_bytes ?? 0, colour });
      put(mem.sub, `${estimate.memory.stages.length > 1 ? "one chip of the fullest stage" : "one chip at the peak"}, ${figure.scale.unit}`);
      legend.replaceChildren(...figure.kinds.map(([kind, value]) => h("span", {}, swatch(memoryTokenOf(kind)), `${words(kind)} ${significant(value / figure.scale.factor)}`)));
      showStages();
      return figure;
    });
    if (!drag) heldRange = null;
    roof.later(() => {
      const figure = roofline({ estimate, kernels: measurement?.kernels ?? [], measuredStep_s: stepTime(measurement), precision: state.scenario.training.precision, colour, range: heldRange, narrow: narrow() });
      if (drag) heldRange = figure.range;
      put(leftOut, measurement?.kernels.length && figure.left_out ? `${figure.left_out} measured kernels have no FLOPs or bytes and are not drawn.` : "");
      return figure;
    });
    for (const table of tables) later(table, () => table.update(estimate));
  }

  function showStages() {
    const all = state.estimate?.memory.stages ?? [];
    stages.replaceChildren(...(all.length < 2 ? [] : [tableView({
      columns: [{ title: "stage", text: true }, { title: "layers" }, { title: "micro-batches in flight" }, { title: "peak", unit: "bytes" }],
      rows: all.map(({ stage, layers: held, in_flight, peak_bytes }) => [String(stage), held, in_flight, peak_bytes]),
    })]));
  }

  function showWarnings() {
    const found = state.measurement?.warnings ?? [];
    warnings.hidden = !found.length;
    warnings.replaceChildren(h("summary", { text: `${found.length === 1 ? "1 warning" : `${found.length} warnings`} of the measurement` }), warningList(found));
  }

  function showProblems() {
    content.classList.toggle("dim", state.problems.length > 0);
    const over = state.estimate && !state.problems.length ? state.estimate.problems : [];
    const which = panel.unplaced().length ? panel.unplaced() : state.problems;
    notices.replaceChildren(
      ...(state.problems.length ? [h(
        "div", { class: "notice" }, h("b", { text: state.problems[0].field === "server" ? "The estimate failed." : "This scenario cannot be estimated." }), h("span", { text: which.map(said).join(" ") }),
        state.estimate ? h("span", { text: "The figures still show the last one that could." }) : h("button", { type: "button", class: "link", text: "Back to the sample", onclick: () => setScenario(state.base) }),
      )] : []),
      ...over.map(({ message, remedy }) => h("div", { class: "notice" }, h("b", { text: message }), h("span", { text: remedy }))),
    );
  }

  subscribe(["estimate", "measurement", "measuredScenario", "baselineEstimate", "drag", "theme"], (_, changed) => {
    tiles.update();
    if (state.view !== "explore") return;
    drawTime();
    if (changed.size === 1 && changed.has("drag") && state.drag) return;
    drawRest();
    if (!state.drag && state.estimate) {
      const { step_time_s, memory: { peak_bytes, fits } } = state.estimate;
      announce(`Step time ${significant(step_time_s * 1000)} milliseconds, peak memory ${bytes(peak_bytes)}, ${fits ? "fits" : "does not fit"}. ${state.estimate.limits}`);
    }
  });
  subscribe(["view"], () => {
    if (state.view === "explore") requestAnimationFrame(() => { drawTime(); drawRest(); });
  });
  subscribe(["scenario", "pins", "measured", "measurement", "measuredScenario", "measurements"], pins.update);
  subscribe(["problems", "estimate", "scenario"], showProblems);
  subscribe(["measurement"], showWarnings);
  subscribe(["measured"], () => void loadMeasurement());
  subscribe(["pins"], baseline);
  pins.update();

  /** The first pinned scenario is the baseline of all deltas. */
  async function baseline() {
    const pin = state.pins.find((one) => one.startsWith("s:"));
    const estimate = pin ? await api.estimate(pinned(pin, state.base)).catch(() => null) : null;
    if (pin === state.pins.find((one) => one.startsWith("s:"))) set({ baselineEstimate: estimate });
  }
  if (state.pins.length) void baseline();
  if (state.measured) void loadMeasurement();
  return { panel };
}
