"""Expert parallelism: the messages that carry tokens to their experts and back."""

from __future__ import annotations

from estimator.communication.message import Message
from estimator.operations.moe import fullest
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.units import Number


def expert_messages(d: RankSizes) -> list[Message]:
    """Return dispatch and combine of one expert block, both phases, and what full recomputation repeats.

    Every rank sends its share of tokens (tokens / tp, as Megatron routes under sequence parallelism) top_k times,
    padded to the capacity where one is set; an expert that is itself split gathers its tokens and scatters its sums
    (Lepikhin 2020, arXiv 2006.16668, section 3.2; Singh 2023, arXiv 2303.06318, section 4). Nothing hides them
    but ``ep_overlap``: Megatron-Core's --overlap-moe-expert-parallel-comm, or DualPipe (DeepSeek-V3, arXiv 2412.19437,
    section 3.2.1). Under ``ep_dispatch`` to-nodes (DeepEP) a token crosses to a node once. Recomputation needs what
    comes back to weigh it, unless weights were applied inside the experts.
    """
    model = d.model
    copies = model.top_k * fullest(d)
    elements = d.routed_tokens * copies * d.hidden
    payload = elements * d.widths.compute
    # Rows leave as the norm before the router wrote them, under autocast in fp32; results come back as products wrote
    # them. Gradients are of the same types.
    out = d.widths.residual if d.widths.autocast else d.widths.compute
    exchanged = elements * (out + d.widths.compute) / 2
    split = payload * d.expert_tp
    back = d.training.traits.redoes_whole_blocks or not d.training.traits.weighs_inside_experts

    def one(name: str, kind: str, group: str, phase: str, payload: Number, count: float) -> Message:
        return Message(name=name, kind=kind, axis=group, group=group, phase=phase, payload_bytes=payload, count=count,
                       hides_behind="compute" if d.ep_overlap else "",
                       copies=model.top_k if d.ep_dispatch == "to-nodes" else 0,
                       reachable_frac=model.reachable_frac,
                       sized=d.ep if group == "ep" else 1.0)  # fmt: skip

    found = [
        one("expert dispatch, combine", "all-to-all", "ep", "forward", exchanged, 2.0),
        one("expert dispatch, combine gradients", "all-to-all", "ep", "backward", exchanged, 2.0),
        one("expert token gather", "all-gather", "expert_tp", "forward", split, 1.0),
        one("expert sum scatter", "reduce-scatter", "expert_tp", "forward", split, 1.0),
        one("expert gradient gather", "all-gather", "expert_tp", "backward", split, 1.0),
        one("expert gradient scatter", "reduce-scatter", "expert_tp", "backward", split, 1.0),
    ]
    if d.recompute == "full":
        found += [
            one("expert dispatch, combine again", "all-to-all", "ep", "backward", exchanged, 2.0 if back else 1.0),
            one("expert token gather again", "all-gather", "expert_tp", "backward", split, 1.0),
        ]
        if back:
            found.append(one("expert sum scatter again", "reduce-scatter", "expert_tp", "backward", split, 1.0))
    return found
