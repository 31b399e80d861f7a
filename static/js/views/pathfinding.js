// @ts-check
/**
 * Pathfinding: the machine from technology under sliders. Time, overflow and what binds move with them; below, the
 * power split and its search, plans on many chips, what contradicts itself, and a Llama layer on a real chip.
 */
import { api, ApiError } from "../api.js";
import { hierarchical, tokenOfLevel } from "../figures/hierarchy.js";
import { powerPath, powerSweep, SHARE_TOKENS, shareWord } from "../figures/power.js";
import { studyFigure, tokenOfSeries } from "../figures/study.js";
import { percent, quantity, significant, split } from "../format.js";
import { colour, h, narrow, put, swatch } from "./dom.js";
import { FigureCard } from "./figure.js";
import { createPathSliders } from "./pathsliders.js";
import { tableView } from "./table.js";
import { trying } from "./toast.js";

/** Groups of the study's own series that this section draws live. */
export const LIVE_GROUPS = ["time composition", "memory per data shard", "power split"];
const KINDS = ["weights", "activations", "pointwise"];
const name = () => "deepflow-lstm";

/** @param {{change: (settings: Record<string, string>) => void}} options  `change`: a slider was let go */
export function createPathfinding({ change }) {
  const tiles = createTiles();
  const sliders = createPathSliders({ preview: (settings) => void live(settings), change });
  const problem = h("div", { class: "problem w12", role: "alert", hidden: true });
  const time = card("path-time", "Time composition", 240);
  const memory = card("path-memory", "Memory of one chip", 240);
  const roof = card("path-roofline", "Roofline of the machine, level by level", 340);
  const sweep = card("path-sweep", "Power between compute and memory", 260);
  const find = h("button", { type: "button", text: "Find the best split", onclick: () => trying(search()) });
  const path = card("path-search", "Search of the power split", 260, [find]);
  path.card.plot.classList.remove("skeleton");
  path.card.plot.style.height = "0";
  path.legend.append("Differential evolution over the four shares of a chip; the way to the best split is drawn here.");
  const plans = createTable("path-plans", "Plans on many chips");
  const corrections = createCorrections();
  const llama = createLlama();
  const element = h(
    "div",
    { class: "pathfinding w12", id: "pathfinding" },
    tiles.element,
    sliders.element,
    problem,
    time.card.element,
    memory.card.element,
    roof.card.element,
    llama.element,
    sweep.card.element,
    path.card.element,
    plans.element,
    corrections.element,
  );
  /** @type {any} */
  let seen = null;
  /** @type {any} */
  let found = null;
  let searched = ""; // inputs of that search
  /** @type {Record<string, string>} */
  let settings = {};
  /** @type {AbortController | null} */
  let asking = null;

  /** @param {Record<string, string>} now */
  async function live(now) {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      const answer = await api.pathfinding(now, signal);
      if (signal.aborted) return;
      seen = answer;
      problem.hidden = true;
      element.classList.remove("dim");
      sliders.update(now, seen.inputs);
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      problem.hidden = false;
      put(problem, error.message);
      element.classList.add("dim");
    }
  }

  async function search() {
    find.disabled = true;
    try {
      const begun = settings;
      found = await api.pathfindingSearch(begun);
      searched = JSON.stringify(begun);
      draw();
    } finally {
      find.disabled = false;
    }
  }

  /** Inputs that stand: also what needs longer than a frame. @param {Record<string, string>} now */
  async function update(now) {
    settings = now;
    await live(now);
    llama.start();
    const table = await api.pathfindingPlans(now).catch(() => null);
    if (table && settings === now) plans.update(planTable(table), planWords(table));
  }

  function draw() {
    if (!seen) return;
    tiles.update(seen);
    const bars = (/** @type {any[]} */ series) => () => studyFigure({ series, colour, narrow: narrow() });
    const timed = compositionSeries(seen);
    time.card.now(bars(timed));
    const held = memorySeries(seen);
    memory.legend.replaceChildren(...held.map((one, at) => h("span", {}, swatch(tokenOfSeries(one, at)), one.name)));
    memory.card.later(bars(held));
    levelLegend(roof.legend, seen.hierarchy);
    const { hierarchy } = seen;
    roof.card.later(() => hierarchical({ hierarchy, colour, narrow: narrow() }));
    sweep.legend.replaceChildren(h("span", {}, swatch("accent"), "now"), h("span", {}, swatch("good"), "least"));
    const { sweep: line, time_s } = seen;
    sweep.card.later(() => powerSweep({ sweep: line, time_s, colour }));
    corrections.update(seen);
    if (!found) return;
    path.card.element.classList.toggle("dim", searched !== JSON.stringify(settings));
    const { names } = found;
    path.legend.replaceChildren(
      ...names.map((/** @type {string} */ one, /** @type {number} */ at) => h("span", {}, swatch(SHARE_TOKENS[at]), shareWord(one))),
      h("span", {}, swatch("ink"), "time"),
      h("span", {}, swatch("good"), "best"),
    );
    const whole = found;
    path.card.later(() => powerPath({ search: whole, colour }));
  }

  return { element, update, redraw: () => (draw(), llama.draw()) };
}

