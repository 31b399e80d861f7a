"""Fusion: what the kernels of a compiled region read, write and keep, and what their softmaxes take."""

from __future__ import annotations

import pytest

from estimator.operations.aten import fusion
from estimator.operations.aten.fusion import fused
from estimator.scenario.op_list import Call, Operand, OpList, Signature

ROWS, WIDTH, WORDS = 4096, 768, 50304


def tensor(*shape, dtype="bfloat16"):
    return Operand(shape=shape, dtype=dtype)


HALF, WHOLE = tensor(ROWS, WIDTH), tensor(ROWS, WIDTH, dtype="float32")
HALF_BYTES, WHOLE_BYTES = 2 * ROWS * WIDTH, 4 * ROWS * WIDTH


def joined(*steps):
    """What becomes of (phase, op, inputs, outputs), all of one compiled region."""
    signatures = tuple(Signature(op=f"aten::{op}", inputs=i, outputs=o) for _, op, i, o in steps)
    calls = tuple(
        Call(kind="kernel", signature=at, phase=phase, module=-1, compiled=True) for at, (phase, *_) in enumerate(steps)
    )
    return fused(
        OpList(source="trace", program="", chip="h200-sxm", signatures=signatures, calls=calls),
        [one[0] for one in steps],
    )


def moved(found, at):
    (kernel,) = found.kernels[at]
    return kernel.bytes


def test_a_sum_reads_two_tensors_of_one_shape():
    assert moved(joined(("forward", "add", (HALF, HALF), (HALF,))), 0) == 3 * HALF_BYTES


def test_what_two_members_read_may_be_one_tensor():
    found = joined(
        ("forward", "sigmoid", (HALF,), (HALF,)),
        ("forward", "mul", (HALF, HALF), (HALF,)),
    )
    assert moved(found, 1) == 2 * HALF_BYTES


def test_a_residual_that_the_backward_reads_is_written():
    norm = (tensor(ROWS, 1, dtype="float32"),) * 2
    forward = [
        ("forward", "add", (WHOLE, HALF), (WHOLE,)),
        ("forward", "native_layer_norm", (WHOLE,), (WHOLE, *norm)),
        ("forward", "_to_copy", (WHOLE,), (HALF,)),
        ("forward", "mm", (HALF, tensor(WIDTH, WIDTH)), (HALF,)),
    ]
    backward = [
        ("backward", "_to_copy", (HALF,), (WHOLE,)),
        ("backward", "native_layer_norm_backward", (WHOLE, WHOLE, *norm), (WHOLE,)),
    ]
    alone, both = joined(*forward), joined(*forward, *backward)
    assert 0 in alone.unwritten
    assert 0 not in both.unwritten
    assert moved(both, 2) - moved(alone, 2) == WHOLE_BYTES, "of a kernel's results of one size the first alone"


TABLE, IDS = tensor(WORDS, WIDTH, dtype="float32"), tensor(ROWS, dtype="int64")


def test_an_embedding_reads_its_rows_of_the_table():
    found = joined(("forward", "embedding", (TABLE, IDS), (WHOLE,)))
    assert moved(found, 0) == 2 * WHOLE_BYTES + 8 * ROWS


def test_a_sum_over_layers_is_read_from_memory_and_not_computed_again_from_the_first():
    """The sum of the first layer is an embedding's rows; what a later layer adds to it a kernel before has written."""
    layer = [("forward", "_to_copy", (WHOLE,), (HALF,)), ("forward", "mm", (HALF, tensor(WIDTH, WIDTH)), (HALF,))]
    forward = [("forward", "embedding", (TABLE, IDS), (WHOLE,)), *layer,
               ("forward", "add", (WHOLE, HALF), (WHOLE,)), *layer]  # fmt: skip
    found = joined(*forward, ("backward", "pow", (WHOLE,), (WHOLE,)))
    assert moved(found, len(forward)) == 2 * WHOLE_BYTES, "read, and its square written"
    assert {0, 3}.isdisjoint(found.unwritten)
    assert moved(found, 4) == 2 * WHOLE_BYTES + 2 * HALF_BYTES, "sum and product read, sum and cast written"


