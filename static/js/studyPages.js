/** What a study is beyond a list of figures: its tables as tables, its questions with expression and condition, the pair of plans that it is about. Pure. */

/** @typedef {import("./types.js").StudyFigure} Figure */
/** @typedef {import("./types.js").Table} Table */
/** @typedef {{title: string, table: Table, printed: number, agreeing: number}} Sheet */
/** @typedef {{part: string, asks: string, expression: string, answer: string, condition: string}} Question */

/** Figures of a group that the reference has as rows of one table: group "MLP fc1" is row fc1 of the table MLP. */
const ROW = /^(MLP|SA) (?!sums)(.+)$/;
const SUMS = /^(MLP|SA) sums(, corrected)?$/;
const STEP = /^\d+\. /;

/** @param {Figure[]} figures */
const agreement = (figures) => ({
  printed: figures.filter(({ printed }) => printed !== null).length,
  agreeing: figures.filter(({ agrees }) => agrees).length,
});

/** How many figures of one table are printed, and agree; those of a study are more than its tables hold. @param {number} printed @param {number} agreeing */
export const agreementWords = (printed, agreeing) =>
  printed ? `${agreeing} of ${printed} printed in this table agree` : "the reference prints none of these";

/**
 * Tables as the reference prints them: a row for each layer, a column for each quantity, sums below.
 * @param {Figure[]} figures @returns {Sheet[]}
 */
export function layerSheets(figures) {
  const parts = [...new Set(figures.flatMap(({ group }) => ROW.exec(group)?.[1] ?? []))];
  return parts.map((part) => {
    const own = figures.filter(({ group }) => ROW.exec(group)?.[1] === part);
    const layers = [...new Set(own.map(({ group }) => group))];
    const names = [...new Set(own.map(({ name }) => name))].filter((name) => name !== "layer");
    const sums = figures.filter(({ group }) => SUMS.exec(group)?.[1] === part);
    const groups = [...layers, ...new Set(sums.map(({ group }) => group))];
    const known = new Map(figures.map((one) => [`${one.group} ${one.name}`, one]));
    const unit = (/** @type {string} */ name) => own.find((one) => one.name === name)?.unit ?? "";
    return {
      title: part === "SA" ? "Self-attention" : part,
      table: {
        columns: [
          { title: "layer", text: true },
          ...names.map((name) => ({ title: `${name.replaceAll("_", " ")}${unit(name) ? `, ${unit(name)}` : ""}` })),
        ],
        rows: groups.map((group) => [
          group.slice(part.length + 1),
          ...names.map((name) => known.get(`${group} ${name}`)?.value ?? null),
        ]),
      },
      ...agreement([...own, ...sums]),
    };
  });
}

/**
 * Named steps, one a row: what is computed, which tensors it makes, the peak beside what the reference prints.
 * @param {Figure[]} figures @returns {Sheet | null}
 */
export function stepSheet(figures) {
  const steps = [...new Set(figures.map(({ group }) => group))].filter((group) => STEP.test(group));
  if (steps.length < 3) return null;
  const rows = steps.map((group) => {
    const own = figures.filter((one) => one.group === group);
    const found = (/** @type {RegExp} */ name) => own.find((one) => name.test(one.name));
    const shapes = own.filter(({ name }) => name.endsWith(" shape"));
    const tensors = shapes.map(({ name, value }) => `${name.replace(/ shape$/, "")} = ${value}`);
    const peak = found(/^peak memory/);
    return [group, found(/^FLOPs/)?.value ?? null, tensors.join("; "), peak?.value ?? null, peak?.printed ?? null];
  });
  return {
    title: "Step by step",
    table: {
      columns: [
        { title: "step", text: true },
        { title: "FLOPs of all ranks, TFLOP" },
        { title: "tensors of a rank", text: true },
        { title: "peak, GB" },
        { title: "printed, GB" },
      ],
      rows,
    },
    ...agreement(figures.filter(({ group }) => STEP.test(group))),
  };
}

