/** The server's endpoints; every failure becomes an ApiError that carries problems people can act on. */
import { saidTogether } from "./format.js";
import { set, state } from "./state.js";

/** @typedef {import("./types.js").Problem} Problem */

export class ApiError extends Error {
  /** @param {string} message @param {number} status  0: no answer at all @param {Problem[]} problems */
  constructor(message, status, problems = []) {
    super(message);
    this.status = status;
    this.problems = problems;
  }
}

/** Read a problem document (RFC 9457), whatever part of it is there. @param {number} status @param {string} text */
export function problemOf(status, text) {
  /** @type {any} */
  let document = {};
  try {
    document = JSON.parse(text) ?? {};
  } catch {
    // not JSON: a proxy's page, or nothing
  }
  const problems = Array.isArray(document.problems) ? document.problems : [];
  const words = saidTogether(problems);
  const detail = typeof document.detail === "string" ? document.detail : "";
  return new ApiError(words || detail || document.title || `The server answered ${status}.`, status, problems);
}

/**
 * @param {string} path
 * @param {{method?: string, body?: any, signal?: AbortSignal, text?: boolean}} [options]
 * @returns {Promise<any>}
 */
async function call(path, { method = "GET", body, signal, text = false } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    set({ online: false });
    throw new ApiError("The server does not answer.", 0);
  }
  set({ online: true });
  if (!response.ok) throw problemOf(response.status, await response.text());
  return text ? response.text() : response.json();
}

/**
 * Ask for something that takes seconds; the server answers line by line, and stops when the signal aborts.
 * @param {string} path @param {any} body @param {(line: any) => void} heard @param {AbortSignal} signal
 */
async function told(path, body, heard, signal) {
  const headers = { "Content-Type": "application/json", Accept: "application/x-ndjson" };
  try {
    const response = await fetch(path, { method: "POST", signal, headers, body: JSON.stringify(body) });
    set({ online: true });
    if (!response.ok || !response.body) throw problemOf(response.status, await response.text());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const lines = (rest + piece.value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) heard(JSON.parse(line));
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
    set({ online: false });
    throw new ApiError("The server does not answer.", 0);
  }
}

const part = encodeURIComponent;
/** Where predictions are asked for, under the calibration of the page. @param {string} path */
const under = (path) =>
  state.calibration ? `${path}${path.includes("?") ? "&" : "?"}calibration=${part(state.calibration)}` : path;

