"""What checkpointing takes the host, in steps that it binds: small models with and without, in turns.

``python -m benchmarks.checkpointed FILE [--seconds S]`` on a GPU: host seconds of forward and backward per block, as
the difference between 18 and 6 blocks, of GPT-2s and Llamas in four precisions and attentions, without recomputation,
with selective and with full. Beside them the host's pace. A minute with the default seconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.host_pace import backward_pace_s, host_pace_s
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import build

KINDS: dict[str, dict[str, Any]] = {
    "gpt2": {"norm": "layer", "activation": "gelu", "gated_ffn": False, "position": "learned", "max_positions": 128,
             "bias": True},
    "llama": {"norm": "rms", "activation": "silu", "gated_ffn": True, "position": "rope"},
}  # fmt: skip
NUMBERS = (("bf16", "sdpa"), ("bf16-amp", "eager"), ("bf16-amp", "sdpa"), ("fp32", "eager"))
RECOMPUTES = ("none", "selective", "full")
FEW, MANY = 6, 18
DEVICE = "cuda"

Made = tuple[Any, Training, Any, Any]


def model_of(kind: str, layers: int) -> Model:
    """A model so small that its host binds."""
    return Model(name=kind, layers=layers, hidden=256, heads=4, ffn=512, vocab=512, **KINDS[kind])


def made(kind: str, layers: int, precision: str, attention: str, recompute: str) -> Made:
    """The module of a model with its training and a batch."""
    model = model_of(kind, layers)
    training = Training(seq_len=64, global_batch=2, precision=precision, attention=attention)
    plan = Plan(micro_batch=2, recompute=recompute)
    return (build(model, training, plan, DEVICE), training, *batch(model, training, plan, DEVICE))


def passes_s(module: Any, training: Training, tokens: Any, targets: Any) -> tuple[float, float]:
    """Host seconds of a forward and a backward from an idle device."""
    module.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    begin_s = time.perf_counter()
    with autocast(training, DEVICE):
        loss = loss_of(module, tokens, targets)
    middle_s = time.perf_counter()
    loss.backward()
    return middle_s - begin_s, time.perf_counter() - middle_s


def rows_of(kind: str, precision: str, attention: str, seconds: float) -> list[dict[str, Any]]:
    """Seconds per block of each recomputation, all of them step after step in turns."""
    cells = {(n, how): made(kind, n, precision, attention, how) for n in (FEW, MANY) for how in RECOMPUTES}
    for one in [*cells.values()] * 2:
        passes_s(*one)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {key: [] for key in cells}
    paces: list[tuple[float, float]] = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        paces.append((host_pace_s(), backward_pace_s(DEVICE)))
        for key, one in cells.items():
            found[key].append(passes_s(*one))

    def each_s(how: str, place: int) -> float:
        few, many = (statistics.median(row[place] for row in found[n, how]) for n in (FEW, MANY))
        return (many - few) / (MANY - FEW)

    return [
        {
            "kind": kind, "precision": precision, "attention": attention, "recompute": how,
            "forward_s": each_s(how, 0), "backward_s": each_s(how, 1), "samples": len(paces),
            "pace_s": statistics.fmean(own for own, _ in paces),
            "backward_pace_s": statistics.fmean(backward for _, backward in paces),
        }
        for how in RECOMPUTES
    ]  # fmt: skip


def main() -> int:
    """Measure all and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=4.5, help="of each kind and precision")
    given = parser.parse_args()
    gc.freeze()
    rows = [row for numbers in NUMBERS for kind in KINDS for row in rows_of(kind, *numbers, given.seconds)]
    given.file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
