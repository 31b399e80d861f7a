"""Proposal: the scenario that a profile's op list is most likely of, each field with the evidence for it.

Shapes determine most of it: attention's queries give batch, sequence, heads and their width, the products that carry
all tokens give the widths, their repetition the layers. What a profile cannot tell is guessed, and says so.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import OpList
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.proposal.model_fields import model_fields
from estimator.scenario.proposal.proposed import Proposed, guess, sure
from estimator.scenario.proposal.seen import (
    NoScenario,
    Seen,
    is_of_samples,
    name_of,
    product_of,
    seen_in,
    shape_of,
    times,
    tokens_of,
)
from estimator.scenario.scenario import scenario_from_json, scenario_to_json
from estimator.scenario.units import counted

_UNTOLD_FRAC = 0.002
"""Of so many parameters more or fewer than were counted nothing is said: norms and biases."""
FAR_FRAC = 0.05
"""Parameters that were counted and those of the proposed model differ by less where its widths are right."""


ASKABLE = ("model", "seq_len", "global_batch", "gpus", "chip")
"""What can be said of a run beside its file: model, tokens of a sequence, sequences of a step, GPUs, and which."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A scenario as JSON, None where none can be proposed, which ``reason`` then says; fields by their path.

    ``whole``: the profile holds forward, backward and optimizer, as the step of a scenario does. ``notes``: in what
    else the profiled step is not one of a scenario. ``asked``: what a file leaves out that somebody may say
    (``ASKABLE``); a scenario that stands there assumes it. ``parameters``: of the model, as the file counts them, 0
    where it does not.
    """

    scenario: dict[str, Any] | None = None
    fields: dict[str, Proposed] = field(default_factory=dict)
    reason: str = ""
    whole: bool = False
    notes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    parameters: int = 0


STAND_IN = "h100-sxm"
"""A chip where the profile names none of the catalogue: a guess."""
NO_CPU = (
    "It ran on a CPU, and this one is not measured yet: a server does that as it starts, headroom estimate when asked."
)


def proposal(ops: OpList) -> Proposal:
    """Propose the scenario behind a profile (or a trace) of a transformer's training step.

    >>> proposal(OpList(source="profile", program="", calls=(), signatures=())).reason
    'It runs no attention, so it is no transformer, the only network that a scenario describes.'
    """
    try:
        seen = seen_in(ops)
        found = {**model_fields(seen), **_training(seen)}
        found |= _plan(seen)
    except NoScenario as error:
        return Proposal(reason=str(error))
    document: dict[str, Any] = {}
    for path, one in found.items():
        part, name = path.split(".")
        document.setdefault(part, {})[name] = one.value
    document["model"]["name"] = ops.program[:80]
    if _is_unmeasured_cpu(ops):
        document["cluster"]["chip"] = STAND_IN  # only for what its other fields say of the model
    try:
        notes = (*_settle_table(document, found, seen), *_notes(seen))
        if _is_unmeasured_cpu(ops):
            return Proposal(fields=found, reason=NO_CPU, notes=notes)
        scenario = scenario_to_json(scenario_from_json(document))
        return Proposal(scenario=scenario, fields=found, whole=not _missing(ops), notes=notes)
    except InputProblems as error:
        problems = "; ".join(f"{one.field} {one.message}" for one in error.problems[:3])
        return Proposal(fields=found, reason=f"What its shapes say does not fit together: {problems}.")


def _is_unmeasured_cpu(ops: OpList) -> bool:
    return ops.chip == catalog.THIS_CPU and catalog.known("chips", catalog.THIS_CPU) is None


def _missing(ops: OpList) -> list[str]:
    phases = {call.phase for call in ops.calls}
    parts = {Phase.BACKWARD: "backward pass", Phase.OPTIMIZER: "step of an optimizer"}
    return [said for phase, said in parts.items() if phase not in phases]


def _notes(seen: Seen) -> tuple[str, ...]:
    notes = []
    if missing := _missing(seen.ops):
        notes.append(f"The profile holds no {' and no '.join(missing)}; a scenario is a whole training step.")
    if is_of_samples(seen):
        length = seen.attention.length
        notes.append(
            f"It works on samples (as pictures) of {counted(length, 'position')}, with one loss a sample; in a scenario"
            " each position is a token, looked up in a table and with a loss of its own."
        )
    if seen.attention.causal is False:
        notes.append("Attention sees all tokens here, or those that a mask leaves; in a scenario it is causal.")
    return tuple(notes)


def _training(seen: Seen) -> dict[str, Proposed]:
    a = seen.attention
    found = {"training.seq_len": sure(a.length, f"queries of {shape_of(seen)}")}
    found["training.precision"] = _precision(seen)
    found["training.optimizer"] = _optimizer(seen)
    found["training.optimizer_kernel"] = _optimizer_kernel(seen)
    kind = "flash" if "flash_attn" in a.how else "eager" if "softmax" in a.how else "sdpa"
    found["training.attention"] = sure(kind, a.how)
    found["training.compile"] = (
        sure(True, "kernels that Inductor made (triton_…)")
        if seen.compiled
        else sure(True, "regions that the program compiles")
        if seen.marked
        else sure(False, "no region that the program compiles")
        if seen.ops.source == "trace"
        else sure(False, "no kernel that Inductor made")
    )
    found["training.framework"] = sure("pytorch-eager", "ATen ops")
    rates = _dropout_rates(seen)
    rate = max([a.dropout, *(one for one in rates if one is not None)])
    found["training.dropout"] = (
        sure(rate, f"dropout of {rate:g}")
        if rate
        else guess(0.0, "fused kernels would hide it")
        if seen.compiled
        else guess(0.0, "dropout runs, its rate is not recorded")
        if None in rates
        else sure(0.0, "no dropout runs")
    )
    return found


def _dropout_rates(seen: Seen) -> list[float | None]:
    """Rates of the dropouts beside attention, None where one is not recorded.

    A GPU has one op for it. A CPU draws what is kept (bernoulli) for every element of every token, fewer where it drops
    whole samples.
    """
    found: list[float | None] = []
    for _, s in seen.forward:
        name, kept = name_of(s), s.arguments.get("p")
        if name == "native_dropout":
            found.append(float(kept or 0.0))
        elif name == "bernoulli_" and s.inputs and math.prod(s.inputs[0].shape) >= tokens_of(seen):
            found.append(round(1.0 - kept, 6) if isinstance(kept, (int, float)) else None)
    return found


def _precision(seen: Seen) -> Proposed:
    computed = Counter(
        s.inputs[-1].dtype for _, s in seen.forward if (shape := product_of(s)) and shape[0] == tokens_of(seen)
    )
    used = computed.most_common(1)[0][0]
    tables = [s.inputs[0].dtype for s in seen.embeddings]
    state: Counter[str] = Counter()
    for call in seen.ops.calls:
        if call.phase == Phase.OPTIMIZER and call.kind == "kernel" and (inputs := seen.ops.of(call).inputs):
            # by elements: an optimizer's counters of steps are fp32 whatever its parameters are
            kind = inputs[0].dtype
            state[kind] += sum(math.prod(one.shape) for one in inputs if one.dtype == kind)
    held = state.most_common(1)[0][0] if state else tables[0] if tables else used
    said = f"products of {used}, parameters of {held}"
    if used == "bfloat16":
        return sure("bf16" if held == "bfloat16" else "bf16-amp", said)
    if used == "float16":
        return sure("fp16-amp", said) if held == "float32" else guess("fp16-amp", f"{said}, which no scenario has")
    if used.startswith("float8"):
        return sure("fp8", said)
    if used.startswith("float4"):
        return sure("fp4", said)
    return guess("fp32", f"{said}; whether TF32 was allowed is not recorded")


def _updates(seen: Seen) -> Counter[str]:
    """Names of the optimizer's ops, by how often they run."""
    return Counter(
        name_of(seen.ops.of(call)) for call in seen.ops.calls if call.phase == Phase.OPTIMIZER and call.kind == "kernel"
    )


