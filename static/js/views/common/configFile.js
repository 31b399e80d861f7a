/** A config.json from Hugging Face: a model that the scenario can hold, or one that has to be traced. */
import { ApiError, api } from "../../api.js";
import { scenarioIn } from "../../scenarioFile.js";
import { state } from "../../state.js";

const MOST_BYTES = 1 << 20;
/** What a refusal names where no closed form covers the architecture. */
const KINDS = ["architectures", "model_type"];

/** Whether a file is the config.json of a model. @param {File} file */
export async function isConfig(file) {
  if (!file.name.endsWith(".json") || file.size > MOST_BYTES) return false;
  try {
    return typeof JSON.parse(await file.text())?.model_type === "string";
  } catch {
    return false;
  }
}

/** What a config is called where its file has every model's name. @param {File} file */
export async function nameOf(file) {
  if (file.name !== "config.json") return file.name;
  const { model_type } = JSON.parse(await file.text());
  return `${model_type}.json`;
}

const HEAD_BYTES = 1 << 16;

/** What other files that the page takes begin with: traces, op lists, results, pages that were saved. */
const OTHERS =
  /"(traceEvents|deviceProperties|steps_s|measurements)"\s*:|"(format|headroom)"\s*:\s*"(headroom-ops|page)"/;

/** Whether a file is no config.json but something that the page takes elsewhere, or packed as that is. @param {File} file */
export async function belongsElsewhere(file) {
  if (/\.(gz|zip|tgz|tar|html|csv|pb|pt|pickle)$/i.test(file.name)) return true;
  const head = await file.slice(0, HEAD_BYTES).text();
  return OTHERS.test(head) || (file.size <= MOST_BYTES && scenarioIn(await file.text(), state.catalog) !== null);
}

/** Its model; null where there is no closed form of it. @param {File} file */
export async function modelOf(file) {
  try {
    return await api.model(file);
  } catch (error) {
    const other = error instanceof ApiError && error.problems.some(({ field }) => KINDS.includes(field));
    if (other && (await isConfig(file))) return null;
    throw error;
  }
}

/** How the step is traced: as the scenario that is shown says. @returns {Record<string, string>} */
export function traceOptions() {
  const { training, plan, cluster } = state.scenario;
  const traced = state.catalog.traced_precisions ?? [];
  return {
    chip: typeof cluster.chip === "string" ? cluster.chip : "h100-sxm",
    batch: String(plan.micro_batch),
    seq: String(training.seq_len),
    precision: traced.includes(training.precision) ? training.precision : "bf16-amp",
  };
}
