"""Layer table: its columns add to what the estimate says, its tensors are those of the model, sends find their op."""

from __future__ import annotations

import math

import pytest

from estimator.estimate.assemble import effective, efficiencies_of, rank_of
from estimator.estimate.estimate import estimate
from estimator.estimate.layer_table import COLUMNS, LayerRow, layer_table
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.scenario import Scenario, scenario_from_json


def scenario(model: str | dict[str, object] = "llama3-8b", chips: int = 8, **changes: object) -> Scenario:
    training = {"seq_len": 4096, "global_batch": 8, "precision": "bf16", "framework": "megatron", "attention": "sdpa"}
    plan = {name: value for name, value in changes.items() if name not in training}
    return scenario_from_json(
        {
            "model": model,
            "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": chips // 8},
            "plan": plan,
            "training": {**training, **{name: changes[name] for name in training if name in changes}},
        }
    )


PLANS = {
    "sequence parallel": scenario(dp=2, tp=4, sequence_parallel=True),
    "sums": scenario(dp=1, tp=8, recompute="full", framework="pytorch-eager", global_batch=1),
    "megatron again": scenario(dp=1, tp=8, recompute="full", global_batch=1),
    "ideal": scenario(dp=1, tp=8, recompute="full", framework="ideal", global_batch=1),
    "side by side": scenario({**encode(catalog.model("llama3-8b")), "parallel_residual": True}, dp=2, tp=4),
    "eager attention": scenario("gpt2-xl", dp=8, framework="pytorch-eager", attention="eager", seq_len=1024),
    "experts": scenario("deepseek-v3", dp=8, ep=8, recompute="selective"),
    "capacity": scenario("mixtral-8x7b", tp=2, cp=2, pp=2, ep=2, sequence_parallel=True),
    "2d": scenario(dp=2, tp=4, tp_kind="2d", micro_batch=2),
    "3d": scenario(dp=1, tp=8, tp_kind="3d", micro_batch=4),
    "ulysses": scenario(dp=2, cp=4, cp_kind="ulysses", sharding="fsdp"),
    "interleaved": scenario(pp=2, dp=4, schedule="interleaved", virtual_stages=2, recompute="full"),
}
IN_LINE = ("tp", "cp", "ep", "expert_tp")


def named(rows: tuple[LayerRow, ...], op: str) -> LayerRow:
    return next(row for row in rows if row.op == op)


@pytest.mark.parametrize("one", PLANS.values(), ids=PLANS)
def test_shares_add_to_the_step_and_sends_to_its_collectives(one):
    rows, found = layer_table(one), estimate(one)
    busy = sum(op.seconds for op in found.ops if op.category != "optimizer")
    sent = [line for line in found.collectives if line.axis in IN_LINE]
    total = busy + sum(line.exposed_s for line in sent)
    layers = [row for row in rows if row.part != "step"]
    assert math.fsum(row.share_frac for row in layers) * found.step_time_s == pytest.approx(total, rel=1e-9)
    # what stands in no layer is named, and all shares add to the step
    assert math.fsum(row.share_frac for row in rows) == pytest.approx(1, rel=1e-9)
    rest = {row.category: row.share_frac * found.step_time_s for row in rows if row.part == "step"}
    for category in ("optimizer", "bubble", "host"):
        assert rest.get(category, 0) == pytest.approx(found.breakdown_s[category], rel=1e-9, abs=1e-12)
    assert set(rest) <= {"optimizer", "bubble", "host", "communication"}
    for phase in ("forward", "backward"):
        moved = sum(getattr(row, f"communication_{phase}_bytes") * row.times for row in rows)
        assert moved == pytest.approx(sum(c.bytes * c.count for c in sent if c.phase == phase), rel=1e-9)
    assert all(row.category != "communication" for row in layers), "every message has its op"


@pytest.mark.parametrize("one", PLANS.values(), ids=PLANS)
def test_flops_and_traffic_add_to_the_ops_of_the_estimate(one):
    rows, found = layer_table(one), estimate(one)
    ops = [op for op in found.ops if op.category != "optimizer"]
    for phase in ("forward", "backward"):
        own = [op for op in ops if op.phase == phase]
        flops = sum(getattr(row, f"flops_{phase}") * row.times for row in rows)
        assert flops == pytest.approx(sum(op.flops for op in own), rel=1e-9)
        traffic = sum(getattr(row, f"traffic_{phase}_bytes") * row.times for row in rows)
        assert traffic == pytest.approx(sum(op.bytes for op in own), rel=1e-9)


