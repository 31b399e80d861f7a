// @ts-check
/** What a chosen measurement holds beyond one step: its tables, kernels, collectives and warnings. */
import { api, ApiError } from "../api.js";
import { csv } from "../format.js";
import { download, h } from "./dom.js";
import { columnOf, tablesOf, tableView } from "./table.js";

const KERNEL_KEYS = ["name", "category", "count", "total_s", "flops", "bytes"];
const COLLECTIVE_KEYS = ["kind", "bytes", "ranks", "seconds", "algorithm_bytes_per_s", "bus_bytes_per_s"];

export function createDetails() {
  const element = h("div", { class: "w12 column", id: "details" });
  /** @type {Map<string, Promise<import("../types.js").Measurement | null>>} */
  const known = new Map();
  let shown = "";

  /** @param {string[]} ids */
  async function update(ids) {
    const key = ids.join();
    if (key === shown) return;
    shown = key;
    for (const id of ids) {
      if (!known.has(id)) known.set(id, api.measurement(id).catch((error) => (error instanceof ApiError ? null : Promise.reject(error))));
    }
    const found = await Promise.all(ids.map((id) => known.get(id)));
    if (key !== shown) return;
    element.replaceChildren(...found.flatMap((one) => (one ? cards(one) : [])));
  }
  return { element, update };
}

/** @param {import("../types.js").Measurement} measurement */
function cards(measurement) {
  const pick = (/** @type {any[]} */ some, /** @type {string[]} */ keys) => ({
    columns: keys.map((key) => (key === "bytes" ? { title: "size", unit: "bytes" } : key === "seconds" ? { title: "time", unit: "s" } : key === "flops" ? { title: "FLOPs", unit: "flops" } : columnOf(key))),
    rows: some.map((one) => keys.map((name) => one[name] ?? null)),
  });
  const found = tablesOf(measurement.rows).map(({ name, table }) => card(measurement, name || "Rows", table, `${table.rows.length} rows`));
  if (measurement.kernels.length) {
    const sorted = [...measurement.kernels].sort((a, b) => b.total_s - a.total_s);
    found.push(card(measurement, "Kernels", pick(sorted, KERNEL_KEYS), `${sorted.length} by time in one step`));
  }
  if (measurement.collectives.length) found.push(card(measurement, "Collectives", pick(measurement.collectives, COLLECTIVE_KEYS), ""));
  if (measurement.warnings?.length) {
    found.push(h("section", { class: "card" }, h("header", {}, h("h3", { text: "Warnings" }), h("span", { class: "sub", text: measurement.label })), h(
      "ul", { class: "warnings" }, measurement.warnings.map(({ code, message, where }) => h("li", {}, h("code", { text: code }), ` ${message}`, where ? h("span", { class: "quiet", text: ` (${where})` }) : null)),
    )));
  }
  return found;
}

/** @param {import("../types.js").Measurement} measurement @param {string} title @param {import("../types.js").Table} table @param {string} note */
function card(measurement, title, table, note) {
  const file = `${measurement.label || measurement.id}-${title}`.replace(/[^\w.-]+/g, "-");
  return h("section", { class: "card", "data-table": title }, h("header", {}, h("h3", { text: title.replaceAll("_", " ") }), h("span", { class: "sub", text: [measurement.label, note].filter(Boolean).join(" · ") }), h(
    "span", { class: "acts" }, h("button", { type: "button", text: "CSV", "aria-label": `${title}: download CSV`, onclick: () => download(`${file}.csv`, csv(table)) }),
  )), h("div", { class: "scroll tall", tabindex: 0, "aria-label": `${title} of ${measurement.label}` }, tableView(table)));
}
