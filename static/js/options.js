/** Options of a benchmark between what a person types and what a job holds. Pure. */

/** @typedef {import("./types.js").BenchmarkOption} BenchmarkOption */

/**
 * Numbers as numbers; the server reads sizes such as 25MiB, and says what else it cannot.
 * @param {string} text
 */
const number = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

/**
 * What a job holds for an option that was typed; undefined where it was left empty.
 * @param {BenchmarkOption} option @param {string} text
 */
export function readOption({ type, list }, text) {
  const one = (/** @type {string} */ part) => (type === "text" ? part : number(part));
  const parts = (list ? text.split(",") : [text]).map((part) => part.trim()).filter(Boolean);
  if (!parts.length) return undefined;
  return list ? parts.map(one) : one(parts[0]);
}

/** The default as a person would type it. @param {BenchmarkOption} option */
export const defaultText = ({ default: own }) => (Array.isArray(own) ? own.join(", ") || "default" : String(own ?? ""));

/**
 * Problems of one option, those of its items too.
 * @param {string} name @param {import("./types.js").Problem[]} problems
 */
export const problemsOf = (name, problems) =>
  problems.filter(({ field }) => field === `options.${name}` || field.startsWith(`options.${name}[`));
