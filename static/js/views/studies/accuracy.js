/** How right predictions are: the committed figures of every set of measured steps, by chip, model, kind and cause. */
import { setStudy } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { words } from "../../figures/base.js";
import { accuracyFigure, BY, coverageFigure, groupTable } from "../../figures/accuracy.js";
import { wordsOf, wordsOfKind } from "../../glossary.js";
import { count, plural, significant } from "../../format.js";
import { state } from "../../state.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/** @typedef {import("../../figures/accuracy.js").AccuracySet} AccuracySet */
/** @typedef {import("../../figures/accuracy.js").By} By */
/** @typedef {import("../../types.js").Table} Table */

/** Its place in the list of studies. */
export const ACCURACY_STUDY = { name: "accuracy", title: "How right predictions are" };

/** Columns of the table of sets, and what each says. @type {[string, string][]} */
const COLUMNS = [
  ["set", ""],
  ["steps", "measured step times, or peaks where it has no times"],
  ["mean", "mean error of the step time, in percent of what was measured"],
  ["median", "median error of the step time"],
  ["nine of ten", "what nine of ten step times are off by at most"],
  ["bias", "mean error with its sign: above 0 the steps took less than predicted"],
  ["memory", "median error of the peak"],
  ["naive", "mean error of 6 · parameters · tokens FLOPs at half of the peak"],
  ["inside", "percent of the measured times that the 80 % interval holds"],
  ["not known", "the same, with widths from all other sources, as if this one had not been measured"],
];
const HEADS = COLUMNS.map(([title]) => title);
/** The same of a table by kind, chip, model or cause. */
const GROUP_TITLES = [
  "",
  ...["steps", "mean", "bias", "inside", "not known"].map((of) => Object.fromEntries(COLUMNS)[of]),
];

export function createAccuracy() {
  const name = () => "headroom-accuracy";
  const sub = h("span", { class: "sub" });
  const set = h("select", { "aria-label": "Set of steps", onchange: () => choose({ of: set.value }) });
  const parts = BY.map(([value, text]) => ({
    value,
    element: h("button", { type: "button", text, onclick: () => choose({ by: value }) }),
  }));
  const problem = h("div", { class: "notices" });
  const facts = h("ul", { class: "facts" });
  const head = h(
    "section",
    { class: "card w12", id: "accuracy" },
    h(
      "header",
      {},
      h("h3", { text: ACCURACY_STUDY.title }),
      sub,
      h(
        "span",
        { class: "acts" },
        h("label", { class: "group" }, "Set ", set),
        h("span", { class: "sep" }),
        parts.map(({ element: one }) => one),
      ),
    ),
    problem,
    facts,
  );
  const about = () => sub.textContent ?? "";
  const steps = new FigureCard({
    id: "accuracy-steps",
    title: "Predicted over measured",
    height: 400,
    span: "w6",
    name,
    about,
  });
  const coverage = new FigureCard({
    id: "accuracy-intervals",
    title: "What intervals hold",
    height: 400,
    span: "w6",
    name,
    about,
  });
  coverage.explain([
    ["accent", "widths from all other sources"],
    ["ink-3", "ring: widths with this one"],
  ]);
  const all = tableCard("accuracy-sets", "All sets, errors in percent");
  const groups = tableCard("accuracy-groups", "Taken apart");
  const meanings = h("ul", { class: "facts meanings" });
  groups.element.append(meanings);
  /** @type {{sets: AccuracySet[], asked_frac: number} | null} */
  let answer = null;

  const chosen = () => ({ of: state.settings.of ?? "", by: /** @type {By} */ (state.settings.by ?? "kind") });
  /** @param {Partial<{of: string, by: By}>} patch */
  function choose(patch) {
    const { of, by } = { ...chosen(), ...patch };
    setStudy(ACCURACY_STUDY.name, { ...(of && { of }), ...(by !== "kind" && { by }) });
  }

  async function update() {
    try {
      answer ??= await api.accuracy();
      problem.replaceChildren();
      draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.replaceChildren(h("div", { class: "notice", role: "alert" }, h("p", { text: error.message })));
    }
  }

  function draw() {
    if (!answer || state.study !== ACCURACY_STUDY.name) return;
    const { sets, asked_frac } = answer;
    const { by } = chosen();
    const one = sets.find((some) => some.name === chosen().of);
    const shown = one ? [one] : sets;
    const points = shown.flatMap((some) => some.points);
    fillChoice(sets, one?.name ?? "");
    for (const { value, element: button } of parts) button.setAttribute("aria-pressed", String(value === by));
    const timed = shown.reduce((sum, some) => sum + (some.time?.n ?? 0), 0);
    put(sub, `${one ? one.name : plural(sets.length, "set")}: ${plural(timed, "measured step")}`);
    facts.replaceChildren(...factsOf(shown, points.length, timed).map((text) => h("li", { text })));
    steps.element.hidden = !points.length;
    if (points.length) {
      steps.later(() => {
        const figure = accuracyFigure({ points, by, colour, narrow: narrow() });
        const drawn = points.length < timed ? `${count(points.length)} of ${plural(timed, "step")} drawn, ` : "";
        put(
          steps.sub,
          `${drawn}${count(figure.inside)}${drawn ? "" : ` of ${count(points.length)}`} inside; ${figure.said}`,
        );
        steps.explain(figure.legend);
        return figure;
      });
    }
    coverage.later(() => {
      const figure = coverageFigure({ sets, asked_frac, chosen: one?.name ?? "", colour, narrow: narrow() });
      put(coverage.sub, figure.said ?? "");
      return figure;
    });
    all.fill(setTable(sets), setRows(sets, one?.name ?? ""));
    const table = groupTable(shown, by);
    put(groups.title, `${one ? one.name : "All sets"}, by ${table.columns[0].title}`);
    groups.fill(table, tenthsTable(table));
    meanings.replaceChildren(...meaningsOf(table, by));
  }

  /** @param {AccuracySet[]} sets @param {string} of */
  function fillChoice(sets, of) {
    set.replaceChildren(
      h("option", { value: "", text: "all" }),
      ...sets.filter(({ time }) => time).map((some) => h("option", { value: some.name, text: some.name })),
    );
    set.value = of;
  }

  /** @param {AccuracySet[]} sets @param {string} of */
  function setRows(sets, of) {
    const rows = setTable(sets).rows.map(([title, ...cells], at) =>
      h(
        "tr",
        {},
        h(
          "td",
          { class: "text" },
          sets[at].time
            ? h("button", {
                type: "button",
                class: "link",
                text: String(title),
                title: wordsOfKind(String(title)) || null,
                "aria-current": title === of && "true",
                // What changes stands above the table, which grows or shrinks with it.
                onclick: () => {
                  choose({ of: title === of ? "" : String(title) });
                  head.scrollIntoView({ block: "start" });
                },
              })
            : String(title),
        ),
        cells.map((value, cell) => errorCell(value, cell === 0)),
      ),
    );
    return grid(HEADS, rows, { texts: [0], titles: COLUMNS.map(([, says]) => says) });
  }

  const element = h(
    "div",
    { class: "w12 opened accuracy" },
    head,
    // beside a bar for each set there is room for more than a square
    h("div", { class: "column w6" }, steps.element, groups.element),
    coverage.element,
    all.element,
  );
  return { element, update, draw };
}

