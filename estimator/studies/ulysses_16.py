"""Ulysses attention on 16 ranks: sizes, FLOPs and the running memory peak of one forward pass, step by step.

The reference is the log of one rank: one attention layer on 60 000 tokens without softmax, scaling, mask and residual,
heads spread over the ranks by two all-to-alls (Jacobs 2023, arXiv 2309.14509).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from estimator.communication.context import context_messages
from estimator.cost.collectives import TRAFFIC
from estimator.operations.op import gemm
from estimator.scenario.codec import spec
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import MIB
from estimator.studies.study import Figure, Result, Series, printed, printed_figures

TITLE = "Ulysses attention on 16 GPUs"
SUMMARY = "Sizes, FLOPs and running memory peak of one attention layer whose heads are spread by all-to-all."

GB, MB, TFLOP = 1e9, 1e6, 1e12
IN_GB = ("input", "A", "output")
"""Tensors whose size the log prints in GB, the others in MB."""

NOTES = (
    "TFLOP is a count of 1e12 operations, two for each multiply-add, summed over all ranks; the log prints no time.",
    "Every size is decimal: MB = 1e6 B, GB = 1e9 B. The log prints input and output in GB (0.12) and the other "
    "activations, of the same size, in MB (122.88).",
    "Step 7 says that c is transposed, but its shape stays [h/P, N, d/h] and memory does not move: the transposed "
    "tensor was not assigned. The all-to-all that follows moves the right volume in the wrong order.",
    "Weights are replicated: every rank holds all of Q, K, V and proj, 2.15 GB in the reference, however many ranks.",
    "The peak is never reset, so every line shows the largest so far.",
    "The ten printed peaks bound the workspace of the first matrix product to 41.60 to 44.48 MB. 32 MiB + 8.125 MiB, "
    "the two default cuBLAS workspaces of PyTorch, and 40 MiB both lie inside; the log does not decide between them.",
    "In the log a host's address stands before every line, and a line of the communication library between steps 3 and "
    "4; both are no figures. Another revision of the program is public and prints size / 1e8 as GB.",
    "There is no softmax in it: a second matrix of A's size (57.60 GB) would not fit an 80 GB GPU.",
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What can be changed; the defaults are the reference's."""

    N: int = spec(60_000, minimum=1, maximum=10**7, help="tokens of the sequence")
    d: int = spec(16_384, minimum=1, maximum=10**6, help="hidden size")
    h: int = spec(128, minimum=1, maximum=10**4, help="heads")
    P: int = spec(16, minimum=1, maximum=10**4, help="ranks that share the sequence, then the heads")
    dtype_bytes: int = spec(2, minimum=1, maximum=8, help="bytes of one element; bf16: 2")
    workspace_bytes: int = spec(
        32 * MIB + 8_519_680,
        minimum=0,
        maximum=10**12,
        help="what the first matrix product allocates for itself; the reference bounds it to 41.60 to 44.48 MB",
    )


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor of one rank, named by its dimensions."""

    name: str
    labels: str
    shape: tuple[int, ...]
    element_bytes: int

    @property
    def elements(self) -> int:
        """Product of the shape."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Elements times bytes of one."""
        return self.elements * self.element_bytes


@dataclass(frozen=True, kw_only=True)
class UlyssesStep:
    """One line of the log: what it shows, allocates for good, and holds only while it runs."""

    name: str
    tensors: tuple[Tensor, ...]
    keeps_bytes: int = 0
    transient_bytes: int = 0
    flops: float = 0.0