@pytest.mark.parametrize("one", PLANS.values(), ids=PLANS)
def test_weights_of_a_block_are_its_parameters(one):
    rank = rank_of(effective(one), efficiencies_of(one, None))
    rows = layer_table(one)
    for block in rank.ops.blocks:
        held = sum(row.weights_bytes for row in rows if row.part == block.name) / rank.d.widths.parameter
        parameters = block.parameters
        # Biases of norms' and linears' widths stand in no row.
        expected = parameters.split + parameters.whole + parameters.expert
        assert held == pytest.approx(expected, rel=2e-3 if one.model.bias else 1e-12)


def test_tensors_of_a_layer_by_hand():
    rows = layer_table(PLANS["sequence parallel"])
    tokens, hidden, tp, e = 4096, 4096, 4, 2
    up = named(rows, "gate, up projections")
    assert up.in_bytes == tokens * hidden * e
    assert up.out_bytes == tokens * 2 * 14336 / tp * e
    assert (up.weights_bytes, up.gradients_bytes) == (hidden * 2 * 14336 / tp * e, hidden * 2 * 14336 / tp * 4)
    assert up.traffic_forward_bytes == up.in_bytes + up.out_bytes + up.weights_bytes
    assert up.kept_bytes == tokens * hidden * e / tp, "sequence parallelism keeps a share and gathers again"
    assert up.flops_forward == 2 * tokens * hidden * 2 * 14336 / tp
    assert up.flops_backward == 2 * up.flops_forward
    norm = named(rows, "ffn norm")
    assert norm.in_bytes == norm.out_bytes == tokens / tp * hidden * e
    assert norm.traffic_forward_bytes == norm.in_bytes + norm.out_bytes


def test_sends_stand_with_the_op_that_needs_them():
    rows = layer_table(PLANS["sequence parallel"])
    whole = 4096 * 4096 * 2
    for op in ("qkv projection", "gate, up projections"):
        row = named(rows, op)
        assert (row.communication_forward_kind, row.communication_forward_bytes) == ("tp all-gather", whole)
        assert row.communication_backward_bytes == 2 * whole
        assert row.communication_forward_ranks == 4
    for op in ("output projection", "down projection"):
        row = named(rows, op)
        assert (row.communication_forward_kind, row.communication_backward_kind) == (
            "tp reduce-scatter",
            "tp all-gather",
        )
    assert named(rows, "attention").communication_forward_kind == ""
    assert "cp all-to-all" in named(layer_table(PLANS["ulysses"]), "attention").communication_backward_kind
    experts = layer_table(PLANS["experts"])
    assert named(experts, "expert combine").communication_forward_kind == "ep all-to-all"
    sums = layer_table(PLANS["sums"])
    assert named(sums, "down projection").communication_backward_bytes == 0
    assert named(sums, "q projection").communication_backward_bytes == whole
    assert named(sums, "k, v projections").communication_backward_bytes == 2 * whole
    assert named(sums, "output projection").communication_backward_bytes == whole, "recomputation sums again"
    again = layer_table(PLANS["megatron again"])
    # Both sums once more, and q, k, v as well as gate and up have one gradient of their input to sum.
    for op in ("output projection", "down projection", "qkv projection", "gate, up projections"):
        assert named(again, op).communication_backward_bytes == whole, op


def test_times_hold_the_roofs_and_the_sends():
    for row in layer_table(PLANS["sequence parallel"]):
        assert row.forward_s >= max(row.compute_forward_s, row.memory_forward_s) * (1 - 1e-9)
        assert row.total_forward_s == row.forward_s + row.communication_forward_s
        if row.intensity_flops_per_byte is not None:
            assert row.intensity_flops_per_byte == row.flops_forward / row.traffic_forward_bytes


def test_columns_are_the_fields_in_order():
    assert COLUMNS[:4] == ("part", "op", "category", "times")
    assert "trained" not in COLUMNS
