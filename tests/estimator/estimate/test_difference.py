"""Where the difference goes: every pair's causes add to its difference, and each says what it is of."""

from __future__ import annotations

import json
import math
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimate.compare import compare, of_estimate, of_measurement
from estimator.estimate.difference import Spent, Told, causes, divided
from estimator.estimate.estimate import estimate
from estimator.scenario.codec import decode
from estimator.scenario.measurement import Kernel, Measurement
from estimator.scenario.scenario import scenario_from_json
from tests.properties.scenarios import scenarios

ROOT = Path(__file__).parents[3]
BUNDLED = sorted((ROOT / "app" / "samples").glob("*.json")) + sorted((ROOT / "tests/reference/h200").glob("*-*.json"))
LLAMA = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 8, "sharding": "fsdp", "recompute": "full"},
    "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16-amp"},
}


def predicted(**plan):
    document = {**LLAMA, "plan": {**LLAMA["plan"], **plan}}
    scenario = scenario_from_json(document)
    return of_estimate(estimate(scenario, interval=False), scenario, "")


def between(a, b):
    return compare([a, b]).deltas[1]


def assert_whole(a, b):
    """The causes add to the difference; factors of one cause add to its own."""
    found = between(a, b)
    longest = max(a.step_time_s, b.step_time_s)
    assert math.fsum(one.seconds for one in found.causes) == pytest.approx(found.step_time_s, abs=1e-9 * longest)
    for name in {(one.name, one.axis) for one in found.causes}:
        factors = [one for one in found.causes if (one.name, one.axis) == name]
        whole = factors[0].b_s - factors[0].a_s
        assert math.fsum(one.seconds for one in factors) == pytest.approx(whole, abs=1e-9 * longest), name
    assert len({(one.name, one.axis, one.factor) for one in found.causes}) == len(found.causes)


@given(st.lists(scenarios(), min_size=15, max_size=15))
@settings(max_examples=1, deadline=None)
def test_any_two_predictions(drawn):
    """More than 200 pairs of a few scenarios, whose estimates are made once."""
    items = [of_estimate(estimate(scenario, interval=False), scenario, "") for scenario in drawn]
    for a, b in permutations(items, 2):
        assert_whole(a, b)
        assert all(cause.name != "untold" for cause in between(a, b).causes), "a prediction tells everything"
    assert between(items[0], items[0]).step_time_s == 0


def test_all_bundled_measurements_among_each_other_and_beside_their_predictions():
    measured = []
    for path in BUNDLED:
        document = json.loads(path.read_text())
        if "steps_s" in document:
            found = decode(Measurement, document)
            measured.append(of_measurement(found))
            if found.scenario:
                scenario = scenario_from_json(found.scenario)
                measured.append(of_estimate(estimate(scenario, interval=False), scenario, ""))
    timed = [item for item in measured if item.step_time_s]
    assert len(timed) >= 6
    for a, b in permutations(timed, 2):
        assert_whole(a, b)


positive = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=3))
def test_a_product_is_divided_over_its_factors_whichever_way_it_is_read(factors):
    a, b = (math.prod(pair[side] for pair in factors) for side in (0, 1))
    parts = divided(factors, b - a)
    assert math.fsum(parts) == pytest.approx(b - a, abs=1e-9 * max(a, b))
    back = divided([(y, x) for x, y in factors], a - b)
    assert back == pytest.approx([-part for part in parts], abs=1e-9 * max(a, b))
    same = [part for part, (x, y) in zip(parts, factors, strict=True) if x == y]
    assert same == pytest.approx([0.0] * len(same), abs=1e-9 * max(a, b)), "what does not change is no cause"


def test_what_changes_is_the_cause():
    plain = predicted()
    longer = {one.factor: one for one in between(plain, predicted(micro_batch=2)).causes if one.name == "matmul"}
    assert set(longer) == {"amount", "again", "rate"}
    assert longer["rate"].seconds < 0, "larger products are faster, the recomputed ones too"
    for same in (longer["amount"], longer["again"]):
        assert (abs(same.seconds) < 1e-9, same.a_amount) == (True, pytest.approx(same.b_amount))
    tensor = between(plain, predicted(dp=4, tp=2)).causes
    axes = {one.axis for one in tensor if one.name == "communication"}
    assert axes == {"dp", "tp"}
    new = [one for one in tensor if one.axis == "tp"]
    assert [(one.factor, one.a_s) for one in new if one.seconds] == [("amount", 0.0)], "there was none before"
    serial = [one for one in between(plain, predicted(overlap=False)).causes if one.axis == "dp"]
    assert max(serial, key=lambda one: one.seconds).factor == "overlap"


def test_what_is_recomputed_is_no_kernel_of_another_speed():
    kept = predicted(recompute="none")
    for again in (predicted(), predicted(recompute="selective")):
        found = between(kept, again).causes
        assert all(abs(one.seconds) < 1e-9 for one in found if one.factor in ("rate", "amount"))
        attention = next(one for one in found if (one.name, one.factor) == ("attention", "again"))
        assert (attention.seconds > 0, attention.a_amount, attention.b_amount > 0) == (True, 0, True)
        back = [one for one in between(again, kept).causes if one.factor == "again"]
        assert all(one.seconds < 0 for one in back)


