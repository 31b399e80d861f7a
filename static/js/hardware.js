/** Hardware as multiples of the catalogue's: a chip that computes or reads faster, links that carry more. Pure. */

/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {import("./types.js").Catalog} Catalog */
/** @typedef {"flops" | "memory" | "link" | "network"} Part */

/** What can be multiplied, and what people call it. @type {[Part, string][]} */
export const PARTS = [
  ["flops", "FLOP/s"],
  ["memory", "memory"],
  ["link", "link"],
  ["network", "network"],
];
/** Rates of every unit and precision that a chip has. @param {import("./types.js").Part} chip */
const peaksOf = (chip) => Object.keys(chip).filter((name) => name.endsWith("_flops_per_s"));

/** @param {any} given @param {import("./types.js").Entry[]} entries */
const entryOf = (given, entries) =>
  entries.find(({ key }) => key === (typeof given === "string" ? given : given?.name));

/** The chip of the catalogue that a scenario's is made from. @param {Scenario} scenario @param {Catalog} catalog */
const chipEntry = ({ cluster }, catalog) => entryOf(cluster.chip, catalog.chips);

/** @param {Scenario} scenario @param {Catalog} catalog @param {"link" | "network"} part */
function linkOf({ cluster }, catalog, part) {
  const chip = entryOf(cluster.chip, catalog.chips);
  const given = cluster[part] ?? chip?.value[part];
  return { given, entry: entryOf(given, catalog.links) };
}

/**
 * How many times the catalogue's value each part has; null where the catalogue knows none.
 * @param {Scenario} scenario @param {Catalog} catalog @returns {Record<Part, number | null>}
 */
export function multiples(scenario, catalog) {
  const { chip } = scenario.cluster;
  const entry = chipEntry(scenario, catalog);
  const of = (/** @type {string} */ name) =>
    !entry ? null : typeof chip === "string" ? 1 : chip[name] / entry.value[name];
  const times = (/** @type {"link" | "network"} */ part) => {
    const { given, entry: link } = linkOf(scenario, catalog, part);
    if (!link) return null;
    return typeof given === "string" ? 1 : given.bytes_per_s / link.value.bytes_per_s;
  };
  return {
    flops: of("fp32_flops_per_s"),
    memory: of("memory_bytes_per_s"),
    link: times("link"),
    network: times("network"),
  };
}

/** @param {number} times */
export const timesWords = (times) => `×${Number(times.toPrecision(3))}`;

/**
 * The scenario with one part at a multiple of the catalogue's; what is all × 1 is the catalogue's own again.
 * @param {Scenario} scenario @param {Catalog} catalog @param {Part} part @param {number} times @returns {Scenario}
 */
export function multiplied(scenario, catalog, part, times) {
  const cluster = { ...scenario.cluster };
  if (part === "link" || part === "network") {
    const { entry } = linkOf(scenario, catalog, part);
    const usual = chipEntry(scenario, catalog)?.value[part];
    if (!entry) return scenario;
    if (times !== 1) {
      const { value, key, label } = entry;
      cluster[part] = {
        ...value,
        name: key,
        label: `${label} ${timesWords(times)}`,
        bytes_per_s: value.bytes_per_s * times,
      };
    } else if (entry.key === usual) delete cluster[part];
    else cluster[part] = entry.key;
    return { ...scenario, cluster };
  }
  const entry = chipEntry(scenario, catalog);
  if (!entry) return scenario;
  const now = { ...multiples(scenario, catalog), [part]: times };
  const [flops, memory] = [now.flops ?? 1, now.memory ?? 1];
  if (flops === 1 && memory === 1) return { ...scenario, cluster: { ...cluster, chip: entry.key } };
  const said = [flops !== 1 && `${timesWords(flops)} FLOP/s`, memory !== 1 && `${timesWords(memory)} memory`];
  const chip = {
    ...entry.value,
    name: entry.key,
    label: [entry.label, ...said].filter(Boolean).join(" "),
    memory_bytes_per_s: entry.value.memory_bytes_per_s * memory,
    ...Object.fromEntries(peaksOf(entry.value).map((name) => [name, entry.value[name] * flops])),
  };
  return { ...scenario, cluster: { ...cluster, chip } };
}

/**
 * A chip and a link of the catalogue at multiples of their rates, as an address gives them: by name where all is × 1, else
 * by their fields as JSON; a link "" where it is the chip's own at × 1.
 * @param {string} chip @param {string} link  "": the chip's own @param {Record<Part, number>} times @param {Catalog} catalog
 * @returns {{chip: string, link: string}}
 */
export function multipliedPart(chip, link, times, catalog) {
  const start = { cluster: { chip, ...(link && { link }) } };
  const { cluster } = /** @type {Part[]} */ (["flops", "memory", "link"]).reduce(
    (scenario, part) => multiplied(scenario, catalog, part, times[part]),
    /** @type {Scenario} */ (/** @type {unknown} */ (start)),
  );
  const written = (/** @type {unknown} */ one) => (typeof one === "string" ? one : JSON.stringify(one));
  return { chip: written(cluster.chip), link: times.link === 1 ? link : written(cluster.link) };
}
