/** Every op of one layer, of the embedding and of the head with all that is known of it; the server makes the rows. */
import { api, ApiError } from "../../api.js";
import { state } from "../../state.js";
import { download } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { tableView } from "../common/table.js";

/** Title and unit by field, in the order of the table. @type {[string, string, string?][]} */
const COLUMNS = [
  ["op", "op"],
  ["part", "part of"],
  ["times", "times in a step"],
  ["flops_forward", "FLOPs forward", "FLOP"],
  ["flops_backward", "FLOPs backward", "FLOP"],
  ["in_bytes", "in", "B"],
  ["out_bytes", "out", "B"],
  ["kept_bytes", "kept", "B"],
  ["weights_bytes", "weights", "B"],
  ["gradients_bytes", "gradients", "B"],
  ["traffic_forward_bytes", "traffic forward", "B"],
  ["traffic_backward_bytes", "traffic backward", "B"],
  ["intensity_flops_per_byte", "FLOP/byte"],
  ["communication_forward_kind", "sends forward"],
  ["communication_forward_ranks", "ranks"],
  ["communication_forward_bytes", "payload forward", "B"],
  ["communication_backward_kind", "sends backward"],
  ["communication_backward_ranks", "ranks"],
  ["communication_backward_bytes", "payload backward", "B"],
  ["compute_forward_s", "compute roof fwd", "s"],
  ["memory_forward_s", "memory roof fwd", "s"],
  ["forward_s", "device fwd", "s"],
  ["communication_forward_s", "sends fwd", "s"],
  ["total_forward_s", "forward", "s"],
  ["compute_backward_s", "compute roof bwd", "s"],
  ["memory_backward_s", "memory roof bwd", "s"],
  ["backward_s", "device bwd", "s"],
  ["communication_backward_s", "sends bwd", "s"],
  ["total_backward_s", "backward", "s"],
  ["share_frac", "of the step", "frac"],
];

/** @param {{name: () => string}} options */
export function createLayerTable({ name }) {
  const { element, box, fill } = createScroller("Every column of every op", "tall every");
  /** @type {import("../../types.js").Scenario | null} */
  let shown = null;
  /** @type {AbortController | null} */
  let asking = null;

  /** Fetch and draw, unless this scenario is what stands there. */
  async function update() {
    const { scenario } = state;
    if (state.drag || scenario === shown) return;
    shown = scenario;
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    box.classList.add("dim");
    try {
      const { columns, rows } = await api.layers(scenario, signal);
      if (signal.aborted) return;
      const at = COLUMNS.map(([field]) => columns.indexOf(field));
      fill(
        tableView({
          columns: COLUMNS.map(([, title, unit]) => ({ title, unit })),
          rows: rows.map((/** @type {any[]} */ row) => at.map((of) => empty(row[of]))),
        }),
      );
      box.classList.remove("dim");
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      shown = null;
    }
  }

  async function save() {
    try {
      download(`${name()}-layers.csv`, await api.layersCsv(state.scenario));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
  return { element, update, save };
}

/** What an op has none of is better left out than written as 0. @param {any} value */
const empty = (value) => (value === 0 || value === "" ? null : value);
