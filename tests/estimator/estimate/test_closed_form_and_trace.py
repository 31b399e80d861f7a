"""A scenario's closed form and the trace of the program it describes: the same kernels, FLOPs, seconds and bytes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.host import kernel_s
from estimator.estimate.assemble import rank_of
from estimator.estimate.estimate import Estimate, estimate
from estimator.estimate.host_pace import at_pace
from estimator.estimate.layout.lay_out import estimate_laid_out, laying_of
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.estimate.recorded import recorded
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.op_list import NONE, OpList, from_json
from estimator.scenario.scenario import Scenario, scenario_from_json
from tests.forks import run_forked

ROOT = Path(__file__).parents[3]
LLAMA = {"layers": 3, "hidden": 2048, "heads": 16, "kv_heads": 4, "ffn": 5632, "vocab": 32000}
QWEN = {**LLAMA, "qk_norm": True, "kv_heads": 16}
GPT2 = {
    "layers": 3, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 50304, "gated_ffn": False,
    "activation": "gelu-tanh", "norm": "layer", "position": "learned", "max_positions": 1024, "bias": True,
    "tied_embedding": True,
}  # fmt: skip
LONG = {"seq_len": 2048}
"""Rows of a softmax that blocks go over again."""
FAMILIES = {
    "llama, bf16": (LLAMA, {"precision": "bf16"}),
    "llama, autocast": (LLAMA, {"precision": "bf16-amp"}),
    "llama, fp32, eager": (LLAMA, {"precision": "fp32", "attention": "eager", **LONG}),
    "qwen3, bf16, eager": (QWEN, {"precision": "bf16", "attention": "eager"}),
    "qwen3, autocast, eager": (QWEN, {"precision": "bf16-amp", "attention": "eager"}),
    "gpt2, bf16": (GPT2, {"precision": "bf16"}),
    "gpt2, autocast": (GPT2, {"precision": "bf16-amp"}),
}


def document_of(model, training, micro_batches=1, **plan) -> dict:
    """A scenario of the model on as many chips as the plan needs."""
    chips = math.prod(plan.get(axis, 1) for axis in ("dp", "tp", "pp"))
    return {
        "model": model,
        "cluster": {"chip": "h200-sxm", "chips_per_node": chips},
        "plan": {"micro_batch": 4, **plan},
        "training": {"seq_len": 1024, "global_batch": 4 * plan.get("dp", 1) * micro_batches, **training},
    }


@dataclass
class Both:
    """A scenario, and the op list of its program."""

    name: str
    scenario: Scenario
    found: OpList


def traced(name: str, program: str, document: dict, folder: Path, ranks: int = 1) -> Both:
    """The scenario of a document and its program, traced on the first of so many ranks."""
    (folder / "scenario.json").write_text(json.dumps(document), encoding="utf-8")
    path, out = Path(__file__).with_name(program), folder / "ops.json"
    flags = ("--chip", "h200-sxm", "--world-size", str(ranks), "--out", str(out), "--", str(folder / "scenario.json"))
    done = run_forked("trace", str(path), *flags, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]
    return Both(name, scenario_from_json(document), from_json(json.loads(out.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", params=FAMILIES)
def both(request, tmp_path_factory) -> Both:
    model, training = FAMILIES[request.param]
    document = document_of(model, training)
    return traced(request.param, "measured_model.py", document, tmp_path_factory.mktemp("traced"))


@dataclass
class Sums:
    """Of one layer and phase; FLOPs of products and attention."""

    launches: float = 0.0
    flops: float = 0.0
    seconds: float = 0.0

    def add(self, op, launches, seconds) -> None:
        self.launches += float(launches)
        self.flops += float(op.flops * op.count) if op.kind in ("gemm", "attention") else 0.0
        self.seconds += float(seconds)


LAYER = "blocks.1"
E = replace(efficiencies("hopper"), norm_frac=0.7, softmax_frac=0.8, power_limit_w=0.0)
"""Norms and softmaxes slower than other kernels, as on most chips: both ways must say which kernels these are. Without
a limit of power: a clock is of a whole step, of which the trace has small kernels more."""


def layer_of(both: Both) -> tuple[dict[str, Sums], dict[str, Sums]]:
    """The middle layer by phase, as the closed form and as the trace has it."""
    closed = {"forward": Sums(), "backward": Sums()}
    (block,) = rank_of(both.scenario, E).blocks
    for one in block.priced:
        closed[one.op.phase].add(one.op, one.op.launches * one.op.count, one.seconds * one.op.count)
    traced = {"forward": Sums(), "backward": Sums()}
    priced = recorded(both.found, cluster_for(both.found), E, interval=False)
    for index, call in enumerate(both.found.calls):
        if call.kind == "kernel" and call.module != NONE and both.found.modules[call.module].startswith(LAYER):
            for one in priced.work_of(index).kernels:
                traced[priced.phases[index]].add(one.op, one.op.launches * one.op.count, one.seconds * one.op.count)
    return closed, traced


LOOSE = "qwen3, autocast, eager"
"""Norms of queries and keys turn them fp32 before positions do, which the closed form does not follow: two casts less,
1.2 % of a layer's backward."""


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_layer_has_the_same_kernels_flops_and_seconds(both, phase):
    closed, traced = layer_of(both)
    assert traced[phase].flops == pytest.approx(closed[phase].flops, rel=1e-12)
    assert traced[phase].launches == pytest.approx(closed[phase].launches, abs=2 if both.name == LOOSE else 0)
    assert traced[phase].seconds == pytest.approx(closed[phase].seconds, rel=0.015 if both.name == LOOSE else 0.002)


