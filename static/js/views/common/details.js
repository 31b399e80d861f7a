/**
 * What measurements hold beyond one step: their tables, one at a time, each with what it was measured on, predicted over
 * measured, its own chart, its rows scrolled in place, and its warnings.
 */
import { api, ApiError } from "../../api.js";
import { chiefPairs, isInside, predictedOverMeasured } from "../../figures/predictedOverMeasured.js";
import { kindsOf, legendOf, tableChart } from "../../figures/tableChart.js";
import { chartsOf } from "../../figures/tableCharts.js";
import { bare, kindOf, rowWords } from "../../figures/tables.js";
import { count, plural } from "../../format.js";
import { besideRows, errorWords } from "../../predictedRows.js";
import { state, subscribe } from "../../state.js";
import { colour, h, narrow, put } from "./dom.js";
import { OWN } from "./entries.js";
import { FigureCard } from "./figure.js";
import { createMeasureAgain } from "./measureAgain.js";
import {
  answeredDevice,
  asksDevice,
  chipMeant,
  createQuestions,
  gpuOf,
  kindWords,
  optionOfDevice,
} from "./questions.js";
import { createTableSave } from "./save.js";
import { createScroller } from "./scroller.js";
import { columnOf, tablesOf, tableView, withoutCommon } from "./table.js";
import { trying } from "./toast.js";
import { warningList } from "./warnings.js";

/** @typedef {import("../../types.js").Measurement} Measurement */
/** @typedef {import("../../types.js").PredictedRows} PredictedRows */
/** @typedef {import("../../types.js").Table} Table */
/** @typedef {{title: string, table: import("../../types.js").Table, rows: Record<string, any>[]}} Titled */
/** @typedef {{key: string, label: string, measurement: Measurement, at: number}} Tab  `at`: which of its tables */

const HEIGHT_PX = 280;

/** Nothing, where the server refuses. @param {unknown} error */
const orNull = (error) => (error instanceof ApiError ? null : Promise.reject(error));

