"""Spellings: how tables of measured runs write chips, precisions, optimizers and models, in the words of a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.hardware import PEAK_FIELD
from estimator.scenario.model import Model
from estimator.scenario.problems import InputProblems

LENGTH_COLUMNS = {"seq_len", "seq", "sequence_length", "seq_length", "context", "context_length", "ctx", "ctx_len",
                  "seqlen", "sequence", "n_ctx", "seq_len_t", "seqlen_t", "max_seq_len", "max_seq_length", "max_length",
                  "max_sequence_length", "sequence_len"}  # fmt: skip
MODEL_COLUMNS = {"model", "model_name", "size", "model_size", "config_name", "llm", "net"}
"""What tables call the columns of sequence lengths, and of models."""

PRECISIONS = {
    **{name: name for name in PEAK_FIELD},
    "float32": "fp32", "single": "fp32", "tensorfloat32": "tf32", "bfloat16": "bf16",
    "fp16": "fp16-amp", "float16": "fp16-amp", "half": "fp16-amp", "fp16-mixed": "fp16-amp", "amp-fp16": "fp16-amp",
    "amp-bf16": "bf16-amp", "autocast": "bf16-amp", "amp": "bf16-amp", "bf16-autocast": "bf16-amp", "mixed": "bf16-amp",
    "autocast-bf16": "bf16-amp", "bf16-mixed": "bf16-amp", "mixed-bf16": "bf16-amp", "amp-bfloat16": "bf16-amp",
    "mixed-fp16": "fp16-amp", "16-mixed": "fp16-amp", "bfloat16-mixed": "bf16-amp",
    "amp-fp8": "fp8", "mxfp8": "fp8", "fp8-cs": "fp8", "fp8-mx": "fp8", "fp8-ds": "fp8", "fp8-sc": "fp8",
    "float8": "fp8", "fp8-hybrid": "fp8", "fp8-e4m3": "fp8", "float8-e4m3": "fp8", "float8-rowwise": "fp8",
    "float8-tensorwise": "fp8", "bf16-fp8": "fp8", "fp8-blockwise": "fp8", "fp8-other-granularity": "fp8",
    "nvfp4": "fp4", "mxfp4": "fp4", "float4": "fp4",
}  # fmt: skip
"""Precisions by their spellings in lower case, words joined by a dash and without what stands in brackets."""

OPTIMIZERS = {"adam": "adamw", "adamw": "adamw", "sgd": "sgd", "distributed-adam": "adamw", "torch-adamw": "adamw",
    "adafactor": "adafactor", "adamw-bf16": "adamw-bf16", "precision-aware-adam": "adamw-bf16",
    **dict.fromkeys(("adamw-8bit", "adam-8bit", "8bit-adam", "8bit-adamw", "8-bit-adam", "8-bit-adamw", "adam8bit",
                     "adamw8bit", "paged-adamw-8bit", "pagedadamw8bit"), "adamw-8bit"),
}  # fmt: skip
SHARDINGS = {
    "none": "ddp", "ddp": "ddp", "dp": "ddp", "none-dp=1": "ddp", "no-shard": "ddp", "data-parallel": "ddp",
    "distributeddataparallel": "ddp", "distributed-data-parallel": "ddp", "torch-ddp": "ddp",
    "distributed-optimizer": "zero1", "fsdp": "fsdp", "fsdp1": "fsdp", "fsdp2": "fsdp", "full-shard": "fsdp",
    "fsdp-full-shard": "fsdp", "fully-shard": "fsdp", "fully-sharded": "fsdp", "fullyshardeddataparallel": "fsdp",
    "fully-sharded-data-parallel": "fsdp", "fsdp-shard-grad-op": "zero3", "shard-grad-op": "zero3",
}  # fmt: skip
"""Shardings by their spellings in lower case, words joined by a dash, without brackets; ZeRO's by its stages."""
_ZERO = re.compile(
    r"(?:deepspeed-|ds-)?(?:zero-?)(?:stage-?)?([0-3])|(?:deepspeed|ds)-(?:stage-?)?([0-3])|stage-?([0-3])"
)
YES = ("true", "1", "yes", "y", "on", "x", "✓", "✔")
NO = ("false", "0", "no", "n", "off", "none", "✗", "✘")

