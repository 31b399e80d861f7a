"""What the page works out by itself, for the moment before the server answers, is what the estimator says."""

from __future__ import annotations

import random
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.api.catalog import fields
from estimator.estimate.timeline import stages_shown
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.plan import CP_KINDS, PLACEMENTS, RECOMPUTES, SCHEDULES, SHARDINGS, TP_KINDS, Plan
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_as_given, scenario_problems
from estimator.scenario.training import Training
from estimator.scenario.units import bytes_text, engineering, seconds
from estimator.search.axis import AXIS_FIELDS, moved, values
from estimator.search.coupled_fields import batch_following, following
from tests.javascript import call_each

MOVES = 3_000
GRIDS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 27, 32, 36, 50, 64, 72, 98, 100, 128)
"""Tensor parallel degrees that make grids of every kind, and some that make none."""
COUPLED = {
    "schedule": SCHEDULES,
    "virtual_stages": (1, 2, 3, 4),
    "tp_kind": TP_KINDS,
    "tp": GRIDS,
    "recompute": RECOMPUTES,
    "recompute_every": (1, 2, 4),
    "dp": (1, 2, 4),
    "sharding": SHARDINGS,
}


@pytest.fixture
def draw() -> random.Random:
    return random.Random(20_261_122)


def _plan(draw: random.Random) -> Plan:
    """Any plan, possible or not."""
    return Plan(
        dp=draw.choice((1, 2, 3, 4, 5, 6, 8, 12, 16, 48, 64)),
        tp=draw.choice(GRIDS),
        tp_kind=draw.choice(TP_KINDS),
        tp_depth=draw.choice((1, 1, 2, 3, 4, 8, 12)),
        sequence_parallel=draw.random() < 0.5,
        cp=draw.choice((1, 1, 2, 4)),
        cp_kind=draw.choice(CP_KINDS),
        pp=draw.choice((1, 2, 4, 8)),
        virtual_stages=draw.choice((1, 1, 2, 3, 4)),
        schedule=draw.choice(SCHEDULES),
        ep=draw.choice((1, 1, 2, 8)),
        sharding=draw.choice(SHARDINGS),
        shard_ranks=draw.choice((0, 0, 2, 4)),
        micro_batch=draw.choice((1, 2, 3, 4, 6, 8, 16)),
        recompute=draw.choice(RECOMPUTES),
        recompute_every=draw.choice((1, 1, 2, 4)),
        placement=draw.choice(PLACEMENTS),
    )


