/** The whole page as a file: a report to read anywhere, or JSON; both open again here. */
import { describe } from "../../scenario.js";
import { enter, readUrl } from "../../actions.js";
import { ApiError } from "../../api.js";
import { documentIn, renamed } from "../../pageDocument.js";
import { reportHtml } from "../../report.js";
import { state } from "../../state.js";
import { upload } from "../../upload.js";
import { byId, download, h } from "./dom.js";
import { cardOf } from "./figure.js";
import { pageNow } from "./pageNow.js";
import { aboutFigures, onPaper } from "./paper.js";
import { fileName } from "./save.js";

const TAKEN_OUT = ".acts, .sr, input, select, .back, .try";
const MOST_BYTES = 64e6;
/** What is told to the shown page before it is read off: draw what no tab shows. */
export const REPORT_EVENT = "report";

const fileTitle = () =>
  fileName(`headroom-${state.view}-${describe(state.scenario, state.catalog)}`).replace(/-+/g, "-");

/** A card as it may stand in a report. @param {Element} card @param {import("../../report.js").DrawnFigure[]} figures */
function copyOf(card, figures) {
  const drawn = cardOf(card);
  const copy = /** @type {HTMLElement} */ (card.cloneNode(true));
  for (const one of copy.querySelectorAll(TAKEN_OUT)) one.remove();
  for (const one of copy.querySelectorAll("[tabindex]")) one.removeAttribute("tabindex");
  if (!drawn) return copy;
  const figure = drawn.figure ?? (drawn.asked && drawn.prepare(drawn.asked));
  if (!figure) return null;
  const id = `figure-${figures.length}`;
  const height = Number.parseFloat(drawn.plot.style.height) || 300;
  const plot = h("div", { class: "plot", id, style: { height: `${onPaper(figure, height).height}px` } });
  figures.push({ id, data: figure.data, layout: onPaper(figure, height) });
  // the drawing has its own names there; what the page lays over it is left out
  (copy.querySelector(".water") ?? copy.querySelector(".plot"))?.replaceWith(plot);
  copy.querySelector(".scroller[hidden]")?.remove();
  if (!drawn.names.length && figure.legend?.length)
    plot.after(
      h(
        "div",
        { class: "legend" },
        figure.legend.map(([token, text]) =>
          h("span", {}, h("span", { class: "swatch", style: { background: `var(--${token})` } }), text),
        ),
      ),
    );
  return copy;
}

/** Save the page that is shown as one HTML file. */
export async function saveReport() {
  const root = byId(state.view);
  root.dispatchEvent(new CustomEvent(REPORT_EVENT));
  const main = root.querySelector("main");
  const cards = [...main.querySelectorAll(".card, dl.strip")].filter((card) => !card.parentElement?.closest(".card"));
  /** @type {import("../../report.js").DrawnFigure[]} */
  const figures = [];
  const body = cards
    .filter((card) => !card.closest("[hidden]:not([role=tabpanel])"))
    // eslint-disable-next-line no-restricted-properties -- read, never set: texts are escaped on the way out
    .map((card) => copyOf(card, figures)?.outerHTML ?? "")
    .join("\n");
  const script = /** @type {HTMLScriptElement} */ (document.getElementById("plotly"));
  const css = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
  const html = reportHtml({
    title: main.querySelector("h1")?.textContent ?? "Headroom",
    about: aboutFigures(),
    when: `Headroom, ${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC. Hatched or hollow: predicted; solid: measured. Drop this file on Headroom to open it again.`,
    theme: document.documentElement.dataset.theme ?? "light",
    css,
    body,
    figures,
    plotly: await fetch(script.src).then((answer) => answer.text()),
    page: await pageNow(),
  });
  download(`${fileTitle()}.html`, html, "text/html");
}

export const savePage = async () =>
  download(`${fileTitle()}.json`, JSON.stringify(await pageNow(), null, 1), "application/json");

/** The document in a file that this page wrote, null for every other file. @param {Blob} blob */
export async function documentOf(blob) {
  if (blob.size > MOST_BYTES) return null;
  const head = (await blob.slice(0, 400).text()).trimStart();
  const mine = head.startsWith("{") ? /"headroom":\s*"page"/.test(head) : head.startsWith("<!doctype html>");
  return mine ? documentIn(await blob.text()) : null;
}

/**
 * Open what was taken along: measurements that are not here are imported, each for itself, as the server may refuse one;
 * then the page is as it was.
 * @param {import("../../pageDocument.js").PageDocument} found @param {string} filename
 * @returns {Promise<{imported: number, refused: string[]}>}
 */
export async function openDocument({ link, measurements, op_lists = {} }, filename) {
  const here = new Set((state.measurements ?? []).map(({ id }) => id));
  /** @type {Map<string, string>} */
  const names = new Map();
  /** @type {string[]} */
  const refused = [];
  for (const one of measurements.filter(({ id }) => !here.has(id))) {
    const sent = new Blob([JSON.stringify({ measurements: [one], op_lists: [op_lists[one.id] ?? null] })], {
      type: "application/json",
    });
    try {
      const { measurements: came } = await upload(sent, filename.replace(/\.html$/, ".json"), () => {}).done;
      if (came.length) names.set(one.id, came[0].id);
      else refused.push(one.label || one.id);
    } catch (error) {
      if (!(error instanceof ApiError) || !error.status) throw error;
      refused.push(`${one.label || one.id}: ${error.message}`);
    }
  }
  enter(renamed(link, names) || location.pathname);
  readUrl();
  return { imported: names.size, refused };
}
