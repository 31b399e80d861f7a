"""CSV row: one row of a CSV of measured runs, read into a Scenario by stated defaults, never by the measurement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.hardware import PEAK_FIELD, Chip, chips_of_a_node
from estimator.scenario.model import ACTIVATIONS, NORMS, POSITIONS, Model
from estimator.scenario.precision import PRECISION_AWARE
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.validation.at_a_time import AS_MANY_AS_FIT, sizes_at_a_time
from estimator.validation.csv_plan import (
    STATED_ARGUMENTS,
    known_experts,
    plan_and_training,
    software_of,
    states_optimizer,
)
from estimator.validation.measured import (
    MEGATRON_VOCAB,
    NOTHING_MEASURED,
    Measured,
    chips_stated,
    is_count,
    measured_of,
    number,
)
from estimator.validation.spellings import (
    HEADLESS,
    LLAMA,
    NOTED_OPTIMIZER,
    chip_of,
    family_of,
    flag,
    mentions_out_of_memory,
    model_of,
    precision_of,
    says_yes,
    told_blocks,
)

EXPERT_FAMILIES = re.compile(r"moe|mixtral|\dx\d+b|-a\d+b|gpt-oss|deepseek|grok|kimi|switch", re.I)
ADAPTERS = re.compile(r"\bq?lora\b", re.I)
UNEVEN_STAGES = re.compile(r"--decoder-(first|last)-pipeline-num-layers=|--account-for-\w+-in-pipeline-split=True")
"""Arguments of Megatron-LM that give a pipeline's ends fewer layers, or count embedding and loss as layers."""
STATED_NETWORK_LATENCY_S = 5e-6
"""Latency where a table states a network's bandwidth only: InfiniBand and RoCE lie at 2 to 10 µs."""


@dataclass(frozen=True, kw_only=True)
class CsvRow:
    """A row as understood: a scenario with what was assumed, or the reason why it cannot be predicted.

    ``out_of_memory``: it did not run.
    ``batches``: the step with larger micro-batches, where a tuned table states none. ``alternatives``: what it may have
    been as well, where the row leaves open how a step was cut. ``thriftier``: what of micro-batch, recomputation and
    optimizer it may have been where it leaves them open, needing less memory one after the other, and in what words.
    ``other_moments``: the step with moments and gradients of another width, where its peak was measured and neither is
    stated.
    """

    source_id: str
    scenario: Scenario | None
    assumptions: tuple[str, ...]
    reason: str
    measured: Measured
    out_of_memory: bool = False
    batches: tuple[Scenario, ...] = ()
    alternatives: tuple[Scenario, ...] = ()
    thriftier: tuple[tuple[Scenario, str], ...] = ()
    other_moments: tuple[Scenario, ...] = ()

    @property
    def measured_step_s(self) -> float | None:
        """Measured seconds of a step, or of the parts of one that were timed."""
        return self.measured.step_s

    @property
    def measured_memory_bytes(self) -> float | None:
        """Measured peak."""
        return self.measured.memory_bytes


def scenario_of_row(row: Mapping[str, str], own: Mapping[str, Chip] | None = None) -> CsvRow:
    """Read one row; what it leaves empty is assumed and listed, what is not modelled yet becomes a reason.

    ``own``: chips that the catalogue lacks, by what ``hardware`` says.
    """
    assumptions: list[str] = []
    cells = {key.strip(): (value or "").strip() for key, value in row.items() if key}
    scenario: Scenario | None = None
    reason = _not_modelled(cells)
    if not reason:
        try:
            scenario = scenario_from_json(_document(cells, own or {}, assumptions))
        except InputProblems as error:
            reason = str(error)
        except (ValueError, OverflowError) as error:
            reason = f"unreadable number: {error}"
    measured = measured_of(cells, scenario)
    out_of_memory = says_out_of_memory(cells)
    if scenario is not None and measured.nothing and not out_of_memory:
        scenario, reason = None, NOTHING_MEASURED
    return CsvRow(
        source_id=cells.get("source_id", ""),
        scenario=scenario,
        assumptions=tuple(assumptions),
        reason=reason,
        measured=measured,
        out_of_memory=out_of_memory,
        batches=tuple(_batches(cells, scenario)) if scenario is not None else (),
        alternatives=tuple(_alternatives(cells, scenario)) if scenario is not None else (),
        thriftier=tuple(_thriftier(cells, scenario)) if scenario is not None else (),
        other_moments=tuple(_other_moments(cells, scenario)) if scenario is not None and measured.memory_bytes else (),
    )


def says_out_of_memory(cells: Mapping[str, str]) -> bool:
    """Whether a row says that it ran out of memory: a yes under ``oom``, or its ``status`` in words."""
    return says_yes(cells.get("oom", "")) or mentions_out_of_memory(cells.get("status", ""))


