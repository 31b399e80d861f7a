"""Rank sizes: the plain numbers of one rank's share of a transformer, from which every op's size follows.

Degrees and sizes may be NumPy arrays; choices (style, attention, recompute) are branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from estimator.scenario.arrays import maximum
from estimator.scenario.grid_shape import grid_of
from estimator.scenario.model import Model
from estimator.scenario.precision import ByteWidths, byte_widths
from estimator.scenario.training import SCORES_KEPT, Training
from estimator.scenario.units import Number

if TYPE_CHECKING:
    from estimator.scenario.scenario import Scenario


FP32_BYTES = 4.0


@dataclass(frozen=True, kw_only=True)
class RankSizes:
    """One rank's sizes for one micro-batch; widths are the rank's own, but for ``hidden``.

    Every tensor between products has ``tokens`` · width elements on a rank. ``tokens`` = micro_batch · seq_len / cp,
    divided again by the rows of a tensor parallel grid; ``stream_tokens`` · hidden (= its share where sequence
    parallelism or a grid splits the stream) is the tensor between blocks. ``hidden_width``: columns of that stream that
    a product of this rank reads or writes: hidden, or hidden / q on a q × q grid. ``routed_tokens``: tokens that this
    rank sends to experts. ``kv_width`` is the mean of ``key_width`` and ``value_width``; ``core_width`` is what the
    attention core puts out. ``scores``: elements of this rank's score matrices. ``multi_tensor``: the optimizer runs
    over all tensors at once, as PyTorch does on GPUs. ``kept_tokens``: those whose inputs a column linear keeps under
    sequence parallelism: all where it ``keeps_gathered`` ones (DTensor), else the rank's share, gathered again in
    backward (Megatron).

    A product on a grid: SUMMA (2d, 2.5d) adds ``steps`` = q panel products (m/q × k/q)·(k/q × n/q); 3d gathers rows
    ``row_gather`` = q times and multiplies once. A matrix of K·N weights occupies K/q · N/q / ``row_gather``.
    """

    tokens: Number
    stream_tokens: Number
    kept_tokens: Number
    routed_tokens: Number
    sequences: Number
    seq_len: Number
    hidden: Number
    hidden_width: Number
    heads: Number
    head_dim: Number
    query_width: Number
    key_width: Number
    value_width: Number
    kv_width: Number
    core_width: Number
    ffn: Number
    shared_ffn: Number
    expert_ffn: Number
    local_experts: Number
    vocab: Number
    positions: Number
    tp: Number
    tp_kind: str
    grid_side: Number
    steps: Number
    row_gather: Number
    cp: Number
    cp_kind: str
    ep: Number
    expert_tp: Number
    widths: ByteWidths
    model: Model
    training: Training
    recompute: str
    recompute_every: int
    fused: bool
    groups_experts: bool
    multi_tensor: bool
    caching_allocator: bool
    fused_projections: bool
    keeps_gathered: bool
    tp_overlap: bool = False
    ep_overlap: bool = False
    ep_dispatch: str = "to-experts"
    causal: bool = True

    @property
    def scores(self) -> Number:
        """Elements of this rank's score matrices: sequences · heads · S² / cp, whatever the algorithm."""
        return self.sequences * self.heads * self.seq_len * self.seq_len / self.cp

    @property
    def rings_by_kernel(self) -> bool:
        """Whether a ring of several ranks has the scores of its pieces in memory, none of which it keeps.

        Plain PyTorch's FlashAttention takes 16 bits alone, and is what gives a piece's sums.
        """
        unfused = self.training.attention in SCORES_KEPT or self.widths.compute >= FP32_BYTES
        return self.cp_kind == "ring" and not self.fused and unfused


def rank_sizes(scenario: Scenario, **arrays: Any) -> RankSizes:
    """Collect the sizes of a scenario; ``arrays`` may replace a degree (tp, tp_depth, cp, ep, expert_tp) or a size.

    Sizes are ``micro_batch`` and ``seq_len``. A rank of a grid has 1/rows of the tokens and 1/q of every width:
    rows = q (2d), depth·q (2.5d), q² (3d), so that each tensor is split over all of them.
    """
    model, plan, training = scenario.model, scenario.plan, scenario.training
    tp: Number = arrays.get("tp", plan.tp)
    cp: Number = arrays.get("cp", plan.cp)
    ep: Number = arrays.get("ep", plan.ep)
    expert_tp: Number = arrays.get("expert_tp", plan.expert_tp)
    micro_batch: Number = arrays.get("micro_batch", plan.micro_batch)
    seq_len: Number = arrays.get("seq_len", training.seq_len)
    side = grid_of(plan.tp_kind, tp, arrays.get("tp_depth", plan.tp_depth))
    grid = plan.tp_kind != "1d"
    # Ranks that split a tensor's columns, and ranks that split its rows.
    columns = side if grid else tp
    rows = tp / side if grid else 1
    tokens = micro_batch * seq_len / (cp * rows)
    share = tokens / columns
    split_vocab = grid or training.traits.vocab_parallel
    heads = model.heads / columns
    query_width = model.query_width / columns
    latent = model.kv_lora_rank > 0
    value_dim = (model.v_head_dim if latent else 0) or model.dim
    # Where tp exceeds the key/value heads, ranks hold copies: no rank has less than one head.
    grouped_width = maximum(model.kv / columns, 1.0) * model.dim
    key_width = query_width if latent else grouped_width
    value_width = heads * value_dim if latent else grouped_width
    expert_ffn = model.moe_ffn or model.ffn
    stream_tokens = share if grid or plan.sequence_parallel else tokens
    keeps_gathered = not grid and training.traits.keeps_gathered
    return RankSizes(
        tokens=tokens,
        stream_tokens=stream_tokens,
        kept_tokens=tokens if keeps_gathered else stream_tokens,
        routed_tokens=share,
        sequences=micro_batch / rows,
        seq_len=seq_len,
        hidden=model.hidden,
        hidden_width=model.hidden / side,
        heads=heads,
        head_dim=model.dim,
        query_width=query_width,
        key_width=key_width,
        value_width=value_width,
        kv_width=(key_width + value_width) / 2,
        core_width=heads * value_dim,
        ffn=model.ffn / columns,
        shared_ffn=model.shared_experts * expert_ffn / columns,
        expert_ffn=expert_ffn / expert_tp,
        local_experts=model.experts / ep,
        vocab=model.vocab / columns if split_vocab else model.vocab,
        positions=(model.max_positions or seq_len) if model.position == "learned" else 0,
        tp=tp,
        tp_kind=plan.tp_kind,
        grid_side=side,
        steps=side if plan.tp_kind in ("2d", "2.5d") else 1.0,
        row_gather=side if plan.tp_kind == "3d" else 1.0,
        cp=cp,
        cp_kind=plan.cp_kind,
        ep=ep,
        expert_tp=expert_tp,
        widths=byte_widths(training, plan),
        model=model,
        training=training,
        recompute=plan.recompute,
        recompute_every=plan.recompute_every,
        fused=training.fused,
        groups_experts=training.groups_experts,
        multi_tensor=training.updates_together(cpu=scenario.cluster.chip.kind == "cpu"),
        # A CPU's memory comes from malloc.
        caching_allocator=scenario.cluster.chip.kind != "cpu" and training.traits.caching_allocator,
        fused_projections=training.traits.fuses_projections or model.position != "rope",
        keeps_gathered=keeps_gathered,
        tp_overlap=plan.tp_overlap,
        ep_overlap=plan.ep_overlap,
        ep_dispatch=plan.ep_dispatch,
    )
