"""Expert parallelism: the exchanges that carry tokens to their experts and back."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.networks.dims import Dims
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertExchange:
    """One collective of the expert or expert tensor parallel group per block and micro-batch."""

    name: str
    kind: str
    group: str
    phase: str
    payload_bytes: Number
    count: Number


def expert_exchanges(d: Dims) -> list[ExpertExchange]:
    """Return dispatch and combine of one expert block, both phases; full recomputation repeats forward's.

    Every rank sends its share of tokens (tokens / tp, as Megatron routes under sequence parallelism) top_k times,
    padded to the capacity where one is set; an expert that is itself split gathers its tokens and scatters its sums
    (Lepikhin 2020, arXiv 2006.16668, section 3.2; Singh 2023, arXiv 2303.06318, section 4).
    """
    model = d.model
    copies = model.top_k * (model.capacity_factor or 1.0)
    payload = d.routed_tokens * copies * d.hidden * d.numbers.compute
    again = 1.0 if d.recompute == "full" else 0.0
    split = payload * d.expert_tp
    return [
        ExpertExchange(name="expert dispatch, combine", kind="all-to-all", group="ep", phase="forward",
                       payload_bytes=payload, count=2.0),
        ExpertExchange(name="expert dispatch, combine gradients", kind="all-to-all", group="ep", phase="backward",
                       payload_bytes=payload, count=2.0 + 2.0 * again),
        ExpertExchange(name="expert token gather", kind="all-gather", group="expert_tp", phase="forward",
                       payload_bytes=split, count=1.0),
        ExpertExchange(name="expert sum scatter", kind="reduce-scatter", group="expert_tp", phase="forward",
                       payload_bytes=split, count=1.0),
        ExpertExchange(name="expert gradient gather", kind="all-gather", group="expert_tp", phase="backward",
                       payload_bytes=split, count=1.0 + again),
        ExpertExchange(name="expert gradient scatter", kind="reduce-scatter", group="expert_tp", phase="backward",
                       payload_bytes=split, count=1.0 + again),
    ]  # fmt: skip
