"""CSV row: one row of a CSV of measured runs, read into a Scenario by stated defaults, never by the measurement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.framework import FRAMEWORKS, Framework, PublishedDefaults
from estimator.scenario.hardware import PEAK_FIELD, Chip
from estimator.scenario.model import ACTIVATIONS, NORMS, POSITIONS
from estimator.scenario.precision import QUANTISED
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.validation.at_a_time import AS_MANY_AS_FIT, sizes_at_a_time
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
    DROPOUT,
    HEADLESS,
    NOTED_OPTIMIZER,
    chip_of,
    family_of,
    model_of,
    optimizer_of,
    precision_of,
)

EXPERT_FAMILIES = re.compile(r"moe|mixtral|\dx\d+b|-a\d+b|gpt-oss|deepseek|grok|kimi|switch", re.I)
ADAPTERS = re.compile(r"\bq?lora\b", re.I)
STATED_NETWORK_LATENCY_S = 5e-6
"""Latency where a table states a network's bandwidth only: InfiniBand and RoCE lie at 2 to 10 µs."""


@dataclass(frozen=True, kw_only=True)
class CsvRow:
    """A row as understood: a scenario with what was assumed, or the reason why it cannot be predicted.

    ``batches``: the step with larger micro-batches, where a tuned table states none. ``alternatives``: what it may have
    been as well, where the row leaves open how a step was cut. ``thriftier``: what of micro-batch, recomputation and
    optimizer it may have been where it leaves them open, needing less memory one after the other, and in what words.
    """

    source_id: str
    scenario: Scenario | None
    assumptions: tuple[str, ...]
    reason: str
    measured: Measured
    batches: tuple[Scenario, ...] = ()
    alternatives: tuple[Scenario, ...] = ()
    thriftier: tuple[tuple[Scenario, str], ...] = ()

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
    if scenario is not None and measured.nothing:
        scenario, reason = None, NOTHING_MEASURED
    return CsvRow(
        source_id=cells.get("source_id", ""),
        scenario=scenario,
        assumptions=tuple(assumptions),
        reason=reason,
        measured=measured,
        batches=tuple(_batches(cells, scenario)) if scenario is not None else (),
        alternatives=tuple(_alternatives(cells, scenario)) if scenario is not None else (),
        thriftier=tuple(_thriftier(cells, scenario)) if scenario is not None else (),
    )


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


