/** What the page calls the fields of a scenario, wherever it names them. Pure. */

/** @type {Record<string, string>} */
const LABELS = {
  "plan.dp": "Data parallel",
  "plan.tp": "Tensor parallel",
  "plan.cp": "Context parallel",
  "plan.pp": "Pipeline",
  "plan.virtual_stages": "Virtual stages",
  "plan.ep": "Expert parallel",
  "plan.micro_batch": "Micro-batch",
  "plan.sharding": "Sharding",
  "plan.recompute": "Recompute",
  "plan.schedule": "Pipeline schedule",
  "plan.sequence_parallel": "Sequence parallel (Megatron)",
  "plan.tp_kind": "Tensor parallel kind",
  "plan.tp_depth": "Depth of 2.5D",
  "plan.cp_kind": "Context parallel kind",
  "plan.expert_tp": "Tensor parallel in experts",
  "plan.tp_overlap": "Tensor parallel overlap",
  "plan.ep_overlap": "Expert exchange overlap",
  "plan.ep_dispatch": "Tokens are sent",
  "training.experts": "Experts run",
  "plan.pp_overlap": "Pipeline overlap",
  "plan.shard_ranks": "Hybrid sharding (0: all)",
  "plan.recompute_every": "Checkpoint every",
  "plan.bucket_bytes": "Bucket of gradients",
  "plan.offload": "Offload to host memory",
  "plan.ddp_mode": "Gradient exchange",
  "plan.overlap": "Overlap of communication",
  "plan.placement": "Placement, neighbours first",
  "training.seq_len": "Sequence length",
  "training.global_batch": "Global batch",
  "training.precision": "Precision",
  "training.attention": "Attention",
  "training.framework": "Framework",
  "cluster.nodes": "Nodes",
  "training.optimizer": "Optimizer",
  "training.optimizer_kernel": "Optimizer kernels",
  "training.compile": "torch.compile",
};

/** What a field is called. @param {string} path */
export const labelOf = (path) => LABELS[path] ?? (path.split(".")[1] ?? path).replaceAll("_", " ");

/** What an axis of a search is called: of a plan's field its label, but what everybody calls by two letters. @param {string} name */
export const axisOf = (name) => (name.length === 2 || name === "chips" ? name : labelOf(`plan.${name}`));