export const api = {
  health: () => call("/api/health"),
  catalog: () => call("/api/catalog"),
  /** Measure this CPU anew. @returns {Promise<{measuring: boolean, message: string}>} */
  measureCpu: () => call("/api/this-cpu", { method: "POST" }),
  /** @param {any} scenario @param {AbortSignal} [signal] */
  estimate: (scenario, signal) => call(under("/api/estimate"), { method: "POST", body: scenario, signal }),
  /** @param {any} scenario @param {string} field */
  axis: (scenario, field) => call(under("/api/estimate/axis"), { method: "POST", body: { scenario, field } }),
  /** @param {any} scenario @param {AbortSignal} [signal] @returns {Promise<{columns: string[], rows: any[][]}>} */
  layers: (scenario, signal) => call(under("/api/layers"), { method: "POST", body: scenario, signal }),
  /** @param {any} scenario @returns {Promise<string>} */
  layersCsv: (scenario) => call(under("/api/layers?format=csv"), { method: "POST", body: scenario, text: true }),
  /** @param {any} specification @param {(line: any) => void} heard @param {AbortSignal} signal */
  sweep: (specification, heard, signal) => told(under("/api/sweep"), specification, heard, signal),
  /** @param {any} scenario @param {number} ranks @param {AbortSignal} [signal] */
  parallelism: (scenario, ranks, signal) =>
    call(under("/api/parallelism"), { method: "POST", body: { scenario, ranks }, signal }),
  /** @param {File} file  a config.json @returns {Promise<{model: any, parameters: number, assumptions: string[]}>} */
  model: (file) => call(`/api/models?filename=${part(file.name)}`, { method: "PUT", body: file }),
  /** @returns {Promise<import("./types.js").Benchmark[]>} */
  benchmarks: () => call("/api/benchmarks").then(({ benchmarks }) => benchmarks),
  runs: () => call("/api/runs").then(({ runs }) => runs),
  /** @param {string} id */
  run: (id) => call(`/api/runs/${part(id)}`),
  /** @param {string} id */
  log: (id) => call(`/api/runs/${part(id)}/log`, { text: true }),
  /** @param {any} job @param {AbortSignal} [signal] */
  dryRun: (job, signal) => call("/api/runs?dry_run=true", { method: "POST", body: job, signal }),
  /** @param {any} job */
  launch: (job) => call("/api/runs", { method: "POST", body: job }),
  /** @param {string} id */
  cancel: (id) => call(`/api/runs/${part(id)}/cancel`, { method: "POST" }),
  /** @param {string} id */
  retry: (id) => call(`/api/runs/${part(id)}/retry`, { method: "POST" }),
  /** @param {string} id */
  removeRun: (id) => call(`/api/runs/${part(id)}`, { method: "DELETE", text: true }),
  /** @param {string} id */
  removeUpload: (id) => call(`/api/uploads/${part(id)}`, { method: "DELETE", text: true }),
  /**
   * What a file would give, nothing kept.
   * @param {Blob} body @param {string} name @param {string} columns  headers said anew, as JSON
   * @returns {Promise<{tables: import("./headers.js").SeenTable[], warnings: any[],
   *   measurements: {label: string, format: string, rows: Record<string, any>[], count: number}[]}>}
   */
  preview: (body, name, columns) =>
    call(`/api/previews?filename=${part(name)}${columns && `&columns=${part(columns)}`}`, { method: "PUT", body }),
  /** @returns {Promise<import("./types.js").Summary[]>}  each with its prediction in short */
  measurements: () =>
    call(under("/api/measurements")).then(({ measurements, predicted }) =>
      measurements.map((/** @type {any} */ one, /** @type {number} */ at) => ({ ...one, predicted: predicted[at] })),
    ),
  /** How many traces come before one, null where it is none of those. @param {string} ticket @returns {Promise<{before: number | null}>} */
  traceTurn: (ticket) => call(`/api/traces?ticket=${part(ticket)}`),
  /** The op list of a profile or a traced program. @param {string} id @returns {Promise<Record<string, any>>} */
  ops: (id) => call(`/api/measurements/${part(id)}/ops`),
  /** @param {string} id */
  measurement: (id) => call(under(`/api/measurements/${part(id)}`)),
  /**
   * What a profile's own ops would take after some changes.
   * @param {string} id @param {string[]} changes @param {string} chip  by name, or its fields as JSON; "": its own
   * @param {Record<string, string>} plan  that lays them out
   * @returns {Promise<import("./types.js").WhatIf>}
   */
  whatIf: (id, changes, chip, plan) => {
    const named = changes.map((one) => ["change", one]);
    const asked = new URLSearchParams([...named, ...(chip ? [["chip", chip]] : []), ...Object.entries(plan)]);
    return call(under(`/api/measurements/${part(id)}/what-if?${asked}`));
  },
  /** @param {string} id @param {any} scenario  that it is of @returns {Promise<import("./types.js").Measurement>} */
  confirm: (id, scenario) => call(under(`/api/measurements/${part(id)}/scenario`), { method: "PUT", body: scenario }),
  /**
   * What each row of a measurement's table should be on a chip.
   * @param {string} id @param {string} chip  by name, or one's own as JSON
   * @returns {Promise<import("./types.js").PredictedRows>}
   */
  rows: (id, chip) => call(under(`/api/measurements/${part(id)}/rows?chip=${part(chip)}`)),
  /**
   * @param {string} id @param {string | import("./types.js").Part} chip  that it ran on
   * @param {string} [name]  of a GPU in its rows that this chip is @returns {Promise<import("./types.js").Measurement>}
   */
  ranOn: (id, chip, name) =>
    call(under(`/api/measurements/${part(id)}/device`), {
      method: "PUT",
      body: { chip, ...(name !== undefined && { name }) },
    }),
  /**
   * Say what the file of a run leaves out.
   * @param {string} id @param {Record<string, any>} answers @returns {Promise<import("./types.js").Measurement>}
   */
  answer: (id, answers) => call(under(`/api/measurements/${part(id)}/answers`), { method: "PUT", body: answers }),
  /** How right predictions are, of every set of measured steps. */
  accuracy: () => call("/api/accuracy"),
  /** @returns {Promise<import("./types.js").StoredCalibration[]>}  newest first */
  calibrations: () => call("/api/calibrations").then(({ calibrations }) => calibrations),
  /** @param {string[]} measurements  ids @param {string} name @returns {Promise<import("./types.js").StoredCalibration>} */
  calibrate: (measurements, name) => call("/api/calibrations", { method: "POST", body: { measurements, name } }),
  /** @param {string} id @returns {Promise<import("./types.js").Calibration>} */
  calibration: (id) => call(`/api/calibrations/${part(id)}`),
  studies: () => call("/api/studies").then(({ studies }) => studies),
  /** @param {string} name @param {Record<string, string>} settings @param {AbortSignal} [signal] */
  study: (name, settings, signal) => call(`/api/studies/${part(name)}?${new URLSearchParams(settings)}`, { signal }),
  /** @param {Record<string, string>} settings @param {AbortSignal} [signal] */
  pathfinding: (settings, signal) => call(`/api/pathfinding?${new URLSearchParams(settings)}`, { signal }),
  /** @param {Record<string, string>} settings */
  pathfindingPlans: (settings) => call(`/api/pathfinding/plans?${new URLSearchParams(settings)}`),
  /** @param {Record<string, string>} settings */
  pathfindingSearch: (settings) => call(`/api/pathfinding/search?${new URLSearchParams(settings)}`),
  hierarchyChoices: () => call("/api/hierarchy"),
  /** @param {any} scenario @param {string} mode */
  hierarchy: (scenario, mode) => call("/api/hierarchy", { method: "POST", body: { scenario, mode } }),
  /** @param {any} scenario @returns {Promise<import("./types.js").Drawn>} */
  timeline: (scenario) => call(under("/api/timeline"), { method: "POST", body: scenario }),
  /** Of what a profile's own ops should take. @param {string} id @returns {Promise<import("./types.js").Drawn>} */
  ownTimeline: (id) => call(under(`/api/measurements/${part(id)}/timeline`)),
  /** @param {any} scenario @returns {Promise<import("./types.js").Remedies>} */
  remedies: (scenario) => call(under("/api/remedies"), { method: "POST", body: scenario }),
  /** @param {any[]} items @param {number} baseline @param {AbortSignal} [signal] */
  compare: (items, baseline, signal) =>
    call(under("/api/compare"), { method: "POST", body: { items, baseline }, signal }),
};

/**
 * Follow a run's events until its final state.
 * @param {string} id @param {(event: any) => void} heard
 * @returns {() => void} stops listening
 */
export function follow(id, heard) {
  const source = new EventSource(`/api/runs/${part(id)}/events`);
  const tell = (/** @type {MessageEvent} */ message) => {
    const event = JSON.parse(message.data);
    heard(event);
    // the server ends the stream after the final state; without close the browser would reconnect for ever
    if (event.kind === "state" && isFinal(event.state)) source.close();
  };
  for (const kind of ["message", "progress", "state"]) source.addEventListener(kind, tell);
  return () => source.close();
}

/** @param {string} state */
export const isFinal = (state) => ["ok", "oom", "failed", "cancelled"].includes(state);
