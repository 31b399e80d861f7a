/** One run in the list: its state, how far it is, and what can be done with it. */
import { show, togglePin, writeUrl } from "../../actions.js";
import { api, isFinal } from "../../api.js";
import { bytes, plural, seconds, when } from "../../format.js";
import { isTable } from "../../measured.js";
import { openMeasurement } from "../../measurements.js";
import { set, state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createRemove, forget } from "../common/remove.js";
import { trying } from "../common/toast.js";

/**
 * @param {string} id
 * @param {() => Promise<void>} refresh  the list, after something was asked of a run
 * @param {(id: string) => void} want  somebody wants to see its result
 * @param {(run: import("../../types.js").Run) => void} clone  its job is to be changed and run again
 */
export function createRunRow(id, refresh, want, clone) {
  /** Show another run: the new one of a retry. @param {import("../../types.js").Run} run */
  async function choose(run) {
    await refresh();
    set({ run: run.id });
    writeUrl();
  }
  const parts = {
    name: h("button", {
      type: "button",
      id: `run-name-${id}`,
      "aria-controls": "run-opened",
      onclick: () => {
        const closes = state.run === id;
        want(closes ? "" : id);
        set({ run: closes ? "" : id });
        writeUrl();
      },
    }),
    state: h("span"),
    meta: h("p", { class: "meta" }),
    bar: h("i"),
  };
  const progress = h(
    "div",
    { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 },
    parts.bar,
  );
  const button = (/** @type {string} */ text, /** @type {() => void} */ act) =>
    h("button", { type: "button", text, onclick: act });
  const cancel = button("Cancel", () => void trying(api.cancel(id).then(refresh)));
  const retry = button("Retry", () => void trying(api.retry(id).then(choose)));
  const copy = button("Clone", () => {
    const run = state.runs?.find((one) => one.id === id);
    if (run) clone(run);
  });
  const remove = createRemove("run", async () => {
    await api.removeRun(id);
    if (state.run === id) set({ run: "" });
    await Promise.all([forget([id]), refresh()]);
  });
  const measurement = () => state.runs?.find((one) => one.id === id)?.measurement_id ?? "";
  const open = button("Open in Explore", () => void trying(openMeasurement(measurement())));
  const compare = button("Compare", () => {
    if (!state.pins.includes(`m:${measurement()}`)) togglePin(`m:${measurement()}`);
    show("compare");
  });
  const element = h(
    "article",
    { class: "run", "data-run": id, "aria-labelledby": `run-name-${id}` },
    h("div", { class: "name" }, parts.name, parts.state),
    // Cancel keeps its place when it is over, so that a second click on it does not retry
    h("span", { class: "acts" }, open, compare, retry, copy, remove, cancel),
    parts.meta,
    progress,
  );

  /** @param {import("../../types.js").Run} run */
  function update(run) {
    element.classList.toggle("chosen", state.run === run.id);
    parts.name.setAttribute("aria-expanded", String(state.run === run.id));
    put(parts.name, run.label || run.id);
    put(parts.state, run.state);
    parts.state.className = `state ${run.state}`;
    const { phase, step = 0, steps = 0, step_s = null } = run.progress ?? {};
    const final = isFinal(run.state);
    const summary = state.measurements?.find((one) => one.id === run.measurement_id);
    const table = Boolean(summary && isTable(summary));
    const result = summary
      ? [
          table && plural(summary.rows, "row"),
          summary.step_time_s && `${seconds(summary.step_time_s)} per step`,
          summary.peak_bytes && `peak ${bytes(summary.peak_bytes)}`,
        ]
      : [];
    put(
      parts.meta,
      [
        when(run.created_s),
        `${run.job?.world_size ?? 1} ${run.job?.world_size > 1 ? "processes" : "process"}`,
        run.job?.backend && run.job.backend !== "local" && run.job.backend.replace(/^s/, "S"),
        ...(final
          ? result
          : [phase && `${phase}${steps ? ` ${step} of ${steps}` : ""}`, step_s && `${seconds(step_s)} per step`]),
        run.message,
      ]
        .filter(Boolean)
        .join(" · "),
    );
    progress.hidden = final;
    const done = steps ? (100 * step) / steps : 0;
    parts.bar.style.width = `${done}%`;
    progress.setAttribute("aria-valuenow", String(Math.round(done)));
    cancel.style.visibility = final ? "hidden" : "";
    retry.hidden = remove.hidden = !final;
    open.hidden = !run.measurement_id;
    put(open, table ? "Open in Compare" : "Open in Explore");
    compare.hidden = open.hidden || table;
  }
  return { element, update };
}
