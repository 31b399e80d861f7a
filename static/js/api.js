// @ts-check
/** The server's endpoints; every failure becomes an ApiError that carries problems people can act on. */
import { said } from "./format.js";
import { set } from "./state.js";

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
  const words = problems.map(said);
  const detail = typeof document.detail === "string" ? document.detail : "";
  return new ApiError(
    words.join(" ") || detail || document.title || `The server answered ${status}.`,
    status,
    problems,
  );
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
      body: body === undefined ? undefined : JSON.stringify(body),
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

const part = encodeURIComponent;

export const api = {
  health: () => call("/api/health"),
  catalog: () => call("/api/catalog"),
  /** @param {any} scenario @param {AbortSignal} [signal] */
  estimate: (scenario, signal) => call("/api/estimate", { method: "POST", body: scenario, signal }),
  /** @param {any} scenario @param {string} field */
  axis: (scenario, field) => call("/api/estimate/axis", { method: "POST", body: { scenario, field } }),
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
  measurements: () => call("/api/measurements").then(({ measurements }) => measurements),
  /** @param {string} id */
  measurement: (id) => call(`/api/measurements/${part(id)}`),
  /** @param {any[]} items @param {number} baseline @param {AbortSignal} [signal] */
  compare: (items, baseline, signal) => call("/api/compare", { method: "POST", body: { items, baseline }, signal }),
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