ASSUMED_THRIFT = "recomputed in full, and with 8-bit moments where needed, as it would not have fitted its chip else"


def _thriftier(cells: Mapping[str, str], scenario: Scenario) -> Iterator[tuple[Scenario, str]]:
    """Yield smaller micro-batches where none is stated; full recomputation, then with 8-bit moments, of one chip's step
    that states neither."""
    smaller = _smaller(cells, scenario)
    for one in smaller:
        yield one, AS_MANY_AS_FIT
    noted = cells.get("recompute") or cells.get("optimizer") or NOTED_OPTIMIZER.search(cells.get("notes", ""))
    if noted or scenario.plan.chips > 1:
        return
    for optimizer in (scenario.training.optimizer, "adamw-8bit"):
        for one in (scenario, *smaller):
            full = replace(one, plan=replace(one.plan, recompute="full"))
            yield replace(full, training=replace(full.training, optimizer=optimizer)), ASSUMED_THRIFT


def _other_moments(cells: Mapping[str, str], scenario: Scenario) -> Iterator[Scenario]:
    """Yield the step with moments and gradients of the other width, where a row of published recipes states nothing of
    its optimizer: Megatron's precision-aware one, which its recipes set for some models, has two bytes."""
    if software_of(scenario.training.framework).published.recipes and not states_optimizer(cells):
        other = "adamw" if scenario.training.optimizer == PRECISION_AWARE else PRECISION_AWARE
        yield replace(scenario, training=replace(scenario.training, optimizer=other))


