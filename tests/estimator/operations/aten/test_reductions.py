"""Kernels that add up: sums over rows and columns, norms over rows and channels, equal indices."""

from __future__ import annotations

import pytest

from estimator.cost.efficiency import efficiencies_for
from estimator.cost.price import price
from estimator.operations.aten import kernels_of, workspace_bytes_of
from estimator.scenario import catalog
from estimator.scenario.op_list import Operand, Signature
from tests.estimator.operations.aten.signatures import CHIP, E, one, tensor


def test_sums_over_rows_are_told_from_sums_over_columns():
    assert one("aten::sum", tensor(8, 64, 128), out=tensor(128)).column_bytes > 0
    assert one("aten::sum", tensor(8, 64, 128), out=tensor(8, 64, 1)).column_bytes == 0


def test_a_layer_norm_copies_what_is_not_contiguous_both_ways():
    """As where a convolution's pixels become positions: 28 sequences of 1,500, 220 µs of it on an H100."""
    turned, plain = tensor(28, 1500, 704, strides=(1056000, 1, 1500)), tensor(28, 1500, 704)
    chip = catalog.chip("h100-sxm")
    e = efficiencies_for(chip, None)
    for op, before in (("native_layer_norm", ()), ("native_layer_norm_backward", (plain,))):
        copied = kernels_of(Signature(op=f"aten::{op}", inputs=(*before, turned), outputs=(plain,)))
        assert len(copied) == 1 + len(
            kernels_of(Signature(op=f"aten::{op}", inputs=(*before, plain), outputs=(plain,)))
        )
        assert price(copied[0], chip, e).seconds == pytest.approx(220e-6, rel=0.05)
    (added,) = kernels_of(Signature(op="aten::add", inputs=(turned, plain), outputs=(turned,)))
    assert price(added, chip, e).seconds == pytest.approx(228e-6, rel=0.05)


