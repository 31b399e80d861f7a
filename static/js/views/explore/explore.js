/** Explore: the scenario at the left; at the right its numbers, its figures and the measured run beside them. */
import { api } from "../../api.js";
import { HEIGHT_PX, roofline } from "../../figures/roofline.js";
import { bytes, significant } from "../../format.js";
import { beside, stepTime } from "../../measured.js";
import { loadMeasurement } from "../../measurements.js";
import { set, state, subscribe } from "../../state.js";
import { pinned } from "../../url.js";
import { announce, colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createLayers } from "./layers.js";
import { createAssumptions } from "./assumptions.js";
import { createCommunication } from "./communication.js";
import { createMemory } from "./memoryCard.js";
import { createNotices } from "./notices.js";
import { createPanel } from "./panel.js";
import { createPins } from "./pins.js";
import { createProfile } from "./profile.js";
import { later, watch } from "../common/queue.js";
import { createTiles } from "./tiles.js";
import { createTime } from "./timeCard.js";
import { trying } from "../common/toast.js";

/** How names of downloaded files begin. */
function name() {
  const { model } = state.scenario;
  return `headroom-${String(typeof model === "string" ? model : model.name || "model").replace(/[^\w.-]+/g, "-")}`;
}

/** @param {HTMLElement} root */
export function createExplore(root) {
  const panel = createPanel();
  const pins = createPins();
  const tiles = createTiles();
  const notices = createNotices(panel.unplaced);
  const time = createTime({ name });
  const memory = createMemory({ name });
  const roof = new FigureCard({ id: "roofline", title: "Roofline", height: HEIGHT_PX, span: "w7", name });
  const leftOut = h("p", { class: "hint" });
  roof.below.append(leftOut);
  put(roof.sub, "○ predicted · ● measured · area: share of the step · attention: the half that causality leaves");
  const profile = createProfile();
  const layers = createLayers({ name });
  const communication = createCommunication({ name });
  const assumptions = createAssumptions();
  const tables = [communication, assumptions, layers].map(({ element, update }) => ({ seen: false, element, update }));
  for (const table of tables) watch(table, table.element);
  const content = h(
    "main",
    { id: "content", tabindex: -1 },
    pins.element,
    notices.element,
    ...profile.elements,
    tiles.element,
    time.element,
    memory.element,
    roof.element,
    h("div", { class: "column w5" }, communication.element, assumptions.element),
    layers.element,
  );
  root.append(panel.panel, content, panel.button);

  /** @type {{x: number[], y: number[]} | null} */
  let heldRange = null;

  /** Everything that may come 60 ms after the step time. */
  function drawRest() {
    const { estimate, drag } = state;
    if (!estimate) return;
    const measurement = beside(state, state.estimated ?? state.scenario);
    memory.update(estimate, measurement, drag?.largest_bytes ?? 0);
    if (!drag) heldRange = null;
    roof.later(() => {
      const kernels = measurement?.kernels ?? [];
      const { precision } = state.scenario.training;
      const measuredStep_s = stepTime(measurement);
      const range = heldRange;
      const { categories } = state.catalog;
      const shown = { estimate, kernels, measuredStep_s, precision, categories };
      const figure = roofline({ ...shown, colour, range, narrow: narrow() });
      if (drag) heldRange = figure.range;
      const missing = kernels.length && figure.left_out;
      put(leftOut, missing ? `${missing} measured kernels have no FLOPs or bytes and are not drawn.` : "");
      return figure;
    });
    for (const table of tables) {
      const draw = () => table.update(estimate);
      later(table, draw, draw);
    }
  }

  function say() {
    if (state.drag || !state.estimate) return;
    const { step_time_s, memory: held, limits } = state.estimate;
    const fits = held.fits ? "fits" : "does not fit";
    const time_ms = significant(step_time_s * 1000);
    announce(`Step time ${time_ms} milliseconds, peak memory ${bytes(held.peak_bytes)}, ${fits}. ${limits}`);
  }

  subscribe(["estimate", "measurement", "measuredScenario", "baselineEstimate", "drag", "theme"], (_, changed) => {
    tiles.update();
    if (state.view !== "explore") return;
    time.update();
    if (changed.size === 1 && changed.has("drag") && state.drag) return;
    drawRest();
    say();
  });
  subscribe(["axes", "scenario", "estimated", "problems", "drag"], tiles.updateRemedies);
  subscribe(["view"], () => {
    if (state.view !== "explore") return;
    time.update();
    drawRest();
  });
  subscribe(["scenario", "pins", "measured", "measurement", "measuredScenario", "measurements"], pins.update);
  subscribe(["problems", "estimate", "scenario"], () => {
    content.classList.toggle("dim", state.problems.length > 0);
    notices.update();
  });
  subscribe(["measurement"], time.showWarnings);
  subscribe(["measurement", "measuredScenario", "theme", "view"], () => state.view === "explore" && profile.update());
  subscribe(["measured"], () => void trying(loadMeasurement()));
  subscribe(["pins"], baseline);
  pins.update();
  profile.update();

  /** The first pinned scenario is the baseline of all deltas. */
  async function baseline() {
    const first = () => state.pins.find((one) => one.startsWith("s:"));
    const pin = first();
    const estimate = pin ? await api.estimate(pinned(pin, state.base)).catch(() => null) : null;
    if (pin === first()) set({ baselineEstimate: estimate });
  }
  if (state.pins.length) void baseline();
  if (state.measured) void trying(loadMeasurement());
  return { panel };
}
