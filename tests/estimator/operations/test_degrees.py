"""Degrees: ranks together do the work of one, degrees of 1 change nothing, and arrays give what numbers give."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.cost.price import price
from estimator.operations.op import Op
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import NetworkOps, network
from estimator.scenario.breakdown import Category
from estimator.scenario.hardware import Chip
from tests.estimator.examples import CHIP, GPT, LLAMA, flawless
from tests.estimator.operations.shapes import ALL, DEEPSEEK, FFN, MIXTRAL, flops, kept, scenario_of, weights

FRAMEWORKS = ("megatron", "pytorch-eager")


def ops_of(model, plan=None, **training) -> NetworkOps:
    return network(rank_sizes(scenario_of(model, plan, **training)))


def every_op(found: NetworkOps) -> list[tuple[Op, float]]:
    blocks = [(op, block.layers) for block in found.blocks for op in block.ops]
    return [*blocks, *((op, 1.0) for op in (*found.embedding, *found.head))]


def products(model, plan, **training) -> float:
    """FLOPs of all products of the blocks on one rank."""
    return sum(block.layers * flops(block.ops) for block in ops_of(model, plan, **training).blocks)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("cp_kind", ["ring", "ulysses", "all-gather"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ALL)
def test_context_parallel_ranks_share_all_products(name, attention, cp_kind, framework):
    plan = {"micro_batch": 2, "cp_kind": cp_kind}
    # Pieces of a plain ring whose scores are in memory are halves of squares, and made anew in backward.
    every = (cp_kind, attention, framework) != ("ring", "eager", "pytorch-eager")

    def of(cp: int) -> float:
        found = ops_of(ALL[name], {**plan, "cp": cp}, attention=attention, framework=framework)
        return sum(
            block.layers * flops([op for op in block.ops if every or op.category != Category.ATTENTION])
            for block in found.blocks
        )

    assert of(4) * 4 == of(1) > 0


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("name", ["llama", "gpt", "windowed", "ffn", "attention", "mixtral"])
def test_tensor_parallel_ranks_share_all_products(name, sequence_parallel):
    model = {**ALL[name], "kv_heads": 8}
    alone = products(model, {})
    assert products(model, {"tp": 4, "sequence_parallel": sequence_parallel}) * 4 == alone


def test_latent_down_projections_are_shared_only_with_the_sequence():
    alone = products(DEEPSEEK, {})
    down = 6 * 128 * 256 * (96 + 64 + 16) * 5
    assert products(DEEPSEEK, {"tp": 4, "sequence_parallel": True}) * 4 == alone
    assert products(DEEPSEEK, {"tp": 4}) * 4 == alone + 3 * down


GRIDS = [{"tp": 4, "tp_kind": "2d"}, {"tp": 16, "tp_kind": "2d"}, {"tp": 8, "tp_kind": "2.5d", "tp_depth": 2},
         {"tp": 32, "tp_kind": "2.5d", "tp_depth": 2}, {"tp": 8, "tp_kind": "3d"}]  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", ["llama", "gpt", "windowed", "ffn", "attention"])
@pytest.mark.parametrize("micro_batch", [1, 8])
def test_ranks_of_a_grid_share_all_products_also_where_rows_split_a_sequence(name, grid, micro_batch):
    model = {**ALL[name], "kv_heads": 8}
    alone, together = (products(model, {**plan, "micro_batch": micro_batch}) for plan in ({}, grid))
    assert together * grid["tp"] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_grid_keeps_its_share_of_weights_and_activations(grid):
    (alone,), (together,) = (ops_of(FFN, {**plan, "micro_batch": 8}).blocks for plan in ({}, grid))
    assert kept(together.ops) == kept(alone.ops) / grid["tp"]
    copies = grid.get("tp_depth", 1)
    # A panel product needs the whole panel; 3D multiplies the gathered weight, which q ranks share.
    assert together.parameters.split == alone.parameters.split / grid["tp"] * copies
    side = round((grid["tp"] / copies) ** (1 / 3 if grid["tp_kind"] == "3d" else 1 / 2))
    gathered = side if grid["tp_kind"] == "3d" else 1
    steps = side if grid["tp_kind"] != "3d" else 1
    assert weights(together.ops) / steps / gathered == 2 * 256 * 1024 / grid["tp"] * copies


@pytest.mark.parametrize("degrees", [{"ep": 4}, {"ep": 2, "expert_tp": 2}, {"expert_tp": 4}, {"ep": 8, "tp": 2},
                                     {"ep": 8, "cp": 2}])  # fmt: skip
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_expert_parallel_ranks_share_experts_and_their_products(degrees, framework):
    plan = {"sequence_parallel": True, **degrees}
    for model in (MIXTRAL, DEEPSEEK):
        (alone,), (one,) = (
            [block for block in ops_of(model, p, framework=framework).blocks if block.name == "expert layer"]
            for p in ({}, plan)
        )
        ranks = degrees.get("tp", 1) * degrees.get("cp", 1)
        # Every rank of ep · expert_tp brings as many tokens of its own as one rank has alone.
        assert flops(one.plain) * ranks == flops(alone.plain)
        assert one.parameters.expert * plan.get("ep", 1) * plan.get("expert_tp", 1) == alone.parameters.expert


ROUND = Chip(**CHIP, fp8_flops_per_s=16e12)
DEGREE_ONE = {"cp": 1, "ep": 1, "expert_tp": 1, "tp": 1, "tp_depth": 1}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", [{"tp_kind": "2d"}, {"tp_kind": "3d"}, {"tp_kind": "2.5d"}, {"cp_kind": "ulysses"},
                                  {"cp_kind": "all-gather"}], ids=str)  # fmt: skip
def test_degrees_of_one_change_nothing(name, kind):
    assert ops_of(ALL[name], {**DEGREE_ONE, **kind}) == ops_of(ALL[name], {})


def per_phase(found: NetworkOps, field: str, index: int | None = None) -> dict[tuple[str, str], float]:
    """Sum a field over all ops by phase and category; a degree of 1 may leave ops away that an array must have."""
    totals: dict[tuple[str, str], float] = {}
    for op, times in every_op(found):
        value = price(op, ROUND, flawless()).seconds if field == "seconds" else getattr(op, field)
        value = np.asarray(value * op.count * times, dtype=float)
        value = float(value if index is None or value.ndim == 0 else value[index])
        totals[op.phase, op.category] = totals.get((op.phase, op.category), 0.0) + value
    return totals


FIELDS = ("flops", "bytes", "launches", "saved_bytes", "stream_bytes", "seconds")
powers = st.sampled_from((1, 2, 4))


@st.composite
def rows(draw):
    """Several plans that differ in degrees and sizes only, and the choices that they share."""
    tp_kind = draw(st.sampled_from(("1d", "2d", "3d")))
    tp = {"1d": powers, "2d": st.sampled_from((1, 4, 16)), "3d": st.sampled_from((1, 8, 64))}[tp_kind]
    each = st.fixed_dictionaries(
        {"tp": tp, "cp": powers, "ep": st.sampled_from((1, 2, 8)), "expert_tp": powers,
         "micro_batch": st.integers(1, 4), "seq_len": st.sampled_from((64, 128, 512))}
    )  # fmt: skip
    choices = {
        "tp_kind": tp_kind, "cp_kind": draw(st.sampled_from(("ring", "ulysses", "all-gather"))),
        "recompute": draw(st.sampled_from(("none", "selective", "full"))), "sequence_parallel": draw(st.booleans()),
    }  # fmt: skip
    training = {
        "framework": draw(st.sampled_from(FRAMEWORKS)), "attention": draw(st.sampled_from(("eager", "sdpa"))),
        "precision": draw(st.sampled_from(("bf16", "bf16-amp", "fp8"))),
    }  # fmt: skip
    return draw(st.lists(each, min_size=1, max_size=5)), choices, training


@given(st.sampled_from(sorted(ALL)), rows())
@settings(max_examples=40, deadline=None)
def test_arrays_of_degrees_give_what_each_alone_gives(name, drawn):
    each, choices, training = drawn
    one = scenario_of(ALL[name], choices, **training)
    columns = {key: np.array([row[key] for row in each], dtype=float) for key in each[0]}
    together = network(rank_sizes(one, **columns))
    for index, row in enumerate(each):
        alone = network(rank_sizes(one, **row))
        for field in FIELDS:
            expected = per_phase(alone, field)
            found = per_phase(together, field, index)
            assert found == pytest.approx({**dict.fromkeys(found, 0.0), **expected}, rel=1e-9), (field, row)
        for block, many in zip(alone.blocks, together.blocks, strict=True):
            for f in fields(block.parameters):
                many_value = np.broadcast_to(getattr(many.parameters, f.name), len(each))[index]
                assert many_value == pytest.approx(getattr(block.parameters, f.name), rel=1e-12), f.name
            for value in ("ffn_gradient_bytes", "ffn_parameters"):
                assert np.broadcast_to(getattr(many, value), len(each))[index] == pytest.approx(getattr(block, value))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("model", [LLAMA, GPT])
def test_context_parallelism_divides_what_a_block_keeps_but_for_its_copies(model, framework):
    # Of half the sequence, in bf16: an output behind an exchange or a join; PyTorch's rings repeat keys and values.
    output = 128 // 2 * model["hidden"] * 2
    repeated = 2 * output * (1 - model.get("kv_heads", model["heads"]) / model["heads"])
    ring = {"megatron": 0, "pytorch-eager": repeated}[framework]
    for cp_kind, copies in (("ring", ring), ("ulysses", output), ("all-gather", output)):
        (alone,), (part,) = (ops_of(model, {"cp": cp, "cp_kind": cp_kind}, framework=framework).blocks for cp in (1, 2))
        assert kept(part.ops) == kept(alone.ops) / 2 + copies, cp_kind
