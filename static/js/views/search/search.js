/** Search: every plan of the present model on the present cluster; the best ones, and the front of time and memory. */
import { api, ApiError } from "../../api.js";
import { count, plural, saidTogether, seconds, short } from "../../format.js";
import { canonical } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { specification } from "../../sweeping.js";
import { announce, h, put } from "../common/dom.js";
import { planTable } from "./planTable.js";
import { createFront } from "./front.js";
import { createScroller } from "../common/scroller.js";
import { createSearchForm } from "./form.js";
import { createSheet } from "../common/sheet.js";

/** @typedef {import("../../types.js").Sweep} Sweep */

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
  const figure = createFront();
  const best = createScroller("Best plans");
  const others = createScroller("Front of time and memory", "tall");
  const bestSub = h("span", { class: "sub" });
  const bestCard = h(
    "section",
    { class: "card w12", id: "best-plans", hidden: true },
    h("header", {}, h("h3", { text: "Best plans" }), bestSub),
    best.element,
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
    others.element,
  );
  const main = h(
    "main",
    { tabindex: -1 },
    h("h1", { class: "sr", text: "Search" }),
    h("h2", { class: "sr", text: "Found" }),
    problem,
    status,
    bestCard,
    figure.element,
    frontCard,
  );
  root.append(sheet.panel, main, sheet.button);
  /** @type {Sweep | null} */
  let answer = null;
  let answered = ""; // the specification that the answer is for
  /** @type {AbortController | null} */
  let asking = null;
  let timer = 0;

  const wish = () => specification(state.scenario, state.wanted, state.catalog.fields);

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
    // an older answer stays behind, as in Explore
    main.classList.toggle("dim", Boolean(answer) && (yes || !answered));
  }

  async function search() {
    clearTimeout(timer);
    asking?.abort();
    const mine = new AbortController();
    asking = mine;
    const asked = wish();
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
    const text = error.problems.length ? saidTogether(error.problems) : error.message;
    const title = h("b", { text: "This cannot be searched." });
    problem.replaceChildren(h("div", { class: "notice", role: "alert" }, title, h("span", { text })));
  }

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
    best.fill(planTable(found));
    others.fill(planTable(pareto));
    figure.update(pareto, found[0]);
  }

  function update() {
    if (state.view !== "search") {
      clearTimeout(timer);
      if (asking) cancel();
      return;
    }
    form.update();
    if (answered === canonical(wish())) return draw();
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
