"""Lay out: an op list of one rank under a plan, and which plans it can be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from estimator.communication.placement import Degrees, groups_of
from estimator.cost.efficiency import Calibrated, efficiencies_for
from estimator.estimate.estimate import Estimate
from estimator.estimate.layout.data_parallel import with_data_parallel
from estimator.estimate.layout.fully_sharded import with_fully_sharded
from estimator.estimate.layout.linear_split import COLUMN, ROW, proposed_split
from estimator.estimate.layout.pipelined import estimate_pipelined
from estimator.estimate.layout.stages import LEAVE_OUT, cut
from estimator.estimate.layout.tensor_parallel import with_tensor_parallel
from estimator.estimate.layout.units import lacks, spread
from estimator.estimate.of_op_list import cluster_for, estimate_op_list, flops_of
from estimator.estimate.recorded import recorded
from estimator.scenario.codec import decode
from estimator.scenario.hardware import Chip, Cluster, Link
from estimator.scenario.legality import chunk_problems, schedule_problems
from estimator.scenario.op_list import OpList
from estimator.scenario.plan import SCHEDULES, Plan
from estimator.scenario.problems import InputProblems, Problem

OF_LISTS = ("dp", "sharding", "tp", "pp", "schedule", "virtual_stages", "bucket_bytes")
"""Fields of a plan that an op list can be laid out by."""
SHARDINGS = ("ddp", "zero3", "fsdp")
MOST_RANKS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Laying:
    """How a list is laid out: a plan, micro-batches of the list's own batch in a step, and how linears are split.

    ``split``: from the end of a module's path to ``column`` or ``row``; without, names propose it. ``link``: what joins
    the chips of a node, a name of the catalogue or one of one's own, "" for the chip's own.
    """

    plan: Plan = field(default_factory=Plan)
    micro_batches: int = 1
    split: Mapping[str, str] = field(default_factory=dict)
    link: str | Link = ""

    @property
    def moving(self) -> tuple[str, ...]:
        """Fields by which it differs from the list as it is."""
        plan = self.plan
        sizes = {"plan.dp": plan.dp, "plan.tp": plan.tp, "plan.pp": plan.pp, "micro_batches": self.micro_batches}
        return tuple(name for name, size in sizes.items() if size > 1)

    @property
    def moves(self) -> bool:
        """Whether it differs from the list as it is."""
        return bool(self.moving)


def laying_of(
    plan: Mapping[str, object], micro_batches: int = 1, split: Iterable[str] = (), link: str | Link = ""
) -> Laying:
    """Read how a list is laid out: fields of a plan, and texts such as q_proj=column.

    Raises InputProblems that name ``plan.…``, ``micro_batches`` or ``split`` for what no list can be laid out by.
    """
    named: dict[str, str] = {}
    for text in split:
        name, equals, how = text.partition("=")
        if not name or not equals:
            remedy = "Write the end of a module's path and how it is split, as in q_proj=column."
            raise InputProblems([Problem(field="split", message=f"{text[:60]!r} names no linear", remedy=remedy)])
        named[name.strip()] = how.strip()
    laying = Laying(plan=decode(Plan, plan, "plan"), micro_batches=micro_batches, split=named, link=link)
    if problems := [*_out_of_range(laying), *_idle(laying)]:
        raise InputProblems(problems)
    return laying


def laid_out(found: OpList, laying: Laying) -> OpList:
    """The list of one rank under a plan of one stage and micro-batch; raise InputProblems for what it cannot have."""
    check(found, laying)
    plan = laying.plan
    return _over_data_ranks(_over_tensor_ranks(found, laying), plan)


def estimate_laid_out(
    found: OpList,
    laying: Laying,
    chip: str | Chip = "",
    calibration: Calibrated | None = None,
    *,
    interval: bool = True,
) -> Estimate:
    """Predict the step of a list under a plan; raise InputProblems for what it cannot have."""
    check(found, laying)
    plan = laying.plan
    if not laying.moves:
        return estimate_op_list(found, cluster_for(found, chip, laying.link), calibration, interval=interval)
    cluster = cluster_for(replace(found, world_size=max(plan.chips, found.world_size)), chip, laying.link)
    split = _over_tensor_ranks(found, laying)
    if plan.pp == 1 and laying.micro_batches == 1:
        made = estimate_op_list(_over_data_ranks(split, plan), cluster, calibration, interval=interval)
        # Ranks that split linears work on the same tokens.
        per_chip = made.tokens_per_s_per_chip / plan.tp
        made = replace(made, tokens_per_s=per_chip * made.chips, tokens_per_s_per_chip=per_chip)
        return _once_counted(made, found, plan, cluster, calibration)
    degrees = Degrees(tp=plan.tp, cp=1, dp=plan.dp, pp=plan.pp, shard=plan.dp)
    groups = groups_of(degrees, plan.placement, cluster.chips_per_node)
    made = estimate_pipelined(
        split, plan, laying.micro_batches, lambda one: _over_data_ranks(one, plan), cluster, groups, calibration,
        interval=interval,
    )  # fmt: skip
    return _once_counted(made, found, plan, cluster, calibration)


def _once_counted(
    made: Estimate, found: OpList, plan: Plan, cluster: Cluster, calibration: Calibrated | None
) -> Estimate:
    """The estimate with the model's FLOPs as the undivided list has them: what every rank repeats counts once."""
    e = efficiencies_for(cluster.chip, calibration)
    model, _, _ = flops_of(recorded(found, cluster, e, interval=False))
    whole = model * made.micro_batches * plan.dp
    return replace(made, model_flops=whole, mfu=made.mfu * whole / made.model_flops if made.model_flops else 0.0)