def _optimizer(seen: Seen) -> Proposed:
    names = _updates(seen)
    for word, how in (("_fused_adam", "fused"), ("_foreach_addcdiv", "foreach"), ("addcdiv", "tensor by tensor")):
        if any(name.startswith(word) for name in names):
            return sure("adamw", f"{next(name for name in names if name.startswith(word))}: Adam's update, {how}")
    if any("triton" in name for name in names):
        return guess("adamw", "the optimizer is compiled, its update not seen")
    if names:
        return guess("sgd", f"{names.most_common(1)[0][0]} and no second moments")
    return guess("adamw", "no optimizer runs in the step")


def _optimizer_kernel(seen: Seen) -> Proposed:
    """Which of PyTorch's kernels update the parameters; the one that it takes by itself is the default."""
    usual = "for-loop" if seen.ops.chip == catalog.THIS_CPU else "foreach"
    names = _updates(seen)
    for word, kernel in KERNELS.items():
        if found := next((name for name in names if name.startswith(word)), ""):
            return sure("default" if kernel == usual else kernel, found)
    return guess("default", "no update of PyTorch's is seen")


KERNELS = {
    "_fused_": "fused", "_foreach_addcdiv": "foreach", "addcdiv": "for-loop", "_foreach_add": "foreach",
    "add_": "for-loop",
}  # fmt: skip
"""Kernels of PyTorch's optimizers by how an op of theirs begins, the first that is there: counters of steps and
clipping are op by op over all tensors too, whichever update runs."""