/** Bytes of the GPU that the reference ran on, in GB, and what does not fit it. @type {Record<string, {capacity: number, words: string}>} */
export const CAPACITIES = { "ulysses-16": { capacity: 80, words: "an 80 GB GPU" } };

/**
 * The peak as the reference prints it, step by step, as a series beside those that are computed.
 * @param {Figure[]} figures @param {import("./types.js").StudySeries} beside
 * @returns {import("./types.js").StudySeries | null}
 */
export function printedPeaks(figures, beside) {
  const peaks = figures.filter(
    ({ group, name, printed }) => STEP.test(group) && /^peak/.test(name) && printed !== null,
  );
  if (!peaks.length) return null;
  return {
    ...beside,
    name: "printed",
    kind: "points",
    x: peaks.map(({ group }) => group),
    y: peaks.map(({ printed }) => Number(printed)),
  };
}

/**
 * Questions of cs336-4d; `of` and `under` name the figures that answer, and that the answer depends on.
 * @type {{part: string, asks: string, expression: string, of: [string, string][], condition: string, under: [string, string][]}[]}
 */
const QUESTIONS = [
  {
    part: "a",
    asks: "What do master weights, gradients and optimizer state of the 220 B feed-forward stack take?",
    expression: "2 · layers · d · F · (master + gradient + optimizer bytes)",
    of: [
      ["(a) memory", "states"],
      ["(a) memory", "whole chips that hold the states"],
    ],
    condition: "chips hold nothing else",
    under: [],
  },
  {
    part: "b",
    asks: "From which FSDP degree does a device stay below its memory?",
    expression: "M(N) = (states + A/2) / N + A/2 < capacity, A = 2 · (d + F) · layers · tokens",
    of: [["(b) FSDP degree", "smallest degree, 4096 tokens per device"]],
    condition: "half of the activations are sharded; no degree fits from the tokens at the right",
    under: [["(b) FSDP degree", "tokens per device from which no degree fits"]],
  },
  {
    part: "c",
    asks: "From which batch is the X × Y mesh bound by compute?",
    expression: "B / X ≥ α / M_X, α = C / W, where F > Y · α / M_Y",
    of: [
      ["(c) compute-bound batch", "overall batch, axes overlapped"],
      ["(c) compute-bound batch", "overall batch, axes not overlapped"],
    ],
    condition: "forward only; the first where exchanges of both axes overlap, the second where they follow one another",
    under: [["(c) compute-bound batch", "F that tensor parallelism needs, Y·α/M_Y"]],
  },
  {
    part: "d",
    asks: "Which split of the chips needs the smallest batch?",
    expression: "X = √(B · M_X · N / (F · M_Y)), Y = N / X < F · M_Y / α",
    of: [
      ["(d) best split of 64 chips", "X, axes overlapped"],
      ["(d) best split of 64 chips", "Y, axes overlapped"],
      ["(d) best split of 64 chips", "overall batch, axes overlapped"],
    ],
    condition: "axes overlapped; Y stays below the widest tensor parallelism",
    under: [["(d) best split of 64 chips", "widest tensor parallelism, F·M_Y/α"]],
  },
  {
    part: "d",
    asks: "Do pipeline stages make it smaller?",
    expression: "batch / p, with a bubble of (p − 1) / (m + p − 1)",
    of: [
      ["(d) lever, pipeline stages in X's place", "overall batch, 4 stages, 16 micro-batches, weights gathered once"],
    ],
    condition:
      "only while a stage keeps the weights that it gathered for all m micro-batches: then these and the states fill a chip to what stands at the right; gathered for each, the batch is m times as large",
    under: [
      ["(d) lever, pipeline stages in X's place", "those and a chip's share of the states"],
      [
        "(d) lever, pipeline stages in X's place",
        "overall batch, 4 stages, 16 micro-batches, weights gathered for each",
      ],
    ],
  },
];

