/** What a typed value would lead to, asked before anything moves: a refusal, more hardware on offer, or nothing against it. */
import { setField, withValue } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { coupledChanges } from "../../changes.js";
import { count, saidTogether } from "../../format.js";
import { state } from "../../state.js";

/**
 * In a scenario that is impossible already any value may be on the way out, and none is refused.
 * @param {string} path @param {number} value
 * @returns {Promise<{refused: string, offer: {text: string, take: () => void} | null}>}
 */
export async function trial(path, value) {
  const before = state.scenario;
  const next = withValue(path, value);
  try {
    if (!state.problems.length) await api.estimate(next);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { refused: saidTogether(error.problems), offer: null };
  }
  const chips = coupledChanges(next, before, path).find((one) => one.path === "cluster.chips");
  if (!chips) return { refused: "", offer: null };
  return {
    refused: `${chips.why}.`,
    offer: { text: `Take ${count(chips.to)} ${chips.called}`, take: () => setField(path, value) },
  };
}