def _plan(seen: Seen) -> dict[str, Proposed]:
    a, ops, tp = seen.attention, seen.ops, seen.tp
    plan = {"plan.micro_batch": sure(a.batch, f"queries of {shape_of(seen)}")}
    kinds = {name_of(ops.of(call)).replace("_", "") for call in ops.calls if call.kind == "collective"}
    sends = any("send" in kind or "recv" in kind for kind in kinds)
    world = ops.world_size
    dp = max(world // tp, 1)
    pp = 1
    plan["plan.tp"] = sure(tp, f"{tp} ranks add activations up in the forward pass" if tp > 1 else
                            "no activations are added up in the forward pass")  # fmt: skip
    if sends:
        plan["plan.dp"] = guess(dp, f"{world} ranks; stages send to each other, how many there are is not recorded")
    else:
        plan["plan.dp"] = sure(dp, f"{world} {'rank' if world == 1 else 'ranks'}, {tp} of them share a product"
                                if tp > 1 else f"{world} {'rank' if world == 1 else 'ranks'}")  # fmt: skip
    plan["plan.pp"] = guess(pp, "stages send to each other") if sends else sure(pp, "no stage sends to another")
    plan["plan.sharding"] = _sharding(kinds, dp, ops)
    plan["plan.recompute"] = _recompute(ops)
    batch = a.batch * seen.passes * dp
    plan["training.global_batch"] = Proposed(
        value=batch,
        sure=not sends,
        evidence=f"{counted(a.batch, 'sequence')}, {times(seen.passes)}, {dp} data parallel",
    )
    plan |= _cluster(ops, world)
    return plan


def _sharding(kinds: set[str], dp: int, ops: OpList) -> Proposed:
    gathers = any("allgather" in kind for kind in kinds)
    scatters = any("reducescatter" in kind for kind in kinds)
    if gathers and scatters:
        again = any(
            call.kind == "collective" and call.phase == Phase.BACKWARD and "gather" in name_of(ops.of(call))
            for call in ops.calls
        )
        said = "parameters are gathered, gradients scattered"
        return sure("fsdp", f"{said}, and gathered again in backward") if again else sure("zero2", said)
    if any("allreduce" in kind for kind in kinds):
        return sure("ddp", "gradients are added up by all-reduce")
    return sure("ddp", "one rank shards nothing") if dp == 1 else guess("ddp", "no gradients are exchanged")


def _recompute(ops: OpList) -> Proposed:
    again = Counter(name_of(ops.of(call)) for call in ops.calls if call.recomputed and call.kind == "kernel")
    if not any(call.phase == Phase.BACKWARD for call in ops.calls):
        return guess("none", "there is no backward pass")
    if not again:
        return sure("none", "nothing of the forward pass runs again in backward")
    if again["mm"] + again["addmm"]:
        return sure("full", f"{again['mm'] + again['addmm']} products of the forward pass run again in backward")
    return sure("selective", f"{sum(again.values())} ops run again in backward, but no product")


def _cluster(ops: OpList, world: int) -> dict[str, Proposed]:
    key = ops.chip
    try:
        chip = catalog.chip(key or STAND_IN)
    except InputProblems:
        key, chip = "", catalog.chip(STAND_IN)
    per_node = world if chip.kind == "cpu" else min(world, chip.chips_per_node)
    found = {
        "cluster.chip": sure(chip.name, "the device that the profile names")
        if key
        else guess(chip.name, "the profile names no chip of the catalogue")
    }
    if _is_unmeasured_cpu(ops):
        found["cluster.chip"] = sure(catalog.THIS_CPU, "no kernels of a GPU, only ops of the CPU")
    whole = world % per_node == 0
    said = f"{world} ranks, and up to {chip.chips_per_node} chips in a node" if world > 1 else "one rank"
    if world > 1 and chip.kind == "cpu":
        said = f"{world} ranks of a CPU, which mostly share one host"
    found["cluster.chips_per_node"] = Proposed(value=per_node if whole else 1, sure=world == 1, evidence=said)
    found["cluster.nodes"] = Proposed(value=world // per_node if whole else world, sure=world == 1, evidence=said)
    return found


def _settle_table(document: dict[str, Any], found: dict[str, Proposed], seen: Seen) -> tuple[str, ...]:
    """Tell by the count of parameters whether the head has a table of its own; note where the two counts differ."""
    model = scenario_from_json(document).model
    counted = seen.ops.trained_parameters or seen.ops.parameters
    said = f"gradients of {counted:,} parameters are kept" if counted else "no gradients are kept"
    heads = (model.hidden, model.vocab // seen.tp) in seen.products
    untied = parameters(model, seen.attention.length)
    tied = untied - model.hidden * model.vocab
    if counted == tied and counted != untied and seen.tp == 1:
        value = sure(True, f"{said}: those of one table")
    elif counted == untied and seen.tp == 1:
        value = sure(False, f"{said}: those of two tables")
    elif counted and seen.tp == 1 and heads:
        nearer = abs(counted - tied) < abs(counted - untied)
        off = min(abs(counted - one) / counted for one in (tied, untied))
        far = "" if off < FAR_FRAC else ": neither is near, so some of the widths here are not the model's"
        value = guess(nearer, f"{said}; with one table the model has {tied:,}, with two {untied:,}{far}")
    else:
        value = guess(False, said)
    found["model.tied_embedding"] = value
    document["model"]["tied_embedding"] = value.value
    had = tied if value.value else untied
    if not counted or seen.tp != 1 or abs(had / counted - 1) < _UNTOLD_FRAC:
        return ()
    more = f"{abs(had - counted):,} {'more' if had > counted else 'fewer'}"
    return (f"The scenario's model has {had:,} parameters, {more} than the {counted:,} whose gradients are kept: "
            "some of its widths are not the program's.",)  # fmt: skip
