/** A figure on its own, as a picture for a report: title, what it is of, the drawing, and what its colours stand for. */
import { describe } from "../../scenario.js";
import { count } from "../../format.js";
import { beside, isTraced } from "../../measured.js";
import { state } from "../../state.js";
import { colour } from "./dom.js";

/** @typedef {import("../../types.js").Figure} Figure */
/** @typedef {[token: string, text: string, title?: string][]} Names */

const SCALE = 2;
const LEAST_PX = 480;
const EDGE_PX = 16;
const SWATCH_PX = 10;
const TITLE = { size: 16, weight: 600, token: "ink", line: 24 };
const TEXT = { size: 12, weight: 400, token: "ink-2", line: 18 };

/** What the figures of a view are of, in one line. */
export function aboutFigures() {
  const { view, catalog, study, studies } = state;
  if (view === "studies") return studies?.find(({ name }) => name === study)?.title ?? study ?? "";
  const scenario = (view === "explore" && state.estimated) || state.scenario;
  const { pair } = state;
  if (view === "explore" && pair?.a && pair.b)
    return [pair.a, pair.b]
      .map(({ letter, kind, name, extra }) => [`${letter}: ${kind}`, name, extra].filter(Boolean).join(" "))
      .join(" · ");
  const { global_batch, seq_len, precision } = scenario.training;
  const run = view === "explore" && beside(state, scenario);
  return [
    describe(scenario, catalog),
    `${count(global_batch)} sequences of ${count(seq_len)} tokens`,
    precision,
    run && run.label && `${isTraced(run) ? "traced" : "measured"}: ${run.label}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

/**
 * Titles for axes whose unit the page says elsewhere, with room for them.
 * @param {Figure} figure @param {number} height  of the drawing; resizing takes the layout's own away
 */
export function onPaper({ layout, axes = {}, onPaper: own }, height) {
  if (own) {
    const annotations = [...(layout.annotations ?? []), ...own.annotations];
    return { ...layout, height, margin: own.margin, annotations };
  }
  const { margin } = layout;
  const titled = (/** @type {any} */ axis, /** @type {string | undefined} */ text) =>
    text && !axis?.title ? { ...axis, title: { text, font: { size: 11 }, standoff: 6 } } : axis;
  return {
    ...layout,
    xaxis: titled(layout.xaxis, axes.x),
    yaxis: titled(layout.yaxis, axes.y),
    height: height + (axes.x ? 18 : 0),
    margin: { ...margin, b: margin.b + (axes.x ? 18 : 0), l: margin.l + (axes.y ? 18 : 0) },
  };
}

/** Break a text into lines that fit. @param {CanvasRenderingContext2D} on @param {string} text @param {number} width */
function lines(on, text, width) {
  /** @type {string[]} */
  const found = [];
  for (const word of text.split(" ").filter(Boolean)) {
    const longer = found.length ? `${found[found.length - 1]} ${word}` : word;
    if (found.length && on.measureText(longer).width <= width) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}

/**
 * Names in rows, each where it fits.
 * @param {CanvasRenderingContext2D} on @param {Names} names @param {number} width
 */
function placed(on, names, width) {
  let [x, row] = [0, 0];
  return names.map(([token, text]) => {
    const wide = SWATCH_PX + 6 + on.measureText(text).width;
    if (x && x + wide > width) [x, row] = [0, row + 1];
    const place = { token, text, x, row };
    x += wide + EDGE_PX;
    return place;
  });
}

/**
 * @typedef {{figure: Figure, title: string, said: string[], names: Names, width: number, height: number}} Parts  `width`
 *   and `height`: of the drawing on the page
 */

const font = (/** @type {typeof TITLE} */ { size, weight }) => `${weight} ${size}px ${colour("font")}`;

/** Where everything stands. @param {CanvasRenderingContext2D} on  by which texts are measured @param {Parts} parts */
function arranged(on, { figure, title, said, names, width, height }) {
  const wide = Math.max(LEAST_PX, width);
  const layout = { ...onPaper(figure, height), width: wide };
  on.font = font(TEXT);
  const texts = said.flatMap((text) => lines(on, text, wide));
  const legend = placed(on, names, wide);
  const rows = legend.length ? legend[legend.length - 1].row + 1 : 0;
  const head = EDGE_PX + TITLE.line + texts.length * TEXT.line + 6;
  const foot = head + layout.height + 8;
  return {
    layout,
    head,
    wide: wide + 2 * EDGE_PX,
    high: head + layout.height + (rows ? 8 + rows * TEXT.line : 0) + EDGE_PX,
    writings: [
      { style: TITLE, text: title, x: EDGE_PX, y: EDGE_PX },
      ...texts.map((text, at) => ({ style: TEXT, text, x: EDGE_PX, y: EDGE_PX + TITLE.line + at * TEXT.line })),
      ...legend.map(({ text, x, row }) => ({
        style: TEXT,
        text,
        x: EDGE_PX + x + SWATCH_PX + 6,
        y: foot + row * TEXT.line,
      })),
    ],
    swatches: legend.map(({ token, x, row }) => ({
      token,
      x: EDGE_PX + x,
      y: foot + row * TEXT.line + (TEXT.line - SWATCH_PX) / 2,
    })),
  };
}

/** @param {"png" | "svg"} format @param {Figure} figure @param {any} layout @returns {Promise<string>} */
const drawn = (format, figure, layout) =>
  /** @type {Plotly} */ (window.Plotly).toImage({ data: figure.data, layout }, { format, scale: SCALE });

/** @returns {[HTMLCanvasElement, CanvasRenderingContext2D]} */
function blank() {
  const canvas = document.createElement("canvas");
  return [canvas, /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"))];
}

/** Draw a figure with everything that the page says around it, as a PNG. @param {Parts} parts @returns {Promise<Blob>} */
export async function paper(parts) {
  const [canvas, on] = blank();
  const { layout, head, wide, high, writings, swatches } = arranged(on, parts);
  const drawing = new Image();
  drawing.src = await drawn("png", parts.figure, layout);
  await drawing.decode();
  [canvas.width, canvas.height] = [SCALE * wide, SCALE * high];

  // a canvas forgets its state with its size
  on.scale(SCALE, SCALE);
  on.textBaseline = "middle";
  on.fillStyle = colour("card");
  on.fillRect(0, 0, wide, high);
  for (const { style, text, x, y } of writings) {
    on.font = font(style);
    on.fillStyle = colour(style.token);
    on.fillText(text, x, y + style.line / 2);
  }
  on.drawImage(drawing, EDGE_PX, head, layout.width, layout.height);
  for (const { token, x, y } of swatches) {
    on.fillStyle = colour(token);
    on.fillRect(x, y, SWATCH_PX, SWATCH_PX);
  }
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))), "image/png"),
  );
}

/** The same as an SVG: texts stay texts. @param {Parts} parts @returns {Promise<Blob>} */
export async function paperSvg(parts) {
  const { layout, head, wide, high, writings, swatches } = arranged(blank()[1], parts);
  const url = await drawn("svg", parts.figure, layout);
  const drawing = new DOMParser().parseFromString(decodeURIComponent(url.slice(url.indexOf(",") + 1)), "image/svg+xml");
  const svg = document.createElementNS(drawing.documentElement.namespaceURI, "svg");
  const add = (/** @type {string} */ tag, /** @type {Record<string, any>} */ with_, text = "") => {
    const one = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(with_)) one.setAttribute(name, String(value));
    one.textContent = text;
    svg.append(one);
  };
  for (const [name, value] of Object.entries({ width: wide, height: high, viewBox: `0 0 ${wide} ${high}` }))
    svg.setAttribute(name, String(value));
  add("rect", { width: wide, height: high, fill: colour("card") });
  for (const { style, text, x, y } of writings)
    add(
      "text",
      {
        x,
        y: y + style.line / 2,
        fill: colour(style.token),
        "font-family": colour("font"),
        "font-size": style.size,
        "font-weight": style.weight,
        "dominant-baseline": "central",
      },
      text,
    );
  for (const { token, x, y } of swatches)
    add("rect", { x, y, width: SWATCH_PX, height: SWATCH_PX, fill: colour(token) });
  drawing.documentElement.setAttribute("x", String(EDGE_PX));
  drawing.documentElement.setAttribute("y", String(head));
  svg.append(drawing.documentElement);
  return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
}