def _over_tensor_ranks(found: OpList, laying: Laying) -> OpList:
    """Tensor parallel ranks are neighbours."""
    plan = laying.plan
    return with_tensor_parallel(plan.tp, laying.split, tuple(range(plan.tp)))(found) if plan.tp > 1 else found


def _over_data_ranks(found: OpList, plan: Plan) -> OpList:
    """Data parallel ranks stand as far apart as there are tensor parallel ones."""
    if plan.dp < 2:
        return found
    group = tuple(range(0, plan.dp * plan.tp, plan.tp))
    if plan.sharding == "ddp":
        return with_data_parallel(plan.dp, plan.bucket_bytes, group)(found)
    return with_fully_sharded(plan.dp, reshard=plan.sharding == "fsdp", group=group)(found)


def _out_of_range(laying: Laying) -> list[Problem]:
    """Fields that lists have not, and values that none can take."""
    plan, problems = laying.plan, list[Problem]()
    for one in fields(Plan):
        if one.name not in OF_LISTS and getattr(plan, one.name) != getattr(Plan(), one.name):
            remedy = f"An op list is laid out by {', '.join(OF_LISTS)}; leave it out."
            problems.append(Problem(field=f"plan.{one.name}", message="is for scenarios", remedy=remedy))
    if plan.chips > MOST_RANKS:
        problems.append(
            Problem(field="plan.dp", message=f"makes {plan.chips} ranks", remedy=f"Give {MOST_RANKS} at most.")
        )
    if plan.sharding not in SHARDINGS:
        remedy = f"One of: {', '.join(SHARDINGS)}."
        problems.append(
            Problem(field="plan.sharding", message=f"is {plan.sharding}, for scenarios alone", remedy=remedy)
        )
    if not 1 <= laying.micro_batches <= MOST_RANKS:
        remedy = f"Give 1 to {MOST_RANKS}."
        problems.append(Problem(field="micro_batches", message="is out of range", remedy=remedy))
    for name, how in laying.split.items():
        if how not in (COLUMN, ROW):
            problems.append(
                Problem(field="split", message=f"of {name!r} is {how!r}", remedy=f"One of: {COLUMN}, {ROW}.")
            )
    return problems


