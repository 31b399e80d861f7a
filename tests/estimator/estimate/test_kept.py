"""What a compiled forward saves for its backward, as torch's partitioner did for Llama, GPT-2 and OLMo-2."""

from __future__ import annotations

from dataclasses import replace

from estimator.estimate.kept import kept
from estimator.operations.aten.fusion import fused
from estimator.scenario.op_list import Call, Operand, OpList, Signature, Storage

ROWS, WIDTH = 4096, 768
NARROW = Operand(shape=(ROWS, WIDTH), dtype="bfloat16")
WIDE = Operand(shape=(ROWS, WIDTH), dtype="float32")
NARROW_BYTES, WIDE_BYTES = 2 * ROWS * WIDTH, 4 * ROWS * WIDTH
WEIGHT = Operand(shape=(WIDTH, WIDTH), dtype="bfloat16")


def saved(*steps):
    """(Born, bytes, died) of what is in memory, of (phase, op, inputs, output, died), all of one compiled region."""
    found = listed(*steps)
    phases = [one[0] for one in steps]
    by = fused(found, phases)
    return [
        (one.born, one.bytes, one.died) for one in kept(found, phases, by.inner, by.flow, ends=by.ends, same=by.same)
    ]


def listed(*steps):
    """The list of (phase, op, inputs, output, died), all of one compiled region."""
    signatures = tuple(Signature(op=f"aten::{op}", inputs=i, outputs=(o,)) for _, op, i, o, _ in steps)
    calls = tuple(
        Call(kind="kernel", signature=at, phase=phase, module=-1, compiled=True) for at, (phase, *_) in enumerate(steps)
    )
    storages = tuple(
        Storage(bytes=ROWS * WIDTH * (4 if one.dtype == "float32" else 2), born=at, died=died)
        for at, (*_, one, died) in enumerate(steps)
    )
    return OpList(source="trace", program="", chip="", signatures=signatures, calls=calls, storages=storages)


def moved_by_kernels(*steps):
    """Bytes of each kernel that a compiler makes, in order."""
    by = fused(listed(*steps), [one[0] for one in steps])
    return [op.bytes for at in sorted(by.kernels) for op in by.kernels[at]]


def test_a_sum_over_layers_is_saved_in_its_own_type():
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 2),
        ("forward", "add", (NARROW, NARROW), NARROW, 3),
        ("forward", "_to_copy", (NARROW,), WIDE, 8),
        ("forward", "pow", (WIDE,), WIDE, 5),
        ("forward", "_to_copy", (WIDE,), NARROW, 6),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 7),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 8),
        ("backward", "mul", (NARROW, WIDE), WIDE, 9),
    ]
    found = saved(*steps)
    assert (2, WIDE_BYTES, 8) not in found
    assert [one for one in found if one[0] < 2 and one[2] >= 8] == [(1, NARROW_BYTES, 8)], "the sum, not the product"


def test_what_backward_gives_to_a_product_is_written_where_it_is_made():
    steps = [
        ("forward", "sigmoid", (NARROW,), NARROW, 5),
        ("forward", "mul", (NARROW, NARROW), NARROW, 3),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 4),
        ("backward", "mul", (NARROW, NARROW), NARROW, 5),
        ("backward", "mm", (NARROW, NARROW), NARROW, 6),
    ]
    assert (0, NARROW_BYTES, 5) in saved(*steps)


def test_what_a_product_left_is_enough_to_compute_the_rest_of_its_kernel_again():
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 6),
        ("forward", "sigmoid", (NARROW,), NARROW, 6),
        ("forward", "mul", (NARROW, NARROW), NARROW, 4),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 7),
        ("backward", "sigmoid_backward", (NARROW, NARROW), NARROW, 8),
        ("backward", "neg", (NARROW,), NARROW, 9),
    ]
    found = saved(*steps)
    assert 1 not in [born for born, _, _ in found]
    assert (0, NARROW_BYTES, 7) in found, "until the kernel that computes it again has run"


def test_one_cast_for_several_products_lives_as_long_as_its_last_reader():
    steps = [
        ("forward", "neg", (WIDE,), WIDE, 4),
        ("forward", "_to_copy", (WIDE,), NARROW, 7),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 3),
        ("forward", "_to_copy", (WIDE,), NARROW, 6),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 6),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 7),
    ]
    assert [one for one in saved(*steps) if one[0] in (1, 3)] == [(1, NARROW_BYTES, 7)]


def test_what_a_name_in_the_loop_holds_past_backward_is_in_memory_and_saves_the_rest():
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 8),  # as logits, until those of the next forward
        ("forward", "sigmoid", (NARROW,), NARROW, 6),
        ("forward", "mul", (NARROW, NARROW), NARROW, 4),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 7),
        ("backward", "sigmoid_backward", (NARROW, NARROW), NARROW, 7),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 8),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 8),
    ]
    found = saved(*steps)
    assert 1 not in [born for born, _, _ in found]
    assert (0, NARROW_BYTES, 8) in found


