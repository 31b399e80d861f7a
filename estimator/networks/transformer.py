"""Transformer: every op of one micro-batch on one rank, by kind of block, and what a block holds there."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum
from estimator.model import block_kinds
from estimator.networks import pieces
from estimator.networks.attention import pair
from estimator.networks.dims import Dims
from estimator.networks.edges import embedding, head
from estimator.networks.ffn import feed_forward
from estimator.networks.moe import expert_part, routed_rows
from estimator.networks.projections import attention_part
from estimator.networks.recompute import recomputed
from estimator.networks.shares import BlockParameters, ffn_parameters, parameters_of
from estimator.ops import Op, kernels
from estimator.units import Number

__all__ = ["Block", "BlockParameters", "NetworkOps", "network"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """One kind of block: how many of the model's ``layers`` are of it, its ops per micro-batch, its parameters.

    ``leading`` blocks come first in the stack, other kinds are mixed evenly. ``plain`` are the ops without
    recomputation. ``ffn_gradient_bytes``: gradients of the feed-forward part's inner activations at the fullest moment
    of its backward; ``ffn_parameters``: this rank's weights of that part.
    """

    name: str
    layers: int
    leading: bool
    ops: tuple[Op, ...]
    plain: tuple[Op, ...]
    parameters: BlockParameters
    ffn_gradient_bytes: Number
    ffn_parameters: Number


@dataclass(frozen=True, kw_only=True)
class NetworkOps:
    """Ops per execution: of each kind of block, of the first stage's embedding, of the last stage's head."""

    blocks: tuple[Block, ...]
    embedding: tuple[Op, ...]
    head: tuple[Op, ...]


def network(d: Dims) -> NetworkOps:
    """Return every op that one micro-batch needs on one rank; bare stacks have neither embedding nor head."""
    whole = d.model.network == "transformer"
    blocks = []
    for kind in block_kinds(d.model):
        name = _name(d, kind.experts, kind.window)
        plain = _block(d, name, experts=kind.experts, window=kind.window)
        ops = tuple(recomputed(d, plain, name, experts=kind.experts))
        blocks.append(
            Block(
                name=name,
                layers=kind.layers,
                leading=kind.leading,
                ops=ops,
                plain=ops if d.recompute == "none" else tuple(plain),
                parameters=parameters_of(d, experts=kind.experts),
                ffn_gradient_bytes=_ffn_gradient_bytes(d, kind.experts),
                ffn_parameters=ffn_parameters(d, experts=kind.experts),
            )
        )
    return NetworkOps(
        blocks=tuple(blocks),
        embedding=tuple(embedding(d)) if whole else (),
        head=tuple(head(d)) if whole else (),
    )


def _name(d: Dims, experts: bool, window: int) -> str:
    """Name a kind: "layer", with what tells it apart: "window", and "dense" or "expert" in a model with experts."""
    words = ["window"] if window else []
    if d.model.experts:
        words.append("expert" if experts else "dense")
    return " ".join([*words, "layer"])


def _block(d: Dims, layer: str, *, experts: bool, window: int) -> list[Op]:
    """Return forward and backward ops of one block, without recomputation.

    Parallel attention and network are listed one after the other, and their two adds stay two kernels.
    """
    model = d.model
    if model.network == "ffn":
        return _ffn(d, layer, experts)
    if model.network == "attention":
        return attention_part(d, layer, window)
    stream = d.stream_tokens * d.hidden
    norm, residual = pieces.norm(d, d.numbers.residual), pieces.residual(d)
    norms = model.norms_per_layer
    one_norm = model.parallel_residual and norms == 1
    ops = pair("attention norm", layer, stream, *norm) if norms > 0 else []
    ops += attention_part(d, layer, window)
    if norms > 2:
        ops += pair("attention output norm", layer, stream, *norm)
    ops += pair("attention residual", layer, stream, *residual)
    if norms > 1:
        ops += pair("ffn norm", layer, stream, *norm)
    ops += _ffn(d, layer, experts, shares_input=one_norm)
    if one_norm:
        ops.append(kernels("norm gradient sum", layer, "backward", elements=stream, stream=3 * d.numbers.residual,
                           flops_per_element=1))  # fmt: skip
    if norms > 3:
        ops += pair("ffn output norm", layer, stream, *norm)
    return ops + pair("ffn residual", layer, stream, *residual)


def _ffn(d: Dims, layer: str, experts: bool, *, shares_input: bool = False) -> list[Op]:
    return expert_part(d, layer) if experts else feed_forward(d, layer, width=d.ffn, shares_input=shares_input)


def _ffn_gradient_bytes(d: Dims, experts: bool) -> Number:
    model, e = d.model, d.numbers.compute
    up_count = 2 if model.gated_ffn else 1
    if model.network == "attention":
        return 0.0
    if not experts:
        return d.tokens * d.ffn * e * up_count
    # Gradients of the rows that go to experts live beside those inside them; shared experts have their own moment.
    routed = routed_rows(d) * (d.expert_ffn * up_count + d.hidden)
    return maximum(routed, d.tokens * d.shared_ffn * up_count) * e
