"""Mixture of experts: router, permutation, grouped expert networks, shared experts and the weighted sum."""

from __future__ import annotations

from collections.abc import Sequence

from estimator.operations.elementwise import KernelCost, pair
from estimator.operations.feed_forward import feed_forward
from estimator.operations.linear import linear
from estimator.operations.op import Op, kernels
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.arrays import maximum, where
from estimator.scenario.units import Number


def routed_rows(d: RankSizes) -> Number:
    """Rows that the fullest rank's experts multiply together: tokens · top_k · expert_tp · imbalance.

    Ranks exchange as many rows as they receive; ranks that split an expert gather each other's. A capacity pads every
    expert to ``capacity_factor`` times its even share (GShard, arXiv 2006.16668, section 2.2).
    """
    return d.routed_tokens * d.model.top_k * fullest(d) * d.expert_tp


def fullest(d: RankSizes) -> float:
    """Rows of the fullest rank over its even share."""
    return d.model.capacity_factor or d.training.expert_imbalance


def reached(places: Number, copies: int, reachable_frac: float = 1.0) -> Number:
    """Expected number of ``places`` (ranks, nodes) that hold any of a token's experts: m·(1 − (1 − 1/m)^copies).

    m is the share of the places that hold the experts of the groups that a token has chosen, at least one (DeepSeek-V3,
    arXiv 2412.19437, section 2.1.2).
    """
    near = maximum(places * reachable_frac, 1.0)
    return near * (1 - (1 - 1 / near) ** copies)


VIEWS_OF_KERNEL = 0.93
"""Views that each kernel of routing and of experts counts for at least, by what the host takes for it: as many as a
Llama's kernels have (``host_forward_dispatches_per_kernel`` less the kernel). Routing has few, but sorts, top-k and
exchanges, which take the host up to ten times a plain op (argsort 0.2 ms, repeat_interleave 0.28, an all-to-all with
autograd 0.21, a product 0.018; profiled, H200)."""


def expert_part(d: RankSizes, layer: str) -> list[Op]:
    """Return the ops that replace the dense network in a block with experts (Megatron-Core's dropless layer)."""
    ops = _expert_ops(d, layer)
    for op in ops:
        op.views = maximum(op.views, VIEWS_OF_KERNEL * op.launches)
    if d.training.traits.routes_op_by_op:
        _route_op_by_op(d, ops)
    if d.model.shared_experts:
        ops += _shared(d, layer)
    return ops


EXCHANGE_KERNELS = 9.4
"""Kernels of plain PyTorch that an exchange with autograd takes the host as long as: 0.21 ms where one takes 22 µs
(profiled, H200: as VIEWS_OF_KERNEL)."""


def _route_op_by_op(d: RankSizes, ops: Sequence[Op]) -> None:
    """Add what Megatron-Core's router and its all-to-all dispatcher launch beside the kernels that are listed.

    Kernels dispatched forward and backward by the code of router.py, moe_utils.py and token_dispatcher.py of
    megatron/core/transformer/moe (August 2026), counted by torch. Scores: softmax 8 and 5; sigmoids with groups of
    experts and a bias, which models with latent attention have, 22 and 12, and 2 for the bias's own count. A balancing
    loss: 16 and 5, of sigmoids 19 and 12. How many rows each rank sends: 11, four copies to the host among them.
    Less those that are listed. Tokens, their weights and results are exchanged, and how many each expert gets.
    """
    sigmoid = bool(d.model.kv_lora_rank)
    forward, backward = (22 + 2 + 19 + 11, 12 + 12) if sigmoid else (8 + 16 + 11, 5 + 5)
    apart = where(d.ep > 1, 1.0, 0.0)
    for op in ops:
        if op.name == "router scores":
            op.plain = forward - op.launches + 4 * apart * EXCHANGE_KERNELS
        elif op.name == "router scores gradient":
            op.plain = backward - op.launches + 3 * apart * EXCHANGE_KERNELS


