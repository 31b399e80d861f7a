"""Residual: kinds of steps, what is known of each, and the interval and risk that follow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from estimator.cost.efficiency import Range, efficiencies, probes_host
from estimator.estimate.estimate import estimate
from estimator.estimate.host_pace import at_pace
from estimator.estimate.residual import (
    KERNELS,
    LINKS,
    MEMORY_WORDS,
    PACED,
    PROBED,
    STRUCTURE,
    TUNED,
    UNMET,
    UNRUN,
    WORDS,
    MemoryResidual,
    TimeResidual,
    held_interval,
    kind_of,
    kind_of_program,
    memory_interval,
    out_of_memory_frac,
    peak_width,
    residuals,
    widened,
)
from estimator.scenario import catalog
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.examples import LLAMA, scenario


@pytest.mark.parametrize(
    ("plan", "training", "host_share", "kind"),
    [
        ({}, {}, 0.1, "one device"),
        ({}, {}, 0.5, "one device, host near"),
        ({}, {"compile": True}, 2.0, "one device, compiled, host binds"),
        ({"dp": 4}, {}, 0.1, "data parallel"),
        ({"dp": 4, "sharding": "fsdp"}, {}, 0.1, "sharded"),
        ({"dp": 2, "tp": 2}, {}, 0.1, "split"),
        ({"dp": 2, "tp": 2}, {"framework": "megatron"}, 0.1, "tuned cluster"),
    ],
)
def test_kinds_of_steps(plan, training, host_share, kind):
    one = scenario(LLAMA, plan=plan, global_batch=8, **training)
    assert kind_of(one, host_share) == f"{kind}, {UNMET}", "nobody measured a chip of round numbers"
    for known in (PROBED, PACED):
        touched = [known] if host_share > 0.4 else []
        assert kind_of(one, host_share, known=known) == ", ".join([kind, *touched, UNMET])


@pytest.mark.parametrize(
    ("chip", "plan", "training", "host_share", "met"),
    [
        ("h200-sxm", {}, {}, 0.1, {KERNELS}),
        ("h200-sxm", {}, {}, 0.5, {KERNELS}),
        ("h200-sxm", {}, {}, 1.5, set()),
        ("h200-sxm", {}, {"compile": True}, 0.1, set()),
        ("h200-sxm", {"dp": 2}, {}, 0.1, {LINKS}),
        ("h200-sxm", {"tp": 2, "dp": 2}, {}, 0.5, {LINKS}),
        ("h200-sxm", {"dp": 2}, {}, 1.5, set()),
        ("h200-sxm", {"dp": 2}, {"framework": "megatron"}, 0.1, set()),
        ("h100-sxm", {}, {}, 0.1, {KERNELS}),
        ("a100-80gb-sxm", {}, {}, 0.1, set()),
        ("a100-80gb-sxm", {"dp": 2}, {}, 0.1, set()),
    ],
)
def test_kernels_and_links_are_met_where_no_host_keeps_devices_waiting(chip, plan, training, host_share, met):
    one = scenario(LLAMA, plan=plan, global_batch=8, **training)
    one = replace(one, cluster=replace(one.cluster, chip=catalog.chip(chip)))
    assert set(kind_of(one, host_share).split(", ")) & {KERNELS, LINKS} == met


def test_a_program_is_judged_by_its_chip_its_ranks_and_its_waiting_for_the_host():
    assert kind_of_program("h100-sxm", 1, 0.0) == "one device"
    assert kind_of_program("h100-sxm", 1, 0.05) == "one device, host near"
    assert kind_of_program("h100-sxm", 4, 0.5) == "sharded, host binds"
    assert kind_of_program("nobody's", 1, 0.0, known=PROBED) == f"one device, {UNMET}"
    assert kind_of_program("nobody's", 1, 0.5, known=PROBED) == f"one device, host binds, {PROBED}, {UNMET}"


def test_a_host_is_probed_where_its_launches_were_timed_and_not_its_device_alone():
    one = scenario_from_json(
        {
            "model": "llama3-8b",
            "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
            "plan": {},
            "training": {"seq_len": 16, "global_batch": 1},
        }
    )
    family = efficiencies(one.cluster.chip.efficiency)
    device = replace(family, device="h100-sxm")
    launch = Range(value=9e-6, low=7e-6, high=1e-5, unit="s", source="probes: 3 differences of bare launches")
    host = replace(device, ranges={**family.ranges, "host_launch_s": launch})
    assert [probes_host(e, one.cluster.chip) for e in (family, device, host)] == [False, False, True]
    paced = at_pace(host, 1.2)
    kinds = [estimate(one, e, explained=False).kind.split(", ") for e in (device, host, paced, at_pace(device, 1.2))]
    assert [{PROBED, PACED} & {*kind} for kind in kinds] == [set(), {PROBED}, {PACED}, set()]


def test_what_is_known_makes_sense_and_says_where_it_is_from():
    known = residuals()
    assert set(known.time.words) == set(WORDS)
    better = [known.time.words[word] for word in (PACED, PROBED)]
    assert 0.4 < better[0] < better[1] < 1, "a host that was probed is known better, and one whose pace was noted best"
    assert all(0.4 < known.time.words[word] < 1 for word in (KERNELS, LINKS)), "so are kernels and links that were met"
    widening = known.time.words.keys() - {PROBED, PACED, KERNELS, LINKS, TUNED, UNMET}
    assert all(1 <= known.time.words[word] < 4 for word in widening)
    assert 0.7 < known.time.words[TUNED] < 1.2
    assert 1 <= known.time.words[UNMET] < 1.5, "beside words for kernels and links that were met"
    assert set(known.memory.words) == set(MEMORY_WORDS)
    assert all(1 < factor < 5 for factor in known.memory.words.values())
    assert 0.05 < known.time.spread < 0.5
    assert 0 < known.time.power <= 1
    assert 0.005 < known.memory.spread < 0.2
    assert all(known.alike[word] <= known.met for word in (KERNELS, LINKS))
    assert known.met <= {entry.key for entry in catalog.entries("chips")}
    assert " times of " in known.time.source
    assert " peaks of " in known.memory.source


TIME = TimeResidual(spread=0.2, power=0.5, skew=1.5, words={"host binds": 2.0, UNMET: 3.0}, source="")


def test_ends_move_by_their_logarithms_and_no_interval_is_narrower_than_the_models_structure():
    low, high = widened(2.0, (1.0, 4.0), "one device", TIME)
    end = 0.2 * math.hypot(math.log(2), STRUCTURE) ** 0.5
    assert (low, high) == (pytest.approx(2 * math.exp(-end / 1.5)), pytest.approx(2 * math.exp(end * 1.5)))
    low, high = widened(2.0, (2.0, 2.0), "one device", TIME)
    end = 0.2 * STRUCTURE**0.5
    assert (low, high) == (pytest.approx(2 * math.exp(-end / 1.5)), pytest.approx(2 * math.exp(end * 1.5)))


def test_each_word_widens_an_interval_by_its_factor():
    def end(kind):
        return math.log(widened(1.0, (1.0, 1.0), kind, TIME)[1])

    assert end("split, host binds") == pytest.approx(2 * end("split"))
    assert end(f"split, host binds, {UNMET}") == pytest.approx(6 * end("split"))
    assert end("split, never heard of") == pytest.approx(end("one device"))


def test_the_interval_of_a_chip_that_was_not_met_is_wider():
    def ends(chip):
        found = estimate(
            scenario_from_json(
                {
                    "model": "llama3-8b",  # no host binds it on either
                    "cluster": {"chip": chip, "chips_per_node": 1},
                    "plan": {},
                    "training": {"seq_len": 2048, "global_batch": 8, "precision": "bf16"},
                }
            )
        )
        return math.log(found.interval_s[1] / found.step_time_s)

    assert "h100-nvl" not in residuals().met
    assert ends("h100-nvl") > 1.02 * ends("h100-sxm")


def test_an_estimate_has_the_interval_of_its_kind_and_a_risk_that_grows_as_memory_shrinks():
    found = estimate(scenario(LLAMA))
    assert found.kind.startswith("one device")
    assert found.interval_s[0] < found.step_time_s < found.interval_s[1]
    low, high = found.memory.interval_bytes
    assert low <= found.memory.peak_bytes <= high
    assert (low, high) == memory_interval(found.memory.peak_bytes, "")
    risks = [out_of_memory_frac(1e10, capacity * 1e10, "") for capacity in (0.5, 0.95, 1.0, 1.1, 2.0)]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.99
    assert risks[-1] < 0.01
    assert out_of_memory_frac(0.0, 1.0, "") == 0.0


def test_large_peaks_are_known_better():
    known = MemoryResidual(spread=0.06, power=0.25, words={UNRUN: 3.0}, source="")
    assert peak_width(16e9, "", known) == pytest.approx(0.03)
    assert peak_width(1e9, "", known) == pytest.approx(0.06)
    assert peak_width(1e9, UNRUN, known) == pytest.approx(0.18)


def test_the_peak_of_a_framework_that_the_runners_do_not_run_is_known_less_well():
    ours, others = (estimate(scenario(LLAMA, framework=name)).memory for name in ("pytorch-eager", "megatron"))
    far, farther = (math.log(one.interval_bytes[1] / one.peak_bytes) for one in (ours, others))
    assert far == pytest.approx(peak_width(ours.peak_bytes, ""))
    assert farther == pytest.approx(peak_width(others.peak_bytes, UNRUN))
    assert 1.5 < residuals().memory.words[UNRUN] < 6


def test_what_the_allocator_holds_widens_the_risk():
    wide = Range(value=1.1, low=1.0, high=1.3, unit="", source="")
    for capacity in (0.9, 1.1):
        known_well, less = (out_of_memory_frac(1e10, capacity * 1e10, "", one) for one in (None, wide))
        assert abs(less - 0.5) < abs(known_well - 0.5)
    # A tenth of steps hold more than the range's upper end, where peaks are known.
    assert 0.05 < out_of_memory_frac(1e10, 1.3e10 / 1.1, "", wide) < 0.2


def test_a_tenth_of_the_steps_needs_more_than_the_upper_end():
    assert out_of_memory_frac(1e10, 1e10, "") == pytest.approx(0.5)
    assert out_of_memory_frac(1e10, memory_interval(1e10, "")[1], "") == pytest.approx(0.1, abs=1e-4)


def test_what_the_allocator_holds_is_known_less_well_than_the_peak():
    share = Range(value=1.07, low=1.02, high=1.23, unit="", source="")
    peak, held = memory_interval(1.0, ""), held_interval(1.0, "", share)
    assert held_interval(1.0, "", None) == pytest.approx(peak)
    for ours, of_peak, alone in zip(held, peak, (1.02 / 1.07, 1.23 / 1.07), strict=True):
        assert math.log(ours) ** 2 == pytest.approx(math.log(of_peak) ** 2 + math.log(alone) ** 2)
