/** The waterfall: A to B by cause. Its rows are buttons, as are the segments of A and B; the one pressed is what all figures show. */
import { select } from "../../actions.js";
import { HEAD_PX, ROW_PX, TALL_ROW_PX, waterfall } from "../../figures/waterfall.js";
import { waterRows } from "../../figures/waterRows.js";
import { measured, plural, quantity, significant } from "../../format.js";
import { doubtOf, spreadWords, untoldWords } from "../../measured.js";
import { isCurrent } from "../../pair.js";
import { same } from "../../scenario.js";
import { doubtBadge, judged, silent, unconfirmed, workRatio } from "../../sides.js";
import { state } from "../../state.js";
import { arrange, colour, h, narrow, put, swatch } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createMeasureAgain } from "../common/measureAgain.js";
import { warningList } from "../common/warnings.js";
import { wayBack } from "./sidesBar.js";

/** @typedef {import("../../figures/waterRows.js").WaterRow} WaterRow */

/** Warnings that ask for what a scenario says. */
const ANSWERED = ["settings-unsaid"];
const USUAL_ROWS = 9;
const TIGHT_PX = 440;

/** @param {{name: () => string}} options */
export function createWaterfall({ name }) {
  const card = new FigureCard({ id: "step-time", title: "Step time", height: 200, span: "w12 fig", name });
  const ends = ["A", "B"].map((letter) =>
    h("p", { class: "end", hidden: true }, h("b", { text: letter }), h("span"), h("strong")),
  );
  const list = h("ul", { class: "causes", "aria-label": "Causes of the difference" });
  const box = h(
    "div",
    { class: "water", style: { height: `${HEAD_PX + USUAL_ROWS * ROW_PX}px` } },
    ends,
    list,
    card.plot,
  );
  /** Whether the page is narrow, and there is little room along the bars. */
  const room = () => `${narrow()} ${card.width > 0 && card.width < TIGHT_PX}`;
  let drawnFor = "";
  const resize = card.resize.bind(card);
  // a page that is turned has rows of another height
  card.resize = () => {
    resize();
    if (drawnFor && drawnFor !== room()) update();
  };
  /** @type {string[]} */
  let keys = [];
  let listening = false;
  /** Hear clicks on the segments of A and B, once the first drawing has given the plot its events. */
  function listen() {
    const plot = /** @type {PlotlyElement} */ (card.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", ({ points: [point] }) => {
      const key = point.curveNumber === 0 && keys[point.pointNumber];
      if (key) select(key);
    });
  }
  card.element.insertBefore(box, card.tableBox.element);
  const hint = h("p", { class: "hint", hidden: true });
  const again = createMeasureAgain();
  const back = h("span", { class: "back" });
  const warnings = h("details", { class: "warned", hidden: true });
  card.below.append(hint, again.element, warnings);
  card.sub.after(back);
  list.addEventListener("keydown", walk);

  /** Arrow keys go along the causes. @param {KeyboardEvent} event */
  function walk(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    buttons[Math.max(0, Math.min(buttons.length - 1, at + way))]?.focus();
  }

  /** @type {Map<string, {element: HTMLElement, button: HTMLElement, cells: HTMLElement[], key: string}>} */
  const kept = new Map();

  /** @param {WaterRow} row @param {number} at @param {{factor: number}} scale */
  function line(row, at, scale) {
    let found = kept.get(String(at));
    if (!found) {
      const cells = [
        h("span", { class: "name" }),
        h("span", { class: "how" }),
        h("span", { class: "pair" }),
        h("span", { class: "sr" }),
      ];
      const button = h("button", { type: "button" }, cells);
      found = { element: h("li", {}, button), button, cells, key: "" };
      kept.set(String(at), found);
    }
    const { button, cells } = found;
    const own = row.first ? row.name : "";
    if (found.key !== `${row.token} ${own}`) {
      cells[0].replaceChildren(...(row.first ? [swatch(row.token), own] : []));
      found.key = `${row.token} ${own}`;
    }
    put(cells[1], row.words);
    const amount = (/** @type {number | null} */ value) => (value === null ? "–" : measured(value / scale.factor));
    put(cells[2], row.first && row.cause ? `${amount(row.a_s)} → ${amount(row.b_s)}` : "");
    const axis = catalogAxis(row.cause);
    // what has no room stands whole here
    button.title = [`${row.name}: ${row.words}`, axis, row.title].filter(Boolean).join("\n");
    // for those who listen: what the bar says, and the name that stands a row above
    put(cells[3], `${own ? "" : `${row.name}, `}${quantity(row.seconds, "s")}`);
    button.setAttribute("aria-pressed", String(Boolean(state.selected) && row.cause === state.selected));
    button.onclick = () => select(row.cause);
    return found.element;
  }

  /** What each axis of the plan changes from and to. @returns {Record<string, string>} */
  function degrees() {
    const [a, b] = [state.pair?.a?.scenario?.plan ?? {}, state.pair?.b?.scenario?.plan ?? {}];
    const moved = ["tp", "cp", "pp", "dp", "ep"].filter((axis) => a[axis] && b[axis] && a[axis] !== b[axis]);
    return Object.fromEntries(moved.map((axis) => [axis, `${axis} ${a[axis]} → ${b[axis]}`]));
  }

  function update() {
    const { pair, difference, catalog, selected, drag } = state;
    const one = pair?.a ?? pair?.b;
    if (!pair || !one) return tell();
    const none = silent(pair);
    box.hidden = none;
    if (none) {
      heading("Step time");
      tell();
      return put(card.sub, "what stands here gives no step time; its warnings say why");
    }
    if (![pair.a, pair.b].some((side) => side?.step_s)) return tell();
    const { a, b } = pair;
    const both = a?.step_s && b?.step_s ? { a: a.step_s, b: b.step_s } : null;
    const names = [
      ...catalog.categories,
      ...catalog.phases.filter(({ key }) => !catalog.categories.some((own) => own.key === key)),
    ];
    const usable = both && difference && judged(pair, catalog) && difference.causes.length && (isCurrent() || drag);
    const rows = usable
      ? waterRows({
          causes: difference.causes,
          step_s: Math.max(both.a, both.b),
          from_s: both.a,
          names,
          degrees: degrees(),
          offloaded: [a, b].map((side) => ["optimizer", "both"].includes(side?.scenario?.plan.offload)),
          newLinks: Boolean(a?.scenario && b?.scenario && !same(a.scenario.cluster, b.scenario.cluster)),
        })
      : [];
    const muted = b?.fits === false;
    const shown = { a: a ?? b, b: a ? b : null, rows, names: catalog.categories, selected, muted };
    const tight = card.width > 0 && card.width < TIGHT_PX;
    drawnFor = room();
    const figure = waterfall({
      ...shown,
      colour,
      narrow: narrow(),
      tight,
      largest_s: drag?.largest_s ?? 0,
      width: card.width,
    });
    const each = narrow() ? TALL_ROW_PX : ROW_PX;
    // the causes come a moment later, and nothing moves when they do
    const expected = both && !rows.length && judged(pair, catalog) && !isCurrent() ? USUAL_ROWS * each + HEAD_PX : 0;
    box.style.height = `${Math.max(figure.height, expected)}px`;
    list.style.top = `${HEAD_PX}px`;
    arrange(
      list,
      rows.map((row, at) => line(row, at, figure.scale)),
    );
    list.style.setProperty("--row", `${each}px`);
    ends.forEach((end, at) => {
      const side = at ? (a ? b : null) : (a ?? b);
      end.hidden = !side;
      if (!side) return;
      const [letter, kind, value] = end.children;
      put(letter, side.letter);
      put(kind, side.kind);
      put(value, quantity(side.step_s, "s", 4));
    });
    keys = figure.keys;
    card.now(() => figure);
    // beside another one every cause has its name in the list below
    card.explain(rows.length ? [] : (figure.legend ?? []));
    listen();
    heading(both && judged(pair, catalog) ? `A → B ${signed(both.b - both.a, figure.scale)}` : "Step time");
    put(card.sub, subtitle(both));
    const way = wayBack();
    back.replaceChildren(...(way.back ? [way.back] : []));
    const run = a?.measurement ?? b?.measurement ?? null;
    const doubt = doubtOf(state.estimated ?? state.scenario, catalog);
    const spread = run && (doubt || a?.disturbed || b?.disturbed) ? spreadWords(run) : "";
    return tell([spread, doubt, untoldWords(run)].filter(Boolean).join(" "), doubt);
  }

  /** Say what there is to know of the bars; where none are drawn, nothing. @param {string} [words] @param {string} [doubt] */
  function tell(words = "", doubt = "") {
    put(hint, words);
    hint.hidden = !words;
    again.update(doubt);
  }

  /** @param {string} text */
  function heading(text) {
    const title = card.element.querySelector("h3");
    if (title) put(title, text);
  }

  /** @param {{a: number, b: number} | null} both */
  function subtitle(both) {
    const { pair } = state;
    const relation = wayBack().words;
    const doubted = pair && pair.a && pair.b && !judged(pair, state.catalog);
    if (!pair || !both) return relation || (pair?.a && !pair.b ? "nothing beside it: choose B, or move a slider" : "");
    if (pair.a?.disturbed || pair.b?.disturbed) return "disturbed, repeat: the fastest step is shown";
    if (unconfirmed(pair)) return relation;
    if (doubted)
      return [`${doubtBadge(pair, state.catalog)}: what they differ by says nothing`, relation]
        .filter(Boolean)
        .join("; ");
    const { a, b } = pair;
    const ratio = workRatio(a, b);
    const work = ratio === 1 ? "" : `a step of B has ${significant(ratio)} × the tokens of A's`;
    if (b?.fits === false) return ["if B fitted", work].filter(Boolean).join("; ");
    if (work) return [work, relation].filter(Boolean).join("; ");
    if (a?.predicted && !b?.predicted && a.range_s) {
      const [low, high] = a.range_s;
      const inside = both.b >= low && both.b <= high;
      return [`${inside ? "inside" : "outside"} the 80 % interval of A`, relation].filter(Boolean).join("; ");
    }
    return relation;
  }

  function showWarnings() {
    // once its scenario is known, what its file left out has been answered
    const answered = state.measuredScenario ? ANSWERED : [];
    const found = (state.measurement?.warnings ?? []).filter(({ code }) => !answered.includes(code));
    const text = `${plural(found.length, "warning")} of the measurement`;
    warnings.hidden = !found.length;
    warnings.replaceChildren(h("summary", { text }), warningList(found));
  }
  return { element: card.element, update, showWarnings };
}

/** What the axis of a cause is. @param {string} cause  its category and axis */
function catalogAxis(cause) {
  const axis = state.catalog.axes.find(({ key }) => key === cause.split(" ")[1]);
  return axis ? `${axis.key}: ${axis.label}` : "";
}

/** @param {number} seconds @param {{factor: number, unit: string}} scale */
const signed = (seconds, { factor, unit }) =>
  `${seconds < 0 ? "−" : "+"}${measured(Math.abs(seconds / factor))} ${unit}`;
