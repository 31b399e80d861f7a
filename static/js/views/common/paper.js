/** A figure on its own, as a PNG for a report: title, what it is of, the drawing, and what its colours stand for. */
import { describe } from "../../scenario.js";
import { count } from "../../format.js";
import { beside } from "../../measured.js";
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
      .map(({ letter, predicted, name, extra }) =>
        [`${letter}: ${predicted ? "predicted" : "measured"}`, name, extra].filter(Boolean).join(" "),
      )
      .join(" · ");
  const { global_batch, seq_len, precision } = scenario.training;
  const run = view === "explore" && beside(state, scenario);
  return [
    describe(scenario, catalog),
    `${count(global_batch)} sequences of ${count(seq_len)} tokens`,
    precision,
    run && run.label && `measured: ${run.label}`,
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
 * Draw a figure with everything that the page says around it.
 * @param {{figure: Figure, title: string, said: string[], names: Names, width: number, height: number}} parts  of the
 *   drawing on the page
 * @returns {Promise<Blob>} the picture
 */
export async function paper({ figure, title, said, names, width, height }) {
  const wide = Math.max(LEAST_PX, width);
  const layout = { ...onPaper(figure, height), width: wide };
  const drawing = new Image();
  drawing.src = await /** @type {Plotly} */ (window.Plotly).toImage(
    { data: figure.data, layout },
    { format: "png", scale: SCALE },
  );
  await drawing.decode();

  const canvas = document.createElement("canvas");
  const on = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const font = (/** @type {typeof TITLE} */ { size, weight }) => `${weight} ${size}px ${colour("font")}`;
  on.font = font(TEXT);
  const texts = said.flatMap((text) => lines(on, text, wide));
  const legend = placed(on, names, wide);
  const rows = legend.length ? legend[legend.length - 1].row + 1 : 0;
  const head = EDGE_PX + TITLE.line + texts.length * TEXT.line + 6;
  const high = head + layout.height + (rows ? 8 + rows * TEXT.line : 0) + EDGE_PX;
  [canvas.width, canvas.height] = [SCALE * (wide + 2 * EDGE_PX), SCALE * high];

  // a canvas forgets its state with its size
  on.scale(SCALE, SCALE);
  on.textBaseline = "middle";
  on.fillStyle = colour("card");
  on.fillRect(0, 0, wide + 2 * EDGE_PX, high);
  const write = (
    /** @type {typeof TITLE} */ style,
    /** @type {string} */ text,
    /** @type {number} */ x,
    /** @type {number} */ y,
  ) => {
    on.font = font(style);
    on.fillStyle = colour(style.token);
    on.fillText(text, x, y + style.line / 2);
  };
  write(TITLE, title, EDGE_PX, EDGE_PX);
  texts.forEach((text, at) => write(TEXT, text, EDGE_PX, EDGE_PX + TITLE.line + at * TEXT.line));
  on.drawImage(drawing, EDGE_PX, head, wide, layout.height);
  for (const { token, text, x, row } of legend) {
    const y = head + layout.height + 8 + row * TEXT.line;
    on.fillStyle = colour(token);
    on.fillRect(EDGE_PX + x, y + (TEXT.line - SWATCH_PX) / 2, SWATCH_PX, SWATCH_PX);
    write(TEXT, text, EDGE_PX + x + SWATCH_PX + 6, y);
  }
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))), "image/png"),
  );
}
