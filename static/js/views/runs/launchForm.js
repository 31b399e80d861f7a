/** What a measured run asks for: the benchmark, the fields of the form and the job that they make. */
import { plural } from "../../format.js";
import { chips, describe } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { createOptionForm } from "./optionForm.js";

/** @typedef {import("../../types.js").Problem} Problem */

/** A model that a CPU trains in well under a second per step, Llama-shaped. @param {number} ranks */
const smallScenario = (ranks) => ({
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

/** Backends and what people call them. @type {[string, string][]} */
const BACKENDS = [
  ["local", "this machine"],
  ["slurm", "Slurm"],
];

/** @param {string} label @param {HTMLElement} input */
const field = (label, input) => h("label", { class: "stack" }, label, input);
/** @param {number} value @param {number} min @param {number} max */
const number = (value, min, max) => h("input", { type: "number", value, min, max, step: 1, required: true });
/** @param {[string, string][]} options */
const choice = (options) =>
  h(
    "select",
    {},
    options.map(([value, text]) => h("option", { value, text })),
  );

const STEP = "step";

export function createLaunchForm() {
  const benchmark = h("select", { id: "run-benchmark" }, h("option", { value: STEP, text: "step: this scenario" }));
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
  const device = choice(["auto", "cpu", "cuda"].map((word) => [word, word]));
  const backend = choice(BACKENDS);
  const optional = { type: "text", maxlength: 100, placeholder: "the server's" };
  const nodes = number(1, 1, 4096);
  const minutes = h("input", { type: "number", min: 1, max: 43200, step: 1, placeholder: "the queue's" });
  const [partition, account] = [h("input", { ...optional }), h("input", { ...optional })];
  const label = h("input", { type: "text", maxlength: 120, placeholder: "optional" });
  const pair = (/** @type {HTMLElement[]} */ ...two) => h("div", { class: "pair" }, two);
  const queue = [
    pair(field("Nodes", nodes), field("Time limit, minutes", minutes)),
    pair(field("Partition", partition), field("Account", account)),
  ];
  const sourceField = field("Scenario", source);
  const about = h("p", { class: "hint" });
  const place = h("div");
  const elements = [
    field("Benchmark", benchmark),
    sourceField,
    facts,
    about,
    place,
    pair(field("Processes", ranks), field("Device", device)),
    pair(field("Steps", steps), field("Warm-up steps", warmup)),
    field("Start on", backend),
    ...queue,
    field("Label", label),
  ];
  /** @type {Map<string, {about: string, least: number, form: ReturnType<typeof createOptionForm>}>} */
  const known = new Map();
  const options = () => known.get(benchmark.value)?.form;

  /** Offer what the server can measure. @param {import("../../types.js").Benchmark[]} found */
  function offer(found) {
    for (const one of found) {
      const folded = one.name === STEP ? { inSight: 0 } : {};
      known.set(one.name, { about: one.about, least: one.least_ranks, form: createOptionForm(one, folded) });
      if (one.name !== STEP) benchmark.append(h("option", { value: one.name, text: one.name }));
    }
    if (cloned) known.get(cloned.benchmark)?.form.fill(cloned.options ?? {});
    update();
  }
  benchmark.addEventListener("change", () => {
    if (benchmark.value === STEP) source.dispatchEvent(new Event("change"));
    else ranks.value = String(known.get(benchmark.value)?.least ?? 1);
  });
  source.addEventListener("change", () => {
    const small = source.value === "small";
    ranks.value = small ? "1" : String(chips(state.scenario));
    nodes.value = small ? "1" : String(state.scenario.cluster.nodes ?? 1);
  });
  // the page often opens on a cluster that this machine is not: the small model always runs
  source.value = "small";

  /** @type {Record<string, any> | null} */
  let cloned = null;
  /** Take the job of a run that was: its options into their inputs, its scenario as one to choose. @param {import("../../types.js").Run} run */
  function fill({ label: name, job: own }) {
    cloned = own;
    benchmark.value = own.benchmark;
    source.querySelector("[value=clone]")?.remove();
    if (own.scenario && Object.keys(own.scenario).length) {
      source.append(h("option", { value: "clone", text: `As in ${name || "that run"}` }));
      source.value = "clone";
    }
    for (const [input, key] of /** @type {[HTMLInputElement, string][]} */ ([
      [ranks, "world_size"],
      [steps, "steps"],
      [warmup, "warmup"],
    ]))
      if (own[key] !== undefined) input.value = String(own[key]);
    options()?.fill(own.options ?? {});
    if (own.device) device.value = own.device;
    if (own.backend) backend.value = own.backend;
    label.value = name ?? "";
    update();
  }

  /** A grid of models, like every other benchmark, takes its shapes from its options. */
  const ofScenario = () => benchmark.value === STEP && !options()?.values().models;

  const chosen = () => options()?.values() ?? {};

  const job = () => ({
    benchmark: benchmark.value,
    ...(ofScenario() && {
      scenario:
        source.value === "small"
          ? smallScenario(ranks.valueAsNumber || 1)
          : source.value === "clone"
            ? cloned?.scenario
            : state.scenario,
    }),
    ...(Object.keys(chosen()).length && { options: chosen() }),
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

  /** @param {Problem[]} [problems] @returns {Problem[]} those that stand at none of the inputs */
  function update(problems = []) {
    const { scenario, catalog } = state;
    const form = options();
    for (const row of queue) row.hidden = backend.value !== "slurm";
    sourceField.hidden = facts.hidden = !ofScenario();
    about.hidden = benchmark.value === STEP;
    put(about, known.get(benchmark.value)?.about ?? "");
    if (form?.element !== place.firstChild) place.replaceChildren(...(form ? [form.element] : []));
    put(source.options[0], `Explore: ${describe(scenario, catalog)}`);
    const small = source.value === "small";
    const training = source.value === "clone" ? (cloned?.scenario.training ?? {}) : scenario.training;
    const { seq_len, global_batch, precision } = small ? smallScenario(1).training : training;
    const size = small ? "128 wide, vocabulary 1 024" : plural(chips(scenario), "chip");
    put(facts, [size, `sequence ${seq_len}`, `batch ${global_batch}`, precision].join(" · "));
    return form ? form.update(problems) : problems;
  }
  return { elements, job, offer, update, fill };
}
