"""Scenario: all that a prediction needs, from JSON to one frozen object, or to problems that name fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.codec import decode, encode, unknown_keys
from estimator.scenario.fitting import DEGREES, fitting_plans
from estimator.scenario.hardware import Chip, Cluster, Link
from estimator.scenario.legality import legality
from estimator.scenario.model import Model
from estimator.scenario.own_file import refuse_own
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.training import OPTIMIZER_KERNELS, OPTIMIZERS, Training
from estimator.scenario.units import counted

PARTS = ("model", "cluster", "plan", "training")
_CLUSTER_KEYS = ("chip", "chips_per_node", "nodes", "link", "network")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One training step to predict or to measure."""

    model: Model
    cluster: Cluster
    plan: Plan
    training: Training

    @property
    def micro_batches(self) -> int:
        """Micro-batches that one data parallel rank runs in a step: B / (dp · micro_batch)."""
        return self.training.global_batch // (self.plan.dp * self.plan.micro_batch)

    @property
    def tokens(self) -> int:
        """Tokens of one step over all ranks."""
        return self.training.global_batch * self.training.seq_len


def scenario_from_json(data: object) -> Scenario:
    """Read the contract's Scenario (names of the catalogue or inline objects); raise InputProblems."""
    scenario = scenario_as_given(data)
    problems = scenario_problems(scenario)
    if problems:
        raise InputProblems(problems)
    return scenario


def scenario_as_given(data: object) -> Scenario:
    """Read a well-formed Scenario, possible or not; raise InputProblems where it cannot be read."""
    problems: list[Problem] = []
    if not isinstance(data, Mapping):
        raise InputProblems(
            [Problem(field="scenario", message="must be a JSON object", remedy=f"Give {', '.join(PARTS)}.")]
        )
    if not any(name in data for name in PARTS):
        refuse_own(data, "scenario")
    problems += unknown_keys("", data, PARTS)
    readers = {"model": model_from_json, "cluster": cluster_from_json, "plan": _plan, "training": training_from_json}
    parts: dict[str, Any] = {}
    for name, read in readers.items():
        if name not in data and name != "plan":
            problems.append(Problem(field=name, message="is missing", remedy=f"Add {name!r} to the scenario."))
            continue
        try:
            parts[name] = read(data.get(name, {}))
        except InputProblems as error:
            problems += error.problems
    if problems:
        raise InputProblems(problems)
    return Scenario(**parts)


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """Write a scenario with every value inline, so that it can be read without this catalogue."""
    document: dict[str, Any] = encode(scenario)
    return document


def scenario_problems(scenario: Scenario) -> list[Problem]:
    """List everything that makes a well-formed scenario impossible."""
    model, cluster, plan, training = scenario.model, scenario.cluster, scenario.plan, scenario.training
    found = standing_problems(scenario)
    if plan.chips != cluster.chips:
        found.append(
            Problem(
                field="plan.dp",
                message=f"dp·tp·pp·cp = {plan.dp}·{plan.tp}·{plan.pp}·{plan.cp} = {plan.chips}, "
                f"but the cluster has {counted(cluster.chips, 'chip')}",
                remedy=_degrees_that_fit(scenario),
            )
        )
    if training.global_batch % (plan.dp * plan.micro_batch):
        found.append(
            Problem(
                field="training.global_batch",
                message=f"global batch {training.global_batch} does not divide into "
                f"dp·micro_batch = {plan.dp}·{plan.micro_batch}",
                remedy=f"Choose a global batch that is a multiple of {plan.dp * plan.micro_batch},"
                " or change dp or micro_batch.",
            )
        )
    found += legality(model, plan, training)
    return found


def _degrees_that_fit(scenario: Scenario) -> str:
    """Say which degrees would have as many chips as there are, and be legal in all else."""
    plan, chips = scenario.plan, scenario.cluster.chips
    near = fitting_plans(scenario.model, plan, scenario.training, chips)
    if not near:
        return "Change a degree, cluster.nodes or cluster.chips_per_node until they agree."
    ways = ", or ".join(_changed(plan, one) for one in near)
    return f"Choose {ways}, or change cluster.nodes or cluster.chips_per_node."


