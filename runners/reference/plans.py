"""Plans: the steps of a series that spread one model over the GPUs of a host, for the estimator to be held against.

Experts, latent attention, sharded, tensor, pipeline and context parallel steps and their combinations, of sizes at
which the device binds and, by small models, at which the host does.
"""

from __future__ import annotations

from typing import Any

from estimator.scenario.codec import encode
from estimator.scenario.model import Model
from runners.model.by_name import model_of

CHIP = "h200-sxm"
LAYERS = {"qwen3-30b-a3b": 4, "mixtral-8x7b": 2, "llama3-8b": 8}
"""Blocks that are kept of models that are too large for a GPU or two."""

MODELS: dict[str, dict[str, Any]] = {
    "moe": {"layers": 8, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 5632, "vocab": 32_000,
            "experts": 8, "top_k": 2, "moe_ffn": 4096},
    "moe-small": {"layers": 8, "hidden": 512, "heads": 8, "ffn": 1536, "vocab": 32_000,
                  "experts": 8, "top_k": 2, "moe_ffn": 1024},
    "mla": {"layers": 8, "hidden": 2048, "heads": 16, "head_dim": 192, "ffn": 10_944, "vocab": 102_400,
            "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "mla-q": {"layers": 6, "hidden": 4096, "heads": 32, "head_dim": 192, "ffn": 12_288, "vocab": 102_400,
              "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "mla-small": {"layers": 8, "hidden": 512, "heads": 8, "head_dim": 96, "ffn": 2048, "vocab": 32_000,
                  "kv_lora_rank": 128, "qk_rope_head_dim": 32, "v_head_dim": 64},
    "mla-moe": {"layers": 4, "hidden": 2048, "heads": 16, "head_dim": 192, "ffn": 10_944, "vocab": 102_400,
                "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128,
                "experts": 64, "top_k": 6, "moe_ffn": 1408, "shared_experts": 2, "dense_layers": 1},
    "small": {"layers": 16, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 32_000},
}  # fmt: skip
"""Models by name that are in no catalogue: shapes like those of Mixtral and DeepSeek-V2, and small ones."""

DENSE = Model(layers=1, hidden=1, heads=1, ffn=1, vocab=1)
GROUPED, LOOP = {"experts": "grouped"}, {"experts": "loop"}
SMALL = {"seq_len": 512}
LONG = {"seq_len": 16_384}

Step = tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]
"""Name, model, plan with ``batches`` (micro-batches of a step), training and options."""

ONE: tuple[Step, ...] = (
    ("moe-loop", "moe", {"micro_batch": 2}, {}, LOOP),
    ("moe-grouped", "moe", {"micro_batch": 2}, {}, GROUPED),
    ("moe-grouped-bf16", "moe", {"micro_batch": 2}, {"precision": "bf16"}, GROUPED),
    ("moe-loop-bf16", "moe", {"micro_batch": 2}, {"precision": "bf16"}, LOOP),
    ("moe-grouped-full", "moe", {"micro_batch": 4, "recompute": "full"}, {}, GROUPED),
    ("moe-grouped-batches", "moe", {"micro_batch": 2, "batches": 2}, {}, GROUPED),
    ("moe-small-loop", "moe-small", {}, SMALL, LOOP),
    ("moe-small-grouped", "moe-small", {}, SMALL, GROUPED),
    ("qwen3-moe-grouped", "qwen3-30b-a3b", {"micro_batch": 2}, {}, GROUPED),
    ("qwen3-moe-grouped-bf16", "qwen3-30b-a3b", {"micro_batch": 4}, {"precision": "bf16"}, GROUPED),
    ("qwen3-moe-loop", "qwen3-30b-a3b", {"micro_batch": 2}, {}, LOOP),
    ("mixtral-grouped-bf16", "mixtral-8x7b", {}, {"seq_len": 4096, "precision": "bf16"}, GROUPED),
    ("mixtral-loop", "mixtral-8x7b", {}, {"seq_len": 4096}, LOOP),
    ("mla", "mla", {"micro_batch": 2}, {}, {}),
    ("mla-bf16", "mla", {"micro_batch": 2}, {"precision": "bf16", "seq_len": 4096}, {}),
    ("mla-eager", "mla", {"micro_batch": 2}, {"attention": "eager", "seq_len": 1024}, {}),
    ("mla-selective", "mla", {"micro_batch": 2, "recompute": "selective"}, {}, {}),
    ("mla-full", "mla", {"micro_batch": 4, "recompute": "full"}, {}, {}),
    ("mla-q", "mla-q", {}, {"seq_len": 4096}, {}),
    ("mla-small", "mla-small", {}, SMALL, {}),
    ("mla-moe-grouped", "mla-moe", {"micro_batch": 2}, {}, GROUPED),
    ("mla-moe-loop", "mla-moe", {"micro_batch": 2}, {}, LOOP),
    ("mla-moe-grouped-bf16", "mla-moe", {"micro_batch": 4}, {"precision": "bf16"}, GROUPED),
)


