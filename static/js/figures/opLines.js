/** Lines of the table of ops: each op with its forward and its backward. Pure. */

/** @typedef {import("../types.js").Op} Op */
/** @typedef {{name: string, category: string, shape: string, flops: number, bytes: number, launches: number,
 *   forward_s: number, backward_s: number, other_s: number, saved_bytes: number, bound: string, seconds: number,
 *   count: number, per_layer: number}} Line */

/** The gradients of an op stand in its line: "q projection weight gradient" belongs to "q projection". */
const GRADIENT = / (input |weight )?gradient\b.*$/;

/**
 * One line per op, with its forward and its backward; FLOPs, bytes and launches are the forward's where there is one.
 * Totals of the step, or of one layer and micro-batch: an op that a layer runs twice counts twice.
 * @param {Op[]} ops  of one group @param {boolean} perStep @returns {Line[]}
 */
export function linesOf(ops, perStep) {
  /** @type {Map<string, Line>} */
  const found = new Map();
  const first = ops.filter(({ phase }) => phase === "forward");
  // every layer has ops that it runs once
  const layers = Math.max(1, Math.min(...(first.length ? first : ops).map(({ count }) => count)));
  const forward = new Set(first.map(({ name }) => name));
  for (const op of [...first, ...ops.filter(({ phase }) => phase !== "forward")]) {
    const base = op.name.replace(GRADIENT, "");
    const name = forward.has(base) ? base : op.name;
    const times = perStep ? 1 : 1 / layers;
    const line = found.get(name) ?? {
      name,
      category: op.category,
      shape: shapeText(op.shape),
      flops: 0,
      bytes: 0,
      launches: 0,
      forward_s: 0,
      backward_s: 0,
      other_s: 0,
      saved_bytes: 0,
      bound: op.bound,
      seconds: 0,
      count: layers,
      per_layer: Math.max(1, Math.round(op.count / layers)),
    };
    if (op.phase === "forward" || !forward.has(name)) {
      line.flops += op.flops * times;
      line.bytes += op.bytes * times;
      line.launches += op.launches * times;
    }
    line.saved_bytes += op.saved_bytes * times;
    line.seconds += op.seconds;
    line[op.phase === "forward" ? "forward_s" : op.phase === "backward" ? "backward_s" : "other_s"] +=
      op.seconds * times;
    found.set(name, line);
  }
  return [...found.values()];
}

/** @param {any} shape */
export const shapeText = (shape) => (Array.isArray(shape) ? shape.join(" × ") : String(shape ?? ""));

/** Less than a percentage of two digits shows. */
const LEAST_SHARE = 1e-5;

/**
 * Seconds of a step that no op has, by category: exchanges, waits, the bubble; as the rows "step" of the server's table of
 * layers, in which exchanges inside layers stand with the ops that need them.
 * @param {import("../types.js").Estimate} estimate @returns {[category: string, seconds: number][]}
 */
export function besideOps({ ops, breakdown_s, step_time_s }) {
  const rest = { ...breakdown_s };
  for (const { category, seconds } of ops) rest[category] -= seconds;
  return Object.entries(rest).filter(([, seconds]) => seconds > LEAST_SHARE * step_time_s);
}
