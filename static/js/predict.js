// @ts-check
/**
 * From the current scenario to its estimate: out of a fetched axis where there is one, else from the server; the
 * newest wins.
 */
import { api, ApiError } from "./api.js";
import { fetchAxis, validAxis } from "./axes.js";
import { canonical } from "./scenario.js";
import { set, state, subscribe } from "./state.js";

export const SLIDERS = [
  "plan.dp",
  "plan.tp",
  "plan.pp",
  "plan.micro_batch",
  "training.seq_len",
  "training.global_batch",
];
export const CHOICES = [
  "plan.sharding",
  "plan.recompute",
  "training.precision",
  "training.attention",
  "training.framework",
  "plan.schedule",
  "plan.sequence_parallel",
];
const QUIET_MS = 250;

let generation = 0;
/** @type {AbortController | null} */
let underway = null;
let idle = 0;
let idleTimer = 0;

export function startPredicting() {
  subscribe(["scenario"], predict);
  subscribe(["scenario", "estimated", "drag", "view"], scheduleAxes);
  predict();
}

/** Estimate the current scenario. */
export async function predict() {
  const mine = ++generation;
  const { scenario } = state;
  const key = canonical(scenario);
  underway?.abort();
  if (state.estimated && canonical(state.estimated) === key) return set({ problems: [], busy: false });
  const found = [...SLIDERS, ...CHOICES]
    .map((field) => validAxis(field, key)?.legal.find((point) => point.key === key))
    .find(Boolean);
  if (found?.estimate?.ops) return set({ estimate: found.estimate, estimated: scenario, problems: [], busy: false });
  underway = new AbortController();
  set({ busy: true });
  try {
    const estimate = await api.estimate(scenario, underway.signal);
    if (mine === generation) set({ estimate, estimated: scenario, problems: [], busy: false });
  } catch (error) {
    if (mine !== generation || !(error instanceof ApiError)) return undefined;
    const problems =
      error.problems.length || !error.status
        ? error.problems
        : [{ field: "server", message: error.message, remedy: "" }];
    set({ problems, busy: false });
  }
  return undefined;
}

/** Fetch the axes behind the small curves while the page rests, one after the other, sliders first. */
function scheduleAxes() {
  clearTimeout(idleTimer);
  const mine = ++idle;
  if (state.drag || state.view !== "explore") return;
  idleTimer = window.setTimeout(async () => {
    for (const field of [...SLIDERS, ...CHOICES]) {
      if (mine !== idle || !state.online) return;
      await fetchAxis(field);
    }
  }, QUIET_MS);
}
