/** What all figures share: layout, hatching, escaping, tokens. Pure: data and colours in, plain objects out. */

import { short } from "../format.js";

/** @typedef {import("../types.js").Colour} Colour */

/** @typedef {import("../types.js").Named} Named */

/** What the catalogue has no name for. */
export const UNNAMED = "hue-grey";
/** Tokens of series that are told apart by their place alone. */
export const SERIES = [
  "hue-blue",
  "hue-orange",
  "hue-violet",
  "hue-rose",
  "hue-teal",
  "hue-ochre",
  "hue-slate",
  UNNAMED,
];

/** The token of one of the catalogue's names. @param {Named} name */
export const tokenOf = ({ hue }) => `hue-${hue}`;
/** The token of one of `names`, by its key. @param {Named[]} names @param {string} key */
export function tokenOfKey(names, key) {
  const found = names.find((one) => one.key === key);
  return found ? tokenOf(found) : UNNAMED;
}

/** The category that a selected cause is of; "" where it is of none. @param {string} selected @param {Named[]} categories */
export const categoryIn = (selected, categories) =>
  categories.find(({ key }) => key === selected.split(" ")[0])?.key ?? "";

/**
 * What of `all` a selected cause is about: its category, else its phase; everything where nothing is selected, and where
 * nothing tells.
 * @param {string} selected  as `causeKey` has it @param {Named[]} categories
 * @param {{category: string, phase?: string}[]} all
 * @returns {(one: {category: string, phase?: string}) => boolean}
 */
export function about(selected, categories, all) {
  const wanted = selected.split(" ")[0];
  if (categoryIn(selected, categories)) return ({ category }) => category === wanted;
  if (wanted && all.some(({ phase }) => phase === wanted)) return ({ phase }) => phase === wanted;
  return () => true;
}

/** @param {string} name */
export const words = (name) => name.replaceAll("_", " ");

/** Plotly reads tags in text; names of kernels hold < and >. @param {any} text */
export const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Where a long name may go on in the next line. */
const BREAKS = /(?<=[\s,;:_<(>/-])/;
/**
 * Free text in a hover: escaped, in lines that a narrow page has room for.
 * @param {any} text @param {number} [most]  letters of a line
 */
export function hoverText(text, most = HOVER_LETTERS) {
  /** @type {string[]} */
  const lines = [];
  for (const part of String(text).split(BREAKS)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + part.trimEnd().length <= most) lines[lines.length - 1] = last + part;
    else for (let at = 0; at < Math.max(part.length, 1); at += most) lines.push(part.slice(at, at + most));
  }
  return lines.map(escaped).join("<br>");
}
/** About 290 px at the size of a hover. */
const HOVER_LETTERS = 44;

/**
 * Predicted is hatched, measured is solid.
 * @param {string | string[]} fill
 * @param {Colour} colour
 * @param {boolean | boolean[]} predicted
 */
export function barMarker(fill, colour, predicted) {
  const shape = Array.isArray(predicted) ? predicted.map((yes) => (yes ? "/" : "")) : predicted ? "/" : "";
  return {
    color: fill,
    // a gap between what touches, which needs no colour
    line: { width: 1.5, color: colour("card") },
    // broad strokes of the hue: "overlay" takes its strokes' colour from one fill alone
    pattern: { shape, fillmode: "replace", bgcolor: colour("card"), size: 6, solidity: 0.72 },
  };
}

/** A colour through which one sees. @param {string} hex @param {number} frac  of it that remains */
export const faded = (hex, frac) =>
  /^#[0-9a-f]{6}$/i.test(hex) && frac < 1
    ? `${hex}${Math.round(255 * frac)
        .toString(16)
        .padStart(2, "0")}`
    : hex;