def test_a_kernel_of_any_depth_whose_results_are_read_twice_is_looked_through_once():
    depth = 600  # of squares: twice as many ways to each result as to the one before
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, depth + 2),
        *[("forward", "mul", (NARROW, NARROW), NARROW, depth + 4)] * depth,
        ("forward", "mm", (NARROW, WEIGHT), NARROW, depth + 3),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, depth + 4),
        ("backward", "mul", (NARROW, NARROW), NARROW, depth + 5),
    ]
    assert 0 < sum(0 < born <= depth for born, _, _ in saved(*steps)) < depth


def test_copies_of_one_type_that_look_alike_are_of_two_tensors():
    turned = Operand(shape=(ROWS, WIDTH), dtype="bfloat16", strides=(1, ROWS))
    steps = [
        ("forward", "neg", (turned,), turned, 3),  # values, then queries
        ("forward", "neg", (turned,), turned, 2),
        ("forward", "clone", (turned,), NARROW, 7),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 4),
        ("forward", "clone", (turned,), NARROW, 6),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 6),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 7),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 8),
    ]
    assert {born for born, _, died in saved(*steps) if died >= 6} >= {2, 4}


def test_a_sum_of_what_an_earlier_kernel_made_is_not_computed_again():
    """As of a residual in fp32 under autocast: each sum is saved, not the product's half as many bytes."""
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 3),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 3),
        ("forward", "add", (NARROW, NARROW), WIDE, 11),
        ("forward", "_to_copy", (WIDE,), NARROW, 9),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 6),
        ("forward", "add", (NARROW, WIDE), WIDE, 10),
        ("forward", "_to_copy", (WIDE,), NARROW, 8),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 8),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 9),
        ("backward", "mul", (WIDE,), WIDE, 10),
        ("backward", "mul", (WIDE,), WIDE, 11),
    ]
    late = [(born, size) for born, size, died in saved(*steps) if born < 8 and died >= 10]
    assert late == [(2, WIDE_BYTES), (5, WIDE_BYTES)]


def test_what_backward_reads_only_to_narrow_it_is_saved_narrow():
    """As queries of attention in fp32, whose backward runs under autocast."""
    square = Operand(shape=(WIDTH, WIDTH), dtype="float32")
    steps = [
        ("forward", "clone", (WIDE,), WIDE, 5),
        ("forward", "mm", (WIDE, square), WIDE, 2),
        ("backward", "neg", (NARROW,), NARROW, 5),
        ("backward", "_to_copy", (WIDE,), NARROW, 5),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 5),
    ]
    assert [one for one in saved(*steps) if one[2] > 0 and one[0] in (0, 1)] == [
        (0, WIDE_BYTES, 2),
        (1, NARROW_BYTES, 5),
        (1, WIDE_BYTES, 2),
    ]
    as_it_is = [*steps[:-1], ("backward", "mm", (WIDE, square), WIDE, 5)]
    assert (0, WIDE_BYTES, 5) in saved(*as_it_is)


def test_of_passes_that_accumulate_each_keeps_its_own_until_its_backward():
    one_pass = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 6),
        ("forward", "sigmoid", (NARROW,), NARROW, 6),
        ("forward", "mul", (NARROW, NARROW), NARROW, 4),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 7),
        ("backward", "sigmoid_backward", (NARROW, NARROW), NARROW, 8),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 9),
    ]
    length = len(one_pass)
    second = [(phase, op, inputs, output, died + length) for phase, op, inputs, output, died in one_pass]
    found = saved(*one_pass, *second)
    each = [
        [(born - at, size, died - at) for born, size, died in found if at <= born < at + length] for at in (0, length)
    ]
    assert each[0] == each[1]
    assert (0, NARROW_BYTES, 6) in each[0]
    assert 1 not in [born for born, _, _ in each[0]], "what a product left is enough in each pass"


def test_what_is_saved_anyway_is_enough_for_what_it_drops_out():
    """Attention's weights of a softmax with dropout, which a product reads and backward casts."""
    square = Operand(shape=(WIDTH, WIDTH), dtype="float32")
    steps = [
        ("forward", "mm", (WIDE, square), WIDE, 2),
        ("forward", "_softmax", (WIDE,), WIDE, 8),
        ("forward", "mul", (WIDE,), WIDE, 7),
        ("forward", "mm", (WIDE, square), WIDE, 4),
        ("backward", "neg", (NARROW,), NARROW, 7),
        ("backward", "_to_copy", (WIDE,), NARROW, 7),
        ("backward", "mm", (NARROW, NARROW), WEIGHT, 7),
        ("backward", "_softmax_backward_data", (WIDE, WIDE), WIDE, 8),
    ]
    found = saved(*steps)
    assert (1, WIDE_BYTES, 8) in found
    assert [one for one in found if one[0] in (2, 3)] == [(2, WIDE_BYTES, 4), (3, WIDE_BYTES, 4)]