/** @param {string} id @param {string} text */
function tableCard(id, text) {
  /** @type {Table} */
  let table = { columns: [], rows: [] };
  const title = h("h3", { text });
  const box = createScroller(text, "tall");
  const save = createTableSave({ title: text, name: () => `headroom-${id}`, tables: () => [table] });
  const element = h(
    "section",
    { class: "card w12", id },
    h("header", {}, title, h("span", { class: "acts" }, save)),
    box.element,
  );
  return {
    element,
    title,
    /** @param {Table} given @param {HTMLElement} content */
    fill(given, content) {
      table = given;
      box.fill(content);
    },
  };
}

/** Percent with one decimal, a number of steps in full. @param {any} value @param {boolean} whole */
const errorCell = (value, whole) =>
  h("td", {
    title: typeof value === "number" && !whole && String(value),
    text: typeof value !== "number" ? "–" : whole ? count(value) : value.toFixed(1).replace("-", "−"),
  });

/** @param {Table} table  what, how many steps, and percents */
const tenthsTable = ({ columns, rows }) =>
  grid(
    columns.map(({ title }) => title),
    rows.map(([of, ...cells]) =>
      h(
        "tr",
        {},
        h("td", { class: "text", text: String(of) }),
        cells.map((value, at) => errorCell(value, at === 0)),
      ),
    ),
    { texts: [0], titles: GROUP_TITLES },
  );

/** What names of its rows are made of, where not everybody calls it so. @param {Table} table @param {By} by */
function meaningsOf({ rows }, by) {
  const names = rows.map(([name]) => String(name));
  const { categories, phases } = state.catalog;
  const causes = [...categories, ...phases].flatMap(({ key, label, says }) =>
    says && (names.includes(label) || names.includes(words(key))) ? [{ name: label, says }] : [],
  );
  const found = by === "kind" ? wordsOf(names) : by === "largest" ? causes : [];
  return found.map(({ name, says }) => h("li", {}, h("b", { text: name }), `: ${says}`));
}

/** @param {AccuracySet[]} sets @returns {Table} */
const setTable = (sets) => ({
  columns: HEADS.map((title, at) => ({ title, text: at === 0 })),
  rows: sets.map(({ name, rows, time, memory, naive, covered, held_out }) => [
    name,
    time?.n ?? rows,
    time?.mape ?? null,
    time?.median ?? null,
    time?.p90 ?? null,
    time?.bias ?? null,
    memory?.median ?? null,
    naive?.mape ?? null,
    covered,
    held_out,
  ]),
});

/** @param {AccuracySet[]} shown @param {number} points  steps that are drawn @param {number} timed  all of them */
function factsOf(shown, points, timed) {
  const words = [
    "Errors are of the step time, in percent of what was measured: mean, median, what nine of ten are off by at most, and bias, their mean with its sign (above 0 they took less than predicted); memory is a median; naive is 6 · parameters · tokens at half of the peak.",
    "Inside: measured times that the 80 % interval holds; not known: with widths from all other sources. No step calibrated anything.",
  ];
  if (!points) words.push("Steps of this set are not part of Headroom, its figures are.");
  else if (points < timed) {
    const others = shown.filter((one) => !one.points.length);
    const published = others.reduce((sum, { time }) => sum + (time?.n ?? 0), 0);
    const bare = timed - points - published;
    const why = [
      published && `${plural(published, "step")} of tables that others published, which are not part of Headroom`,
      bare && `${plural(bare, "step")} without an interval`,
    ];
    words.push(`Not drawn: ${why.filter(Boolean).join(", and ")}. Figures and tables count them.`);
  }
  for (const { phases, peers } of shown.length === 1 ? shown : []) {
    const others = Object.entries({ ...phases, ...peers }).map(
      ([of, { n, median }]) => `${of.replaceAll("_", " ")} ${significant(median)} % of ${count(n)}`,
    );
    if (others.length) words.push(`Median errors of its phases, and as others published theirs: ${others.join(", ")}.`);
  }
  return words;
}
