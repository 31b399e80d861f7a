"""Place: one node of the catalogue's chip, and what was assumed, once each."""

from __future__ import annotations

import pytest

from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems
from estimator.validation.predicted_rows.device import LARGEST, TableDevice, chip_of, whole, word


def test_a_node_has_the_links_of_its_chip():
    cluster = TableDevice(chip="NVIDIA H200", ranks=2).cluster(4)
    assert (cluster.chips, cluster.nodes, cluster.link.bytes_per_s) == (4, 1, 450e9)


def test_a_scenario_has_as_many_chips_as_its_plan():
    training = {"seq_len": 128, "global_batch": 2}
    found = TableDevice(chip="h200-sxm", ranks=1).scenario("gpt2", {"dp": 2, "tp": 2}, training)
    assert found.cluster.chips == 4
    with pytest.raises(InputProblems, match="heads"):
        TableDevice(chip="h200-sxm", ranks=1).scenario("gpt2", {"tp": 5}, training)


@pytest.mark.parametrize(
    ("device", "chip"),
    [
        ({"kind": "cuda", "name": "NVIDIA H200"}, "NVIDIA H200"),
        ({"kind": "cpu", "name": "Some Processor"}, "cpu"),
        ({"kind": "cuda"}, ""),
        ({}, ""),
    ],
)
def test_a_measurement_ran_on_its_device_and_every_cpu_is_this_one(device, chip):
    assert chip_of(Measurement(device=device)) == chip


def test_assumptions_are_kept_once():
    place = TableDevice(chip="h200-sxm", ranks=1)
    for words in ("b", "a", "b"):
        place.assume(words)
    assert tuple(place.assumed) == ("b", "a")


def test_counts_and_words_of_a_row():
    assert (whole({"n": 4}, "n"), whole({"n": 4.0}, "n"), whole({}, "n", 2)) == (4, 4, 2)
    assert (word({"a": "b"}, "a"), word({}, "a", "c")) == ("b", "c")


@pytest.mark.parametrize("value", ["4", None, True, 0, -1, 1.5, LARGEST + 1, float("nan"), float("inf"), [4], {}])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(InputProblems, match=r"n: .* is no count"):
        whole({"n": value}, "n")


@pytest.mark.parametrize("value", [4, None, ["a"]])
def test_what_is_no_word_is_refused(value):
    with pytest.raises(InputProblems, match="n: is no word"):
        word({"n": value}, "n")
