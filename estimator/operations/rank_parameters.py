"""Rank parameters: parameters of one block on one rank, by how tensor and expert parallelism divide them."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.parameters import block_parameters, linear_parameters_per_layer
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class RankParameters:
    """Parameters of one block on one rank.

    ``split`` over tp: attention's and the network's matrices, shared experts, biases along divided widths; ``whole`` on
    every rank of tp: norms, router, MLA's down-projections, biases of the stream's width; ``expert``: this rank's
    routed experts. ``cast``: weights that autocast copies to 16 bit. ``tensors`` and ``expert_tensors`` count tensors.
    """

    split: Number
    whole: Number
    expert: Number
    cast: Number
    tensors: Number
    expert_tensors: Number


def parameters_of(d: RankSizes, *, experts: bool) -> RankParameters:
    """Divide a block's parameters: matrices by tp (a 2.5d grid keeps a copy per depth), experts by ep · expert_tp."""
    model = d.model
    total = block_parameters(model, experts)
    ranks = d.grid_side * d.grid_side if d.tp_kind == "2.5d" else d.tp
    split, expert = total.split / ranks + _key_value_copies(d), total.expert / (d.ep * d.expert_tp)
    # Vectors lie along the columns of a grid.
    matrices_whole = _whole_matrices(d, experts)
    whole = matrices_whole + (total.whole - matrices_whole) / d.grid_side
    matrices = linear_parameters_per_layer(model, experts)
    routed = model.experts * _network(d, model.hidden, model.expert_ffn) if experts else 0
    cast = (matrices - routed - matrices_whole) / ranks + _key_value_copies(d) + matrices_whole
    return RankParameters(
        split=split,
        whole=whole,
        expert=expert,
        cast=cast + routed / (d.ep * d.expert_tp),
        tensors=_tensors(d, experts),
        expert_tensors=d.local_experts * (_network_tensors(d) * (2 if _ffn_bias(d) else 1)) if total.expert else 0.0,
    )


Matrices = tuple[tuple[tuple[Number, Number], ...], tuple[tuple[Number, Number], ...]]


def matrices_of(d: RankSizes, *, experts: bool) -> Matrices:
    """Elements and number of a block's large parameter tensors on one rank: the dense ones, then routed experts'."""
    model, width = d.model, d.hidden_width / d.row_gather
    up = 2 if model.gated_ffn else 1
    joined = d.fused_projections or not model.gated_ffn
    dense: list[tuple[Number, Number]] = []
    if model.network != "ffn" and not model.latent:
        keys_values = width * d.key_width, width * d.value_width
        if d.fused_projections:
            dense.append((width * d.query_width + sum(keys_values), 1))
        else:
            dense += [(width * d.query_width, 1), *((elements, 1) for elements in keys_values)]
        dense.append((width * d.core_width, 1))
    routed: list[tuple[Number, Number]] = []
    if model.network != "attention":
        inner = d.shared_ffn if experts else d.ffn
        dense += [(width * inner * (up if joined else 1), 1 if joined else up), (width * inner, 1)]
    if experts:
        # Grouped products read all experts' weights as one tensor each.
        each = model.hidden * d.expert_ffn
        together, apart = (d.local_experts, 1.0) if d.groups_experts else (1.0, d.local_experts)
        routed += [(each * up * together, apart), (each * together, apart)]
    return tuple(dense), tuple(routed)


def ffn_parameters(d: RankSizes, *, experts: bool) -> Number:
    """Weights of one block's feed-forward part on one rank: router, shared and routed experts, or the dense network."""
    model = d.model
    if model.network == "attention":
        return 0.0
    width = d.hidden_width / d.row_gather
    if not experts:
        return _network(d, width, d.ffn)
    router = model.hidden * (model.experts + model.shared_expert_gate)
    return router + _network(d, width, d.shared_ffn) + d.local_experts * _network(d, model.hidden, d.expert_ffn)


def _network(d: RankSizes, hidden: Number, width: Number) -> Number:
    return (3 if d.model.gated_ffn else 2) * hidden * width


def _key_value_copies(d: RankSizes) -> Number:
    """Weights of key and value heads that a rank holds beyond its share, where ranks outnumber those heads."""
    model = d.model
    if model.latent or model.network == "ffn":
        return 0.0
    columns = d.grid_side if d.tp_kind != "1d" else d.tp
    return d.hidden_width / d.row_gather * 2 * (d.kv_width - model.kv_width / columns)


def _whole_matrices(d: RankSizes, experts: bool) -> int:
    model = d.model
    down = model.hidden * (model.q_lora_rank + model.latent_width) if model.latent and model.network != "ffn" else 0
    router = model.hidden * (model.experts + model.shared_expert_gate) if experts else 0
    return down + router


def _ffn_bias(d: RankSizes) -> bool:
    return d.model.bias or d.model.ffn_bias


def _network_tensors(d: RankSizes) -> int:
    return (1 if d.fused_projections or not d.model.gated_ffn else 2) + 1


def _tensors(d: RankSizes, experts: bool) -> float:
    """Parameter tensors of one block without its routed experts."""
    model = d.model
    found = 0
    if model.network != "ffn":
        projections = 1 if d.fused_projections else 3
        if model.latent:
            projections = 4 if model.q_lora_rank else 3
            found += 2 if model.q_lora_rank else 1
        found += projections + 1 + (2 if model.qk_norm else 0) + model.attention_sinks
        found += (projections if model.bias or model.qkv_bias else 0) + (model.bias or model.output_bias)
    if model.network != "attention":
        networks = 1 if not experts else int(model.shared_experts > 0)
        found += networks * _network_tensors(d) * (2 if _ffn_bias(d) else 1)
        found += 1 + model.router_bias + model.shared_expert_gate if experts else 0
    if model.network == "transformer":
        found += model.norms_per_layer * model.norm_tensors
    return float(found)
