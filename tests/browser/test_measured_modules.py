"""What the page's pure modules say of a measurement, and of what stands beside it; run in the browser they are for."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.browser

CHIPS = [
    {"key": "h200-sxm", "label": "NVIDIA H200 SXM", "aliases": ["H200"], "value": {"chips_per_node": 8}},
    {"key": "cpu", "label": "This CPU", "aliases": [], "value": {"chips_per_node": 1}},
]


@pytest.mark.parametrize(
    ("device", "named", "model", "expected"),
    [
        ({"kind": "cuda", "name": "NVIDIA H200 SXM"}, {"chip": {"name": "h200-sxm"}}, "m", ""),
        ({"kind": "cpu", "name": "EPYC"}, {"chip": {"name": "h200-sxm"}}, "m", "chip"),
        ({"kind": "cpu", "name": "EPYC"}, "H200", "m", "chip"),
        ({"kind": "cpu", "name": "EPYC"}, {"chip": "h200-sxm"}, "other", "model"),
        ({"kind": "cuda", "name": "never heard of"}, {"chip": "h200-sxm"}, "m", ""),
        ({"kind": "cuda", "name": "NVIDIA H200 SXM"}, {"chip": {"name": "made up"}}, "m", ""),
    ],
)
def test_a_measurement_and_a_prediction_for_another_chip_are_apart(call, device, named, model, expected):
    shown = {"model": "m", "cluster": {"chip": "h200-sxm", "chips_per_node": 1, "nodes": 1}}
    measurement = {"device": device, "scenario": {"cluster": named}, "warnings": []}
    ran = call("measured", "ranAs", measurement, {**shown, "model": model}, CHIPS)
    chosen = {"measurement": measurement, "measuredScenario": ran, "catalog": {"chips": CHIPS}}
    assert call("measured", "apart", chosen, shown) == expected
    assert call("measured", "beside", chosen, shown) == (None if expected else measurement)
    assert ran["cluster"]["chip"] == ("cpu" if device["kind"] == "cpu" else "h200-sxm")
    assert call("measured", "apart", chosen, ran) == ""
    words = "Predicted for NVIDIA H200 SXM, which the scenario names; this ran on EPYC."
    assert call("measured", "misnamedWords", measurement, CHIPS) == (words if device["kind"] == "cpu" else "")


def test_a_bundled_run_that_nobody_chose_is_not_said_to_be_of_another_model(call):
    catalog = {"chips": CHIPS, "models": [], "fields": {}}
    cluster = {"chip": "h200-sxm"}
    given = {"measurement": {"id": "bundled", "device": {"name": "NVIDIA H200"}}, "catalog": catalog, "pair": None,
             "measuredScenario": {"model": "one", "cluster": cluster},
             "scenario": {"model": "another", "cluster": cluster}}  # fmt: skip
    assert "another model was measured" in call("measured", "relationWords", given)
    assert call("measured", "relationWords", {**given, "sample": "other"}) != ""
    assert call("measured", "relationWords", {**given, "sample": "bundled"}) == ""


def test_another_machine_s_cpu_is_named_where_this_one_is_predicted(call):
    chips = [CHIPS[0], {**CHIPS[1], "label": "This CPU (Xeon 8480, 4 units)"}]
    words = "Measured on EPYC, of which no prediction exists: predicted for This CPU (Xeon 8480, 4 units)."
    ran = {"model": "m", "cluster": {"chip": "cpu", "chips_per_node": 1, "nodes": 1}, "plan": {}, "training": {}}
    for name, expected in (("EPYC", words), ("Xeon 8480", "")):
        measurement = {"device": {"kind": "cpu", "name": name}, "scenario": ran, "warnings": [], "origin": {}}
        chosen = {"measurement": measurement, "measuredScenario": ran, "catalog": {"chips": chips}, "scenario": ran}
        assert call("measured", "misnamedWords", measurement, chips) == expected
        assert call("measured", "relationWords", {**chosen, "pair": None}) == expected
    # of this CPU it is said whose measurement of it is taken, where that is another than the one known here
    peaks = {"name": "cpu", "label": chips[1]["label"], "fp32_flops_per_s": 2e11, "memory_bytes_per_s": 2e10}
    chips[1] = {**chips[1], "value": peaks}
    for its, words in (
        (peaks, ""),
        (
            {**peaks, "fp32_flops_per_s": 1e11},
            "predicted from another measurement of this CPU: 100 GFLOP/s and 20.0 GB/s, here 200 GFLOP/s and 20.0 GB/s",
        ),
    ):
        own = {**ran, "cluster": {**ran["cluster"], "chip": its}}
        given = {**chosen, "measuredScenario": own, "scenario": own, "pair": None, "catalog": {"chips": chips}}
        assert call("measured", "relationWords", given) == words
    bare = {"device": {"name": "cpu"}, "origin": {"format": "kineto"}, "steps_s": [1], "step_s": 1}
    chosen = {"measurement": bare, "measuredScenario": None, "catalog": {"chips": chips}, "scenario": ran, "pair": None}
    assert call("measured", "relationWords", chosen).startswith("measured on a CPU that it does not name; not drawn")
    both = {name: {"measurement": bare, "predicted": False} for name in ("a", "b")}
    assert call("measured", "relationWords", {**chosen, "pair": both}) == "measured on a CPU that it does not name"


@pytest.mark.parametrize(
    ("device", "usd_per_hour"),
    [
        ({"kind": "cpu"}, None),
        ({"kind": "cpu", "name": "EPYC"}, None),
        ({"kind": "cuda", "name": "never heard of"}, None),
        ({"kind": "cuda", "name": "NVIDIA H200 SXM"}, 3.5),
        ({}, 3.5),
    ],
)
def test_a_run_has_the_price_of_the_chip_that_it_ran_on_not_of_its_scenario_s(call, device, usd_per_hour):
    gpu = {**CHIPS[0], "value": {"name": "h200-sxm", "usd_per_hour": 3.5}}
    ran = {"model": "m", "cluster": {"chip": "h200-sxm", "chips_per_node": 1, "nodes": 1}, "plan": {}, "training": {}}
    measurement = {"device": device, "steps_s": [0.5], "step_s": 0.5, "memory": {}, "phases_s": {}, "world_size": 1}
    shown = {"a": "", "b": "m:one", "measured": "one", "measurement": measurement, "measuredScenario": ran}
    pair = call("sides", "pairOf", {**shown, "catalog": {"chips": [gpu]}}, {})
    assert pair["b"]["chip"].get("usd_per_hour") == usd_per_hour


def test_two_measurements_of_one_name_are_called_by_when_they_came(call):
    ids = ("20261127-185536-258-a9eba7-0", "20261127-185538-058-2b218c-0")
    a, b = ({"key": f"m:{one}", "name": "trace", "extra": "cpu", "measurement": {"id": one}} for one in ids)
    first, second = call("sides", "extrasOf", a, b)
    assert re.fullmatch(r"cpu, 2026-11-2[678] \d\d:\d\d:36", first)
    assert re.fullmatch(r"cpu, 2026-11-2[678] \d\d:\d\d:38", second)
    assert call("sides", "extrasOf", {**a, "name": "another"}, b) == ["cpu", "cpu"]
    assert call("sides", "extrasOf", {**a, "measurement": {"id": "bundled"}}, b) == ["cpu", second]
    assert call("sides", "extrasOf", {**a, "measurement": None}, b) == ["cpu", "cpu"], "a plan"


def test_the_spread_of_measured_steps_is_said_where_there_are_several(call):
    assert call("measured", "spreadWords", {"steps_s": [0.5, 0.94, 0.8]}) == (
        "Measured: the median of 3 steps, 500 ms to 940 ms."
    )
    assert call("measured", "spreadWords", {"steps_s": [0.8, 1.55, 0.5], "disturbance": 3.1}) == (
        "Disturbed: 3 steps differ by 3.1×; the fastest is shown."
    )
    assert call("measured", "spreadWords", {"steps_s": [0.5]}) == call("measured", "spreadWords", None) == ""


def test_what_would_tell_more_of_a_step_is_said_where_only_its_time_is_known(call):
    logged = {"steps_s": [0.5], "step_s": 0.5, "phases_s": {}, "breakdown_s": {}}
    assert call("measured", "untoldWords", logged).startswith(
        "Only its step time is known: a profile of torch.profiler"
    )
    phases = {"phases_s": {"forward": 0.2, "backward": 0.3}}
    assert call("measured", "untoldWords", {**logged, **phases}).startswith("Only its phases are known: a profile")
    assert call("measured", "untoldWords", {**logged, **phases, "breakdown_s": {"matmul": 0.4}}) == ""
    assert call("measured", "untoldWords", {**logged, "steps_s": [], "step_s": None}) == ""
    assert call("measured", "untoldWords", None) == ""


def test_a_prediction_that_says_nothing_has_no_error(call):
    run = {"step_time_s": 0.5, "disturbance": 0, "scenario": {"cluster": {"chip": "cpu"}}}
    run |= {"origin": {"format": "step"}, "predicted": {"step_time_s": 0.4}}
    assert call("items", "errorOf", run, {"doubts": {}}) == pytest.approx(-0.2)
    assert call("items", "errorOf", run, {"doubts": {"cpu": "measured while others ran"}}) is None
    chips = [{"key": "cpu", "value": {"memory_bytes": 1}}]
    for now, anew in (([{"key": "cpu", "value": {"memory_bytes": 2}}], True), (chips, False), ([], False)):
        assert call("measured", "anewAmong", chips, now) == (["cpu"] if anew else [])
        for measuring in (True, False):
            ended = [{"chips": chips, "measuring": True}, {"chips": now, "measuring": measuring}]
            assert call("measured", "isUnchanged", *ended) is not (measuring or anew)
    assert call("measured", "anewAmong", [], chips) == [], "what comes anew has no predictions of before"
    catalog = {"doubts": {"cpu": "measured while others ran"}, "chips": CHIPS}
    gpu, cpu = ({"chip": one["value"] | {"name": one["key"]}} for one in CHIPS)
    named = {**catalog, "chips": [{**one, "value": one["value"] | {"name": one["key"]}} for one in CHIPS]}
    for panel, b, stands in (("h200-sxm", gpu, False), ("cpu", gpu, True), ("h200-sxm", cpu, True)):
        shown = {"catalog": named, "scenario": {"cluster": {"chip": panel}}, "pair": {"a": gpu, "b": b}}
        assert call("sides", "standsOn", ["cpu"], shown) is stands, "only there it is said to be of before"
    run_side = {"predicted": False, "scenario": None}
    for kind, said in (("cpu", "CPU was busy"), ("gpu", "chip was busy")):
        its = {"predicted": True, "scenario": None, "chip": {"name": "cpu", "kind": kind}}
        assert call("sides", "doubtBadge", {"a": its, "b": run_side}, catalog) == said
    assert call("sides", "doubtBadge", {"a": its, "b": its}, catalog) == "", "two predictions differ all the same"
    assert call("items", "errorOf", {**run, "disturbance": 3.0}, {}) is None
    assert call("items", "errorOf", {**run, "predicted": None}, {}) is None


def test_a_step_takes_what_the_server_says_it_does_else_what_its_parts_add_to(call):
    parts = {"phases_s": {"forward": 1.0, "backward": 2.0}, "breakdown_s": {}}
    assert call("measured", "stepTime", {"steps_s": [9.0], "step_s": 0.5, **parts}) == 0.5
    assert call("measured", "stepTime", {"steps_s": [], "step_s": None, **parts}) == 3.0
    assert call("measured", "stepTime", {"steps_s": [], "step_s": None, "phases_s": {}, "breakdown_s": {}}) is None


def test_what_nobody_chose_stands_beside_what_it_is_of(call):
    catalog = {"chips": [], "models": [], "fields": {}}
    base = {"model": "m", "cluster": {"chip": "c"}, "plan": {"dp": 1}, "training": {}}
    run = {"id": "r", "device": {}, "scenario": base, "warnings": []}
    shown = {"a": "", "b": "", "measured": "r", "measurement": run, "measuredScenario": base, "scenario": base,
             "base": base, "catalog": catalog}  # fmt: skip

    def sides(**changes):
        return call("sides", "chosenSides", {**shown, **changes})

    assert sides() == ["plan", "m:r"]
    assert sides(measurement=None) == ["plan", "m:r"], "while it loads"
    assert sides(scenario={**base, "plan": {"dp": 2}}) == ["s:", "plan"], "the plan that ran, before the edited one"
    assert sides(scenario={**base, "model": "other"}) == ["plan", ""]
    assert sides(measuredScenario=None) == ["", "m:r"], "of no known scenario"
    assert sides(measuredScenario=None, measurement={**run, "expected": {}}) == ["own", "m:r"]
    full = call("scenario", "complete", base, catalog)
    said = {"scenario": base, "whole": True, "asked": [], "fields": {"plan.dp": {"sure": True}}}
    guessed = {**said, "fields": {"plan.dp": {"sure": True}, "cluster.chip": {"sure": False}}}
    for proposed, a, words in (
        (said, "plan", "measured; A is the plan that its file says"),
        (guessed, "plan", "measured; no difference is drawn until its own scenario is confirmed"),
        (None, "", "measured; not drawn beside a scenario until its own is confirmed"),
    ):
        its = {**run, "proposed": proposed}
        assert sides(measuredScenario=None, measurement=its, scenario=full) == [a, "m:r"]
        drawn = {"a": {"letter": "A", "scenario": full} if a else None, "b": {"letter": "B", "measurement": its}}
        given = {**shown, "measuredScenario": None, "measurement": {**its, "origin": {}}, "pair": drawn}
        assert call("measured", "relationWords", given) == words
        pair = {"a": {**(drawn["a"] or {}), "predicted": True}, "b": {**drawn["b"], "predicted": False}}
        assert call("sides", "judged", pair, catalog) == (proposed is not guessed)
    assert sides(measured="") == ["plan", ""]
    assert sides(a="m:1", b="m:2") == ["m:1", "m:2"], "who chose is followed"
