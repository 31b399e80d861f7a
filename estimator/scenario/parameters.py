"""Parameters: how many a model has, by how they are divided over ranks, and the FLOPs that its tokens need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from estimator.scenario.model import block_kinds

if TYPE_CHECKING:
    from estimator.scenario.model import Model


@dataclass(frozen=True, kw_only=True)
class BlockParameters:
    """Parameters of one block: those that tp divides, those whole on every rank of tp, those that ep divides.

    ``split``: attention's and the dense network's matrices, shared experts, biases and sinks along divided widths.
    ``whole``: norms, biases of the stream's width, the router, the gate of shared experts, MLA's down-projections.
    ``expert``: the routed experts with their biases.
    """

    split: int
    whole: int
    expert: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.split + self.whole + self.expert


def block_parameters(model: Model, experts: bool | None = None) -> BlockParameters:
    """Count one block's parameters; ``experts`` chooses the kind of block, None the kind with experts if there is one.

    Attention: d·H·dq + 2·d·K·dk + H·dv·d; MLA (arXiv 2405.04434, section 2.1): d·rq + rq·H·dq for queries (d·H·dq where
    rq = 0), d·(rkv + dr) + rkv·H·(dq − dr + dv) for keys and values. Network of width f: 2·d·f, gated 3·d·f.
    """
    moe = model.experts > 0 if experts is None else experts
    attention = model.network != "ffn"
    network = model.network != "attention"
    split = (_attention_split(model) if attention else 0) + (_network_split(model, moe) if network else 0)
    whole = (_attention_whole(model) if attention else 0) + (_network_whole(model, moe) if network else 0)
    if model.network == "transformer":
        whole += model.norms_per_layer * _norm(model)
    return BlockParameters(
        split=split, whole=whole, expert=model.experts * expert_parameters(model) if network and moe else 0
    )


def linear_parameters_per_layer(model: Model, experts: bool | None = None) -> int:
    """Weights of one block's matrices, router and all experts included (no biases, no norms)."""
    moe = model.experts > 0 if experts is None else experts
    return _matrices(model, model.experts if moe else 0, moe)


def parameters_per_layer(model: Model, experts: bool | None = None) -> int:
    """All parameters of one block."""
    return block_parameters(model, experts).total