/** @param {string} id @param {string} title @param {number} height @param {HTMLElement[]} [actions] */
function card(id, title, height, actions = []) {
  const made = new FigureCard({ id, title, height, span: "", actions, name });
  const legend = h("div", { class: "legend" });
  made.below.append(legend);
  return { card: made, legend };
}

/** @param {HTMLElement} legend @param {import("../figures/hierarchy.js").Hierarchy} hierarchy */
function levelLegend(legend, { roofs }) {
  legend.replaceChildren(
    ...roofs.map(({ name: level, bytes_per_s, tile, source }, at) =>
      h("span", { title: source }, swatch(tokenOfLevel(at)), `${level}, ${quantity(bytes_per_s, "bytes_per_s")}, tiles of ${tile}`),
    ),
  );
}

/** @param {any} seen @returns {any[]} */
function compositionSeries({ composition }) {
  return [
    {
      group: "time composition",
      name: "seconds of the step",
      x_label: "component",
      y_label: "s",
      kind: "bar",
      x: composition.map((/** @type {any} */ one) => one.name),
      y: composition.map((/** @type {any} */ one) => one.seconds),
    },
  ];
}

/** @param {any} seen @returns {any[]} */
function memorySeries({ memory }) {
  return KINDS.map((kind) => ({
    group: "memory of one chip",
    name: kind,
    x_label: "part",
    y_label: "GB",
    kind: "bar",
    stacked: true,
    x: memory.map((/** @type {any} */ one) => one.part),
    y: memory.map((/** @type {any} */ one) => one[`${kind}_bytes`] / 1e9),
  }));
}

function createTiles() {
  /** @param {string} id @param {string} title */
  const tile = (id, title) => {
    const [value, unit, note] = [h("span"), h("small"), h("p")];
    const element = h("div", { class: "card tile", id }, h("dt", { text: title }), h("dd", {}, value, unit), h("dd", { class: "more" }, note));
    return { element, value, unit, note };
  };
  const time = tile("path-tile-time", "Time of a step");
  const overflow = tile("path-tile-overflow", "Memory overflow");
  const binds = tile("path-tile-binds", "What binds the products");
  const shares = tile("path-tile-shares", "Power shares");
  const element = h("dl", { class: "tiles four" }, [time, overflow, binds, shares].map((one) => one.element));

  /** @param {any} seen */
  function update({ time_s, overflow: rate, needed_bytes, capacity_bytes, binds: all, share_sum, time_per_step_s }) {
    const [number, unit] = split(time_s, "s");
    put(time.value, number);
    put(time.unit, unit);
    put(time.note, `target for a day per epoch: ${quantity(time_per_step_s, "s")}`);
    put(overflow.value, significant(rate));
    put(overflow.unit, "×");
    put(overflow.note, `${quantity(needed_bytes, "bytes")} on ${quantity(capacity_bytes, "bytes")}`);
    overflow.note.className = rate > 1 ? "worse" : "better";
    const products_s = all.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.seconds, 0);
    put(binds.value, all[0]?.name ?? "–");
    put(binds.note, all.map((/** @type {any} */ one) => `${one.name} ${percent(one.seconds / products_s)}`).join(", "));
    put(shares.value, significant(100 * share_sum));
    put(shares.unit, "%");
    put(shares.note, share_sum > 1.0005 ? "more than the budget" : "of the budget");
    shares.note.className = share_sum > 1.0005 ? "caution" : "";
  }
  return { element, update };
}

