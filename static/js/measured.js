/** What a measurement says about one step, without guessing what it does not say. Pure. */
import { quantity, seconds } from "./format.js";
import { clusterChips, complete, resized, same } from "./scenario.js";

/** @typedef {import("./types.js").Measurement} Measurement */
/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {import("./types.js").Entry} Entry */
/**
 * @typedef {{measurement: Measurement | null, measuredScenario: Scenario | null,
 *   catalog: import("./types.js").Catalog}} Chosen
 * @typedef {{pair: import("./sides.js").Pair | null, scenario: Scenario}} Standing  what stands as A and B, and the panel's
 */

/** @param {number[] | undefined} values */
export function median(values) {
  if (!values?.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param {Record<string, number> | undefined} amounts */
export const total = (amounts) => Object.values(amounts ?? {}).reduce((sum, value) => sum + value, 0);

/** Slowest over fastest of the steps where something else disturbed them, else 0, as the server tells. @param {Measurement | null} measurement */
export const disturbance = (measurement) => measurement?.disturbance ?? 0;

/**
 * Seconds of one step: what the server takes of the measured ones, else what its parts add to.
 * @param {Measurement | null} measurement
 */
export function stepTime(measurement) {
  if (!measurement) return null;
  return measurement.step_s ?? (total(measurement.phases_s) || total(measurement.breakdown_s) || null);
}

/** Columns of a log that say how much passed, what they count, and whether that is one GPU's. @type {[string, "tokens" | "samples", boolean][]} */
const RATES = [
  ["tokens_per_s_per_gpu", "tokens", true],
  ["tokens_per_s", "tokens", false],
  ["samples_per_s", "samples", false],
];

/** What a log says of its steps. @param {Measurement | null} measurement @returns {import("./types.js").Part[]} */
const logged = (measurement) => (measurement?.origin?.format.startsWith("log/") ? measurement.rows : []);

/**
 * What a log says that passes in a step, by its own rate: tokens, or samples, of one GPU or of all; null without a rate.
 * @param {Measurement | null} measurement @returns {{amount: number, of: "tokens" | "samples", each: boolean} | null}
 */
export function loggedRows(measurement) {
  const step_s = stepTime(measurement);
  if (!step_s) return null;
  for (const [column, of, each] of RATES) {
    const steps = logged(measurement).filter((row) => row[column] > 0);
    const amount = median(steps.map((row) => row[column] * (row.step_s ?? step_s)));
    if (amount) return { amount, of, each };
  }
  return null;
}

/** The MFU that a log says of its steps. @param {Measurement | null} measurement */
export const loggedMfu = (measurement) =>
  median(
    logged(measurement)
      .map(({ mfu_frac }) => mfu_frac)
      .filter((frac) => frac > 0),
  );

/**
 * Whether nothing ran: an op list that a program was traced into, of which all is predicted.
 * @param {Measurement | null} measurement
 */
export const isTraced = (measurement) => measurement?.origin?.format === "ops" && stepTime(measurement) === null;

/** The same of a line in the list of measurements. @param {import("./types.js").Summary} summary */
export const wasTraced = ({ origin, step_time_s }) => origin.format === "ops" && !step_time_s;

/** How the measured steps are spread; "" where there are not several. @param {Measurement | null} measurement */
export function spreadWords(measurement) {
  const times = measurement?.steps_s ?? [];
  if (times.length < 2) return "";
  const ratio = disturbance(measurement);
  if (ratio) return `Disturbed: ${times.length} steps differ by ${ratio.toFixed(1)}×; the fastest is shown.`;
  return `Measured: the median of ${times.length} steps, ${seconds(Math.min(...times))} to ${seconds(Math.max(...times))}.`;
}

/**
 * What would tell where the time of a measured step goes, of which only the time, or its phases, are known; "" else.
 * @param {Measurement | null} measurement
 */
export function untoldWords(measurement) {
  if (!measurement || !stepTime(measurement) || total(measurement.breakdown_s)) return "";
  const known = total(measurement.phases_s) ? "phases are" : "step time is";
  return `Only its ${known} known: a profile of torch.profiler with record_shapes=True, imported here, tells where the time goes.`;
}

/**
 * Why the peaks of a scenario's chip, and so its prediction, say nothing; "" where they do.
 * @param {Pick<Scenario, "cluster">} scenario @param {import("./types.js").Catalog} catalog
 */
export const doubtOf = (scenario, { doubts = {} }) => doubts[chipNamed(scenario.cluster)] ?? "";

/**
 * Chips that were known and are others by now, as a CPU that was measured anew: what the page shows of them is of before.
 * @param {Entry[]} before @param {Entry[]} now
 */
export const anewAmong = (before, now) =>
  before
    .filter(({ key, value }) => now.some((one) => one.key === key && !same(one.value, value)))
    .map(({ key }) => key);

/**
 * Whether measuring anew has ended, and all chips are what they were: of two measurements the one with more of the CPU stays.
 * @param {import("./types.js").Catalog} before @param {import("./types.js").Catalog} now
 */
export const isUnchanged = (before, now) =>
  Boolean(before.measuring && !now.measuring) && !anewAmong(before.chips, now.chips).length;

/**
 * Whether a prediction and a measurement can be held against each other: neither was disturbed.
 * @param {Measurement | null} measurement @param {Scenario} scenario @param {import("./types.js").Catalog} catalog
 */
export const comparable = (measurement, scenario, catalog) => !disturbance(measurement) && !doubtOf(scenario, catalog);

/**
 * What a measurement and the shown scenario are too far apart for: "unknown", where nobody knows what it is of, "model",
 * where it is known to be of another model, or "chip", where its own scenario names another chip than the one that was
 * measured, and so does the shown one.
 * @param {Chosen} chosen @param {Scenario} scenario @returns {"" | "unknown" | "model" | "chip"}
 */
export function apart({ measurement, measuredScenario, catalog }, scenario) {
  if (!measurement) return "";
  if (!measuredScenario) return "unknown";
  if (!same(measuredScenario.model, scenario.model)) return "model";
  if (!isMisnamed(measurement, catalog.chips)) return "";
  return measuredChip(measurement, catalog.chips)?.key === chipNamed(scenario.cluster) ? "" : "chip";
}

/**
 * The measurement that stands beside a prediction, none where they are too far apart.
 * @param {Chosen} chosen @param {Scenario} scenario
 */
export const beside = (chosen, scenario) => (apart(chosen, scenario) ? null : chosen.measurement);

/** @param {any} cluster  a chip's name, or an object @returns {string} */
const chipNamed = (cluster) => (typeof cluster === "string" ? cluster : (cluster?.chip?.name ?? cluster?.chip ?? ""));

/** Whether an entry of the catalogue has a name. @param {Entry} entry @param {string} name */
export const isCalled = ({ key, label, aliases }, name) =>
  [key, label, ...aliases].some((one) => one.toLowerCase() === name.toLowerCase());

/**
 * Whether a measurement's own scenario names another chip than it was measured on, as far as the catalogue knows them.
 * @param {Measurement} measurement @param {Entry[]} chips
 */
function isMisnamed(measurement, chips) {
  if (measurement.warnings?.some(({ code }) => code === "other_chip")) return true;
  const [here, name] = [measuredChip(measurement, chips), chipNamed(measurement.scenario?.cluster)];
  return Boolean(here && chips.some((one) => isCalled(one, name)) && !isCalled(here, name));
}

/**
 * Say that a measurement's own scenario names another chip than it was measured on, "" where it does not.
 * @param {Measurement} measurement @param {Entry[]} chips
 */
export function misnamedWords(measurement, chips) {
  const other = otherCpuWords(measurement, chips);
  if (other) return other;
  if (!isMisnamed(measurement, chips)) return "";
  const name = chipNamed(measurement.scenario?.cluster);
  const label = chips.find((one) => isCalled(one, name))?.label ?? name;
  return `Predicted for ${label}, which the scenario names; this ran on ${deviceName(measurement) || "another chip"}.`;
}

/**
 * Say that another machine's CPU was measured than the one that predictions are of; "" where it was not, or nobody knows.
 * @param {Measurement} measurement @param {Entry[]} chips
 */
function otherCpuWords({ device }, chips) {
  const here = device.kind === "cpu" && device.name ? chips.find(({ key }) => key === "cpu")?.label : "";
  // a label without a name says of no CPU that it is another
  if (!here?.includes("(") || here.includes(device.name)) return "";
  return `Measured on ${device.name}, of which no prediction exists: predicted for ${here}.`;
}

/**
 * Say that a prediction takes peaks of this CPU which another measurement of it gave than the one known here, "" where it
 * does not: a run keeps those that its own server knew.
 * @param {Pick<Scenario, "cluster">} scenario @param {Entry[]} chips
 */
function otherPeaksWords({ cluster: { chip } }, chips) {
  const here = chips.find(({ key }) => key === "cpu")?.value;
  if (!here || typeof chip !== "object" || chip.name !== "cpu") return "";
  const peaks = (/** @type {import("./types.js").Part} */ { fp32_flops_per_s, memory_bytes_per_s }) =>
    [quantity(fp32_flops_per_s, "flops_per_s"), quantity(memory_bytes_per_s, "bytes_per_s")].join(" and ");
  const [its, ours] = [peaks(chip), peaks(here)];
  return its === ours ? "" : `predicted from another measurement of this CPU: ${its}, here ${ours}`;
}

/**
 * The scenario that ran: the measurement's own, on the chip that was measured where it names another.
 * @param {Measurement} measurement @param {Scenario} scenario @param {Entry[]} chips @returns {Scenario}
 */
export function ranAs(measurement, scenario, chips) {
  const chip = measuredChip(measurement, chips);
  if (!chip || !isMisnamed(measurement, chips)) return scenario;
  const { chips_per_node } = scenario.cluster;
  const usual = chip.value.chips_per_node ?? chips_per_node;
  return { ...scenario, cluster: resized({ chip: chip.key }, clusterChips(scenario.cluster), usual) };
}

/**
 * Whether a measurement was made on a CPU: its device says so, or is called so as in a profile without kernels.
 * @param {import("./types.js").Summary} summary
 */
export const isOfCpu = ({ device_kind, device_name }) => device_kind === "cpu" || device_name === "cpu";

/**
 * What a traced program was run with: its file, each option with its value ("yes" of a flag), other words one by one.
 * @param {Measurement | null} measurement @returns {Record<string, string>}
 */
export function tracedSettings(measurement) {
  const { program, arguments: given } = measurement?.environment ?? {};
  if (typeof program !== "string" || !Array.isArray(given)) return {};
  /** @type {Record<string, string>} */
  const found = { program };
  let option = "";
  let words = 0;
  for (const word of given.map(String)) {
    const [, name, value] = /^--?([A-Za-z][\w-]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (name) {
      found[name] = value ?? "yes";
      option = value === undefined ? name : "";
    } else if (option) {
      found[option] = word;
      option = "";
    } else {
      words += 1;
      found[`argument ${words}`] = word;
    }
  }
  if (measurement && measurement.world_size > 1) found.ranks = String(measurement.world_size);
  return found;
}

/** A name for the device that was measured. @param {Measurement} measurement */
export const deviceName = (measurement) => String(measurement.device.name ?? measurement.device.type ?? "");

/**
 * How the measured run and the shown scenario belong together, in words; "" where they are the same or nothing was
 * measured.
 * @param {Chosen & Standing & {sample?: string}} chosen  `sample`: the bundled run that stands there unasked
 */
export function relationWords({ measurement, measuredScenario, scenario, catalog, pair, sample = "" }) {
  if (!measurement) return "";
  const device = deviceName(measurement) === "cpu" ? "a CPU that it does not name" : deviceName(measurement);
  if (isTraced(measurement)) return tracedWords({ measurement, measuredScenario, scenario, catalog, pair });
  if (!measuredScenario) {
    const open = measurement.proposed?.whole ?? true;
    const its = seemsOf(measurement, catalog);
    const plan = [pair?.a, pair?.b].find((side) => side?.scenario);
    const drawn = plan && [pair?.a, pair?.b].some((side) => side?.measurement?.id === measurement.id);
    const two = [pair?.a, pair?.b].every((side) => side?.measurement && !side.predicted);
    const said = drawn && its && saysAll(measurement) && plan.scenario && same(its, plan.scenario);
    const beside = said
      ? `; ${plan.letter} is the plan that its file says`
      : drawn
        ? "; no difference is drawn until its own scenario is confirmed"
        : "; not drawn beside a scenario until its own is confirmed";
    return `measured${device ? ` on ${device}` : ""}${open && !two ? beside : ""}`;
  }
  const why = apart({ measurement, measuredScenario, catalog }, scenario);
  // a bundled run that nobody chose is not what a link to another scenario is about
  if (why && measurement.id === sample) return "";
  const chip = catalog.chips.find(({ key }) => key === chipNamed(scenario.cluster))?.label ?? "this hardware";
  if (why === "chip") return `measured on ${device}: not drawn beside a prediction for ${chip}`;
  if (why === "model") return "another model was measured: not drawn beside this one";
  const other = otherCpuWords(measurement, catalog.chips);
  if (other && chipNamed(scenario.cluster) === "cpu") return other;
  return same(measuredScenario, scenario)
    ? otherPeaksWords(scenario, catalog.chips)
    : "A is the plan that was measured";
}

/**
 * Whether plans alone stand there, none the traced program that is chosen, whose scenario nobody confirmed.
 * @param {Chosen & Standing} chosen
 */
export const leftTrace = ({ measurement, measuredScenario, pair }) =>
  isTraced(measurement) &&
  !measuredScenario &&
  Boolean(pair?.edited) &&
  [pair?.a, pair?.b].every((side) => side?.kind !== "traced");

/**
 * What an unconfirmed measurement seems to be of, where that is a whole step.
 * @param {Measurement | null} measurement @param {import("./types.js").Catalog} catalog
 */
export const seemsOf = (measurement, catalog) =>
  measurement?.proposed?.whole && measurement.proposed.scenario
    ? complete(measurement.proposed.scenario, catalog)
    : null;

/**
 * Whether the file of an unconfirmed measurement says all that its scenario is read from: nothing is guessed or asked for.
 * @param {Measurement | null} measurement
 */
export function saysAll(measurement) {
  const { whole, asked = [], fields = {} } = measurement?.proposed ?? {};
  return Boolean(whole) && !asked.length && Object.values(fields).every(({ sure }) => sure);
}

/** The same of a traced program, of which nothing ran. @param {Chosen & Standing} chosen */
function tracedWords({ measurement, measuredScenario, scenario, catalog, pair }) {
  if (leftTrace({ measurement, measuredScenario, scenario, catalog, pair })) {
    const its = seemsOf(measurement, catalog);
    const letter = [pair?.a, pair?.b].find((side) => its && side?.scenario && same(side.scenario, its))?.letter;
    return letter
      ? `${letter} is the catalogue's form of the traced program, not confirmed yet`
      : "predicted from plans, not from the traced program's own ops";
  }
  if (!measuredScenario) return "traced, and predicted from its own ops: nothing ran";
  if (apart({ measurement, measuredScenario, catalog }, scenario)) return "another program was traced";
  return same(measuredScenario, scenario)
    ? "B is the catalogue's form of the program; where they differ believe A, its own ops"
    : "A is the catalogue's form of the traced program";
}

/**
 * Whether a measurement is a table or list only: nothing of it stands beside a step.
 * @param {import("./types.js").Summary} summary
 */
export const isTable = ({ step_time_s, kernels, peak_bytes, rows }) =>
  !step_time_s && !kernels && !peak_bytes && rows > 0;

/**
 * The catalogue's chip that was measured on, by any of its names.
 * @param {Measurement} measurement
 * @param {Entry[]} chips
 */
export function measuredChip(measurement, chips) {
  const name = deviceName(measurement).toLowerCase();
  const kind = String(measurement.device.kind ?? "").toLowerCase();
  return (
    chips.find((one) => isCalled(one, name)) ??
    chips.find(({ key }) => key === "cpu" && (kind === "cpu" || name === "cpu"))
  );
}
