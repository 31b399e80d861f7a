"""CSV plan: the plan and the training of one row of a CSV of measured runs, by stated defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from estimator.scenario.framework import FRAMEWORKS, Framework, PublishedDefaults
from estimator.scenario.hardware import Chip
from estimator.scenario.precision import QUANTISED
from estimator.validation.at_a_time import AS_MANY_AS_FIT, sizes_at_a_time
from estimator.validation.measured import chips_stated, is_inference, number
from estimator.validation.spellings import (
    DROPOUT,
    NOTED_OPTIMIZER,
    family_of,
    flag,
    model_of,
    optimizer_kernel_of,
    optimizer_of,
    precision_of,
    sharding_of,
)

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
NEWEST_UNTIL = {
    "pytorch-eager": ("pytorch-1.10", "2022-03"),
    "trainer": ("trainer-2022", "2022-03"),
    "torchtitan": ("torchtitan-2024", "2025-04"),
}
"""What a framework was until a month: that of PyTorch 1.11 (pytorch.org/blog/pytorch-1.11-released, 10 March 2022), and
of torchtitan's compiled loss (2 April 2025)."""
OWN_TRAINERS = {"huggingface/transformers": "trainer"}
"""Projects whose pages tell of steps of their own trainer, which their tables call by what is below it."""
NOTED_TRANSFORMERS = re.compile(r"\b(?:HF|Hugging Face) transformers\b", re.I)
NOT_COMPILED = ("", "no", "false", "0", "none", "eager")
EAGER_DEFAULT_CHIPS = ("v100", "a100")
"""Chips of Megatron-LM before fused attention, the distributed optimizer and sequence parallelism by habit."""
DETERMINISTIC, HOPPER = re.compile(r"--deterministic-mode"), ("h100", "h200", "gh200", "h20")
"""A switch of Megatron-LM, and chips on which cuDNN's attention goes with it and with dropout.

Transformer Engine takes FlashAttention before Hopper (get_attention_backend in its dot_product_attention/utils.py), and
on Blackwell where the step is deterministic, as cuDNN's then drops nothing there (nvte_get_fused_attn_backend)."""
TOLD_DROPOUT = re.compile(r"--(?:attention|hidden)-dropout[= ](\d\.?\d*)")
STATED_ARGUMENTS = re.compile(r"\bargs: ")
"""Notes that list what a run was given beside its framework's defaults, its optimizer's precision among it."""
OPTIMIZER_INSTANCES = re.compile(r"--num-distributed-optimizer-instances[= ]([1-9]\d*)")
"""Copies of a sharded optimizer, which Megatron-LM keeps each on as many of the data parallel ranks
(megatron/core/parallel_state.py)."""


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
    if framework == "pytorch-eager" and (own := OWN_TRAINERS.get(cells.get("source", "").partition(" ")[0])):
        framework = own
        assumptions.append(f"framework = {own} (whose pages the row is from)")
    elif framework == "pytorch-eager" and NOTED_TRANSFORMERS.search(cells.get("notes", "")):
        framework = "transformers"
        assumptions.append("framework = transformers (as the notes say)")
    older, month = NEWEST_UNTIL.get(framework, ("", ""))
    if _measured_before(cells, month):
        framework = older
        assumptions.append(f"framework = {older} (the newest when it was measured)")
    elif not cells.get("framework"):
        assumptions.append("framework = pytorch-eager")
    software = software_of(framework)
    published = software.published
    recent = published.recipes and not chip.name.startswith(EAGER_DEFAULT_CHIPS)
    tp, pp = whole("tp", 1), whole("pp", 1)
    cp, ep, vp = (int(number(cells.get(column, "")) or 1) for column in ("cp", "ep", "vp"))
    stated_chips = chips_stated(cells)
    chips = whole("n_gpus", stated_chips or 1, "dp · tp · pp · cp" if stated_chips else "")
    dp = whole("dp", max(chips // max(tp * pp * cp, 1), 1), "n_gpus / (tp · pp · cp)")
    stated = cells.get("sharding", "")
    if stated.lower() == "ddp" and UNSTATED_OPTIMIZER in cells.get("notes", ""):
        stated = ""
    sharding = sharding_of(stated) or "ddp"
    if not stated and dp * cp > 1:
        sharding = "zero1" if recent else "ddp"
        assumptions.append(f"sharding = {sharding}" + (" (Megatron's distributed optimizer)" if recent else ""))
    split = flag(cells.get("sequence_parallel", ""), recent) and tp > 1
    by_recipe = f"as {software.label}'s published recipes set it"
    if split and not cells.get("sequence_parallel"):
        assumptions.append(f"sequence_parallel = true ({by_recipe})")
    overlapped = split and recent and cells.get("tp_overlap", "").lower() not in ("false", "0", "no")
    if overlapped and not cells.get("tp_overlap"):
        assumptions.append(f"tp_overlap = true ({by_recipe})")
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
    copies = OPTIMIZER_INSTANCES.search(cells.get("notes", ""))
    if copies and sharding != "ddp" and dp * cp % int(copies[1]) == 0:
        plan["shard_ranks"] = dp * cp // int(copies[1])
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
    known = model_of(cells.get("model", ""))
    usual = dict(published.variants).get(known.name if known else "")
    if usual and not STATED_ARGUMENTS.search(cells.get("notes", "")):
        training["framework"] = usual
        assumptions.append(f"framework = {usual} ({software.label}'s recipe for this model)")
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


def known_experts(name: str) -> int:
    """Return how many experts the catalogue knows a model to have."""
    known = model_of(name)
    return known.experts if known else 0


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


def states_optimizer(cells: Mapping[str, str]) -> bool:
    """Whether a row says which optimizer ran: in its column, by name in its notes, or by what its run was told."""
    notes = cells.get("notes", "")
    return bool(cells.get("optimizer") or NOTED_OPTIMIZER.search(notes) or STATED_ARGUMENTS.search(notes))


def _optimizer(cells: Mapping[str, str], software: Framework, assumptions: list[str]) -> str:
    """The row's optimizer, or the one that its notes name, or that its framework's recipe for its model sets."""
    noted = NOTED_OPTIMIZER.search(cells.get("notes", ""))
    if stated := optimizer_of(cells.get("optimizer", "") or (noted[0] if noted else "")):
        return stated
    known = model_of(cells.get("model", ""))
    usual = dict(software.published.optimizers).get(known.name if known else "")
    if usual is None or states_optimizer(cells):
        return "adamw"
    assumptions.append(f"optimizer = {usual} ({software.label}'s recipe for this model)")
    return usual


def _attention(cells: Mapping[str, str], chip: Chip, software: Framework, assumptions: list[str]) -> str:
    """The row's attention, or the one that its framework took on its chip, unless told otherwise in its notes."""
    notes, stated = cells.get("notes", ""), ATTENTIONS.get(cells.get("attention_impl", "").lower().split(" (")[0])
    if stated == "flash1":
        assumptions.append("attention flash = FlashAttention 1 (a table names version 2 flash2)")
    if stated is not None:
        return stated
    usual, older = "sdpa", chip.name.startswith(EAGER_DEFAULT_CHIPS)
    if software.published.engine:
        if "transformer-impl=local" in notes or (older and "transformer_engine" not in notes):
            usual = "eager"
        elif older or (DETERMINISTIC.search(notes) and not chip.name.startswith(HOPPER)):
            usual = "flash"
    assumptions.append(f"attention = {usual}")
    return usual


def _training(
    cells: Mapping[str, str], chip: Chip, framework: str, whole: Any, assumptions: list[str]
) -> dict[str, Any]:
    software = software_of(framework)
    usual_dropout, notes = software.published.dropout, cells.get("notes", "")
    precision = precision_of(cells.get("precision", ""))
    if not precision:
        precision = "bf16" if chip.bf16_flops_per_s else "fp16-amp"
        assumptions.append(f"precision = {precision}")
    attention = _attention(cells, chip, software, assumptions)
    told = TOLD_DROPOUT.search(notes)
    stated = number(cells.get("dropout", "") or (told[1] if told else ""))
    dropout = stated or 0.0
    if stated is None and usual_dropout is not None and (attention == "eager" or STATED_ARGUMENTS.search(notes)):
        dropout = usual_dropout
        assumptions.append(f"dropout = {dropout} ({software.label}'s default)")
    family, _ = family_of(cells.get("model", ""))
    if stated is None and family in DROPOUT and not software.published.recipes and not is_inference(cells):
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
        "optimizer": _optimizer(cells, software, assumptions),
        "optimizer_kernel": optimizer_kernel_of(cells.get("optimizer_kernel", ""))
        or cells.get("optimizer_kernel", "")  # a word that is no kernel's is refused with the scenario
        or optimizer_kernel_of(cells.get("optimizer", ""))
        or "default",
    }


def software_of(framework: str) -> Framework:
    """What a framework does its own way; a name that there is none of is refused with the scenario."""
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
