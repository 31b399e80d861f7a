/** Explore: the plan at the left; at the right A against B: five numbers, where the difference goes, what would help. */
import { matched } from "../../figures/matched.js";
import { ownWorks } from "../../figures/ownOps.js";
import { roofsApart, worksOf, worksOfKernels } from "../../figures/points.js";
import { HEIGHT_PX, roofline } from "../../figures/roofline.js";
import { bytes, plural, seconds } from "../../format.js";
import { measuredChip } from "../../measured.js";
import { describe, same } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { announce, byId, colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { REPORT_EVENT } from "../common/takeAlong.js";
import { later, watch } from "../common/queue.js";
import { createAssumptions } from "./assumptions.js";
import { createCommunication } from "./communication.js";
import { createConfiguration } from "./configuration.js";
import { createKernels } from "./kernels.js";
import { createLayers } from "./layers.js";
import { createLevels } from "./levels.js";
import { createMemory } from "./memoryCard.js";
import { createNotices } from "./notices.js";
import { createPanel } from "./panel.js";
import { createProfile } from "./profile.js";
import { createRemedies } from "./remedies.js";
import { createSidesBar } from "./sidesBar.js";
import { createStrip } from "./strip.js";
import { createSweep } from "./sweepCard.js";
import { createTabs } from "./tabs.js";
import { createTimeline } from "./timelineCard.js";
import { createWaterfall } from "./waterfall.js";

/**
 * What was measured, as far as it says its work: of a profile the ops, whose shapes tell FLOPs and bytes, which names of
 * most kernels do not.
 * @param {import("../../types.js").Measurement | null} run
 */
const kernelsOf = (run) => (run?.expected ? ownWorks(run.expected.ops).measured : run?.kernels);

/** Names of A and B that are one thing. @returns {[string, string][]} */
function joinedNow() {
  const [a, b] = [state.pair?.a, state.pair?.b].map((side) => {
    const run = side?.measurement;
    return side && run ? { ...side, measurement: { ...run, kernels: kernelsOf(run) ?? [] } } : (side ?? null);
  });
  return matched({ a, b, edited: "" }, state.measurement?.expected?.ops, state.catalog.sends).flatMap(
    ({ by, names }) => (by ? [names] : []),
  );
}

/** How names of downloaded files begin. */
function name() {
  const { model } = state.scenario;
  return `headroom-${String(typeof model === "string" ? model : model.name || "model").replace(/[^\w.-]+/g, "-")}`;
}

/** The side whose own ops the tabs are about: a traced program's, beside the catalogue's form of it as long as nobody moves that. */
function ownShown() {
  const { pair, measuredScenario, scenario } = state;
  const traced = [pair?.a, pair?.b].find((side) => side?.kind === "traced");
  return traced?.estimate && pair?.edited && measuredScenario && same(measuredScenario, scenario) ? traced : null;
}

/** The estimate that the tabs are about: of the plan that is edited, else of a side that has one. */
function shownEstimate() {
  const { pair, estimate } = state;
  const own = ownShown();
  if (own) return own.estimate;
  if (!pair || pair.edited) return estimate;
  return pair.b?.estimate ?? pair.a?.estimate ?? estimate;
}

/** Whose estimate the tabs are about, where that is not plain. */
function ofWhom() {
  const { pair, estimated, scenario, catalog } = state;
  const own = ownShown();
  if (own) return `of ${own.letter}, the program's own ops`;
  if (!pair || pair.edited || pair.b?.estimate || pair.a?.estimate) return "";
  return `of ${describe(estimated ?? scenario, catalog)}, which the controls hold: neither A nor B`;
}
/** The side whose estimate they are about, where nobody edits it. */
function ofSide() {
  const { pair } = state;
  if (!pair || pair.edited) return "";
  const side = [pair.b, pair.a].find((one) => one?.estimate);
  return side ? `of ${side.letter}${side.own ? ", the program's own ops" : ""}` : "";
}
const whose = () => ofWhom() && `Layers, communication, memory and what is assumed are ${ofWhom()}.`;

/**
 * @param {HTMLElement} root
 * @param {{tour: () => void, choose: (letter: "A" | "B") => void}} options  `tour` begins the tour of the page, `choose`
 *   asks what stands at a side
 */
export function createExplore(root, { tour, choose }) {
  const panel = createPanel({ tour });
  createSidesBar(byId("ab"), choose);
  const strip = createStrip();
  const swept = createSweep({ name });
  const notices = createNotices(panel.unplaced);
  const water = createWaterfall({ name });
  const remedies = createRemedies();
  const levels = createLevels(() => drawRoofline());
  const roof = new FigureCard({
    id: "roofline",
    title: "Roofline",
    height: HEIGHT_PX,
    span: "w6 fig",
    actions: levels.buttons,
    name,
  });
  const time = createTimeline({ name });
  const profile = createProfile();
  const memory = createMemory({ name });
  const layers = createLayers({ name, whose: () => ofWhom() || ofSide() });
  const kernels = createKernels({ name });
  const communication = createCommunication({ name });
  const assumptions = createAssumptions();
  const configuration = createConfiguration();
  const of = (/** @type {(estimate: import("../../types.js").Estimate) => void} */ draw) => () => {
    const estimate = shownEstimate();
    if (estimate) draw(estimate);
  };
  const tabs = createTabs(
    [
      { key: "layers", title: "Layers", element: layers.element, update: of(layers.update) },
      { key: "kernels", title: "Kernels", element: kernels.element, update: kernels.update },
      {
        key: "communication",
        title: "Communication",
        element: communication.element,
        update: of(communication.update),
      },
      { key: "memory", title: "Memory", element: memory.element, update: of(drawMemory) },
      { key: "assumed", title: "Assumed", element: assumptions.element, update: of(assumptions.update) },
      { key: "configuration", title: "Configuration", element: configuration.element, update: configuration.update },
    ],
    whose,
  );
  const content = h(
    "main",
    { id: "content", tabindex: -1 },
    h("h1", { class: "sr", text: "A against B" }),
    h("h2", { class: "sr", text: "The step" }),
    notices.element,
    strip.element,
    swept.element,
    water.element,
    remedies.element,
    roof.element,
    time.element,
    ...profile.elements,
    tabs.element,
  );
  root.append(panel.panel, content, panel.button);

  watch(tabs, tabs.element);

  /** @type {{x: number[], y: number[]} | null} */
  let heldRange = null;

  /** @param {import("../../types.js").Estimate} estimate */
  function drawMemory(estimate) {
    const { pair, drag } = state;
    const run = pair?.a?.measurement ?? pair?.b?.measurement ?? null;
    memory.update(estimate, run, drag?.largest_bytes ?? 0);
  }

  /** Work of each side, and the roofs it is held against. */
  function rooflineParts() {
    const { pair, measurement } = state;
    const both = [pair?.a, pair?.b].filter((side) => side !== null && side !== undefined);
    const own = both.find((side) => side.own)?.own ?? null;
    const series = both.flatMap(({ letter, predicted, estimate, measurement: run, step_s, own: its }) => {
      if (its) return [{ letter, predicted, works: worksOf(ownWorks(its.ops).predicted), step_s: step_s ?? 1 }];
      if (estimate) return [{ letter, predicted, works: worksOf(estimate.ops), step_s: step_s ?? 1 }];
      const kernels_ = kernelsOf(run);
      if (!kernels_?.length) return [];
      const all_s = kernels_.reduce((sum, { total_s }) => sum + total_s, 0);
      return [{ letter, predicted, works: worksOfKernels(kernels_), step_s: step_s ?? all_s }];
    });
    const bare = both.length === 1 && !both[0].predicted && !both[0].scenario ? both[0].measurement : null;
    const chip = bare && measuredChip(bare, state.catalog.chips);
    // of a program that nobody described only the roofs of the chip that it ran on mean something
    if (bare && !chip) series.length = 0;
    const longest = own?.ops.reduce((most, one) => (one.flops > most.flops ? one : most), own.ops[0]);
    const precision =
      longest?.precision ?? (both.find(({ scenario }) => scenario)?.scenario ?? state.scenario).training.precision;
    const usual =
      both.find(({ estimate }) => estimate)?.estimate?.roofs ??
      measurement?.prediction?.roofs ??
      state.estimate?.roofs ??
      null;
    // each side has the roofs of its own chip
    const roofed = both.flatMap(({ letter, estimate, measurement: run, scenario }) => {
      const ran = run && measuredChip(run, state.catalog.chips)?.roofs;
      const roofs = estimate?.roofs ?? ran ?? run?.prediction?.roofs ?? usual;
      return roofs ? [{ letter, roofs, precision: scenario?.training.precision ?? precision }] : [];
    });
    const silent = both.length > 0 && !series.length && both.every(({ estimate, measurement: run }) => estimate || run);
    return { series, roofed, silent };
  }

  function drawRoofline() {
    const { drag, catalog, selected } = state;
    if (!drag) heldRange = null;
    levels.update();
    const { roofed: known, silent } = rooflineParts();
    roof.element.hidden = silent;
    if (!known.length || silent) return;
    roof.later(() => {
      const { series: all, roofed } = rooflineParts();
      const range = heldRange;
      const { series, bytes_per_s, level } = levels.apply(all);
      const there = roofed.filter(({ letter }) => !level || letter in bytes_per_s);
      const parts = {
        series,
        roofed: roofsApart(
          there.map((one) => ({
            ...one,
            roofs: {
              ...one.roofs,
              memory_bytes_per_s: bytes_per_s[one.letter] ?? one.roofs.memory_bytes_per_s,
            },
          })),
        ),
        level,
        joined: joinedNow(),
      };
      const figure = roofline({ ...parts, categories: catalog.categories, selected, colour, range, narrow: narrow() });
      if (drag) heldRange = figure.range;
      const letters = series.map(
        ({ letter, predicted }) => `${letter === "B" ? (predicted ? "◇" : "◆") : predicted ? "○" : "●"} ${letter}`,
      );
      const left = figure.left_out
        ? `${plural(figure.left_out, "unpriced kernel")}, ${seconds(figure.left_out_s)}`
        : "";
      put(roof.sub, letters.join(" "));
      roof.sub.title = left
        ? `${left}: their FLOPs or bytes are not known, as of copies; they are the strokes at the foot.`
        : "";
      return {
        ...figure,
        said: [
          level && `bytes of ${level}`,
          letters.join(" "),
          "hollow: predicted, solid: measured",
          parts.roofed.length > 1 && "roofs of A dotted, of B solid",
          "area: share of the step",
        ]
          .filter(Boolean)
          .join("; "),
      };
    });
  }

  /** Everything that may come after the step time. */
  function drawRest() {
    if (!state.estimate && !state.pair) return;
    drawRoofline();
    time.update();
    later(tabs, tabs.update, tabs.update);
  }

  let said = "";
  function say() {
    if (state.drag || !state.estimate || state.busy) return;
    const { step_time_s, memory: held, limits } = state.estimate;
    const words = `Step time ${seconds(step_time_s)}, peak memory ${bytes(held.peak_bytes)}, ${held.fits ? "fits" : "does not fit"}. ${limits}`;
    if (words !== said) announce(words);
    said = words;
  }

  subscribe(["pair", "drag", "theme", "usd_per_hour", "view"], (_, changed) => {
    strip.update();
    if (state.view !== "explore") return;
    water.update();
    if (changed.size === 1 && changed.has("drag") && state.drag) return;
    drawRest();
    say();
  });
  // peaks that are doubted, or are no longer
  subscribe(["catalog"], () => state.view === "explore" && water.update());
  subscribe(["timelines"], () => state.view === "explore" && time.update());
  subscribe(["levels"], () => state.view === "explore" && drawRoofline());
  subscribe(["difference", "selected"], (_, changed) => {
    if (state.view !== "explore") return;
    water.update();
    if (!changed.has("selected")) return;
    drawRest();
    profile.update();
  });
  subscribe(["remedies", "pair", "estimated", "problems", "drag", "usd_per_hour", "catalog"], remedies.update);
  subscribe(["problems", "estimate", "scenario", "pair"], () => {
    content.classList.toggle("dim", state.problems.length > 0);
    // a refusal before any estimate stands alone: figures that are not on their way have no place
    const there = [state.pair?.a, state.pair?.b].some((side) => side?.estimate || side?.measurement);
    content.classList.toggle("void", state.problems.length > 0 && !there);
    notices.update();
  });
  subscribe(["sweep"], () => {
    // on a narrow page the sheet, from which it was asked for, stands over it
    if (state.sweep && narrow()) panel.open(false);
    if (state.sweep) swept.element.scrollIntoView({ block: "nearest" });
  });
  subscribe(["measurement", "measuredScenario"], water.showWarnings);
  subscribe(["measurement", "measuredScenario", "theme", "view"], () => state.view === "explore" && profile.update());
  // what a proposal offers is beside the scenario that is shown
  subscribe(["scenario", "drag"], () => {
    if (state.view === "explore" && state.measurement && !state.measuredScenario && !state.drag) profile.update();
  });
  root.addEventListener(REPORT_EVENT, tabs.updateAll);
  profile.update();
  return { panel };
}
