from __future__ import annotations

import numpy as np
import pytest

from app.importers.kineto.work_spans import CODE, PHASE, WorkSpans, joined, kernels, sums


def spans(*rows):
    """(name, category, phase, start, end, flops) each."""
    column = list(zip(*rows, strict=True))
    flops = np.array([np.nan if value is None else value for value in column[5]])
    return WorkSpans(
        name=np.array(column[0]),
        category=np.array([CODE[name] for name in column[1]]),
        phase=np.array([PHASE[name] for name in column[2]]),
        start=np.array(column[3], dtype=float),
        end=np.array(column[4], dtype=float),
        calls=np.ones(len(rows), dtype=np.int64),
        flops=flops,
        bytes=flops,
    )


STEP = spans(
    (0, "matmul", "forward", 10, 30, 5.0),
    (1, "elementwise", "backward", 20, 40, None),
    (0, "matmul", "backward", 40, 50, 7.0),
    (2, "communication", "backward", 45, 70, None),
    (3, "host", "forward", 0, 10, None),
)


def test_a_second_belongs_to_one_span_only():
    found = sums(STEP, 0, 100)
    assert found.breakdown_s["matmul"] == pytest.approx(30e-6)
    assert found.breakdown_s["elementwise"] == pytest.approx(10e-6)
    assert found.breakdown_s["communication"] == pytest.approx(20e-6)
    assert found.breakdown_s["host"] == pytest.approx(40e-6)
    assert found.phases_s["forward"] == pytest.approx(20e-6)
    assert found.phases_s["backward"] == pytest.approx(20e-6)
    assert found.phases_s["exposed_communication"] == pytest.approx(20e-6)
    assert found.phases_s["host_wait"] == pytest.approx(40e-6)
    assert sum(found.phases_s.values()) == pytest.approx(100e-6)


def test_spans_beyond_the_window_count_inside_only():
    found = sums(STEP, 25, 60)
    assert found.breakdown_s["matmul"] == pytest.approx(15e-6)
    assert sum(found.breakdown_s.values()) == pytest.approx(35e-6)


def test_kernels_by_name_with_sums_only_where_all_is_known():
    found, merged = kernels(STEP, ["gemm", "add", "nccl", "view"], 10)
    assert merged == 0
    assert [(k.name, k.category, k.count) for k in found] == [
        ("gemm", "matmul", 2),
        ("nccl", "communication", 1),
        ("add", "elementwise", 1),
        ("view", "host", 1),
    ]
    assert found[0].flops == 12.0
    assert found[1].flops is None
    assert found[0].total_s == pytest.approx(30e-6)


def test_the_rest_is_summed_by_category():
    found, merged = kernels(STEP, ["gemm", "add", "nccl", "view"], 1)
    assert merged == 3
    assert {(k.name, k.category) for k in found} == {
        ("gemm", "matmul"),
        ("(others)", "communication"),
        ("(others)", "elementwise"),
        ("(others)", "host"),
    }
    assert sum(k.total_s for k in found) == pytest.approx(85e-6)


def test_nothing_at_all():
    empty = joined([spans(*[(0, "host", "forward", 0, 0, None)])])
    assert sums(empty, 0, 0).breakdown_s["host"] == 0.0
