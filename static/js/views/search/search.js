/** Search: every plan of the model on every number of chips of a range; the answer, figures of all, and the table. */
import { setWanted } from "../../actions.js";
import { answers, chipsNeeded, groups, mayBeLate, quickestOf, riskWords, soFar, surelyWithin } from "../../answers.js";
import { api, ApiError } from "../../api.js";
import { measures, said } from "../../figures/plans.js";
import { bytes, count, percent, plural, saidTogether, seconds, short } from "../../format.js";
import { planWords, trainingWords } from "../../planLabel.js";
import { clusterChips, canonical, chipHoursWord, chipOf } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { cellsOf, specifications } from "../../sweeping.js";
import { announce, h, put } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { createSheet } from "../common/sheet.js";
import { usdPerHour } from "../explore/strip.js";
import { createSearchForm, emptyRange, hasSmallBatch, largeBatch, takeLargeBatch } from "./form.js";
import { createPlanFigures, openPlan } from "./planFigures.js";
import { planTable } from "./planTable.js";

/** @typedef {import("../../types.js").Sweep} Sweep */

const QUIET_MS = 350;
const KEPT = 64;
/** @type {Record<string, string>} */
const BEST = { step_time: "Quickest", cost: "Cheapest", memory: "Least memory" };

/** @param {HTMLElement} root */
export function createSearch(root) {
  const form = createSearchForm();
  const sheet = createSheet("What to search", [form.element]);
  const problem = h("div", { class: "notices" });
  const counts = h("p", { class: "counts", "aria-live": "off" });
  const bar = h("div", { class: "progress busy", hidden: true }, h("i"));
  const act = h("button", { type: "button", class: "ghost", onclick: () => (asking ? cancel() : void search(true)) });
  const title = h("h3", { text: "Plans" });
  const older = h("b", { class: "older", text: "of the search before", hidden: true });
  const sub = h("span", { class: "sub" });
  const tiles = h("dl", { class: "answer" });
  const status = h(
    "section",
    { class: "card w12", id: "search-status" },
    h("header", {}, title, older, sub, h("span", { class: "grow" }), act),
    tiles,
    counts,
    bar,
  );
  const figures = createPlanFigures();
  const table = createScroller("Plans", "tall");
  const tableCard = h(
    "section",
    { class: "card w12", id: "best-plans", hidden: true },
    h("header", {}, h("h3", { text: "All that came close" }), h("span", { class: "sub", text: "click opens as B" })),
    table.element,
  );
  const main = h(
    "main",
    { tabindex: -1 },
    h("h1", { class: "sr", text: "Search" }),
    h("h2", { class: "sr", text: "Found" }),
    problem,
    status,
    ...figures.elements,
    tableCard,
  );
  root.append(sheet.panel, main, sheet.button);
  /** Answers by specification; the oldest go first. @type {Map<string, Sweep>} */
  const known = new Map();
  let shownFor = ""; // the specifications of what is shown
  let hasAnswer = false;
  /** @type {AbortController | null} */
  let asking = null;
  let timer = 0;

  const wishes = () => {
    const { scenario, wanted, catalog } = state;
    return specifications(scenario, wanted, catalog.fields, chipOf(scenario, catalog).chips_per_node ?? 8);
  };
  const asked = () => ({
    run_tokens: state.run_tokens,
    usd_per_hour: usdPerHour().usd,
    days: state.run_tokens ? state.wanted.days : 0,
  });

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
    dim();
  }

  /** An older answer stays behind, as in Explore, and is said to be one; a refusal of the new question is not. */
  function dim() {
    const old = hasAnswer && (asking !== null || shownFor !== canonical(wishes()));
    main.classList.toggle("dim", old);
    older.hidden = !old;
    problem.classList.toggle("older", old && shownFor !== "");
    // a refusal before any answer stands alone: figures that are not on their way have no place
    main.classList.toggle("void", !hasAnswer && !asking && problem.hasChildNodes());
  }

  /** @param {boolean} [again]  whether what is known is asked for again */
  async function search(again = false) {
    clearTimeout(timer);
    asking?.abort();
    const mine = new AbortController();
    asking = mine;
    const specs = wishes();
    if (!specs.length) {
      asking = null;
      busy(false);
      return refuse(new ApiError(emptyRange(), 422));
    }
    busy(true);
    /** @type {ApiError | null} */
    let refused = null;
    try {
      for (const [at, spec] of specs.entries()) {
        const key = canonical(spec);
        if (again) known.delete(key);
        if (known.has(key)) continue;
        const chips = clusterChips(spec.cluster);
        const where = specs.length > 1 ? `${plural(chips, "chip")}, ${at + 1} of ${specs.length}: ` : "";
        const before = specs.slice(0, at).flatMap((one) => known.get(canonical(one)) ?? []);
        tell(where, before, { tried: 0, fitting: 0, seconds: 0 });
        try {
          const found = await ask(spec, where, before, mine.signal);
          if (mine.signal.aborted) return;
          known.set(key, found);
          if (known.size > KEPT) known.delete(/** @type {string} */ (known.keys().next().value));
        } catch (error) {
          // a number of chips that no plan divides hinders no other
          if (mine.signal.aborted || !(error instanceof ApiError)) throw error;
          refused ??= error;
          if (!error.problems.length) break;
        }
      }
      if (!specs.some((spec) => known.has(canonical(spec)))) {
        if (refused) refuse(refused);
        return;
      }
      shownFor = canonical(specs);
      form.update();
      draw();
    } catch (error) {
      if (mine.signal.aborted) return;
      throw error;
    } finally {
      if (asking === mine) {
        asking = null;
        busy(false);
      }
    }
  }

  /** Say how far all of it is. @param {string} where @param {Sweep[]} before @param {{tried: number, fitting: number, seconds: number}} line */
  function tell(where, before, line) {
    const all = soFar(before, line);
    const sum = `${short(all.tried)} plans tried, ${short(all.fitting)} fit, ${seconds(all.seconds)}`;
    put(counts, `${where}${all.tried ? sum : "searching …"}`);
  }

  /** @param {any} spec @param {string} where @param {Sweep[]} before  what came of other numbers of chips @param {AbortSignal} signal @returns {Promise<Sweep>} */
  async function ask(spec, where, before, signal) {
    /** @type {any} */
    let last = null;
    const heard = (/** @type {any} */ line) => {
      if (signal.aborted) return;
      last = line;
      if (line.waiting) put(counts, "Another search is on its way; this one waits for it.");
      else if (line.tried !== undefined) tell(where, before, line);
    };
    await api.sweep(spec, heard, signal);
    if (!last?.result && !signal.aborted)
      throw new ApiError(last?.detail ?? "The search ended without an answer.", 500, last?.problems);
    return last?.result;
  }

  /** @param {ApiError} error */
  function refuse(error) {
    shownFor = "";
    put(counts, "");
    form.update(error.problems.filter(({ field }) => /^(locked|limits|objective)/.test(field)));
    const text = error.problems.length ? saidTogether(error.problems) : error.message;
    say("This cannot be searched.", text);
  }

  /**
   * That the best may take longer than allowed, and which plan does not as far as anybody can tell.
   * @param {import("../../answers.js").Answer[]} sorted @param {import("../../answers.js").Asked} question
   * @param {(one: import("../../answers.js").Answer) => string} words
   */
  function doubtOfDays(sorted, question, words) {
    if (!mayBeLate(sorted[0], question)) return "";
    const sure = surelyWithin(sorted, question);
    const long = `its 80 % interval ends beyond ${question.days} days`;
    return sure
      ? `${long}; that of ${words(sure)} on ${plural(sure.chips, "chip")} does not`
      : `${long}, as that of every plan here`;
  }

  let banner = 0; // counts them

  /** @param {string} what @param {string} text @param {HTMLElement[]} more */
  function say(what, text, ...more) {
    banner += 1;
    problem.replaceChildren(
      h("div", { class: "notice", role: "alert" }, h("b", { text: what }), h("span", { text }), more),
    );
  }

  /** Whether something is known of the way to the host's memory, so that plans may keep state there. */
  const hasHost = () => Boolean(chipOf(state.scenario, state.catalog).host_bytes_per_s);

  /** Draw what is there, and take away what an answer to another question said. */
  function draw() {
    const before = banner;
    drawAnswers();
    if (banner === before) problem.replaceChildren();
  }

  function drawAnswers() {
    const { wanted, catalog, scenario } = state;
    const found = wishes().flatMap((spec) => {
      const answer = known.get(canonical(spec));
      return answer ? [{ spec, answer }] : [];
    });
    if (!found.length) return;
    hasAnswer = true;
    const each = found.map(({ answer }) => answer);
    const sum = (/** @type {(one: Sweep) => number} */ of) => each.reduce((total, one) => total + of(one), 0);
    const [tried, fitting, took_s] = [
      sum((one) => one.plans_tried),
      sum((one) => one.plans_fitting),
      sum((one) => one.seconds),
    ];
    const on = found.map(({ spec }) => clusterChips(spec.cluster));
    const where = on.length > 1 ? ` on ${on.slice(0, -1).join(", ")} and ${on.at(-1)} chips, no other number,` : "";
    const unasked =
      wanted.days > 0 && !state.run_tokens ? " Days were not asked for: they need the tokens of the run." : "";
    put(
      counts,
      [
        `${plural(tried, "plan")} tried${where} in ${seconds(took_s)}, ${short(tried / took_s)} per second; ${count(fitting)} fit. All with ${trainingWords(scenario.training, catalog.fields)}.${unasked}`,
        ...each[0].assumptions,
      ].join(" "),
    );
    announce(counts.textContent ?? "");
    const question = asked();
    const sorted = answers(
      each.flatMap(({ best, pareto }) => [...best, ...pareto]),
      question,
      wanted.objective,
    );
    const needed = sorted.length ? chipsNeeded(sorted, question) : 0;
    const objective = needed ? "step_time" : wanted.objective;
    figures.update(sorted, cellsOf(found, wanted.cells, objective), question, objective);
    tableCard.hidden = tiles.hidden = !sorted.length;
    if (!sorted.length) {
      put(title, "Plans");
      put(sub, "");
      const spared = hasHost() && !wanted.locked.offload;
      const text = `Allow more memory or time, release a field, or search on more chips.${spared ? " No state was kept in the host's memory." : ""}`;
      const offload = () => setWanted({ locked: { ...wanted.locked, offload: "optimizer" } });
      say(
        "No plan fits.",
        text,
        ...(spared
          ? [h("button", { type: "button", class: "link", text: "Offload the optimizer", onclick: offload })]
          : []),
      );
      return;
    }
    const [best] = sorted;
    if (needed) {
      const more = { most_chips: needed, least_chips: wanted.least_chips || best.chips };
      const text = `Search up to ${plural(needed, "chip")}`;
      const small = hasSmallBatch();
      const { seq_len, global_batch } = scenario.training;
      // more chips have nothing to divide, so that a number of them would promise what they cannot bring
      const words = small
        ? ` A step of ${short(seq_len * global_batch)} tokens is small for such a run, and more chips would have little to divide.`
        : `; about ${plural(needed, "chip")} would do.`;
      const link = (/** @type {string} */ words, /** @type {() => void} */ onclick) =>
        h("button", { type: "button", class: "link", text: words, onclick });
      say(
        `No plan takes ${question.days} days or less.`,
        `The quickest takes ${said(measures(true, "")[0], quickestOf(sorted))}${small ? "." : ""}${words}`,
        small ? link(`Take ${count(largeBatch())} sequences`, takeLargeBatch) : link(text, () => setWanted(more)),
      );
    }
    const [time, price, hours] = measures(question.run_tokens > 0, chipHoursWord(scenario, catalog));
    const [{ plans: alike, surest }] = groups(sorted, objective);
    const words = (/** @type {import("../../answers.js").Answer} */ one) =>
      planWords(one.found.scenario.plan, catalog.fields);
    put(title, needed ? "Quickest, yet too slow" : BEST[objective]);
    put(
      sub,
      [
        words(best),
        doubtOfDays(sorted, question, words),
        alike.length > 1 && `${plural(alike.length - 1, "other plan")} cannot be told apart`,
        surest !== best && `surest of them: ${words(surest)} on ${plural(surest.chips, "chip")}`,
      ]
        .filter(Boolean)
        .join(" · "),
    );
    const [low, high] = best.range_s.map((time_s) => said(time, { ...best, time_s }));
    const tile = (/** @type {string} */ name, /** @type {string} */ value, facts = "") =>
      h("div", {}, h("dt", { text: name }), h("dd", { text: value }), h("dd", { class: "facts", text: facts }));
    tiles.replaceChildren(
      tile(time.text, said(time, best), `80 %: ${low} to ${high}`),
      ...(question.usd_per_hour
        ? [tile(price.text, said(price, best), `$${question.usd_per_hour} an hour and chip`)]
        : []),
      tile(hours.text, said(hours, best), `${percent(best.found.mfu)} MFU`),
      tile(
        "peak memory",
        bytes(best.peak_bytes),
        [`of ${bytes(best.found.capacity_bytes)}`, riskWords(best.found)].filter(Boolean).join(" · "),
      ),
      tile("chips", String(best.chips), `${short(best.found.tokens_per_s)} tokens/s`),
      h(
        "div",
        {},
        h("dt", { class: "sr", text: "this plan" }),
        h(
          "dd",
          { class: "take" },
          h("button", {
            type: "button",
            class: "primary",
            text: "Open as B",
            onclick: () => openPlan(best.found.scenario),
          }),
        ),
      ),
    );
    table.fill(planTable(sorted, question));
  }

  function update() {
    if (state.view !== "search") {
      clearTimeout(timer);
      if (asking) cancel();
      return;
    }
    form.update();
    if (shownFor === canonical(wishes())) {
      dim();
      return draw();
    }
    dim();
    clearTimeout(timer);
    timer = window.setTimeout(() => void search(), QUIET_MS);
    return undefined;
  }

  subscribe(["view", "scenario", "wanted", "catalog", "online"], () => state.online && update());
  subscribe(["estimate", "theme", "run_tokens", "usd_per_hour"], () => {
    if (state.view !== "search") return;
    form.update();
    if (shownFor && !asking) draw();
  });
  busy(false);
  update();
  return { panel: sheet };
}
