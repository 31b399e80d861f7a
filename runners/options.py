"""Options of each benchmark: what it is asked to cover, as data that a job and a command line share; without torch.

An empty tuple means the benchmark's own choice for the device, which is small on a CPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from estimator.scenario.codec import decode, spec, types_of
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.training import ATTENTIONS, OPTIMIZER_KERNELS, PRECISIONS

LIBRARIES = ("gloo", "nccl")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "p2p")
PASSES = ("forward", "forward-backward", "step")
PROGRAM_PRECISIONS = ("fp32", "tf32", "fp16-amp", "bf16-amp", "bf16")
PROGRAM_ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
RUN_OPTIMIZERS = ("adamw", "sgd")
"""Those that a step is measured with."""
EXPERTS = ("default", "loop", "grouped")
LADDERS = ("gemm", "attention", "elementwise", "reduction", "copy", "launch", "optimizer", "runtime", "collective")
ATTENTION_CORES = (
    "naive", "compiled", "sdpa-flash", "sdpa-efficient", "sdpa-cudnn", "sdpa-math", "triton"
)  # fmt: skip
CORES = ("scores", "eager", "fused")
SCALES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TINY, TINY_TIED = "tiny", "tiny-tied"
"""Transformers of a few small blocks that are in no catalogue, for trying a benchmark out; the second one's head is its
embedding."""


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Options of a benchmark that has none."""


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """A training step by phase, its memory and its kernels; with ``models`` a grid of many steps, one row each."""

    mode: str = spec("step", choices=PASSES, help="how much of a training step runs; forward alone keeps no graph")
    graph: bool = spec(False, help="replay the step's phases as CUDA graphs")
    optimizer_kernel: str = spec("default", choices=OPTIMIZER_KERNELS, help="which of PyTorch's optimizer kernels")
    experts: str = spec(
        "default",
        choices=EXPERTS,
        help="experts one after another or in grouped products; default: grouped if compiled",
    )
    snapshot: bool = spec(False, help="write the allocator's snapshot of one step beside the trace, as JSON")
    models: tuple[str, ...] = spec((), help="names of the catalogue, or tiny; the rest of the grid applies to each")
    layers: int = spec(0, minimum=0, maximum=10_000, help="grid: blocks to keep of each model; 0: all")
    seq_lens: tuple[int, ...] = spec(
        (), minimum=1, help="grid: tokens per sequence; default: 1024 on a GPU, 512 on a CPU"
    )
    micro_batches: tuple[int, ...] = spec(
        (), minimum=1, help="grid: sequences per step; default: 4 on a GPU, 1 on a CPU"
    )
    precisions: tuple[str, ...] = spec(("bf16-amp",), choices=PRECISIONS, help="grid: precisions")
    attentions: tuple[str, ...] = spec(("sdpa",), choices=ATTENTIONS, help="grid: attention implementations")
    compiles: tuple[str, ...] = spec(("no",), choices=("no", "yes"), help="grid: whether torch.compile is used")
    graphs: tuple[str, ...] = spec(("no",), choices=("no", "yes"), help="grid: whether CUDA graphs are used")
    modes: tuple[str, ...] = spec(("step",), choices=PASSES, help="grid: how much of a step runs")
    optimizer_kernels: tuple[str, ...] = spec(("default",), choices=OPTIMIZER_KERNELS, help="grid: optimizer kernels")
    recomputes: tuple[str, ...] = spec(("none",), choices=("none", "selective", "full"), help="grid: recomputation")
    profile: bool = spec(False, help="grid: also busy seconds by category of one profiled step")
    limit_s: float = spec(1800.0, minimum=1, maximum=86_400, help="grid: no configuration starts after this time")


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """What a program of somebody else's is measured or traced with, where it does not say so itself."""

    batch: int = spec(1, minimum=1, maximum=1_000_000, help="sequences of a batch")
    seq: int = spec(512, minimum=1, maximum=100_000_000, help="tokens of a sequence")
    precision: str = spec("bf16-amp", choices=PROGRAM_PRECISIONS, help="amp casts, bf16 converts the module")
    optimizer: str = spec("adamw", choices=RUN_OPTIMIZERS, help="where the program brings none")
    attention: str = spec("sdpa", choices=PROGRAM_ATTENTIONS, help="of a Hugging Face model")
    checkpointing: bool = spec(False, help="of a Hugging Face model: activations computed again in backward")
    compile: bool = spec(False, help="torch.compile")


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """One attention by implementation, head dimension, sequence length and precision: times, memory, speed-ups."""

    implementations: tuple[str, ...] = spec(ATTENTION_CORES, choices=ATTENTION_CORES, help="naive first, for speed-ups")
    dims: tuple[int, ...] = spec((), minimum=1, help="head dimensions; default: 64,128 on a GPU, 16,32 on a CPU")
    seq_lens: tuple[int, ...] = spec(
        (), minimum=1, help="tokens per sequence; default: 1024,4096,16384 on a GPU, 64,128 on a CPU"
    )
    precisions: tuple[str, ...] = spec(
        (), choices=("fp32", "tf32", "fp16", "bf16"), help="numbers; default: bf16 on a GPU, fp32,bf16 on a CPU"
    )
    causals: tuple[str, ...] = spec(("no", "yes"), choices=("no", "yes"), help="with and without the causal mask")
    batch: int = spec(0, minimum=0, maximum=100_000, help="sequences; 0: as many as make 16384 tokens, 128 on a CPU")
    heads: int = spec(0, minimum=0, maximum=100_000, help="heads; 0: as many as make a width of 2048, 64 on a CPU")
    input_sets: int = spec(3, minimum=1, maximum=100, help="sets of inputs that samples take turns among")
    limit_s: float = spec(900.0, minimum=1, maximum=86_400, help="no row starts after this time")


