"""Tensor parallelism 1D (Megatron): which collectives one block needs, with and without sequence parallelism."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.networks.dims import VOCAB_PARALLEL_FRAMEWORKS, Dims
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One collective of the tensor parallel group: its kind, payload, phase and executions per micro-batch."""

    name: str
    kind: str
    phase: str
    payload_bytes: Number
    count: Number


def block_exchanges(d: Dims, *, sequence_parallel: bool, attention: bool = True, ffn: bool = True) -> list[Exchange]:
    """Return a block's collectives: an all-reduce each way for each column-row pair of linears (attention, FFN).

    Sequence parallelism turns each into a gather and a scatter. Shoeybi 2019, arXiv 1909.08053, section 3; Korthikanti
    2022, arXiv 2205.05198, section 4.2.2. Eager PyTorch (DTensor) does not fuse q, k, v nor gate and up, so backward
    reduces once per projection. Full recomputation repeats forward's exchanges, but for the block's last.
    """
    payload = d.tokens * d.hidden * d.numbers.compute
    pairs = float(attention) + float(ffn)
    again = d.recompute == "full"
    again_in, again_out = (pairs, float(attention)) if again else (0.0, 0.0)
    if not sequence_parallel:
        reduces = pairs
        if not d.fused_projections:
            reduces = (3.0 if attention else 0.0) + ((2.0 if d.model.gated_ffn else 1.0) if ffn else 0.0)
        return [
            Exchange(name="block output sums", kind="all-reduce", phase="forward", payload_bytes=payload, count=pairs),
            Exchange(name="block input gradient sums", kind="all-reduce", phase="backward", payload_bytes=payload,
                     count=reduces + again_out),
        ]  # fmt: skip
    gathered = payload
    if attention and d.model.kv_lora_rank:
        # Latent attention projects down before it gathers: what travels are the latents.
        latents = (d.model.q_lora_rank or d.hidden) + d.model.kv_lora_rank + d.model.qk_rope_head_dim
        gathered = (latents / d.hidden + float(ffn)) / pairs * payload
    return [
        Exchange(name="sequence gather", kind="all-gather", phase="forward", payload_bytes=gathered, count=pairs),
        Exchange(name="sequence scatter", kind="reduce-scatter", phase="forward", payload_bytes=payload, count=pairs),
        # Backward gathers the outputs' gradients, and the inputs once more for the weight gradients.
        Exchange(name="gradient gather", kind="all-gather", phase="backward", payload_bytes=payload,
                 count=2.0 * pairs + again_in),
        Exchange(name="gradient scatter", kind="reduce-scatter", phase="backward", payload_bytes=payload,
                 count=pairs + again_out),
    ]  # fmt: skip


def edge_exchanges(d: Dims, *, sequence_parallel: bool) -> tuple[list[Exchange], list[Exchange]]:
    """Return the collectives of a vocabulary-parallel embedding, head and loss; none where they are replicated.

    Sequence parallelism scatters the embedding's sum and gathers the head's input: the same bytes, in other places.
    """
    if d.tp_kind == "1d" and d.training.framework not in VOCAB_PARALLEL_FRAMEWORKS:
        return [], []
    payload = d.tokens * d.hidden_width * d.numbers.compute

    def one(name: str, kind: str, phase: str) -> Exchange:
        return Exchange(name=name, kind=kind, phase=phase, payload_bytes=payload, count=1.0)

    loss = Exchange(name="loss sums", kind="all-reduce", phase="forward", payload_bytes=4.0 * d.tokens, count=3.0)
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
            one("head input gather", "all-gather", "backward"),
            one("logits gradient scatter", "reduce-scatter", "backward"),
        ],
    )
