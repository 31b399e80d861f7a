/** Headers of a table's columns: name and unit apart and together again, and which of them were said anew. Pure. */

/** Units that are offered; a column may have another one that its importer knows. */
export const UNITS = [
  "s",
  "ms",
  "µs",
  "ns",
  "B",
  "KiB",
  "MiB",
  "GiB",
  "MB",
  "GB",
  "GB/s",
  "GiB/s",
  "TFLOP/s",
  "%",
  "x",
];
/** Words that make a column known. */
export const NAMES = [
  "model",
  "batch",
  "seq_len",
  "precision",
  "d_model",
  "forward",
  "backward",
  "forward backward",
  "step",
  "optimizer",
  "memory",
  "peak memory",
  "size",
  "world size",
  "mean",
  "min",
  "max",
  "std",
];

/** A header's name without its unit. @param {string} header @param {string} unit  as it was read in it or its cells */
export function nameOf(header, unit) {
  const bare = header.trim();
  if (!unit) return bare;
  for (const [open, close] of ["()", "[]"]) {
    const end = `${open}${unit}${close}`;
    if (bare.endsWith(end)) return bare.slice(0, -end.length).trim();
  }
  const end = new RegExp(`[_ ]${unit.replace(/[^A-Za-z]/g, "\\$&")}$`);
  return bare.replace(end, "");
}

/** The unit as it is offered, else as it was printed. @param {string} unit */
export const unitOf = (unit) =>
  UNITS.find((one) => one === unit) ??
  UNITS.find((one) => one.toLowerCase() === unit.toLowerCase()) ??
  ({ us: "µs", μs: "µs", seconds: "s", sec: "s", bytes: "B", percent: "%" }[unit.toLowerCase()] || unit);

/** @param {string} name @param {string} unit */
export const headerOf = (name, unit) => (unit ? `${name.trim()} (${unit})` : name.trim());

/**
 * @typedef {{line: number, kind: string, columns: string[], units: string[], cells: string[][], rows: number}} SeenTable
 * @typedef {{name: string, unit: string}} Said  of one column
 */

/**
 * What was said anew, by line and column; what was said `before` stands where it was not said again.
 * @param {SeenTable[]} tables  as they were seen with what was said before
 * @param {Map<string, Said>} said  by `line.column`
 * @param {Record<string, Record<string, string>>} [before]
 */
export function corrections(tables, said, before = {}) {
  /** @type {Record<string, Record<string, string>>} */
  const found = structuredClone(before);
  for (const { line, columns, units } of tables)
    columns.forEach((header, at) => {
      const own = said.get(`${line}.${at}`);
      const same = own && own.name.trim() === nameOf(header, units[at]) && own.unit === unitOf(units[at]);
      if (own && !same) (found[line] ??= {})[at] = headerOf(own.name, own.unit);
    });
  return found;
}
