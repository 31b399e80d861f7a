"""Model: the shape of a network, its kinds of blocks, and what makes a shape impossible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from estimator.scenario.codec import spec
from estimator.scenario.problems import Problem, divisors_near

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
    clamped_ffn: bool = spec(False, help="gate and up are cut off at a limit before they are multiplied (swiglu_limit)")
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
    head: bool = spec(True, help="logits and loss over the vocabulary; false: an encoder that ends with its last norm")
    experts: int = spec(0, minimum=0, maximum=100_000, help="experts per layer; 0: dense")
    top_k: int = spec(0, minimum=0, maximum=100_000, help="experts per token")
    expert_groups: int = spec(
        0, minimum=0, maximum=100_000, help="groups of experts, of which a token first chooses some; 0: none"
    )
    top_groups: int = spec(0, minimum=0, maximum=100_000, help="groups that a token's experts may be of; 0: all")
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
    clamped_scores: bool = spec(
        False, help="unfused attention cuts its scores off at the least number, and drops none of its weights (OPT)"
    )

    @property
    def reachable_frac(self) -> float:
        """Share of the experts that a token can choose from once it has chosen groups."""
        return self.top_groups / self.expert_groups if self.top_groups else 1.0

    @property
    def kv(self) -> int:
        """Key and value heads."""
        return self.kv_heads or self.heads

    @property
    def norm_tensors(self) -> int:
        """Parameter tensors of a norm."""
        return 2 if self.norm == "layer" else 1

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


@dataclass(frozen=True, kw_only=True)
class BlockKind:
    """Blocks that are alike: with experts or dense, seeing ``window`` keys (0: all), among the leading dense ones."""

    layers: int
    experts: bool = False
    window: int = 0
    leading: bool = False


@lru_cache(maxsize=1024)
def block_kinds(model: Model) -> tuple[BlockKind, ...]:
    """Count the blocks of each kind, in the order in which the kinds first occur.

    Block i (from 0) has experts where i ≥ ``dense_layers`` and ``moe_every`` divides i + 1, and sees all keys where
    there is no window or ``full_attention_every`` divides i + 1 (Gemma 2 and 3, GPT-OSS: every second or sixth).
    """
    if not model.sliding_window and not (model.experts and (model.dense_layers or model.moe_every > 1)):
        return (BlockKind(layers=model.layers, experts=model.experts > 0),)
    found: Counter[tuple[bool, int, bool]] = Counter()
    for index in range(model.layers):
        leading = model.experts > 0 and index < model.dense_layers
        experts = model.experts > 0 and not leading and (index + 1) % model.moe_every == 0
        full = model.full_attention_every > 0 and (index + 1) % model.full_attention_every == 0
        found[experts, 0 if full else model.sliding_window, leading] += 1
    return tuple(
        BlockKind(layers=layers, experts=experts, window=window, leading=leading)
        for (experts, window, leading), layers in found.items()
    )


def expert_layers(model: Model) -> int:
    """How many blocks have experts."""
    return sum(kind.layers for kind in block_kinds(model) if kind.experts)


MOE_FIELDS = ("top_k", "expert_groups", "top_groups", "moe_ffn", "shared_experts", "dense_layers", "router_bias",
              "shared_expert_gate", "capacity_factor")  # fmt: skip
LATENT_FIELDS = ("q_lora_rank", "qk_rope_head_dim", "v_head_dim")


def shape_problems(model: Model) -> list[Problem]:
    """List what makes a shape impossible."""
    found = [*_heads(model), *_experts(model), *_latent(model)]
    if model.network == "transformer" and not model.vocab:
        found.append(_problem("vocab", "is 0", "Give the rows of the embedding; only ffn and attention have none."))
    if model.full_attention_every and not model.sliding_window:
        found.append(
            _problem(
                "full_attention_every",
                f"is {model.full_attention_every}, but no block has a sliding window",
                "Give sliding_window, or set full_attention_every to 0.",
            )
        )
    return found


def _heads(model: Model) -> Iterator[Problem]:
    if not model.head_dim and model.hidden % model.heads:
        yield _problem(
            "heads",
            f"{model.heads} heads do not divide the hidden width {model.hidden}",
            f"Choose {divisors_near(model.heads, model.hidden)} heads, or give head_dim.",
        )
    if model.heads % model.kv:
        yield _problem(
            "kv_heads",
            f"{model.kv} key/value heads do not divide {model.heads} query heads",
            f"Choose kv_heads {divisors_near(model.kv, model.heads)}.",
        )


def _experts(model: Model) -> Iterator[Problem]:
    if not model.experts:
        for name in MOE_FIELDS:
            if getattr(model, name):
                yield _problem(name, "is given for a model without experts", f"Give experts, or leave {name} out.")
        if model.moe_every > 1:
            yield _problem("moe_every", "is given for a model without experts", "Give experts, or set moe_every to 1.")
        return
    if model.network == "attention":
        yield _problem("experts", "an attention layer has no experts", "Set experts to 0.")
    if not model.top_k:
        yield _problem("top_k", "is 0, so no token reaches an expert", f"Choose 1 to {model.experts}.")
    if model.top_k > model.experts:
        message = f"{model.top_k} experts per token, but a layer has {model.experts}"
        yield _problem("top_k", message, f"Choose at most {model.experts}.")
    if model.expert_groups and model.experts % model.expert_groups:
        message = f"{model.expert_groups} groups do not divide {model.experts} experts"
        yield _problem("expert_groups", message, f"Choose {divisors_near(model.expert_groups, model.experts)}.")
    if model.top_groups > model.expert_groups:
        message = f"{model.top_groups} groups per token, but there are {model.expert_groups}"
        yield _problem("top_groups", message, f"Choose at most {model.expert_groups}.")
    if model.dense_layers >= model.layers:
        message = f"{model.dense_layers} dense blocks leave none of {model.layers} for experts"
        yield _problem("dense_layers", message, f"Choose at most {model.layers - 1}, or set experts to 0.")
    elif model.layers // model.moe_every * model.moe_every <= model.dense_layers:
        message = f"no block after the {model.dense_layers} dense ones is a multiple of {model.moe_every}"
        yield _problem("moe_every", message, "Choose a smaller one, or set experts to 0.")
    if model.shared_expert_gate and not model.shared_experts:
        yield _problem(
            "shared_expert_gate", "has no shared expert to scale", "Give shared_experts, or set it to false."
        )


def _latent(model: Model) -> Iterator[Problem]:
    if not model.latent:
        for name in LATENT_FIELDS:
            if getattr(model, name):
                yield _problem(name, "is given without a latent for keys and values",
                               f"Give kv_lora_rank, or leave {name} out.")  # fmt: skip
        return
    if not model.qk_rope_head_dim:
        yield _problem("qk_rope_head_dim", "is 0, but MLA has a rotary part of its own", "Give it; DeepSeek has 64.")
    elif model.dim <= model.qk_rope_head_dim:
        message = (
            f"head_dim = {model.dim} holds the rotary part of {model.qk_rope_head_dim} and a part without positions"
        )
        yield _problem("head_dim", message, f"Give the sum of both parts, more than {model.qk_rope_head_dim}.")
    if model.kv != model.heads:
        yield _problem("kv_heads", "MLA gives every query head its own key", "Leave kv_heads out, or set it to heads.")
    if model.qk_norm:
        yield _problem("qk_norm", "MLA norms its latents instead of queries and keys", "Set qk_norm to false.")


def _problem(name: str, message: str, remedy: str) -> Problem:
    return Problem(field=f"model.{name}", message=message, remedy=remedy)
