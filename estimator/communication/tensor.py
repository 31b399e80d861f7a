"""Tensor parallelism 1D (Megatron): which collectives one block needs, with and without sequence parallelism."""

from __future__ import annotations

from estimator.communication.message import Message
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.units import Number


def tensor_messages(
    d: RankSizes, *, sequence_parallel: bool, attention: bool = True, ffn: bool = True
) -> list[Message]:
    """Return a block's collectives: an all-reduce each way for each column-row pair of linears (attention, FFN).

    Sequence parallelism turns each into a gather and a scatter. Shoeybi 2019, arXiv 1909.08053, section 3; Korthikanti
    2022, arXiv 2205.05198, section 4.2.2. Parallel attention and FFN are added before one sum (GPT-NeoX, gpt_j_residual
    in megatron/model/transformer.py); its column linears still sum their input gradients one by one. Under
    ``tp_overlap`` each passes beside the product that takes or makes it, one rank's share after the other (Transformer
    Engine's tp_comm_overlap; Wang 2023, doi 10.1145/3567955.3567959).
    """
    payload = d.tokens * d.hidden * d.widths.compute
    pairs = float(attention) + float(ffn)
    if not pairs:
        return []
    merged = d.model.parallel_residual and d.training.traits.merges_parallel and pairs == 2
    sums = 1.0 if merged else pairs
    # The last sum feeds only the next block, so whoever stops at the last tensor that backward needs leaves it out.
    ends = ffn or d.model.network == "attention"
    again = sums - float(ends and not d.training.traits.redoes_whole_blocks)
    redone = d.recompute == "full" or (d.recompute == "selective" and d.training.traits.keeps_products)
    if not redone or (d.recompute == "selective" and sequence_parallel):
        again = 0.0  # what is kept by op is kept of scatters, too (_c10d_functional.reduce_scatter_tensor), not of sums

    beside = "products" if d.tp_overlap and sequence_parallel else ""

    def one(name: str, kind: str, phase: str, count: float, size: Number = 1.0) -> Message:
        return Message(name=name, kind=kind, axis="tp", group="tp", phase=phase, payload_bytes=payload * size,
                       count=count, host=d.tp, hides_behind=beside)  # fmt: skip

    if not sequence_parallel:
        reduces, width = _input_gradients(d, attention, ffn, merged)
        found = [
            one("tensor parallel all-reduce", "all-reduce", "forward", sums),
            one("tensor parallel gradient all-reduce", "all-reduce", "backward", reduces, width / reduces),
            one("tensor parallel all-reduce again", "all-reduce", "backward", again),
        ]
        return [x for x in found if x.count > 0]
    width = (_latents(d) / d.hidden if attention and d.model.latent else float(attention)) + float(ffn)
    gathers = pairs
    if merged and _one_input(d):
        gathers, width = 1.0, 1.0
    each = width / gathers
    found = [
        one("sequence gather", "all-gather", "forward", gathers, each),
        one("sequence scatter", "reduce-scatter", "forward", sums),
        one("sequence gather again", "all-gather", "backward", gathers if redone else 0.0, each),
        one("sequence scatter again", "reduce-scatter", "backward", again),
        one("gradient gather", "all-gather", "backward", sums),
        # Megatron keeps its share of the inputs and gathers them once more for the weight gradients.
        one("input gather for weights", "all-gather", "backward", 0.0 if d.keeps_gathered else gathers, each),
    ]
    if d.training.traits.dtensor:
        # The gathered input is plain to the linears, each of which sums its gradient whole before a share is cut off.
        reduces, width = _input_gradients(d, attention, ffn, merged)
        found.append(one("tensor parallel gradient all-reduce", "all-reduce", "backward", reduces, width / reduces))
    else:
        found.append(one("gradient scatter", "reduce-scatter", "backward", gathers, each))
    return [x for x in found if x.count > 0]


def _input_gradients(d: RankSizes, attention: bool, ffn: bool, merged: bool) -> tuple[float, Number]:
    """Return how many input gradients a block sums without sequence parallelism, and their width over ``hidden``.

    Eager PyTorch (DTensor) does not fuse q, k, v nor gate and up, and sums the gradient of each; latent attention those
    of its latents, from which its column linears project up.
    """
    if merged and _one_input(d):
        return 1.0, 1.0
    projections, ups = 1.0, 1.0
    if not d.fused_projections:
        projections, ups = 2.0 if d.model.latent else 3.0, 2.0 if d.model.gated_ffn else 1.0
    width: Number = _latents(d) / d.hidden if d.model.latent else projections
    return projections * attention + ups * ffn, width * attention + ups * ffn


def _latents(d: RankSizes) -> int:
    """Width of what latent attention's column linears read: the latents and the shared rotary key."""
    return (d.model.q_lora_rank or d.model.hidden) + d.model.latent_width


def _one_input(d: RankSizes) -> bool:
    """Whether attention and FFN read one norm, so that a compiler adds their input gradients before it sums them."""
    return d.model.norms_per_layer == 1 and d.training.traits.merges_input_gradients and not d.model.latent


def vocabulary_messages(d: RankSizes, *, sequence_parallel: bool) -> tuple[list[Message], list[Message]]:
    """Return the collectives of a vocabulary-parallel embedding, head and loss.

    Sequence parallelism scatters the embedding's sum and gathers the head's input: the same bytes, in other places.
    Replicated tables sum nothing; under sequence parallelism they cut and gather the stream. The ideal framework sends
    nothing either: it could replicate the tables too, so that a lower bound has no more than the cheaper of the two.
    """
    # A grid divides the vocabulary over the columns of a row.
    group, ranks = ("tp", d.tp) if d.tp_kind == "1d" else ("grid_row", d.grid_side)
    payload = d.tokens * d.hidden_width * d.widths.compute

    def one(name: str, kind: str, phase: str, size_bytes: Number = payload, count: float = 1.0) -> Message:
        return Message(name=name, kind=kind, axis="tp", group=group, phase=phase, payload_bytes=size_bytes,
                       count=count, host=ranks)  # fmt: skip

    if d.training.traits.lower_bound:
        return [], []
    if d.tp_kind == "1d" and not d.training.traits.vocab_parallel:
        if not sequence_parallel:
            return [], []
        return (
            [one("embedding gradient gather", "all-gather", "backward")],
            [one("head input gather", "all-gather", "forward")],
        )
    loss = one("loss sums", "all-reduce", "forward", 4.0 * d.tokens, 3.0)
    if not sequence_parallel:
        return (
            [one("embedding sum", "all-reduce", "forward")],
            [loss, one("logits gradient sum", "all-reduce", "backward")],
        )
    return (
        [one("embedding scatter", "reduce-scatter", "forward")],
        [
            one("head input gather", "all-gather", "forward"),
            loss,
            # As in a block: the inputs once more for the weight gradients, and their gradients to their owners.
            one("head input gather", "all-gather", "backward", count=0.0 if d.keeps_gathered else 1.0),
            one("logits gradient scatter", "reduce-scatter", "backward"),
        ],
    )
