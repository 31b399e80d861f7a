/** The sweep of one field: a figure, and a table whose rows become A or B; there as long as a field is swept. */
import { setSides, setSweep, tryPlan } from "../../actions.js";
import { fetchPoints, pointsOf, sweepable, sweptLabel, valueNow } from "../../fieldSweep.js";
import { HEIGHT_PX, sweep } from "../../figures/sweep.js";
import { bytes, csv, percent, seconds, short } from "../../format.js";
import { describe, same } from "../../scenario.js";
import { chosenSides } from "../../sides.js";
import { state, subscribe } from "../../state.js";
import { sweptRows, sweptTable } from "../../sweptRows.js";
import { pinOf } from "../../url.js";
import { announce, colour, h, icon, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";
import { copy, trying } from "../common/toast.js";

/** @typedef {import("../../sweptRows.js").Swept} Swept */

/** Columns of figures behind the value. */
const FIGURES = 4;
/** Columns that a narrow page leaves to the CSV. */
const WIDE = [4, 6];

/** Put the plan at a value to A, beside a plan: what the panel has, where no other stands there. @param {Swept} row */
function makeA({ scenario }) {
  const key = same(scenario, state.scenario) ? "plan" : pinOf(scenario, state.base);
  const [a, b] = chosenSides(state);
  const isPlan = b === "plan" || b.startsWith("s:");
  const beside = isPlan && b !== key ? b : key === "plan" ? a : "plan";
  setSides(key, beside === key ? "" : beside);
}

/** @param {{name: () => string}} options */
export function createSweep({ name }) {
  const field = h("select", { "aria-label": "Field of the sweep", onchange: () => setSweep(field.value) });
  /** @type {Swept[]} */
  let rows = [];
  const copyCsv = h("button", {
    type: "button",
    text: "Copy CSV",
    onclick: () => copy(csv(sweptTable(rows, sweptLabel(state.sweep))), "Sweep copied as CSV"),
  });
  const card = new FigureCard({
    id: "sweep",
    title: "Sweep",
    height: HEIGHT_PX,
    span: "w12 fig",
    table: false,
    actions: [field, copyCsv],
    name,
  });
  /** Close it; the focus goes back to the button that it came from. */
  function leave() {
    const path = state.sweep;
    setSweep("");
    const opener = document.querySelector(`[data-sweeps="${CSS.escape(path)}"]`);
    if (opener instanceof HTMLElement) opener.focus();
  }
  const close = h(
    "button",
    { type: "button", class: "tool", "aria-label": "Close the sweep", onclick: leave },
    icon("close"),
  );
  card.element.querySelector(".acts")?.append(close);
  card.element.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) leave();
  });
  const scroller = createScroller("Values of the sweep", "tall");
  card.below.append(scroller.element);
  card.element.hidden = true;
  let listening = false;
  /** @type {Swept[]} */
  let shown = [];
  let filled = "";

  /** Plotly gives elements their events with the first drawing. */
  function listen() {
    const plot = /** @type {PlotlyElement} */ (card.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", ({ points: [point] }) => {
      const row = shown[point.pointNumber];
      if (row) makeA(row);
    });
  }

  /** @param {Swept} row @param {"A" | "B"} letter */
  function picker(row, letter) {
    const side = letter === "A" ? state.pair?.a : state.pair?.b;
    return h("button", {
      type: "button",
      class: "pick",
      text: letter,
      title: letter === "A" ? "Set the others against it" : "Take it into the panel, beside A",
      "aria-label": `${row.words} as ${letter}`,
      "aria-pressed": String(Boolean(side?.predicted && side.scenario && same(side.scenario, row.scenario))),
      onclick: (/** @type {Event} */ event) => {
        event.stopPropagation();
        if (letter === "A") makeA(row);
        else tryPlan(row.scenario);
      },
    });
  }

  /** @param {Swept} row @param {number} columns  behind the value */
  function line(row, columns) {
    const marks = [row.words, row.now && h("small", { text: "now" })];
    const kind = [row.now && "now", row.step_s !== null && "opens", row.why && "not"].filter(Boolean).join(" ");
    if (row.step_s === null)
      return h(
        "tr",
        { class: kind, "aria-current": row.now && "true" },
        h("td", { class: "picks" }),
        h("th", { scope: "row" }, marks),
        h("td", { class: "text wrap reason", colspan: columns, text: row.why }),
      );
    return h(
      "tr",
      { class: kind, "aria-current": row.now && "true", onclick: () => makeA(row) },
      h("td", { class: "picks" }, picker(row, "A"), picker(row, "B")),
      h("th", { scope: "row" }, marks),
      h("td", { text: seconds(row.step_s), title: String(row.step_s) }),
      h("td", { text: short(row.tokens_per_s ?? 0), title: String(row.tokens_per_s) }),
      h("td", { class: "wide", text: percent(row.mfu) }),
      h(
        "td",
        { class: row.fits ? "" : "over", title: String(row.peak_bytes) },
        bytes(row.peak_bytes),
        row.fits ? null : h("small", { text: `needs ${bytes(row.reserved_bytes)}` }),
      ),
      columns > FIGURES && h("td", { class: "wide text wrap quiet", text: row.follows }),
    );
  }

  /** @param {string} label */
  function fill(label) {
    const focused =
      document.activeElement?.closest("#sweep tbody") && document.activeElement.getAttribute("aria-label");
    const heads = [h("span", { class: "sr", text: "A and B" }), label, "step time", "tokens/s", "MFU", "peak memory"];
    const follows = rows.some((row) => row.follows) ? ["changes with it"] : [];
    scroller.fill(
      grid(
        [...heads, ...follows],
        rows.map((row) => line(row, heads.length - 2 + follows.length)),
        { texts: [6], wide: WIDE },
      ),
    );
    // what was pressed keeps the focus though its row was made again
    if (focused)
      /** @type {HTMLElement | null} */ (scroller.box.querySelector(`[aria-label="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {Set<string>} [changed] */
  function update(changed) {
    const path = state.sweep;
    const known = sweepable();
    card.element.hidden = !path;
    if (!path || state.view !== "explore") return;
    const label = sweptLabel(path);
    const listed = known.map(({ path: one, label: text }) => `${one} ${text}`).join();
    if (listed !== field.dataset.listed)
      field.replaceChildren(...known.map(({ path: one, label: text }) => h("option", { value: one, text })));
    field.dataset.listed = listed;
    field.value = path;
    const title = card.element.querySelector("h3");
    if (title) put(title, `Sweep: ${label}`);
    put(card.sub, describe(state.scenario, state.catalog));
    if (changed?.has("sweep")) announce(`Sweep of ${label}`);
    const points = pointsOf(path);
    card.element.classList.toggle("dim", !points);
    if (!points) {
      // of a slider that is held only its own axis is there
      if (!state.drag) void trying(ask(path));
      return;
    }
    rows = sweptRows(points, { path, value: valueNow(path), scenario: state.scenario, catalog: state.catalog });
    const { a, b } = state.pair ?? {};
    const key = [path, state.axes, JSON.stringify(valueNow(path)), a?.key, b?.key, pinOf(state.scenario, state.base)];
    if (filled !== key.join(" ")) fill(label);
    filled = key.join(" ");
    const now = rows;
    card.later(() => {
      requestAnimationFrame(listen);
      const figure = sweep({ rows: now, label, colour, narrow: narrow() });
      shown = figure.shown;
      card.explain(figure.legend ?? []);
      return figure;
    });
  }

  /** @param {string} path */
  async function ask(path) {
    if (await fetchPoints(path)) return;
    if (path !== state.sweep || pointsOf(path)) return;
    scroller.fill(
      h("p", { class: "empty", text: "The plan as it stands has no sweep over this; the message above says why." }),
    );
    filled = "";
  }

  subscribe(["sweep", "scenario", "axes", "drag", "pair", "theme", "view", "catalog"], (_, changed) => update(changed));
  return { element: card.element, update };
}
