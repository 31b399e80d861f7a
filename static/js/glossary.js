/** Terms of the page: what each says, its formula, and where that is from. Pure. */

/** @typedef {import("./types.js").Named} Named */
/** @typedef {{name: string, also?: string[], says: string, formula?: string, source?: string}} Term  `also`: as the page writes it elsewhere */

const PALM = "Chowdhery et al. 2022, arXiv 2204.02311, appendix B";
const MEGATRON = "Narayanan et al. 2021, arXiv 2104.04473";
const ZERO = "Rajbhandari et al. 2019, arXiv 1910.02054";
const KORTHIKANTI = "Korthikanti et al. 2022, arXiv 2205.05198";

/** @type {Term[]} */
const TERMS = [
  {
    name: "step time",
    says: "One optimizer step of the global batch: forward, backward, exposed communication, bubble, host waits, optimizer. The grey band is the 80 % interval of a prediction, the spread of a measurement.",
    formula: "t = compute + exposed + bubble + host + optimizer",
  },
  {
    name: "tokens/s per GPU",
    also: ["tokens/s per TPU", "tokens/s per CPU", "tokens/s"],
    says: "Tokens of the global batch over the step time and the chips.",
    formula: "B · S / (t · chips)",
  },
  {
    name: "MFU",
    also: ["HFU"],
    says: "Model FLOPs utilisation: the FLOPs that the model needs, without recomputation, over what the chips could do in that time at their dense peak. HFU counts what they execute: recomputed work too, but of causal attention only the half that its kernels compute, so that it can be the lower one where nothing is recomputed.",
    formula: "6 · (N + V·d) + 12 · L · d · S FLOPs a token, × tokens / (t · chips · peak)",
    source: PALM,
  },
  {
    name: "peak memory",
    says: "The most bytes that live tensors take on one chip of the fullest stage. What the allocator reserves is more; the risk of running out is of that.",
    formula: "parameters + gradients + optimizer + activations + temporaries + framework",
  },
  {
    name: "per million tokens",
    says: "Price of the step over its tokens, at the price of a chip-hour that stands beside it, which you can change.",
    formula: "t · chips · $/h / 3600 / tokens × 10⁶",
  },
  { name: "exposed", says: "The part of a collective that nothing runs beside; the rest is hidden behind compute." },
  {
    name: "roofline",
    says: "Speed against FLOPs per byte. No kernel is above the roof: left of the ridge memory bandwidth binds, right of it the arithmetic units. Marks on the foot are kernels whose FLOPs or bytes nobody knows.",
    formula: "min(peak, intensity · bandwidth)",
    source: "Williams, Waterman, Patterson 2009, CACM 52(4)",
  },
  {
    name: "FLOP/byte",
    also: ["FLOP per byte of device memory"],
    says: "Arithmetic intensity: FLOPs over bytes moved to and from device memory.",
    formula: "FLOPs / bytes",
  },
  { name: "bound", says: "What limits the op: compute, memory bandwidth, or its launch." },
  {
    name: "saved",
    says: "Bytes kept from forward for backward, on this rank.",
    formula: "≈ s·b·h·(34 + 5·a·s/h) a layer in 16 bit without recomputation and without fused attention",
    source: KORTHIKANTI,
  },
  { name: "launches", says: "Kernels that the host starts for the op." },
  {
    name: "timeline",
    says: "Lanes of the host, of compute and of communication, A above B; below, memory on the same axis. A prediction is laid out from the event simulation, a measurement from its trace, or by phase where there is none.",
  },
  {
    name: "data parallel",
    says: "Copies of the model that see different sequences and sum their gradients.",
    formula: "all-reduce of the gradients, or reduce-scatter and all-gather where sharded",
  },
  {
    name: "tensor parallel",
    says: "Every matrix is cut over tp ranks, which exchange activations twice a layer and direction.",
    formula: "2 all-reduces of b·s·h a layer, forward and backward",
    source: "Shoeybi et al. 2019, arXiv 1909.08053",
  },
  {
    name: "context parallel",
    says: "A sequence is cut over cp ranks; attention exchanges keys and values in a ring, or heads for positions (Ulysses).",
    source: "Liu et al. 2023, arXiv 2310.01889; Jacobs et al. 2023, arXiv 2309.14509",
  },
  { name: "pipeline", says: "Layers are cut into pp stages; micro-batches flow through them.", source: MEGATRON },
  {
    name: "virtual stages",
    says: "Chunks of layers that each stage holds: v times less bubble, v times more sends.",
    source: MEGATRON,
  },
  {
    name: "expert parallel",
    says: "Experts are spread over ep ranks; tokens travel to theirs and back by all-to-all.",
  },
  {
    name: "micro-batch",
    says: "Sequences that one rank computes at once; gradients of several micro-batches are added before an update.",
  },
  {
    name: "sharding",
    says: "What data-parallel ranks hold a part of: ZeRO-1 optimizer state, ZeRO-2 gradients too, ZeRO-3 and FSDP parameters too.",
    formula: "bytes a rank: parameters + gradients + optimizer, each / dp where sharded",
    source: ZERO,
  },
  {
    name: "recompute",
    says: "Activations that are not saved but computed again in backward: none, those of attention (selective), or whole blocks (full), which costs about a third more FLOPs.",
    source: KORTHIKANTI,
  },
  {
    name: "sequence parallel (Megatron)",
    also: ["sequence parallel"],
    says: "Norms and dropout are cut along the sequence over the tensor-parallel ranks: same bytes on the link, activations / tp.",
    source: KORTHIKANTI,
  },
  {
    name: "global batch",
    says: "Sequences in one optimizer step, over all ranks.",
    formula: "dp · micro-batch · micro-batches",
  },
  {
    name: "slower kernels",
    also: ["faster kernels"],
    says: "The same FLOPs and bytes at another speed.",
    formula: "amount · (1/rate B − 1/rate A)",
  },
  {
    name: "more FLOPs",
    also: ["fewer FLOPs", "more bytes", "fewer bytes"],
    says: "Another amount of work at the speed of A.",
    formula: "(amount B − amount A) / rate A",
  },
  {
    name: "more recomputed",
    also: ["less recomputed"],
    says: "Another part of the forward pass runs a second time in backward, by the kernels that it has in forward.",
    formula: "amount recomputed by B / its rate − amount recomputed by A / its rate, at one rate of both",
  },
  { name: "less overlap", also: ["more overlap"], says: "Another part of the communication is hidden behind compute." },
  {
    name: "longer waits",
    also: ["shorter waits"],
    says: "The chip waits longer for the host, which starts kernels more slowly or has less to hide behind.",
  },
];

