/** A step over time: lanes of A above those of B, and the memory of both below on the same axis. */
import { bytes, plural, scaleFor, seconds } from "../format.js";
import { about, layout, tokenOf, UNNAMED } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Named} Named */
/** @typedef {import("../types.js").Drawn} Drawn */
/** @typedef {{letter: string, predicted: boolean, drawn: Drawn, fits: boolean}} Run  one side, laid out */

/** Of a lane: at least, and at most where lanes have the whole card. */
const LANE_PX = 15;
const HIGHEST_PX = 60;
const PAIR_GAP_PX = 7;
const MOST_SEAMS = 60;
/** Of the longest step: blocks that are shorter on average have no seams, which would be all that is seen of them. */
const SEAM_FRAC = 0.006;
/** At least: with few lanes memory has what they leave, and a card keeps its height when its answer comes. */
const MEMORY_PX = 52;
export const HEIGHT_PX = 290;
/** The kind of a block that is a whole phase, in no category's hue: its name stands in it. */
const PHASE = "phase";
/** The kind of a block that stands for passes which are too many to be drawn; no hue is its own. */
const LEFT_OUT = { key: "left_out", label: "passes not drawn one by one", hue: "" };
const OF_LEFT_OUT = "line-strong";
/** Of the axis that a letter takes on a usual card. */
const LETTER_FRAC = 0.017;
/** Of lanes that both a prediction and a recording may have; others follow. */
const ORDER = ["host", "compute", "communication"];
/** Names of lanes that are too long for their place. @type {Record<string, string>} */
const SHORT = { communication: "comm." };

/**
 * A measurement without a trace: what it took by phase, one after another; where in a phase something ran, nobody knows.
 * @param {Record<string, number>} phases_s @param {Named[]} phases @param {number} step_s @returns {Drawn}
 */
export function phasesInOrder(phases_s, phases, step_s) {
  const used = phases.map(({ key }) => key).filter((name) => (phases_s[name] ?? 0) > 0);
  let now = 0;
  const starts = used.map((name) => {
    const start = now;
    now += phases_s[name];
    return start;
  });
  return {
    lanes: ["compute"],
    lane: used.map(() => 0),
    kind: used.map(() => PHASE),
    name: used.map((name) => phases.find(({ key }) => key === name)?.label ?? name),
    phase: used,
    start_s: starts,
    end_s: starts.map((start, at) => start + phases_s[used[at]]),
    total_s: step_s,
    memory: [],
    capacity_bytes: 0,
    folded: "",
  };
}

/** Stages of a pipeline, and blocks of all of them, that are drawn at most, as the server draws them. */
const MOST_STAGES = 8;
const MOST_BLOCKS = 1600;

/**
 * The place of a predicted step that is still to be laid out: its lanes, its length and its memory, without blocks.
 * @param {{pp: number, step_s: number, peak_bytes: number, sends: boolean}} side  `sends`: it communicates
 * @returns {Drawn}
 */
export function placeOf({ pp, step_s, peak_bytes, sends }) {
  const stages = Array.from({ length: Math.min(pp, MOST_STAGES) }, (_, at) => `stage ${stageShown(at, pp)}`);
  return {
    lanes: pp > 1 ? stages : ORDER.filter((lane) => sends || lane !== "communication"),
    lane: [],
    kind: [],
    name: [],
    phase: [],
    start_s: [],
    end_s: [],
    total_s: step_s,
    memory: peak_bytes ? [[0, peak_bytes]] : [],
    capacity_bytes: 0,
    folded: "",
  };
}

/** @param {number} at  of the drawn ones @param {number} pp */
const stageShown = (at, pp) => 1 + (pp <= MOST_STAGES ? at : Math.round((at * (pp - 1)) / (MOST_STAGES - 1)));

/**
 * What the blocks of a predicted step may be: of a pipeline passes, and what is between them; else its categories.
 * @param {{pp: number, schedule: string, rounds: number, breakdown_s: Record<string, number>}} side  `rounds`:
 *   micro-batches of all chunks that pass through a rank
 * @param {{passes: Named[], between_passes: string[]}} catalog
 */