/** @param {string} [id]  of its element @param {(key: string) => void} [opened]  hears which table was chosen */
export function createDetails(id = "details", opened = () => {}) {
  const title = h("h3");
  const sub = h("span", { class: "sub" });
  /** @type {Table[]} */
  let whole = [];
  const save = createTableSave({ title: "Table", name: () => name(), tables: () => whole });
  const tabs = h("div", { class: "pins", role: "group", "aria-label": "Tables" });
  const questions = createQuestions({
    change: (chip) => {
      guess = chip;
      const tab = all.find((one) => one.key === chosen);
      if (tab) void trying(open(tab));
    },
    right: (chip) => void trying(answer(chip)),
    again: () => {
      const tab = all.find((one) => one.key === chosen);
      if (!tab) return;
      const { device } = tab.measurement;
      for (const { measurement } of all)
        if (answeredDevice(measurement) && measurement.device.name === device.name) reopened.add(measurement.id);
      guess = optionOfDevice(device);
      void trying(open(tab));
    },
    named: (name, chip) => void trying(answerName(name, chip)),
  });
  const words = h("p", { class: "hint" });
  const again = createMeasureAgain();
  const head = h(
    "section",
    { class: "card w12" },
    h("header", {}, title, sub, h("span", { class: "acts" }, save)),
    tabs,
    questions.element,
    words,
    again.element,
  );
  const name = () => `headroom-${(title.textContent ?? "").replace(/[^\w.-]+/g, "-")}`;
  const about = () => title.textContent ?? "";
  const figure = (/** @type {string} */ key, /** @type {string} */ text, /** @type {HTMLElement[]} */ actions = []) =>
    new FigureCard({
      actions,
      id: `${id}-${key}`,
      title: text,
      height: HEIGHT_PX,
      span: "w6",
      name,
      about,
      table: false,
    });
  const scatter = figure("scatter", "Predicted over measured");
  const which = h("select", { "aria-label": "Which chart" });
  const own = figure("chart", "As its own chart", [h("span", { class: "axes" }, which)]);
  const scroller = createScroller("Rows", "tall");
  const warned = h("div", {});
  const rows = h("section", { class: "card w12 rows" }, scroller.element, warned);
  const element = h("div", { class: "w12 opened", id, hidden: true }, head, scatter.element, own.element, rows);
  /** @type {Map<string, Promise<any>>} */
  const known = new Map();
  /** @type {Tab[]} */
  let all = [];
  let shown = "";
  let chosen = "";
  let asked = 0;
  let picked = 0; // which of its charts
  let guess = ""; // chip that was chosen and not yet said to be right
  /** @type {Set<string>} */
  const reopened = new Set(); // measurements whose chip is asked for once more
  const asks = (/** @type {Measurement} */ one) => asksDevice(one) || reopened.has(one.id);

  /**
   * An answer that is asked for once; a refusal is asked for again.
   * @template T @param {string} key @param {() => Promise<T>} ask @returns {Promise<T>}
   */
  function once(key, ask) {
    if (!known.has(key)) {
      const answer = ask();
      known.set(key, answer);
      answer.catch(() => known.delete(key));
    }
    return /** @type {Promise<T>} */ (known.get(key));
  }

  /** @param {Measurement} measurement @returns {Promise<PredictedRows | null>} */
  async function predicted(measurement) {
    if (!measurement.rows.length) return null;
    const chip = asks(measurement) ? chipMeant(guessed(measurement)) : "";
    const asked = typeof chip === "string" ? chip : JSON.stringify(chip);
    const key = `${measurement.id} rows ${asked} ${state.calibration}`;
    const found = await once(key, () => api.rows(measurement.id, asked)).catch(orNull);
    if (found?.unpredicted) known.delete(key); // a CPU that is not measured yet may be soon
    return found;
  }

  /** @param {string[]} ids @param {string} [wanted]  the table to open, else the first */
  async function update(ids, wanted = "") {
    const key = ids.join();
    if (key !== shown) {
      shown = key;
      const found = await Promise.all(ids.map((one) => once(one, () => api.measurement(one)).catch(orNull)));
      if (key !== shown) return;
      guess = "";
      reopened.clear();
      all = toldApart(found.flatMap((one) => (one ? tabsOf(one) : [])));
    } else if (!wanted || wanted === chosen) return;
    element.hidden = !all.length;
    const now = all.find((one) => one.key === wanted) ?? all.find((one) => one.measurement.id === wanted) ?? all[0];
    if (now) await open(now);
  }

  /** @param {Tab} tab */
  async function open(tab) {
    const number = ++asked;
    if (chosen !== tab.key) picked = 0;
    chosen = tab.key;
    element.dataset.details = tab.measurement.id;
    tabs.hidden = all.length < 2;
    tabs.replaceChildren(
      ...all.map((one) =>
        h(
          "span",
          { class: one === tab ? "chip on" : "chip" },
          h("button", {
            type: "button",
            class: "text",
            text: one.label,
            "aria-current": one === tab && "true",
            onclick: () => {
              opened(one.key);
              void trying(open(one));
            },
          }),
        ),
      ),
    );
    put(title, tab.measurement.label || tab.measurement.id);
    const beside = await predicted(tab.measurement);
    if (number !== asked) return;
    draw(tab, beside);
    const on = tabs.querySelector(".on")?.getBoundingClientRect();
    const box = tabs.getBoundingClientRect();
    if (on && (on.top < box.top || on.bottom > box.bottom)) tabs.scrollTop += on.top - box.top;
  }

  /** @param {Tab} tab @param {PredictedRows | null} beside */
  function draw(tab, beside) {
    const { measurement, at } = tab;
    const plain = tablesIn(measurement)[at];
    const [full] = tablesIn({ ...measurement, rows: besideRows(measurement.rows, beside) }).slice(at, at + 1);
    put(sub, plain ? plain.title : plural(measurement.warnings.length, "warning"));
    save.hidden = !full;
    whole = full ? [full.table] : [];
    const chip = guessed(measurement);
    questions.update(measurement, chip, alike(measurement, chip).length, asks(measurement), beside?.names ?? {});
    const said = errorWords(beside);
    again.update(beside?.doubt ?? "");
    put(words, questions.open() && chip && !beside?.unpredicted && said ? `If that is right: ${said}` : said);
    const { table, words: common } = full ? withoutCommon(full.table) : { table: null, words: "" };
    scroller.fill(
      table
        ? h("div", {}, common && h("p", { class: "hint", text: `All rows: ${common}` }), tableView(table))
        : h("p", { class: "empty", text: "No table." }),
    );
    warned.replaceChildren(
      ...(measurement.warnings?.length
        ? [
            h(
              "details",
              { class: "warned", open: !full },
              h("summary", { text: plural(measurement.warnings.length, "warning") }),
              warningList(measurement.warnings),
            ),
          ]
        : []),
    );
    const indices = (plain?.rows ?? []).map((row) => measurement.rows.indexOf(row));
    const should = indices.map((place) => beside?.rows[place] ?? {});
    drawFigures(measurement, beside, plain?.rows ?? [], should, common);
  }

  /** @param {Measurement} measurement @param {PredictedRows | null} beside @param {Record<string, any>[]} some @param {Record<string, any>[]} should @param {string} common */
  function drawFigures(measurement, beside, some, should, common) {
    const rowsWords = rowWords(some);
    const pairs = chiefPairs(
      some.flatMap((row, at) =>
        Object.entries(should[at]).map(([column, value]) => ({
          words: rowsWords[at] || common.slice(0, 40),
          column: bare(column),
          kind: kindOf(column),
          measured: row[column],
          predicted: value,
        })),
      ),
    );
    // a file of several tables has the charts of all its rows: each table only its own
    const charts = some.length < 2 ? [] : chartsOf({ ...measurement, rows: some }, { rows: should });
    const chart = charts[Math.min(picked, charts.length - 1)];
    scatter.element.hidden = !pairs.length;
    own.element.hidden = !chart;
    scatter.element.classList.toggle("w12", !chart);
    own.element.classList.toggle("w12", !pairs.length);
    if (pairs.length) {
      put(scatter.sub, `${count(pairs.filter(isInside).length)} of ${count(pairs.length)} inside ±15 %`);
      scatter.later(() => {
        const found = predictedOverMeasured({ pairs, colour, narrow: narrow() });
        scatter.explain(found.legend);
        return found;
      });
    }
    if (!chart) return;
    which.hidden = charts.length < 2;
    which.replaceChildren(...charts.map(({ title: text }, at) => h("option", { value: String(at), text })));
    which.value = String(charts.indexOf(chart));
    which.onchange = () => {
      picked = Number(which.value);
      drawFigures(measurement, beside, some, should, common);
    };
    put(own.sub, [which.hidden && chart.title, kindsOf(chart)].filter(Boolean).join("; "));
    own.later(() => {
      own.explain(legendOf(chart));
      return tableChart({ chart, colour, narrow: narrow() });
    });
  }

  /** The chip that is taken for the one that was measured, until somebody says: the likeliest of the table's, by all of the file's; none where nothing speaks for any. @param {Measurement} measurement */
  function guessed(measurement) {
    if (guess) return guess;
    const own = new Set((measurement.device.candidates ?? []).map((/** @type {any} */ { chip }) => chip));
    /** @type {Map<string, number>} */
    const votes = new Map();
    for (const { device } of siblings(measurement))
      (device.candidates ?? []).forEach((/** @type {any} */ { chip, why }, /** @type {number} */ at) => {
        if (why && (!own.size || own.has(chip))) votes.set(chip, (votes.get(chip) ?? 0) + 1 / (1 + at));
      });
    return [...votes].sort(([, a], [, b]) => b - a)[0]?.[0] ?? "";
  }

  /** Measurements of the same file that say as little of what they ran on. @param {Measurement} measurement */
  function siblings(measurement) {
    const each = [...new Map(all.map((one) => [one.measurement.id, one.measurement])).values()];
    return each.filter((one) => asks(one) && one.device.name === measurement.device.name);
  }

  /** Those of them that this chip may have run: two parts of one file may be two machines. @param {Measurement} measurement @param {string} chip */
  const alike = (measurement, chip) =>
    siblings(measurement).filter(({ id, device: { candidates = [] } }) => {
      const free = !candidates.length || chip.startsWith(OWN);
      const possible = free || candidates.some((/** @type {any} */ one) => one.chip === chip);
      return possible || id === measurement.id;
    });

  /** All tables of the file that may have run on this chip did. @param {string} chip */
  async function answer(chip) {
    const tab = all.find((one) => one.key === chosen);
    const ids = tab ? alike(tab.measurement, chip).map((one) => one.id) : [];
    await Promise.all(ids.map((one) => api.ranOn(one, chipMeant(chip))));
    reopened.clear();
    await anew(ids);
  }

  /** A name means the same in all tables of the file. @param {string} name @param {string} chip */
  async function answerName(name, chip) {
    const having = all.filter(({ measurement }) => measurement.rows.some((row) => gpuOf(row) === name));
    const ids = [...new Set(having.map(({ measurement }) => measurement.id))];
    await Promise.all(ids.map((one) => api.ranOn(one, chipMeant(chip), name)));
    await anew(ids);
  }

  /** Ask for measurements once more, of which something was said. @param {string[]} ids */
  async function anew(ids) {
    for (const one of ids) for (const key of known.keys()) if (key.split(" ")[0] === one) known.delete(key);
    const every = shown.split(",");
    shown = "";
    await update(every, chosen);
  }

  subscribe(["theme", "calibration", "catalog"], () => {
    const tab = all.find((one) => one.key === chosen);
    if (tab && !element.hidden) void trying(open(tab));
  });
  return { element, update };
}