def test_a_cast_that_a_kernel_reads_twice_is_not_written():
    layer = [("forward", "_to_copy", (HALF,), (WHOLE,)), ("forward", "pow", (WHOLE,), (WHOLE,)),
             ("forward", "mul", (WHOLE, WHOLE), (WHOLE,)), ("forward", "_to_copy", (WHOLE,), (HALF,)),
             ("forward", "mm", (HALF, tensor(WIDTH, WIDTH)), (HALF,))]  # fmt: skip
    found = joined(*layer, *layer)
    assert {0, 1, 2, 5, 6, 7} <= found.unwritten
    assert moved(found, 8) == moved(found, 3)


def test_a_rotation_computes_its_sines_for_each_element_that_it_turns():
    """H100: rotating queries takes 2.4 times what they need to be moved forward, 3.6 times backward."""
    angles, heads = tensor(1, 128, 64), tensor(8, 4, 128, 64)
    table, half = tensor(1, 1, 128, 64), Operand(shape=(8, 4, 128, 32), dtype="bfloat16", strides=(32768, 8192, 64, 1))
    elements = 8 * 4 * 128 * 64
    forward = [
        ("forward", "cos", (angles,), (angles,)),
        ("forward", "mul", (angles,), (angles,)),
        ("forward", "mul", (heads, table), (heads,)),
        ("forward", "neg", (half,), (tensor(8, 4, 128, 32),)),
        ("forward", "mul", (heads, table), (heads,)),
        ("forward", "add", (heads, heads), (heads,)),
    ]
    backward = [
        ("backward", "mul", (heads, table), (heads,)),
        ("backward", "slice_backward", (half,), (heads,)),
        ("backward", "slice_backward", (half,), (heads,)),
        ("backward", "add", (heads, heads), (heads,)),
        ("backward", "mul", (heads, table), (heads,)),
        ("backward", "add", (heads, heads), (heads,)),
    ]

    def turned(*steps):
        return sum(op.gelus for ops in joined(*steps).kernels.values() for op in ops) / fusion.TURN_GELUS / elements

    assert turned(*forward) == pytest.approx(2, abs=0.05), "but for the table itself"
    assert turned(*forward, *backward) == pytest.approx(2 + 3, abs=0.05)
    assert turned(*forward[2:]) == 0, "tables that the region is given are read"


def test_heads_that_several_share_are_laid_out_by_the_kernel_that_makes_them():
    made = tensor(2, 4, 128, 64)
    shared = Operand(shape=(2, 4, 3, 128, 64), dtype="bfloat16", strides=(32768, 8192, 0, 64, 1))
    whole = tensor(2, 4, 3, 128, 64)
    found = joined(("forward", "neg", (made,), (made,)), ("forward", "clone", (shared,), (whole,)))
    assert found.kernels[0] == []
    assert moved(found, 1) == 2 * 65536 + 2 * 3 * 65536


def test_a_softmax_over_more_than_is_held_at_once_is_limited_by_its_elements():
    def kernel(words):
        logits = tensor(ROWS, words)
        return joined(("forward", "_log_softmax", (logits,), (logits,))).kernels[0][0]

    long, short = kernel(WORDS), kernel(1024)
    assert (long.strided_elements, long.stream_bytes) == (ROWS * WORDS, 0)
    assert (short.strided_elements, short.stream_bytes) == (0, 4 * ROWS * 1024)
    assert long.bytes == 4 * ROWS * WORDS


def test_a_compiled_dropout_draws_for_each_place_of_its_rows():
    """H200: rows of 768, held as 1024, cost a third more to draw than their elements; a masked softmax far more."""

    def gelus(reducing):
        steps = [("forward", "native_dropout", (WHOLE,), (WHOLE, tensor(ROWS, WIDTH, dtype="bool")))]
        (kernel,) = joined(*reducing, *steps).kernels[len(reducing)]
        return kernel.gelus

    alone = gelus([])
    assert alone == pytest.approx(fusion.DRAWN_GELUS * ROWS * WIDTH)
    assert gelus([("forward", "native_layer_norm", (WHOLE,), (WHOLE,))]) == pytest.approx(alone * 1024 / WIDTH)
    masked = gelus([("forward", "_safe_softmax", (WHOLE,), (WHOLE,))])
    assert masked == pytest.approx(alone * 1024 / WIDTH + fusion.SAFE_SOFTMAX_GELUS * ROWS * WIDTH)
