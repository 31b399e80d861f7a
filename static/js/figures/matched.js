/** Kernels of A beside those of B: the same thing in both by its name and shape, what is alone last. Pure. */
import { bytes } from "../format.js";
import { worksOf, worksOfKernels } from "./points.js";
import { shapeText } from "./opLines.js";

/**
 * @typedef {{name: string, names: [string, string], shape: string, category: string, a_s: number | null,
 *   b_s: number | null, a_count: number, b_count: number, by: "name" | "work" | ""}} Matched
 *   `names`: in A and in B; `by`: how both were recognised as one, "" where one side alone has it
 */
/** @typedef {{name: string, shape: string, category: string, seconds: number, count: number, flops: number, sends: string}} Entry  `sends`: kind of a collective */

/** Two amounts of work that are one, up to how their FLOPs are counted. */
const SAME_FRAC = 0.01;

/** Kinds of collectives as names of kernels have them: ncclDevKernel_AllReduce_Sum_bf16, all_reduce. */
const KINDS = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send"];
/** @param {string} name */
const kindIn = (name) =>
  KINDS.find((kind) =>
    name
      .toLowerCase()
      .replace(/[\s_-]/g, "")
      .includes(kind.replace(/-/g, "")),
  ) ?? "";

/**
 * The shapes of each name and phase: that of most time, and how many others; "" where an op has none.
 * @param {import("../types.js").Op[]} ops
 */
function shapesOf(ops) {
  /** @type {Map<string, Map<string, number>>} */
  const times = new Map();
  for (const { name, phase, shape, seconds } of ops) {
    const text = shapeText(shape);
    if (!text) continue;
    const own = times.get(`${name}, ${phase}`) ?? new Map();
    times.set(`${name}, ${phase}`, own.set(text, (own.get(text) ?? 0) + seconds));
  }
  return new Map(
    [...times].map(([name, own]) => {
      const [[longest]] = [...own].sort(([, a], [, b]) => b - a);
      return [name, own.size > 1 ? `${longest} and ${own.size - 1} more` : longest];
    }),
  );
}

/** @param {import("../sides.js").Side | null} side @param {string} talking  category of what is sent @returns {Entry[]} */
function entriesOf(side, talking) {
  if (!side) return [];
  const { estimate, measurement } = side;
  const works = estimate ? worksOf(estimate.ops) : worksOfKernels(measurement?.kernels ?? []);
  const shapes = shapesOf(estimate?.ops ?? []);
  const computed = works.map(({ name, category, seconds, count, flops }) => ({
    name,
    shape: shapes.get(name) ?? "",
    category,
    seconds,
    count,
    flops,
    sends: category === talking ? kindIn(name) : "",
  }));
  const sent = (estimate?.collectives ?? []).map(({ name, axis, kind, ranks, bytes: size, count, seconds }) => ({
    name: `${name}, ${axis}`,
    shape: ranks > 1 ? `${kind}, ${bytes(size)}, ${ranks} ranks` : bytes(size),
    category: talking,
    seconds,
    count,
    flops: 0,
    sends: KINDS.includes(kind) ? kind : "",
  }));
  return [...computed, ...sent];
}

/** Tile and template arguments aside: what of a library's kernel name says what it does. @param {string} name */
const stem = (name) =>
  name
    .replace(/^void /, "")
    .replace(/<.*$/s, "")
    .replace(/\(.*$/s, "")
    .replace(/[_-]?\d+x\d+(x\d+)*/g, "")
    .trim();

/**
 * Ops of a profile, whose prediction and measurement are of the same call. `predicted`: which side is the prediction.
 * @param {import("../types.js").OwnOp[]} ops @param {"a" | "b"} predicted @returns {Matched[]}
 */
const ofOwn = (ops, predicted) =>
  ops.map(({ op, inputs, phase, category, count, measured_s, predicted_s, known }) => {
    const [a_s, b_s] = predicted === "a" ? [predicted_s, measured_s] : [measured_s, predicted_s];
    const name = `${op}, ${phase}`;
    return {
      name,
      names: [name, name],
      shape: inputs,
      category,
      a_s: known || predicted === "b" ? a_s : null,
      b_s: known || predicted === "a" ? b_s : null,
      a_count: count,
      b_count: count,
      by: "name",
    };
  });

/**
 * @param {import("../sides.js").Pair} pair @param {import("../types.js").OwnOp[]} [own]  where a side is what the ops of
 *   the other side's profile should take
 * @param {string} [talking]  category of what is sent
 * @returns {Matched[]} the largest difference first
 */
export function matched({ a, b }, own, talking = "") {
  const size = (/** @type {Matched} */ row) => Math.abs((row.b_s ?? 0) - (row.a_s ?? 0));
  const sorted = (/** @type {Matched[]} */ rows) => rows.sort((x, y) => size(y) - size(x));
  // the same calls, predicted and measured
  const run = a?.own ? b?.measurement : b?.own ? a?.measurement : null;
  if (own && run?.expected?.ops === own) return sorted(ofOwn(own, a?.own ? "a" : "b"));
  const [first, second] = [entriesOf(a, talking), entriesOf(b, talking)];
  /** @type {Map<string, Matched>} */
  const rows = new Map();
  /** @param {Entry} entry @param {"a" | "b"} letter @param {string} key */
  const put = (entry, letter, key) => {
    const row = rows.get(key) ?? {
      name: entry.name,
      names: /** @type {[string, string]} */ (["", ""]),
      shape: entry.shape,
      category: entry.category,
      a_s: null,
      b_s: null,
      a_count: 0,
      b_count: 0,
      by: /** @type {Matched["by"]} */ (""),
    };
    row.names[letter === "a" ? 0 : 1] = entry.name;
    row[`${letter}_s`] = (row[`${letter}_s`] ?? 0) + entry.seconds;
    row[`${letter}_count`] += entry.count;
    if (letter === "b" && row.shape && entry.shape && row.shape !== entry.shape) row.shape += ` → ${entry.shape}`;
    rows.set(key, row);
    return row;
  };
  for (const entry of first) put(entry, "a", entry.name);
  /** @type {Entry[]} */
  const left = [];
  for (const entry of second)
    if (rows.has(entry.name)) put(entry, "b", entry.name).by = "name";
    else left.push(entry);
  // by the work itself, where names are of two languages: same kind, same FLOPs or collective, closest in time
  for (const entry of left) {
    const like = [...rows.entries()].filter(
      ([, row]) => row.a_s !== null && row.b_s === null && row.category === entry.category,
    );
    const own = first.filter(({ name }) => like.some(([key]) => key === name));
    const fits = own.filter(
      (one) =>
        (entry.flops > 0 && Math.abs(one.flops / entry.flops - 1) < SAME_FRAC) ||
        (entry.sends && entry.sends === one.sends) ||
        (!entry.flops && !one.flops && stem(one.name) === stem(entry.name)),
    );
    const [best] = fits.sort((x, y) => Math.abs(x.seconds - entry.seconds) - Math.abs(y.seconds - entry.seconds));
    if (!best) {
      put(entry, "b", `b ${entry.name}`);
      continue;
    }
    const row = put(entry, "b", best.name);
    row.by = "work";
  }
  return sorted([...rows.values()]);
}