def active_parameters_per_layer(model: Model, experts: bool | None = None) -> int:
    """Parameters of one block that a token meets: of the routed experts only ``top_k``."""
    found = block_parameters(model, experts)
    return found.total - (found.expert // model.experts * (model.experts - model.top_k) if found.expert else 0)


def expert_parameters(model: Model) -> int:
    """Parameters of one routed expert."""
    biases = model.expert_ffn * (2 if model.gated_ffn else 1) + model.hidden
    return _network(model, model.expert_ffn) + (biases if _ffn_bias(model) else 0)


def embedding_parameters(model: Model, seq_len: int = 0) -> int:
    """Token table and, where positions are learned, the position table (``max_positions`` or ``seq_len`` rows)."""
    if model.network != "transformer":
        return 0
    positions = (model.max_positions or seq_len) if model.position == "learned" else 0
    return (model.vocab + positions) * model.hidden


def head_parameters(model: Model) -> int:
    """Parameters of the output projection that are its own: none where it is tied to the embedding, or not there."""
    own = model.head and not model.tied_embedding and model.network == "transformer"
    return model.vocab * model.hidden if own else 0


def final_norm_parameters(model: Model) -> int:
    """Parameters of the norm before the head."""
    return _norm(model) if model.network == "transformer" else 0


def parameters(model: Model, seq_len: int = 0) -> int:
    """Count all parameters: N = V·d [+ P·d] + Σ blocks + final norm [+ V·d where untied]."""
    blocks = sum(kind.layers * parameters_per_layer(model, kind.experts) for kind in block_kinds(model))
    return blocks + _outside_blocks(model, seq_len)


def active_parameters(model: Model, seq_len: int = 0) -> int:
    """Count the parameters that one token meets, embedding and head whole, as most model cards do."""
    blocks = sum(kind.layers * active_parameters_per_layer(model, kind.experts) for kind in block_kinds(model))
    return blocks + _outside_blocks(model, seq_len)


def model_flops_per_token(model: Model, seq_len: int) -> float:
    """Forward and backward FLOPs of one token, attention over the full square or band, no recompute.

    F = 6·(Σ matrices that a token meets + V·d) + 6·Σ H·(dq + dv)·min(S, window): the convention of PaLM (arXiv
    2204.02311, app. B). Counted: the head, the router, ``top_k`` experts and the shared ones. Not counted: embedding
    look-up, norms, biases, experts' unused capacity. Where dq = dv = d/H the second term is 12·L·d·S.
    """
    flops = 6.0 * model.vocab * model.hidden if model.network == "transformer" and model.head else 0.0
    for kind in block_kinds(model):
        keys = min(kind.window or seq_len, seq_len)
        core = keys * (model.query_width + model.output_width) if model.network != "ffn" else 0
        active = _matrices(model, model.top_k if kind.experts else 0, kind.experts)
        flops += 6.0 * kind.layers * (active + core)
    return flops


def _outside_blocks(model: Model, seq_len: int) -> int:
    return embedding_parameters(model, seq_len) + final_norm_parameters(model) + head_parameters(model)


def _matrices(model: Model, experts: int, moe: bool) -> int:
    found = 0
    if model.network != "ffn":
        found += _attention_matrices(model) + _down_projections(model)
    if model.network != "attention":
        found += _network(model, model.shared_ffn if moe else model.ffn) + experts * _network(model, model.expert_ffn)
        found += model.hidden * (model.experts + model.shared_expert_gate) if moe else 0
    return found


def _attention_matrices(model: Model) -> int:
    """Matrices that tp divides by heads."""
    if not model.latent:
        return model.hidden * (2 * model.query_width + 2 * model.kv_width)
    queries = (model.q_lora_rank or model.hidden) * model.query_width
    keys_and_values = model.kv_lora_rank * (
        model.query_width - model.heads * model.qk_rope_head_dim + model.output_width
    )
    return queries + keys_and_values + model.output_width * model.hidden


def _down_projections(model: Model) -> int:
    """Matrices into MLA's latents, whole on every rank."""
    return model.hidden * (model.q_lora_rank + model.latent_width) if model.latent else 0


def _attention_split(model: Model) -> int:
    biases = model.query_width + 2 * model.kv_width if _qkv_bias(model) and not model.latent else 0
    return _attention_matrices(model) + biases + (model.heads if model.attention_sinks else 0)


def _attention_whole(model: Model) -> int:
    norms = model.q_lora_rank + model.kv_lora_rank + (2 * model.dim if model.qk_norm else 0)
    # MLA's biases sit in the down-projections (transformers, modeling_deepseek_v3.py, 2025).
    latent_biases = model.q_lora_rank + model.latent_width if _qkv_bias(model) and model.latent else 0
    return _down_projections(model) + norms + latent_biases + (model.hidden if model.bias or model.output_bias else 0)


def _network_split(model: Model, moe: bool) -> int:
    width = model.shared_ffn if moe else model.ffn
    return _network(model, width) + (width * (2 if model.gated_ffn else 1) if _ffn_bias(model) else 0)


def _network_whole(model: Model, moe: bool) -> int:
    networks = model.shared_experts if moe else 1
    router = model.experts * (model.hidden + model.router_bias) + model.hidden * model.shared_expert_gate
    return (networks * model.hidden if _ffn_bias(model) else 0) + (router if moe else 0)


def _network(model: Model, width: int) -> int:
    return (3 if model.gated_ffn else 2) * model.hidden * width


def _norm(model: Model) -> int:
    return model.hidden * (2 if model.norm == "layer" else 1)


def _qkv_bias(model: Model) -> bool:
    return model.bias or model.qkv_bias


def _ffn_bias(model: Model) -> bool:
    return model.bias or model.ffn_bias
