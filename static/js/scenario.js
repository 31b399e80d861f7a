/** Scenarios as plain values: complete, name, compare, change one field, describe. Pure. */
import { batchFollowing, following } from "./coupledFields.js";
import { significant } from "./format.js";
import { relayout } from "./relayout.js";
import { wordOf } from "./words.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {import("./types.js").Catalog} Catalog */

/** Text that is equal exactly when two values are. @param {any} value @returns {string} */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value && typeof value === "object") {
    return `{${Object.keys(value)
      .sort()
      .map((key) => `${key}:${canonical(value[key])}`)
      .join()}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** @param {any} a @param {any} b */
export const same = (a, b) => a === b || canonical(a) === canonical(b);

/** @param {any} scenario @param {string} path */
export const get = (scenario, path) =>
  path === "cluster.chips" ? chips(scenario) : path.split(".").reduce((part, key) => part?.[key], scenario);

/** Chips that the plan's degrees multiply to. @param {Scenario} scenario */
export const chips = ({ plan }) => plan.dp * plan.tp * plan.pp * (plan.cp ?? 1);

/** Chips that a cluster has. @param {import("./types.js").Part} cluster @returns {number} */
export const clusterChips = ({ chips_per_node, nodes }) => chips_per_node * nodes;

/**
 * Fill in every default, and write catalogue entries by name where the values are the catalogue's own,
 * so that equal scenarios are equal objects.
 * @param {any} scenario @param {Catalog} catalog @returns {Scenario}
 */
export function complete(scenario, catalog) {
  /** @type {any} */
  const parts = { plan: {}, training: {} };
  for (const [path, field] of Object.entries(catalog.fields)) {
    const [part, name] = path.split(".");
    if (parts[part] && field.default !== undefined && field.default !== null) parts[part][name] = field.default;
  }
  return {
    model: brief(named(scenario.model, catalog.models, full(scenario.model, catalog)), "model", catalog),
    cluster: completeCluster(scenario.cluster, catalog),
    plan: { ...parts.plan, ...scenario.plan },
    training: { ...parts.training, ...scenario.training },
  };
}

/**
 * A cluster, or its chip alone, with nodes as the chip has them.
 * @param {any} cluster @param {Pick<Catalog, "chips" | "links">} catalog @returns {import("./types.js").Part}
 */
export function completeCluster(cluster, catalog) {
  const given = typeof cluster === "string" ? { chip: cluster } : cluster;
  const chip = named(given.chip, catalog.chips);
  const its = typeof chip === "string" ? catalog.chips.find(({ key }) => key === chip)?.value : chip;
  /** @type {any} */
  const found = { chip, chips_per_node: given.chips_per_node ?? its?.chips_per_node ?? 8, nodes: given.nodes ?? 1 };
  for (const name of ["link", "network"]) {
    const link = given[name] && named(given[name], catalog.links);
    if (link && link !== its?.[name]) found[name] = link;
  }
  return found;
}

/**
 * An inline model with the fields that it leaves out, which then have their defaults.
 * @param {any} model @param {Catalog} catalog
 */
function full(model, { fields }) {
  if (typeof model !== "object") return model;
  const own = Object.entries(fields).filter(([path]) => path.startsWith("model."));
  return { ...Object.fromEntries(own.map(([path, field]) => [path.slice(6), field.default ?? null])), ...model };
}

/**
 * An inline object without the fields that say only the default.
 * @param {any} value
 * @param {string} part
 * @param {Catalog} catalog
 */
function brief(value, part, { fields }) {
  if (typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).filter(([name, its]) => fields[`${part}.${name}`]?.default !== its || name === "name"),
  );
}

/** @param {any} value @param {import("./types.js").Entry[]} entries @param {any} [filled]  with its defaults */
function named(value, entries, filled = value) {
  if (typeof value === "string") {
    const word = value.toLowerCase();
    return (
      entries.find(({ key, aliases }) => key === word || aliases.some((alias) => alias.toLowerCase() === word)) ?? {
        key: value,
      }
    ).key;
  }
  return entries.find((entry) => entry.key === value?.name && agree(entry.value, filled))?.key ?? value;
}

/**
 * Whether an inline object says nothing that its entry of the catalogue denies; fields may have come since it was
 * written.
 * @param {import("./types.js").Part} entry @param {import("./types.js").Part} given
 */
const agree = (entry, given) => Object.entries(given).every(([name, its]) => same(entry[name], its));

/** @param {Scenario} scenario @param {Catalog} catalog @returns {import("./types.js").Part} */
export const modelOf = ({ model }, catalog) =>
  typeof model === "string" ? (catalog.models.find(({ key }) => key === model)?.value ?? {}) : model;
/** @param {Scenario} scenario @param {Catalog} catalog @returns {import("./types.js").Part} */
export const chipOf = ({ cluster }, catalog) =>
  typeof cluster.chip === "string"
    ? (catalog.chips.find(({ key }) => key === cluster.chip)?.value ?? {})
    : cluster.chip;

/**
 * Memory of one rank, null where it is not known: a chip's, of a CPU an even share of its node's ranks.
 * @param {Scenario} scenario @param {Catalog} catalog @returns {number | null}
 */
export function rankBytes(scenario, catalog) {
  const { kind, memory_bytes, chips_per_node } = chipOf(scenario, catalog);
  if (!memory_bytes) return null;
  const ranks = kind === "cpu" ? Math.floor(scenario.cluster.chips_per_node / (chips_per_node ?? 8)) : 1;
  return memory_bytes / Math.max(ranks || 1, 1);
}

/**
 * Nodes for a number of chips: nodes of the usual size, or the largest size that divides.
 * @param {any} cluster @param {number} total @param {number} usual
 */
export function resized(cluster, total, usual) {
  let size = Math.min(usual, total);
  while (total % size) size -= 1;
  return { ...cluster, chips_per_node: size, nodes: total / size };
}

/**
 * Change one field and what must follow it. tp, cp and pp keep the number of chips where they can (dp gives way); dp
 * changes it; the batch follows dp.
 * @param {Scenario} scenario @param {string} path @param {any} value @param {number} usual  chips in a usual node
 * @returns {Scenario}
 */
export function withField(scenario, path, value, usual) {
  const next = structuredClone(scenario);
  const [part, name] = path.split(".");
  const size = Math.max(usual, scenario.cluster.chips_per_node); // nodes larger than usual stay that large
  if (path === "cluster.nodes")
    return withField(scenario, "cluster.chips", value * scenario.cluster.chips_per_node, usual);
  if (path === "cluster.chips") {
    Object.assign(next.plan, relayout(next.plan, value));
    next.cluster = resized(next.cluster, value, size);
    return batched(next, scenario);
  }
  /** @type {any} */ (next)[part][name] = value;
  if (part === "plan") Object.assign(next.plan, following(scenario.plan, name, value));
  if (path === "plan.tp" || path === "plan.cp" || path === "plan.pp") {
    const rest = chips(scenario) / (next.plan.tp * next.plan.pp * next.plan.cp);
    if (Number.isInteger(rest) && rest >= 1) next.plan.dp = rest;
  }
  const total = chips(next);
  if (part === "plan" && Number.isInteger(total) && total >= 1 && total !== clusterChips(next.cluster)) {
    next.cluster = resized(next.cluster, total, size);
  }
  return batched(next, scenario);
}

/** Let the batch follow dp where that has changed. @param {Scenario} next @param {Scenario} before */
function batched(next, before) {
  const { dp } = next.plan;
  if (dp === before.plan.dp || !Number.isInteger(dp) || dp < 1) return next;
  for (const [path, value] of batchFollowing(next.plan, next.training)) {
    const [part, name] = path.split(".");
    /** @type {any} */ (next)[part][name] = value;
  }
  return next;
}

/**
 * Fields in which two scenarios differ. Names differ as names; objects as wholes.
 * @param {Scenario} a @param {Scenario} b @returns {{path: string, a: any, b: any}[]}
 */
export function differences(a, b) {
  const found = same(a.model, b.model) ? [] : [{ path: "model", a: nameOf(a.model), b: nameOf(b.model) }];
  for (const part of /** @type {const} */ (["cluster", "plan", "training"])) {
    for (const name of new Set([...Object.keys(a[part]), ...Object.keys(b[part])])) {
      const [x, y] = [a[part][name], b[part][name]];
      if (!same(x, y)) found.push({ path: `${part}.${name}`, a: nameOf(x), b: nameOf(y) });
    }
  }
  return found;
}

/** @param {any} value */
const nameOf = (value) => (value && typeof value === "object" ? value.label || value.name || "custom" : value);

/** Axes that everybody who splits a model calls by two letters. */
const SHORT = ["dp", "tp", "cp", "pp", "ep"];

/**
 * What of a scenario is another than in `from`, in the words of the panel, as in "tp 8, ZeRO-3".
 * @param {Scenario} scenario @param {Scenario} from @param {Catalog} catalog
 */
export function shortLabel(scenario, from, catalog, most = 3) {
  const found = differences(scenario, from).filter(
    ({ path }) => !["cluster.nodes", "cluster.chips_per_node"].includes(path),
  );
  if (!found.length) return "this scenario";
  const words = found.map(({ path, a, b }) => {
    const name = path.split(".").pop() ?? path;
    if (SHORT.includes(name)) return `${name} ${a}`;
    // a part at a multiple of the catalogue's: by how much is what tells it apart, and is never cut off
    const times = multipleIn(a);
    if (times && path.startsWith("cluster.")) return `${name} ${times}`;
    if (a === undefined && multipleIn(b)) return `${name} ×1`;
    if (name === "chip") return labelOf(a, catalog.chips);
    if (name === "model") return labelOf(a, catalog.models);
    return wordOf(name, a, catalog.fields);
  });
  return words.slice(0, most).join(", ") + (words.length > most ? ` +${words.length - most}` : "");
}

/** What a label of hardware.js says behind the catalogue's, as in "×0.5 memory". @param {any} label */
const multipleIn = (label) => String(label ?? "").match(/×[\d.]+( (FLOP\/s|memory))?( ×[\d.]+ memory)?$/)?.[0] ?? "";

/** A name of the catalogue as people say it. @param {any} value @param {import("./types.js").Entry[]} entries */
const labelOf = (value, entries) =>
  String(entries.find(({ key }) => key === value)?.label ?? nameOf(value)).replace(/^(NVIDIA|AMD|Google) /, "");

/** A scenario in one line. @param {Scenario} scenario @param {Catalog} catalog */
export function describe(scenario, catalog) {
  const degrees = ["dp", "tp", "cp", "pp", "ep"]
    .filter((name) => scenario.plan[name] > 1)
    .map((name) => `${name} ${scenario.plan[name]}`);
  // the hardware that there is, also where the plan asks for more
  const total = clusterChips(scenario.cluster) || chips(scenario);
  const how = [total > 1 && `${significant(total, 6)} ×`, labelOf(scenario.cluster.chip, catalog.chips)].filter(
    Boolean,
  );
  return [labelOf(scenario.model, catalog.models), how.join(" "), degrees.join(" ")].filter(Boolean).join(" · ");
}

/** What one chip is called. @param {import("./types.js").Part} chip */
export const chipWord = (chip) => (/tpu/i.test(chip.name ?? "") ? "TPU" : /cpu/i.test(chip.name ?? "") ? "CPU" : "GPU");
/** What time × chips is called, as in GPU-hours. @param {Scenario} scenario @param {Catalog} catalog */
export const chipHoursWord = (scenario, catalog) => `${chipWord(chipOf(scenario, catalog))}-hours`;