NOTED_OPTIMIZER = re.compile(r"\b(adafactor|8-?bit adamw?|(paged)?adamw?-?8bit)\b", re.I)
"""Optimizers that notes name; every other row has AdamW."""
KERNELS_OF_OPTIMIZERS = re.compile(
    r"[ _-]*\(?\b(fused|foreach|for-?loop|capturable|apex|distributed)\b(?:\s*=\s*(?:true|false)\b)?\)?", re.I
)
"""Words beside an optimizer's name for the kernels that run it."""

NUMBER_OF_CHIPS = re.compile(r"^\s*\d+\s*[x×*]\s*|\s*(?<![A-Z])[x×*]\s*\d+\s*$", re.I)

NOT_THE_MODEL = re.compile(
    r"\s*\((?!.*b\)).*?\)|\s*\[.*?\]|\s*\b(truncated|cut|reduced) to \d+ (layers|blocks)"
    r"|\s+(sft|pre-?train(ing|ed)?|full finetun(e|ing)|finetun(e|ing)|base|sequence classification)$",
    re.I,
)
"""What a model's name is written with and is no part of it: what is done with it, how deep it was cut, brackets."""

GPT: dict[str, Any] = {
    "gated_ffn": False,
    "activation": "gelu-tanh",
    "norm": "layer",
    "position": "learned",
    "bias": True,
    "tied_embedding": True,
}
LLAMA: dict[str, Any] = {
    "gated_ffn": True,
    "activation": "silu",
    "norm": "rms",
    "position": "rope",
    "bias": False,
    "tied_embedding": False,
}
FAMILIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (r"gpt-?neox|pythia", "GPT-NeoX", {**GPT, "position": "rope", "parallel_residual": True, "tied_embedding": False}),
    (r"gpt-?j", "GPT-J", {**GPT, "position": "rope", "parallel_residual": True, "norms_per_layer": 1,
                          "tied_embedding": False}),
    (r"falcon", "Falcon", {**GPT, "position": "rope", "parallel_residual": True, "norms_per_layer": 1, "bias": False,
                           "activation": "gelu"}),
    (r"\bopt\b|\bopt-\d", "OPT", {**GPT, "activation": "relu", "clamped_scores": True}),
    (r"bert", "BERT", {**GPT, "activation": "gelu"}),
    (r"bloom", "BLOOM", {**GPT, "position": "alibi"}),
    (r"\bmpt\b|mpt-", "MPT", {**GPT, "position": "alibi", "bias": False}),
    (r"phi-2", "Phi-2", {**GPT, "position": "rope", "parallel_residual": True, "norms_per_layer": 1,
                         "tied_embedding": False}),
    (r"gemma", "Gemma", {**LLAMA, "activation": "gelu-tanh", "tied_embedding": True}),
    (r"nemotron-?[34]", "Nemotron-4", {**LLAMA, "gated_ffn": False, "activation": "relu", "norm": "layer"}),
    (r"qwen-?[12](\.5)?\b", "Qwen2", {**LLAMA, "qkv_bias": True}),
    (r"qwen-?3", "Qwen3", {**LLAMA, "qk_norm": True}),
    (r"llama|mistral|mixtral|ministral|yi-|phi-[34]|cs336|nemotron-h|olmo|deepseek|moonlight|kimi|granite|smollm|internlm"
     r"|baichuan|chatglm|glm-|grok|gpt-oss", "Llama", LLAMA),
)  # fmt: skip
"""Blocks of families by what their models' names hold; the first that fits. Everything else is read as GPT-2's."""

DROPOUT = {"BERT": 0.1}
"""Dropout that a family's configurations have where nothing else is said (hidden_dropout_prob and
attention_probs_dropout_prob of google-bert's)."""

TOLD_BLOCKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--untie-embeddings-and-output-weights", {"tied_embedding": False}),
    ("--disable-bias-linear", {"bias": False}),
    ("--position-embedding-type=rope", {"position": "rope"}),
    ("--swiglu", {"gated_ffn": True, "activation": "silu"}),
    ("--normalization=RMSNorm", {"norm": "rms"}),
)
"""What arguments of Megatron-LM say of a model's blocks (megatron/training/arguments.py), where notes list them."""

HEADLESS = re.compile(r"no vocabulary head|classification", re.I)


def told_blocks(notes: str) -> dict[str, Any]:
    """Return what arguments that notes list say of a model's blocks; a switch that is told False says nothing."""
    told = [words.removesuffix("=True") for words in notes.split()]
    return {name: value for argument, said in TOLD_BLOCKS if argument in told for name, value in said.items()}


