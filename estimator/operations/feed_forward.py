"""Dense feed-forward network: two linears and an activation, three linears where it is gated."""

from __future__ import annotations

from estimator.operations import elementwise
from estimator.operations.elementwise import KernelCost, pair
from estimator.operations.linear import Beside, linear
from estimator.operations.op import Op
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.units import Number


def feed_forward(
    d: RankSizes,
    layer: str,
    *,
    width: Number,
    rows: Number | None = None,
    experts: Number = 1.0,
    kept: Number | None = None,
    whole: bool = False,
    prefix: str = "",
    shares_input: bool = False,
    joined: bool = False,
) -> list[Op]:
    """Return the ops of ``experts`` networks of inner ``width``, each over ``rows`` (default: the rank's tokens).

    ``shares_input``: attention's projections have kept the input already. ``joined``: gate and up are one product,
    whose halves eager kernels take apart (``runners/model/experts.py``).
    """
    model, n = d.model, d.widths
    rows = d.tokens if rows is None else rows
    inputs = d.hidden if whole else d.hidden_width
    up_count = 2 if model.gated_ffn else 1
    launches = 1.0 if d.groups_experts else experts
    bias = model.bias or model.ffn_bias
    up = f"{prefix}gate, up projections" if model.gated_ffn else f"{prefix}up projection"
    projections = 1 if d.fused_projections or joined else up_count
    activation = elementwise.split_activation if joined and model.gated_ffn else elementwise.activation
    before, behind = _in_products(d, up_count) if whole and d.training.fuses_experts else (None, None)
    ops = linear(
        d,
        up,
        layer,
        inputs=inputs,
        outputs=up_count * width,
        projections=projections,
        bias=bias,
        input_copies=projections,
        kept=d.kept_tokens * d.hidden if kept is None else kept,
        saves_input=n.autocast or not shares_input,
        shares_input=shares_input,
        rows=rows,
        batch=experts,
        experts=whole,
        launches=launches,
        whole=whole,
        beside=before,
    )
    if model.clamped_ffn and not (before or (d.fused and not d.training.traits.clamps_apart)):
        ops += pair(f"{prefix}clamp", layer, experts * rows * up_count * width, *_clamp(d), times=launches)
    forward, backward = activation(d)
    if before:
        # What it keeps for backward is kept whoever computes it.
        forward, backward = KernelCost(saved=forward.saved, launches=0.0), KernelCost(launches=0.0)
    ops += pair(f"{prefix}activation", layer, experts * rows * width, forward, backward, times=launches)
    return ops + linear(
        d,
        f"{prefix}down projection",
        layer,
        inputs=width,
        outputs=inputs,
        bias=bias,
        saves_input=False,
        input_copies=1 if n.autocast and wide_activation(d) else 0,
        rows=rows,
        batch=experts,
        experts=whole,
        launches=launches,
        whole=whole,
        beside=behind,
    )


def _in_products(d: RankSizes, up_count: int) -> tuple[Beside, Beside]:
    """Up and down projections whose products activate and make narrow copies, row by row and column by column.

    Up writes its result, which backward needs, and two narrow copies of what is activated; down's input gradient reads
    that result and writes two narrow copies of its gradient (forward_grouped_mlp.py and backward_grouped_mlp.py of
    transformer_engine/pytorch/ops/fused).
    """
    n = d.widths
    up = Beside(result_bytes=n.compute + 2 * n.linear / up_count, gradient_bytes=n.compute, quantised="gradient")
    down = Beside(result_bytes=n.compute, gradient_bytes=up_count * (n.compute + 2 * n.linear), quantised="input")
    return up, down


def _clamp(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Gate and up cut off in kernels of their own, per element of both.

    Each half's cut, both joined; backward: each half's gradient where nothing was cut, both joined. What reads or
    writes a half is strided. The halves as they were are kept beside what is left of them.
    """
    e = d.widths.compute
    forward = KernelCost(strided=2, slow_bytes=4 * e, launches=3, flops=1, saved=e)
    return forward, KernelCost(strided=2, slow_bytes=5 * e, launches=3, flops=1)


def wide_activation(d: RankSizes) -> bool:
    """Whether the activation leaves fp32 under autocast, so that the down projection casts its input."""
    return d.model.activation == "gelu-tanh" and not d.model.gated_ffn and not d.fused