def test_batch_norm_of_bf16_waits_for_each_load_of_a_channel_s_one_block():
    """As many elements in fewer channels take longer: fewer blocks walk them; where channels are last none does."""

    def seconds(channels, strides=None, dtype="bfloat16"):
        shape = (64, channels, 2**12 // channels, 2**12)
        x = Operand(shape=shape, dtype=dtype, strides=strides)
        found = Signature(op="aten::native_batch_norm", inputs=(x,), outputs=(x,))
        return sum(price(op, CHIP, E).seconds for op in kernels_of(found))

    few, some, many, most = (seconds(channels) for channels in (64, 256, 1024, 2048))
    assert few > some > many == pytest.approx(most)
    assert seconds(64, dtype="float32") < few
    last = (64 * 64 * 2**12, 1, 64 * 2**12, 64)
    assert seconds(64, strides=last) < few


@pytest.mark.parametrize(("depths", "images", "statistics_ms", "gradient_ms"), [
    ((3, 4, 6, 3), 176, 11.12, 25.56), ((3, 8, 36, 3), 160, 16.36, 39.03),
])  # fmt: skip
def test_planes_that_fill_no_row_of_a_block_s_threads_leave_its_places_idle(depths, images, statistics_ms, gradient_ms):
    """Kernels of ResNet-50 and -152 of bf16 on H100 (tests/reference/h100_programs): planes of 14² fill 196 of 256."""
    planes = [(64, 112)]
    for stage, (blocks, width) in enumerate(zip(depths, (64, 128, 256, 512), strict=True)):
        side, before = 56 >> stage, 56 >> max(stage - 1, 0)
        planes += [(width, before), (width, side), (4 * width, side), (4 * width, side)]
        planes += [(width, side), (width, side), (4 * width, side)] * (blocks - 1)
    chip = catalog.chip("h100-sxm")
    e = efficiencies_for(chip, None)
    found = {"statistics": 0.0, "gradient": 0.0}
    for channels, side in planes:
        x = tensor(images, channels, side, side)
        walk, _ = kernels_of(Signature(op="aten::native_batch_norm", inputs=(x,), outputs=(x,)))
        found["statistics"] += price(walk, chip, e).seconds * 1e3
        found["gradient"] += price(one("aten::native_batch_norm_backward", x, x, out=x), chip, e).seconds * 1e3
    assert found["statistics"] == pytest.approx(statistics_ms, rel=0.08)
    assert found["gradient"] == pytest.approx(gradient_ms, rel=0.08)


@pytest.mark.parametrize(("images", "channels", "plane", "forward_us", "backward_us"), [
    (64, 64, 112, 461.1, 1164.8), (64, 64, 56, 150.7, 325.6), (256, 256, 56, 595.8, 1281.4),
])  # fmt: skip
def test_batch_norm_of_fp32_waits_for_cudnn_s_one_block_of_a_channel(images, channels, plane, forward_us, backward_us):
    """Kernels of ResNet-50 on H200 (tests/reference/h200_programs/one, h200_scripts): any channels take as long."""
    x = Operand(shape=(images, channels, plane, plane), dtype="float32")
    chip = catalog.chip("h200-sxm")
    e = efficiencies_for(chip, None)

    def seconds(op, *inputs):
        found = Signature(op=op, inputs=inputs, outputs=(x,))
        return sum(price(kernel, chip, e).seconds for kernel in kernels_of(found))

    assert seconds("aten::native_batch_norm", x) * 1e6 == pytest.approx(forward_us, rel=0.45)
    assert seconds("aten::native_batch_norm_backward", x, x) * 1e6 == pytest.approx(backward_us, rel=0.12)


def test_equal_indices_that_add_up_wait_for_one_another():
    def seconds(places, width, rows):
        target, values = tensor(places, width), tensor(rows, width)
        op = one("aten::_index_put_impl_", target, tensor(rows, dtype="int64"), values, accumulate=True)
        return price(op, CHIP, E).seconds

    # Biases of 16 experts, 1024 rows each: 2.25 ms on H200 (indexing_backward_kernel; six and six others take 14.05 ms)
    assert seconds(16, 4096, 16_384) == pytest.approx(2.2e-3, rel=0.05)
    assert seconds(16, 2048, 16_384) == pytest.approx(seconds(16, 4096, 16_384), rel=0.02)
    assert seconds(32, 4096, 16_384) == pytest.approx(1.1e-3, rel=0.05)
    # Rows of a batch, few of which come twice: what memory and elements take
    assert seconds(16_384, 2048, 16_384) < 2e-4


@pytest.mark.parametrize(
    ("rows", "columns", "seen_bytes"),
    [(80 * 197, 1152, 138_608_640), (112 * 197, 640, 113_049_600), (64, 1152, 0)],
)
def test_blocks_that_share_a_column_s_sum_hand_over_in_memory(rows, columns, seen_bytes):
    # Seen in the allocator's record of two ViTs on an H200, before their biases' gradients
    entering = (tensor(rows, columns),)
    added = Signature(op="aten::sum", inputs=entering, outputs=(tensor(1, columns),), arguments={"dim": [0]})
    assert workspace_bytes_of(added, CHIP.compute_units) == seen_bytes
    along = Signature(op="aten::sum", inputs=entering, outputs=(tensor(rows),), arguments={"dim": [1]})
    assert workspace_bytes_of(along, CHIP.compute_units) == 0


def test_a_sum_over_a_middle_dimension_leaves_no_columns_where_sizes_are_equal():
    square = tensor(4, 4, 4, 36, 64)
    assert one("aten::sum", square, out=tensor(4, 4, 36, 64), dim=[1]).column_bytes == 0
    assert one("aten::sum", square, out=tensor(4, 4, 36, 64), dim=[-5]).column_bytes > 0
    assert one("aten::sum", tensor(4, 64, 64), out=tensor(4, 64), dim=[-1]).rows > 0
