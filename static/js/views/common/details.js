/** What a chosen measurement holds beyond one step: its tables, kernels, collectives and warnings; one card each. */
import { api, ApiError } from "../../api.js";
import { count, plural } from "../../format.js";
import { legendOf, tableChart } from "../../figures/tableChart.js";
import { chartsOf } from "../../figures/tableCharts.js";
import { besideRows, errorWords } from "../../predictedRows.js";
import { state } from "../../state.js";
import { colour, h, narrow } from "./dom.js";
import { FigureCard } from "./figure.js";
import { createTableSave } from "./save.js";
import { createScroller } from "./scroller.js";
import { columnOf, tablesOf, tableView, withoutCommon } from "./table.js";
import { warningList } from "./warnings.js";

/** @typedef {import("../../types.js").Measurement} Measurement */
/** @typedef {import("../../types.js").PredictedRows} PredictedRows */
/** @typedef {{title: string, table: import("../../types.js").Table}} Titled */

const CONTENTS_FROM = 4;

/** Nothing, where the server refuses. @param {unknown} error */
const orNull = (error) => (error instanceof ApiError ? null : Promise.reject(error));

/** @param {string} [id]  of its element */
export function createDetails(id = "details") {
  const element = h("div", { class: "w12 column", id });
  /** @type {Map<string, Promise<any>>} */
  const known = new Map();
  let shown = "";

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

  /** @param {string} id @returns {Promise<Measurement | null>} */
  const measurementOf = (id) => once(id, () => api.measurement(id)).catch(orNull);

  /** @param {Measurement | null} measurement @returns {Promise<PredictedRows | null>} */
  async function predicted(measurement) {
    if (!measurement?.rows.length) return null;
    const key = `${measurement.id} rows`;
    const found = await once(key, () => api.rows(measurement.id, "")).catch(orNull);
    if (found?.unpredicted) known.delete(key); // a CPU that is not measured yet may be soon
    return found;
  }

  /** @param {string[]} ids */
  async function update(ids) {
    const key = ids.join();
    if (key === shown) return;
    shown = key;
    const found = await Promise.all(ids.map(measurementOf));
    const beside = await Promise.all(found.map(predicted));
    if (key !== shown) return;
    const answer = (/** @type {string} */ id, /** @type {string} */ chip) =>
      api.ranOn(id, chip).then(() => {
        [id, `${id} rows`].forEach((known_) => known.delete(known_));
        shown = "";
        return update(ids);
      });
    const cards = found.flatMap((one, at) => (one ? card(one, beside[at], answer) : []));
    const contents = h(
      "nav",
      { class: "pins", "aria-label": "Tables" },
      cards.map(({ label, element: to }) =>
        h(
          "span",
          { class: "chip" },
          h("button", { type: "button", class: "text", text: label, onclick: () => to.scrollIntoView() }),
        ),
      ),
    );
    element.replaceChildren(...(cards.length >= CONTENTS_FROM ? [contents] : []), ...cards.map((one) => one.element));
  }
  return { element, update };
}

/**
 * Asks which chip an upload's table was measured on, the likely ones first; nothing where the table says it.
 * @param {Measurement} measurement @param {(id: string, chip: string) => Promise<void>} answer
 */
function whichDevice({ id, label, device, origin, rows }, answer) {
  if (!rows.length || device.name || device.kind === "cpu" || origin.kind !== "upload") return null;
  /** @type {{chip: string, why: string}[]} */
  const likely = device.candidates ?? [];
  const labels = new Map(state.catalog.chips.map((chip) => [chip.key, chip.label]));
  const others = [...labels.keys()].filter((key) => !likely.some(({ chip }) => chip === key));
  const offer = (/** @type {string} */ chip, why = "") =>
    h("option", { value: chip, text: [labels.get(chip) ?? chip, why].filter(Boolean).join(": ") });
  const choice = h(
    "select",
    { "aria-label": `${label || id}: measured on` },
    h("option", { value: "", text: "choose the chip" }),
    likely.length
      ? h(
          "optgroup",
          { label: "likely" },
          likely.map(({ chip, why }) => offer(chip, why)),
        )
      : null,
    h(
      "optgroup",
      { label: likely.length ? "others" : "chips" },
      others.map((chip) => offer(chip)),
    ),
  );
  choice.addEventListener("change", () => choice.value && answer(id, choice.value));
  return h(
    "p",
    { class: "hint" },
    "Which chip was this measured on? Until you say, nothing is predicted beside it. ",
    choice,
  );
}