/** Answers to the questions of a study, from its figures as they are now. @param {string} study @param {Figure[]} figures @param {(one: Figure) => string} written @returns {Question[]} */
export function questionsOf(study, figures, written) {
  if (study !== "cs336-4d") return [];
  // numbers in names are inputs, which may be others now
  const blank = (/** @type {string} */ text) => text.replace(/\d+/g, "#");
  const at = (/** @type {[string, string]} */ [group, name]) => {
    const found =
      figures.find((one) => one.group === group && one.name === name) ??
      figures.find((one) => blank(one.group) === blank(group) && blank(one.name) === blank(name));
    return found ? [`${found.name}: ${written(found)} ${found.unit}`.trim()] : [];
  };
  return QUESTIONS.map(({ part, asks, expression, of, condition, under }) => ({
    part,
    asks,
    expression,
    answer: of.flatMap(at).join("; "),
    condition: [condition, ...under.flatMap(at)].join("; "),
  }));
}

const STACK = {
  network: "transformer",
  name: "FFN stack 220 B",
  layers: 126,
  hidden: 16384,
  heads: 128,
  ffn: 53248,
  vocab: 32000,
  gated_ffn: false,
};
const ULYSSES = {
  network: "transformer",
  name: "one layer of 16 384",
  layers: 1,
  hidden: 16384,
  heads: 128,
  ffn: 65536,
  vocab: 32000,
  gated_ffn: false,
};

/**
 * The two plans that a study sets against each other, as Explore estimates them.
 * @type {Record<string, {words: string, a: any, b: any}>}
 */
export const PAIRS = {
  "ulysses-16": {
    words: "Ulysses against a ring",
    ...pair(
      {
        model: ULYSSES,
        cluster: { chip: "h100-sxm", nodes: 2 },
        plan: { cp: 16, sharding: "fsdp" },
        training: { seq_len: 60_000, global_batch: 1, precision: "bf16", attention: "flash" },
      },
      { plan: { cp_kind: "ulysses" } },
      { plan: { cp_kind: "ring" } },
    ),
  },
  "transformer-tables": {
    words: "1D with sequence parallelism against 2D",
    ...pair(
      {
        model: "gpt3-175b",
        cluster: { chip: "a100-80gb-sxm", chips_per_node: 4, nodes: 1 },
        plan: { tp: 4 },
        training: { seq_len: 2048, global_batch: 1, precision: "fp16-amp", framework: "megatron" },
      },
      { plan: { sequence_parallel: true } },
      { plan: { tp_kind: "2d" } },
    ),
  },
  "cs336-steps": {
    words: "fp32 against bf16 autocast, compiled",
    ...pair(
      {
        model: "cs336-large",
        cluster: { chip: "h100-sxm", chips_per_node: 1, nodes: 1 },
        plan: {},
        training: { seq_len: 256, global_batch: 4, attention: "eager" },
      },
      { training: { precision: "fp32" } },
      { training: { precision: "bf16-amp", framework: "pytorch-compile", compile: true } },
    ),
  },
  "flash-attention": {
    words: "eager attention against flash",
    ...pair(
      {
        model: "cs336-medium",
        cluster: { chip: "h100-sxm", chips_per_node: 1, nodes: 1 },
        plan: {},
        training: { seq_len: 4096, global_batch: 2, precision: "bf16-amp" },
      },
      { training: { attention: "eager" } },
      { training: { attention: "flash" } },
    ),
  },
  "cs336-4d": {
    words: "16 × 4 against 4 × 16",
    ...pair(
      {
        model: STACK,
        cluster: { chip: "tpu-v5p", chips_per_node: 4, nodes: 16 },
        plan: { sharding: "fsdp", sequence_parallel: true, recompute: "full" },
        training: { seq_len: 1024, global_batch: 32, precision: "bf16", framework: "xla" },
      },
      { plan: { dp: 16, tp: 4 } },
      { plan: { dp: 4, tp: 16 } },
    ),
  },
};

/** @param {any} both @param {any} a @param {any} b */
function pair(both, a, b) {
  const joined = (/** @type {any} */ own) => ({
    ...both,
    plan: { ...both.plan, ...own.plan },
    training: { ...both.training, ...own.training },
  });
  return { a: joined(a), b: joined(b) };
}