@dataclass(frozen=True, kw_only=True)
class CollectivesOptions:
    """Collectives against payload, ranks and library."""

    kinds: tuple[str, ...] = spec(COLLECTIVES, choices=COLLECTIVES, help="collectives")
    libraries: tuple[str, ...] = spec((), choices=LIBRARIES, help="default: nccl on GPUs, gloo on CPUs")
    sizes_bytes: tuple[int, ...] = spec(
        (), minimum=4, help="payloads, such as 1KiB,1MiB,1GiB; default: 1KiB to 1GiB over nccl, to 16MiB over gloo"
    )
    group_sizes: tuple[int, ...] = spec((), minimum=2, help="ranks that take part; default: 2, 4, … all")
    dtype: str = spec("bf16", choices=("bf16", "fp32"), help="numbers that are sent")
    limit_s: float = spec(300.0, minimum=1, maximum=86_400, help="no configuration starts after this time")


@dataclass(frozen=True, kw_only=True)
class DdpOptions:
    """Training of one model spread over ranks in many ways, by phase."""

    variants: tuple[str, ...] = spec(
        (), help="such as naive, flat, bucketed:25, fsdp:no-reshard, tp:sequence, pp:1f1b:8; default: all that fit"
    )
    models: tuple[str, ...] = spec(
        (), help="names of the catalogue, or tiny; default: cs336-large on GPUs, tiny on CPUs"
    )
    layers: int = spec(0, minimum=0, maximum=10_000, help="blocks to keep of each model; 0: all")
    seq_lens: tuple[int, ...] = spec((), minimum=1, help="tokens per sequence; default: 1024 on GPUs, 512 on CPUs")
    micro_batch: int = spec(
        0, minimum=0, maximum=100_000, help="sequences per rank and micro-batch; 0: 4 on GPUs, 1 on CPUs"
    )
    precisions: tuple[str, ...] = spec(("bf16-amp",), choices=PRECISIONS, help="precisions")
    attention: str = spec("sdpa", choices=ATTENTIONS, help="attention implementation")
    profile: bool = spec(False, help="also read the exposed communication off a profiled step")
    limit_s: float = spec(600.0, minimum=1, maximum=86_400, help="no configuration starts after this time")