def test_a_layer_keeps_the_same_for_backward(both):
    inside = [
        index
        for index, call in enumerate(both.found.calls)
        if call.phase == "forward" and call.module != NONE and both.found.modules[call.module].startswith(LAYER)
    ]
    kept = sum(
        one.bytes
        for one in both.found.storages
        if inside[0] <= one.born <= inside[-1] and one.kind == MemoryKind.ACTIVATIONS
    )
    (block,) = rank_of(both.scenario, E).blocks
    assert kept == pytest.approx(sum(float(one.op.saved_bytes * one.op.count) for one in block.priced), rel=0.001)


def test_a_step_takes_and_holds_the_same(both):
    closed, traced = estimate(both.scenario), estimate_op_list(both.found, cluster_for(both.found))
    # Small kernels that only the trace has leave products a slightly smaller share, and so a higher clock.
    assert traced.breakdown_s["matmul"] == pytest.approx(closed.breakdown_s["matmul"], rel=0.006)
    assert traced.breakdown_s["attention"] == pytest.approx(closed.breakdown_s["attention"], rel=0.02)
    # Positions, the mask and the loss have small kernels that the closed form does not list.
    assert traced.breakdown_s["elementwise"] == pytest.approx(closed.breakdown_s["elementwise"], rel=0.04)
    assert traced.breakdown_s["optimizer"] == pytest.approx(closed.breakdown_s["optimizer"], rel=0.02)
    # The closed form waits for a host without a lead by a constant, the trace as it finds.
    start_s = E.host_start_kernels * kernel_s("forward", E)
    assert traced.step_time_s == pytest.approx(closed.step_time_s - start_s, rel=0.03)
    # The trace follows what the allocator does not split off.
    assert traced.memory.peak_bytes == pytest.approx(closed.memory.peak_bytes, rel=0.003)
    assert traced.parameters == closed.parameters
    assert traced.mfu == pytest.approx(closed.mfu * closed.step_time_s / (closed.step_time_s - start_s), rel=0.05)


FAST_HOST = at_pace(efficiencies("hopper"), 0.01)
"""Hosts are told in two ways, a queue and a constant; layouts divide what devices do."""
FSDP = {"dp": 8, "sharding": "fsdp"}
PLANS = {
    # plan, micro-batches, time and peak memory at most so far apart
    # The closed form's gradients are views of their buckets, a program's are copied there and back.
    "data parallel": ({"dp": 8}, 1, 0.06, 0.002),
    # The closed form does not count copies to compute's own time.
    "fully sharded": (FSDP, 1, 0.06, 0.045),
    "kept whole": ({"dp": 8, "sharding": "zero3"}, 1, 0.09, 0.005),
    "tensor parallel": ({"tp": 4}, 1, 0.02, 0.01),
    "tensor parallel, sharded": ({"tp": 2, "dp": 4, "sharding": "fsdp"}, 1, 0.08, 0.03),
    "pipeline": ({"pp": 3}, 6, 0.025, 0.04),
    "pipeline of tensor parallel ranks": ({"pp": 3, "tp": 2}, 6, 0.025, 0.04),
}