def _changed(plan: Plan, near: Plan) -> str:
    changed = [name for name in DEGREES if getattr(near, name) != getattr(plan, name)]
    *others, last = (f"{name} {getattr(near, name)}" for name in changed)
    return f"{', '.join(others)} and {last}" if others else last


def standing_problems(scenario: Scenario) -> list[Problem]:
    """List what no degree of a plan changes: the model's shape, the chip's peaks, its way to host memory."""
    cluster = scenario.cluster
    found = [*scenario.model.problems(), *cluster.problems(scenario.training.precision)]
    if scenario.plan.offload != "none" and not cluster.chip.host_bytes_per_s:
        found.append(
            Problem(
                field="plan.offload",
                message=f"no bandwidth to host memory is known for {cluster.chip.label or cluster.chip.name}",
                remedy="Set offload to none, or give cluster.chip.host_bytes_per_s.",
            )
        )
    return found


def model_from_json(value: object) -> Model:
    """Read a catalogue name or an inline model; raise InputProblems."""
    if not isinstance(value, (str, Mapping)):
        raise InputProblems([_neither("model", "gpt2")])
    return catalog.model(value) if isinstance(value, str) else decode(Model, value, "model")


def _plan(value: object) -> Plan:
    return decode(Plan, value, "plan")


def training_from_json(value: object) -> Training:
    """Read the training part; raise InputProblems."""
    try:
        return decode(Training, value, "training")
    except InputProblems as error:
        raise InputProblems([_of_kernel(value, one) for one in error.problems]) from None


def _of_kernel(value: object, problem: Problem) -> Problem:
    """The problem; an optimizer that is named with the kernels of its update says where those belong."""
    named = value.get("optimizer") if isinstance(value, Mapping) else None
    if problem.field != "training.optimizer" or not isinstance(named, str):
        return problem
    optimizer, _, kernel = named.lower().partition("-")
    if optimizer not in OPTIMIZERS or kernel not in OPTIMIZER_KERNELS:
        return problem
    return replace(problem, remedy=f'Write "optimizer": "{optimizer}", "optimizer_kernel": "{kernel}".')


def cluster_from_json(value: object) -> Cluster:
    """Read a chip's name (one usual node of it), or the contract's object; links default to the chip's own."""
    if isinstance(value, str):
        value = {"chip": value}
    if not isinstance(value, Mapping):
        raise InputProblems(
            [
                Problem(
                    field="cluster",
                    message="must be a chip's name or an object",
                    remedy='Write {"chip": "h100-sxm", "nodes": 1}.',
                )
            ]
        )
    unknown = unknown_keys("cluster", value, _CLUSTER_KEYS)
    if unknown:
        raise InputProblems(unknown)
    if "chip" not in value:
        raise InputProblems(
            [Problem(field="cluster.chip", message="is missing", remedy="Name a chip of the catalogue.")]
        )
    chip = chip_from_json(value["chip"])
    return decode(
        Cluster,
        {
            "chip": chip,
            "chips_per_node": value.get("chips_per_node", chip.chips_per_node),
            "nodes": value.get("nodes", 1),
            "link": link_from_json(value.get("link", chip.link)),
            "network": link_from_json(value.get("network", chip.network), "cluster.network"),
        },
        "cluster",
    )


def chip_from_json(value: object) -> Chip:
    """Read a chip of the catalogue by its name, or one of one's own by its fields; raise InputProblems."""
    if not isinstance(value, (str, Mapping)):
        raise InputProblems([_neither("cluster.chip", "h100-sxm")])
    return catalog.chip(value) if isinstance(value, str) else decode(Chip, value, "cluster.chip")


def _neither(field: str, example: str) -> Problem:
    """What a name of the catalogue or an object should stand for, and is neither."""
    return Problem(field=field, message="must be a name of the catalogue or an object", remedy=f'Write "{example}".')


def link_from_json(value: object, where: str = "cluster.link") -> Link:
    """Read a link of the catalogue by its name, or one of one's own by its fields; raise InputProblems."""
    if isinstance(value, str):
        return catalog.link(value, where)
    if not isinstance(value, Mapping):
        raise InputProblems([_neither(where, "nvlink4" if where == "cluster.link" else "infiniband-ndr")])
    return decode(Link, value, where)