/** @param {string} id @param {string} title */
function createTable(id, title) {
  const sub = h("span", { class: "sub" });
  const box = h("div", { class: "scroll tall", tabindex: 0, "aria-label": title });
  const element = h("section", { class: "card w12", id }, h("header", {}, h("h3", { text: title }), sub), box);
  /** @param {import("../types.js").Table} table @param {string} words */
  const update = (table, words) => {
    put(sub, words);
    box.replaceChildren(table.rows.length ? tableView(table) : h("p", { class: "empty", text: words }));
  };
  return { element, update };
}

/** @param {any} answer */
const planWords = ({ tried, chips, rows }) =>
  rows.length
    ? `${tried} plans on at most ${chips} chips, those that fit first; best: ${quantity(rows[0].seconds, "s")}`
    : `No plan on ${chips} chips: they have no link between them.`;

/** @param {any} answer @returns {import("../types.js").Table} */
function planTable({ rows }) {
  return {
    columns: [
      { title: "", text: true },
      { title: "dp" },
      { title: "lp" },
      { title: "hlp" },
      { title: "kp of the cells", text: true },
      { title: "kp of the softmax", text: true },
      { title: "chips" },
      { title: "time", unit: "s" },
      { title: "memory", unit: "B" },
      { title: "fits", text: true },
      { title: "efficiency", unit: "frac" },
    ],
    rows: rows.map((/** @type {any} */ row, /** @type {number} */ at) => [
      at === 0 ? "best" : "",
      row.dp,
      row.lp,
      row.hlp,
      row.hidden,
      row.softmax,
      row.chips,
      row.seconds,
      row.bytes,
      row.fits ? "yes" : "no",
      row.efficiency_frac,
    ]),
  };
}

function createCorrections() {
  const table = createTable("path-corrections", "As the reference has it, and corrected");
  const list = h("ol", { class: "facts" });
  table.element.append(list);
  /** @param {any} seen */
  function update({ compared, inconsistencies }) {
    table.update(
      {
        columns: [
          { title: "figure", text: true },
          { title: "reference" },
          { title: "corrected" },
          { title: "", text: true },
          { title: "contradiction", text: true },
        ],
        rows: compared.map((/** @type {any} */ one) => [
          `${one.group}: ${one.name}`,
          one.value,
          one.corrected,
          one.unit,
          one.notes.map((/** @type {number} */ number) => `[${number}]`).join(" "),
        ]),
      },
      "numbers in brackets: the contradictions below",
    );
    list.replaceChildren(
      ...inconsistencies.map((/** @type {any} */ one) => h("li", { text: `${one.what}. Corrected: ${one.corrected}.` })),
    );
  }
  return { element: table.element, update };
}

/** A Llama layer on a chip of the catalogue. */
function createLlama() {
  const chip = h("select", { "aria-label": "Chip" });
  const mode = h("select", { "aria-label": "Mode of the roofline" });
  const made = card("path-llama", "Llama 3 8B layer", 340, [chip, mode]);
  /** @type {any} */
  let hierarchy = null;
  const pick = () => trying(ask());
  chip.addEventListener("change", pick);
  mode.addEventListener("change", pick);

  async function start() {
    if (chip.options.length) return;
    const known = await api.hierarchyChoices();
    const options = (/** @type {string[]} */ all) => all.map((value) => h("option", { value, text: value }));
    chip.replaceChildren(...options(known.chips));
    mode.replaceChildren(...options(known.modes));
    chip.value = "h200-sxm";
    mode.value = "bound";
    await ask();
  }

  async function ask() {
    const scenario = {
      model: "llama3-8b",
      cluster: { chip: chip.value, chips_per_node: 1 },
      training: { seq_len: 4096, global_batch: 1, precision: "bf16" },
    };
    const answer = await api.hierarchy(scenario, mode.value);
    hierarchy = { ...answer, rows: answer.rows.filter((/** @type {any} */ row) => row.layer === "layer") };
    draw();
  }

  function draw() {
    if (!hierarchy) return;
    levelLegend(made.legend, hierarchy);
    const shown = hierarchy;
    made.card.later(() => hierarchical({ hierarchy: shown, colour, narrow: narrow() }));
  }
  return { element: made.card.element, start: () => void trying(start()), draw };
}
