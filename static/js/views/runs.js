// @ts-check
/** Runs: launch, watch live, read the log, cancel, retry, open the result beside its prediction. */
import { api, ApiError, follow, isFinal } from "../api.js";
import { isTable } from "../measured.js";
import { refreshMeasurements } from "../measurements.js";
import { set, state, subscribe } from "../state.js";
import { announce, h, put } from "./dom.js";
import { createDetails } from "./details.js";
import { createLaunch } from "./launch.js";
import { createResult } from "./result.js";
import { createSheet } from "./sheet.js";
import { createRunRow } from "./runrow.js";
import { trying } from "./toast.js";

/** @typedef {import("../types.js").Run} Run */
const LOG_MS = 1500;

/** @param {HTMLElement} root */
export function createRuns(root) {
  const sheet = createSheet("New run", [h("section", {}, h("h2", { text: "New measured run" }), createLaunch().form)]);
  const list = h("div", { id: "run-list" });
  const log = h("pre", { class: "block", tabindex: 0, "aria-label": "Log", text: "" });
  const logTitle = h("span", { class: "sub" });
  const logCard = h(
    "section",
    { class: "card w12", hidden: true },
    h("header", {}, h("h3", { text: "Log" }), logTitle),
    log,
  );
  const result = createResult();
  const tables = createDetails("run-tables");
  const counts = h("span", { class: "sub" });
  root.append(
    sheet.panel,
    h(
      "main",
      { tabindex: -1 },
      h("section", { class: "card w12" }, h("header", {}, h("h3", { text: "Runs" }), counts), list),
      result.element,
      tables.element,
      logCard,
    ),
    sheet.button,
  );
  /** @type {Map<string, ReturnType<typeof createRunRow>>} */
  const rows = new Map();
  /** @type {Map<string, () => void>} */
  const followed = new Map();

  /** @param {Run} run */
  function replace(run) {
    set({ runs: (state.runs ?? []).map((one) => (one.id === run.id ? { ...one, ...run } : one)) });
  }

  /** @param {Run} run */
  function watch(run) {
    if (isFinal(run.state) || followed.has(run.id)) return;
    const stop = follow(run.id, (event) => {
      const now = state.runs?.find(({ id }) => id === run.id);
      if (!now) return;
      if (event.kind === "progress")
        replace({ ...now, state: isFinal(now.state) ? now.state : "running", progress: event });
      else if (event.kind === "state" && !isFinal(event.state))
        replace({ ...now, state: event.state, message: event.message ?? "" });
      else void trying(finish(run.id));
    });
    followed.set(run.id, stop);
  }

  /** @param {string} id */
  async function finish(id) {
    followed.get(id)?.();
    followed.delete(id);
    const run = await api.run(id);
    replace(run);
    announce(`Run ${run.label || id} is ${run.state}.`);
    await refreshMeasurements();
    if (state.run === id) await showRun();
  }

  async function refresh() {
    const runs = await api.runs();
    set({ runs });
  }

  /** The chosen run's result and tables beside their predictions, and its log. */
  async function showRun() {
    const id = state.run;
    const run = state.runs?.find((one) => one.id === id);
    if (!run) logCard.hidden = true;
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
    if (atEnd) log.scrollTop = log.scrollHeight;
    return undefined;
  }

  /** @param {Run | undefined} run */
  async function showResult(run) {
    const id = run?.measurement_id ?? "";
    const ids = state.measurements?.some((one) => one.id === id && isTable(one)) ? [id] : [];
    tables.element.hidden = !ids.length;
    await Promise.all([result.update(id), tables.update(ids)]);
  }

  function update() {
    const { runs } = state;
    if (!runs) return;
    const active = runs.filter((run) => !isFinal(run.state)).length;
    put(counts, runs.length ? `${runs.length} in all${active ? `, ${active} at work` : ""}` : "");
    for (const run of runs) {
      if (!rows.has(run.id)) rows.set(run.id, createRunRow(run.id, refresh));
      rows.get(run.id)?.update(run);
      watch(run);
    }
    const elements = runs.map(({ id }) => /** @type {HTMLElement} */ (rows.get(id)?.element));
    if (!elements.length)
      list.replaceChildren(
        h("p", {
          class: "empty",
          text: "No runs yet. Launch one: the small CPU model takes seconds; its result stands beside its prediction.",
        }),
      );
    else if (elements.length !== list.children.length || elements.some((element, at) => list.children[at] !== element))
      list.replaceChildren(...elements);
    const tab = document.querySelector('.tabs [data-view="runs"]');
    tab?.querySelector(".count")?.remove();
    if (active) tab?.append(h("span", { class: "count", text: String(active), "aria-label": `${active} at work` }));
  }
  subscribe(["runs", "run", "measurements"], update);
  subscribe(["run", "measurements"], () => void trying(showRun()));
  subscribe(["view", "online"], () => void (state.view === "runs" && state.online && trying(refresh().then(showRun))));
  setInterval(() => {
    const run = state.runs?.find(({ id }) => id === state.run);
    if (state.view === "runs" && state.online && run && !isFinal(run.state)) void trying(showRun());
  }, LOG_MS);
  void trying(refresh().then(() => (state.run ? showRun() : undefined)));
  return { panel: sheet };
}