def _cluster(draw: random.Random, chips: int) -> dict[str, Any]:
    """As many chips, in nodes of the usual size or of another, larger ones too."""
    key = draw.choice(("h200-sxm", "v100-32gb", "mi300x", "rtx-4090", "tpu-v5p"))
    sizes = [size for size in range(1, 17) if chips % size == 0]
    usual = max(size for size in sizes if size <= catalog.chip(key).chips_per_node)
    size = draw.choice((usual, usual, draw.choice(sizes)))
    return {"chip": key, "chips_per_node": size, "nodes": chips // size}


def test_coupled_fields_of_a_plan_move_together(draw: random.Random):
    moves = []
    while len(moves) < MOVES:
        plan, name = _plan(draw), draw.choice(list(COUPLED))
        value = draw.choice(COUPLED[name])
        if value != getattr(plan, name):
            moves.append((plan, name, value))
    found = call_each("coupledFields", "following", [(asdict(plan), name, value) for plan, name, value in moves])
    differing = [(*move, one) for move, one in zip(moves, found, strict=True) if following(*move) != one]
    assert not differing
    assert sum(map(bool, found)) > MOVES / 3


def test_the_batch_follows_dp(draw: random.Random):
    moves = [
        (_plan(draw), Training(seq_len=128, global_batch=draw.choice((draw.randint(1, 64), draw.randint(1, 5000)))))
        for _ in range(MOVES)
    ]
    found = call_each("coupledFields", "batchFollowing", [(asdict(plan), asdict(training)) for plan, training in moves])
    differing = [(*move, one) for move, one in zip(moves, found, strict=True) if batch_following(*move) != dict(one)]
    assert not differing
    assert {path for one in found for path, _ in one} == {"plan.micro_batch", "training.global_batch"}


def test_a_field_moves_the_whole_scenario_as_its_axis_does(draw: random.Random):
    models = [entry.key for entry in catalog.entries("models")]
    given, expected = [], []
    while len(given) < MOVES:
        plan = _plan(draw)
        batch = draw.choice((draw.randint(1, 500), plan.dp * plan.micro_batch * draw.choice((1, 2, 3, 4, 8))))
        document = {
            "model": draw.choice(models),
            "cluster": _cluster(draw, plan.chips),
            "plan": asdict(plan),
            "training": asdict(Training(seq_len=1024, global_batch=batch)),
        }
        try:
            scenario = scenario_as_given(document)
            field = draw.choice([field for field in AXIS_FIELDS if field != "cluster.nodes"])  # no control of the page
            value = draw.choice(values(scenario, field))
            after = moved(document, scenario, field, value)
        except InputProblems:  # more nodes than a cluster may have, or a degree that does not divide the chips
            continue
        if value != document[field.split(".")[0]][field.split(".")[1]]:
            given.append((document, field, value, scenario.cluster.chip.chips_per_node))
            expected.append(after)
    found = call_each("scenario", "withField", given)
    differing = [(*move, after, one) for move, after, one in zip(given, expected, found, strict=True) if after != one]
    assert not differing


def test_what_a_scenario_leaves_out_is_filled_in_alike(draw: random.Random):
    entries = {kind: catalog.entries(kind) for kind in ("models", "chips", "links")}
    known = {kind: [encode(entry) for entry in found] for kind, found in entries.items()} | {"fields": fields()}
    given = []
    for _ in range(200):
        model, chip, link = (draw.choice(entries[kind]) for kind in ("models", "chips", "links"))
        plan, training = asdict(_plan(draw)), asdict(Training(seq_len=1024, global_batch=64, compile=True))
        sizes = {"chips_per_node": draw.randint(1, 16), "nodes": draw.randint(1, 9), "link": link.key}
        cluster = {name: value for name, value in sizes.items() if draw.random() < 0.5}
        own = encode(replace(model.value, layers=draw.randint(1, 99)))
        given.append(
            {
                "model": draw.choice((model.key, *model.aliases, own)),
                "cluster": draw.choice((chip.key, {"chip": draw.choice((chip.key, *chip.aliases)), **cluster})),
                "plan": {name: value for name, value in plan.items() if draw.random() < 0.5},
                "training": {
                    name: value
                    for name, value in training.items()
                    if draw.random() < 0.5 or name in ("seq_len", "global_batch")
                },
            }
        )
    for document, found in zip(given, call_each("scenario", "complete", [(one, known) for one in given]), strict=True):
        scenario = scenario_as_given(document)
        assert scenario_as_given(found) == scenario
        assert (found["plan"], found["training"]) == (asdict(scenario.plan), asdict(scenario.training))


FITTED = {"plan.micro_batch", "plan.pp", "plan.virtual_stages", "training.global_batch"}
"""Where a plan on another number of chips may be refused: grids and interleaving want batches, chunks want layers."""


def _legal(draw: random.Random) -> dict[str, Any]:
    models = [entry.key for entry in catalog.entries("models")]
    while True:
        key, kind = draw.choice(models), draw.choice(("1d", "1d", *TP_KINDS))
        schedule = draw.choice(SCHEDULES)
        plan = replace(
            _plan(draw),
            tp={"2d": 4, "2.5d": 8, "3d": 8}.get(kind) or draw.choice((1, 2, 4, 8)),
            tp_kind=kind,
            tp_depth=2 if kind == "2.5d" else 1,
            schedule=schedule,
            virtual_stages=draw.choice((2, 3)) if schedule == "interleaved" else 1,
            ep=draw.choice((1, 2, 4)) if catalog.model(key).experts else 1,
            recompute_every=1,
        )
        batch = plan.dp * plan.micro_batch * plan.pp * draw.choice((1, 2, 4))
        document = {
            "model": key,
            "cluster": {"chip": "h200-sxm", "chips_per_node": 1, "nodes": plan.chips},
            "plan": asdict(plan),
            "training": asdict(Training(seq_len=4096, global_batch=batch)),
        }
        if not scenario_problems(scenario_as_given(document)):
            return document


def test_a_plan_on_another_number_of_chips_has_degrees_that_are_legal(draw: random.Random):
    moves = [(_legal(draw), draw.choice((1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 48, 64, 96, 100, 128))) for _ in range(600)]
    fitted = call_each("scenario", "withField", [(one, "cluster.chips", chips, 8) for one, chips in moves])
    refused = 0
    for (before, chips), after in zip(moves, fitted, strict=True):
        assert after["cluster"]["chips_per_node"] * after["cluster"]["nodes"] == chips
        problems = scenario_problems(scenario_as_given(after))
        assert {problem.field for problem in problems} <= FITTED, (before, after, problems)
        refused += bool(problems)
    assert refused < 0.05 * len(moves)


@pytest.mark.parametrize(
    ("kind", "text", "powers"),
    [("s", seconds, (-9, 3)), ("bytes", bytes_text, (0, 18)),
     ("flops_per_s", lambda value: engineering(value, "FLOP/s"), (0, 18))],
)  # fmt: skip
def test_a_quantity_has_the_same_digits_and_unit(draw: random.Random, kind: str, text: Any, powers: tuple[int, int]):
    """Ties aside, which Python rounds to even digits; the page writes trailing zeros, the command line none."""
    numbers = [10 ** draw.uniform(*powers) for _ in range(MOVES)]
    for value, found in zip(
        numbers, call_each("format", "quantity", [(value, kind) for value in numbers]), strict=True
    ):
        ours, theirs = (re.fullmatch(r"([\d.]+) (\S+)", one.replace("\u202f", "")) for one in (found, text(value)))
        assert ours, found
        assert theirs, text(value)
        assert (float(ours[1]), ours[2]) == (float(theirs[1]), theirs[2])


def test_a_pipeline_that_is_still_to_be_laid_out_has_the_stages_that_will_be_drawn():
    sizes = range(2, 130)
    sides = [[{"pp": pp, "step_s": 1.0, "peak_bytes": 0, "sends": True}] for pp in sizes]
    for pp, place in zip(sizes, call_each("figures/timeline", "placeOf", sides), strict=True):
        assert place["lanes"] == [f"stage {stage + 1}" for stage in stages_shown(pp)]
