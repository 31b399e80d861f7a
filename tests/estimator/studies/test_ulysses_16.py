"""Ulysses on 16 ranks: every figure that the reference log prints, and what follows from other inputs."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies import study
from estimator.studies.study import printed_figures
from tests.estimator.studies import reference

REFERENCE = reference.rows("ulysses-16")


def values(**overrides):
    return {(one.group, one.name): one.value for one in study("ulysses-16", overrides).figures}


def peaks(**overrides):
    return [value for (_, name), value in values(**overrides).items() if name == "peak memory allocation"]


def test_all_58_numbers_and_21_shapes_of_the_log():
    kinds = [row["kind"] for row in REFERENCE]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "elements": 21, "size": 21, "peak": 10, "flops": 4, "per GPU": 2, "shape": 21,
    }  # fmt: skip
    assert sum(kind != "shape" for kind in kinds) == 58
    figures = {(one.group, one.name): one for one in study("ulysses-16").figures}
    for row in REFERENCE:
        figure = figures[row["group"], row["name"]]
        assert reference.rounded(figure.value, row["printed"]) == row["printed"], figure
        assert figure.agrees
        if row["unit"]:
            assert figure.unit == row["unit"]


def test_the_figures_shown_as_printed_are_those_of_the_log():
    assert printed_figures("ulysses-16") == {(row["group"], row["name"]): row["printed"] for row in REFERENCE}


def test_what_the_log_does_not_print():
    found = {name: value for (group, name), value in values().items() if group == "not printed"}
    assert found["FLOPs of all steps and ranks"] == pytest.approx(364.779, abs=1e-3)
    assert found["all-to-all, one tensor, sent by each rank"] == pytest.approx(115.2)
    assert found["all-to-all, q, k, v and c, sent by each rank"] == pytest.approx(460.8)
    assert found["all-gather of K and V instead, received by each rank"] == pytest.approx(3686.4)


@pytest.mark.parametrize(("workspace_bytes", "inside"), [
    (41_500_000, False), (41_650_000, True), (40 * 1024**2, True), (44_450_000, True), (44_550_000, False),
])  # fmt: skip
def test_the_ten_peaks_bound_the_workspace(workspace_bytes, inside):
    printed = [row["printed"] for row in REFERENCE if row["kind"] == "peak"]
    found = peaks(workspace_bytes=workspace_bytes)
    assert ([f"{value:.2f}" for value in found] == printed) is inside


def test_inputs_change_the_figures_and_then_nothing_is_called_printed():
    assert all(one.printed is None for one in study("ulysses-16", {"N": 30_000}).figures)
    half, whole = values(N=30_000), values()
    score = ("5. compute attention", "A [h/P, N, N] elements")
    assert half[score] == whole[score] // 4
    assert peaks(dtype_bytes=4, workspace_bytes=0)[-1] == pytest.approx(2 * peaks(workspace_bytes=0)[-1])
    sent = ("not printed", "all-to-all, one tensor, sent by each rank")
    assert values(P=1)[sent] == 0
    assert values(P=32)[sent] == pytest.approx(31 / 32 * 61.44)


@pytest.mark.parametrize(("overrides", "field"), [
    ({"P": 48, "N": 48 * 1250}, "h"), ({"N": 60_001}, "N"), ({"d": 16_400}, "d"),
])  # fmt: skip
def test_what_does_not_divide_is_refused_by_name(overrides, field):
    with pytest.raises(InputProblems) as caught:
        study("ulysses-16", overrides)
    assert [one.field for one in caught.value.problems] == [field]
    assert "is not a multiple of" in str(caught.value)
