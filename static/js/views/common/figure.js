/**
 * A card with a figure: skeleton, drawing when it is seen and when there is time, and a menu to take it along.
 * The primary figure is drawn in the frame of the change; the others wait in the queue.
 */
import { csv } from "../../format.js";
import { download, h, narrow, swatch } from "./dom.js";
import { aboutFigures, paper, paperSvg } from "./paper.js";
import { forget, later, watch } from "./queue.js";
import { createSave, panelJson } from "./save.js";
import { createScroller } from "./scroller.js";
import { tableView } from "./table.js";

/** @typedef {import("../../types.js").Figure} Figure */

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", showTips: false };

/** @type {Promise<void>} */
const plotly = new Promise((resolve, reject) => {
  const script = /** @type {HTMLScriptElement} */ (document.getElementById("plotly"));
  if (window.Plotly) resolve();
  script.addEventListener("load", () => resolve());
  script.addEventListener("error", () => reject(new Error("plotly.js did not load")));
});

/** @type {WeakMap<Element, FigureCard>} */
const cards = new WeakMap();
/** The card whose element this is. @param {Element} element */
export const cardOf = (element) => cards.get(element);

export class FigureCard {
  /**
   * @param {{id: string, title: string, height: number, span: string, actions?: HTMLElement[], table?: boolean,
   *   name: () => string, about?: () => string}} options `name` begins the names of downloaded files; `about` says what
   *   the figure is of, in a picture
   */
  constructor({ id, title, height, span, actions = [], table = true, name, about = aboutFigures }) {
    this.title = title;
    this.about = about;
    /** @type {import("./paper.js").Names} */
    this.names = [];
    this.seen = false;
    /** @type {Figure | null} */
    this.figure = null;
    /** @type {(() => Figure) | null} */
    this.prepared = null; // made and not yet drawn
    /** @type {(() => Figure) | null} */
    this.asked = null; // the newest, drawn or not
    this.narrow = narrow(); // when the figure was made
    this.sub = h("span", { class: "sub" });
    this.caption = h("figcaption", { class: "sr" });
    this.plot = h("div", { class: "plot skeleton", style: { height: `${height}px` }, "aria-hidden": true });
    this.legend = h("div", { class: "legend" });
    this.below = h("div", {});
    this.tableBox = createScroller(`${title}, as a table`, "tall");
    this.tableBox.element.hidden = true;
    this.toggle = h("button", {
      type: "button",
      "aria-pressed": "false",
      onclick: () => this.showTable(),
      text: "Table",
      "aria-label": `${title}: Table`,
    });
    const file = (/** @type {string} */ end) => `${name()}-${id}.${end}`;
    const save = createSave({
      title,
      choices: [
        ["PNG", () => this.picture(paper, file("png"), "image/png")],
        ["SVG", () => this.picture(paperSvg, file("svg"), "image/svg+xml")],
        ["CSV", () => this.figure && download(file("csv"), csv(this.figure.table))],
        [
          "JSON",
          async () =>
            this.figure && download(file("json"), await panelJson(title, [this.figure.table]), "application/json"),
        ],
      ],
    });
    this.element = h(
      "figure",
      { class: `card ${span}`, id, "aria-labelledby": `${id}-title` },
      h(
        "header",
        {},
        h("h3", { id: `${id}-title`, text: title }),
        this.sub,
        h(
          "span",
          { class: "acts" },
          ...actions,
          actions.length ? h("span", { class: "sep" }) : null,
          save,
          table ? this.toggle : null,
        ),
      ),
      this.plot,
      this.tableBox.element,
      this.legend,
      this.below,
      this.caption,
    );
    cards.set(this.element, this);
    watch(this, this.element);
    /** Of the drawing, known without asking for a layout; 0 before it has one. */
    this.width = 0;
    let resizing = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - this.width) < 1) return;
      this.width = contentRect.width;
      clearTimeout(resizing);
      resizing = window.setTimeout(() => this.resize(), 90);
    }).observe(this.plot);
  }

  /** Draw now, in this frame. @param {() => Figure} make */
  now(make) {
    if (!this.seen) return this.later(make);
    forget(this);
    return this.draw(make);
  }

  /** Draw when nothing more urgent happens; only the newest is drawn. @param {() => Figure} make */
  later(make) {
    this.asked = make;
    later(
      this,
      () => this.draw(make),
      () => this.prepare(make),
    );
  }

  /** Take the numbers and the height, without drawing. @param {() => Figure} make */
  prepare(make) {
    const figure = make();
    this.figure = figure;
    this.narrow = narrow();
    this.prepared = make;
    this.plot.style.height = `${figure.layout.height}px`;
    return figure;
  }

  /** @param {() => Figure} make */
  draw(make) {
    this.asked = this.make = make;
    const figure = (this.prepared === make && this.figure) || this.prepare(make);
    this.prepared = null;
    if (!window.Plotly) {
      plotly.then(
        () => this.make && this.draw(this.make),
        (/** @type {Error} */ error) => this.fail(error),
      );
      return;
    }
    this.plot.classList.remove("skeleton");
    void window.Plotly.react(this.plot, figure.data, figure.layout, CONFIG);
    if (this.caption.textContent !== figure.summary) this.caption.textContent = figure.summary;
    if (!this.tableBox.element.hidden) this.fillTable();
  }

  /** Say what each colour stands for. @param {[token: string, text: string, title?: string][]} names */
  explain(names) {
    this.names = names;
    this.legend.replaceChildren(...names.map(([token, text, title]) => h("span", { title }, swatch(token), text)));
  }

  /** Fill the width that there is; a figure of a wide page is made anew for a narrow one, and the other way round. */
  resize() {
    if (!this.figure || !this.plot.offsetWidth) return;
    window.Plotly?.Plots.resize(this.plot);
    if (this.narrow === narrow() || !this.asked) return;
    this.prepared = null;
    this.later(this.asked);
  }

  showTable() {
    const open = this.tableBox.element.hidden;
    this.tableBox.element.hidden = !open;
    this.plot.hidden = open;
    this.toggle.setAttribute("aria-pressed", String(open));
    if (open) this.fillTable();
    else if (this.make) this.draw(this.make);
  }

  fillTable() {
    if (this.figure) this.tableBox.fill(tableView(this.figure.table));
  }

  /**
   * @param {(parts: import("./paper.js").Parts) => Promise<Blob>} draw @param {string} filename @param {string} type
   */
  async picture(draw, filename, type) {
    const { figure } = this;
    if (!figure) return;
    const { legend, said = this.sub.textContent } = figure;
    const picture = await draw({
      figure,
      title: this.element.querySelector("h3")?.textContent ?? this.title,
      said: [this.about(), said].filter((text) => text !== null && text !== ""),
      names: this.names.length ? this.names : (legend ?? []),
      // behind a table the drawing has no size
      width: this.plot.offsetWidth || this.tableBox.element.offsetWidth,
      height: Number.parseFloat(this.plot.style.height),
    });
    download(filename, picture, type);
  }

  /** @param {Error} error */
  fail(error) {
    this.plot.classList.remove("skeleton");
    this.plot.replaceChildren(h("p", { class: "empty", text: `${error.message}; the tables still hold the numbers.` }));
  }
}
