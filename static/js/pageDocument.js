/** What of the page can be taken along and opened again, here or on another server. Pure. */

/** @typedef {import("./types.js").Measurement} Measurement */

/** What the server adds to a measurement that it shows. */
const BESIDE = [
  "prediction",
  "expected",
  "proposed",
  "step_s",
  "disturbance",
  "rows_by_status",
  "predicted_rows",
  "unpredicted",
];
const VERSION = 1;
/** How a report begins, after which its document stands in a script of this id. */
export const REPORT_ID = "headroom-page";

/**
 * @typedef {{headroom: "page", version: number, link: string, measurements: Measurement[],
 *   op_lists?: Record<string, Record<string, any>>}} PageDocument  `link`: the query of the page's address; `op_lists`: of
 *   profiles and traced programs, by id of the measurement
 */

/** @param {Measurement} measurement */
const bare = (measurement) =>
  /** @type {Measurement} */ (
    Object.fromEntries(Object.entries(measurement).filter(([name]) => !BESIDE.includes(name)))
  );

/**
 * @param {{measurement: Measurement | null, pair: import("./sides.js").Pair | null}} shown @param {string} [link]
 * @returns {PageDocument}
 */
export function pageDocument({ measurement, pair }, link = location.search) {
  const all = [measurement, pair?.a?.measurement, pair?.b?.measurement].filter(
    (one) => one !== null && one !== undefined,
  );
  const known = new Map(all.map((one) => [one.id, bare(one)]));
  return { headroom: "page", version: VERSION, link, measurements: [...known.values()] };
}

/** The page's document in a file's text, null where there is none. @param {string} text @returns {PageDocument | null} */
export function documentIn(text) {
  const json = text.startsWith("{")
    ? text
    : new RegExp(`<script type="application/json" id="${REPORT_ID}">(.*?)</script>`, "s").exec(text)?.[1];
  if (!json) return null;
  try {
    const found = JSON.parse(json);
    const good = found.headroom === "page" && typeof found.link === "string" && Array.isArray(found.measurements);
    return good && found.version <= VERSION ? found : null;
  } catch {
    return null;
  }
}

/** The link with measurements as they are named here. @param {string} link @param {Map<string, string>} names  by their old name */
export function renamed(link, names) {
  const query = new URLSearchParams(link);
  const own = (/** @type {string} */ id) => names.get(id) ?? id;
  const pairs = [...query].map(([name, value]) => {
    if (name === "measured") return [name, own(value)];
    return [name, ["a", "b", "pin"].includes(name) && value.startsWith("m:") ? `m:${own(value.slice(2))}` : value];
  });
  const text = new URLSearchParams(pairs).toString();
  return text ? `?${text}` : "";
}