def _smaller(cells: Mapping[str, str], scenario: Scenario) -> list[Scenario]:
    """The step with fewer sequences at a time, the most first, where it is taken to have as many as fit."""
    plan = scenario.plan
    if cells.get("micro_batch") or _software(scenario.training.framework).published.recipes:
        return []
    sizes = sizes_at_a_time(scenario.training.global_batch // plan.dp, plan.pp)
    return [replace(scenario, plan=replace(plan, micro_batch=size)) for size in sizes[1:]]


def _batches(cells: Mapping[str, str], scenario: Scenario) -> Iterator[Scenario]:
    """Yield the step with larger micro-batches, where its framework's recipes are tuned and the row states none."""
    each = scenario.training.global_batch // scenario.plan.dp
    if not cells.get("micro_batch") and _software(scenario.training.framework).published.recipes:
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
    if plan.pp > 1 and not cells.get("vp") and _software(scenario.training.framework).published.recipes:
        for chunks in {scenario.model.layers // plan.pp // depth for depth in (4, 1)}:
            if chunks > 1:
                yield replace(scenario, plan=replace(plan, schedule="interleaved", virtual_stages=chunks))
    if plan.ep > 1 and not cells.get("ep_overlap") and _software(scenario.training.framework).published.recipes:
        yield replace(scenario, plan=replace(plan, ep_overlap=True))
        yield replace(scenario, plan=replace(plan, ep_dispatch="to-nodes"))


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


def chips_of_a_node(chips: int, most: int) -> int:
    """Return how many chips of each node a job uses: all, else the most that divide it evenly (64 of a rack's 72)."""
    return next(used for used in range(max(min(chips, most), 1), 0, -1) if chips % used == 0)


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
    for column, words in (("activation", ACTIVATIONS), ("norm", NORMS), ("position", POSITIONS)):
        if cells.get(column, "").lower() in words:
            found[column] = cells[column].lower()
    if HEADLESS.search(f"{cells.get('model', '')} {cells.get('notes', '')}"):
        found["head"] = False
    return found


def known_experts(name: str) -> int:
    """Return how many experts the catalogue knows a model to have."""
    known = model_of(name)
    return known.experts if known else 0


SHARDINGS = {
    "": "ddp", "none": "ddp", "ddp": "ddp", "zero0": "ddp", "zero1": "zero1", "zero-1": "zero1", "zero2": "zero2",
    "zero-2": "zero2", "zero3": "zero3", "zero-3": "zero3", "fsdp": "fsdp", "fsdp2": "fsdp", "full_shard": "fsdp",
    "distributed_optimizer": "zero1", "fsdp_shard_grad_op": "zero3", "shard_grad_op": "zero3", "no_shard": "ddp",
    "none (dp=1)": "ddp",
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
MEASURED_IN = re.compile(r"measured (\d{4}-\d\d)", re.I)
NEWEST_UNTIL = {"pytorch-eager": ("pytorch-1.10", "2022-03"), "torchtitan": ("torchtitan-2024", "2025-04")}
"""What a framework was until a month: that of PyTorch 1.11 (pytorch.org/blog/pytorch-1.11-released, 10 March 2022), and
of torchtitan's compiled loss (2 April 2025)."""
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
    older, month = NEWEST_UNTIL.get(framework, ("", ""))
    if _measured_before(cells, month):
        framework = older
        assumptions.append(f"framework = {older} (the newest when it was measured)")
    elif not cells.get("framework"):
        assumptions.append("framework = pytorch-eager")
    software = _software(framework)
    published = software.published
    recent = published.recipes and not chip.name.startswith(EAGER_DEFAULT_CHIPS)
    tp, pp = whole("tp", 1), whole("pp", 1)
    cp, ep, vp = (int(number(cells.get(column, "")) or 1) for column in ("cp", "ep", "vp"))
    stated_chips = chips_stated(cells)
    chips = whole("n_gpus", stated_chips or 1, "dp · tp · pp · cp" if stated_chips else "")
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
    overlapped = split and recent and cells.get("tp_overlap", "").lower() not in ("false", "0", "no")
    if overlapped and not cells.get("tp_overlap"):
        assumptions.append("tp_overlap = true (as Megatron's published recipes set it)")
    plan: dict[str, Any] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "sharding": sharding,
        "recompute": _recompute(cells.get("recompute", ""), assumptions),
        "micro_batch": whole("micro_batch", *_usual_micro_batch(cells, dp, pp, published)),
        "sequence_parallel": split,
        "tp_overlap": overlapped,
        "overlap": cells.get("ddp_mode", "") not in ("naive", "flat")
        and (recent or not (published.exposes_ddp and sharding == "ddp")),
    }
    if cells.get("ddp_mode") in ("naive", "flat"):
        plan["ddp_mode"] = cells["ddp_mode"]
    if cp > 1:
        assumptions.append("cp_kind = ring (peer to peer)")
    if vp > 1 and pp > 1:
        plan |= {"virtual_stages": vp, "schedule": "interleaved"}
        if recent:
            plan["pp_overlap"] = True
            assumptions.append("pp_overlap = true (Megatron's default where stages are interleaved)")
    newer = framework == "megatron" and _release(cells) >= NEWER_SINCE and chip.name.startswith(NEWER_ON)
    narrow = precision_of(cells.get("precision", "")) in QUANTISED
    if ep > 1:
        if newer:
            plan["ep_dispatch"] = "to-nodes"
            assumptions.append(
                "ep_dispatch = to-nodes (HybridEP, in Megatron's recipes for Blackwell since NeMo 26.06)"
            )
        plan["ep_overlap"] = flag(cells.get("ep_overlap", ""), False)
        assumptions.append("expert_tp = 1" if cells.get("ep_overlap") else "expert_tp = 1, ep_overlap = false")
    bucket_mb = number(cells.get("bucket_mb", ""))
    if bucket_mb:
        plan["bucket_bytes"] = int(bucket_mb * 2**20)
    elif published.bucket_parameters:
        least, per_rank = published.bucket_parameters
        # Main gradients have 4 bytes.
        plan["bucket_bytes"] = 4 * max(least, per_rank * dp * cp)
        if dp * cp > 1:
            assumptions.append(f"bucket_mb = {plan['bucket_bytes'] / 2**20:.0f} ({software.label}'s default)")
    training = _training(cells, chip, framework, whole, assumptions)
    if newer and narrow and (known_experts(cells.get("model", "")) or number(cells.get("experts", ""))):
        training["experts"] = "fused"
        assumptions.append("experts = fused (in Megatron's recipes for Blackwell since NeMo 26.06)")
    return plan, training


RELEASE = re.compile(r"\b(2\d)\.(\d\d)(?:\.\d+)? NeMo")
NEWER_SINCE, NEWER_ON = (26, 6), ("b200", "b300", "gb200", "gb300")
"""From which release of NeMo's containers, and on which chips, Megatron's recipes multiply narrow experts by fused
kernels (ForwardGroupedMLP_CuTeGEMMSwiGLU_MXFP8 of Transformer Engine needs compute capability 10) and send tokens by
HybridEP. Read off rows: Qwen3's steps of 26.04 and 26.06 differ by 30 % on four chips of Blackwell, not on H100."""


def _release(cells: Mapping[str, str]) -> tuple[int, int]:
    """Year and month of the NeMo container that a row names; (0, 0) where it names none."""
    found = RELEASE.search(f"{cells.get('source', '')} {cells.get('notes', '')}")
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _usual_micro_batch(cells: Mapping[str, str], dp: int, pp: int, usual: PublishedDefaults) -> tuple[int, str]:
    """What a row that states none is taken to have, and why: Megatron-LM's recipes begin at one, others take all."""
    batch = int(number(cells.get("global_batch", "")) or 1)
    if usual.recipes or dp < 1 or batch % dp:
        return 1, ""
    if usual.micro_batches_as_stages and pp > 1 and batch % (dp * pp) == 0:
        return batch // (dp * pp), "as many micro-batches as stages, its default"
    size = sizes_at_a_time(batch // dp, pp)[0]
    return size, AS_MANY_AS_FIT if size > 1 else ""


def _measured_before(cells: Mapping[str, str], month: str) -> bool:
    """Whether the row says that it was measured before a month."""
    measured = MEASURED_IN.search(f"{cells.get('source', '')} {cells.get('notes', '')}")
    return measured is not None and measured[1] < month


def _optimizer(cells: Mapping[str, str]) -> str:
    """The row's optimizer, or the one that its notes name."""
    noted = NOTED_OPTIMIZER.search(cells.get("notes", ""))
    return optimizer_of(cells.get("optimizer", "") or (noted[0] if noted else "")) or "adamw"


def _training(
    cells: Mapping[str, str], chip: Chip, framework: str, whole: Any, assumptions: list[str]
) -> dict[str, Any]:
    software = _software(framework)
    eager_dropout = software.published.eager_attention_dropout
    precision = precision_of(cells.get("precision", ""))
    if not precision:
        precision = "bf16" if chip.bf16_flops_per_s else "fp16-amp"
        assumptions.append(f"precision = {precision}")
    attention = ATTENTIONS.get(cells.get("attention_impl", "").lower().split(" (")[0])
    if attention == "flash1":
        assumptions.append("attention flash = FlashAttention 1 (a table names version 2 flash2)")
    if attention is None:
        notes = cells.get("notes", "")
        old = eager_dropout is not None and (
            "transformer-impl=local" in notes
            or (chip.name.startswith(EAGER_DEFAULT_CHIPS) and "transformer_engine" not in notes)
        )
        attention = "eager" if old else "sdpa"
        assumptions.append(f"attention = {attention}")
    stated = number(cells.get("dropout", ""))
    dropout = stated or 0.0
    if stated is None and attention == "eager" and eager_dropout is not None:
        dropout = eager_dropout
        assumptions.append(f"dropout = {dropout} ({software.label}'s default)")
    family, _ = family_of(cells.get("model", ""))
    if stated is None and family in DROPOUT and not software.published.recipes and not _inference(cells):
        dropout = DROPOUT[family]
        assumptions.append(f"dropout = {dropout} (of {family}'s configurations)")
    return {
        "seq_len": whole("seq_len", 1),
        "global_batch": whole("global_batch", 1),
        "precision": precision,
        "attention": attention,
        "dropout": dropout,
        "framework": framework,
        # Modes of torch.compile stand for compiling; what its CUDA graphs save the host is not modelled.
        "compile": cells.get("compile", "").lower() not in NOT_COMPILED,
        "optimizer": _optimizer(cells),
    }


def _inference(cells: Mapping[str, str]) -> bool:
    return cells.get("mode", "").lower() == "inference"


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
    if not word.startswith(("select", "core")):
        return "none"
    modules = word.partition(":")[2]
    if not modules or "core" in modules or "attention" in modules:
        return "selective"
    if not modules.strip().startswith("none"):
        assumptions.append("recompute = none (selective recomputation of other modules than attention is left out)")
    return "none"


def flag(text: str, default: bool) -> bool:
    """Read true, 1 or yes; ``default`` where the cell is empty."""
    return default if not text else text.lower() in ("true", "1", "yes")