/** What is said of a step's kind, or of a set of steps, in How right predictions are. @type {Term[]} */
const OF_KINDS = [
  {
    name: "host near",
    says: "The host takes two fifths of the device's time of a micro-batch or more: on a slower host it would bind.",
  },
  { name: "host binds", says: "The host takes longer to launch a micro-batch than the device to run it." },
  {
    name: "host probed",
    says: "The host is near or binds, and launches of this very host were timed for the calibration that it is predicted by.",
  },
  {
    name: "host paced",
    says: "The same, and the host is taken at the pace that was noted just before the step.",
  },
  {
    name: "kernels met",
    says: "One device that no host keeps waiting, of a chip whose like several sources measured: little but its kernels can be off.",
  },
  {
    name: "links met",
    says: "Several devices that no host keeps waiting, under PyTorch's own runtimes, of a chip whose like several sources measured: little but kernels and links can be off.",
  },
  { name: "chip not met", says: "No source of measurements, or one alone, has measured the step's chip." },
  {
    name: "by its probes",
    also: ["by the third's probes"],
    says: "Predicted by a calibration of nothing but probes of that host, which hold none of the steps.",
  },
  { name: "at its pace", says: "The host is taken at the pace that was noted just before each step." },
];

/** Where a step runs, the first word of its kind, and what is left of it. @type {Term[]} */
const OF_PLACES = [
  { name: "one device", says: "A step of one chip: nothing is sent." },
  { name: "data parallel", says: "Several chips, each with all of the model: DDP, ZeRO-1 or ZeRO-2." },
  { name: "sharded", says: "Several chips that share parameters too: FSDP or ZeRO-3." },
  {
    name: "split",
    says: "Several chips that share layers, tensors or sequences: pipeline, tensor or context parallel.",
  },
  {
    name: "tuned cluster",
    says: "A recipe that a vendor tuned and published, with kernels and overlap of its own framework.",
  },
  { name: "compiled", says: "The model went through torch.compile." },
  { name: "experts", says: "A mixture of experts." },
  { name: "not known", says: "Steps that have no interval, and no kind." },
];

/** Words that names are made of which stand between commas, once each. @param {string[]} names @returns {Term[]} */
export function wordsOf(names) {
  const used = new Set(names.flatMap((name) => name.split(", ")));
  return [...OF_PLACES, ...OF_KINDS].filter(({ name }) => used.has(name));
}

/** What words in the name of a kind or a set of steps say; "" where none needs it. @param {string} text */
export const wordsOfKind = (text) =>
  OF_KINDS.filter(({ name, also = [] }) => [name, ...also].some((word) => text.includes(word)))
    .map(({ name, says }) => `${name[0].toUpperCase()}${name.slice(1)}: ${says}`)
    .join("\n");

/**
 * All terms: those of the page, and the names of the catalogue that say something, under the labels that they have;
 * names that say the same are one.
 * @param {import("./types.js").Named[][]} names @returns {Term[]}
 */
export function termsWith(...names) {
  /** @type {Map<string, Term>} */
  const found = new Map();
  for (const { label, says, formula, source } of names.flat()) {
    const before = says && found.get(says);
    if (before) before.also = [...(before.also ?? []), label];
    else if (says) found.set(says, { name: label, says, formula, source });
  }
  return [...TERMS, ...OF_KINDS, ...found.values()];
}

/** Axes that the page names by their letters alone. @param {{key: string, label: string}[]} axes @returns {Named[]} */
export const axesOf = (axes) => axes.map(({ key, label }) => ({ key, label: key, hue: "", says: `${label}.` }));

/** The term that a heading or a label is, its unit aside. @param {string} text @param {Term[]} terms @returns {Term | null} */
export function termOf(text, terms) {
  const is = (/** @type {string} */ word) =>
    terms.find(({ name, also = [] }) => [name, ...also].some((one) => one.toLowerCase() === word));
  const word = text.trim().toLowerCase();
  return is(word) ?? is(word.replace(/,[^,]*$/, "")) ?? null;
}
