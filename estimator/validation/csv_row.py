"""CSV row: one row of a CSV of measured runs, read into a Scenario by stated defaults, never by the measurement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.breakdown import Phase
from estimator.scenario.codec import encode
from estimator.scenario.framework import FRAMEWORKS, Framework
from estimator.scenario.hardware import PEAK_FIELD, Chip
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json

PARTS = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
PEERS = re.compile(r"(naive|roofline|habitat|li_et_al|neusight|[a-z0-9]+(?:_[a-z0-9]+)*_predicted)_s$")
"""Columns of others' predictions of the time that a row measures."""
EXPERT_FAMILIES = re.compile(r"moe|mixtral|\dx\d+b|-a\d+b|gpt-oss|deepseek|grok|kimi|switch", re.I)
ADAPTERS = re.compile(r"\bq?lora\b", re.I)
PART_OF_A_STEP = re.compile(r"\[forward(?!.*(adam|sgd|optimizer)).*\]", re.I)
STATED_NETWORK_LATENCY_S = 5e-6
"""Latency where a table states a network's bandwidth only: InfiniBand and RoCE lie at 2 to 10 µs."""


@dataclass(frozen=True, kw_only=True)
class CsvRow:
    """A row as understood: a scenario with what was assumed, or the reason why it cannot be predicted.

    ``timed_parts``: the parts of a step that ``measured_step_s`` is the time of; empty for a whole one. ``peers_s``:
    predictions of the same time that the table holds, by whose.
    """

    source_id: str
    scenario: Scenario | None
    assumptions: tuple[str, ...]
    reason: str
    measured_step_s: float | None
    measured_memory_bytes: float | None
    measured_parts_s: dict[str, float] = field(default_factory=dict)
    timed_parts: tuple[str, ...] = ()
    peers_s: dict[str, float] = field(default_factory=dict)


def scenario_of_row(row: Mapping[str, str]) -> CsvRow:
    """Read one row; what it leaves empty is assumed and listed, what is not modelled yet becomes a reason."""
    cells = {key.strip(): (value or "").strip() for key, value in row.items() if key}
    assumptions: list[str] = []
    scenario: Scenario | None = None
    reason = _not_modelled(cells)
    if not reason:
        try:
            scenario = scenario_from_json(_document(cells, assumptions))
        except InputProblems as error:
            reason = str(error)
        except (ValueError, OverflowError) as error:
            reason = f"unreadable number: {error}"
    parts_s, timed_parts = _parts(cells)
    step_s = _part_of_step_s(cells, parts_s, timed_parts) if timed_parts else _step_s(cells)
    if "time not useful" in cells.get("quality_flags", ""):
        step_s = None
    memory_gib = number(cells.get("measured_peak_mem_gib", ""))
    if scenario is not None and step_s is None and memory_gib is None and not parts_s:
        scenario, reason = None, NOTHING_MEASURED
    return CsvRow(
        source_id=cells.get("source_id", ""),
        scenario=scenario,
        assumptions=tuple(assumptions),
        reason=reason,
        measured_step_s=step_s,
        measured_memory_bytes=memory_gib * 2**30 if memory_gib else None,
        measured_parts_s=parts_s,
        timed_parts=timed_parts,
        peers_s={name[1]: seconds for name, seconds in _peers(cells)},
    )


NOTHING_MEASURED = (
    "no measured time or memory: give measured_step_time_s, measured_tokens_per_s_per_gpu, measured_peak_mem_gib, the"
    " times of phases, or measured_tflops_per_gpu or measured_mfu of a source whose FLOP convention is known"
)


def _peers(cells: Mapping[str, str]) -> Iterator[tuple[re.Match[str], float]]:
    for column, cell in cells.items():
        name, seconds = PEERS.match(column), number(cell)
        if name and seconds:
            yield name, seconds


