// @ts-check
/** What a chosen measurement holds beyond one step: its tables, kernels, collectives and warnings; one card each. */
import { api, ApiError } from "../api.js";
import { count, csv, plural } from "../format.js";
import { download, h } from "./dom.js";
import { createScroller } from "./scroller.js";
import { columnOf, tablesOf, tableView } from "./table.js";
import { warningList } from "./warnings.js";

/** @typedef {import("../types.js").Measurement} Measurement */
/** @typedef {{title: string, table: import("../types.js").Table}} Titled */

const CONTENTS_FROM = 4;

export function createDetails() {
  const element = h("div", { class: "w12 column", id: "details" });
  /** @type {Map<string, Promise<Measurement | null>>} */
  const known = new Map();
  let shown = "";

  /** @param {string[]} ids */
  async function update(ids) {
    const key = ids.join();
    if (key === shown) return;
    shown = key;
    for (const id of ids) {
      if (!known.has(id))
        known.set(
          id,
          api.measurement(id).catch((error) => (error instanceof ApiError ? null : Promise.reject(error))),
        );
    }
    const found = await Promise.all(ids.map((id) => known.get(id)));
    if (key !== shown) return;
    const cards = found.flatMap((one) => (one ? card(one) : []));
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

/** @param {Measurement} measurement @returns {{label: string, element: HTMLElement}[]} */
function card(measurement) {
  const tables = tablesIn(measurement);
  if (!tables.length && !measurement.warnings?.length) return [];
  const label = measurement.label || measurement.id;
  const many = tables.length > 1;
  const save = () =>
    tables.forEach(({ title, table }) =>
      download(
        `${[label, many && title]
          .filter(Boolean)
          .join("-")
          .replace(/[^\w.-]+/g, "-")}.csv`,
        csv(table),
      ),
    );
  const element = h(
    "section",
    { class: "card", "data-details": measurement.id },
    h(
      "header",
      {},
      h("h3", { text: label }),
      h("span", { class: "sub", text: many ? "" : tables.map(({ title }) => title).join() }),
      tables.length
        ? h(
            "span",
            { class: "acts" },
            h("button", { type: "button", text: "CSV", "aria-label": `${label}: download CSV`, onclick: save }),
          )
        : null,
    ),
    tables
      .map(({ title, table }) => [
        many ? h("p", { class: "hint", text: title }) : null,
        filled(`${title} of ${label}`, table),
      ])
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
  return [{ label, element }];
}

/** @param {string} label @param {import("../types.js").Table} table */
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
 * @returns {import("../types.js").Table}
 */
const pick = (some, units) => ({
  columns: Object.entries(units).map(([key, unit]) => (unit ? { title: key, unit } : columnOf(key))),
  rows: some.map((one) => Object.keys(units).map((key) => one[key] ?? null)),
});