def test_what_nobody_reads_is_not_computed():
    steps = [
        ("forward", "_softmax", (WIDE,), WIDE, 4),
        ("forward", "_to_copy", (WIDE,), NARROW, 3),
        ("forward", "mm", (WIDE, WIDE), WIDE, 4),
        ("forward", "neg", (WIDE,), WIDE, 4),
        ("backward", "neg", (WIDE,), WIDE, 5),
    ]
    assert 1 not in [born for born, _, _ in saved(*steps)]
    assert moved_by_kernels(*steps)[0] == 2 * WIDE_BYTES, "the softmax is written, its cast is not"


def test_what_is_read_by_its_halves_is_computed():
    """As a gradient that turns through a rotation of halves."""
    half = Operand(shape=(ROWS, WIDTH // 2), dtype="bfloat16", strides=(WIDTH, 1))
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 1),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 2),
        ("backward", "mul", (NARROW, NARROW), NARROW, 3),
        ("backward", "neg", (half,), NARROW, 4),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "neg", (NARROW,), NARROW, 6),
    ]
    by = fused(listed(*steps), [one[0] for one in steps])
    assert 2 not in by.unwritten


def test_rows_of_a_table_are_saved_where_backward_reads_what_is_made_of_them():
    table, places = Operand(shape=(1000, WIDTH), dtype="bfloat16"), Operand(shape=(ROWS,), dtype="int64")
    steps = [
        ("forward", "embedding", (table, places), NARROW, 6),
        ("forward", "_to_copy", (NARROW,), WIDE, 6),
        ("forward", "pow", (WIDE,), WIDE, 4),
        ("forward", "_to_copy", (WIDE,), NARROW, 5),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 6),
        ("backward", "mul", (WIDE,), WIDE, 6),
        ("backward", "neg", (WIDE,), WIDE, 7),
    ]
    assert (0, NARROW_BYTES) in [(born, size) for born, size, died in saved(*steps) if died >= 6]


def test_a_softmax_that_backward_reads_beside_its_gradient_is_saved_in_its_own_type():
    """H100: compiled ViT under autocast, whose products of backward cast what a softmax's gradient reads whole."""
    found = saved(
        ("forward", "mm", (NARROW, WEIGHT), WIDE, 1),
        ("forward", "_safe_softmax", (WIDE,), WIDE, 8),
        ("forward", "mm", (WIDE, WEIGHT), WIDE, 3),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "_to_copy", (WIDE,), NARROW, 5),
        ("backward", "mm", (NARROW, NARROW), NARROW, 6),
        ("backward", "_to_copy", (NARROW,), WIDE, 7),
        ("backward", "_softmax_backward_data", (WIDE, WIDE), WIDE, 8),
    )
    assert [one for one in found if one[0] == 1] == [(1, WIDE_BYTES, 8)]


def test_what_is_computed_from_a_slice_of_what_is_saved_is_not_saved():
    """H100: compiled Phi-3, gate and up of one product: its SiLU is computed again from that, which backward reads."""
    both = Operand(shape=(ROWS, 2 * WIDTH), dtype="bfloat16")
    half = Operand(shape=(ROWS, WIDTH), dtype="bfloat16", strides=(2 * WIDTH, 1))
    steps = [
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),  # as large as the slice, and gone before backward
        ("forward", "mm", (NARROW, WEIGHT), both, 9),
        ("forward", "silu", (half,), NARROW, 7),
        ("forward", "mul", (half, NARROW), NARROW, 6),
        ("forward", "mm", (NARROW, WEIGHT), NARROW, 5),
        ("backward", "mm", (NARROW, WEIGHT), NARROW, 8),
        ("backward", "mul", (NARROW, NARROW), NARROW, 8),
        ("backward", "mul", (NARROW, half), NARROW, 8),
        ("backward", "silu_backward", (NARROW, half), NARROW, 10),
    ]
    found = listed(*steps)
    storages = [*found.storages[:1], replace(found.storages[1], bytes=2 * NARROW_BYTES), *found.storages[2:]]
    phases = [one[0] for one in steps]
    by = fused(found, phases)
    list_ = replace(found, storages=tuple(storages))
    kept_ = kept(list_, phases, by.inner, by.flow, ends=by.ends, same=by.same)
    assert (1, 2 * NARROW_BYTES) in [(one.born, one.bytes) for one in kept_]
    assert 2 not in [one.born for one in kept_]
