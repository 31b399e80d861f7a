"""Projections: fused or apart, with per-head norms, for every number of key and value heads."""

from __future__ import annotations

from estimator.operations.attention import attention_part
from estimator.operations.op import Op
from estimator.operations.rank_sizes import dims
from tests.estimator.examples import LLAMA, scenario
from tests.estimator.operations.shapes import ATTENTION, dims_of, flops, named


def part(model=LLAMA, *, framework="pytorch-eager") -> list[Op]:
    return attention_part(dims(scenario(model, framework=framework)), "layer")


def test_fused_projections_do_the_same_products():
    fused, apart = part(framework="megatron"), part()
    for phase in ("forward", "backward"):
        assert flops(fused, phase) == flops(apart, phase)
    assert "qkv projection" in {op.name for op in fused}
    assert {"q projection", "k, v projections"} <= {op.name for op in apart}


def test_per_head_norms_add_their_kernels_and_nothing_else():
    plain = part()
    normed = part({**LLAMA, "qk_norm": True})
    assert {op.name for op in normed} - {op.name for op in plain} == {"q, k norm", "q, k norm gradient"}


def test_biases_are_summed_where_the_model_has_them():
    def biased(**changes):
        ops = attention_part(dims_of({**LLAMA, **changes}, framework="pytorch-eager"), "layer")
        return {op.name for op in ops if op.name.endswith("bias gradient")}

    assert biased() == set()
    assert biased(output_bias=True) == {"output projection bias gradient"}
    assert biased(qkv_bias=True) == {"q projection bias gradient", "k, v projections bias gradient"}


def test_the_input_of_q_k_v_is_kept_once_in_the_share_of_the_stream():
    for plan, share in (({}, 1), ({"tp": 4, "sequence_parallel": True}, 4), ({"tp": 4, "tp_kind": "2d"}, 4)):
        op = named(attention_part(dims_of(ATTENTION, plan), "layer"))["qkv projection"]
        assert op.saved_bytes * op.count == 128 * 256 * 2 / share
