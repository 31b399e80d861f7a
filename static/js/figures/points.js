/** Points of the roofline: work with its FLOPs, bytes and seconds, held against the roofs. */

/**
 * @typedef {{name: string, category: string, phase?: string, flops: number, bytes: number, seconds: number, count: number,
 *   precision: string}} Work
 */
/** @typedef {Work & {intensity: number, flops_per_s: number, roof_frac: number, share_frac: number}} Point */

/** @typedef {import("../types.js").Estimate["roofs"]} Roofs */
/** What a side is held against, at the precision of its scenario. `letter`: "" where both sides have the same.
 * @typedef {{letter: string, roofs: Roofs, precision: string}} Roofed */

const MOST_POINTS = 200;

/** Ops of the same name and phase are one point. @param {import("../types.js").Op[]} ops @returns {Work[]} */
export function worksOf(ops) {
  /** @type {Map<string, Work>} */
  const found = new Map();
  for (const op of ops) {
    const name = `${op.name}, ${op.phase}`;
    const work = found.get(name) ?? {
      name,
      category: op.category,
      phase: op.phase,
      flops: 0,
      bytes: 0,
      seconds: 0,
      count: 0,
      precision: op.precision,
    };
    work.flops += op.flops;
    work.bytes += op.bytes;
    work.seconds += op.seconds;
    work.count += op.count;
    found.set(name, work);
  }
  return [...found.values()];
}

/** @param {import("../types.js").Kernel[]} kernels @returns {Work[]} */
export const worksOfKernels = (kernels) =>
  kernels.map(({ name, category, count, total_s, flops, bytes }) => ({
    name,
    category,
    count,
    seconds: total_s,
    flops: flops ?? 0,
    bytes: bytes ?? 0,
    precision: "",
  }));

/**
 * The same work by the bytes that pass a cache: of products their tiles' reloads, of everything else what passes memory.
 * What was measured says only what passed memory, and is left out.
 * @param {Work[]} works @param {import("./hierarchy.js").Row[]} rows @param {string} level
 */
export function worksAt(works, rows, level) {
  const found = new Map(
    rows.map(({ name, phase, count, levels }) => [
      `${name}, ${phase}`,
      { count, bytes: levels.find((one) => one.name === level)?.bytes ?? 0 },
    ]),
  );
  return works.map((work) => {
    const own = found.get(work.name);
    return own?.bytes ? { ...work, bytes: own.bytes * own.count } : work;
  });
}

/** Autocast multiplies with the same unit. @param {string} precision */
export const unitOf = (precision) => precision.replace("-amp", "");

/**
 * Points with both FLOPs and bytes; the largest shares first, so that small circles lie on top. Work that does not say
 * its precision is held against the roof of the scenario's.
 * @param {Work[]} works @param {Roofs} roofs @param {number} step_s
 * @param {string} precision @returns {Point[]}
 */
export function pointsOf(works, roofs, step_s, precision) {
  const peaks = Object.fromEntries(Object.entries(roofs.flops_per_s).map(([name, peak]) => [unitOf(name), peak]));
  const own = peaks[unitOf(precision)] || Math.max(...Object.values(peaks));
  return works
    .filter(({ flops, bytes, seconds }) => flops > 0 && bytes > 0 && seconds > 0)
    .map((work) => {
      const intensity = work.flops / work.bytes;
      const flops_per_s = work.flops / work.seconds;
      const roof = Math.min(peaks[unitOf(work.precision)] || own, intensity * roofs.memory_bytes_per_s);
      return { ...work, intensity, flops_per_s, roof_frac: flops_per_s / roof, share_frac: work.seconds / step_s };
    })
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, MOST_POINTS);
}

/** @param {Roofed} one @returns {string} */
const written = ({ roofs, precision }) =>
  JSON.stringify([unitOf(precision), roofs.memory_bytes_per_s, Object.entries(roofs.flops_per_s).sort()]);

/** Roofs of each side, or once where both have the same. @param {Roofed[]} sides @returns {Roofed[]} */
export function roofsApart(sides) {
  const [first, ...others] = sides;
  const alike = others.every((one) => written(one) === written(first));
  return alike && first ? [{ ...first, letter: "" }] : sides;
}

/** The peak that is the precision's own, else the highest. @param {Roofed} roofed */
function ownPeak({ roofs, precision }) {
  const peaks = Object.entries(roofs.flops_per_s).filter(([, peak]) => peak > 0);
  return peaks.find(([name]) => unitOf(name) === unitOf(precision))?.[1] ?? Math.max(...peaks.map(([, peak]) => peak));
}

/**
 * The range that shows the points and the roofs that are theirs; without points, the ridges.
 * @param {Point[]} points @param {Roofed[]} roofed
 */
export function boundsOf(points, roofed) {
  const own = roofed.map(ownPeak);
  const ridges = roofed.map(({ roofs }, at) => own[at] / roofs.memory_bytes_per_s);
  const x = points.length
    ? points.map(({ intensity }) => intensity)
    : ridges.flatMap((ridge) => [ridge / 100, ridge * 4]);
  const y = [...points.map(({ flops_per_s }) => flops_per_s), ...own].map((value) => value / 1e12);
  const tenth = (/** @type {number} */ value) => Math.round(10 * value) / 10;
  return {
    x: [tenth(Math.log10(Math.min(...x)) - 0.25), tenth(Math.log10(Math.max(...x)) + 0.3)],
    y: [tenth(Math.log10(Math.min(...y)) - 0.45), tenth(Math.log10(Math.max(...y)) + 0.25)],
  };
}