def run(inputs: Inputs) -> Result:
    """Reproduce the log for these inputs; raises InputProblems where heads, tokens or width do not divide."""
    _check(inputs)
    steps = steps_of(inputs)
    peaks = running_peaks_bytes(steps)
    shown = printed_figures("ulysses-16") if inputs == Inputs() else {}
    figures = [
        _figure("configuration", "heads per GPU", inputs.h // inputs.P, "", shown),
        _figure("configuration", "tokens per GPU", inputs.N // inputs.P, "", shown),
    ]
    for number, (step, peak_bytes) in enumerate(zip(steps, peaks, strict=True), 1):
        group = f"{number}. {step.name}"
        if step.flops:
            figures.append(_figure(group, "FLOPs of all ranks", step.flops / TFLOP, "TFLOP", shown))
        for tensor in step.tensors:
            unit = GB if tensor.name in IN_GB else MB
            name = "GB" if unit == GB else "MB"
            shape = "x".join(map(str, tensor.shape))
            figures += [
                _figure(group, f"{tensor.name} [{tensor.labels}] shape", shape, "", shown),
                _figure(group, f"{tensor.name} [{tensor.labels}] elements", tensor.elements, "", shown),
                _figure(group, f"{tensor.name} [{tensor.labels}] size", tensor.size_bytes / unit, name, shown),
            ]
        figures.append(_figure(group, "peak memory allocation", peak_bytes / GB, "GB", shown))
    total = sum(step.flops for step in steps)
    figures += [
        Figure(group="not printed", name="FLOPs of all steps and ranks", value=total / TFLOP, unit="TFLOP"),
        Figure(group="not printed", name="FLOPs of one rank", value=total / TFLOP / inputs.P, unit="TFLOP"),
        *_communication(inputs),
    ]
    words = tuple(f"{number}. {step.name}" for number, step in enumerate(steps, 1))
    curves = tuple(
        Series(
            group="running memory peak", name=name, x_label="step", y_label="GB", kind="step", y_log=True,
            x=words, y=tuple(value / GB for value in values),
        )
        for name, values in (("peak so far", peaks), ("held after the step", held_bytes(steps)))
    )  # fmt: skip
    return Result(study="ulysses-16", inputs=inputs, figures=tuple(figures), series=curves, notes=NOTES)


def steps_of(i: Inputs) -> tuple[UlyssesStep, ...]:
    """List the ten steps of the log with the tensors that each shows and allocates.

    t = N·d/P elements, W = d² elements. What is reshaped is copied one tensor at a time: a copy lives beside its
    original until the name is bound to it.
    """
    heads, tokens, width, ranks = i.h // i.P, i.N // i.P, i.d // i.h, i.P
    projection = _product_flops(m=i.N, n=i.d, k=i.d)
    square = _product_flops(m=i.N, n=i.N, k=width, batch=i.h)

    def tensor(name: str, labels: str, *shape: int) -> Tensor:
        return Tensor(name=name, labels=labels, shape=shape, element_bytes=i.dtype_bytes)

    def each(names: str, labels: str, *shape: int) -> tuple[Tensor, ...]:
        return tuple(tensor(name, labels, *shape) for name in names.split())

    source = tensor("input", "N/P, d", tokens, i.d)
    weights = (*each("Q K V", "h, d, d/h", i.h, i.d, width), tensor("proj", "h, d/h, d", i.h, width, i.d))
    qkv = each("q k v", "h, N/P, d/h", i.h, tokens, width)
    received = each("q_ k_ v_", "P, h/P, N/P, d/h", ranks, heads, tokens, width)
    whole = each("q_ k_ v_", "h/P, N, d/h", heads, i.N, width)
    scores = tensor("A", "h/P, N, N", heads, i.N, i.N)
    values = tensor("c", "h/P, N, d/h", heads, i.N, width)
    # The log calls it transposed and shows the shape of before: the transposed tensor was never assigned.
    untransposed = tensor("c", "N, h/P, d/h", heads, i.N, width)
    back = tensor("c_", "P, N/P, h/P, d/h", ranks, tokens, heads, width)
    joined = tensor("c_", "N/P, d", tokens, i.d)
    result = tensor("output", "N/P, d", tokens, i.d)
    return (
        UlyssesStep(name="Ulysses attention", tensors=(source, *weights), keeps_bytes=_bytes((source, *weights))),
        UlyssesStep(
            name="compute q, k, v", tensors=qkv, keeps_bytes=i.workspace_bytes + _bytes(qkv), flops=3 * projection
        ),
        UlyssesStep(name="all-to-all q, k, v", tensors=received, keeps_bytes=_bytes(received)),
        UlyssesStep(name="reshape q_, k_, v_", tensors=whole, transient_bytes=whole[0].size_bytes),
        UlyssesStep(name="compute attention", tensors=(scores,), keeps_bytes=scores.size_bytes, flops=square),
        UlyssesStep(name="compute c", tensors=(values,), keeps_bytes=values.size_bytes, flops=square),
        UlyssesStep(name="transpose c", tensors=(untransposed,)),
        UlyssesStep(name="all-to-all c", tensors=(back,), keeps_bytes=back.size_bytes),
        UlyssesStep(name="transpose & reshape c_ and reshape projection", transient_bytes=joined.size_bytes,
             tensors=(joined, tensor("proj", "d, d", i.d, i.d))),
        UlyssesStep(name="compute output", tensors=(result,), keeps_bytes=result.size_bytes, flops=projection),
    )  # fmt: skip


def held_bytes(steps: Sequence[UlyssesStep]) -> list[int]:
    """Bytes that stay allocated after each step."""
    held, found = 0, []
    for step in steps:
        held += step.keeps_bytes
        found.append(held)
    return found


def running_peaks_bytes(steps: Sequence[UlyssesStep]) -> list[int]:
    """Largest sum of what is held and what is transient, over all steps so far; the log never resets it."""
    peak, found = 0, []
    for step, held in zip(steps, held_bytes(steps), strict=True):
        peak = max(peak, held + step.transient_bytes)
        found.append(peak)
    return found


def exchanged_bytes(i: Inputs, cp_kind: str) -> dict[str, float]:
    """Bytes that one rank receives forward, by exchange: (P − 1)/P of what an exchange carries."""
    found = context_messages(
        cp_kind=cp_kind, cp=i.P, tokens=i.N // i.P, query_width=i.d, key_width=i.d, value_width=i.d,
        output_width=i.d, element_bytes=i.dtype_bytes,
    )  # fmt: skip
    share = (i.P - 1) / i.P
    return {x.name: float(x.payload_bytes * x.count) * TRAFFIC[x.kind] * share for x in found if x.phase == "forward"}


def _product_flops(*, m: int, n: int, k: int, batch: int = 1) -> float:
    product = gemm("product", "layer", "forward", m=m, n=n, k=k, batch=batch, element_bytes=0, precision="")
    return float(product.flops)


def _communication(i: Inputs) -> list[Figure]:
    softmax_bytes = 2 * (i.h // i.P) * i.N**2 * i.dtype_bytes
    spread, gathered = exchanged_bytes(i, "ulysses"), exchanged_bytes(i, "all-gather")
    values = {
        "all-to-all, one tensor, sent by each rank": (spread["queries"] / MB, "MB"),
        "all-to-all, q, k, v and c, sent by each rank": (sum(spread.values()) / MB, "MB"),
        "all-gather of K and V instead, received by each rank": (sum(gathered.values()) / MB, "MB"),
        "weights of each rank, whatever the ranks": (4 * i.d**2 * i.dtype_bytes / GB, "GB"),
        "A and its softmax, were there one": (softmax_bytes / GB, "GB"),
    }
    return [Figure(group="not printed", name=name, value=value, unit=unit) for name, (value, unit) in values.items()]


def _figure(group: str, name: str, value: float | int | str, unit: str, shown: dict[tuple[str, str], str]) -> Figure:
    text = shown.get((group, name))
    number, decimals = printed(text) if text is not None else (None, None)
    if unit in ("GB", "MB", "TFLOP") and decimals is None:
        decimals = 2
    return Figure(group=group, name=name, value=value, unit=unit, printed=number, decimals=decimals)


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.size_bytes for tensor in tensors)


def _check(i: Inputs) -> None:
    problems = [
        Problem(
            field=field,
            message=f"{value} is not a multiple of {name} = {by}",
            remedy=f"{why} Set {field} to a multiple of {by}, or {name} to a divisor of {value}.",
        )
        for field, value, name, by, why in (
            ("h", i.h, "P", i.P, "Ulysses gives each rank whole heads."),
            ("N", i.N, "P", i.P, "Each rank holds an equal share of the tokens."),
            ("d", i.d, "h", i.h, "Every head is d/h wide."),
        )
        if value % by
    ]
    if problems:
        raise InputProblems(problems)