@dataclass(frozen=True, kw_only=True)
class UlyssesOptions:
    """One attention layer spread over ranks by sequence, step by step, with ring attention beside it."""

    seq_len: int = spec(0, minimum=0, help="tokens over all ranks; 0: 512 on a CPU, 16384 on GPUs")
    hidden: int = spec(0, minimum=0, maximum=1_000_000, help="width; 0: 64 on a CPU, 4096 on GPUs")
    heads: int = spec(0, minimum=0, maximum=100_000, help="heads; 0: 8 on a CPU, 32 on GPUs")
    precision: str = spec("bf16", choices=("fp32", "tf32", "fp16", "bf16"), help="numbers")
    cores: tuple[str, ...] = spec(
        CORES, choices=CORES, help="scores: two products, no softmax; eager: with softmax; fused: causal SDPA"
    )
    ring: bool = spec(True, help="measure causal ring attention beside it")
    limit_s: float = spec(300.0, minimum=1, maximum=86_400, help="no step starts after this time")


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Peaks of forward, backward and step, and what they are made of."""

    models: tuple[str, ...] = spec(
        (), help="names of the catalogue, or tiny; default: cs336-small on a GPU, tiny on a CPU"
    )
    seq_lens: tuple[int, ...] = spec((128, 256, 512), minimum=1, help="tokens per sequence")
    precisions: tuple[str, ...] = spec(("fp32", "bf16-amp"), choices=PRECISIONS, help="precisions")
    passes: tuple[str, ...] = spec(PASSES, choices=PASSES, help="how much of a training step runs")
    attentions: tuple[str, ...] = spec(("eager",), choices=ATTENTIONS, help="attention implementations")
    recomputes: tuple[str, ...] = spec(("none",), choices=("none", "selective", "full"), help="recomputation")
    micro_batch: int = spec(0, minimum=0, maximum=100_000, help="sequences; 0: 4 on a GPU, 1 on a CPU")
    snapshot: bool = spec(False, help="write the allocator's snapshot of the last step beside the trace, as JSON")
    limit_s: float = spec(600.0, minimum=1, maximum=86_400, help="no configuration starts after this time")


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """Sums in low precision, and which numbers autocast uses where."""

    autocasts: tuple[str, ...] = spec(("fp16", "bf16"), choices=("fp16", "bf16"), help="types that autocast is given")


@dataclass(frozen=True, kw_only=True)
class ProbesOptions:
    """The calibration ladder of this device."""

    ladders: tuple[str, ...] = spec(LADDERS, choices=LADDERS, help="what is probed")
    limit_s: float = spec(300.0, minimum=1, maximum=3600, help="no probe starts after this time")
    sizes: str = spec(
        "default",
        choices=("default", "few", "all"),
        help="default: all on a GPU, a few small ones on a CPU, which all take 20 minutes and more: raise the limit",
    )


OPTIONS: dict[str, type[Any]] = {
    "step": StepOptions,
    "attention": AttentionOptions,
    "collectives": CollectivesOptions,
    "ddp": DdpOptions,
    "ulysses": UlyssesOptions,
    "memory": MemoryOptions,
    "precision": PrecisionOptions,
    "probes": ProbesOptions,
}


def about(benchmark: str) -> str:
    """Say in one line what a benchmark covers."""
    return (OPTIONS.get(benchmark, Nothing).__doc__ or "").partition("\n")[0]


def options_of(benchmark: str, values: object) -> Any:
    """Read a job's options, sizes also in words; raise InputProblems for unknown keys and illegal values."""
    cls = OPTIONS.get(benchmark, Nothing)
    options = decode(cls, _with_sizes(cls, values), "options")
    problems = [problem for field in fields(options) for problem in _item_problems(field, getattr(options, field.name))]
    if problems:
        raise InputProblems(problems)
    return options


def whole(text: str) -> int:
    """Read 4096, 4KiB, 25MiB or 1GiB; raise ValueError that says so."""
    try:
        for unit, scale in SCALES.items():
            if text.endswith(unit):
                return round(float(text[: -len(unit)]) * scale)
        return int(text)
    except (ValueError, OverflowError):
        message = f"{text!r} is neither a whole number nor a size such as 4KiB, 25MiB or 1GiB"
        raise ValueError(message) from None


