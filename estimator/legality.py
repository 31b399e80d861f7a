"""Legality: which plans a model and a batch allow, each refusal with its field and its remedy."""

from __future__ import annotations

import math

from estimator.model import Model
from estimator.parallel.chunks import chunk_problems
from estimator.parallel.grid_shape import grid_problems
from estimator.parallel.pipeline import schedule_problems
from estimator.parallel.sequence import sequence_problems
from estimator.plan import Plan
from estimator.problems import Problem, either, nearest
from estimator.training import Training


def legality(model: Model, plan: Plan, training: Training) -> list[Problem]:
    """List everything about a plan that this model and batch do not allow."""
    batches = training.global_batch // (plan.dp * plan.micro_batch)
    return [
        *tensor_problems(model, plan, training),
        *context_problems(model, plan, training),
        *expert_problems(model, plan),
        *pipeline_problems(model, plan.schedule, plan.pp, plan.virtual_stages, max(batches, 1)),
        *_data(model, plan),
    ]


def tensor_problems(model: Model, plan: Plan, training: Training) -> list[Problem]:
    """List why heads, widths and tokens cannot be divided over tp."""
    if plan.tp_kind != "1d":
        found = [
            *grid_problems(
                plan.tp_kind,
                plan.tp,
                plan.tp_depth,
                micro_batch=plan.micro_batch,
                seq_len=training.seq_len,
                heads=model.heads,
                kv_heads=model.kv,
                hidden=model.hidden,
                ffn=model.ffn,
            )
        ]
        if plan.sequence_parallel:
            found.append(_problem("plan.sequence_parallel", f"a {plan.tp_kind} grid splits tokens already",
                                  "Set sequence_parallel to false, or tp_kind to 1d."))  # fmt: skip
        if model.experts:
            found.append(_problem("plan.tp_kind", f"experts are not laid out on a {plan.tp_kind} grid",
                                  "Set tp_kind to 1d."))  # fmt: skip
        if model.kv_lora_rank:
            found.append(_problem("plan.tp_kind", f"latent attention is not laid out on a {plan.tp_kind} grid",
                                  "Set tp_kind to 1d."))  # fmt: skip
        if plan.cp > 1:
            found.append(_problem("plan.cp", f"context parallelism is not laid over a {plan.tp_kind} grid",
                                  "Set cp to 1, or tp_kind to 1d."))  # fmt: skip
        return found
    found = []
    if plan.tp_depth != 1:
        found.append(_problem("plan.tp_depth", "only 2.5d tensor parallelism has a depth", "Set tp_depth to 1."))
    for what, size in (("heads", model.heads), ("ffn", model.ffn)):
        if size % plan.tp:
            found.append(_undivided("plan.tp", "tp", plan.tp, what, size, _degrees(model, plan.tp)))
    if not _shared(model.kv, plan.tp):
        found.append(_problem("plan.tp", f"tp = {plan.tp} and {model.kv} key/value heads do not divide one another",
                              f"Choose tp {_degrees(model, plan.tp)}."))  # fmt: skip
    parts = plan.tp * plan.cp
    if plan.sequence_parallel and training.seq_len % parts:
        message = f"{'tp·cp' if plan.cp > 1 else 'tp'} = {parts} does not divide seq_len = {training.seq_len}"
        remedy = f"Choose a seq_len that is a multiple of {parts}, or set sequence_parallel to false."
        found.append(_problem("plan.tp", message, remedy))
    return found


def context_problems(model: Model, plan: Plan, training: Training) -> list[Problem]:
    """List why sequences cannot be divided over cp."""
    return sequence_problems(
        cp_kind=plan.cp_kind,
        cp=plan.cp,
        tp=plan.tp,
        heads=model.heads,
        kv_heads=model.heads if model.kv_lora_rank else model.kv,
        seq_len=training.seq_len,
    )


