"""Legality: which plans a model and a batch allow, each refusal with its field and its remedy."""

from __future__ import annotations

import math

from estimator.scenario.grid_shape import grid_problems
from estimator.scenario.model import Model
from estimator.scenario.plan import FOLDED, Plan
from estimator.scenario.precision import QUANTISED
from estimator.scenario.problems import Problem, divisors_near, either, nearest
from estimator.scenario.training import Training


def legality(model: Model, plan: Plan, training: Training) -> list[Problem]:
    """List everything about a plan that this model and batch do not allow."""
    batches = training.global_batch // (plan.dp * plan.micro_batch)
    return [
        *tensor_problems(model, plan, training),
        *context_problems(model, plan, training),
        *expert_problems(model, plan),
        *fused_problems(model, training),
        *pipeline_problems(model, plan.schedule, plan.pp, plan.virtual_stages, max(batches, 1)),
        *_data(model, plan),
    ]


def tensor_problems(model: Model, plan: Plan, training: Training) -> list[Problem]:
    """List why heads, widths and tokens cannot be divided over tp."""
    alone = plan.tp_overlap and not plan.sequence_parallel
    found = [_problem("plan.tp_overlap", "only gathers and scatters of sequence parallelism pass beside products",
                      "Set sequence_parallel to true, or tp_overlap to false.")] if alone else []  # fmt: skip
    if plan.tp_kind != "1d":
        found += [
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
    if plan.tp_depth != 1:
        found.append(_problem("plan.tp_depth", "only 2.5d tensor parallelism has a depth", "Set tp_depth to 1."))
    degrees = either(tensor_degrees(model, plan.tp))
    for what, size in (("heads", model.heads), ("ffn", model.ffn)):
        if size % plan.tp:
            found.append(_undivided("plan.tp", "tp", plan.tp, what, size, degrees))
    if not _shared(model.kv, plan.tp):
        found.append(_problem("plan.tp", f"tp = {plan.tp} and {model.kv} key/value heads do not divide one another",
                              f"Choose tp {degrees}."))  # fmt: skip
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
        degrees = divisors_near(plan.ep, model.experts)
        found.append(_undivided("plan.ep", "ep", plan.ep, "experts", model.experts, degrees))
    ranks = plan.dp * plan.cp * plan.tp
    if ranks % (plan.ep * plan.expert_tp):
        found.append(_problem("plan.ep", f"ep·expert_tp = {plan.ep}·{plan.expert_tp} does not divide the {ranks} ranks"
                              " of dp·cp·tp, over which experts are laid",
                              "Choose ep and expert_tp whose product divides dp·cp·tp."))  # fmt: skip
    width = model.moe_ffn or model.ffn
    if width % plan.expert_tp:
        degrees = divisors_near(plan.expert_tp, width)
        found.append(_undivided("plan.expert_tp", "expert_tp", plan.expert_tp, "moe_ffn", width, degrees))
    return found


def fused_problems(model: Model, training: Training) -> list[Problem]:
    """List why products of experts cannot activate and weigh their rows."""
    if not training.fuses_experts or not model.experts:
        return []
    if not training.traits.weighs_inside_experts:
        return [_problem("training.experts", f"{training.traits.label} has no fused products of experts",
                         "Choose grouped, or framework megatron.")]  # fmt: skip
    if training.precision not in QUANTISED:
        message = f"fused products of experts multiply narrow numbers, not {training.precision}"
        return [_problem("training.experts", message,
                         f"Choose grouped, or precision {either(list(QUANTISED))}.")]  # fmt: skip
    return []


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


def schedule_problems(schedule: str, stages: int, micro_batches: int, virtual_stages: int) -> list[Problem]:
    """List what a schedule does not allow: chunks that it has not, groups that do not fill."""
    if stages == 1:
        return []
    found = []
    if schedule == "zero-bubble-v" and virtual_stages > 2:
        found.append(_problem("plan.virtual_stages", f"zero-bubble-v runs two chunks per rank, not {virtual_stages}",
                              "Set virtual_stages to 2, or schedule to interleaved."))  # fmt: skip
    elif schedule not in ("interleaved", "zero-bubble-v") and virtual_stages > 1:
        found.append(_problem("plan.virtual_stages", f"{schedule} runs one chunk per rank, not {virtual_stages}",
                              "Set virtual_stages to 1, or schedule to interleaved."))  # fmt: skip
    if schedule == "interleaved" and virtual_stages > 1 and micro_batches % stages:
        found.append(_problem("training.global_batch", f"interleaving takes micro-batches in groups of pp = {stages};"
                              f" {micro_batches} per step do not fill them",
                              "Choose global_batch so that global_batch / (dp·micro_batch) is a multiple of pp,"
                              " or set schedule to 1f1b."))  # fmt: skip
    return found


def sequence_problems(*, cp_kind: str, cp: int, tp: int, heads: int, kv_heads: int, seq_len: int) -> list[Problem]:
    """List why ``cp`` ranks cannot share the sequences of this model."""
    if cp == 1:
        return []
    found = []
    if cp_kind == "ulysses":
        legal = [n for n in range(1, max(heads // tp, 1) + 1) if heads % (tp * n) == 0 and _shared(kv_heads, tp * n)]
        remedy = f"Choose cp {_beside(legal, cp)}, or cp_kind ring or all-gather." if legal else "Choose a smaller tp."
        if heads % (tp * cp):
            message = f"Ulysses gives every rank whole heads, but tp·cp = {tp}·{cp} does not divide {heads} heads"
            found.append(Problem(field="plan.cp", message=message, remedy=remedy))
        elif not _shared(kv_heads, tp * cp):
            message = f"tp·cp = {tp}·{cp} and {kv_heads} key/value heads do not divide one another"
            found.append(Problem(field="plan.cp", message=message, remedy=remedy))
    chunks = cp if cp_kind == "ulysses" else 2 * cp
    if seq_len % chunks:
        found.append(
            Problem(
                field="plan.cp",
                message=f"{chunks} parts of the sequence (cp = {cp}) do not divide seq_len = {seq_len}",
                remedy=f"Choose a seq_len that is a multiple of {chunks}, or another cp.",
            )
        )
    return found


def _data(model: Model, plan: Plan) -> list[Problem]:
    found = []
    ranks = plan.dp * plan.cp
    if plan.shard_ranks and ranks % plan.shard_ranks:
        remedy = f"Choose shard_ranks {divisors_near(plan.shard_ranks, ranks)}, or 0 for all."
        message = f"{plan.shard_ranks} ranks do not divide the {ranks} of dp·cp"
        found.append(_problem("plan.shard_ranks", message, remedy))
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


def tensor_degrees(model: Model, tp: int) -> list[int]:
    """The tensor parallel degrees that heads, key/value heads and widths all allow: ``tp`` itself, else the nearest."""
    both = math.gcd(model.heads, model.ffn or model.heads)
    legal = [n for n in range(1, both + 1) if both % n == 0 and _shared(model.kv, n)]
    return [tp] if tp in legal else nearest(legal, tp)


def _shared(heads: int, ranks: int) -> bool:
    return heads % ranks == 0 or ranks % heads == 0


def _problem(field: str, message: str, remedy: str) -> Problem:
    return Problem(field=field, message=message, remedy=remedy)


def _beside(legal: list[int], cp: int) -> str:
    below, above = [n for n in legal if n <= cp], [n for n in legal if n > cp]
    return " or ".join(str(n) for n in (*below[-1:], *above[:1]))


def spreads(layers: int, stages: int, chunks: int) -> bool:
    """Whether layers fill ``stages · chunks`` chunks of ⌈layers / (stages · chunks)⌉ each, with one short per stage.

    The embedding and the head take the place of a layer; with more short, stages would differ by whole chunks.
    """
    return stages * chunks <= layers and -layers % (stages * chunks) <= stages


def chunk_counts(layers: int, stages: int) -> list[int]:
    """List the numbers of chunks per rank over which the layers spread; one always."""
    return [1, *(chunks for chunks in range(2, layers // stages + 1) if spreads(layers, stages, chunks))]


def chunk_problems(schedule: str, stages: int, virtual_stages: int, layers: int) -> list[Problem]:
    """List why layers do not spread over the chunks of a schedule that runs several per rank."""
    folded = schedule in FOLDED
    if stages == 1 or not (folded or (schedule == "interleaved" and virtual_stages > 1)):
        return []
    chunks = stages * (2 if folded else virtual_stages)
    if spreads(layers, stages, chunks // stages):
        return []
    product = f"2·pp = 2·{stages}" if folded else f"pp·virtual_stages = {stages}·{virtual_stages}"
    if chunks > layers:
        message = f"{product} = {chunks} chunks need more than {layers} layers"
    else:
        message = (
            f"{layers} layers in {product} = {chunks} chunks of {-(-layers // chunks)} fall {-layers % chunks} short, "
            f"and at most one for each of the {stages} stages is accepted"
        )
    if folded:
        remedy = f"Choose pp {_folded_stages(layers, stages)}, or set schedule to zero-bubble."
        return [Problem(field="plan.pp", message=message, remedy=remedy)]
    remedy = f"With pp = {stages} choose virtual_stages {either(chunk_counts(layers, stages))}."
    return [Problem(field="plan.virtual_stages", message=message, remedy=remedy)]


def _folded_stages(layers: int, stages: int) -> str:
    """The nearest numbers of stages with two chunks each."""
    legal = [1, *(number for number in range(2, layers // 2 + 1) if spreads(layers, number, 2))]
    return either(nearest(legal, stages))
