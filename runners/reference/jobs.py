"""Reference: what is measured of a machine, job by job, so that the estimator can be held against it.

Every job is small enough to end within ten minutes, and stands alone: one that is lost takes no other along. What may
hang (compiling, pipelines) is in jobs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from estimator.scenario.codec import encode
from estimator.scenario.units import counted
from runners.job import Job
from runners.model.by_name import model_of
from runners.options import TINY

START_S = 60.0
"""What a job may take beside its rows: torch is imported, ranks meet, and the result is written."""

CS336 = ("cs336-small", "cs336-medium", "cs336-large", "cs336-xl", "cs336-2.7b")
LLM = ("gpt2", "gpt2-medium", "tinyllama-1.1b", "llama3.2-1b", "qwen3-0.6b", "qwen3-1.7b")
MODES = ("forward", "forward-backward", "step")
LENGTHS = (128, 256, 512, 1024)
AUTOCAST = ("fp32", "bf16-amp")
SHARED = {"models": ("cs336-large",), "seq_lens": (1024,), "micro_batch": 4}
ONE_LENGTH = {"seq_lens": (512,), "micro_batches": (4,), "precisions": ("bf16-amp",)}
SINGLE_HEAD = {
    "dims": (16, 32, 64, 128),
    "seq_lens": (256, 1024, 4096, 16_384),
    "batch": 8,
    "heads": 1,
    "causals": ("no",),
}
SNAPSHOT = {"models": CS336[:1], "seq_lens": (256,), "precisions": ("bf16-amp",), "passes": ("step",)}
GRADIENTS = ("single", "naive", "flat", "overlapped", "bucketed:1", "bucketed:10", "bucketed:25", "bucketed:100")
SHARDED = ("zero1", "fsdp", "fsdp:no-reshard", "fsdp:mixed", "tp", "tp:sequence")
PIPELINES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One job by name: what it measures, and seconds after which no row begins and that a row may take.

    ``layers`` cuts a model to its first blocks, so that its trace and snapshot stay small.
    """

    name: str
    benchmark: str
    options: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    layers: int = 0
    limit_s: float = 240.0
    row_limit_s: float = 120.0
    warmup: int = 2
    steps: int = 5


ONE_RANK = (
    Entry(name="probes", benchmark="probes", limit_s=110),
    Entry(name="trace", benchmark="step", model="llama3.2-1b", options={"snapshot": True}, steps=10),
    Entry(name="trace-short", benchmark="step", model="llama3.2-1b", layers=2, options={"snapshot": True}, steps=10),
    Entry(name="snapshot", benchmark="memory", options={**SNAPSHOT, "snapshot": True}),
    Entry(name="attention", benchmark="attention", limit_s=360, steps=10),
    Entry(name="attention-bf16", benchmark="attention", options={**SINGLE_HEAD, "precisions": ("bf16",)}, steps=10),
    Entry(name="attention-fp32", benchmark="attention", options={**SINGLE_HEAD, "precisions": ("fp32",)}, steps=10),
    *(
        Entry(
            name=f"compiled-{model}",
            benchmark="step",
            options={**ONE_LENGTH, "models": (model,), "compiles": ("no", "yes"), "modes": MODES, "profile": True},
            limit_s=240,
            row_limit_s=240,
        )
        for model in (*CS336[:3], "llama3.2-1b")
    ),
    Entry(
        name="cs336",
        benchmark="step",
        options={
            "models": CS336,
            "seq_lens": LENGTHS,
            "micro_batches": (4,),
            "precisions": AUTOCAST,
            "attentions": ("eager",),
        },
        limit_s=300,
    ),
    Entry(
        name="llm",
        benchmark="step",
        options={"models": LLM, "seq_lens": (512, 2048), "micro_batches": (2,), "precisions": ("bf16", "bf16-amp")},
    ),
    Entry(
        name="modes",
        benchmark="step",
        options={
            **ONE_LENGTH,
            "models": CS336[1:2],
            "precisions": ("tf32", "bf16-amp"),
            "modes": MODES,
            "graphs": ("no", "yes"),
            "optimizer_kernels": ("foreach", "fused"),
        },
    ),
    Entry(
        name="recompute",
        benchmark="step",
        options={
            "models": ("tinyllama-1.1b",),
            "seq_lens": (2048,),
            "micro_batches": (4,),
            "precisions": ("bf16",),
            "recomputes": ("none", "selective", "full"),
            "attentions": ("eager", "sdpa"),
        },
    ),
    Entry(
        name="memory",
        benchmark="memory",
        options={
            "models": (CS336[0], CS336[2], CS336[4]),
            "seq_lens": LENGTHS,
            "precisions": AUTOCAST,
            "micro_batch": 4,
        },
        limit_s=300,
        warmup=1,
    ),
    Entry(name="precision", benchmark="precision"),
    Entry(name="ulysses", benchmark="ulysses"),
)
SEVERAL_RANKS = (
    Entry(name="trace", benchmark="step", model="llama3.2-1b", steps=10),
    Entry(name="trace-short", benchmark="step", model="llama3.2-1b", layers=2, options={"snapshot": True}, steps=10),
    Entry(name="collectives", benchmark="collectives", limit_s=300),
    Entry(name="ddp", benchmark="ddp", options={**SHARED, "variants": GRADIENTS, "profile": True}),
    Entry(name="ddp-sharded", benchmark="ddp", options={**SHARED, "variants": SHARDED, "profile": True}),
    Entry(name="ddp-pipelines", benchmark="ddp", options={**SHARED, "layers": 32, "variants": PIPELINES}),
    Entry(
        name="ddp-fp32",
        benchmark="ddp",
        options={**SHARED, "models": CS336[3:4], "seq_lens": (512,), "precisions": ("fp32",), "variants": GRADIENTS},
    ),
    Entry(name="ulysses", benchmark="ulysses"),
    Entry(name="probes", benchmark="probes", options={"ladders": ("copy", "collective")}, limit_s=110),
)