def expert_problems(model: Model, plan: Plan) -> list[Problem]:
    """List why experts cannot be divided over the ranks."""
    if not model.experts:
        return [
            _problem(f"plan.{name}", f"{name} = {value}, but the model has no experts", f"Set {name} to 1.")
            for name, value in (("ep", plan.ep), ("expert_tp", plan.expert_tp))
            if value > 1
        ]
    found = []
    if model.experts % plan.ep:
        degrees = _divisors(plan.ep, model.experts)
        found.append(_undivided("plan.ep", "ep", plan.ep, "experts", model.experts, degrees))
    ranks = plan.dp * plan.cp * plan.tp
    if ranks % (plan.ep * plan.expert_tp):
        found.append(_problem("plan.ep", f"ep·expert_tp = {plan.ep}·{plan.expert_tp} does not divide the {ranks} ranks"
                              " of dp·cp·tp, over which experts are laid",
                              "Choose ep and expert_tp whose product divides dp·cp·tp."))  # fmt: skip
    width = model.moe_ffn or model.ffn
    if width % plan.expert_tp:
        degrees = _divisors(plan.expert_tp, width)
        found.append(_undivided("plan.expert_tp", "expert_tp", plan.expert_tp, "moe_ffn", width, degrees))
    return found


def pipeline_problems(
    model: Model, schedule: str, stages: int, virtual_stages: int, micro_batches: int
) -> list[Problem]:
    """List why blocks cannot be divided over the stages, or micro-batches scheduled on them."""
    if stages > model.layers:
        return [_problem("plan.pp", f"{stages} pipeline stages for {model.layers} layers",
                         f"Choose pp of at most {model.layers}.")]  # fmt: skip
    return [
        *chunk_problems(schedule, stages, virtual_stages, model.layers),
        *schedule_problems(schedule, stages, micro_batches, virtual_stages),
    ]


def _data(model: Model, plan: Plan) -> list[Problem]:
    found = []
    ranks = plan.dp * plan.cp
    if plan.shard_ranks and ranks % plan.shard_ranks:
        found.append(_problem("plan.shard_ranks", f"{plan.shard_ranks} ranks do not divide the {ranks} of dp·cp",
                              f"Choose shard_ranks {_divisors(plan.shard_ranks, ranks)}, or 0 for all."))  # fmt: skip
    if plan.shard_ranks and plan.sharding == "ddp":
        found.append(_problem("plan.shard_ranks", "ddp shards nothing", "Set shard_ranks to 0, or sharding to fsdp."))
    if plan.recompute_every > 1 and plan.recompute != "full":
        found.append(_problem("plan.recompute_every", "only full recomputation keeps blocks' inputs",
                              "Set recompute_every to 1, or recompute to full."))  # fmt: skip
    elif plan.recompute_every > model.layers:
        found.append(_problem("plan.recompute_every", f"one checkpoint for {plan.recompute_every} blocks of"
                              f" {model.layers}", f"Choose at most {model.layers}."))  # fmt: skip
    return found


def _undivided(field: str, name: str, degree: int, what: str, size: int, degrees: str) -> Problem:
    return _problem(field, f"{name} = {degree} does not divide {what} = {size}", f"Choose {name} {degrees}.")


def _degrees(model: Model, tp: int) -> str:
    """The nearest tensor parallel degrees that heads, key/value heads and widths all allow."""
    both = math.gcd(model.heads, model.ffn or model.heads)
    legal = [n for n in range(1, both + 1) if both % n == 0 and _shared(model.kv, n)]
    return either(nearest(legal, tp))


def _divisors(degree: int, size: int) -> str:
    """The nearest degrees that divide ``size``."""
    return either(nearest([n for n in range(1, min(size, 2 * degree) + 1) if size % n == 0], degree))


def _shared(heads: int, ranks: int) -> bool:
    return heads % ranks == 0 or ranks % heads == 0


def _problem(field: str, message: str, remedy: str) -> Problem:
    return Problem(field=field, message=message, remedy=remedy)
