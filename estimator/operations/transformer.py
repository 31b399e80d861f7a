"""Transformer: every op of one micro-batch on one rank, by kind of block, and what a block holds there."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations import elementwise
from estimator.operations.attention import attention_part
from estimator.operations.elementwise import pair
from estimator.operations.feed_forward import feed_forward
from estimator.operations.linear import linear
from estimator.operations.moe import expert_part, routed_rows
from estimator.operations.op import WHOLE, Op, fetched_at_once, kernels
from estimator.operations.rank_parameters import RankParameters, ffn_parameters, parameters_of
from estimator.operations.rank_sizes import RankSizes
from estimator.operations.recompute import recomputed
from estimator.operations.torch_kernels import FEW_INDICES, SORTED_LAUNCHES, SORTED_PASSES
from estimator.scenario.arrays import maximum, where
from estimator.scenario.model import block_kinds
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class BlockOps:
    """One kind of block: how many of the model's ``layers`` are of it, its ops per micro-batch, its parameters.

    ``leading`` blocks come first in the stack, other kinds are mixed evenly. ``plain`` are the ops without
    recomputation. ``ffn_gradient_bytes``: gradients of the feed-forward part's inner activations at the fullest moment
    of its backward; ``ffn_parameters``: this rank's weights of that part.
    """

    name: str
    layers: int
    leading: bool
    experts: bool
    ops: tuple[Op, ...]
    plain: tuple[Op, ...]
    parameters: RankParameters
    ffn_gradient_bytes: Number
    ffn_parameters: Number


@dataclass(frozen=True, kw_only=True)
class NetworkOps:
    """Ops per execution: of each kind of block, of the first stage's embedding, of the last stage's head."""

    blocks: tuple[BlockOps, ...]
    embedding: tuple[Op, ...]
    head: tuple[Op, ...]


def network(d: RankSizes) -> NetworkOps:
    """Return every op that one micro-batch needs on one rank; bare stacks have neither embedding nor head."""
    whole = d.model.network == "transformer"
    blocks = []
    for kind in block_kinds(d.model):
        name = _name(d, kind.experts, kind.window)
        plain = _block(d, name, experts=kind.experts, window=kind.window)
        ops = tuple(recomputed(d, plain, name, experts=kind.experts))
        blocks.append(
            BlockOps(
                name=name,
                layers=kind.layers,
                leading=kind.leading,
                experts=kind.experts,
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


def _name(d: RankSizes, experts: bool, window: int) -> str:
    """Name a kind: "layer", with what tells it apart: "window", and "dense" or "expert" in a model with experts."""
    words = ["window"] if window else []
    if d.model.experts:
        words.append("expert" if experts else "dense")
    return " ".join([*words, "layer"])


def _block(d: RankSizes, layer: str, *, experts: bool, window: int) -> list[Op]:
    """Return forward and backward ops of one block, without recomputation.

    Parallel attention and network are listed one after the other, and their two adds stay two kernels.
    """
    model = d.model
    if model.network == "ffn":
        return _ffn(d, layer, experts)
    if model.network == "attention":
        return attention_part(d, layer, window)
    stream = d.stream_tokens * d.hidden
    norm, residual = elementwise.norm(d, d.widths.residual, d.hidden), elementwise.residual(d)
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
        ops.append(kernels("norm gradient sum", layer, "backward", elements=stream, stream=3 * d.widths.residual,
                           chained=((d.widths.residual, 1),), flops_per_element=1))  # fmt: skip
    if norms > 3:
        ops += pair("ffn output norm", layer, stream, *norm)
    return ops + pair("ffn residual", layer, stream, *residual)


def _ffn(d: RankSizes, layer: str, experts: bool, *, shares_input: bool = False) -> list[Op]:
    return expert_part(d, layer) if experts else feed_forward(d, layer, width=d.ffn, shares_input=shares_input)


def _ffn_gradient_bytes(d: RankSizes, experts: bool) -> Number:
    model, e = d.model, d.widths.compute
    up_count = 2 if model.gated_ffn else 1
    if model.network == "attention":
        return 0.0
    if not experts:
        return d.tokens * d.ffn * e * up_count
    # Gradients of the rows that go to experts live beside those inside them; shared experts have their own moment.
    routed = routed_rows(d) * (d.expert_ffn * up_count + d.hidden)
    return maximum(routed, d.tokens * d.shared_ffn * up_count) * e


def embedding(d: RankSizes) -> list[Op]:
    """Return the token (and position) look-up; backward scatters into a zeroed gradient of the whole table."""
    n, elements = d.widths, d.tokens * d.hidden_width
    lookups = 2 if d.model.position == "learned" else 1
    width = n.parameter if n.autocast else n.residual
    table = (d.vocab + d.positions) * d.hidden_width / d.row_gather
    # More tokens than FEW_INDICES are sorted before their gradients are added.
    launches = where(d.tokens > FEW_INDICES, SORTED_LAUNCHES, 1.0) * lookups
    passes = where(d.tokens > FEW_INDICES, SORTED_PASSES, 1.0) * lookups
    ops = [
        kernels("embedding", "embedding", "forward", elements=elements, stream=(2 * lookups + lookups - 1) * width,
                chained=((width, lookups - 1.0),), launches=2 * lookups - 1.0),
        kernels("embedding gradient", "embedding", "backward", elements=elements * passes, mixed=1.0, slow_bytes=width,
                launches=launches),
        kernels("embedding gradient table", "embedding", "backward", elements=table, stream=width,
                launches=lookups * 1.0),
    ]  # fmt: skip
    if d.model.tied_embedding and d.model.head and not d.fused:
        # Added to what the head left.
        shared = d.vocab * d.hidden_width / d.row_gather
        ops.append(kernels("tied gradient sum", "embedding", "backward", elements=shared, stream=3 * n.gradient,
                           chained=((n.gradient, 1),), flops_per_element=1))  # fmt: skip
    return ops


def head(d: RankSizes) -> list[Op]:
    """Return the final norm, the logits and the loss; logits are not multiplied in fp8."""
    n = d.widths
    ops = pair("final norm", "head", d.stream_tokens * d.hidden, *elementwise.norm(d, n.residual, d.hidden))
    if not d.model.head:
        return ops
    fetched = fetched_at_once(d.model.vocab, n.compute)
    if fetched != WHOLE and d.fused and d.training.traits.pads_products and n.peak != "fp32":
        # The weight's rows of the vocabulary and the logits' gradient, each copied once for all that multiply them.
        fetched = WHOLE
        for phase, elements in (("forward", d.vocab * d.hidden_width), ("backward", d.tokens * d.vocab)):
            ops.append(kernels("padding of the vocabulary", "head", phase, elements=elements, stream=2 * n.compute))
    ops += linear(d, "logits", "head", inputs=d.hidden_width, outputs=d.vocab, fetched=fetched, quantised=False,
                  kept=d.kept_tokens * d.hidden)  # fmt: skip
    return ops + pair("cross-entropy", "head", d.tokens * d.vocab, *elementwise.cross_entropy(d), views=LOSS_VIEWS)


LOSS_VIEWS = 8.0, 3.0
"""Ops around the loss that launch nothing, forward and backward: logits and targets flattened, what is told of it taken
off the graph."""
