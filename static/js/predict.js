/**
 * From the current scenario to its estimate: out of a fetched axis where there is one, else from the server; the
 * newest wins.
 */
import { api, ApiError } from "./api.js";
import { fetchAxis, validAxis } from "./axes.js";
import { hasUse } from "./fieldUse.js";
import { canonical } from "./scenario.js";
import { set, state, subscribe } from "./state.js";

/** Fields whose axes are fetched while the page rests: those in front, sliders first. */
const FRONT = [
  "cluster.nodes",
  "plan.dp",
  "plan.tp",
  "plan.cp",
  "plan.pp",
  "plan.virtual_stages",
  "plan.ep",
  "plan.micro_batch",
  "training.seq_len",
  "training.global_batch",
  "plan.sharding",
  "plan.recompute",
  "training.precision",
  "training.attention",
  "training.framework",
  "plan.schedule",
  "plan.sequence_parallel",
];
/** Fields that are folded: all others that have an axis and a control; their axes wait until they are unfolded. */
const folded = () => state.catalog.axis_fields.filter((field) => !FRONT.includes(field) && isFolded(field));
/** How experts run is folded with the plan. @param {string} field */
const isFolded = (field) => field.startsWith("plan.") || field === "training.experts";
const QUIET_MS = 250;

let generation = 0;
/** @type {AbortController | null} */
let underway = null;
let asked = ""; // what is underway
let idle = 0;
let idleTimer = 0;

export function startPredicting() {
  subscribe(["scenario"], predict);
  subscribe(["scenario", "estimated", "drag", "view", "more"], scheduleAxes);
  predict();
}

/** Estimate the current scenario. */
export async function predict() {
  const { scenario } = state;
  const key = canonical(scenario);
  if (underway && asked === key) return undefined;
  const mine = ++generation;
  underway?.abort();
  underway = null;
  if (state.estimated && canonical(state.estimated) === key) return set({ problems: [], busy: false });
  const found = [...FRONT, ...folded()]
    .map((field) => validAxis(field, key)?.legal.find((point) => point.key === key))
    .find(Boolean);
  if (found?.estimate?.ops) return set({ estimate: found.estimate, estimated: scenario, problems: [], busy: false });
  underway = new AbortController();
  asked = key;
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
  } finally {
    if (mine === generation) underway = null;
  }
  return undefined;
}

/** Another value of the plan or of the batch may be the way out. @param {import("./types.js").Problem} problem */
const isOfPlan = ({ field }) => /^(plan|training)\./.test(field);

/** Whether a field has an axis in the present scenario. @param {string} field */
const hasAxis = (field) =>
  field === "cluster.nodes" ? state.scenario.cluster.nodes > 1 : hasUse(field, state.scenario, state.catalog);

/** Fetch the axes behind the small curves while the page rests, one after the other, sliders first. */
function scheduleAxes() {
  clearTimeout(idleTimer);
  const mine = ++idle;
  if (state.drag || state.view !== "explore") return;
  idleTimer = window.setTimeout(async () => {
    for (const field of [...FRONT, ...(state.more ? folded() : [])].filter(hasAxis)) {
      if (mine !== idle || !state.online || !state.problems.every(isOfPlan)) return;
      // a scenario that cannot even be read has no axes
      if (!(await fetchAxis(field)) && state.problems.length) return;
    }
  }, QUIET_MS);
}
