/** Specifications of the chosen model and the chosen hardware, one line each. */
import { bytes, count, quantity, short, significant } from "../../format.js";
import { chipOf, modelOf, same } from "../../scenario.js";
import { state } from "../../state.js";

export function modelSpecs() {
  const model = modelOf(state.scenario, state.catalog);
  if (!model.layers) return "";
  const entry = state.catalog.models.find(({ key }) => key === state.scenario.model);
  const parameters =
    state.estimate?.parameters && state.estimated?.model === state.scenario.model
      ? state.estimate.parameters
      : entry?.parameters;
  const kv = model.kv_heads || model.heads;
  return [
    parameters && `${short(parameters)} parameters`,
    `${count(model.layers)} layers`,
    `${count(model.hidden)} wide`,
    kv === model.heads ? `${count(model.heads)} heads` : `GQA ${count(model.heads)}/${count(kv)}`,
    `vocabulary ${count(model.vocab)}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

const GIB = 2 ** 30;

/** A capacity in both units, as chips may be named by either. @param {number} capacity_bytes */
export const inBothUnits = (capacity_bytes) => `${bytes(capacity_bytes)} (${significant(capacity_bytes / GIB)} GiB)`;

/** Where the capacity of the chosen chip is from, and why it may be another number than the one in its name. */
export function capacityHint() {
  const { cluster } = state.scenario;
  const { memory_bytes } = chipOf(state.scenario, state.catalog);
  if (!memory_bytes) return "";
  const source = state.catalog.chips.find(({ key }) => key === cluster.chip)?.sources.memory_bytes;
  return `${inBothUnits(memory_bytes)}: a GB is 10⁹ bytes here, in the name of a chip often a GiB.${source ? ` Source: ${source}.` : ""}`;
}

export function chipSpecs() {
  const chip = chipOf(state.scenario, state.catalog);
  if (!chip.memory_bytes)
    return state.catalog.pending?.find(({ key }) => key === state.scenario.cluster.chip)?.message ?? "";
  const [name, peak] = [
    ["bf16", chip.bf16_flops_per_s],
    ["fp16", chip.fp16_flops_per_s],
    ["fp32", chip.fp32_flops_per_s],
  ].find(([, value]) => value > 0) ?? ["fp32", 0];
  const given = state.scenario.cluster.link ?? chip.link;
  const link = typeof given === "object" ? given : state.catalog.links.find(({ key }) => key === given);
  const speed = link?.value?.bytes_per_s ?? link?.bytes_per_s;
  const { chips_per_node, nodes } = state.scenario.cluster;
  return [
    `${quantity(peak, "flops_per_s")} ${name}`,
    `${inBothUnits(chip.memory_bytes)} at ${quantity(chip.memory_bytes_per_s, "bytes_per_s")}`,
    speed && `${link.label || "link"} ${quantity(speed, "bytes_per_s")}`,
    nodes > 1 ? `${count(nodes)} nodes of ${count(chips_per_node)}` : `${count(chips_per_node)} in one node`,
    // who took another model may not have seen on what it stands
    same(state.scenario.cluster, state.base.cluster) &&
      !same(state.scenario.model, state.base.model) &&
      "as the sample has",
  ]
    .filter(Boolean)
    .join(" · ");
}
