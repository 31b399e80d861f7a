"""A scenario's closed form and the trace of the program that it describes: the same kernels, FLOPs, seconds and bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.assemble import rank_of
from estimator.estimate.estimate import estimate
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.estimate.recorded import recorded
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.op_list import NONE, OpList, from_json
from estimator.scenario.scenario import Scenario, scenario_from_json

ROOT = Path(__file__).parents[3]
LLAMA = {"layers": 3, "hidden": 2048, "heads": 16, "kv_heads": 4, "ffn": 5632, "vocab": 32000}
QWEN = {**LLAMA, "qk_norm": True, "kv_heads": 16}
GPT2 = {
    "layers": 3, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 50304, "gated_ffn": False,
    "activation": "gelu-tanh", "norm": "layer", "position": "learned", "max_positions": 1024, "bias": True,
    "tied_embedding": True,
}  # fmt: skip
FAMILIES = {
    "llama, bf16": (LLAMA, {"precision": "bf16"}),
    "llama, autocast": (LLAMA, {"precision": "bf16-amp"}),
    "llama, fp32, eager": (LLAMA, {"precision": "fp32", "attention": "eager"}),
    "qwen3, bf16, eager": (QWEN, {"precision": "bf16", "attention": "eager"}),
    "qwen3, autocast, eager": (QWEN, {"precision": "bf16-amp", "attention": "eager"}),
    "gpt2, bf16": (GPT2, {"precision": "bf16"}),
    "gpt2, autocast": (GPT2, {"precision": "bf16-amp"}),
}


@dataclass
class Both:
    """A scenario, and the op list of its program."""

    scenario: Scenario
    found: OpList


@pytest.fixture(scope="module", params=FAMILIES)
def both(request, tmp_path_factory) -> Both:
    model, training = FAMILIES[request.param]
    document = {
        "model": model,
        "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
        "plan": {"micro_batch": 4},
        "training": {"seq_len": 1024, "global_batch": 4, **training},
    }
    folder = tmp_path_factory.mktemp("traced")
    (folder / "scenario.json").write_text(json.dumps(document), encoding="utf-8")
    program, out = Path(__file__).with_name("measured_model.py"), folder / "ops.json"
    subprocess.run(
        (sys.executable, "-m", "runners", "trace", str(program), "--chip", "h200-sxm", "--out", str(out), "--",
         str(folder / "scenario.json")),
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Both(scenario_from_json(document), from_json(json.loads(out.read_text(encoding="utf-8"))))


def layer_of(both: Both):
    """Kernels, product FLOPs and seconds of the middle layer by phase, as the closed form and as the trace has them."""
    e = efficiencies("hopper")
    closed = {"forward": [0.0, 0.0, 0.0], "backward": [0.0, 0.0, 0.0]}
    (work,) = rank_of(both.scenario, e).blocks
    for one in work.priced:
        op, sums = one.op, closed[one.op.phase]
        sums[0] += float(op.launches * op.count)
        sums[1] += float(op.flops * op.count) if op.kind in ("gemm", "attention") else 0.0
        sums[2] += float(one.seconds * op.count)
    traced = {"forward": [0.0, 0.0, 0.0], "backward": [0.0, 0.0, 0.0]}
    priced = recorded(both.found, cluster_for(both.found), e, interval=False)
    for index, call in enumerate(both.found.calls):
        if call.kind == "kernel" and call.module != NONE and both.found.modules[call.module].startswith("blocks.1"):
            sums = traced[priced.phases[index]]
            done = priced.work_of(index)
            sums[0] += done.launches
            sums[1] += sum(float(k.op.flops * k.op.count) for k in done.kernels if k.op.kind in ("gemm", "attention"))
            sums[2] += done.seconds
    return closed, traced


def test_x(both):
    closed, traced = layer_of(both)
    print(closed, traced)
    first = min(i for i, c in enumerate(both.found.calls) if c.module != NONE and both.found.modules[c.module].startswith("blocks.1") and c.phase=='forward')
    last = max(i for i, c in enumerate(both.found.calls) if c.module != NONE and both.found.modules[c.module].startswith("blocks.1") and c.phase=='forward')
    kept = sum(s.bytes for s in both.found.storages if first <= s.born <= last and s.kind == MemoryKind.ACTIVATIONS)
    (work,) = rank_of(both.scenario, efficiencies("hopper")).blocks
    print('saved', kept, sum(float(o.op.saved_bytes*o.op.count) for o in work.priced))
    a, b = estimate(both.scenario), estimate_op_list(both.found, cluster_for(both.found))
    print(a.step_time_s, b.step_time_s, a.memory.peak_bytes, b.memory.peak_bytes, a.breakdown_s, b.breakdown_s)
