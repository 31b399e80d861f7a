"""Every formula gives for each element of an array what it gives for that number alone."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.cost.attention import attention_s
from estimator.cost.collectives import TRAFFIC, Group, collective_s, exposed_s
from estimator.cost.efficiency import efficiencies
from estimator.cost.gemm import gemm_s
from estimator.cost.host import phase_wait_s
from estimator.cost.price import price
from estimator.estimate.assemble import rank_of
from estimator.operations.op import Op
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.plan import SCHEDULES
from estimator.scenario.scenario import Scenario
from estimator.schedule.micro_batch import StageTimes
from estimator.schedule.schedules import Bubble, bubble_s, in_flight
from tests.estimator.examples import cluster
from tests.properties.scenarios import DEGREES, scenarios

sizes = st.integers(1, 60_000)
times = st.floats(0, 1e3)
E = efficiencies("default")


def columns(rows: list[tuple[float, ...]]) -> list[np.ndarray]:
    return [np.array(column, dtype=float) for column in zip(*rows, strict=True)]


def several(*each: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*each), min_size=1, max_size=6)


@given(several(st.integers(1, 64), sizes, sizes, sizes, st.floats(0, 1e12)))
@settings(max_examples=100, deadline=None)
def test_products(rows):
    machine = {
        "flops_per_s": 7e14, "compute_units": 132.0, "memory_bytes_per_s": 3e12, "start_s": 3e-6,
        "tiles": E.gemm_matrix_tiles, "split_factor": 1.5, "split_depth": 1024.0, "fill_depth": 12.0,
        "overlap_power": 1.5,
    }  # fmt: skip
    batch, m, n, k, moved = columns(rows)
    found = gemm_s(batch=batch, m=m, n=n, k=k, bytes=moved, waited_s=moved / 9e12, **machine)
    alone = [gemm_s(batch=b, m=r, n=c, k=i, bytes=x, waited_s=x / 9e12, **machine) for b, r, c, i, x in rows]
    assert found == pytest.approx(alone, rel=1e-12)


@given(
    several(st.integers(0, 4096), sizes, sizes, st.floats(0, 1e15), st.floats(0, 1e12)),
    st.sampled_from((0.5, 1.0)), st.booleans(), st.sampled_from((1.0, 64.0, 128.0)),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_attention(rows, visible, padded, tile):
    fixed = {
        "head_dim": 80.0, "flops_per_s": 9e14, "memory_bytes_per_s": 3e12, "half_length": 500.0, "half_width": 60.0,
        "visible_frac": visible, "padded_rows": padded, "tile": tile, "units_hz": 2.6e11, "compute_units": 132.0,
        "row_cycles": 20.0, "tail_blocks": 0.6,
    }  # fmt: skip
    batch, queries, keys, flops, moved = columns(rows)
    found = attention_s(batch=batch, queries=queries, keys=keys, flops=flops, bytes=moved, **fixed)
    alone = [attention_s(batch=b, queries=q, keys=k, flops=f, bytes=x, **fixed) for b, q, k, f, x in rows]
    assert found == pytest.approx(alone, rel=1e-12)


@given(
    st.sampled_from(sorted(TRAFFIC)),
    several(st.floats(0, 1e12), st.sampled_from((1, 2, 4, 8, 16, 64, 512)), st.sampled_from((1, 2, 4, 8, 16))),
)
@settings(max_examples=100, deadline=None)
def test_collectives(kind, rows):
    machine = cluster(8, 64)
    rows = [(payload, ranks, min(ranks, near)) for payload, ranks, near in rows]
    payload, ranks, near = columns(rows)
    found = collective_s(kind, payload, Group(ranks=ranks, ranks_per_node=near), machine, E)
    alone = [collective_s(kind, p, Group(ranks=n, ranks_per_node=r), machine, E) for p, n, r in rows]
    assert found == pytest.approx(alone, rel=1e-12)


@given(st.floats(0, 1e12), st.integers(2, 1024), st.sampled_from((1, 2, 8)))
@settings(max_examples=100, deadline=None)
def test_an_all_reduce_is_a_scatter_and_a_gather_that_start_once(payload, ranks, per_node):
    group, machine = Group(ranks=ranks, ranks_per_node=min(ranks, per_node)), cluster(8, 128)
    whole, scatter, gather, start = (
        collective_s(kind, size, group, machine, E)
        for kind, size in (
            ("all-reduce", payload), ("reduce-scatter", payload), ("all-gather", payload), ("all-gather", 0.0)
        )
    )  # fmt: skip
    assert whole + start == pytest.approx(scatter + gather, rel=1e-9)


@given(several(times, times, st.floats(0, 1)))
def test_exposure(rows):
    communication, window, share = columns(rows)
    alone = [exposed_s(c, w, s, E.contention_frac) for c, w, s in rows]
    assert exposed_s(communication, window, share, E.contention_frac) == pytest.approx(alone, rel=1e-12)
    for (c, w, _), exposed in zip(rows, alone, strict=True):
        assert max(0.0, c - w) * (1 - 1e-9) <= exposed <= c


@given(several(times, times, times))
def test_waiting_for_the_host(rows):
    found = phase_wait_s(*columns(rows))
    alone = [phase_wait_s(*row) for row in rows]
    assert [list(pair) for pair in zip(*found, strict=True)] == [pytest.approx(list(pair)) for pair in alone]


def all_ops(scenario: Scenario, **arrays: Any) -> list[Op]:
    found = network(rank_sizes(scenario, **arrays))
    return [*found.embedding, *(op for block in found.blocks for op in block.ops), *found.head]


def same(many: Any, alone: Any, index: int, where: str) -> None:
    """Compare an array's element, or a plain value, with the value that one scenario alone has."""
    if isinstance(many, np.ndarray):
        many = np.broadcast_to(many, max(many.shape[0] if many.ndim else 1, index + 1))[index]
        assert many == pytest.approx(alone, rel=1e-9, abs=1e-300), where
    elif isinstance(many, float):
        assert many == pytest.approx(alone, rel=1e-9), where
    else:
        assert many == alone, where


