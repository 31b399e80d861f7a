/** What is drawn under a number of the strip: the interval of A as a band, that of B as a line, both values. */
import { put } from "../common/dom.js";

/** @typedef {import("../../sides.js").Side} Side */
/** @typedef {[number, number] | null} Range */

const SPACE = "http://www.w3.org/2000/svg";
export const WIDE = 140;

/** @param {string} tag @param {Record<string, any>} attributes */
export function svg(tag, attributes) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** Between two strokes of the hatching, and how far one leans. */
const HATCH = 4;
const LEAN = 2.5;

/**
 * What is predicted is hatched, what is measured solid, as everywhere. @param {number} from @param {number} to
 * @param {boolean} predicted
 */
export function stretch(from, to, predicted) {
  const wide = Math.max(1, to - from);
  const whole = svg("rect", { x: from, width: wide, y: 3.5, height: 5, class: `interval${predicted ? " pale" : ""}` });
  if (!predicted) return [whole];
  let strokes = "";
  for (let x = from + 1; x + LEAN <= from + wide; x += HATCH) strokes += `M${x},8.5l${LEAN},-5`;
  return [whole, svg("path", { d: strokes, class: "hatching" })];
}

/**
 * The interval of A as a band, that of B as a line under it, A a tick, B a diamond.
 * @param {{low: HTMLElement, high: HTMLElement, band: Element}} tile @param {(number | null)[]} values @param {Range[]} ranges @param {(Side | null)[]} sides
 * @param {(value: number) => string} write
 */
export function drawBand(tile, values, ranges, sides, write) {
  const all = [...values, ...ranges.flat()].filter((value) => typeof value === "number");
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const drawn = all.length > 1 && most > least;
  put(tile.low, drawn ? write(least) : "");
  put(tile.high, drawn ? write(most) : "");
  if (!drawn) return tile.band.replaceChildren();
  const x = (/** @type {number} */ value) => 5 + ((value - least) / (most - least)) * (WIDE - 10);
  const [first, second] = ranges;
  const band = first ?? second;
  /** @type {Element[]} */
  const marks = [svg("line", { x1: 0, x2: WIDE, y1: 6, y2: 6, class: "rail" })];
  if (band) marks.push(...stretch(x(band[0]), x(band[1]), Boolean(sides[first ? 0 : 1]?.predicted)));
  if (first && second)
    marks.push(
      svg("line", { x1: x(second[0]), x2: Math.max(x(second[0]) + 1, x(second[1])), y1: 11, y2: 11, class: "spread" }),
    );
  if (values[0] !== null) marks.push(svg("line", { x1: x(values[0]), x2: x(values[0]), y1: 1, y2: 11, class: "tick" }));
  if (values[1] !== null) {
    const at = x(values[1]);
    const hollow = sides[1]?.predicted ? " hollow" : "";
    marks.push(svg("path", { d: `M${at - 5},6L${at},1L${at + 5},6L${at},11Z`, class: `diamond${hollow}` }));
  }
  return tile.band.replaceChildren(...marks);
}
