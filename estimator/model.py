"""Model: the shape of a network; what that shape counts to is in parameters.py and can be had from here too."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.blocks import BlockKind, block_kinds
from estimator.codec import spec
from estimator.parameters import (
    BlockParameters,
    active_parameters,
    active_parameters_per_layer,
    block_parameters,
    embedding_parameters,
    final_norm_parameters,
    head_parameters,
    linear_parameters_per_layer,
    model_flops_per_token,
    parameters,
    parameters_per_layer,
    small_parameters_per_layer,
)
from estimator.problems import Problem
from estimator.shape_problems import shape_problems

__all__ = [
    "ACTIVATIONS",
    "NETWORKS",
    "NORMS",
    "PLAIN",
    "POSITIONS",
    "BlockKind",
    "BlockParameters",
    "Model",
    "active_parameters",
    "active_parameters_per_layer",
    "block_kinds",
    "block_parameters",
    "embedding_parameters",
    "final_norm_parameters",
    "head_parameters",
    "linear_parameters_per_layer",
    "model_flops_per_token",
    "parameters",
    "parameters_per_layer",
    "small_parameters_per_layer",
]

NETWORKS = ("transformer", "ffn", "attention")
NORMS = ("rms", "layer")
POSITIONS = ("rope", "learned", "alibi", "none")
ACTIVATIONS = ("silu", "gelu", "gelu-tanh", "relu")

PLAIN = {"network": "transformer", "experts": 0, "kv_lora_rank": 0, "sliding_window": 0, "attention_sinks": False,
         "norms_per_layer": 2, "parallel_residual": False, "output_bias": False, "ffn_bias": False}  # fmt: skip
"""What a dense transformer says in the fields that other shapes differ in."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only transformer, or a bare stack of its feed-forward (``ffn``) or attention (``attention``) halves.

    Sizes are counts; ``kv_heads`` and ``head_dim`` 0 mean heads and hidden / heads. A bare stack has matrices and
    biases only: no norms, no embedding, no head.
    """

    network: str = spec("transformer", choices=NETWORKS, help="kind of network")
    name: str = spec("", help="catalogue name, for people")
    layers: int = spec(minimum=1, maximum=10_000, help="transformer blocks")
    hidden: int = spec(minimum=1, maximum=1_000_000, help="width of the residual stream")
    heads: int = spec(minimum=1, maximum=100_000, help="query heads")
    kv_heads: int = spec(0, minimum=0, maximum=100_000, help="key and value heads; 0: as many as heads")
    head_dim: int = spec(0, minimum=0, maximum=100_000, help="width of one head; 0: hidden / heads")
    ffn: int = spec(minimum=1, maximum=10_000_000, help="inner width of the feed-forward network")
    vocab: int = spec(minimum=0, maximum=100_000_000, help="rows of embedding and head; 0 for bare stacks")
    gated_ffn: bool = spec(True, help="SwiGLU-like: gate and up projections, multiplied")
    activation: str = spec("silu", choices=ACTIVATIONS, help="non-linearity of the feed-forward network")
    norm: str = spec("rms", choices=NORMS, help="RMSNorm or LayerNorm")
    norms_per_layer: int = spec(2, minimum=0, maximum=8, help="norms of a block; 4: after attention and ffn too")
    parallel_residual: bool = spec(
        False, help="attention and ffn read the same stream, side by side; with norms_per_layer 1 the same norm of it"
    )
    qk_norm: bool = spec(False, help="RMSNorm over each query and key head")
    position: str = spec("rope", choices=POSITIONS, help="how positions enter")
    max_positions: int = spec(0, minimum=0, maximum=100_000_000, help="rows of a learned position table; 0: seq_len")
    bias: bool = spec(False, help="bias in all linears but router and head")
    qkv_bias: bool = spec(False, help="bias in the q, k, v projections even where bias is false")
    output_bias: bool = spec(False, help="bias in attention's output projection even where bias is false")
    ffn_bias: bool = spec(False, help="bias in feed-forward networks and experts even where bias is false")
    tied_embedding: bool = spec(False, help="the head reuses the embedding table")
    experts: int = spec(0, minimum=0, maximum=100_000, help="experts per layer; 0: dense")
    top_k: int = spec(0, minimum=0, maximum=100_000, help="experts per token")
    moe_ffn: int = spec(0, minimum=0, maximum=10_000_000, help="inner width of one expert; 0: ffn")
    shared_experts: int = spec(0, minimum=0, maximum=1_000, help="experts of moe_ffn width that see every token")
    dense_layers: int = spec(
        0, minimum=0, maximum=10_000, help="leading blocks with a dense network instead of experts"
    )
    moe_every: int = spec(1, minimum=1, maximum=10_000, help="every n-th block has experts, the others a dense network")
    router_bias: bool = spec(False, help="bias in the router")
    shared_expert_gate: bool = spec(False, help="a gate of width 1 scales the shared experts")
    capacity_factor: float = spec(0.0, minimum=0, maximum=1_000, help="expert slots over the even share; 0: dropless")
    kv_lora_rank: int = spec(0, minimum=0, maximum=1_000_000, help="width of the latent keys and values (MLA); 0: none")
    q_lora_rank: int = spec(0, minimum=0, maximum=1_000_000, help="width of the latent queries (MLA); 0: none")
    qk_rope_head_dim: int = spec(
        0, minimum=0, maximum=100_000, help="rotary part of a head (MLA); head_dim has both parts"
    )
    v_head_dim: int = spec(0, minimum=0, maximum=100_000, help="width of one value head (MLA); 0: head_dim")
    sliding_window: int = spec(0, minimum=0, maximum=100_000_000, help="keys that a query sees; 0: all before it")
    full_attention_every: int = spec(0, minimum=0, maximum=10_000, help="every n-th block sees all keys; 0: none does")
    attention_sinks: bool = spec(False, help="one learned logit per head in the softmax")

    @property
    def kv(self) -> int:
        """Key and value heads."""
        return self.kv_heads or self.heads

    @property
    def dim(self) -> int:
        """Width of one head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads (and of all value heads) together."""
        return self.kv * self.dim

    @property
    def value_dim(self) -> int:
        """Width of one value head."""
        return self.v_head_dim or self.dim

    @property
    def output_width(self) -> int:
        """Width of all heads' outputs together: what the output projection reads."""
        return self.heads * self.value_dim

    @property
    def latent(self) -> bool:
        """Whether keys and values come from a latent (MLA, DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
        return self.kv_lora_rank > 0

    @property
    def latent_width(self) -> int:
        """Width of what MLA projects down to for keys and values: the latent and the shared rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def expert_ffn(self) -> int:
        """Inner width of one expert."""
        return self.moe_ffn or self.ffn

    @property
    def shared_ffn(self) -> int:
        """Inner width of all shared experts together."""
        return self.shared_experts * self.expert_ffn

    @property
    def special(self) -> tuple[str, ...]:
        """Fields by which this shape is more than a dense transformer with plain attention and two norms per block."""
        return tuple(name for name, plain in PLAIN.items() if getattr(self, name) != plain)

    def problems(self) -> list[Problem]:
        """List what makes this shape impossible."""
        return shape_problems(self)
