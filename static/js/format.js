/** Numbers as people read them: three significant digits, decimal prefixes, a thin space between thousands. */

const THIN = "\u202f"; // narrow, and it does not break
const PREFIXES = /** @type {[number, string][]} */ ([
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
]);
const TIMES = /** @type {[number, string][]} */ ([
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
]);

/** @param {string} digits */
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);

/** Write a plain number with `digits` significant digits; a small whole number as it is. @param {number} value */
export function significant(value, digits = 3) {
  if (Number.isInteger(value) && Math.abs(value) < 10 ** digits) return String(value).replace("-", "−");
  return measured(value, digits);
}

/** Write a measured number with `digits` significant digits, trailing zeros too. @param {number} value */
export function measured(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(digits - 1).replace("-", "−");
  const rounded = Number(value.toPrecision(digits));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  const [whole, part] = Math.abs(rounded).toFixed(decimals).split(".");
  return (value < 0 ? "−" : "") + grouped(whole) + (part ? `.${part}` : "");
}

/** Write a count in full. @param {number} value */
export const count = (value) => (Number.isFinite(value) ? grouped(String(Math.round(value))) : "–");

/**
 * Choose one scale for a column or an axis, by its largest value.
 * @param {number} largest
 * @param {string} kind
 * @returns {{factor: number, unit: string}}
 */
export function scaleFor(largest, kind) {
  const size = Math.abs(largest) || 0;
  if (kind === "s") {
    const [factor, unit] = TIMES.find(([at]) => size >= at) ?? (size ? TIMES[3] : TIMES[1]);
    return { factor, unit };
  }
  const unit = { bytes: "B", flops: "FLOP", bytes_per_s: "B/s", flops_per_s: "FLOP/s" }[kind] ?? kind;
  const [factor, prefix] = PREFIXES.find(([at]) => size >= at) ?? [1, ""];
  return { factor, unit: prefix + unit };
}

/**
 * Split a quantity into number and unit, for tiles.
 * @param {number | null | undefined} value
 * @param {string} kind
 * @returns {[string, string]}
 */
export function split(value, kind, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return ["–", ""];
  // round first: 999.6 ms must read 1.00 s
  const rounded = Number(value.toPrecision(digits));
  const { factor, unit } = scaleFor(rounded, kind);
  return [measured(rounded / factor, digits), unit];
}

/** @param {number | null | undefined} value @param {string} kind */
export const quantity = (value, kind, digits = 3) => split(value, kind, digits).join(" ").trim();
/** A round value as the ticks of an axis have it: 10 MB. @param {number} value @param {string} kind */
export function rounded(value, kind) {
  const { factor, unit } = scaleFor(value * (1 + 1e-9), kind);
  return `${significant(Number((value / factor).toPrecision(6)))} ${unit}`.trim();
}

/** @param {number | null | undefined} value */
export const seconds = (value) => quantity(value, "s");
/** @param {number | null | undefined} value */
export const bytes = (value) => quantity(value, "bytes");

/** Write a number of things with a short scale, as in 8.03 B parameters. @param {number} value */
export function short(value) {
  // four-digit numbers read better in full: 9 940
  const found =
    value < 1e4
      ? null
      : /** @type {[number, string][]} */ ([
          [1e12, " T"],
          [1e9, " B"],
          [1e6, " M"],
          [1e3, " k"],
        ]).find(([at]) => value >= at);
  return found ? significant(value / found[0]) + found[1] : significant(value);
}

/** Write a fraction as percent; what is next to nothing as that. @param {number | null | undefined} frac */
export function percent(frac, digits = 3) {
  if (frac === null || frac === undefined || !Number.isFinite(frac)) return "–";
  if (frac && Math.abs(frac) < 1e-5) return frac > 0 ? "< 0.001 %" : "> −0.001 %";
  return `${significant(100 * frac, digits)} %`;
}

/** Write a signed change in percent with one decimal. @param {number | null | undefined} frac */
export function change(frac) {
  if (frac === null || frac === undefined || !Number.isFinite(frac)) return "–";
  const value = 100 * frac;
  if (Math.abs(value) < 0.05) return "±0 %";
  const size = Math.abs(value);
  const text = size >= 1000 ? significant(size) : size >= 100 ? size.toFixed(0) : size.toFixed(1);
  return `${value < 0 ? "−" : "+"}${text} %`;
}

/** An arrow for a change, so that colour is never alone. @param {number} frac */
export const arrow = (frac) => (Math.abs(frac) < 0.0005 ? "" : frac < 0 ? "▼" : "▲");

/** Why a typed number is refused. @param {number} least */
export const wholeNeeded = (least) => `A whole number of at least ${least} is needed.`;

/** A problem and its remedy as sentences. @param {{message: string, remedy: string}} problem */
export const said = ({ message, remedy }) =>
  [message, remedy]
    .filter(Boolean)
    .map((text) => (/[.!?]$/.test(text) ? text : `${text}.`))
    .join(" ");

/**
 * Problems as sentences, those with the same remedy in one.
 * @param {{message: string, remedy: string}[]} problems @returns {string[]}
 */
export function sentences(problems) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { message, remedy } of problems) found.set(remedy, [...(found.get(remedy) ?? []), message]);
  return [...found].map(([remedy, messages]) => said({ message: messages.join("; "), remedy }));
}

/** The same as one text. @param {{message: string, remedy: string}[]} problems */
export const saidTogether = (problems) => sentences(problems).join(" ");

/** A count with its noun. @param {number} number @param {string} noun @param {string} [many] */
export const plural = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;

/** @param {number} epoch_s */
export function when(epoch_s) {
  const date = new Date(epoch_s * 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Write rows as CSV with full precision. @param {import("./types.js").Table} table */
export function csv({ columns, rows }) {
  const cell = (/** @type {any} */ value) => {
    const text = value === null || value === undefined ? "" : String(value);
    // a leading = + - @ in text would run as a formula in a spreadsheet
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const head = columns.map(({ title, unit }) => (unit ? `${title} (${unit})` : title));
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
