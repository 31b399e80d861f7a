/** The form that starts a measured run; the exact command is shown before anything starts. */
import { writeUrl } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { plural, said } from "../../format.js";
import { set, state, subscribe } from "../../state.js";
import { h, put } from "../common/dom.js";
import { gridIn, jobsOf } from "../../campaigns.js";
import { createLaunchForm } from "./launchForm.js";
import { copy, toast } from "../common/toast.js";

const DRY_RUN_MS = 250;

/** A word as a shell needs it. @param {string} word */
const quoted = (word) => (/[^\w@%+=:,./-]/.test(word) ? `'${word.replaceAll("'", "'\\''")}'` : word);

export function createLaunch() {
  const fields = createLaunchForm();
  const { job } = fields;
  const command = h("pre", { class: "block", id: "run-command", tabindex: 0, "aria-label": "Command", text: "…" });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const launch = h("button", { type: "submit", class: "primary", text: "Launch" });
  const vary = h("textarea", {
    id: "run-vary",
    rows: 2,
    spellcheck: "false",
    placeholder: "seq_len 128, 256, 512\nmicro_batch 1, 2",
    oninput: () => tell(),
  });
  const points = h("p", { class: "hint" });
  const copying = h("button", { type: "button", class: "link", text: "Copy" });
  copying.onclick = () => copy(command.textContent ?? "", "Command copied");
  const form = h(
    "form",
    { class: "form", onsubmit: submit, oninput: () => plan() },
    ...fields.elements,
    h("label", { class: "stack" }, "Vary, for a campaign", vary),
    points,
    problem,
    launch,
    h(
      "div",
      {},
      h("p", { class: "hint" }, "Exactly this will run, in a folder that launching makes: ", copying),
      command,
    ),
  );
  let timer = 0;
  let offered = false;
  let refused = job().benchmark; // whose problems are shown
  /** @type {import("../../types.js").Problem[]} */
  let problems = [];
  /** @type {AbortController | null} */
  let asking = null;

  /** Jobs of the campaign, or the one. */
  function jobs() {
    const { grid, wrong } = gridIn(vary.value, job());
    const name =
      job().label.replaceAll(": ", " ") || `campaign ${new Date().toISOString().slice(5, 16).replace("T", " ")}`;
    return { wrong, all: grid.length ? jobsOf(job(), grid, name) : [job()] };
  }
  function tell() {
    const { wrong, all } = jobs();
    put(points, wrong || (vary.value.trim() ? `${plural(all.length, "run")}, one after another` : ""));
    put(launch, all.length > 1 ? `Launch ${all.length}` : "Launch");
  }

  /** @param {unknown} error */
  function show(error) {
    problems = error instanceof ApiError ? error.problems : [];
    const elsewhere = fields.update(problems);
    problem.hidden = !error || (problems.length > 0 && !elsewhere.length);
    if (!(error instanceof ApiError)) return;
    const places = elsewhere.map((one) => h("div", {}, h("b", { text: `${one.field}: ` }), said(one)));
    problem.replaceChildren(
      ...(places.length ? places : [h("b", { text: error.status ? "Refused: " : "Not yet: " }), error.message]),
    );
  }

  /** Ask once what can be measured; the step can be launched without. */
  async function offer() {
    if (offered || state.view !== "runs" || !state.online) return;
    offered = true;
    try {
      fields.offer(await api.benchmarks());
    } catch (error) {
      offered = false;
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** Ask what would run, without running it. */
  function plan() {
    if (job().benchmark === refused) fields.update(problems);
    else show(null);
    refused = job().benchmark;
    clearTimeout(timer);
    if (state.view !== "runs" || !form.checkValidity()) return;
    const chip = job().scenario?.cluster.chip;
    const waiting = state.catalog.pending?.find(({ key }) => key === chip);
    launch.disabled = Boolean(waiting);
    if (waiting) return show(new ApiError(waiting.message, 0));
    timer = window.setTimeout(async () => {
      asking?.abort();
      asking = new AbortController();
      const { signal } = asking;
      try {
        const { command: words, environment, script } = await api.dryRun(job(), signal);
        if (signal.aborted) return;
        const settings = Object.entries(environment ?? {}).map(([name, value]) => `${name}=${value}`);
        const line = [...settings, ...words].map(quoted).join(" ");
        put(command, script ? `${script}\n# submitted with\n${line}` : line);
        show(null);
        launch.disabled = false;
      } catch (error) {
        if (signal.aborted || !(error instanceof ApiError)) return;
        put(command, "–");
        show(error);
        launch.disabled = error.status !== 0;
      }
    }, DRY_RUN_MS);
  }

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    launch.disabled = true;
    try {
      const { wrong, all } = jobs();
      if (wrong) return put(points, wrong);
      for (const one of all) {
        const run = await api.launch(one);
        set({ runs: [run, ...(state.runs ?? []).filter(({ id }) => id !== run.id)], run: run.id });
      }
      writeUrl();
      toast(all.length > 1 ? `${all.length} runs queued` : "Run queued");
      show(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      show(error);
    } finally {
      launch.disabled = false;
      tell();
    }
    return undefined;
  }

  subscribe(["scenario", "view", "catalog"], plan);
  subscribe(["view", "online"], () => void offer());
  plan();
  void offer();
  return {
    form,
    /** Take the job of a run. @param {import("../../types.js").Run} run */
    fill: (run) => {
      fields.fill(run);
      plan();
    },
  };
}