/** A colour between two. @param {string} from  as #rrggbb @param {string} to @param {number} frac  of the way */
export function between(from, to, frac) {
  const parts = [1, 3, 5].map((at) => {
    const [start, end] = [from, to].map((hex) => parseInt(hex.slice(at, at + 2), 16));
    return Math.round(start + frac * (end - start))
      .toString(16)
      .padStart(2, "0");
  });
  return `#${parts.join("")}`;
}

/** Relative luminance of a colour (WCAG 2.2). @param {string} hex  as #rrggbb */
function luminance(hex) {
  const [red, green, blue] = [1, 3, 5]
    .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Black or white, whichever is read better on a colour: at least 4.58 to 1 on any. @param {string} hex  as #rrggbb */
export const legibleOn = (hex) => ((luminance(hex) + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff");

/** A dashed line across a figure, at one height. @param {number} y @param {string} color @param {number} [width] in pixels */
export const level = (y, color, width = 1.5) => ({
  type: "line",
  xref: "paper",
  x0: 0,
  x1: 1,
  y0: y,
  y1: y,
  line: { color, width, dash: "dash" },
});

/** @param {Colour} colour @param {Record<string, any>} parts */
export function layout(colour, parts) {
  const axis = {
    gridcolor: colour("line"),
    zeroline: false,
    linecolor: colour("line-strong"),
    tickfont: { size: 11.5 },
    fixedrange: true,
  };
  const own = (/** @type {Record<string, any>} */ given = {}) => ({
    ...axis,
    ...given,
    ...(given.title && { title: { font: { size: 11 }, standoff: 6, ...given.title } }),
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    font: { family: colour("font"), size: 12, color: colour("ink-2") },
    // a figure that takes another's place with other axes begins with ranges of its own
    uirevision: [parts.xaxis, parts.yaxis].map((axis) => `${axis?.type} ${Boolean(axis?.range)}`).join(),
    separators: ". ",
    hoverlabel: {
      bgcolor: colour("card"),
      bordercolor: colour("line-strong"),
      font: { family: colour("font"), size: 12, color: colour("ink") },
      align: "left",
    },
    ...parts,
    xaxis: own(parts.xaxis),
    yaxis: own(parts.yaxis),
  };
}

const MOST_POWERS = 12;
/** From here on a power of ten says more than a short number does. */
const HUGE = 1e15;
/** @param {number} value */
const asPower = (value) => `10<sup>${Math.round(Math.log10(value))}</sup>`;
/** @param {number} value */
const plain = (value) =>
  value < 1e4 ? String(Number(value.toPrecision(3))) : value < HUGE ? short(value).replace(" ", "") : asPower(value);

/**
 * Ticks of a logarithmic axis, written in full: the fewer decades, the more of each.
 * @param {number[]} values @param {boolean} [narrow]  an axis along a narrow page
 * @param {(value: number) => string} [text]  how one is written
 */
export function logTicks(values, narrow = false, text = plain) {
  const positive = values.filter((value) => value > 0);
  const [least, most] = positive.length ? [Math.min(...positive), Math.max(...positive)] : [1, 10];
  const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const span = most / least;
  const many = narrow && span > 3 ? [1, 1.5, 2, 3, 5, 7] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  const few = span > 1000 ? [1] : span > 100 ? [1, 3] : span > 8 ? [1, 2, 5] : many;
  const step = Math.ceil((high - low) / MOST_POWERS) || 1;
  const powers = Array.from({ length: Math.ceil((high - low) / step) + 1 }, (_, at) => low + at * step);
  const tickvals = powers.flatMap((power) => few.map((digit) => digit * 10 ** power));
  return { tickvals, ticktext: tickvals.map(text) };
}

/** A power of two as lengths are written along an axis: 16k are 16 384. @param {number} value */
export const doubled = (value) => (value >= 1024 ? `${Number((value / 1024).toPrecision(4))}k` : String(value));

/** A round upper end for an axis, so that small changes do not move the scale. @param {number} largest */
export function roundUp(largest) {
  if (!(largest > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(largest));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((times) => times * step).find((end) => end >= largest) ?? largest;
}