export function kindsOf({ pp, schedule, rounds, breakdown_s }, { passes, between_passes }) {
  if (pp < 2) return Object.keys(breakdown_s).filter((key) => breakdown_s[key] > 0);
  // only what splits backward has the last of them
  const own = passes
    .filter(({ key }) => !between_passes.includes(key))
    .slice(0, schedule.startsWith("zero-bubble") ? undefined : 2)
    .map(({ key }) => key);
  // each has a wait before it at most
  const left = 2 * own.length * rounds > Math.floor(MOST_BLOCKS / Math.min(pp, MOST_STAGES));
  return [...own, ...(left ? [LEFT_OUT.key] : []), ...between_passes];
}

/**
 * @param {{runs: Run[], names: Named[], phases: Named[], passes?: Named[], expected?: string[], selected: string,
 *   colour: Colour, narrow: boolean}} input  `passes`: of a pipeline, whose blocks are a pass of a micro-batch each;
 *   `expected`: kinds that the key has whether or not a block is of them, so that it stays as it is when they come
 * @returns {import("../types.js").Figure & {key: [token: string, text: string][], unit: string, folded: string}}  `key`: what
 *   stands in no other figure; `folded`: what is drawn coarser than it runs
 */
export function timeline({ runs, names, phases, passes = [], expected = [], selected, colour, narrow }) {
  const longest = Math.max(...runs.map(({ drawn }) => drawn.total_s), 1e-12);
  const scale = scaleFor(longest, "s");
  const lanes = [...new Set([...ORDER, ...runs.flatMap(({ drawn }) => drawn.lanes)])];
  const rows = lanes.flatMap((lane) =>
    runs.filter(({ drawn }) => drawn.lanes.includes(lane)).map((run) => ({ lane, run })),
  );
  const memory = runs.some(({ drawn }) => drawn.memory.length);
  const between = PAIR_GAP_PX * (new Set(rows.map(({ lane }) => lane)).size - 1);
  const room = Math.floor((HEIGHT_PX - 46 - between) / Math.max(rows.length, 1)) - 1;
  const lane_px = memory ? LANE_PX : Math.max(LANE_PX, Math.min(HIGHEST_PX, room));
  /** @type {Map<Run, Map<string, number>>} */
  const places = new Map(runs.map((run) => [run, new Map()]));
  let top = 16;
  const ticks = rows.map(({ lane, run }, at) => {
    if (at && rows[at - 1].lane !== lane) top += PAIR_GAP_PX;
    places.get(run)?.set(lane, top);
    const middle = top + lane_px / 2;
    top += lane_px + 1;
    return { middle, text: `${rows[at - 1]?.lane === lane ? "" : `${SHORT[lane] ?? lane} `}<b>${run.letter}</b>` };
  });
  const laneEnd = top + 6;
  const height = Math.max(memory ? HEIGHT_PX : 0, laneEnd + (memory ? MEMORY_PX + 12 : 0) + 24);
  const y = (/** @type {number} */ px) => 1 - px / height;
  const known = new Map([...passes, LEFT_OUT, ...phases, ...names].map((one) => [one.key, one]));
  /** @type {Map<string, {x: (number | null)[], y: (number | null)[], length_s: number, kind: string, predicted: boolean, faint: boolean}>} */
  const shapes = new Map();
  for (const run of runs) {
    const { drawn } = run;
    const pieces = drawn.kind.map((category, at) => ({ category, phase: drawn.phase[at] }));
    const isAbout = about(selected, names, pieces);
    // a pass holds what no block of its own shows
    const parted = pieces.some(isAbout);
    const holds = (/** @type {string} */ kind) => !parted && !names.some(({ key }) => key === kind);
    drawn.start_s.forEach((start, at) => {
      const faint = !isAbout(pieces[at]) && !holds(drawn.kind[at]);
      const key = `${drawn.kind[at]} ${run.predicted} ${faint}`;
      const trace = shapes.get(key) ?? {
        x: [],
        y: [],
        length_s: 0,
        kind: drawn.kind[at],
        predicted: run.predicted,
        faint,
      };
      trace.length_s += drawn.end_s[at] - start;
      const low = places.get(run)?.get(drawn.lanes[drawn.lane[at]]) ?? 0;
      const [left, right] = [start / scale.factor, drawn.end_s[at] / scale.factor];
      trace.x.push(left, right, right, left, left, null);
      trace.y.push(low, low, low + lane_px, low + lane_px, low, null);
      shapes.set(key, trace);
    });
  }
  const tokenFor = (/** @type {string} */ kind) => {
    if (kind === LEFT_OUT.key) return OF_LEFT_OUT;
    const found = known.get(kind);
    return found ? tokenOf(found) : UNNAMED;
  };
  const blocks = [...shapes.values()].map(({ x, y: top_px, length_s, kind, predicted, faint }) => ({
    type: "scatter",
    // seams between many or short blocks would be all that is seen, and each is an element of its own to draw
    mode: x.length > 6 * MOST_SEAMS || length_s / (x.length / 6) < SEAM_FRAC * longest ? "none" : "lines",
    fill: "toself",
    x,
    y: top_px,
    xaxis: "x",
    yaxis: "y",
    name: known.get(kind)?.label ?? kind,
    hoveron: "fills",
    hoverinfo: "name",
    line: { width: kind === PHASE ? 2 : 0.6, color: colour("card") },
    opacity: (faint ? 0.22 : 1) * (predicted ? 0.85 : 1),
    fillcolor: colour(tokenFor(kind)),
    ...(kind === LEFT_OUT.key && { fillpattern: { shape: ".", size: 6, solidity: 0.25, fgcolor: colour("ink-2") } }),
  }));
  const named = runs.flatMap((run) =>
    run.drawn.start_s.flatMap((start, at) => {
      const [end, name] = [run.drawn.end_s[at], run.drawn.name[at]];
      if (run.drawn.kind[at] !== PHASE || (end - start) / longest < LETTER_FRAC * name.length) return [];
      const top_px = places.get(run)?.get(run.drawn.lanes[run.drawn.lane[at]]) ?? 0;
      return [{ x: (start + end) / 2 / scale.factor, y: top_px + lane_px / 2, name }];
    }),
  );
  const words = {
    type: "scatter",
    mode: "text",
    x: named.map(({ x }) => x),
    y: named.map(({ y: middle }) => middle),
    text: named.map(({ name }) => name),
    textfont: { size: 11, color: colour("ink") },
    xaxis: "x",
    yaxis: "y",
    hoverinfo: "skip",
  };
  const largest = Math.max(...runs.flatMap(({ drawn }) => drawn.memory.map(([, held]) => held)), 0);
  const held = scaleFor(largest, "bytes");
  const capacity = Math.min(...runs.map(({ drawn }) => drawn.capacity_bytes || Infinity));
  const curves = runs
    .filter(({ drawn }) => drawn.memory.length)
    .map(({ letter, drawn, fits }) => ({
      type: "scatter",
      mode: "lines",
      x: drawn.memory.map(([at]) => at / scale.factor),
      y: drawn.memory.map(([, value]) => value / held.factor),
      xaxis: "x",
      yaxis: "y2",
      name: letter,
      customdata: drawn.memory.map(([, value]) => bytes(value)),
      hovertemplate: `${letter}: %{customdata}<extra></extra>`,
      line: { width: 1.6, color: colour(fits ? "ink-2" : "bad"), dash: letter === "A" ? "dot" : "solid" },
      fill: letter === (runs.length > 1 ? "B" : "A") ? "tozeroy" : "none",
      fillcolor: `${colour("ink-3")}22`,
    }));
  const near = largest > 0.7 * capacity;
  const drawn = new Set([...expected, ...[...shapes.values()].map(({ kind }) => kind)]);
  const kinds = [...known.keys()].filter((key) => drawn.has(key));
  const legend = kinds.map(
    (kind) => /** @type {[string, string]} */ ([tokenFor(kind), known.get(kind)?.label ?? kind]),
  );
  const folded = [...new Set(runs.map(({ drawn }) => drawn.folded).filter(Boolean))].join("; ");
  return {
    data: [...blocks, ...(named.length ? [words] : []), ...curves],
    layout: layout(colour, {
      height,
      margin: { l: 74, r: 10, t: 0, b: 0 },
      dragmode: narrow ? false : "zoom",
      hovermode: "closest",
      uirevision: `${runs.length} ${longest}`,
      xaxis: {
        range: [0, (longest / scale.factor) * 1.01],
        fixedrange: false,
        anchor: memory ? "y2" : "y",
        ticksuffix: "",
        nticks: narrow ? 4 : 7,
      },
      yaxis: {
        range: [laneEnd, 0],
        domain: [y(laneEnd), 1],
        tickvals: ticks.map(({ middle }) => middle),
        ticktext: ticks.map(({ text }) => text),
        showgrid: false,
        ticklen: 0,
      },
      ...(memory && {
        yaxis2: {
          range: [0, ((near ? Math.max(capacity, largest) : largest) / held.factor) * 1.08],
          domain: [y(height - 24), y(laneEnd + 12)],
          title: { text: held.unit, font: { size: 11 }, standoff: 4 },
          nticks: 4,
          gridcolor: colour("line"),
          zeroline: false,
          fixedrange: true,
          tickfont: { size: 11 },
        },
      }),
      shapes: runs
        .map(({ letter, drawn }) => ({
          type: "line",
          xref: "x",
          yref: "paper",
          x0: drawn.total_s / scale.factor,
          x1: drawn.total_s / scale.factor,
          y0: y(height - 24),
          y1: 1,
          line: { color: colour("ink"), width: 1, dash: letter === "A" ? "dot" : "solid" },
        }))
        .concat(
          near && memory
            ? [
                /** @type {any} */ ({
                  type: "line",
                  xref: "paper",
                  yref: "y2",
                  x0: 0,
                  x1: 1,
                  y0: capacity / held.factor,
                  y1: capacity / held.factor,
                  line: { color: colour("bad"), width: 1.2, dash: "dash" },
                }),
              ]
            : [],
        ),
      annotations:
        near && memory
          ? [
              {
                xref: "paper",
                yref: "y2",
                x: 1,
                y: capacity / held.factor,
                xanchor: "right",
                yanchor: "bottom",
                text: bytes(capacity),
                showarrow: false,
                font: { size: 11, color: colour("bad") },
              },
            ]
          : [],
    }),
    legend,
    key: kinds.some((kind) => passes.some(({ key }) => key === kind)) ? legend : [],
    unit: scale.unit,
    folded,
    said: [scale.unit, folded].filter(Boolean).join("; "),
    summary: runs
      .filter(({ drawn: { lane } }) => lane.length)
      .map(({ letter, drawn }) => {
        const peak = Math.max(0, ...drawn.memory.map(([, value]) => value));
        return `${letter}: ${plural(drawn.lane.length, "piece")} in ${plural(drawn.lanes.length, "lane")}, ${seconds(drawn.total_s)}${peak ? `, ${bytes(peak)} at most` : ""}`;
      })
      .join(". "),
    table: {
      columns: [
        { title: "side", text: true },
        { title: "lane", text: true },
        { title: "what", text: true },
        { title: "kind", text: true },
        { title: "start", unit: "s" },
        { title: "end", unit: "s" },
      ],
      rows: runs.flatMap(({ letter, drawn }) =>
        drawn.start_s.map((start, at) => [
          letter,
          drawn.lanes[drawn.lane[at]],
          drawn.name[at],
          drawn.kind[at],
          start,
          drawn.end_s[at],
        ]),
      ),
    },
  };
}

/** The same as a Chrome trace, which Perfetto opens: a process for each side, a thread for each lane. @param {Run[]} runs */
export function chromeTrace(runs) {
  const us = 1e6;
  return {
    displayTimeUnit: "ms",
    traceEvents: runs.flatMap(({ letter, predicted, drawn }, pid) => [
      { ph: "M", name: "process_name", pid, args: { name: `${letter}, ${predicted ? "predicted" : "measured"}` } },
      ...drawn.lanes.map((name, tid) => ({ ph: "M", name: "thread_name", pid, tid, args: { name } })),
      ...drawn.start_s.map((start, at) => ({
        ph: "X",
        name: drawn.name[at],
        cat: drawn.kind[at],
        pid,
        tid: drawn.lane[at],
        ts: start * us,
        dur: (drawn.end_s[at] - start) * us,
        args: { phase: drawn.phase[at] },
      })),
      ...drawn.memory.map(([at, held]) => ({ ph: "C", name: "memory", pid, ts: at * us, args: { bytes: held } })),
    ]),
  };
}
