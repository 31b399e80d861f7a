/** Runs and the state: the list as the server has it, whoever started them, and one at work followed live. */
import { api, follow, isFinal } from "./api.js";
import { refreshMeasurements } from "./measurements.js";
import { same } from "./scenario.js";
import { set, state } from "./state.js";

/** @typedef {import("./types.js").Run} Run */

/** How often the list is asked for, where somebody may look at it. */
export const LOOK_MS = 3000;

/** @param {Run} run */
const isUnfinished = (run) => !isFinal(run.state);

/** @param {(run: Run) => void} ended  what is said of a run that was seen at work and has ended */
export function createFollowing(ended) {
  let followed = "";
  let stop = () => {};

  /** Ask for the list now. */
  async function refresh() {
    await take(await api.runs());
  }

  /** Ask for the list where it may have changed; what changed here meanwhile is newer than the answer. */
  async function look() {
    if (document.hidden || !state.online) return;
    if (state.view !== "runs" && !state.runs?.some(isUnfinished)) return;
    const before = state.runs;
    const runs = await api.runs();
    if (state.runs === before) await take(runs);
  }

  /** @param {Run[]} runs */
  async function take(runs) {
    const before = state.runs ?? [];
    // an equal list keeps its identity, so that nothing is drawn again
    if (state.runs && same(runs, before)) return;
    const atWork = new Set(before.filter(isUnfinished).map(({ id }) => id));
    set({ runs });
    runs.filter((run) => atWork.has(run.id) && isFinal(run.state)).forEach(ended);
    const known = new Set(state.measurements?.map(({ id }) => id));
    const isNew = runs.some(({ measurement_id: id }) => id && !known.has(id));
    if (state.measurements && isNew) await refreshMeasurements();
  }

  /**
   * Follow one run while somebody looks: the chosen one where it is at work, else the one that has waited longest. A
   * browser keeps six connections to a server, for all its tabs; streams of many runs would leave none for the page.
   */
  function followOne() {
    const open = document.hidden ? [] : (state.runs ?? []).filter(isUnfinished);
    const running = open.filter((run) => run.state === "running");
    const wanted = (running.find(({ id }) => id === state.run) ?? running.at(-1) ?? open.at(-1))?.id ?? "";
    if (wanted === followed) return;
    stop();
    followed = wanted;
    stop = wanted ? follow(wanted, (event) => hear(wanted, event)) : () => {};
  }

  /** @param {string} id @param {any} event */
  function hear(id, event) {
    const now = state.runs?.find((run) => run.id === id);
    if (!now || isFinal(now.state)) return;
    if (event.kind === "progress") put({ ...now, state: "running", progress: event });
    else if (isFinal(event.state))
      void refresh().catch(() => {}); // the next look finds it
    else if (event.state !== now.state) {
      // a stream begins with what is over
      if (event.state !== "queued") put({ ...now, state: event.state, message: event.message ?? "" });
    } else if (event.message) put({ ...now, message: event.message });
  }

  /** @param {Run} run */
  function put(run) {
    set({ runs: (state.runs ?? []).map((one) => (one.id === run.id ? run : one)) });
  }
  return { refresh, look, followOne };
}
