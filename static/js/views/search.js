// @ts-check
/** Search: every plan of the present model on the present cluster; the best ones, and the front of time and memory. */
import { exploreScenario } from "../actions.js";
import { api, ApiError } from "../api.js";
import { front } from "../figures/front.js";
import { bytes, count, plural, said, seconds, short } from "../format.js";
import { planWords } from "../planwords.js";
import { canonical, chipOf } from "../scenario.js";
import { state, subscribe } from "../state.js";
import { announce, colour, h, narrow, put } from "./dom.js";
import { FigureCard } from "./figure.js";
import { planTable } from "./plantable.js";
import { createSearchForm } from "./searchform.js";
import { createSheet } from "./sheet.js";

/** @typedef {import("../types.js").Sweep} Sweep */

const QUIET_MS = 350;

/** @param {HTMLElement} root */
export function createSearch(root) {
  const form = createSearchForm();
  const sheet = createSheet("What to search", [form.element]);
  const problem = h("div", { class: "notices" });
  const counts = h("p", { class: "counts", "aria-live": "off" });
  const bar = h("div", { class: "progress busy", hidden: true }, h("i"));
  const act = h("button", { type: "button", class: "ghost", onclick: () => (asking ? cancel() : void search()) });
  const status = h(
    "section",
    { class: "card w12", id: "search-status" },
    h("header", {}, h("h3", { text: "Plans" }), h("span", { class: "grow" }), act),
    counts,
    bar,
  );
  const name = () => "headroom-search";
  const figure = new FigureCard({ id: "front", title: "Time against memory", height: 330, span: "w12", name });
  put(figure.sub, "plans that none beats in both; click one to open it · ◇ present plan");
  const hint = h("p", { class: "hint" });
  figure.below.append(hint);
  const best = h("div", { class: "scroll", tabindex: 0, "aria-label": "Best plans" });
  const others = h("div", { class: "scroll tall", tabindex: 0, "aria-label": "Front of time and memory" });
  const bestSub = h("span", { class: "sub" });
  const bestCard = h(
    "section",
    { class: "card w12", id: "best-plans", hidden: true },
    h("header", {}, h("h3", { text: "Best plans" }), bestSub),
    best,
  );
  const frontCard = h(
    "section",
    { class: "card w12", id: "front-plans", hidden: true },
    h(
      "header",
      {},
      h("h3", { text: "Front" }),
      h("span", { class: "sub", text: "fastest first, each later one needs less memory" }),
    ),
    others,
  );
  figure.element.hidden = true;
  const main = h("main", { tabindex: -1 }, problem, status, bestCard, figure.element, frontCard);
  root.append(sheet.panel, main, sheet.button);
  /** @type {Sweep | null} */
  let answer = null;
  let answered = ""; // the specification that the answer is for
  /** @type {AbortController | null} */
  let asking = null;
  let timer = 0;
  let listening = false;

  function specification() {
    const { model, cluster, training } = state.scenario;
    const { objective, memory_gb, slowest_s, locked } = state.wanted;
    const limits = {
      ...(memory_gb && { memory_bytes: memory_gb * 1e9 }),
      ...(slowest_s && { max_step_time_s: slowest_s }),
    };
    const held = Object.entries(locked).map(([name, value]) => [name, typed(name, value)]);
    return { model, cluster, training, objective, limits, locked: Object.fromEntries(held) };
  }

  /** The value of a held field as the server wants it; what is no number is left for the server to refuse. @param {string} name @param {string} value */
  function typed(name, value) {
    const type = state.catalog.fields[`plan.${name}`]?.type;
    if (type === "boolean") return value === "true";
    return type === "integer" && Number.isFinite(Number(value)) ? Number(value) : value;
  }

  function cancel() {
    asking?.abort();
    asking = null;
    busy(false);
    put(counts, "Cancelled.");
  }

  /** @param {boolean} yes */
  function busy(yes) {
    bar.hidden = !yes;
    put(act, yes ? "Cancel" : "Search again");
    main.classList.toggle("dim", yes && Boolean(answer));
  }

  async function search() {
    clearTimeout(timer);
    asking?.abort();
    const mine = new AbortController();
    asking = mine;
    const asked = specification();
    busy(true);
    put(counts, "Searching …");
    /** @type {any} */
    let last = null;
    try {
      await api.sweep(
        asked,
        (line) => {
          if (mine.signal.aborted) return;
          last = line;
          if (line.waiting) put(counts, "Another search is on its way; this one waits for it.");
          else if (line.tried !== undefined)
            put(counts, `${short(line.tried)} plans tried, ${short(line.fitting)} fit, ${seconds(line.seconds)}`);
        },
        mine.signal,
      );
      if (mine.signal.aborted) return;
      if (!last?.result) throw new ApiError(last?.detail ?? "The search ended without an answer.", 500, last?.problems);
      answer = last.result;
      answered = canonical(asked);
      form.update();
      problem.replaceChildren();
      draw();
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      refuse(error);
    } finally {
      if (asking === mine) {
        asking = null;
        busy(false);
      }
    }
  }

  /** @param {ApiError} error */
  function refuse(error) {
    answered = "";
    put(counts, "");
    form.update(error.problems.filter(({ field }) => /^(locked|limits|objective)/.test(field)));
    const text = error.problems.length ? error.problems.map(said).join(" ") : error.message;
    const title = h("b", { text: "This cannot be searched." });
    problem.replaceChildren(h("div", { class: "notice", role: "alert" }, title, h("span", { text })));
  }

  const wordsOf = (/** @type {any} */ plan) => {
    const { degrees, rest } = planWords(plan, state.catalog.fields);
    return [degrees, rest].filter(Boolean).join(", ");
  };
  const shown = (/** @type {import("../types.js").Found} */ found) => ({
    ...found,
    words: wordsOf(found.scenario.plan),
  });

  function draw() {
    if (!answer) return;
    const { plans_tried, plans_fitting, plans_per_s, seconds: took_s, best: found, pareto } = answer;
    put(
      counts,
      `${plural(plans_tried, "plan")} tried in ${seconds(took_s)}, ${short(plans_per_s)} per second; ${count(plans_fitting)} fit.`,
    );
    announce(counts.textContent ?? "");
    for (const one of [bestCard, frontCard, figure.element]) one.hidden = !found.length;
    if (!found.length) {
      const remedy = h("span", { text: "Allow more memory or time, release a field, or search on more chips." });
      problem.replaceChildren(h("div", { class: "notice" }, h("b", { text: "No plan fits." }), remedy));
      return;
    }
    put(bestSub, `by ${answer.objective.replaceAll("_", " ")}; a click opens the plan in Explore`);
    best.replaceChildren(planTable(found));
    others.replaceChildren(planTable(pareto));
    const capacity = Math.min(
      chipOf(state.scenario, state.catalog).memory_bytes ?? Infinity,
      state.wanted.memory_gb ? state.wanted.memory_gb * 1e9 : Infinity,
    );
    const { estimate, estimated } = state;
    const present =
      estimate && estimated === state.scenario
        ? {
            words: wordsOf(estimated.plan),
            step_time_s: estimate.step_time_s,
            peak_bytes: estimate.memory.peak_bytes,
            reserved_bytes: estimate.memory.reserved_bytes,
          }
        : null;
    figure.later(() => {
      const made = front({
        plans: pareto.map(shown),
        best: shown(found[0]),
        present,
        capacity_bytes: capacity,
        colour,
        narrow: narrow(),
      });
      requestAnimationFrame(() => listen());
      return made;
    });
    put(hint, `Limit ${bytes(capacity)} per chip, allocator's reserve included.`);
  }

  /** A click on a point opens its plan; Plotly gives elements their events with the first drawing. */
  function listen() {
    const plot = /** @type {any} */ (figure.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", (/** @type {any} */ { points: [point] }) => {
      const found =
        point.curveNumber === 0 ? answer?.pareto[point.pointNumber] : point.curveNumber === 1 ? answer?.best[0] : null;
      if (found) exploreScenario(found.scenario);
    });
  }

  function update() {
    if (state.view !== "search") {
      clearTimeout(timer);
      if (asking) cancel();
      return;
    }
    form.update();
    if (answered === canonical(specification())) return draw();
    clearTimeout(timer);
    timer = window.setTimeout(() => void search(), QUIET_MS);
    return undefined;
  }

  subscribe(["view", "scenario", "wanted", "catalog", "online"], () => state.online && update());
  subscribe(["estimate", "theme"], () => state.view === "search" && answer && !asking && draw());
  busy(false);
  update();
  return { panel: sheet };
}
