/** Measurements and the state: the list of them, the one beside the prediction, and opening one where it can be seen. */
import { writeUrl } from "./actions.js";
import { api, ApiError } from "./api.js";
import { ranAs, seemsOf } from "./measured.js";
import { complete, same } from "./scenario.js";
import { set, state } from "./state.js";

/**
 * The scenario that a measurement names, where it knows all of it.
 * @param {import("./types.js").Measurement | null} measurement
 */
const namedIn = (measurement) => (measurement?.prediction ? complete(measurement.scenario, state.catalog) : null);

/** The scenario that was measured. @param {import("./types.js").Measurement | null} measurement */
const scenarioOf = (measurement) => {
  const named = namedIn(measurement);
  return measurement && named && ranAs(measurement, named, state.catalog.chips);
};

/** What an unconfirmed measurement seems to be of, where that is a whole step. @param {import("./types.js").Measurement} measurement */
export const proposedIn = (measurement) => seemsOf(measurement, state.catalog);

/**
 * Show a measurement where its numbers can be seen: beside its prediction, or its tables in Measurements.
 * @param {string} id
 */
export async function openMeasurement(id) {
  const measurement = await api.measurement(id);
  const measuredScenario = scenarioOf(measurement);
  if (
    measurement.expected ||
    measurement.steps_s.length ||
    measurement.kernels.length ||
    Object.keys(measurement.breakdown_s).length
  ) {
    set({
      view: "explore",
      scenario: measuredScenario ?? proposedIn(measurement) ?? state.scenario,
      measured: id,
      measurement,
      measuredScenario,
      drag: null,
      a: "",
      b: "",
      selected: "",
    });
  } else {
    set({ view: "measurements", open: id });
  }
  writeUrl();
  scrollTo({ top: 0 });
}

/**
 * Say of which scenario the shown measurement is, and show that; from then on the two are compared.
 * @param {import("./types.js").Scenario} scenario
 */
export async function confirmScenario(scenario) {
  const { measurement } = state;
  if (measurement) await told(api.confirm(measurement.id, scenario));
}

/** Say on what the shown measurement ran, which completes what its file says. @param {string | import("./types.js").Part} chip */
export async function confirmDevice(chip) {
  const { measurement } = state;
  if (measurement) await told(api.ranOn(measurement.id, chip));
}

/** Say what the file of the shown run leaves out, as its proposal asks. @param {Record<string, any>} answers */
export async function confirmAnswers(answers) {
  const { measurement } = state;
  if (measurement) await told(api.answer(measurement.id, answers));
}

/** Show what was told of the shown measurement. @param {Promise<import("./types.js").Measurement>} answer */
async function told(answer) {
  const found = await answer;
  const measuredScenario = scenarioOf(found);
  set({
    measurement: found,
    measuredScenario,
    scenario: measuredScenario ?? state.scenario,
    a: "",
    b: "",
    drag: null,
  });
  writeUrl();
  await refreshMeasurements();
}

/** A measurement and the others of its file. @param {string} id */
export const uploaded = (id) => {
  const all = state.measurements ?? [];
  const upload = all.find((one) => one.id === id)?.upload_id;
  if (!upload) return [id];
  const ids = all.filter(({ upload_id }) => upload_id === upload).map((one) => one.id);
  return ids.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
};

export async function refreshMeasurements() {
  const measurements = await api.measurements();
  // an equal list keeps its identity, so that nothing is drawn again
  if (!same(measurements, state.measurements)) set({ measurements });
}

const MISSING = 404;

/** A measurement that the address names is not on this server: what stands beside it stays, and it is told. @param {string} id */
function lose(id) {
  const kept = (/** @type {string} */ side) => (side === `m:${id}` ? "" : side);
  const { measured, a, b } = state;
  set({
    ...(measured === id && { measured: "", measurement: null, measuredScenario: null }),
    a: kept(a),
    b: kept(b),
    lost: id,
  });
  writeUrl("replace");
}

/** A measurement that stands at A or B beside the one that is shown. @param {string} id */
export const besideMeasurement = (id) =>
  api.measurement(id).catch((error) => {
    if (error instanceof ApiError && error.status === MISSING) lose(id);
    throw error;
  });

/**
 * Which of the measurements that a link to this page names other servers lack: all but the bundled ones.
 * @param {Pick<import("./state.js").State, "measured" | "a" | "b" | "open" | "pins" | "measurements">} shown
 */
export function onlyHere({ measured, a, b, open, pins, measurements }) {
  const named = [
    measured,
    ...[a, b, ...pins].map((side) => /^m:(.*)$/.exec(side)?.[1]),
    open.replace(/\.\d+$/, ""),
    open,
  ];
  return (measurements ?? []).filter(({ id, bundled }) => !bundled && named.includes(id)).map(({ id }) => id);
}

let loading = ""; // the measurement on its way

/** Fetch the measured side of Explore. */
export async function loadMeasurement() {
  const { measured } = state;
  if (!measured) return set({ measurement: null, measuredScenario: null });
  if (state.measurement?.id === measured || loading === measured) return undefined;
  loading = measured;
  try {
    const measurement = await api.measurement(measured);
    if (state.measured !== measured) return undefined;
    const measuredScenario = scenarioOf(measurement);
    // nobody chose the sample's plan beside it
    const unchosen = same(state.scenario, state.base) && !state.a && !state.b;
    const its = unchosen ? (measuredScenario ?? proposedIn(measurement)) : null;
    set({ measurement, measuredScenario, ...(its && { scenario: its }) });
    if (its) writeUrl("replace");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === MISSING) lose(measured);
    else if (state.measured === measured && error.status)
      set({ measurement: null, measuredScenario: null, measured: "" });
  } finally {
    if (loading === measured) loading = "";
  }
  return undefined;
}