/** Tables of one name are told apart by their kinds. @param {Tab[]} tabs @returns {Tab[]} */
const toldApart = (tabs) =>
  tabs.map((tab) =>
    tabs.some((other) => other !== tab && other.label === tab.label)
      ? { ...tab, label: `${tab.label}: ${kindWords(tab.measurement)}` }
      : tab,
  );

/** One for each table of a measurement, one for its warnings where it has no table. @param {Measurement} measurement @returns {Tab[]} */
function tabsOf(measurement) {
  const tables = tablesIn(measurement);
  const label = measurement.label || measurement.id;
  if (!tables.length && !measurement.warnings?.length) return [];
  return (tables.length ? tables : [null]).map((table, at) => ({
    key: at ? `${measurement.id}.${at}` : measurement.id,
    label: tables.length > 1 && table ? `${label}: ${table.title}` : label,
    measurement,
    at,
  }));
}

/** @param {Measurement} measurement @returns {Titled[]} */
function tablesIn({ rows, kernels, collectives }) {
  const found = tablesOf(rows).map(({ name, table, rows: own }) => ({
    title: [name.replaceAll("_", " "), plural(table.rows.length, "row")].filter(Boolean).join(", "),
    table,
    rows: own,
  }));
  if (kernels.length) {
    const sorted = [...kernels].sort((a, b) => b.total_s - a.total_s);
    found.push({
      title: `${plural(kernels.length, "kernel")} of one step, by time`,
      table: pick(sorted, { name: "", category: "", count: "", total_s: "", flops: "flops", bytes: "bytes" }),
      rows: [],
    });
  }
  // an import that has rows says the same there, with more beside it
  if (collectives.length && !rows.length) {
    found.push({
      title: plural(collectives.length, "collective"),
      table: pick(collectives, {
        kind: "",
        bytes: "bytes",
        ranks: "",
        seconds: "s",
        algorithm_bytes_per_s: "",
        bus_bytes_per_s: "",
      }),
      rows: [],
    });
  }
  return found;
}

/**
 * @param {Record<string, any>[]} some
 * @param {Record<string, string>} units  by key; "" reads the unit from the key
 * @returns {import("../../types.js").Table}
 */
const pick = (some, units) => ({
  columns: Object.entries(units).map(([key, unit]) => (unit ? { title: key, unit } : columnOf(key))),
  rows: some.map((one) => Object.keys(units).map((key) => one[key] ?? null)),
});