def _several(n: int) -> tuple[Step, ...]:
    """Each axis alone over all ``n`` ranks."""
    dense, tied = "tinyllama-1.1b", "llama3.2-1b"
    fsdp, zero3 = {"dp": n, "sharding": "fsdp"}, {"dp": n, "sharding": "zero3"}
    tp, sequence = {"tp": n}, {"tp": n, "sequence_parallel": True}
    found: list[Step] = [
        ("ddp", dense, {"dp": n, "micro_batch": 4}, {}, {}),
        ("ddp-after-backward", dense, {"dp": n, "micro_batch": 4, "overlap": False}, {}, {}),
        ("fsdp", dense, {**fsdp, "micro_batch": 4}, {}, {}),
        ("fsdp-batches", dense, {**fsdp, "micro_batch": 2, "batches": 2}, {}, {}),
        ("fsdp-bf16", dense, {**fsdp, "micro_batch": 4}, {"precision": "bf16"}, {}),
        ("fsdp-tf32", dense, {**fsdp, "micro_batch": 2}, {"precision": "tf32"}, {}),
        ("fsdp-full", "llama3-8b", {**fsdp, "micro_batch": 2, "recompute": "full"}, {"seq_len": 4096}, {}),
        ("fsdp-small", "small", fsdp, SMALL, {}),
        ("zero3", dense, {**zero3, "micro_batch": 4}, {}, {}),
        ("zero3-small", "small", zero3, SMALL, {}),
        ("zero1", dense, {"dp": n, "sharding": "zero1", "micro_batch": 4}, {}, {}),
        ("zero2-batches", dense, {"dp": n, "sharding": "zero2", "micro_batch": 2, "batches": 2}, {}, {}),
        ("tp", tied, {**tp, "micro_batch": 4}, {}, {}),
        ("tp-sequence", tied, {**sequence, "micro_batch": 4}, {}, {}),
        ("tp-bf16", "llama3-8b", {**tp, "micro_batch": 2}, {"precision": "bf16"}, {}),
        ("tp-sequence-bf16", "llama3-8b", {**sequence, "micro_batch": 2}, {"precision": "bf16"}, {}),
        ("tp-small", "small", tp, SMALL, {}),
        ("cp-ulysses", tied, {"cp": n, "cp_kind": "ulysses"}, LONG, {}),
        ("cp-all-gather", tied, {"cp": n, "cp_kind": "all-gather"}, LONG, {}),
        ("cp-ring", tied, {"cp": n, "cp_kind": "ring"}, LONG, {}),
        ("cp-ring-bf16", "llama3-8b", {"cp": n, "cp_kind": "ring"}, {**LONG, "precision": "bf16"}, {}),
        ("cp-ring-fsdp", tied, {"cp": n, "cp_kind": "ring", "sharding": "fsdp"}, LONG, {}),
        ("cp-ulysses-zero1", tied, {"cp": n, "cp_kind": "ulysses", "sharding": "zero1"}, LONG, {}),
        ("ep-grouped", "moe", {"dp": n, "ep": n, "micro_batch": 2}, {}, GROUPED),
        ("ep-loop", "moe", {"dp": n, "ep": n, "micro_batch": 2}, {}, LOOP),
        ("ep-qwen3-grouped", "qwen3-30b-a3b", {"dp": n, "ep": n, "micro_batch": 2}, {}, GROUPED),
        ("ep-fsdp-grouped", "moe", {**fsdp, "ep": n, "micro_batch": 2}, {}, GROUPED),
        ("ep-mla-grouped", "mla-moe", {"dp": n, "ep": n, "micro_batch": 2}, {}, GROUPED),
        ("fsdp-moe-grouped", "moe", {**fsdp, "micro_batch": 2}, {}, GROUPED),
        ("tp-sequence-ep", "moe", {**sequence, "ep": n, "micro_batch": 2}, {}, GROUPED),
        ("tp-mla", "mla", {**sequence, "micro_batch": 2}, {}, {}),
        ("fsdp-mla", "mla", {**fsdp, "micro_batch": 2}, {}, {}),
        ("pp-small", "small", {"pp": n, "batches": 2 * n}, SMALL, {}),
    ]
    for schedule in ("gpipe", "1f1b", "zero-bubble", "zero-bubble-v"):
        found.append((f"pp-{schedule}", tied, {"pp": n, "schedule": schedule, "batches": 4 * n}, {}, {}))
    interleaved = {"pp": n, "schedule": "interleaved", "virtual_stages": 2, "batches": 4 * n}
    uneven = {"pp": n, "schedule": "1f1b", "batches": 4 * n}
    return (
        *found,
        ("pp-interleaved", tied, interleaved, {}, {}),
        ("pp-uneven", "tinyllama-1.1b", uneven, {}, {}),
    )


