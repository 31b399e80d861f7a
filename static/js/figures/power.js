/** The power split: time along one line through it with the least marked, and the way of the search to the optimum. */
import { percent, quantity, significant } from "../format.js";
import { layout, logTicks, SERIES } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/**
 * @typedef {{memory_frac: number[], seconds: number[], overflow: number[], best: number, here_frac: number}} Sweep
 * @typedef {{names: string[], shares: number[][], seconds: number[], evaluations: number}} Search
 */

/** @param {string} name  of a share */
export const shareWord = (name) =>
  ({ core_power_frac: "compute", dram_power_frac: "memory", l2_power_frac: "L2", shared_power_frac: "shared memory" })[
    name
  ] ?? name;

/**
 * @param {{sweep: Sweep, time_s: number, colour: Colour}} input
 * @returns {import("../types.js").Figure}
 */
export function powerSweep({ sweep: { memory_frac, seconds, overflow, best, here_frac }, time_s, colour }) {
  const mark = (
    /** @type {number} */ x,
    /** @type {number} */ y,
    /** @type {string} */ name,
    /** @type {string} */ token,
  ) => ({
    type: "scatter",
    mode: "markers",
    name,
    x: [x],
    y: [y],
    hovertemplate: `${name}: %{x:.1%} memory, ${quantity(y, "s")}<extra></extra>`,
    marker: { size: 11, color: colour(token), line: { width: 2, color: colour("card") } },
    cliponaxis: false,
  });
  return {
    data: [
      {
        type: "scatter",
        mode: "lines",
        name: "time",
        x: memory_frac,
        y: seconds,
        customdata: overflow.map((value) => significant(value)),
        hovertemplate: "%{x:.1%} memory: %{y:.4s}s, overflow %{customdata}<extra></extra>",
        line: { color: colour("ink-2"), width: 1.8 },
      },
      mark(here_frac, time_s, "now", "accent"),
      mark(memory_frac[best], seconds[best], "least", "good"),
    ],
    layout: layout(colour, {
      height: 260,
      margin: { l: 56, r: 14, t: 10, b: 40 },
      xaxis: {
        tickformat: ".0%",
        range: [0, 1],
        title: { text: "memory's share of what compute and memory have" },
      },
      yaxis: { type: "log", title: { text: "s" }, ...logTicks(seconds) },
    }),
    summary: `Time over memory's share of the power: least ${quantity(seconds[best], "s")} at ${percent(memory_frac[best])}.`,
    table: {
      columns: [{ title: "memory's share", unit: "frac" }, { title: "time", unit: "s" }, { title: "overflow" }],
      rows: memory_frac.map((x, at) => [x, seconds[at], overflow[at]]),
    },
  };
}

/**
 * @param {{search: Search, colour: Colour}} input
 * @returns {import("../types.js").Figure}
 */
export function powerPath({ search: { names, shares, seconds, evaluations }, colour }) {
  const places = seconds.map((_, at) => at);
  return {
    data: [
      ...names.map((name, of) => ({
        type: "scatter",
        mode: "lines",
        stackgroup: "shares",
        name: shareWord(name),
        x: places,
        y: shares.map((each) => each[of]),
        line: { width: 0.5, color: colour(SERIES[of]) },
        hovertemplate: `${shareWord(name)} %{y:.1%}<extra></extra>`,
      })),
      {
        type: "scatter",
        mode: "lines",
        name: "time",
        x: places,
        y: seconds,
        yaxis: "y2",
        line: { color: colour("ink"), width: 2 },
        hovertemplate: "generation %{x}: %{y:.4s}s<extra></extra>",
      },
      {
        type: "scatter",
        mode: "markers",
        name: "best",
        x: places.slice(-1),
        y: seconds.slice(-1),
        yaxis: "y2",
        cliponaxis: false,
        marker: { size: 11, color: colour("good"), line: { width: 2, color: colour("card") } },
        hovertemplate: `best: ${names.map((name, of) => `${shareWord(name)} ${percent(shares.at(-1)?.[of] ?? 0)}`).join(", ")}<extra></extra>`,
      },
    ],
    layout: {
      ...layout(colour, {
        height: 260,
        margin: { l: 48, r: 52, t: 10, b: 40 },
        xaxis: { title: { text: "generation of the search" } },
        yaxis: { tickformat: ".0%", rangemode: "tozero", title: { text: "share of the power" } },
      }),
      yaxis2: {
        overlaying: "y",
        side: "right",
        tickmode: "auto",
        rangemode: "tozero",
        fixedrange: true,
        showgrid: false,
        title: { text: "s", font: { size: 11 } },
      },
    },
    summary: `${evaluations} splits tried; from ${quantity(seconds[0], "s")} to ${quantity(seconds.at(-1) ?? 0, "s")}.`,
    table: {
      columns: [
        { title: "generation" },
        ...names.map((name) => ({ title: shareWord(name), unit: "frac" })),
        { title: "time", unit: "s" },
      ],
      rows: places.map((at) => [at, ...shares[at], seconds[at]]),
    },
  };
}
