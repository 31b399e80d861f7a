/** Hierarchical roofline: one roof for each level of memory, and every product once at each level. */
import { count, plural, quantity, significant } from "../format.js";
import { escaped, layout, SERIES } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/**
 * @typedef {{name: string, tile: number, reloads: number[], bytes: number, seconds: number}} AtLevel
 * @typedef {{name: string, layer: string, phase: string, count: number, batch: number, m: number, n: number, k: number,
 *   flops: number, compute_s: number, levels: AtLevel[], transposed: boolean, binds: string, seconds: number}} Row
 * @typedef {{name: string, bytes_per_s: number, capacity_bytes: number, tile: number, source: string}} Roof
 * @typedef {{chip: string, mode: string, precision: string, flops_per_s: number, roofs: Roof[], rows: Row[]}} Hierarchy
 */

const LARGEST_PX = 26;
const SMALLEST_PX = 6;
const HEIGHT_PX = 250;
const CARD = "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>";

/** The token that colours a level, by its place from the farthest. @param {number} at */
const tokenOfLevel = (at) => SERIES[at % SERIES.length];

/** What the colours of the levels stand for. @param {Hierarchy} hierarchy @returns {[string, string, string][]} */
export const levelNames = ({ roofs }) =>
  roofs.map(({ name, bytes_per_s, tile, source }, at) => [
    tokenOfLevel(at),
    `${name}, ${quantity(bytes_per_s, "bytes_per_s")}, tiles of ${tile}`,
    source,
  ]);

/** @param {Row} row */
const title = ({ name, phase }) => (name.includes(phase) ? name : `${name}, ${phase}`);

/**
 * @param {{hierarchy: Hierarchy, colour: Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure}
 */
export function hierarchical({ hierarchy: { roofs, rows, flops_per_s, mode, chip }, colour, narrow }) {
  const step_s = rows.reduce((sum, row) => sum + row.count * row.seconds, 0) || 1;
  const at = (/** @type {Row} */ row, /** @type {number} */ level) => row.flops / row.levels[level].bytes;
  const all = rows.flatMap((row) => row.levels.map((_, level) => at(row, level)));
  const ridges = roofs.map(({ bytes_per_s }) => flops_per_s / bytes_per_s);
  const left = 0.5 * Math.min(...all, ...ridges.filter((x) => x > 0));
  const right = 2 * Math.max(...all, ...ridges);
  const low = Math.min(flops_per_s / 300, ...rows.map(({ flops, seconds }) => (0.3 * flops) / seconds));
  const roof = (/** @type {number} */ level) => {
    const begin = Math.max(left, low / roofs[level].bytes_per_s);
    const x = [begin, Math.max(begin, ridges[level]), right];
    return {
      type: "scatter",
      mode: "lines",
      name: roofs[level].name,
      x,
      y: x.map((intensity) => Math.min(flops_per_s, intensity * roofs[level].bytes_per_s) / 1e12),
      hoverinfo: "skip",
      line: { color: colour(tokenOfLevel(level)), width: 1.6 },
    };
  };
  const points = (/** @type {number} */ level) => ({
    type: "scatter",
    mode: "markers",
    name: `at ${roofs[level].name}`,
    cliponaxis: false,
    x: rows.map((row) => at(row, level)),
    y: rows.map(({ flops, seconds }) => flops / seconds / 1e12),
    customdata: rows.map((row) => card(row, level)),
    hovertemplate: CARD,
    marker: {
      color: rows.map(({ binds }) => (binds === roofs[level].name ? colour(tokenOfLevel(level)) : "rgba(0,0,0,0)")),
      size: rows.map((row) => Math.max(SMALLEST_PX, LARGEST_PX * Math.sqrt((row.count * row.seconds) / step_s))),
      line: { width: 1.6, color: colour(tokenOfLevel(level)) },
    },
  });
  const bound = new Map();
  for (const row of rows) bound.set(row.binds, (bound.get(row.binds) ?? 0) + row.count * row.seconds);
  const most = [...bound].sort(([, a], [, b]) => b - a)[0]?.[0] ?? "nothing";
  const axis = (/** @type {number[]} */ range) => {
    const decades = range[1] - range[0];
    return { type: "log", range, dtick: narrow && decades > 4 ? 2 : 1 };
  };
  return {
    data: [...roofs.map((_, level) => roof(level)), ...roofs.map((_, level) => points(level))],
    layout: layout(colour, {
      height: HEIGHT_PX,
      margin: { l: 54, r: 14, t: 10, b: 40 },
      xaxis: {
        ...axis([Math.log10(left), Math.log10(right)]),
        title: { text: "FLOP per byte out of the level" },
      },
      yaxis: {
        ...axis([Math.log10(low / 1e12), Math.log10((2 * flops_per_s) / 1e12)]),
        title: { text: "TFLOP/s" },
      },
    }),
    summary: `${plural(rows.length, "product")} on ${chip}, mode ${mode}; most time is bound by ${most}.`,
    table: tableOf(rows),
  };
}

/** @param {Row} row @param {number} level */
function card(row, level) {
  const { name, tile, reloads, bytes, seconds } = row.levels[level];
  const [a, b, c] = reloads.map((times) => count(times));
  return [
    escaped(title(row)),
    `${count(row.m)} × ${count(row.k)} · ${count(row.k)} × ${count(row.n)}, ${significant(row.count)} times`,
    `${escaped(name)}: tiles of ${count(tile)}, A × ${a}, B × ${b}, C × ${c}`,
    `${quantity(bytes, "bytes")} in ${quantity(seconds, "s")}; bound by ${escaped(row.binds)}`,
  ];
}

/** One line for each product and level. @param {Row[]} rows @returns {import("../types.js").Table} */
function tableOf(rows) {
  return {
    columns: [
      { title: "product", text: true },
      { title: "m" },
      { title: "n" },
      { title: "k" },
      { title: "times" },
      { title: "level", text: true },
      { title: "tile" },
      { title: "reloads of A" },
      { title: "of B" },
      { title: "of C" },
      { title: "bytes", unit: "B" },
      { title: "time", unit: "s" },
      { title: "bound by", text: true },
    ],
    rows: rows.flatMap((row) =>
      row.levels.map((level) => [
        title(row),
        row.m,
        row.n,
        row.k,
        row.count,
        level.name,
        level.tile,
        ...level.reloads,
        level.bytes,
        level.seconds,
        row.binds,
      ]),
    ),
  };
}
