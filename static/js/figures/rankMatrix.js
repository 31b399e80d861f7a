/** Who sends to whom: bytes of a step from rank to rank, by the axis whose collective moves them. */
import { bytes, plural } from "../format.js";
import { escaped, layout, SERIES } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Collective} Collective */
/** @typedef {import("../types.js").Part} Part */
/** @typedef {{from: number, to: number, axis: string, bytes: number, near: boolean}} Flow */

const MOST_RANKS = 64;
const MOST_TICKS = 8;
const HEIGHT_PX = 340;

/** Where every rank stands on each axis, ranks counted as the placement fills nodes. @param {Part} plan */
export function places({ tp, cp = 1, dp, pp, placement = "tp-cp-dp-pp" }) {
  /** @type {Record<string, number>} */
  const sizes = { tp, cp, dp, pp };
  const order = String(placement).split("-");
  return Array.from({ length: tp * cp * dp * pp }, (_, rank) => {
    /** @type {Record<string, number>} */
    const at = { rank };
    let rest = rank;
    for (const axis of order) {
      at[axis] = rest % sizes[axis];
      rest = Math.floor(rest / sizes[axis]);
    }
    // among the ranks of a stage, over which experts are laid
    let within = 0;
    for (const axis of order.filter((one) => one !== "pp").reverse()) within = within * sizes[axis] + at[axis];
    at.within = within;
    return at;
  });
}

/**
 * What the ranks that meet over an axis have alike.
 * @type {Record<string, (at: Record<string, number>, expert_tp: number, ep: number) => number[]>}
 */
const ALIKE = {
  tp: (at) => [at.cp, at.dp, at.pp],
  cp: (at) => [at.tp, at.dp, at.pp],
  dp: (at) => [at.tp, at.pp],
  pp: (at) => [at.tp, at.cp, at.dp],
  expert_tp: (at, expert_tp) => [at.pp, Math.floor(at.within / expert_tp)],
  ep: (at, expert_tp, ep) => [at.pp, at.within % expert_tp, Math.floor(at.within / (expert_tp * ep))],
  edp: (at, expert_tp, ep) => [at.pp, at.within % (expert_tp * ep)],
};
/** What an op list calls an axis, which says no more than how many ranks meet. */
const OF_RANKS = /^\d+ ranks$/;
/** @param {string} axis */
export const isOfRanks = (axis) => OF_RANKS.test(axis);

/**
 * Whether it is known which ranks meet in a collective: those of an axis of the plan, or all that there are.
 * @param {Pick<Collective, "axis" | "ranks">} collective @param {number} chips
 */
export const isPlaced = ({ axis, ranks }, chips) => axis in ALIKE || (isOfRanks(axis) && ranks === chips);

/** The plan, or one of as many data parallel ranks where it is not of these chips. @param {Part} plan @param {number} chips @returns {Part} */
export const planOf = (plan, chips) =>
  plan.tp * (plan.cp ?? 1) * plan.dp * plan.pp === chips ? plan : { tp: 1, cp: 1, dp: chips, pp: 1 };

/**
 * Ranks that communicate with each other over an axis, in the order of their ring.
 * @param {Record<string, number>[]} all @param {string} axis @param {number} ranks @param {Part} plan
 */
function groupsOf(all, axis, ranks, { ep = 1, expert_tp = 1 }) {
  const key = ALIKE[axis];
  if (!key) return isPlaced({ axis, ranks }, all.length) ? [all.map(({ rank }) => rank)] : [];
  /** @type {Map<string, number[]>} */
  const found = new Map();
  for (const at of all) {
    const name = key(at, expert_tp, ep).join();
    found.set(name, [...(found.get(name) ?? []), at.rank]);
  }
  // hybrid sharding and replicas are parts of an axis
  return [...found.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / ranks) }, (_, at) => group.slice(at * ranks, (at + 1) * ranks)),
  );
}

/** Shares of its bytes that a rank sends to each next one of a ring of r. @type {Record<string, (r: number) => number>} */
const RING = {
  "all-reduce": (r) => (2 * (r - 1)) / r,
  "all-gather": (r) => (r - 1) / r,
  "reduce-scatter": (r) => (r - 1) / r,
  p2p: () => 1,
};

/**
 * Bytes of one step between ranks: rings send to the next rank of their group, all-to-all to every other, stages to the
 * next stage and back.
 * @param {Collective[]} collectives @param {Part} plan @param {number} per_node @returns {Flow[]}
 */
