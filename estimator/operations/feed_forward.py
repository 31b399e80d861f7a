"""Dense feed-forward network: two linears and an activation, three linears where it is gated."""

from __future__ import annotations

from estimator.operations import elementwise
from estimator.operations.elementwise import pair
from estimator.operations.linear import linear
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
        launches=launches,
        whole=whole,
    )
    ops += pair(f"{prefix}activation", layer, experts * rows * width, *activation(d), times=launches)
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
        launches=launches,
        whole=whole,
    )


def wide_activation(d: RankSizes) -> bool:
    """Whether the activation leaves fp32 under autocast, so that the down projection casts its input."""
    return d.model.activation == "gelu-tanh" and not d.model.gated_ffn and not d.fused
