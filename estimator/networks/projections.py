"""Projections: the linears around the attention core, with per-head norms and rotary positions."""

from __future__ import annotations

from dataclasses import replace

from estimator.networks import attention, latent, pieces
from estimator.networks.attention import pair
from estimator.networks.dims import Dims
from estimator.networks.linear import linear
from estimator.ops import Op, kernels


def attention_part(d: Dims, layer: str, window: int = 0) -> list[Op]:
    """Return the ops from a block's normed input to attention's output, without norm and residual."""
    model = d.model
    ops = latent.projections(d, layer) if model.latent else _projections(d, layer)
    ops += attention.core(d, layer, window)
    # The fused core's output is what the projection keeps; it is counted there.
    return ops + linear(
        d,
        "output projection",
        layer,
        inputs=d.core_width,
        outputs=d.hidden_width,
        bias=model.bias or model.output_bias,
        saves_input=False,
        input_copies=0,
    )


def _projections(d: Dims, layer: str) -> list[Op]:
    model, n = d.model, d.numbers
    bias = model.bias or model.qkv_bias
    kept = d.kept_tokens * d.hidden
    pairs = d.query_width + d.key_width
    if d.fused_projections:
        ops = linear(d, "qkv projection", layer, inputs=d.hidden_width, outputs=pairs + d.value_width, bias=bias,
                     kept=kept)  # fmt: skip
    else:
        ops = linear(d, "q projection", layer, inputs=d.hidden_width, outputs=d.query_width, bias=bias, kept=kept)
        ops += linear(
            d,
            "k, v projections",
            layer,
            inputs=d.hidden_width,
            outputs=d.key_width + d.value_width,
            projections=2,
            bias=bias,
            saves_input=n.autocast,
            input_copies=2,
            kept=kept,
            shares_input=True,
        )
        ops.append(
            kernels("qkv gradient sum", layer, "backward", elements=d.tokens * d.hidden_width,
                    stream=3 * (n.residual if n.autocast else n.compute), flops_per_element=1)
        )  # fmt: skip
    if model.qk_norm:
        forward, backward = pieces.rms_norm(d, n.compute)
        ops += pair("q, k norm", layer, d.tokens * pairs, replace(forward, launches=2 * forward.launches),
                    replace(backward, launches=2 * backward.launches))  # fmt: skip
    if model.position == "rope":
        ops += pair("rotary positions", layer, d.tokens * pairs, *pieces.rope(d))
    return ops
