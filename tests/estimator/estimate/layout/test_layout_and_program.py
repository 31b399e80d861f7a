"""A list that is laid out and the list of a program that lays itself out: FSDP2, DTensor, torch's pipelining."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from estimator.estimate.estimate import Estimate
from estimator.estimate.layout.lay_out import estimate_laid_out, laid_out, laying_of
from estimator.estimate.layout.stages import cut, stage
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.op_list import OpList, from_json
from tests.forks import run_forked

ROOT = Path(__file__).parents[4]
ALONE = from_json(json.loads((ROOT / "tests" / "reference" / "ops" / "llama.json").read_text(encoding="utf-8")))


def traced(folder: Path, ranks: int, how: str, *more: str) -> OpList:
    program = Path(__file__).with_name("llama_on_ranks.py")
    return recorded(folder, str(program), "--world-size", str(ranks), *more, after=("--", how))


def recorded(folder: Path, *what: str, after: tuple[str, ...] = ()) -> OpList:
    out = folder / "ops.json"
    done = run_forked("trace", *what, "--chip", "h200-sxm", "--out", str(out), *after, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]
    return from_json(json.loads(out.read_text(encoding="utf-8")))


def predicted(found: OpList) -> Estimate:
    return estimate_op_list(found, cluster_for(found), interval=False)


def sent(found: Estimate) -> list[tuple]:
    return sorted((one.kind, one.phase, one.bytes, one.count) for one in found.collectives if one.kind != "copy")


def kernels(found: OpList, phase: str) -> Counter:
    """Kernels of a phase by name and shapes; a sum is one whether it is new or goes into its first operand."""
    calls = (call for call in found.calls if call.kind == "kernel" and call.phase == phase)
    same = {"aten::add_": "aten::add"}
    named = (
        (same.get(found.of(call).op, found.of(call).op), tuple(one.shape for one in found.of(call).inputs))
        for call in calls
    )
    return Counter(named)


def test_copied_as_distributed_data_parallel_does_it(tmp_path):
    real, laid = traced(tmp_path, 8, "ddp", "--steps", "3"), laid_out(ALONE, laying_of({"dp": 8}))
    for phase in ("forward", "backward", "optimizer"):
        assert kernels(laid, phase) == kernels(real, phase)
    one, other = predicted(laid), predicted(real)
    assert sent(one) == sent(other)
    assert one.step_time_s == pytest.approx(other.step_time_s, rel=0.002)
    assert one.memory.peak_bytes == pytest.approx(other.memory.peak_bytes, rel=0.002)


def test_sharded_as_fully_shard_does_it(tmp_path):
    real, laid = traced(tmp_path, 8, "fsdp"), laid_out(ALONE, laying_of({"dp": 8, "sharding": "fsdp"}))
    for phase in ("forward", "backward", "optimizer"):
        assert kernels(laid, phase) == kernels(real, phase)
    one, other = predicted(laid), predicted(real)
    assert sent(one) == sent(other)
    assert one.step_time_s == pytest.approx(other.step_time_s, rel=0.01)
    assert one.phases_s["exposed_communication"] == pytest.approx(other.phases_s["exposed_communication"], rel=0.05)
    assert one.memory.peak_bytes == pytest.approx(other.memory.peak_bytes, rel=0.001)
    assert one.memory.by_kind["optimizer"] == other.memory.by_kind["optimizer"]


def test_split_as_parallelize_module_does_it(tmp_path):
    real, laid = traced(tmp_path, 4, "tensor"), laid_out(ALONE, laying_of({"tp": 4}))
    for phase in ("forward", "backward"):
        assert kernels(laid, phase) == kernels(real, phase)
    one, other = predicted(laid), predicted(real)
    assert sent(one) == sent(other)
    for phase in ("forward", "backward"):
        assert one.phases_s[phase] == pytest.approx(other.phases_s[phase], rel=0.001)
    assert one.memory.peak_bytes == pytest.approx(other.memory.peak_bytes, rel=0.001)


def test_a_stage_as_pipelining_runs_it(tmp_path):
    real, whole = traced(tmp_path, 2, "pipeline"), cut(ALONE)
    first = stage(whole, [0], embedding=True, head=False)
    assert kernels(real, "forward") == Counter({key: 4 * count for key, count in kernels(first, "forward").items()})
    # Three of four micro-batches add their gradients to those that are there.
    adds = 3 * sum(one.name.startswith(("embedding", "layers.0")) for one in ALONE.weights)
    assert kernels(real, "backward").total() == 4 * kernels(first, "backward").total() + adds
    assert kernels(real, "optimizer") == kernels(first, "optimizer")
    assert first.parameters == real.parameters
    sends = [call for call in real.calls if call.kind == "collective" and real.of(call).op == "c10d::send"]
    (size,) = {one.shape for call in sends for one in real.of(call).inputs}
    assert whole.boundary_bytes == 2 * size[0] * size[1] * size[2]
    assert len(sends) == 4


def test_stages_of_a_fold_have_each_their_own_layers(tmp_path):
    config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 16, "n_head": 1, "n_positions": 16, "vocab_size": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    how = ("--attention", "flash_attention_2", "--precision", "bf16")  # which is not installed, and stood in for
    found = recorded(tmp_path, "--hf", str(tmp_path / "config.json"), "--batch", "1", "--seq", "16", *how)
    assert [found.of(call).op for call in found.calls].count("flash_attn::_flash_attn_backward") == 12
    rows = estimate_laid_out(found, laying_of({"pp": 4, "schedule": "zero-bubble-v"}, 4)).memory.stages
    # Two chunks of two layers each, four of them one layer short; the last but one counted as the last did.
    assert [(row.stage, row.layers) for row in rows] == [(0, 2), (1, 3), (2, 3), (3, 4)]
