/** Ops of a profile, measured beside predicted: points of a roofline, and rows of a table. Pure. */

/** @typedef {import("../types.js").OwnOp} OwnOp */

/** Name without namespace. @param {string} op */
const plain = (op) => op.split("::").pop() ?? op;

/**
 * Each op twice: with the seconds that it should take, and those that it took.
 * @param {OwnOp[]} ops @returns {{predicted: import("../types.js").Op[], measured: import("../types.js").Kernel[]}}
 */
export function ownWorks(ops) {
  const nameOf = (/** @type {OwnOp} */ { op, inputs, phase }) => `${plain(op)} ${inputs}, ${phase}`;
  return {
    predicted: ops.map((one) => ({
      name: `${plain(one.op)} ${one.inputs}`,
      layer: "",
      phase: one.phase,
      category: one.category,
      shape: "",
      count: one.count,
      flops: one.flops,
      bytes: one.bytes,
      launches: one.count,
      saved_bytes: 0,
      seconds: one.predicted_s,
      bound: one.bound,
      intensity_flops_per_byte: one.bytes ? one.flops / one.bytes : 0,
      precision: one.precision,
    })),
    measured: ops.map((one) => ({
      name: nameOf(one),
      category: one.category,
      count: one.count,
      total_s: one.measured_s,
      flops: one.flops,
      bytes: one.bytes,
    })),
  };
}

/** Whether anything was measured: a traced program has shapes and no times. @param {OwnOp[]} ops */
export const areMeasured = (ops) => ops.some(({ measured_s }) => measured_s > 0);

/**
 * Seconds of a step by category, as the ops are and as they would be.
 * @param {import("../types.js").Estimate} own @param {import("../types.js").Estimate} changed
 * @param {import("../types.js").Named[]} names @returns {import("../types.js").Table}
 */
export function whatIfRows(own, changed, names) {
  const row = (/** @type {string} */ label, /** @type {number} */ before, /** @type {number} */ after) => [
    label,
    before,
    after,
    before > 0 ? after / before - 1 : null,
  ];
  const used = names.filter(({ key }) => own.breakdown_s[key] > 0 || changed.breakdown_s[key] > 0);
  return {
    columns: [
      { title: "", text: true },
      { title: "as it is", unit: "s" },
      { title: "what if", unit: "s" },
      { title: "change", unit: "change" },
    ],
    rows: [
      ...used.map(({ key, label }) => row(label, own.breakdown_s[key] ?? 0, changed.breakdown_s[key] ?? 0)),
      row("step", own.step_time_s, changed.step_time_s),
    ],
  };
}

/**
 * Rows by measured time, of a program that was traced by predicted time; `wanted` must stand in the op's name, its inputs
 * or its phase; of one `category` where it is given.
 * @param {OwnOp[]} ops @param {string} wanted @param {string} [category] @returns {import("../types.js").Table}
 */
export function opRows(ops, wanted, category = "") {
  const word = wanted.trim().toLowerCase();
  const found = ops.filter(
    (one) =>
      (!category || one.category === category) && `${one.op} ${one.inputs} ${one.phase}`.toLowerCase().includes(word),
  );
  if (!areMeasured(ops)) {
    return {
      columns: [
        { title: "op", text: true },
        { title: "predicted", unit: "s" },
        { title: "calls" },
        { title: "phase", text: true },
        { title: "bound by", text: true },
        { title: "inputs", text: true },
      ],
      rows: found
        .sort((one, other) => other.predicted_s - one.predicted_s)
        .map((one) => [plain(one.op), one.predicted_s, one.count, one.phase, one.bound, one.inputs]),
    };
  }
  return {
    columns: [
      { title: "op", text: true },
      { title: "measured", unit: "s" },
      { title: "predicted", unit: "s" },
      { title: "difference", unit: "change" },
      { title: "calls" },
      { title: "phase", text: true },
      { title: "bound by", text: true },
      { title: "inputs", text: true },
    ],
    rows: found.map((one) => [
      plain(one.op),
      one.measured_s,
      one.predicted_s,
      one.measured_s > 0 ? one.predicted_s / one.measured_s - 1 : null,
      one.count,
      one.phase,
      one.bound,
      one.inputs,
    ]),
  };
}

/** Ops that some programs run in a step, and the catalogue's form of none has: what they are for. @type {[RegExp, string][]} */
const BEYOND_FORM = [
  [/^aten::(?:_foreach_norm|linalg_vector_norm)\b/, "the norm of the gradients, as clipping takes it"],
  [/^aten::(?:_local_scalar_dense|item)\b/, "numbers that the host reads back and waits for, as loss.item()"],
  [/^aten::(?:randint|randn|rand|random_|normal_|uniform_)\b/, "numbers drawn in the step, as its input"],
];

/** What a program runs that the catalogue's form of it leaves out, as far as its own ops tell. @param {{op: string}[]} ops */
export const leftOutOfForm = (ops) =>
  BEYOND_FORM.filter(([pattern]) => ops.some(({ op }) => pattern.test(op))).map(([, what]) => what);

/** What the changes of products' precision are called by; products have one precision at a time. */
const OF_PRODUCTS = "-products";

/** Questions asked together, with one more or less. @param {Iterable<string>} chosen @param {string} key */
export function toggled(chosen, key) {
  const others = [...chosen].filter((one) => one !== key);
  if (others.length < [...chosen].length) return new Set(others);
  const alike = (/** @type {string} */ one) => key.endsWith(OF_PRODUCTS) && one.endsWith(OF_PRODUCTS);
  return new Set([...others.filter((one) => !alike(one)), key]);
}
