"""Shape problems: contradictions inside one model's shape, each with its field and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from estimator.problems import Problem

if TYPE_CHECKING:
    from estimator.model import Model

MOE_FIELDS = ("top_k", "moe_ffn", "shared_experts", "dense_layers", "router_bias", "shared_expert_gate",
              "capacity_factor")  # fmt: skip
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
            "Choose heads that divide hidden, or give head_dim.",
        )
    if model.heads % model.kv:
        yield _problem(
            "kv_heads",
            f"{model.kv} key/value heads do not divide {model.heads} query heads",
            "Choose kv_heads that divide heads.",
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