def precision_of(text: str) -> str:
    """Return the precision of a spelling; "" where it is none."""
    word = re.sub(r"[\s_+]+", "-", re.sub(r"\(.*?\)", "", text.lower()).strip())
    word = word.removesuffix("-training").removesuffix("-precision")
    plain = word.removesuffix("-true")  # Lightning's word for all numbers being of that precision
    return PRECISIONS.get(word, "") or {"16": "fp16", "32": "fp32"}.get(plain, plain if plain in PEAK_FIELD else "")


def sharding_of(text: str) -> str:
    """Return how states are sharded by a spelling; "" where it is none.

    >>> sharding_of("FULL_SHARD"), sharding_of("DeepSpeed ZeRO-3"), sharding_of("stage_2"), sharding_of("auto")
    ('fsdp', 'zero3', 'zero2', '')
    """
    word = re.sub(r"[\s_+().-]+", "-", text.strip().lower()).strip("-")
    stage = _ZERO.fullmatch(word)
    level = next((one for one in stage.groups() if one), "") if stage else ""
    return {"0": "ddp"}.get(level, f"zero{level}") if level else SHARDINGS.get(word, "")


_OOM = r"(?:oom(?:ed)?|out.?of.?mem[a-z]{0,7})(?:.?(?:error|exception|killed))?"
_OOM_SAID = re.compile(rf"(?<![a-z])(?<!no.)(?<!not.)(?<!without.){_OOM}(?![a-z])", re.I)
_OOM_ALONE = re.compile(rf"(?:is|ran|went|torch|cuda|gpu|hip|xla|jax)*{_OOM}")
_ASIDE = re.compile(r"\(.{1,10}\)")


def mentions_out_of_memory(text: str) -> bool:
    """Whether a sentence, a status or an error speaks of memory that ran out."""
    return _OOM_SAID.search(text) is not None


def is_out_of_memory(text: str) -> bool:
    """Whether a cell, or the name of a column, is nothing but a word for that.

    >>> [is_out_of_memory(one) for one in ("OOM", "CUDA out of memory", "is_oom", "OOM (80GB)", "no OOM", "zoom")]
    [True, True, True, True, False, False]
    """
    return _OOM_ALONE.fullmatch(re.sub(r"[^a-z]", "", _ASIDE.sub("", text.lower()))) is not None


def says_yes(text: str) -> bool:
    """Whether a cell says yes, in one of the usual words."""
    return text.strip().lower() in YES


def says_no(text: str) -> bool:
    """Whether a cell says no, in one of the usual words."""
    return text.strip().lower() in NO


def flag(text: str, default: bool) -> bool:
    """Read yes or no; ``default`` where the cell is empty.

    >>> flag("Yes", False), flag("y", False), flag("no", True), flag("", True)
    (True, True, False, True)
    """
    return says_yes(text) if text else default


def optimizer_of(text: str) -> str:
    """Return the optimizer of a spelling, whatever kernels run it; the text itself where it is none."""
    word = re.sub(r"\s+", "-", KERNELS_OF_OPTIMIZERS.sub("", text.strip().lower()).strip(" -_()"))
    return OPTIMIZERS.get(word or text, text)


def optimizer_kernel_of(text: str) -> str:
    """Return which of PyTorch's kernels a spelling of an optimizer, or of its kernels alone, names; "" of none."""
    named = r"(?<![a-z])(fused|foreach|for[-_ ]?loop|default)(?![a-z])(?:\s*=\s*(true|false)\b)?"
    for name, said in re.findall(named, text, re.I):
        kernel = re.sub(r"for.?loop", "for-loop", name.lower())
        if said.lower() != "false":
            return kernel
        if kernel == "foreach":  # torch.optim without foreach goes tensor by tensor
            return "for-loop"
    return ""


def chip_of(text: str) -> str:
    """Return the catalogue's name of a chip, without how many there are and what stands in brackets; else the text."""
    plain = NUMBER_OF_CHIPS.sub("", text).strip()
    bare = re.sub(r"\s*[\[(].*?[\])]", "", plain).strip()
    for word in (text, plain, bare, re.sub(r"\s+\d+\s?gi?b$", "", bare, flags=re.I)):
        if (found := catalog.known("chips", word)) is not None:
            return str(found.name)
    return bare or text


LONGEST_NAME = 80
_MAY_BE_LEFT_OUT = re.compile(r"\d+gb|sxm|pcie|oam")
"""Memory and form of a chip; RTX 6000 is not yet RTX 6000 Ada."""
_NO_PART_OF_A_CHIP = {"nvidia", "amd", "google", "intel", "tesla", "instinct", "geforce", "gpu", "gpus", "memory"}


