"""Host of blocks: seconds that Python and autograd take for a block of each kind, beside the ops it goes through.

``python -m benchmarks.host_blocks measure OUT.json [--device cuda] [--limit-s S] [--recompute none ...]``: models of
blocks too small to keep a device busy, of every family, precision, attention and recompute, all in turns, so that each
meets every pace of the host alike, each step from an idle device.

``python -m benchmarks.host_blocks told FILE.json``: what follows, by least squares over kinds without recompute: a
view over a kernel, forward and backward; a kernel backward over forward; and what a pass takes around its blocks, in
kernels, beside what it dispatches there. A block is the difference of models of LAYERS.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from estimator.cost.efficiency import efficiencies
from estimator.scenario import catalog
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.host_pace import backward_pace_s, host_pace_s
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import build

FAMILIES = ("llama3.2-1b", "cs336-small", "qwen3-0.6b", "gpt2", "mpt-125m", "nemotron4-15b")
PRECISIONS = ("fp32", "bf16", "bf16-amp")
ATTENTIONS = ("sdpa", "eager")
RECOMPUTES = ("none", "selective", "full")
LAYERS = (2, 8)
SEQ_LEN, WIDTH, HEADS, KV_HEADS = 64, 256, 4, 2
WARM = 3
PASSES = ("forward", "backward")


class _Ops(TorchDispatchMode):
    """Counts what is dispatched below autograd: ops that may launch a kernel, and views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = self.views = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(one.alias_info and not one.alias_info.is_write for one in func._schema.returns)
        if views or "_unsafe_view" in str(func):
            self.views += 1
        else:
            self.kernels += 1
        return func(*args, **(kwargs or {}))


def small(model: Model, layers: int) -> Model:
    """A model of so many blocks of the same ops, with next to nothing to compute in each."""
    grouped = model.kv_heads and model.kv_heads != model.heads
    return replace(
        model, layers=layers, hidden=WIDTH, heads=HEADS, kv_heads=KV_HEADS if grouped else model.kv_heads and HEADS,
        head_dim=WIDTH // HEADS if model.head_dim else 0, ffn=2 * WIDTH, vocab=128,
        max_positions=SEQ_LEN if model.max_positions else 0,
    )  # fmt: skip


Step = Callable[[], tuple[float, float]]


def made(kind: tuple[str, str, str, str, int], device: str) -> tuple[Step, dict[str, list[int]]]:
    """A step that says how long forward and backward kept the host, and what each dispatches."""
    key, precision, attention, recompute, layers = kind
    model, plan = small(catalog.model(key), layers), Plan(micro_batch=2, recompute=recompute)
    training = Training(seq_len=SEQ_LEN, global_batch=2, precision=precision, attention=attention)
    module = build(model, training, plan, device)
    tokens, targets = batch(model, training, plan, device)

    def forward() -> torch.Tensor:
        with autocast(training, device):
            return loss_of(module, tokens, targets)

    def step() -> tuple[float, float]:
        begin_s = time.perf_counter()
        loss = forward()
        middle_s = time.perf_counter()
        torch.autograd.backward(loss)
        end_s = time.perf_counter()
        module.zero_grad(set_to_none=True)
        return middle_s - begin_s, end_s - middle_s

    for _ in range(WARM):
        step()
    with _Ops() as ahead:
        loss = forward()
    with _Ops() as back:
        torch.autograd.backward(loss)
    module.zero_grad(set_to_none=True)
    return step, {name: [one.kernels, one.views] for name, one in zip(PASSES, (ahead, back), strict=True)}


def measure(out: Path, device: str, limit_s: float, recomputes: list[str]) -> None:
    """Time every kind in turns and write a row for each and each of its sizes: medians, and the host's mean paces."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    kinds = list(itertools.product(FAMILIES, PRECISIONS, ATTENTIONS, recomputes, LAYERS))
    steps = [made(kind, device) for kind in kinds]
    seconds: list[list[tuple[float, float]]] = [[] for _ in kinds]
    paces_s: list[tuple[float, float]] = []
    gc.freeze()
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        for found, (step, _) in zip(seconds, steps, strict=True):
            paces_s.append((host_pace_s(), backward_pace_s(device)))
            wait()
            found.append(step())
            wait()
    rows = [
        dict(zip(("model", "precision", "attention", "recompute", "layers"), kind, strict=True))
        | counts
        | {f"{name}_s": statistics.median(one[at] for one in found) for at, name in enumerate(PASSES)}
        for kind, (_, counts), found in zip(kinds, steps, seconds, strict=True)
    ]
    paces = {
        f"{name}_pace_s": statistics.fmean(column)
        for name, column in zip(PASSES, zip(*paces_s, strict=True), strict=True)
    }
    out.write_text(json.dumps({"rounds": len(seconds[0]), **paces, "rows": rows}) + "\n", encoding="utf-8")


def blocks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one block each, and of what is around all (``around``), from pairs of sizes."""
    found = []
    for few, many in itertools.pairwise(rows):
        if few["layers"] != LAYERS[0]:
            continue
        each: dict[str, Any] = {key: few[key] for key in ("model", "precision", "attention", "recompute")}
        more = many["layers"] - few["layers"]
        for name in PASSES:
            seconds = (many[f"{name}_s"] - few[f"{name}_s"]) / more
            ops = [(b - a) / more for a, b in zip(few[name], many[name], strict=True)]
            around = [a - few["layers"] * one for a, one in zip(few[name], ops, strict=True)]
            each[name] = {"seconds": seconds, "kernels": ops[0], "views": ops[1],
                          "around_s": few[f"{name}_s"] - few["layers"] * seconds, "around": around}  # fmt: skip
        found.append(each)
    return found


def told(path: Path) -> None:
    """Print what the blocks of a file say of the host's constants."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    plain = [one for one in blocks(rows) if one["recompute"] == "none"]
    view, units = efficiencies("default").host_view_frac, {}
    for name in PASSES:
        of = [one[name] for one in plain]
        seconds = np.array([one["seconds"] for one in of])
        ops = np.array([[one["kernels"], one["views"]] for one in of])
        kernel, each = np.linalg.lstsq(ops / seconds[:, None], np.ones(len(of)), rcond=None)[0]
        unit = units[name] = seconds / (ops @ [1.0, view])
        around = [(one["around_s"] - own * (one["around"][0] + view * one["around"][1])) / own
                  for one, own in zip(of, unit, strict=True)]  # fmt: skip
        low, middle, high = statistics.quantiles(around, n=20)[0], statistics.median(around), max(around)
        spread, alike = np.std(np.log(unit)), np.std(np.log(seconds / ops.sum(1)))
        print(f"{name}: a kernel {kernel * 1e6:.1f} µs, a view {each / kernel:.2f} of it; with views at {view:g} "
              f"blocks differ by {spread:.3f}, with all alike by {alike:.3f}; "
              f"beside its ops {middle:.0f} kernels ({low:.0f} to {high:.0f})")  # fmt: skip
    print(f"backward over forward: {np.median(units['backward'] / units['forward']):.2f}")


def main() -> int:
    """Measure, or say what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "told"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit-s", type=float, default=180.0)
    parser.add_argument("--recompute", nargs="+", default=list(RECOMPUTES))
    given = parser.parse_args()
    if given.what == "told":
        told(given.path)
    else:
        measure(given.path, given.device, given.limit_s, given.recompute)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