def _together(n: int) -> tuple[Step, ...]:
    """Several axes at once over four or more ranks."""
    dense, half = "llama3.2-1b", n // 2
    cube = {"tp": 2, "pp": 2, "dp": n // 4, "sequence_parallel": True, "batches": 4}
    return (
        ("hybrid", dense, {"dp": n, "sharding": "fsdp", "shard_ranks": half, "micro_batch": 4}, {}, {}),
        ("tp-fsdp", dense, {"tp": 2, "dp": half, "sharding": "fsdp", "micro_batch": 4}, {}, {}),
        ("tp-sequence-fsdp", "llama3-8b", {"tp": 2, "dp": half, "sharding": "fsdp", "sequence_parallel": True}, {}, {}),
        ("tp-pp-dp", dense, {**cube, "micro_batch": 2}, {}, {}),
        ("tp-pp-zero1", "tinyllama-1.1b", {**cube, "micro_batch": 2, "sharding": "zero1"}, {}, {}),
        ("tp-dp", dense, {"tp": half, "dp": 2, "micro_batch": 4}, {}, {}),
        ("pp-fsdp", dense, {"pp": 2, "dp": half, "sharding": "fsdp", "batches": 4}, {}, {}),
        ("cp-tp", dense, {"tp": 2, "cp": half, "cp_kind": "ring"}, LONG, {}),
        ("cp-dp-ulysses", dense, {"cp": half, "dp": 2, "cp_kind": "ulysses"}, LONG, {}),
        ("cp-fsdp-all-gather", dense, {"cp": half, "dp": 2, "cp_kind": "all-gather", "sharding": "fsdp"}, LONG, {}),
        ("ep-half", "moe", {"dp": n, "ep": half, "micro_batch": 2}, {}, GROUPED),
        ("pp-ep", "moe", {"pp": 2, "dp": half, "ep": half, "batches": 4}, {}, GROUPED),
    )


def plans(ranks: int, chip: str = CHIP, *, small: bool = False) -> list[dict[str, Any]]:
    """The series for so many ranks, as ``python -m runners series`` reads a list; ``small`` to try it out on a CPU."""
    steps = ONE if ranks == 1 else _several(ranks) + (_together(ranks) if ranks >= 4 else ())
    found = [_entry(step, ranks, chip) for step in steps if _fits(step, ranks)]
    return [_shrunk(entry) for entry in found] if small else found


def _shrunk(entry: dict[str, Any]) -> dict[str, Any]:
    """The same plan of a tiny model of the same kind, in fp32."""
    scenario = entry["scenario"]
    model, plan, training = scenario["model"], scenario["plan"], scenario["training"]
    # As many heads and blocks as any plan divides them by
    ranks = max(2, plan.get("tp", 1), plan.get("cp", 1))
    tiny = {"layers": max(2, 2 * plan.get("pp", 1)), "hidden": 16 * ranks, "heads": 2 * ranks, "ffn": 32 * ranks,
            "vocab": 64, "kv_heads": ranks if model.get("kv_heads") and "kv_lora_rank" not in model else 0}  # fmt: skip
    tiny |= {"head_dim": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8} if "v_head_dim" in model else {}
    tiny |= {"q_lora_rank": 8} if "q_lora_rank" in model else {}
    tiny |= {"experts": 8, "top_k": 2, "moe_ffn": 16, "dense_layers": 1} if model.get("experts") else {}
    few = {"plan": {**plan, "micro_batch": 1}, "training": {**training, "seq_len": 32, "precision": "fp32"}}
    few["training"]["global_batch"] = training["global_batch"] // plan.get("micro_batch", 1)
    return {**entry, "scenario": {**scenario, "model": tiny, **few}, "warmup": 1, "steps": 2}


def _fits(step: Step, ranks: int) -> bool:
    """Whether so many ranks divide a model: TinyLlama and Llama 3 have few key/value heads."""
    _, name, plan, _, _ = step
    model: dict[str, Any] = _model(name)
    chunks = 2 if plan.get("virtual_stages", 1) > 1 or plan.get("schedule") == "zero-bubble-v" else 1
    heads = model.get("kv_heads") or model["heads"]
    return bool(model["layers"] >= plan.get("pp", 1) * chunks and heads % plan.get("tp", 1) == 0)


def _model(name: str) -> dict[str, Any]:
    if name in MODELS:
        return {"name": name, **MODELS[name]}
    found = said(model_of(name, LAYERS.get(name, 0)))
    return {**found, "name": f"{name}, {LAYERS[name]} blocks" if name in LAYERS else name}


def said(model: Model) -> dict[str, Any]:
    """The fields of a model in which it is no plain one, as a scenario says them."""
    return {name: value for name, value in encode(model).items() if value != getattr(DENSE, name, None)}


def _entry(step: Step, ranks: int, chip: str) -> dict[str, Any]:
    name, model, plan, training, options = step
    plan = dict(plan)
    batches = plan.pop("batches", 1)
    sequences = plan.get("micro_batch", 1) * plan.get("dp", 1) * batches
    return {
        "name": f"{name}-{ranks}",
        "scenario": {
            "model": _model(model),
            "cluster": {"chip": chip, "chips_per_node": ranks, "nodes": 1},
            "plan": plan,
            "training": {"seq_len": 2048, "global_batch": sequences, "precision": "bf16-amp", **training},
        },
        "options": options,
    }