def test_what_a_side_does_not_tell_is_one_bar():
    base = Told(step_time_s=2.0, spent=[Spent(category="matmul", seconds=1.5, amount=3.0, unit="FLOP"),
                                        Spent(category="bubble", seconds=0.5)])  # fmt: skip
    silent = Told(step_time_s=3.0)
    (whole,) = causes(base, silent)
    assert (whole.name, whole.seconds, whole.a_s, whole.b_s) == ("untold", 1.0, 2.0, 3.0)
    partly = Told(step_time_s=3.0, spent=[Spent(category="matmul", seconds=2.0)])
    matmul, rest = causes(base, partly)
    assert (matmul.name, matmul.factor, matmul.seconds) == ("matmul", "", 0.5), "no amount, so it stays whole"
    assert (rest.name, rest.seconds, rest.a_s, rest.b_s) == ("untold", 0.5, 0.5, 1.0), "it says no bubble"
    phases = causes(*(Told(step_time_s=t, phases_s={"forward": t / 4, "backward": t / 2}) for t in (2.0, 3.0)))
    assert [(one.name, one.seconds) for one in phases] == [("forward", 0.25), ("backward", 0.5), ("untold", 0.25)]
    assert causes(base, Told(step_time_s=None)) == ()
    # phases add to their step but for rounding, which is no rest
    phases = {"forward": 0.1, "backward": 0.2}
    whole, longer = Told(step_time_s=0.3 + 1e-14, phases_s=phases), Told(step_time_s=0.5, phases_s=phases)
    (rest,) = [one for one in causes(whole, longer) if one.name == "untold"]
    assert (rest.a_s, rest.b_s) == (0.0, pytest.approx(0.2))


def test_an_amount_is_known_where_nearly_all_kernels_say_it():
    kernels = [
        Kernel(name=name, category="matmul", count=1, total_s=1.0, flops=flops)
        for name, flops in (("a", 5.0), ("b", None))
    ]
    measurement = Measurement(steps_s=(2.0,), breakdown_s={"matmul": 2.0}, kernels=tuple(kernels))
    assert of_measurement(measurement).spent[0].amount is None
    assert (
        of_measurement(Measurement(steps_s=(1.0,), breakdown_s={"matmul": 1.0}, kernels=tuple(kernels[:1])))
        .spent[0]
        .amount
        == 5.0
    )


def test_a_step_that_keeps_its_longest_kernels_alone_says_no_amount():
    """The trainer's profile keeps twelve: 34 of 40 ms of products, whose FLOPs are fewer than those of the step."""
    path = ROOT / "tests/reference/h200_scripts/measured/trainer-gpt2-medium.json"
    found = of_measurement(decode(Measurement, json.loads(path.read_text())))
    (matmul,) = [one for one in found.spent if one.category == "matmul"]
    assert (matmul.amount, matmul.seconds > 0.039) == (None, True)
    whole = Told(step_time_s=0.12, spent=[Spent(category="matmul", seconds=0.035, amount=4e13, unit="FLOP")])
    (cause, *_) = causes(whole, Told(step_time_s=found.step_time_s, spent=found.spent))
    assert (cause.name, cause.factor, cause.b_amount) == ("matmul", "", None)
    assert cause.seconds == pytest.approx(matmul.seconds - 0.035)


def test_the_only_axis_of_as_many_ranks_is_one_cause_whatever_it_is_called():
    def told(**axes: tuple[int, float]) -> Told:
        spent = [
            Spent(category="communication", axis=axis.replace("_", " ").strip(), ranks=ranks, seconds=s)
            for axis, (ranks, s) in axes.items()
        ]
        return Told(step_time_s=math.fsum(one.seconds for one in spent), spent=spent)

    recorded = told(**{"8_ranks": (8, 1.0)})
    (cause,) = causes(recorded, told(dp=(8, 3.0)))
    assert (cause.axis, cause.a_s, cause.b_s) == ("dp", 1.0, 3.0)
    (back,) = causes(told(dp=(8, 3.0)), recorded)
    assert (back.axis, back.seconds) == ("dp", -2.0)
    assert {one.axis for one in causes(recorded, told(dp=(8, 3.0), tp=(8, 1.0)))} == {"8 ranks", "dp", "tp"}
    assert {one.axis for one in causes(recorded, told(dp=(4, 3.0)))} == {"8 ranks", "dp"}
    both = told(dp=(8, 2.0), **{"8_ranks": (8, 1.0)})
    apart = {one.axis: one.seconds for one in causes(both, told(dp=(8, 3.0)))}
    assert apart == {"dp": pytest.approx(1.0), "8 ranks": pytest.approx(-1.0)}, "two of one side are not one axis"