def _smaller(cells: Mapping[str, str], scenario: Scenario) -> list[Scenario]:
    """The step with fewer sequences at a time, the most first, where it is taken to have as many as fit."""
    plan = scenario.plan
    if cells.get("micro_batch") or software_of(scenario.training.framework).published.recipes:
        return []
    sizes = sizes_at_a_time(scenario.training.global_batch // plan.dp, plan.pp)
    return [replace(scenario, plan=replace(plan, micro_batch=size)) for size in sizes[1:]]


def _batches(cells: Mapping[str, str], scenario: Scenario) -> Iterator[Scenario]:
    """Yield the step with larger micro-batches, where its framework's recipes are tuned and the row states none."""
    each = scenario.training.global_batch // scenario.plan.dp
    if not cells.get("micro_batch") and software_of(scenario.training.framework).published.recipes:
        for size in LARGER_BATCHES:
            if each % size == 0:
                yield replace(scenario, plan=replace(scenario.plan, micro_batch=size))


LARGER_BATCHES = (2, 4, 8)


def _alternatives(cells: Mapping[str, str], scenario: Scenario) -> Iterator[Scenario]:
    """Yield larger micro-batches, and interleaved pipelines of four layers or one a chunk, where none is stated."""
    plan, each = scenario.plan, scenario.training.global_batch // scenario.plan.dp
    if not cells.get("micro_batch"):
        for size in (1, *LARGER_BATCHES):
            if each % size == 0:
                yield replace(scenario, plan=replace(plan, micro_batch=size))
    if plan.pp > 1 and not cells.get("vp") and software_of(scenario.training.framework).published.recipes:
        for chunks in {scenario.model.layers // plan.pp // depth for depth in (4, 1)}:
            if chunks > 1:
                yield replace(scenario, plan=replace(plan, schedule="interleaved", virtual_stages=chunks))
    if plan.ep > 1 and not cells.get("ep_overlap") and software_of(scenario.training.framework).published.recipes:
        yield replace(scenario, plan=replace(plan, ep_overlap=True))
        yield replace(scenario, plan=replace(plan, ep_dispatch="to-nodes"))
    if scenario.training.experts == "fused" and _was_not_fused(scenario.model):
        yield replace(scenario, training=replace(scenario.training, experts="default"))


FUSED_WIDTH = 256
"""Elements; multiples of it are the widths that the first fused experts take."""


def _was_not_fused(model: Model) -> bool:
    """Whether the first fused experts of Transformer Engine refuse a model's, so that a release may not have run them.

    ForwardGroupedMLP_CuTeGEMMSwiGLU_MXFP8 took no bias and only widths that are multiples of FUSED_WIDTH; later ones
    take biases, limits and multiples of 64.
    """
    widths = model.hidden, model.moe_ffn or model.ffn
    return model.bias or model.ffn_bias or any(width % FUSED_WIDTH for width in widths)


COUNTS = ("n_gpus", "dp", "tp", "pp", "cp", "ep", "vp", "micro_batch", "global_batch", "seq_len", "n_layers", "d_model",
          "n_heads")  # fmt: skip
"""Columns that hold whole numbers from 1 on."""


def _not_modelled(cells: Mapping[str, str]) -> str:
    precision = cells.get("precision", "").lower()
    if precision and not precision_of(precision):
        return f"precision {precision!r} is not modelled: give one of {', '.join(PEAK_FIELD)}"
    if not cells.get("hardware"):
        return "hardware is empty: give a chip, as in h100-sxm"
    for column in ("n_layers", "d_model", "n_heads", "seq_len", "global_batch"):
        if not cells.get(column):
            return f"{column} is empty: give a number"
        if number(cells[column]) is None:
            return f"{column} is {cells[column]!r}, not a number"
    for column in COUNTS:
        value = number(cells.get(column, ""))
        if value is not None and not is_count(value):
            return f"{column} is {cells[column]}, no count: write a whole number from 1 on, or leave it empty"
    for column, cell in cells.items():
        if column.startswith("measured_") and (number(cell) or 0.0) < 0:
            return f"{column} is {cell}, below 0"
    model = cells.get("model", "")
    if ADAPTERS.search(model):
        return f"{model} trains adapters only, which is not modelled"
    if EXPERT_FAMILIES.search(model) and not number(cells.get("experts", "")) and not known_experts(model):
        return f"{model} has experts, but neither the catalogue nor the row says how many: give experts and top_k"
    return ""


def _document(cells: Mapping[str, str], own: Mapping[str, Chip], assumptions: list[str]) -> dict[str, Any]:
    chips = chips_stated(cells) or 1
    chip = own.get(cells["hardware"]) or catalog.chip(chip_of(cells["hardware"]))
    per_node = chips_of_a_node(chips, chip.chips_per_node)
    if per_node not in (chips, chip.chips_per_node):
        assumptions.append(f"{per_node} chips of a node used, as {chips} are no multiple of {chip.chips_per_node}")
    plan, training = plan_and_training(cells, chip, assumptions)
    if UNEVEN_STAGES.search(cells.get("notes", "")):
        assumptions.append("layers are dealt out evenly to the stages, which is not what the run was told")
    return {
        "model": model_of_row(cells, assumptions),
        "cluster": {
            "chip": encode(chip) if cells["hardware"] in own else chip.name,
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


def model_of_row(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    """Shape from the row; what kind of block it is from the catalogue, the columns, or the family's name."""
    name = cells.get("model", "")
    hidden, layers = int(float(cells["d_model"])), int(float(cells["n_layers"]))
    known = model_of(name)
    if known is not None and (known.hidden == hidden or known.experts):
        if (known.hidden, known.layers) != (hidden, layers):
            assumptions.append(f"blocks as in {known.name or name}, at this depth and width")
        return {**encode(known), "layers": layers, "hidden": hidden, **_columns(cells), "name": name}
    family, blocks = family_of(name)
    if not name and (why := _like_llama(cells, hidden)):
        family, blocks = f"Llama-like ({why})", dict(LLAMA)
    blocks = blocks | told_blocks(cells.get("notes", ""))
    assumptions.append(f"{family} blocks, {'tied' if blocks['tied_embedding'] else 'untied'} embedding")
    found: dict[str, Any] = {
        "name": name,
        "layers": layers,
        "hidden": hidden,
        **blocks,
        **({"head_dim": known.head_dim} if known else {}),
        **_columns(cells),
    }
    if "ffn" not in found:
        usual, why = 4 * hidden, " (4 · d_model)"
        if STATED_ARGUMENTS.search(cells.get("notes", "")) and found["gated_ffn"]:
            usual, why = 8 * hidden // 3 // 64 * 64, " (8/3 · d_model in steps of 64, Megatron's default)"
        found["ffn"] = found.get("moe_ffn", usual)
        assumptions.append(f"d_ff = {found['ffn']}" + ("" if "moe_ffn" in found else why))
    if "vocab" not in found:
        found["vocab"] = MEGATRON_VOCAB
        assumptions.append(f"vocab = {MEGATRON_VOCAB}")
    return found


def _like_llama(cells: Mapping[str, str], hidden: int) -> str:
    """What of a shape without a name is of Llama's kind of blocks and not of GPT-2's, "" where nothing is."""
    heads, kv_heads, ffn = (number(cells.get(column, "")) for column in ("n_heads", "n_kv_heads", "d_ff"))
    if cells.get("gated_ffn", ""):
        return "its FFN is gated" if flag(cells["gated_ffn"], False) else ""
    if kv_heads and heads and kv_heads < heads:
        return "fewer key/value heads than heads"
    return "d_ff is not 4 · d_model" if ffn and ffn != 4 * hidden else ""


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
    for column, words in (("activation", ACTIVATIONS), ("norm", NORMS), ("position", POSITIONS)):
        if cells.get(column, "").lower() in words:
            found[column] = cells[column].lower()
    if HEADLESS.search(f"{cells.get('model', '')} {cells.get('notes', '')}"):
        found["head"] = False
    return found