/**
 * @param {Measurement} measurement @param {PredictedRows | null} predicted
 * @param {(id: string, chip: string) => Promise<void>} answer  where it was measured
 * @returns {{label: string, element: HTMLElement}[]}
 */
function card(measurement, predicted, answer) {
  const tables = tablesIn({ ...measurement, rows: besideRows(measurement.rows, predicted) });
  const words = errorWords(predicted);
  if (!tables.length && !measurement.warnings?.length) return [];
  const label = measurement.label || measurement.id;
  const many = tables.length > 1;
  const save = createTableSave({ title: label, name: () => label, tables: () => tables.map(({ table }) => table) });
  const element = h(
    "section",
    { class: "card", "data-details": measurement.id },
    h(
      "header",
      {},
      h("h3", { text: label }),
      h("span", { class: "sub", text: many ? "" : tables.map(({ title }) => title).join() }),
      tables.length ? h("span", { class: "acts" }, save) : null,
    ),
    whichDevice(measurement, answer) ?? (words && h("p", { class: "hint", text: words })),
    tables
      .map(({ title, table: whole }) => {
        const { table, words: common } = withoutCommon(whole);
        return [
          many ? h("p", { class: "hint", text: title }) : null,
          common && h("p", { class: "hint", text: `All rows: ${common}` }),
          filled(`${title} of ${label}`, table),
        ];
      })
      .flat(),
    measurement.warnings?.length
      ? h(
          "details",
          { class: "warned", open: !tables.length },
          h("summary", {
            text: plural(measurement.warnings.length, "warning"),
          }),
          warningList(measurement.warnings),
        )
      : null,
  );
  return [{ label, element: h("div", { class: "column" }, element, pictures(measurement, predicted, label)) }];
}

/**
 * The pictures that the table's kind deserves.
 * @param {Measurement} measurement @param {PredictedRows | null} predicted @param {string} label
 */
function pictures(measurement, predicted, label) {
  return chartsOf(measurement, predicted).map((chart, at) => {
    const card = new FigureCard({
      id: `chart-${measurement.id}-${at}`,
      title: chart.title[0].toUpperCase() + chart.title.slice(1),
      height: 320,
      span: "",
      name: () => label.replace(/[^\w.-]+/g, "-"),
      about: () => label,
    });
    const several = chart.series.some((one) => one.predicted);
    card.sub.textContent = several ? `${label}; dashed or hatched: predicted` : label;
    card.explain(legendOf(chart));
    card.later(() => tableChart({ chart, colour, narrow: narrow() }));
    return card.element;
  });
}

/** @param {string} label @param {import("../../types.js").Table} table */
function filled(label, table) {
  const scroller = createScroller(label, "tall");
  scroller.fill(tableView(table));
  return scroller.element;
}

/** @param {Measurement} measurement @returns {Titled[]} */
function tablesIn({ rows, kernels, collectives }) {
  const found = tablesOf(rows).map(({ name, table }) => ({
    title: [name.replaceAll("_", " "), `${count(table.rows.length)} rows`].filter(Boolean).join(", "),
    table,
  }));
  if (kernels.length) {
    const sorted = [...kernels].sort((a, b) => b.total_s - a.total_s);
    found.push({
      title: `${count(kernels.length)} kernels of one step, by time`,
      table: pick(sorted, { name: "", category: "", count: "", total_s: "", flops: "flops", bytes: "bytes" }),
    });
  }
  // an import that has rows says the same there, with more beside it
  if (collectives.length && !rows.length) {
    found.push({
      title: `${count(collectives.length)} collectives`,
      table: pick(collectives, {
        kind: "",
        bytes: "bytes",
        ranks: "",
        seconds: "s",
        algorithm_bytes_per_s: "",
        bus_bytes_per_s: "",
      }),
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
