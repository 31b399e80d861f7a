"""Ops: FLOPs and bytes of products and kernels, from their sizes."""

from estimator.operations.op import again, gemm, kernels


def product(**changes):
    sizes = {"m": 128, "n": 256, "k": 64, "element_bytes": 2.0, "precision": "bf16"}
    return gemm("p", "layer", "forward", **{**sizes, **changes})


def test_a_product_multiplies_and_adds_once_per_triple():
    assert product().flops == 2 * 128 * 256 * 64
    assert product(batch=10).flops == 10 * product().flops


def test_a_product_reads_its_operands_and_writes_its_result_once():
    assert product().bytes == 2 * (128 * 64 + 64 * 256 + 128 * 256)
    assert product(batch=10).bytes == 10 * product().bytes


def test_a_wider_result_moves_more():
    # Megatron adds 16-bit products to fp32 gradients.
    assert product(output_bytes=4.0).bytes - product().bytes == 2 * 128 * 256


def test_kernels_count_per_element():
    op = kernels(
        "k", "layer", "forward", elements=1000, stream=6, strided=2, mixed=1, slow_bytes=10, flops_per_element=3
    )
    assert (op.stream_bytes, op.strided_elements, op.mixed_elements) == (6000, 2000, 1000)
    assert op.bytes == 16_000
    assert op.flops == 3000


def test_recomputed_ops_run_in_backward_and_keep_nothing():
    op = again(product(saved_bytes=100.0))
    assert (op.phase, op.recomputed, op.saved_bytes) == ("backward", True, 0.0)
    assert op.flops == product().flops
