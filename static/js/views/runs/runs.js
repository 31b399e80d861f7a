/** Runs: launch, watch live, read the log, cancel, retry, open the result beside its prediction. */
import { api, ApiError, isFinal } from "../../api.js";
import { isTable } from "../../measured.js";
import { createFollowing, LOOK_MS } from "../../runs.js";
import { state, subscribe } from "../../state.js";
import { announce, arrange, h, put } from "../common/dom.js";
import { createDetails } from "../common/details.js";
import { createLaunch } from "./launch.js";
import { createCampaigns } from "./campaignCards.js";
import { createResult } from "./result.js";
import { createSteps } from "./steps.js";
import { createSheet } from "../common/sheet.js";
import { createRunRow } from "./runRow.js";
import { trying } from "../common/toast.js";

/** @typedef {import("../../types.js").Run} Run */
const LOG_MS = 1500;
/** What stays free below a result that was brought into view: the button of the sheet, or the next run. */
const BELOW_PX = 72;

/** @param {HTMLElement} root */
export function createRuns(root) {
  const launch = createLaunch();
  const sheet = createSheet("New run", [h("section", {}, h("h2", { text: "New measured run" }), launch.form)]);
  const campaigns = createCampaigns();
  const steps = createSteps();
  const list = h("div", { id: "run-list" });
  const empty = h("p", {
    class: "empty",
    text: "No runs yet. Launch one: the small CPU model takes seconds; its result stands beside its prediction.",
  });
  const log = h("pre", { class: "block", tabindex: 0, "aria-label": "Log", text: "" });
  const logTitle = h("span", { class: "sub" });
  const logCard = h(
    "section",
    { class: "card", hidden: true },
    h("header", {}, h("h3", { text: "Log" }), logTitle),
    log,
  );
  const result = createResult();
  const tables = createDetails("run-tables");
  const opened = h(
    "div",
    { class: "below-run", id: "run-opened", role: "region", "aria-label": "Result and log", hidden: true },
    result.element,
    steps.element,
    tables.element,
    logCard,
  );
  const counts = h("span", { class: "sub" });
  root.append(
    sheet.panel,
    h(
      "main",
      { tabindex: -1 },
      h("h1", { class: "sr", text: "Runs" }),
      h("h2", { class: "sr", text: "List" }),
      campaigns.element,
      h("section", { class: "card w12" }, h("header", {}, h("h3", { text: "Runs" }), counts), list),
    ),
    sheet.button,
  );
  /** @type {Map<string, ReturnType<typeof createRunRow>>} */
  const rows = new Map();
  const following = createFollowing((run) => announce(`Run ${run.label || run.id} is ${run.state}.`));
  let shown = ""; // run whose result stands there
  let drawn = ""; // and its state
  let wanted = ""; // run that was clicked, until its result is in sight

  /** The chosen run's result and tables beside their predictions, and its log. */
  async function showRun() {
    const id = state.run;
    const run = state.runs?.find((one) => one.id === id);
    if (!run || id !== shown) opened.hidden = true;
    drawn = run ? `${id} ${run.state}` : "";
    if (!run) shown = "";
    void steps.update(run);
    const results = showResult(run);
    if (!run) return results;
    const text = await api
      .log(id)
      .catch((error) => (error instanceof ApiError && error.status === 404 ? "" : Promise.reject(error)));
    await results;
    if (state.run !== id) return undefined;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    put(logTitle, run.label || id);
    put(log, text || (isFinal(run.state) ? "The log is empty." : "Nothing written yet."));
    logCard.hidden = !text && isFinal(run.state) && !(result.element.hidden && tables.element.hidden);
    shown = id;
    opened.hidden = false;
    steps.show();
    if (atEnd) log.scrollTop = log.scrollHeight;
    if (wanted === id) bringIntoView(id);
    return undefined;
  }

  /** @param {Run | undefined} run */
  async function showResult(run) {
    const id = run?.measurement_id ?? "";
    const ids = state.measurements?.some((one) => one.id === id && isTable(one)) ? [id] : [];
    tables.element.hidden = !ids.length;
    await Promise.all([result.update(id), tables.update(ids)]);
  }

  /**
   * Scroll as little as shows a run with what was opened below it; the run at the top where there is no room for both.
   * @param {string} id
   */
  function bringIntoView(id) {
    wanted = "";
    const row = rows.get(id)?.element.getBoundingClientRect();
    if (!row) return;
    const top = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
    const below = opened.getBoundingClientRect().bottom + BELOW_PX - innerHeight;
    const by = row.top < top ? row.top - top : Math.max(0, Math.min(below, row.top - top));
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (by) scrollBy({ top: by, behavior: calm ? "instant" : "smooth" });
  }

  /** Take a run's job into the form, to change it. @param {Run} run */
  function clone(run) {
    launch.fill(run);
    sheet.open(true);
    launch.form.scrollIntoView({ block: "nearest" });
    launch.form.querySelector("select")?.focus();
  }

  function update() {
    const { runs } = state;
    if (!runs) return;
    steps.hear(runs);
    void trying(campaigns.update());
    const running = runs.filter((run) => run.state === "running").length;
    const queued = runs.filter((run) => run.state === "queued").length;
    const active = running + queued;
    const parts = [`${runs.length} in all`, running && `${running} at work`, queued && `${queued} queued`];
    put(counts, runs.length ? parts.filter(Boolean).join(", ") : "");
    for (const run of runs) {
      if (!rows.has(run.id))
        rows.set(
          run.id,
          createRunRow(run.id, following.refresh, (id) => (wanted = id), clone),
        );
      rows.get(run.id)?.update(run);
    }
    const elements = runs.flatMap(({ id }) => [
      /** @type {HTMLElement} */ (rows.get(id)?.element),
      ...(id === state.run ? [opened] : []),
    ]);
    if (state.run !== shown) opened.hidden = true;
    arrange(list, elements.length ? elements : [empty]);
    following.followOne();
    const chosen = runs.find(({ id }) => id === state.run);
    if (drawn !== (chosen ? `${chosen.id} ${chosen.state}` : "")) void trying(showRun());
    const tab = document.querySelector('.tabs [data-view="runs"]');
    tab?.querySelector(".count")?.remove();
    const words = `${active} at work or queued`;
    if (active) tab?.append(h("span", { class: "count", text: String(active), "aria-label": words }));
  }
  subscribe(["runs", "run", "measurements"], update);
  subscribe(["measurements"], () => void trying(showRun()));
  subscribe(["view", "online"], () => {
    if (state.view === "runs" && state.online) void trying(following.refresh().then(showRun));
  });
  document.addEventListener("visibilitychange", () => {
    following.followOne();
    void trying(following.look());
  });
  setInterval(() => void trying(following.look()), LOOK_MS);
  setInterval(() => {
    const run = state.runs?.find(({ id }) => id === state.run);
    const looking = state.view === "runs" && state.online && !document.hidden;
    if (looking && run && !isFinal(run.state)) void trying(showRun());
  }, LOG_MS);
  void trying(following.refresh());
  return { panel: sheet };
}
