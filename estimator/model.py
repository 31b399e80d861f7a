"""Model: the shape of a transformer, and how many parameters that shape has."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.codec import spec
from estimator.problems import Problem

NETWORKS = ("transformer",)
NORMS = ("rms", "layer")
POSITIONS = ("rope", "learned", "alibi", "none")
ACTIVATIONS = ("silu", "gelu", "gelu-tanh", "relu")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only transformer; sizes are counts, ``kv_heads`` and ``head_dim`` 0 mean heads and hidden/heads."""

    network: str = spec("transformer", choices=NETWORKS, help="kind of network")
    name: str = spec("", help="catalogue name, for people")
    layers: int = spec(minimum=1, maximum=10_000, help="transformer blocks")
    hidden: int = spec(minimum=1, maximum=1_000_000, help="width of the residual stream")
    heads: int = spec(minimum=1, maximum=100_000, help="query heads")
    kv_heads: int = spec(0, minimum=0, maximum=100_000, help="key and value heads; 0: as many as heads")
    head_dim: int = spec(0, minimum=0, maximum=100_000, help="width of one head; 0: hidden / heads")
    ffn: int = spec(minimum=1, maximum=10_000_000, help="inner width of the feed-forward network")
    vocab: int = spec(minimum=1, maximum=100_000_000, help="rows of the embedding and of the head")
    gated_ffn: bool = spec(True, help="SwiGLU-like: gate and up projections, multiplied")
    activation: str = spec("silu", choices=ACTIVATIONS, help="non-linearity of the feed-forward network")
    norm: str = spec("rms", choices=NORMS, help="RMSNorm or LayerNorm")
    qk_norm: bool = spec(False, help="RMSNorm over each query and key head")
    position: str = spec("rope", choices=POSITIONS, help="how positions enter")
    max_positions: int = spec(0, minimum=0, maximum=100_000_000, help="rows of a learned position table; 0: seq_len")
    bias: bool = spec(False, help="bias in linears outside attention's q, k, v")
    qkv_bias: bool = spec(False, help="bias in the q, k, v projections even where bias is false")
    tied_embedding: bool = spec(False, help="the head reuses the embedding table")
    experts: int = spec(0, minimum=0, maximum=100_000, help="experts per layer; 0: dense")
    top_k: int = spec(0, minimum=0, maximum=100_000, help="experts per token")

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

    def problems(self) -> list[Problem]:
        """List what makes this shape impossible."""
        found = []
        if not self.head_dim and self.hidden % self.heads:
            found.append(
                Problem(
                    field="model.heads",
                    message=f"{self.heads} heads do not divide the hidden width {self.hidden}",
                    remedy="Choose heads that divide hidden, or give head_dim.",
                )
            )
        if self.heads % self.kv:
            found.append(
                Problem(
                    field="model.kv_heads",
                    message=f"{self.kv} key/value heads do not divide {self.heads} query heads",
                    remedy="Choose kv_heads that divide heads.",
                )
            )
        if self.experts or self.top_k:
            found.append(
                Problem(
                    field="model.experts",
                    message="mixture of experts is not modelled yet",
                    remedy="Set experts and top_k to 0.",
                )
            )
        return found


def linear_parameters_per_layer(model: Model) -> int:
    """Weights of one block's matrices: q, k, v, o and the feed-forward network (no biases, no norms)."""
    attention = model.hidden * (2 * model.query_width + 2 * model.kv_width)
    return attention + (3 if model.gated_ffn else 2) * model.hidden * model.ffn


def small_parameters_per_layer(model: Model) -> int:
    """Biases and norm weights of one block."""
    norms = 2 * model.hidden * (2 if model.norm == "layer" else 1)
    if model.qk_norm:
        norms += 2 * model.dim
    biases = 0
    if model.bias or model.qkv_bias:
        biases += model.query_width + 2 * model.kv_width
    if model.bias:
        biases += 2 * model.hidden + model.ffn * (2 if model.gated_ffn else 1)
    return norms + biases


def parameters_per_layer(model: Model) -> int:
    """All parameters of one block."""
    return linear_parameters_per_layer(model) + small_parameters_per_layer(model)


def embedding_parameters(model: Model, seq_len: int = 0) -> int:
    """Token table and, where positions are learned, the position table (``max_positions`` or ``seq_len`` rows)."""
    positions = (model.max_positions or seq_len) if model.position == "learned" else 0
    return (model.vocab + positions) * model.hidden


def head_parameters(model: Model) -> int:
    """Parameters of the output projection that are its own: none where it is tied to the embedding."""
    return 0 if model.tied_embedding else model.vocab * model.hidden


def final_norm_parameters(model: Model) -> int:
    """Parameters of the norm before the head."""
    return model.hidden * (2 if model.norm == "layer" else 1)


def parameters(model: Model, seq_len: int = 0) -> int:
    """Count all parameters: N = V·d [+ P·d] + L·(block) + final norm [+ V·d where untied]."""
    return (
        embedding_parameters(model, seq_len)
        + model.layers * parameters_per_layer(model)
        + final_norm_parameters(model)
        + head_parameters(model)
    )


def model_flops_per_token(model: Model, seq_len: int) -> float:
    """Forward and backward FLOPs of one token, attention over the full square, no recompute.

    F = 6·(L·(matrices of a block) + V·d) + 12·L·heads·head_dim·S: the convention of PaLM (arXiv 2204.02311, app. B),
    with the head counted and the embedding look-up not.
    """
    matrices = model.layers * linear_parameters_per_layer(model) + model.vocab * model.hidden
    return 6.0 * matrices + 12.0 * model.layers * model.query_width * seq_len
