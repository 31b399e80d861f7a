"""Plans that are compared with one process, by name: what they say beside a tiny model."""

from __future__ import annotations

from typing import Any

LLAMA = {"layers": 4, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocab": 64, "qk_norm": True}
GPT2 = {"layers": 3, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 64, "gated_ffn": False, "activation": "gelu-tanh",
        "norm": "layer", "position": "learned", "bias": True, "tied_embedding": True}  # fmt: skip
MOE = {**LLAMA, "experts": 4, "top_k": 2, "moe_ffn": 16, "shared_experts": 1, "dense_layers": 1, "layers": 3}
MLA = {"layers": 2, "hidden": 32, "heads": 4, "head_dim": 24, "ffn": 64, "vocab": 64, "kv_lora_rank": 16,
       "q_lora_rank": 12, "qk_rope_head_dim": 8, "v_head_dim": 16}  # fmt: skip
GROUPED = {"experts": "grouped"}

TWO: dict[str, dict[str, Any]] = {
    "fsdp": {"plan": {"dp": 2, "sharding": "fsdp"}},
    "zero3": {"plan": {"dp": 2, "sharding": "zero3"}, "batches": 2},
    "zero1": {"plan": {"dp": 2, "sharding": "zero1", "bucket_bytes": 20_000}, "batches": 2},
    "zero2": {"plan": {"dp": 2, "sharding": "zero2", "bucket_bytes": 20_000}, "batches": 2},
    "zero1 tied, not beside": {"plan": {"dp": 2, "sharding": "zero1", "overlap": False}, "model": GPT2},
    "ddp flat": {"plan": {"dp": 2, "ddp_mode": "flat"}, "batches": 2},
    "ddp naive": {"plan": {"dp": 2, "ddp_mode": "naive"}},
    "ddp not beside": {"plan": {"dp": 2, "overlap": False}},
    "tp": {"plan": {"tp": 2}},
    "tp sequence": {"plan": {"tp": 2, "sequence_parallel": True}, "batches": 2},
    "tp tied": {"plan": {"tp": 2}, "model": GPT2},
    "tp sequence tied": {"plan": {"tp": 2, "sequence_parallel": True}, "model": GPT2},
    "tp latent": {"plan": {"tp": 2}, "model": MLA},
    "tp sequence latent": {"plan": {"tp": 2, "sequence_parallel": True}, "model": MLA},
    "tp experts": {"plan": {"tp": 2}, "model": MOE},
    "tp sequence experts": {"plan": {"tp": 2, "sequence_parallel": True, "ep": 2}, "model": MOE, "training": GROUPED},
    "ring": {"plan": {"cp": 2, "cp_kind": "ring"}},
    "ring latent": {"plan": {"cp": 2, "cp_kind": "ring"}, "model": MLA},
    "ring eager, recomputed": {"plan": {"cp": 2, "cp_kind": "ring", "recompute": "full", "recompute_every": 2},
                               "training": {"attention": "eager"}},
    "ulysses": {"plan": {"cp": 2, "cp_kind": "ulysses"}, "batches": 2},
    "ulysses eager": {"plan": {"cp": 2, "cp_kind": "ulysses"}, "training": {"attention": "eager"}},
    "all-gather": {"plan": {"cp": 2, "cp_kind": "all-gather"}},
    "all-gather eager": {"plan": {"cp": 2, "cp_kind": "all-gather"}, "training": {"attention": "eager"}},
    "all-gather recomputed": {"plan": {"cp": 2, "cp_kind": "all-gather", "recompute": "selective"}},
    "all-gather, blocks recomputed": {"plan": {"cp": 2, "cp_kind": "all-gather", "recompute": "full"}},
    "all-gather learned": {"plan": {"cp": 2, "cp_kind": "all-gather"}, "model": GPT2},
    "ep": {"plan": {"dp": 2, "ep": 2}, "model": MOE, "batches": 2},
    "ep grouped": {"plan": {"dp": 2, "ep": 2}, "model": MOE, "training": GROUPED},
    "ep fsdp": {"plan": {"dp": 2, "ep": 2, "sharding": "fsdp"}, "model": MOE},
    "ep zero1": {"plan": {"dp": 2, "ep": 2, "sharding": "zero1"}, "model": MOE},
    "gpipe": {"plan": {"pp": 2, "schedule": "gpipe"}, "batches": 3},
    "1f1b tied, uneven": {"plan": {"pp": 2, "schedule": "1f1b"}, "model": GPT2, "batches": 4},
    "interleaved": {"plan": {"pp": 2, "schedule": "interleaved", "virtual_stages": 2}, "batches": 4},
    "zero-bubble": {"plan": {"pp": 2, "schedule": "zero-bubble"}, "batches": 4},
    "zero-bubble-v tied": {"plan": {"pp": 2, "schedule": "zero-bubble-v"}, "model": {**GPT2, "layers": 4},
                           "batches": 4},
}  # fmt: skip
FOUR: dict[str, dict[str, Any]] = {
    "tp fsdp": {"plan": {"tp": 2, "dp": 2, "sharding": "fsdp", "sequence_parallel": True}},
    "hybrid": {"plan": {"dp": 4, "sharding": "fsdp", "shard_ranks": 2}},
    "hybrid zero2": {"plan": {"dp": 4, "sharding": "zero2", "shard_ranks": 2}, "batches": 2},
    "cp tp, placed": {"plan": {"tp": 2, "cp": 2, "cp_kind": "ring", "placement": "cp-tp-dp-pp"}},
    "ring fsdp": {"plan": {"cp": 4, "cp_kind": "ring", "sharding": "fsdp"}},
    "ulysses zero1, copied heads": {"plan": {"cp": 4, "cp_kind": "ulysses", "sharding": "zero1"}},
    "all-gather dp": {"plan": {"cp": 2, "dp": 2, "cp_kind": "all-gather"}},
    "ep of half": {"plan": {"dp": 4, "ep": 2}, "model": MOE, "training": GROUPED},
    "pp ep": {"plan": {"pp": 2, "dp": 2, "ep": 2}, "model": MOE, "batches": 2},
    "pp tied dp": {"plan": {"pp": 2, "dp": 2, "schedule": "1f1b"}, "model": {**GPT2, "layers": 5}, "batches": 2},
    "pp fsdp": {"plan": {"pp": 2, "dp": 2, "sharding": "fsdp"}, "batches": 2},
    "pp zero1 tp": {"plan": {"pp": 2, "tp": 2, "sharding": "zero1", "schedule": "zero-bubble"}, "batches": 2},
    "pp latent tp sequence": {"plan": {"pp": 2, "tp": 2, "sequence_parallel": True}, "model": MLA, "batches": 2},
}
EIGHT: dict[str, dict[str, Any]] = {
    "tp pp dp": {"plan": {"tp": 2, "pp": 2, "dp": 2, "sequence_parallel": True}, "batches": 2}
}
PLANS = {**TWO, **FOUR, **EIGHT}


def document(name: str) -> dict[str, Any]:
    """The scenario of a plan."""
    said = PLANS[name]
    plan = said["plan"]
    chips = plan.get("dp", 1) * plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    return {
        "model": said.get("model", LLAMA),
        "cluster": {"chip": "h100-sxm", "chips_per_node": chips},
        "plan": {"micro_batch": 2, **plan},
        "training": {
            "seq_len": 16,
            "global_batch": 2 * plan.get("dp", 1) * said.get("batches", 1),
            "precision": "fp32",
            "optimizer": "sgd",
            **said.get("training", {}),
        },
    }
