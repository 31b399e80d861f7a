"""The ``precision`` benchmark: sums in low precision, and the types that autocast gives each part of a small network.

Nine sums of equal small numbers show what rounding after every addition does; the table of types follows the network
with two linears and a LayerNorm that a course on language models asks about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from estimator.scenario.measurement import Measurement
from runners.job import Job
from runners.options import PrecisionOptions, options_of
from runners.ranks import Ranks
from runners.rows import Report, Row, begin

FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16
NAMES = {FP32: "fp32", FP16: "fp16", BF16: "bf16"}
TYPES = {"fp16": FP16, "bf16": BF16}

DEFINITIONS = {
    "result": "s after s = s + x, so many times, each rounded to the accumulator's type (to the nearest, ties to even)",
    "relative_error": "|result − exact| / exact, where exact is count · value in real numbers",
    "dtype": "of what the part gives inside torch.autocast; parameters and gradients are those of the module",
}


@dataclass(frozen=True, kw_only=True)
class Sum:
    """``count`` times ``value``, stored as ``addend``, added to ``accumulator``; ``cast`` spells the cast out."""

    accumulator: torch.dtype
    addend: torch.dtype
    value: float = 0.01
    count: int = 1000
    cast: bool = False


SUMS = (
    Sum(accumulator=FP32, addend=FP32),
    Sum(accumulator=FP16, addend=FP16),
    Sum(accumulator=FP32, addend=FP16),
    Sum(accumulator=FP32, addend=FP16, cast=True),
    Sum(accumulator=BF16, addend=BF16),
    Sum(accumulator=FP32, addend=BF16),
    Sum(accumulator=FP32, addend=FP32, value=0.001, count=10_000),
    Sum(accumulator=FP16, addend=FP16, value=0.001, count=10_000),
    Sum(accumulator=BF16, addend=BF16, value=0.001, count=10_000),
)


class Toy(nn.Module):
    """fc1, ReLU, LayerNorm, fc2."""

    def __init__(self, inputs: int, outputs: int, device: str) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, 10, bias=False, device=device)
        self.ln = nn.LayerNorm(10, device=device)
        self.fc2 = nn.Linear(10, outputs, bias=False, device=device)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Every intermediate result by name."""
        first = self.fc1(x)
        active = self.relu(first)
        normed = self.ln(active)
        return {"fc1 output": first, "relu output": active, "layer norm output": normed, "logits": self.fc2(normed)}


def run(job: Job, report: Report, trace: Path | None = None) -> Measurement | None:
    """Nine sums, then one row for each part of the network and type of autocast."""
    options: PrecisionOptions = options_of(job.benchmark, job.options)
    suite = begin(job, report, len(SUMS) + len(options.autocasts), 600.0)
    device = suite.ranks.device
    for one in SUMS:
        columns: Row = {
            "experiment": "accumulation",
            "accumulator": NAMES[one.accumulator],
            "addend": NAMES[one.addend],
            "explicit_cast": one.cast,
            "value": one.value,
            "count": one.count,
        }
        suite.measure(columns, _sum(one, device))
    for name in options.autocasts:
        suite.measure({"experiment": "autocast", "autocast": name}, _table(TYPES[name], suite.ranks))
    return suite.result(DEFINITIONS)


def _sum(one: Sum, device: str) -> Callable[[], Row]:
    def work() -> Row:
        found = accumulated(one, device)
        exact = one.value * one.count
        return {"result": found, "exact": exact, "relative_error": abs(found - exact) / exact}

    return work


def accumulated(one: Sum, device: str) -> float:
    """Do the sum, one addition after the other."""
    total = torch.tensor(0.0, dtype=one.accumulator, device=device)
    addend = torch.tensor(one.value, dtype=one.addend, device=device)
    for _ in range(one.count):
        total += addend.to(one.accumulator) if one.cast else addend
    return float(total)


def _table(dtype: torch.dtype, ranks: Ranks) -> Callable[[], list[Row]]:
    return lambda: [{"part": part, "dtype": name} for part, name in autocast_types(dtype, ranks.device).items()]


def autocast_types(dtype: torch.dtype, device: str) -> dict[str, str]:
    """Type of everything in a training step of the network under autocast."""
    module = Toy(20, 5, device)
    x = torch.randn(8, 20, device=device)
    targets = torch.randint(0, 5, (8,), device=device)
    with torch.autocast(torch.device(device).type, dtype=dtype):
        made = module(x)
        loss = F.cross_entropy(made["logits"], targets)
        parameters = {p.dtype for p in module.parameters()}
    torch.autograd.backward(loss)
    gradients = {p.grad.dtype for p in module.parameters() if p.grad is not None}
    found = {"parameters": _one(parameters)}
    found |= {name: _one({tensor.dtype}) for name, tensor in made.items()}
    return found | {"loss": _one({loss.dtype}), "gradients": _one(gradients)}


def _one(dtypes: set[torch.dtype]) -> str:
    return ", ".join(sorted(NAMES.get(dtype, str(dtype)) for dtype in dtypes))
