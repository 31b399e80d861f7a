from __future__ import annotations

import json

import numpy as np
import pytest

from app.importers.kineto.categories import arithmetic_of, categories
from app.importers.kineto.events import LIST
from app.importers.kineto.trace_columns import collect
from app.importers.kineto.work_spans import CODE
from estimator.scenario.breakdown import CATEGORIES
from tests.app.importers.kineto import made

SCORES = [[8, 128, 16], [8, 16, 128]]


def trace(*ops):
    events = [made.op(name, 1.0 + i, 1.0, i + 1, made.HOST, dims) for i, (name, dims) in enumerate(ops)]
    return collect([LIST.decode(json.dumps(events))])


@pytest.mark.parametrize(
    ("kernel", "op", "dims", "category"),
    [
        ("ampere_sgemm_128x64_tn", "aten::mm", [[4, 4], [4, 4]], "matmul"),
        ("some_new_kernel", "aten::mm", [[4, 4], [4, 4]], "matmul"),
        ("Memset (Device)", "aten::mm", [[4, 4], [4, 4]], "other"),
        ("Memcpy DtoD (Device -> Device)", "aten::_efficient_attention_forward", [[2, 4, 8, 16]] * 3, "other"),
        ("cutlass_gemm", "aten::_efficient_attention_forward", [[2, 4, 8, 16]] * 3, "attention"),
        ("ampere_sgemm_128x64_tn", "aten::bmm", SCORES, "attention"),
        ("vectorized_elementwise_kernel", "aten::mul", [[2, 4, 128, 128]], "attention"),
        ("vectorized_elementwise_kernel", "aten::mul", [[2, 4, 128, 64]], "elementwise"),
        ("ncclDevKernel_AllReduce", "aten::mm", [[4, 4], [4, 4]], "communication"),
        ("some_new_kernel", "aten::unheard_of", [[4]], "other"),
    ],
)
def test_names_ops_and_scores(kernel, op, dims, category):
    found = trace(("aten::bmm", SCORES), (op, dims))
    name = np.array([found.name_id(kernel)])
    assert CATEGORIES[categories(found, name, np.array([1]))[0]] == category


def test_without_an_op_the_name_decides():
    found = trace()
    names = np.array([found.name_id("ampere_sgemm"), found.name_id("x")])
    assert categories(found, names, np.array([-1, -1])).tolist() == [CODE["matmul"], CODE["other"]]


def test_arithmetic_of_many_calls():
    found = trace(
        ("aten::mm", [[2, 3], [3, 4]]), ("aten::view", [[6]]), ("aten::mm", None), ("aten::mm", [[2, 3], [3, 4]])
    )
    flops, moved = arithmetic_of(found, np.array([0, 1, 2, 3, -1]))
    assert flops.tolist()[0] == flops.tolist()[3] == 48.0
    assert moved.tolist()[0] == 2.0 * (6 + 12 + 8)
    assert np.isnan(flops[[1, 2, 4]]).all()


def test_a_gradient_of_weights_has_the_shapes_of_the_op_around_it():
    places, whole = [2, 64, 8, 8], "aten::cudnn_convolution_backward"
    kernels = [[64, 64, 1, 1], [64, 64, 3, 3]]
    calls = [
        call
        for kernel in kernels
        for call in ((whole, [places, places, kernel]), (f"{whole}_weight", [[], places, places]))
    ]
    flops, _ = arithmetic_of(trace(*calls), np.array([1, 3]))
    assert flops.tolist() == [2.0 * 2 * 64 * 8 * 8 * 64 * size for size in (1, 9)]