@given(
    scenarios(tp_kind="1d", cp=1, experts=False),
    several(st.sampled_from(DEGREES), st.integers(1, 8), st.integers(1, 16)),
)
@settings(max_examples=40, deadline=None)
def test_the_whole_network_and_its_price(scenario, rows):
    rows = [(tp, micro_batch, 128 * length) for tp, micro_batch, length in rows]
    tp, micro_batch, seq_len = columns(rows)
    together = all_ops(scenario, tp=tp, micro_batch=micro_batch, seq_len=seq_len)
    chip = scenario.cluster.chip
    priced = [np.broadcast_to(price(op, chip, E).seconds, len(rows)) for op in together]
    for i, (t, b, s) in enumerate(rows):
        alone = all_ops(scenario, tp=t, micro_batch=b, seq_len=s)
        assert [op.name for op in alone] == [op.name for op in together]
        for one, many, seconds in zip(alone, together, priced, strict=True):
            assert len(many.chained) == len(one.chained)
            for at, pair in enumerate(one.chained):
                for value, expected in zip(many.chained[at], pair, strict=True):
                    same(value, expected, i, f"{one.name} chained")
            for field in fields(Op):
                if field.name == "chained":
                    continue
                same(getattr(many, field.name), getattr(one, field.name), i, f"{one.name} {field.name}")
            assert seconds[i] == pytest.approx(float(price(one, chip, E).seconds), rel=1e-9), one.name


def whole(scenario: Scenario, **arrays: Any) -> dict[str, Any]:
    """Seconds of every direction and bytes of every kind on one rank."""
    found = rank_of(scenario, E, **arrays)
    works = {"embedding": found.embedding, "head": found.head, **{f"block {i}": w for i, w in enumerate(found.blocks)}}
    seconds = {f"{part} {name}": sum(column) for part, work in works.items() for name, column in work.seconds.items()}
    launches = {f"{part} {name} launches": n for part, work in works.items() for name, n in work.launches.items()}
    shards = {f"block {i} {f.name}": getattr(block, f.name) for i, block in enumerate(found.shard.blocks)
              for f in fields(block)}  # fmt: skip
    ends = {name: getattr(found.shard, name) for name in ENDS}
    return {**seconds, **launches, **shards, **ends}


ENDS = ("embedding_parameters", "head_parameters", "head_kept_bytes", "logits_end_bytes", "logits_peak_bytes",
        "message_bytes")  # fmt: skip


@pytest.mark.parametrize("degree", ["tp", "cp", "ep", "expert_tp", "micro_batch"])
@given(scenario=scenarios(tp_kind="1d", tp=8, cp=4, cp_kind="ring", experts=True, ep=8))
@settings(max_examples=15, deadline=None)
def test_every_degree_alone(degree, scenario):
    values = [1, 2, 4]
    if degree == "ep":
        values = [n for n in (1, 2, 4, 8) if scenario.model.experts % n == 0]
    together = whole(scenario, **{degree: np.array(values, dtype=float)})
    for i, value in enumerate(values):
        alone = whole(replace(scenario, plan=replace(scenario.plan, **{degree: value})))
        assert set(alone) == set(together)
        for name, number in together.items():
            same(np.broadcast_to(number, len(values)), alone[name], i, name)


@given(
    st.sampled_from(SCHEDULES),
    several(times, times, times, st.integers(1, 16), st.integers(1, 64), st.integers(1, 4), st.floats(0, 10)),
)
@settings(max_examples=100, deadline=None)
def test_schedules(schedule, rows):
    def bubble(columns: Any) -> Bubble:
        forward, towards_input, weight, stages, micro_batches, chunks, send = columns
        one = StageTimes(forward_s=forward, input_s=towards_input, weight_s=weight)
        other = StageTimes(forward_s=forward * 0.9, input_s=towards_input, weight_s=weight)
        return bubble_s(schedule, first=one, middle=one, last=other, stages=stages, micro_batches=micro_batches,
                        virtual_stages=chunks, send_s=send)  # fmt: skip

    found = bubble(columns(rows))
    for i, row in enumerate(rows):
        alone = bubble([float(value) for value in row])
        assert found.idle_s[i] == pytest.approx(alone.idle_s, rel=1e-9, abs=1e-9)
        assert found.send_s[i] == pytest.approx(alone.send_s, rel=1e-9, abs=1e-9)


@given(st.sampled_from(SCHEDULES), several(st.integers(1, 16), st.integers(1, 64), st.integers(1, 4)))
@settings(max_examples=100, deadline=None)
def test_micro_batches_in_flight(schedule, rows):
    stages, micro_batches, chunks = columns(rows)
    for stage in (0, 1):
        found = np.broadcast_to(in_flight(schedule, stage, stages, micro_batches, chunks), len(rows))
        alone = [in_flight(schedule, stage, float(p), float(m), float(v)) for p, m, v in rows]
        assert list(found) == pytest.approx(alone)
