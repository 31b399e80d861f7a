"""Latent attention (MLA): queries, keys and values from low-rank latents, as training has them: nothing absorbed."""

from __future__ import annotations

from estimator.operations import elementwise
from estimator.operations.elementwise import KernelCost, pair
from estimator.operations.linear import linear
from estimator.operations.op import Op, kernels
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.units import Number


def projections(d: RankSizes, layer: str) -> list[Op]:
    """Return the ops from the block's normed input to q, k, v per head (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    Down-projections and the norms on the latents are whole on every rank of tp and work on its share of the stream;
    up-projections are split by heads. The rotary key is one for all heads; q and k are put together from both parts.
    """
    model, n = d.model, d.widths
    rows = d.stream_tokens
    heads_dim = model.dim - model.qk_rope_head_dim + model.value_dim
    bias = model.bias or model.qkv_bias
    ops: list[Op] = []
    if model.q_lora_rank:
        ops += linear(d, "q down projection", layer, inputs=model.hidden, outputs=model.q_lora_rank, rows=rows,
                      whole=True, bias=bias)  # fmt: skip
        ops += pair(
            "q latent norm", layer, rows * model.q_lora_rank, *elementwise.norm(d, n.compute, model.q_lora_rank)
        )
        ops += linear(d, "q up projection", layer, inputs=model.q_lora_rank / d.grid_side, outputs=d.query_width,
                      kept=d.kept_tokens * model.q_lora_rank)  # fmt: skip
    else:
        ops += linear(d, "q projection", layer, inputs=d.hidden_width, outputs=d.query_width,
                      kept=d.kept_tokens * d.hidden)  # fmt: skip
    ops += linear(d, "kv down projection", layer, inputs=model.hidden, outputs=model.latent_width, rows=rows,
                  whole=True, bias=bias, saves_input=n.autocast, shares_input=True)  # fmt: skip
    e = n.residual if n.autocast else n.compute
    ops.append(kernels("latent gradient sum", layer, "backward", elements=rows * d.hidden, stream=3 * e,
                       chained=((e, 1),), flops_per_element=1))  # fmt: skip
    ops += pair("kv latent norm", layer, rows * model.kv_lora_rank, *elementwise.norm(d, n.compute, model.kv_lora_rank))
    ops += linear(d, "kv up projection", layer, inputs=model.kv_lora_rank / d.grid_side, outputs=d.heads * heads_dim,
                  kept=d.kept_tokens * model.kv_lora_rank)  # fmt: skip
    if model.position == "rope":
        rotary = d.tokens * (d.heads + 1) * model.qk_rope_head_dim
        shares = d.heads / (d.heads + 1), 1 / (d.heads + 1)
        forward, backward = (elementwise.shared(one, *shares) for one in elementwise.rope(d))
        ops += pair("rotary positions", layer, rotary, forward, backward, views=elementwise.ROPE_VIEWS)
    # q and k are written with both parts side by side, the rotary key once per head.
    e = n.compute
    if d.fused:
        both = KernelCost(stream=2 * e), KernelCost(stream=2 * e)
        forward_op, backward_op = pair("q, k assembly", layer, d.tokens * (d.query_width + d.key_width), *both)
        if d.training.traits.routes_op_by_op and model.position == "rope":
            forward_op.plain, backward_op.plain = ROTARY_PLAIN
        return [*ops, forward_op, backward_op]
    return ops + _assembly(d, layer, joined_back=d.query_width + d.heads * heads_dim,
                           kept=d.heads * heads_dim - d.value_width)  # fmt: skip


ROTARY_PLAIN = 29.0 - 3.0, 23.0 - 3.0
"""Kernels, forward and backward, by which Megatron-Core turns and joins queries and keys op by op, beside those listed:
counted by torch on what qkv_up_proj_and_rope_apply does without apply_rope_fusion (multi_latent_attention.py
of megatron/core/transformer, August 2026), tables of cosines and sines among them."""
PARTS_VIEWS = 12.0, 15.0
"""Ops that launch nothing, forward and backward: latents and heads split into parts, and these turned and expanded."""


def _assembly(d: RankSizes, layer: str, joined_back: Number, kept: Number) -> list[Op]:
    """q and k joined from two parts each; in backward the gradients of what q and k, v were split from are joined.

    Concatenation goes at the pace of mixed types. Joined by heads, tensors are laid out head by head, so that what
    enters and leaves a product is copied: the output; in backward its gradient and those that were joined. Values are a
    view of what the keys' first parts, ``kept`` wide, lie in too.
    """
    copied, e = d.core_width, d.widths.compute

    def moved(
        name: str, phase: str, joined: Number, strided: Number, launches: float, views: float, kept: Number = 0.0
    ) -> Op:
        return kernels(name, layer, phase, elements=d.tokens, mixed=joined, strided=strided,
                       slow_bytes=2 * e * (joined + strided), launches=launches, views=views,
                       saved_bytes=d.tokens * kept * e)  # fmt: skip

    return [
        moved("q, k assembly", "forward", d.query_width + d.key_width, copied, 3.0, PARTS_VIEWS[0], kept),
        moved("q, k assembly gradient", "backward", joined_back, copied + joined_back, 5.0, PARTS_VIEWS[1]),
    ]
