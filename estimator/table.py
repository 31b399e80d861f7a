"""Table: one row of a CSV of measured runs, read into a Scenario by stated defaults, never by the measurement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator import catalog
from estimator.cells import number
from estimator.problems import InputProblems
from estimator.row_model import MEGATRON_VOCAB, known_experts, model_of_row
from estimator.row_plan import PRECISIONS, plan_and_training
from estimator.scenario import Scenario, scenario_from_json

EXPERT_FAMILIES = re.compile(r"moe|mixtral|\dx\d+b|-a\d+b|gpt-oss|deepseek|grok|kimi|switch", re.I)
ADAPTERS = re.compile(r"\bq?lora\b", re.I)
PART_OF_A_STEP = re.compile(r"\[forward(?!.*(adam|sgd|optimizer)).*\]", re.I)
STATED_NETWORK_LATENCY_S = 5e-6
"""Latency where a table states a network's bandwidth only: InfiniBand and RoCE lie at 2 to 10 µs."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row as understood: a scenario with what was assumed, or the reason why it cannot be predicted."""

    source_id: str
    scenario: Scenario | None
    assumptions: tuple[str, ...]
    reason: str
    measured_step_s: float | None
    measured_memory_bytes: float | None


def scenario_of_row(row: Mapping[str, str]) -> Row:
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
    step_s = _step_s(cells)
    memory_gib = number(cells.get("measured_peak_mem_gib", ""))
    if scenario is not None and step_s is None and memory_gib is None:
        scenario, reason = None, "no measured step time, throughput or memory"
    return Row(
        source_id=cells.get("source_id", ""),
        scenario=scenario,
        assumptions=tuple(assumptions),
        reason=reason,
        measured_step_s=step_s,
        measured_memory_bytes=memory_gib * 2**30 if memory_gib else None,
    )


def _not_modelled(cells: Mapping[str, str]) -> str:
    precision = cells.get("precision", "").lower()
    if "fp4" in precision:
        return f"precision {precision} is not modelled yet"
    if precision and precision not in PRECISIONS:
        return f"precision {precision!r} is not known"
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