def _parts(cells: Mapping[str, str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Read the times of phases, and which of them the row's time is made of where it is not a whole step.

    Inference is a forward. A row with forward and backward and no whole step is those two. ``quality_flags`` that begin
    with forward say that its time is not to be used.
    """
    found = {part: number(cells.get(f"measured_{part}_s", "")) for part in PARTS}
    if cells.get("quality_flags", "").startswith("forward"):
        found[Phase.FORWARD] = None
    known = {part: seconds for part, seconds in found.items() if seconds}
    if cells.get("mode", "").lower() == "inference":
        return known, PARTS[:1]
    whole = any(number(cells.get(column, "")) for column in WHOLE_STEP)
    return known, PARTS[:2] if Phase.BACKWARD in known and Phase.OPTIMIZER not in known and not whole else ()


WHOLE_STEP = ("measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu", "measured_mfu")


def _part_of_step_s(cells: Mapping[str, str], parts_s: Mapping[str, float], timed_parts: Sequence[str]) -> float | None:
    if any(part not in parts_s for part in timed_parts):
        return None
    both = number(cells.get("measured_forward_backward_s", "")) if len(timed_parts) > 1 else None
    return both or sum(parts_s[part] for part in timed_parts)


def _not_modelled(cells: Mapping[str, str]) -> str:
    precision = cells.get("precision", "").lower()
    if precision and precision not in PRECISIONS:
        return f"precision {precision!r} is not modelled"
    if not cells.get("hardware"):
        return "no hardware named"
    for column in ("n_layers", "d_model", "n_heads", "seq_len", "global_batch"):
        if not cells.get(column):
            return f"{column} is empty"
        if number(cells[column]) is None:
            return f"{column} is {cells[column]!r}, not a number"
    for column, cell in cells.items():
        if column.startswith("measured_") and (number(cell) or 0.0) < 0:
            return f"{column} is {cell}, below 0"
    model = cells.get("model", "")
    if ADAPTERS.search(model):
        return f"{model} trains adapters only, which is not modelled"
    if PART_OF_A_STEP.search(model):
        return f"{model} is a part of a training step, not a whole one"
    if EXPERT_FAMILIES.search(model) and not number(cells.get("experts", "")) and not known_experts(model):
        return f"{model} has experts, but neither the catalogue nor the row says how many"
    return ""


def _document(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    chips = int(number(cells.get("n_gpus", "")) or 1)
    chip = catalog.chip(_hardware(cells["hardware"]))
    per_node = max(min(chips, chip.chips_per_node), 1)
    plan, training = plan_and_training(cells, chip, assumptions)
    return {
        "model": model_of_row(cells, assumptions),
        "cluster": {
            "chip": chip.name,
            "chips_per_node": per_node,
            "nodes": max(chips // per_node, 1),
            **_network(cells.get("interconnect", ""), chip.chips_per_node),
        },
        "plan": plan,
        "training": training,
    }


def _network(interconnect: str, chips_per_node: int) -> dict[str, Any]:
    """Read a node's stated bandwidth, as in “1600 Gbps node-node”; a chip has its share of the node's ports."""
    stated = re.search(r"(\d+) ?Gbps", interconnect)
    if not stated or "node" not in interconnect:
        return {}
    bytes_per_s = float(stated[1]) * 1e9 / 8 / chips_per_node
    return {"network": {"label": interconnect, "bytes_per_s": bytes_per_s, "latency_s": STATED_NETWORK_LATENCY_S}}


def _hardware(name: str) -> str:
    """Drop what stands in brackets where the whole name is not a chip's."""
    try:
        return catalog.chip(name).name
    except InputProblems:
        return re.sub(r"\(.*?\)", "", name).strip() or name


def _step_s(cells: Mapping[str, str]) -> float | None:
    """Measured step time, or what throughput or FLOP/s say about it."""
    measured = number(cells.get("measured_step_time_s", ""))
    if measured:
        return measured
    rate = number(cells.get("measured_tokens_per_s_per_gpu", ""))
    batch, seq_len = number(cells.get("global_batch", "")), number(cells.get("seq_len", ""))
    chips = number(cells.get("n_gpus", ""))
    if rate and batch and seq_len and chips:
        return batch * seq_len / (rate * chips)
    flops_per_s = number(cells.get("measured_tflops_per_gpu", ""))
    flops = _stated_flops(cells)
    return flops / (flops_per_s * 1e12 * chips) if flops_per_s and flops and chips else None


def _stated_flops(cells: Mapping[str, str]) -> float | None:
    """FLOPs of a step by the convention of the row's source; None where that is not known.

    Narayanan 2021 (arXiv 2104.04473, eq. 3) counts recomputation: 96·B·s·l·h²·(1 + s/6h + V/16lh). Megatron-LM's own
    counter does not: 72·B·s·l·h²·(1 + s/6h + V/12lh). Both are for GPT blocks with an FFN of 4·h.
    """
    names = ("global_batch", "seq_len", "n_layers", "d_model", "vocab")
    batch, seq_len, layers, hidden, vocab = (number(cells.get(name, "")) for name in names)
    if not (batch and seq_len and layers and hidden):
        return None
    vocab = vocab or MEGATRON_VOCAB
    tokens = batch * seq_len * layers * hidden**2
    if "96bslh" in cells.get("notes", "").lower():
        return 96 * tokens * (1 + seq_len / (6 * hidden) + vocab / (16 * layers * hidden))
    if "megatron-lm" in cells.get("source", "").lower() and number(cells.get("d_ff", "")) == 4 * hidden:
        return 72 * tokens * (1 + seq_len / (6 * hidden) + vocab / (12 * layers * hidden))
    return None


GATED_FAMILIES = ("llama", "mistral", "qwen", "yi-", "gemma", "phi-3", "cs336", "nemotron-h")
SUFFIX = re.compile(r"\s+(SFT|pre-?training)$", re.I)
"""What is done with a model is no part of its name."""
MEGATRON_VOCAB = 51_200
"""Vocabulary of the Megatron-LM papers' models, for rows that state none."""


def model_of_row(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    """Shape from the row; what kind of block it is from the catalogue, the columns, or the family's name."""
    name = cells.get("model", "")
    hidden, layers = int(float(cells["d_model"])), int(float(cells["n_layers"]))
    known = _catalogue_model(name)
    if known is not None and (known.hidden, known.layers) == (hidden, layers):
        return {**encode(known), **_columns(cells), "name": name}
    if known is not None and known.experts:
        assumptions.append(f"experts and blocks as in {known.name or name}, at this depth and width")
        return {**encode(known), "layers": layers, "hidden": hidden, **_columns(cells), "name": name}
    gated = any(family in name.lower() for family in GATED_FAMILIES)
    norm, position, bias = ("rms", "rope", False) if gated else ("layer", "learned", True)
    assumptions.append(f"{'Llama' if gated else 'GPT'} blocks, {'tied' if not gated else 'untied'} embedding")
    found: dict[str, Any] = {
        "name": name,
        "layers": layers,
        "hidden": hidden,
        "gated_ffn": gated,
        "activation": "silu" if gated else "gelu-tanh",
        "norm": norm,
        "position": position,
        "bias": bias,
        "tied_embedding": not gated,
        "qk_norm": "qwen3" in name.lower(),
        **({"head_dim": known.head_dim} if known else {}),
        **_columns(cells),
    }
    if "ffn" not in found:
        found["ffn"] = found.get("moe_ffn", 4 * hidden)
        assumptions.append(f"d_ff = {found['ffn']}" + ("" if "moe_ffn" in found else " (4 · d_model)"))
    if "vocab" not in found:
        found["vocab"] = MEGATRON_VOCAB
        assumptions.append(f"vocab = {MEGATRON_VOCAB}")
    return found


WHOLE_COLUMNS = {
    "n_heads": "heads", "n_kv_heads": "kv_heads", "head_dim": "head_dim", "d_ff": "ffn", "vocab": "vocab",
    "experts": "experts", "top_k": "top_k", "moe_ffn": "moe_ffn", "shared_experts": "shared_experts",
}  # fmt: skip


def _columns(cells: Mapping[str, str]) -> dict[str, Any]:
    """Fields that the row itself states."""
    found: dict[str, Any] = {}
    for column, name in WHOLE_COLUMNS.items():
        value = number(cells.get(column, ""))
        if value:
            found[name] = int(value)
    for column in ("gated_ffn", "tied_embedding"):
        if cells.get(column, ""):
            found[column] = flag(cells[column], False)
    return found


def _catalogue_model(name: str) -> Any:
    for candidate in (name, SUFFIX.sub("", name)):
        try:
            return catalog.model(candidate)
        except InputProblems:
            continue
    return None


def known_experts(name: str) -> int:
    """Return how many experts the catalogue knows a model to have."""
    known = _catalogue_model(name)
    return known.experts if known else 0


PRECISIONS = {
    **{name: name for name in PEAK_FIELD},
    "float32": "fp32", "bfloat16": "bf16", "fp16": "fp16-amp", "float16": "fp16-amp", "amp_bf16": "bf16-amp",
    "autocast": "bf16-amp", "amp": "bf16-amp", "bf16-autocast": "bf16-amp", "autocast-bf16": "bf16-amp",
    "bf16-mixed": "bf16-amp", "amp_fp16": "fp16-amp", "fp16 mixed": "fp16-amp", "bf16 mixed": "bf16-amp",
    "amp_fp8": "fp8", "mxfp8": "fp8", "fp8-cs": "fp8", "fp8-mx": "fp8", "fp8-ds": "fp8", "fp8-sc": "fp8",
    "fp8 other granularity (parenthesised value)": "fp8",
}  # fmt: skip
SHARDINGS = {
    "": "ddp", "none": "ddp", "ddp": "ddp", "zero0": "ddp", "zero1": "zero1", "zero-1": "zero1", "zero2": "zero2",
    "zero-2": "zero2", "zero3": "zero3", "zero-3": "zero3", "fsdp": "fsdp", "fsdp2": "fsdp", "full_shard": "fsdp",
    "distributed_optimizer": "zero1", "fsdp_shard_grad_op": "zero3", "none (dp=1)": "ddp",
}  # fmt: skip
ATTENTIONS = {
    "flash": "flash1", "flash1": "flash1", "flash2": "flash", "flash_attention_2": "flash", "flash-attn": "flash",
    "fused": "sdpa", "te": "sdpa", "cudnn": "sdpa", "triton": "flash",
    "sdpa": "sdpa", "eager": "eager", "torch": "eager",
    "naive": "eager", "unfused": "eager",
}  # fmt: skip
UNSTATED_OPTIMIZER = "distributed-optimizer use not stated"
"""Notes of tables that tell FSDP from Megatron's own DistributedDataParallel, not how the latter shards its optimizer;
Megatron-Bridge's recipes do (use_distributed_optimizer in src/megatron/bridge/recipes/common.py)."""
NOT_COMPILED = ("", "no", "false", "0", "none", "eager")
EAGER_DEFAULT_CHIPS = ("v100", "a100")
"""Chips of Megatron-LM before fused attention, the distributed optimizer and sequence parallelism by habit."""


def plan_and_training(
    cells: Mapping[str, str], chip: Chip, assumptions: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plan and the training part of a row's scenario; every default goes to ``assumptions``."""

    def whole(column: str, default: int, why: str = "") -> int:
        value = number(cells.get(column, ""))
        if value is None:
            assumptions.append(f"{column} = {default}{f' ({why})' if why else ''}")
            return default
        return int(value)

    framework = cells.get("framework") or "pytorch-eager"
    if not cells.get("framework"):
        assumptions.append("framework = pytorch-eager")
    software = _software(framework)
    published = software.published
    recent = published.recipes and not chip.name.startswith(EAGER_DEFAULT_CHIPS)
    tp, pp = whole("tp", 1), whole("pp", 1)
    cp, ep, vp = (int(number(cells.get(column, "")) or 1) for column in ("cp", "ep", "vp"))
    chips = whole("n_gpus", 1)
    dp = whole("dp", max(chips // max(tp * pp * cp, 1), 1), "n_gpus / (tp · pp · cp)")
    stated = cells.get("sharding", "").lower()
    if stated == "ddp" and UNSTATED_OPTIMIZER in cells.get("notes", ""):
        stated = ""
    sharding = SHARDINGS.get(stated, "ddp")
    if not stated and dp * cp > 1:
        sharding = "zero1" if recent else "ddp"
        assumptions.append(f"sharding = {sharding}" + (" (Megatron's distributed optimizer)" if recent else ""))
    stated = cells.get("sequence_parallel", "").lower()
    split = stated in ("true", "1", "yes") and tp > 1
    if not stated and recent and tp > 1:
        split = True
        assumptions.append("sequence_parallel = true (as Megatron's published recipes set it)")
    plan: dict[str, Any] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "sharding": sharding,
        "recompute": _recompute(cells.get("recompute", ""), assumptions),
        "micro_batch": whole("micro_batch", 1),
        "sequence_parallel": split,
        "overlap": cells.get("ddp_mode", "") not in ("naive", "flat")
        and (recent or not (published.exposes_ddp and sharding == "ddp")),
    }
    if cells.get("ddp_mode") in ("naive", "flat"):
        plan["ddp_mode"] = cells["ddp_mode"]
    if cp > 1:
        assumptions.append("cp_kind = ring (peer to peer)")
    if vp > 1 and pp > 1:
        plan |= {"virtual_stages": vp, "schedule": "interleaved"}
    if ep > 1:
        assumptions.append("expert_tp = 1")
    bucket_mb = number(cells.get("bucket_mb", ""))
    if bucket_mb:
        plan["bucket_bytes"] = int(bucket_mb * 2**20)
    elif published.bucket_parameters:
        least, per_rank = published.bucket_parameters
        # Main gradients have 4 bytes.
        plan["bucket_bytes"] = 4 * max(least, per_rank * dp * cp)
        if dp * cp > 1:
            assumptions.append(f"bucket_mb = {plan['bucket_bytes'] / 2**20:.0f} ({software.label}'s default)")
    return plan, _training(cells, chip, framework, whole, assumptions)


def _training(
    cells: Mapping[str, str], chip: Chip, framework: str, whole: Any, assumptions: list[str]
) -> dict[str, Any]:
    software = _software(framework)
    eager_dropout = software.published.eager_attention_dropout
    precision = PRECISIONS.get(cells.get("precision", "").lower(), "")
    if not precision:
        precision = "bf16" if chip.bf16_flops_per_s else "fp16-amp"
        assumptions.append(f"precision = {precision}")
    attention = ATTENTIONS.get(cells.get("attention_impl", "").lower().split(" (")[0])
    if attention == "flash1":
        assumptions.append("attention flash = FlashAttention 1 (a table names version 2 flash2)")
    if attention is None:
        old = (
            eager_dropout is not None
            and chip.name.startswith(EAGER_DEFAULT_CHIPS)
            and "transformer_engine" not in cells.get("notes", "")
        )
        attention = "eager" if old else "sdpa"
        assumptions.append(f"attention = {attention}")
    dropout = 0.0
    if attention == "eager" and eager_dropout is not None:
        dropout = eager_dropout
        assumptions.append(f"dropout = {dropout} ({software.label}'s default)")
    return {
        "seq_len": whole("seq_len", 1),
        "global_batch": whole("global_batch", 1),
        "precision": precision,
        "attention": attention,
        "dropout": dropout,
        "framework": framework,
        # Modes of torch.compile stand for compiling; what its CUDA graphs save the host is not modelled.
        "compile": cells.get("compile", "").lower() not in NOT_COMPILED,
        "optimizer": cells.get("optimizer", "").lower() or "adamw",
    }


def _software(framework: str) -> Framework:
    """A name that there is none of is refused with the scenario."""
    return FRAMEWORKS.get(framework, Framework(label=framework))


def _recompute(value: str, assumptions: list[str]) -> str:
    word = value.lower()
    if not word:
        assumptions.append("recompute = none")
        return "none"
    if word.startswith(("full", "true", "block", "uniform")):
        return "full"
    return "selective" if word.startswith(("select", "core")) else "none"


def number(text: str) -> float | None:
    """Read a number; None where the cell is empty or is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Tables written by pandas say nan where nothing is known.
    return value if math.isfinite(value) else None


def flag(text: str, default: bool) -> bool:
    """Read true, 1 or yes; ``default`` where the cell is empty."""
    return default if not text else text.lower() in ("true", "1", "yes")