def _expert_ops(d: RankSizes, layer: str) -> list[Op]:
    model, n = d.model, d.widths
    e = n.residual if n.autocast else n.compute
    tokens = d.routed_tokens
    loops: Number = 1.0 if d.groups_experts else d.local_experts
    ops = linear(d, "router", layer, inputs=d.hidden, outputs=model.experts, rows=tokens, whole=True, quantised=False,
                 bias=model.router_bias)  # fmt: skip
    ops += pair("router scores", layer, tokens * model.experts, *_scores(d))
    ops.append(kernels("router gradient sum", layer, "backward", elements=tokens * d.hidden, stream=3 * e,
                       chained=((e, 1),), flops_per_element=1))  # fmt: skip
    copies = tokens * model.top_k * d.hidden
    rows = routed_rows(d)
    # What arrives from other ranks is ordered by sender; it is sorted by expert, and back.
    sorts = where(d.ep > 1, 1.0, 0.0)
    one_rank = _none(sorts)
    # Who sends a token once to each rank sends it as it lies, and copies it there; what comes back is one sum.
    once = d.ep_dispatch == "to-nodes"
    copied: Number = 1.0 - sorts if once else 1.0
    summed: Number = copied if d.training.traits.weighs_inside_experts else 1.0
    if not _none(copied):
        ops += pair("expert permutation", layer, copies * copied, *_permutation(d, e), times=loops * copied)
    arrived = reached(d.ep, model.top_k, model.reachable_frac) / model.top_k if once else 1.0
    sort, unsort = _sorting(d, e, arrived)
    if not one_rank:
        ops += pair("expert sort", layer, rows * d.hidden * sorts, *sort, times=sorts)
    ops += feed_forward(d, layer, width=d.expert_ffn, rows=rows / d.local_experts, experts=d.local_experts,
                        kept=rows * d.hidden, whole=True, prefix="expert ",
                        joined=d.training.experts != "default" and not d.fused)  # fmt: skip
    if (model.bias or model.ffn_bias) and _apart(d):
        ops += pair("expert bias", layer, rows * d.hidden, *_weighed_bias(d), times=1.0)
    if not one_rank:
        ops += pair("expert unsort", layer, rows * d.hidden * sorts, *unsort, times=sorts)
    if not _none(summed):
        ops += pair("expert combine", layer, copies * summed, *_combine(d, e), times=loops * summed)
    return ops


def _shared(d: RankSizes, layer: str) -> list[Op]:
    """Experts that see every token: one dense network, split as one; the router has kept most of its input."""
    model, e = d.model, d.widths.compute
    kept = maximum(d.kept_tokens - d.routed_tokens, 0.0) * d.hidden
    ops: list[Op] = []
    if model.shared_expert_gate:
        ops += linear(d, "shared gate", layer, inputs=d.hidden, outputs=1, rows=d.routed_tokens, whole=True,
                      quantised=False, saves_input=False)  # fmt: skip
    ops += feed_forward(d, layer, width=d.shared_ffn, kept=kept, prefix="shared ")
    # Forward adds to the experts' sum, backward to the gradient of the input; a gate reads and keeps one tensor more.
    both = KernelCost(stream=3 * e, chained=((e, 1),), flops=1), KernelCost(stream=3 * e, chained=((e, 1),), flops=1)
    if model.shared_expert_gate:
        both = (
            KernelCost(stream=4 * e, chained=((e, 1),), saved=e, flops=2),
            KernelCost(stream=7 * e, chained=((e, 2),), launches=2, flops=3),
        )
    return ops + pair("shared sum", layer, d.stream_tokens * d.hidden, *both)