def _words_of_chip(text: str) -> set[str]:
    """Cut a chip's name into words: 80 GB, 80G and 80GiB are one, SXM4 and SXM5 the SXM of their chip."""
    plain = re.sub(r"\b(rtx)(?=a?\d)", r"\1 ", re.sub(r"(?<=\d)ada\b", " ada", text.lower()))
    plain = re.sub(r"(\d+)\s*gi?b?\b", r"\1gb", plain)
    words = re.findall(r"[a-z0-9]+", re.sub(r"\bsxm\d\b", "sxm", plain))
    return {word for word in words if word not in _NO_PART_OF_A_CHIP and not re.fullmatch(r"hbm\d?e?", word)}


@lru_cache(maxsize=256)
def chips_named(text: str, revision: int = 0) -> tuple[str, ...]:
    """Return the catalogue's chips that a table may mean by a name: several where it leaves out a memory that tells.

    ``revision`` is that of the catalogue.

    >>> chips_named("8x A100 80GB SXM"), chips_named("H100"), chips_named("Foo 9000")
    (('a100-80gb-sxm',), ('h100-sxm',), ())
    >>> chips_named("A100 SXM")
    ('a100-40gb-sxm', 'a100-80gb-sxm')
    >>> chips_named("RTX3090"), chips_named("RTX 6000"), chips_named("2x RTX 6000 Ada")
    (('rtx-3090',), (), ('rtx-6000-ada',))
    """
    plain = re.sub(r"^\s*\d+\s+(?=[A-Za-z])", "", NUMBER_OF_CHIPS.sub("", text))
    words = _words_of_chip(plain)
    fitting = [
        entry
        for entry in catalog.entries("chips")
        if words
        and words <= (all_of := _words_of_chip(f"{entry.key} {entry.label}"))
        and all(_MAY_BE_LEFT_OUT.fullmatch(word) for word in all_of - words)
    ]
    if len({entry.value.memory_bytes for entry in fitting}) > 1:
        return tuple(entry.key for entry in fitting)
    try:
        return (catalog.chip(chip_of(plain)).name,)
    except InputProblems:
        fitting.sort(key=lambda entry: "sxm" not in entry.key)
        return tuple(entry.key for entry in fitting[:1])


def forms_named(text: str) -> tuple[str, ...]:
    """Return all chips that a name may mean where it leaves out a form (SXM, PCIe), the one that is meant most first.

    >>> forms_named("H100"), forms_named("A100 40GB"), forms_named("H100 PCIe")
    (('h100-sxm', 'h100-pcie'), ('a100-40gb-sxm', 'a100-40gb-pcie'), ('h100-pcie',))
    """
    named = chips_named(text, catalog.revision())
    words = _words_of_chip(NUMBER_OF_CHIPS.sub("", text))
    others = [
        entry
        for entry in catalog.entries("chips")
        if entry.key in named
        or (
            words <= (all_of := _words_of_chip(f"{entry.key} {entry.label}"))
            and named
            and all(_MAY_BE_LEFT_OUT.fullmatch(word) for word in all_of - words)
        )
    ]
    others.sort(key=lambda one: (-one.value.memory_bytes, "pcie" in one.key, one.key not in named))
    return tuple(entry.key for entry in others)


def chips_of_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the catalogue's chips that a row's own column may mean; none where it names none that is known."""
    name = gpu_of_row(row)
    return chips_named(name, catalog.revision()) if name and len(name) <= LONGEST_NAME else ()


def gpu_of_row(row: Mapping[str, Any]) -> str:
    """What a row's own column ``gpu`` says that it ran on, or ``hardware`` of a table of measured runs; else ""."""
    name = row.get("gpu", row.get("hardware"))
    return name if isinstance(name, str) else ""


def model_of(name: str) -> Model | None:
    """Return the catalogue's model of a name, without what is no part of it; None where it has none."""
    for candidate in (name, NOT_THE_MODEL.sub("", name).strip()):
        if (found := catalog.known("models", candidate)) is not None:
            assert isinstance(found, Model)
            return found
    return None


def family_of(name: str) -> tuple[str, dict[str, Any]]:
    """Return the family that a model's name belongs to, and what its blocks are like."""
    for pattern, label, blocks in FAMILIES:
        if re.search(pattern, name, re.I):
            return label, dict(blocks)
    return "GPT", dict(GPT)