def sent(found: Estimate) -> Counter:
    """Bytes of a step by kind of collective and phase."""
    total: Counter = Counter()
    for one in found.collectives:
        if one.kind != "copy":
            total[one.kind, one.phase] += round(one.bytes * one.count)
    return total


@pytest.mark.parametrize("plan", PLANS)
def test_a_list_that_is_laid_out_is_what_the_closed_form_makes_of_its_plan(both, plan):
    degrees, micro_batches, time_frac, memory_frac = PLANS[plan]
    model, training = FAMILIES[both.name]
    scenario = scenario_from_json(document_of(model, training, micro_batches, **degrees))
    closed = estimate(scenario, FAST_HOST, interval=False)
    laying = laying_of(degrees, micro_batches)
    laid = estimate_laid_out(both.found, laying, calibration=FAST_HOST, interval=False)
    assert laid.model_flops == pytest.approx(closed.model_flops, rel=1e-12)
    assert laid.parameters == closed.parameters
    assert laid.tokens_per_s * laid.step_time_s == pytest.approx(scenario.tokens)
    assert sum(laid.phases_s.values()) == pytest.approx(laid.step_time_s)
    assert sum(laid.breakdown_s.values()) == pytest.approx(laid.step_time_s)
    expected, holds = sent(closed), closed.memory.peak_bytes
    if degrees.get("sharding") == "fsdp":
        # fully_shard's root, which is embedding, last norm and head, keeps what it gathered; the closed form does not.
        block = sum(math.prod(one.shape) for one in both.found.weights if one.name.startswith("blocks."))
        split = sum(
            math.prod(one.shape) for one in both.found.weights if one.name.startswith("blocks.") and is_split(one.name)
        )
        root = closed.parameters - block
        whole = root + block - split + split / degrees.get("tp", 1)
        width = 4 if training["precision"] == "fp32" else 2
        assert expected["all-gather", "backward"] == pytest.approx(whole * width, rel=1e-9)
        expected["all-gather", "backward"] -= root * width
        holds += root * width
    assert sent(laid) == Counter({key: pytest.approx(value, abs=2) for key, value in expected.items()})
    if "autocast" in both.name and degrees.get("sharding", "ddp") != "ddp":
        # A sharded scenario casts parameters alone, as FSDP's own mixed precision; the program's autocast stays, with
        # norms and losses in fp32 and casts to and from them: 8 to 31 % longer, 11 to 53 % more memory.
        assert 1.06 < laid.step_time_s / closed.step_time_s < 1.33
        assert 1.08 < laid.memory.peak_bytes / holds < 1.55
        return
    loose = 0.015 if both.name == LOOSE else 0.0
    assert laid.step_time_s == pytest.approx(closed.step_time_s, rel=time_frac + loose)
    assert laid.memory.peak_bytes == pytest.approx(holds, rel=memory_frac)


def is_split(name: str) -> bool:
    """Whether ranks split a parameter of a block: those of linears, less the biases of row linears."""
    return "norm" not in name and not name.endswith((".o.bias", ".down.bias"))


@pytest.mark.parametrize("sharding", ["zero1", "zero2"])
def test_ranks_that_share_states_hold_nothing_beside_them(sharding, tmp_path):
    document = document_of(LLAMA, {"precision": "bf16-amp"}, 2, dp=2, sharding=sharding)
    both = traced(sharding, "measured_plan.py", document, tmp_path, 2)
    beside = [one.bytes for one in both.found.storages if one.born == NONE and one.kind == MemoryKind.TEMPORARIES]
    assert sum(beside) < 1e6, "more than the tokens"
    held = estimate_op_list(both.found, cluster_for(both.found)).memory
    assert held.peak_bytes == pytest.approx(estimate(both.scenario).memory.peak_bytes, rel=0.03)
