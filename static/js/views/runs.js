// @ts-check
/** Runs: launch, watch live, read the log, cancel, retry, open the result beside its prediction. */
import { openMeasurement, refreshMeasurements, show, togglePin, writeUrl } from "../actions.js";
import { api, ApiError, follow, isFinal } from "../api.js";
import { bytes, seconds, when } from "../format.js";
import { set, state, subscribe } from "../state.js";
import { announce, h, put } from "./dom.js";
import { createLaunch } from "./launch.js";
import { createResult } from "./result.js";
import { createSheet } from "./sheet.js";
import { toast } from "./toast.js";

/** @typedef {import("../types.js").Run} Run */
const LOG_MS = 1500;

/** @param {HTMLElement} root */
export function createRuns(root) {
  const sheet = createSheet("New run", [h("section", {}, h("h2", { text: "New measured run" }), createLaunch().form)]);
  const list = h("div", { id: "run-list" });
  const log = h("pre", { class: "block", tabindex: 0, "aria-label": "Log", text: "" });
  const logTitle = h("span", { class: "sub" });
  const logCard = h("section", { class: "card w12", hidden: true }, h("header", {}, h("h3", { text: "Log" }), logTitle), log);
  const result = createResult();
  const counts = h("span", { class: "sub" });
  root.append(sheet.panel, h("main", { tabindex: -1 }, h("section", { class: "card w12" }, h("header", {}, h("h3", { text: "Runs" }), counts), list), result.element, logCard), sheet.button);
  /** @type {Map<string, ReturnType<typeof row>>} */
  const rows = new Map();
  /** @type {Map<string, () => void>} */
  const followed = new Map();

  /** @param {Run} run */
  function replace(run) {
    set({ runs: (state.runs ?? []).map((one) => (one.id === run.id ? { ...one, ...run } : one)) });
  }

  /** @param {(id: string) => Promise<any>} act @param {string} id */
  const attempt = async (act, id) => {
    try {
      await act(id);
      await refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message);
    }
  };

  /** @param {Run} run */
  function watch(run) {
    if (isFinal(run.state) || followed.has(run.id)) return;
    const stop = follow(run.id, (event) => {
      const now = state.runs?.find(({ id }) => id === run.id);
      if (!now) return;
      if (event.kind === "progress") replace({ ...now, state: isFinal(now.state) ? now.state : "running", progress: event });
      else if (event.kind === "state" && !isFinal(event.state)) replace({ ...now, state: event.state, message: event.message ?? "" });
      else void finish(run.id);
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
    if (state.run === id) void showLog();
  }

  async function refresh() {
    const runs = await api.runs();
    set({ runs });
  }

  async function showLog() {
    const id = state.run;
    const run = state.runs?.find((one) => one.id === id);
    logCard.hidden = !run;
    void result.update(run?.measurement_id ?? "");
    if (!run) return;
    put(logTitle, run.label || id);
    const text = await api.log(id).catch((error) => (error instanceof ApiError && error.status === 404 ? "" : Promise.reject(error)));
    if (state.run !== id) return;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    put(log, text || (isFinal(run.state) ? "The log is empty." : "Nothing written yet."));
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  /** @param {string} id */
  function row(id) {
    const parts = { name: h("button", { type: "button", onclick: () => { set({ run: state.run === id ? "" : id }); writeUrl(); } }), state: h("span"), meta: h("p", { class: "meta" }), bar: h("i") };
    const progress = h("div", { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, parts.bar);
    const button = (/** @type {string} */ text, /** @type {() => void} */ act) => h("button", { type: "button", text, onclick: act });
    const cancel = button("Cancel", () => void attempt(api.cancel, id));
    const retry = button("Retry", () => void attempt(api.retry, id));
    const measurement = () => state.runs?.find((one) => one.id === id)?.measurement_id ?? "";
    const open = button("Open in Explore", () => void openMeasurement(measurement()));
    const compare = button("Compare", () => { if (!state.pins.includes(`m:${measurement()}`)) togglePin(`m:${measurement()}`); show("compare"); });
    const element = h("article", { class: "run", "data-run": id }, h("div", { class: "name" }, parts.name, parts.state), h("span", { class: "acts" }, open, compare, cancel, retry), parts.meta, progress);

    /** @param {Run} run */
    function update(run) {
      element.classList.toggle("chosen", state.run === run.id);
      parts.name.setAttribute("aria-expanded", String(state.run === run.id));
      put(parts.name, run.label || `step ${run.id.slice(0, 8)}`);
      put(parts.state, run.state);
      parts.state.className = `state ${run.state}`;
      const { phase, step = 0, steps = 0, step_s = null } = run.progress ?? {};
      const final = isFinal(run.state);
      const summary = state.measurements?.find((one) => one.id === run.measurement_id);
      const result = summary ? [summary.step_time_s && `${seconds(summary.step_time_s)} per step`, summary.peak_bytes && `peak ${bytes(summary.peak_bytes)}`] : [];
      put(parts.meta, [
        when(run.created_s), `${run.job?.world_size ?? 1} ${run.job?.world_size > 1 ? "processes" : "process"}`,
        ...(final ? result : [phase && `${phase}${steps ? ` ${step} of ${steps}` : ""}`, step_s && `${seconds(step_s)} per step`]), run.message,
      ].filter(Boolean).join(" · "));
      progress.hidden = final;
      const done = steps ? (100 * step) / steps : 0;
      parts.bar.style.width = `${done}%`;
      progress.setAttribute("aria-valuenow", String(Math.round(done)));
      cancel.hidden = final;
      retry.hidden = !final;
      open.hidden = compare.hidden = !run.measurement_id;
    }
    return { element, update };
  }

  function update() {
    const { runs } = state;
    if (!runs) return;
    const active = runs.filter((run) => !isFinal(run.state)).length;
    put(counts, runs.length ? `${runs.length} in all${active ? `, ${active} at work` : ""}` : "");
    for (const run of runs) {
      if (!rows.has(run.id)) rows.set(run.id, row(run.id));
      rows.get(run.id)?.update(run);
      watch(run);
    }
    const elements = runs.map(({ id }) => /** @type {HTMLElement} */ (rows.get(id)?.element));
    if (!elements.length) list.replaceChildren(h("p", { class: "empty", text: "No runs yet. Launch one: the small CPU model takes seconds, and its result opens beside its prediction." }));
    else if (elements.length !== list.children.length || elements.some((element, at) => list.children[at] !== element)) list.replaceChildren(...elements);
    const tab = document.querySelector('.tabs [data-view="runs"]');
    tab?.querySelector(".count")?.remove();
    if (active) tab?.append(h("span", { class: "count", text: String(active), "aria-label": `${active} at work` }));
  }
  subscribe(["runs", "run", "measurements"], update);
  subscribe(["run"], () => void showLog());
  subscribe(["view", "online"], () => void (state.view === "runs" && state.online && refresh().then(showLog)));
  setInterval(() => {
    const run = state.runs?.find(({ id }) => id === state.run);
    if (state.view === "runs" && state.online && run && !isFinal(run.state)) void showLog();
  }, LOG_MS);
  void refresh().then(() => (state.run ? showLog() : undefined));
  return { panel: sheet };
}
