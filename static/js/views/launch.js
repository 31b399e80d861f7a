// @ts-check
/** The form that starts a measured run; the exact command is shown before anything starts. */
import { api, ApiError } from "../api.js";
import { plural, said } from "../format.js";
import { chips, describe } from "../scenario.js";
import { set, state, subscribe } from "../state.js";
import { writeUrl } from "../actions.js";
import { h, put } from "./dom.js";
import { copy, toast } from "./toast.js";

const DRY_RUN_MS = 250;

/** A model that a CPU trains in well under a second per step, Llama-shaped. @param {number} ranks */
export const smallScenario = (ranks) => ({
  model: {
    network: "transformer",
    name: "small-cpu",
    layers: 2,
    hidden: 128,
    heads: 4,
    kv_heads: 2,
    ffn: 384,
    vocab: 1024,
    gated_ffn: true,
    norm: "rms",
    position: "rope",
  },
  cluster: { chip: "cpu", chips_per_node: ranks, nodes: 1 },
  plan: { dp: ranks, sharding: "ddp" },
  training: { seq_len: 128, global_batch: 4 * ranks, precision: "fp32", attention: "sdpa" },
});

export function createLaunch() {
  const field = (/** @type {string} */ label, /** @type {HTMLElement} */ input) =>
    h("label", { class: "stack" }, label, input);
  const number = (/** @type {number} */ value, /** @type {number} */ min, /** @type {number} */ max) =>
    h("input", { type: "number", value, min, max, step: 1, required: true });
  const source = h(
    "select",
    { id: "run-scenario" },
    h("option", { value: "explore" }),
    h("option", { value: "small", text: "Small CPU model (2 layers, seconds)" }),
  );
  const facts = h("p", { class: "hint" });
  const ranks = number(1, 1, 100_000);
  const steps = number(10, 1, 1000);
  const warmup = number(3, 0, 1000);
  const device = h(
    "select",
    {},
    ["auto", "cpu", "cuda"].map((value) => h("option", { value, text: value })),
  );
  const backend = h(
    "select",
    {},
    h("option", { value: "local", text: "this machine" }),
    h("option", { value: "slurm", text: "Slurm" }),
  );
  const optional = { type: "text", maxlength: 100, placeholder: "the server's" };
  const nodes = number(1, 1, 4096);
  const minutes = h("input", { type: "number", min: 1, max: 43200, step: 1, placeholder: "the queue's" });
  const [partition, account] = [h("input", { ...optional }), h("input", { ...optional })];
  const queue = [
    h("div", { class: "pair" }, field("Nodes", nodes), field("Time limit, minutes", minutes)),
    h("div", { class: "pair" }, field("Partition", partition), field("Account", account)),
  ];
  const label = h("input", { type: "text", maxlength: 120, placeholder: "optional" });
  const command = h("pre", { class: "block", id: "run-command", tabindex: 0, "aria-label": "Command", text: "…" });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const launch = h("button", { type: "submit", class: "primary", text: "Launch" });
  const form = h(
    "form",
    { class: "form", onsubmit: submit, oninput: () => plan() },
    field("Scenario", source),
    facts,
    h("div", { class: "pair" }, field("Processes", ranks), field("Device", device)),
    h("div", { class: "pair" }, field("Steps", steps), field("Warm-up steps", warmup)),
    field("Start on", backend),
    ...queue,
    field("Label", label),
    problem,
    launch,
    h(
      "div",
      {},
      h(
        "p",
        { class: "hint" },
        "Exactly this will run, in a folder that launching makes: ",
        h("button", {
          type: "button",
          class: "link",
          text: "Copy",
          onclick: () => copy(command.textContent ?? "", "Command copied"),
        }),
      ),
      command,
    ),
  );
  let timer = 0;
  /** @type {AbortController | null} */
  let asking = null;

  const job = () => ({
    benchmark: "step",
    scenario: source.value === "small" ? smallScenario(ranks.valueAsNumber || 1) : state.scenario,
    world_size: ranks.valueAsNumber,
    device: device.value,
    warmup: warmup.valueAsNumber,
    steps: steps.valueAsNumber,
    backend: backend.value,
    ...(backend.value === "slurm" && {
      time_limit_s: (minutes.valueAsNumber || 0) * 60,
      placement: {
        nodes: nodes.valueAsNumber,
        ...(partition.value.trim() && { partition: partition.value.trim() }),
        ...(account.value.trim() && { account: account.value.trim() }),
      },
    }),
    label: label.value.trim(),
  });

  /** @param {unknown} error */
  function show(error) {
    problem.hidden = !error;
    if (!(error instanceof ApiError)) return;
    const places = error.problems.map((one) => h("div", {}, h("b", { text: `${one.field}: ` }), said(one)));
    problem.replaceChildren(
      ...(places.length ? places : [h("b", { text: error.status ? "Refused: " : "Not yet: " }), error.message]),
    );
  }

  /** Ask what would run, without running it. */
  function plan() {
    update();
    clearTimeout(timer);
    if (state.view !== "runs" || !form.checkValidity()) return;
    const waiting = state.catalog.pending?.find(({ key }) => key === job().scenario.cluster.chip);
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
        const line = [...settings, ...words]
          .map((/** @type {string} */ word) =>
            /[^\w@%+=:,./-]/.test(word) ? `'${word.replaceAll("'", "'\\''")}'` : word,
          )
          .join(" ");
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
      const run = await api.launch(job());
      set({ runs: [run, ...(state.runs ?? []).filter(({ id }) => id !== run.id)], run: run.id });
      writeUrl();
      toast("Run queued");
      show(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      show(error);
    } finally {
      launch.disabled = false;
    }
  }

  function update() {
    const { scenario, catalog } = state;
    for (const row of queue) row.hidden = backend.value !== "slurm";
    put(source.options[0], `Explore: ${describe(scenario, catalog)}`);
    const small = source.value === "small";
    const { seq_len, global_batch, precision } = small ? smallScenario(1).training : scenario.training;
    put(
      facts,
      [
        small ? "128 wide, vocabulary 1 024" : plural(chips(scenario), "chip"),
        `sequence ${seq_len}`,
        `batch ${global_batch}`,
        precision,
      ].join(" · "),
    );
  }
  source.addEventListener("change", () => {
    const small = source.value === "small";
    ranks.value = small ? "1" : String(chips(state.scenario));
    nodes.value = small ? "1" : String(state.scenario.cluster.nodes ?? 1);
  });
  // the page often opens on a cluster that this machine is not: the small model always runs
  source.value = "small";
  subscribe(["scenario", "view", "catalog"], plan);
  plan();
  return { form };
}