def _scores(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """Softmax or sigmoid in fp32, top-k, normalisation and the count of tokens per expert."""
    if d.fused:
        return KernelCost(stream=12, launches=4, flops=8, saved=4), KernelCost(stream=12, launches=3, flops=6)
    return KernelCost(stream=24, launches=9, flops=8, saved=8), KernelCost(stream=24, launches=8, flops=6)


def _none(share: Number) -> bool:
    """Whether a plain number is 0; of an array some elements may be more."""
    return isinstance(share, float) and not share


def _apart(d: RankSizes) -> bool:
    """Whether a framework that weighs rows inside the experts does so to their biases in kernels of its own."""
    traits = d.training.traits
    return traits.weighs_inside_experts and not traits.lower_bound and not d.training.fuses_experts


def _weighed_bias(d: RankSizes) -> tuple[KernelCost, KernelCost]:
    """The down projection's bias times each row's weight, added to the row: y + w·b in fp32, expert by expert.

    w·b (fp32 weights), y + w·b, all experts' rows joined, the cast back (TEGroupedMLP of megatron/core/transformer/moe,
    ``_apply_bias``). Backward: the gradient in fp32, its cast for y, those of all experts joined, w·g and its sum over
    rows for b, b·g and its sum along each row for w. Launches are of one expert: the host goes through the others' in
    loops too lean for what a launch of a module costs.
    """
    e = d.widths.compute
    forward = KernelCost(stream=8 + 4 + e, mixed=2, slow_bytes=4 + e + 8, launches=4, flops=2)
    moved = (e + 4) + (4 + e) + 2 * e + 4 + 4
    return forward, KernelCost(stream=moved, column=4, mixed=1, strided=1, slow_bytes=16, launches=7, flops=4)


ADDED_PASSES = 1.6
"""Passes of mixed types that take as long as ``index_add``, whose threads add to the same rows by turns (H200, torch
2.11: 0.125 T elements/s in bf16, 0.147 in fp32, beside 0.21 of mixed types)."""


def _permutation(d: RankSizes, e: float) -> tuple[KernelCost, KernelCost]:
    """Rows gathered by expert; backward adds their gradients up by token."""
    if d.fused:
        return KernelCost(stream=2 * e), KernelCost(stream=2 * e, flops=1)
    added = KernelCost(stream=e / d.model.top_k, mixed=ADDED_PASSES, slow_bytes=3 * e, launches=2, flops=1)
    return KernelCost(stream=2 * e), added


def _sorting(d: RankSizes, e: float, arrived: Number) -> tuple[tuple[KernelCost, KernelCost], ...]:
    """Rows from other ranks into the order of experts, of which ``arrived`` came, and results back.

    Without a kernel for it, rows are gathered, whose gradients are added up by index onto zeros, and results, which are
    in the experts' precision, are copied by index into a copy of what is to hold them (torch's ``index_copy``).
    """
    if d.fused:
        both = KernelCost(stream=(1 + arrived) * e), KernelCost(stream=(1 + arrived) * e)
        return both, both
    result = d.widths.compute
    added = KernelCost(stream=e, mixed=ADDED_PASSES, slow_bytes=3 * e, launches=2, flops=1)
    copied = KernelCost(stream=2 * result, strided=1, slow_bytes=2 * result, launches=2)
    return (KernelCost(stream=(1 + arrived) * e), added), (copied, KernelCost(stream=2 * result))


def _combine(d: RankSizes, e: float) -> tuple[KernelCost, KernelCost]:
    """Sum of top_k rows per token; who does not weigh them inside the experts does so here, and keeps the rows."""
    written = e / d.model.top_k
    if d.training.traits.weighs_inside_experts:
        return KernelCost(stream=e + written, flops=1), KernelCost(stream=e + written)
    if d.fused:
        return KernelCost(stream=3 * e + written, launches=2, flops=2, saved=e), KernelCost(
            stream=4 * e + written, launches=3, flops=3
        )
    # Rows times their weights, which are fp32 under autocast, added up by token; backward gathers the gradients, then
    # multiplies them with the weights, and with the rows for the weights' own gradients, whose sums these are. Rows are
    # kept for those, and products by index_add, which asks its source for a shape.
    cast = 1.0 if d.widths.autocast else 0.0
    forward = KernelCost(stream=written, strided=1 - cast, mixed=cast + ADDED_PASSES,
                         slow_bytes=d.widths.compute + 4 * e, launches=3, flops=2,
                         saved=d.widths.compute + e)  # fmt: skip
    return forward, KernelCost(stream=6 * e, strided=1, slow_bytes=2 * e, launches=4, flops=3)