function flows(collectives, plan, per_node) {
  const all = places(plan);
  /** @type {Map<string, Flow>} */
  const found = new Map();
  const add = (
    /** @type {number} */ from,
    /** @type {number} */ to,
    /** @type {string} */ axis,
    /** @type {number} */ sent,
  ) => {
    if (from === to || !sent) return;
    const key = `${from} ${to} ${axis}`;
    const near = Math.floor(from / per_node) === Math.floor(to / per_node);
    const flow = found.get(key) ?? { from, to, axis, bytes: 0, near };
    flow.bytes += sent;
    found.set(key, flow);
  };
  for (const { kind, axis, ranks, bytes: each, count } of collectives) {
    if (kind === "copy" || ranks < 2) continue;
    for (const group of groupsOf(all, axis, ranks, plan)) {
      const r = group.length;
      group.forEach((rank, at) => {
        if (kind === "all-to-all") for (const other of group) add(rank, other, axis, (each * count) / r);
        else if (axis === "pp") {
          // activations go on, their gradients come back: half of the messages each
          if (at + 1 < r) add(rank, group[at + 1], axis, (each * count) / 2);
          if (at > 0) add(rank, group[at - 1], axis, (each * count) / 2);
        } else add(rank, group[(at + 1) % r], axis, each * count * (RING[kind] ?? RING.p2p)(r));
      });
    }
  }
  return [...found.values()];
}

/**
 * @param {{collectives: Collective[], plan: Part, per_node: number, axes: {key: string, label: string}[], colour: Colour,
 *   narrow: boolean}} input
 * @returns {import("../types.js").Figure}
 */
export function rankMatrix({ collectives, plan, per_node, axes, colour, narrow }) {
  const every = flows(collectives, plan, per_node);
  const total = plan.tp * (plan.cp ?? 1) * plan.dp * plan.pp;
  const side = Math.min(total, MOST_RANKS);
  const shown = every.filter(({ from, to }) => from < side && to < side);
  const largest = Math.max(...shown.map((flow) => flow.bytes), 1);
  const names = [...new Set(shown.map(({ axis }) => axis))];
  const cell = Math.max(3, Math.min(18, ((narrow ? 240 : 270) / side) * 0.92));
  const token = (/** @type {string} */ axis) =>
    SERIES[
      Math.max(
        0,
        axes.findIndex(({ key }) => key === axis),
      ) % SERIES.length
    ];
  const step = Math.max(1, 2 ** Math.ceil(Math.log2(side / MOST_TICKS)));
  const ranks = Array.from({ length: Math.ceil(side / step) }, (_, at) => at * step);
  const nodes = Array.from({ length: Math.floor((side - 1) / per_node) }, (_, at) => (at + 1) * per_node - 0.5);
  const sent = (/** @type {(flow: Flow) => boolean} */ which) =>
    every.filter(which).reduce((sum, flow) => sum + flow.bytes, 0) / total;
  return {
    data: names.map((axis) => {
      const own = shown.filter((flow) => flow.axis === axis);
      return {
        type: "scatter",
        mode: "markers",
        name: axis,
        x: own.map(({ to }) => to),
        y: own.map(({ from }) => from),
        customdata: own.map(({ from, to, bytes: moved, near }) =>
          escaped(`rank ${from} → ${to}, ${axis}: ${bytes(moved)} a step, ${near ? "inside a node" : "between nodes"}`),
        ),
        hovertemplate: "%{customdata}<extra></extra>",
        marker: {
          symbol: own.map(({ near }) => (near ? "square" : "diamond")),
          size: own.map((flow) => Math.max(3, cell * Math.sqrt(flow.bytes / largest))),
          color: colour(token(axis)),
          line: { width: 0 },
        },
      };
    }),
    layout: layout(colour, {
      height: HEIGHT_PX,
      margin: { l: 48, r: 12, t: 6, b: 40 },
      xaxis: {
        range: [-0.5, side - 0.5],
        title: { text: "to rank" },
        tickvals: ranks,
        showgrid: false,
        constrain: "domain",
      },
      yaxis: {
        range: [side - 0.5, -0.5],
        title: { text: "from rank" },
        tickvals: ranks,
        showgrid: false,
        scaleanchor: "x",
        constrain: "domain",
      },
      shapes: nodes.flatMap((at) =>
        [
          { x0: at, x1: at, y0: -0.5, y1: side - 0.5 },
          { x0: -0.5, x1: side - 0.5, y0: at, y1: at },
        ].map((line) => ({ type: "line", ...line, line: { color: colour("line-strong"), width: 1 } })),
      ),
    }),
    legend: names.map((axis) => [token(axis), axes.find(({ key }) => key === axis)?.label ?? axis]),
    said: [
      `a rank sends ${bytes(sent(({ near }) => near))} a step inside its node, ${bytes(sent(({ near }) => !near))} between nodes (diamonds)`,
      side < total ? `the first ${side} of ${plural(total, "rank")}` : "",
    ]
      .filter(Boolean)
      .join("; "),
    summary: `Matrix of ${plural(shown.length, "pair")} of ranks that send to one another.`,
    table: {
      columns: [
        { title: "from" },
        { title: "to" },
        { title: "axis", text: true },
        { title: "sent", unit: "bytes" },
        { title: "where", text: true },
      ],
      rows: every.map(({ from, to, axis, bytes: moved, near }) => [
        from,
        to,
        axis,
        moved,
        near ? "inside a node" : "between nodes",
      ]),
    },
  };
}