def _idle(laying: Laying) -> list[Problem]:
    """Fields that say how something is divided that is not: they would change nothing, whatever was meant by them."""
    plan, plain = laying.plan, Plan()
    asked = [
        ("plan.sharding", plan.sharding != plain.sharding, "dp", plan.dp),
        ("plan.bucket_bytes", plan.bucket_bytes != plain.bucket_bytes, "dp", plan.dp),
        ("plan.schedule", plan.schedule != plain.schedule, "pp", plan.pp),
        ("plan.virtual_stages", plan.virtual_stages != plain.virtual_stages, "pp", plan.pp),
        ("split", bool(laying.split), "tp", plan.tp),
    ]
    problems = [
        Problem(field=name, message=f"does nothing with {axis} 1", remedy=f"Give {axis} of 2 or more, or leave it out.")
        for name, given, axis, degree in asked
        if given and degree < 2
    ]
    if not problems and plan.bucket_bytes != plain.bucket_bytes and plan.sharding != "ddp":
        message = f"does nothing under {plan.sharding}, which exchanges layer by layer"
        problems.append(Problem(field="plan.bucket_bytes", message=message, remedy="Leave it out, or sharding."))
    return problems


def check(found: OpList, laying: Laying) -> None:
    """Raise InputProblems that name the fields that this list cannot be laid out by."""
    plan, problems = laying.plan, list[Problem]()
    if reason := spread(found):
        remedy = "Trace it for one rank, or for as many as are meant."
        message = f"needs a list of one rank; this {reason}"
        problems += [Problem(field=name, message=message, remedy=remedy) for name in laying.moving]
    if plan.pp > 1 and not problems:
        layers = len(cut(found).layers)
        found_problems = schedule_problems(plan.schedule, plan.pp, laying.micro_batches, plan.virtual_stages)
        problems += [_of_list(one, plan.pp) for one in found_problems]
        problems += chunk_problems(plan.schedule, plan.pp, plan.virtual_stages, layers)
        if plan.pp > layers:
            remedy = f"Choose {layers} or fewer."
            problems.append(
                Problem(field="plan.pp", message=f"is {plan.pp}; the list has {layers} layers", remedy=remedy)
            )
    if problems:
        raise InputProblems(problems)


def _of_list(problem: Problem, pp: int) -> Problem:
    """Name what a list has in place of a global batch."""
    if problem.field != "training.global_batch":
        return problem
    return replace(problem, field="micro_batches", remedy=f"Give a multiple of {pp}.")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A way to spread a list over ranks, or to scale it; ``reason``: why it cannot be asked for, "" where it can.

    ``choices``: what can be chosen of it; ``split``: the proposed plan of tensor parallelism.
    """

    key: str
    label: str
    reason: str = ""
    choices: tuple[str, ...] = ()
    split: Mapping[str, str] = field(default_factory=dict)


def layouts(found: OpList) -> tuple[Layout, ...]:
    """Which layouts a list can be given, what can be chosen of each, and why some cannot be asked for."""
    again = "trace it" if found.source == "trace" else "trace or profile it"
    alone = f"The list {reason}; {again} for one rank." if (reason := spread(found)) else ""
    whole = alone or (f"It {reason}; trace the program." if (reason := lacks(found)) else "")
    split = {} if whole else proposed_split(found).named
    stages = whole
    if not whole:
        try:
            cut(found)
        except InputProblems as error:
            stages = " ".join(
                f"It {one.message}. {one.remedy.replace(LEAVE_OUT, '')}" for one in error.problems
            ).strip()
    named = "" if split else "None of its repeated modules has linears whose names say how they are split."
    return (
        Layout(key="dp", label="data parallel", reason=alone),
        Layout(key="sharding", label="sharded states", reason=whole, choices=SHARDINGS),
        Layout(key="tp", label="tensor parallel", reason=whole or named, split=split),
        Layout(key="pp", label="pipeline", reason=stages, choices=SCHEDULES),
        Layout(
            key="batch",
            label="batch and sequence",
            reason=f"Its shapes hold them: {again} with other arguments of the program.",
        ),
    )