def add_arguments(parser: argparse._ActionsContainer, benchmark: str) -> None:
    """Give a command line one flag for each option, lists separated by commas."""
    add_fields(parser, OPTIONS.get(benchmark, Nothing), "option_")


def add_fields(parser: argparse._ActionsContainer, cls: type[Any], prefix: str = "") -> None:
    """Give a command line one flag for each field; those that are not given leave no value."""
    hints = types_of(cls)
    for field in dataclasses.fields(cls):
        flag, kind = f"--{field.name.replace('_', '-')}", hints[field.name]
        common: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "dest": f"{prefix}{field.name}",
            "help": _help(field),
        }
        if kind is bool:
            common["action"] = argparse.BooleanOptionalAction
        else:
            common |= {"type": _reader(kind), "metavar": "LIST" if kind not in (str, int, float) else "X"}
        parser.add_argument(flag, **common)


def from_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Collect what ``add_arguments`` read, as a job holds it."""
    prefix = "option_"
    return {key[len(prefix) :]: value for key, value in vars(arguments).items() if key.startswith(prefix)}


def _with_sizes(cls: type[Any], values: object) -> object:
    """Read sizes in words where a job's options have whole numbers; raise InputProblems."""
    if not isinstance(values, Mapping):
        return values
    hints, found, problems = types_of(cls), dict(values), []

    def read(item: object, path: str) -> object:
        if not isinstance(item, str):
            return item
        try:
            return whole(item.strip())
        except ValueError as error:
            message, remedy = str(error), "Give a whole number, or such a size."
            if not path.partition("[")[0].endswith("_bytes"):
                message, remedy = f"{item!r} is not a whole number", "Give a whole number."
            problems.append(Problem(field=f"options.{path}", message=message, remedy=remedy))
            return item

    for name, value in values.items():
        kind = hints.get(name)
        if kind is int:
            found[name] = read(value, name)
        elif kind == tuple[int, ...] and isinstance(value, (list, tuple)):
            found[name] = [read(item, f"{name}[{index}]") for index, item in enumerate(value)]
    if problems:
        raise InputProblems(problems)
    return found


def _item_problems(field: dataclasses.Field[Any], value: object) -> list[Problem]:
    """Check what is in a list, which the codec does not."""
    if not isinstance(value, tuple):
        return []
    choices, minimum = field.metadata.get("choices"), field.metadata.get("minimum")
    found = []
    for item in value:
        if choices and item not in choices:
            near = difflib.get_close_matches(str(item), choices, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            remedy = f"{hint}One of: {', '.join(choices)}."
            found.append(Problem(field=f"options.{field.name}", message=f"{item!r} is not known", remedy=remedy))
        if minimum is not None and item < minimum:
            remedy = f"Give at least {minimum:g}."
            found.append(Problem(field=f"options.{field.name}", message=f"{item} is out of range", remedy=remedy))
    return found


def _reader(kind: Any) -> Any:
    inner = int if kind in (int, tuple[int, ...]) else float if kind is float else str
    one = _whole_number if inner is int else inner
    if kind in (int, float, str):
        return one

    def items(text: str) -> list[Any]:
        return [one(part.strip()) for part in text.split(",") if part.strip()]

    return items


def _whole_number(text: str) -> int:
    try:
        return whole(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _help(field: dataclasses.Field[Any]) -> str:
    """What an option is, what it may be, and what it is if left out; where that depends, its own words say it."""
    choices, default = field.metadata.get("choices"), field.default
    said = [", ".join(choices)] if choices else []
    if isinstance(default, bool):
        said += ["default yes"] if default else []
    elif isinstance(default, tuple):
        listed = "all" if default == choices else ",".join(str(item) for item in default)
        said += [f"default {listed}"] if default else []
    else:
        said.append(f"default {default:g}" if isinstance(default, float) else f"default {default}")
    return f"{field.metadata['help']} ({'; '.join(said)})" if said else str(field.metadata["help"])