SMALL: dict[str, dict[str, Any]] = {
    "step": {"models": (TINY,), "layers": 1, "seq_lens": (16,), "micro_batches": (1,)},
    "attention": {"dims": (16,), "seq_lens": (32,), "implementations": ("naive", "sdpa-math"), "batch": 1},
    "memory": {"models": (TINY,), "seq_lens": (16,), "micro_batch": 1},
    "ddp": {"models": (TINY,), "seq_lens": (16,), "micro_batch": 1},
    "collectives": {"sizes_bytes": (1024, 65_536)},
    "probes": {"sizes": "few", "ladders": ("gemm", "copy", "collective")},
}
"""What replaces the sizes of each benchmark where the way is tried out on a CPU."""

TRACED: dict[str, Any] = {"seq_len": 2048, "precision": "bf16-amp"}
SMALL_TRACED: dict[str, Any] = {"seq_len": 16, "precision": "fp32"}
SMALL_MODEL = {"name": TINY, "layers": 1, "hidden": 32, "heads": 2, "kv_heads": 2, "ffn": 64, "vocab": 64}


def entries(ranks: int) -> tuple[Entry, ...]:
    """What is measured with so many ranks."""
    return ONE_RANK if ranks == 1 else SEVERAL_RANKS


def job_of(entry: Entry, ranks: int, *, device: str = "auto", small: bool = False, chip: str = "h200-sxm") -> Job:
    """The job of an entry on ``ranks`` devices; ``chip`` is what a scenario says of them."""
    options = {**entry.options}
    if entry.benchmark == "ddp" and entry.name.endswith("pipelines"):
        options["variants"] = tuple(f"pp:{schedule}:{2 * ranks}" for schedule in options["variants"])
    if small and not entry.model:
        options |= SMALL.get(entry.benchmark, {})
    scenario: dict[str, Any] = {}
    if entry.model:
        scenario = {
            "model": SMALL_MODEL if small else _model(entry),
            "cluster": {"chip": chip, "chips_per_node": ranks, "nodes": 1},
            "plan": {"dp": ranks, "sharding": "ddp", "micro_batch": 1 if small else 4},
            "training": {"global_batch": ranks * (1 if small else 4), **(SMALL_TRACED if small else TRACED)},
        }
    elif entry.benchmark != "precision":
        options["limit_s"] = entry.limit_s
    return Job(
        benchmark=entry.benchmark,
        scenario=scenario,
        options={name: list(value) if isinstance(value, tuple) else value for name, value in options.items()},
        world_size=ranks,
        device=device,
        warmup=1 if small else entry.warmup,
        steps=1 if small else entry.steps,
        time_limit_s=entry.limit_s + entry.row_limit_s + START_S,
        row_limit_s=entry.row_limit_s,
        label=f"{entry.name}, {counted(ranks, 'rank')}",
    )


def _model(entry: Entry) -> Any:
    """The name of a whole model, or the document of its first blocks."""
    if not entry.layers:
        return entry.model
    return encode(replace(model_of(entry.model, entry.layers), name=f"{entry.model}, {entry.layers} blocks"))
