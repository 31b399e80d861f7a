"""4D parallelism: every answer (a) to (d), and the bounds against a search that knows no closed form."""

from __future__ import annotations

import math

import pytest

from estimator.studies import study
from estimator.studies.cs336_4d.inputs import Inputs
from estimator.studies.cs336_4d.mesh import (
    best_split,
    closed_form_fsdp,
    closed_form_tokens,
    least_batch,
    pass_times,
    splits,
)
from estimator.studies.cs336_4d.sharding import device_bytes, least_ranks, most_tokens
from estimator.studies.study import printed_figures
from tests.estimator.studies import reference

REFERENCE = reference.rows("cs336-4d")


def figures(**overrides):
    return {(one.group, one.name): one for one in study("cs336-4d", overrides).figures}


@pytest.mark.parametrize("part", ["a", "b", "c", "d"])
def test_every_answer_to_its_digits(part):
    found = figures()
    own = [row for row in REFERENCE if row["part"] == part]
    assert len(own) == {"a": 14, "b": 7, "c": 8, "d": 10}[part]
    for row in own:
        value = found[row["group"], row["name"]].value
        assert reference.rounded(value, row["figure"]) == row["figure"], row


def test_only_what_the_reference_prints_is_called_printed():
    printed = {(row["group"], row["name"]): row["figure"] for row in REFERENCE if row["source"] == "printed"}
    assert printed_figures("cs336-4d") == printed
    marked = {key for key, one in figures().items() if one.printed is not None}
    assert marked == set(printed)
    assert all(one.printed is None for one in figures(layers=63).values())


@pytest.mark.parametrize("tokens", [0, 1, 1024, 4096, 8192, 10_827])
def test_the_smallest_degree_fits_and_one_less_does_not(tokens):
    inputs = Inputs()
    ranks = least_ranks(inputs, tokens)
    assert device_bytes(inputs, ranks, tokens) < inputs.chip_bytes <= device_bytes(inputs, ranks - 1, tokens)


def test_no_degree_fits_once_the_unsharded_half_fills_a_device():
    inputs = Inputs()
    assert most_tokens(inputs) == 10_828
    assert least_ranks(inputs, 10_828) is None
    assert figures(tokens_per_device=10_828)["(b) FSDP degree", "smallest degree, 10828 tokens per device"].value == (
        "impossible"
    )
    everything = Inputs(sharded_activation_frac=1.0)
    assert most_tokens(everything) is None
    assert least_ranks(everything, 10**6) > 1


def test_the_degree_curve_follows_the_degree():
    (curve,) = [one for one in study("cs336-4d").series if one.group == "(b) smallest FSDP degree"]
    assert dict(zip(curve.x, curve.y, strict=True))[4096] == 61
    known = [y for y in curve.y if y is not None]
    assert known == sorted(known)
    assert curve.y[-1] is None


def test_what_the_figures_leave_out_is_explained():
    found = study("cs336-4d")
    for bars in (one for one in found.series if one.kind == "bar"):
        missing = [name for name, value in zip(bars.x, bars.y, strict=True) if value is None]
        assert missing == ["1 × 64: never", "2 × 32: never"]
        assert [name for name in bars.x if "never" in name] == missing
    (bars_note,) = [note for note in found.notes if note.startswith("(d) No bar for 1 × 64, 2 × 32: ")]
    assert "F·M_Y/α = 20.8" in bars_note
    (curve_note,) = [note for note in found.notes if note.startswith("(b) The curve ends at 10,828 tokens")]
    assert "50 % of the activations" in curve_note
    assert [note[:3] for note in found.notes] == sorted(note[:3] for note in found.notes)


def test_nothing_is_explained_where_nothing_is_missing():
    found = study("cs336-4d", {"chips": 16, "sharded_activation_frac": 1})
    assert all(value is not None for one in found.series for value in one.y)
    assert not [note for note in found.notes if "No bar" in note or "curve ends" in note]
    many = study("cs336-4d", {"chips": 5040})
    (note,) = [note for note in many.notes if "No bar" in note]
    assert " and 38 more: " in note


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize(("fsdp", "tp"), [(16, 4), (4, 16), (64, 1), (2, 20)])
def test_from_the_least_batch_on_compute_takes_longest(overlapped, fsdp, tp):
    inputs = Inputs()
    batch = least_batch(inputs, fsdp, tp, overlapped=overlapped)

    def bound_by_compute(tokens):
        times = pass_times(inputs, tokens, fsdp, tp)
        together = max(times.fsdp_s, times.tp_s) if overlapped else times.fsdp_s + times.tp_s
        return times.compute_s >= together

    assert bound_by_compute(batch * (1 + 1e-9))
    assert not bound_by_compute(batch * (1 - 1e-6))


def test_tensor_parallelism_that_is_too_wide_is_never_bound_by_compute():
    assert least_batch(Inputs(), 3, 21, overlapped=True) == math.inf
    found = figures(Y=32)
    assert found["(c) compute-bound batch", "overall batch, axes overlapped"].value == "impossible"


def test_splits_are_all_factor_pairs():
    assert splits(12) == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]
    assert splits(49) == [(1, 49), (7, 7), (49, 1)]


@pytest.mark.parametrize("overlapped", [True, False])
def test_the_closed_form_is_the_best_of_all_real_splits(overlapped):
    inputs = Inputs()
    tokens = closed_form_tokens(inputs, overlapped=overlapped)
    fine = [least_batch(inputs, x / 1000, 64_000 / x, overlapped=overlapped) / 64 for x in range(1_000, 64_001)]
    assert min(fine) == pytest.approx(tokens, rel=1e-3)
    best = closed_form_fsdp(inputs, tokens * 64)
    assert (fine.index(min(fine)) + 1_000) / 1000 == pytest.approx(best, rel=2e-3)
    whole = best_split(inputs, overlapped=overlapped)
    assert least_batch(inputs, *whole, overlapped=overlapped) / 64 >= tokens


def test_levers_move_the_bound_as_the_equations_say():
    found = {name: one.value for (group, name), one in figures().items() if group.startswith("(d) levers")}
    now = found["as it is"]
    assert found["weights sent in half the bytes"] == pytest.approx(now / 2)
    assert found["compute twice as fast"] == pytest.approx(2 * now)
    assert found["one more mesh axis for FSDP"] == pytest.approx(now * 2 / 3)


def test_stages_need_the_small_batch_only_while_their_gathered_weights_stay():
    inputs = Inputs()
    found = {name: one.value for (group, name), one in figures().items() if group.startswith("(d) lever, pipeline")}
    once = found["overall batch, 4 stages, 16 micro-batches, weights gathered once"]
    each = found["overall batch, 4 stages, 16 micro-batches, weights gathered for each"]
    assert once == pytest.approx(5111.11, abs=0.01)
    assert each == pytest.approx(16 * once)
    # one gather hides behind the compute of all micro-batches together, and of each where it is repeated
    for batch, gathers in ((once, 1), (each, 16)):
        times = pass_times(inputs, batch, 4, 4)
        assert times.compute_s == pytest.approx(gathers * times.fsdp_s)
    resident_gb = found["gathered weights of a stage on a chip"]
    assert resident_gb == pytest.approx(2 * 219_848_638_464 / (4 * 4) / 1e9)
    whole_gb = found["those and a chip's share of the states"]
    assert whole_gb == pytest.approx(resident_gb + 16 * 219_848_638_464 / 64 / 1e9)
    assert whole_gb * 1e9 < inputs.chip_bytes
    assert found["idle share of a step, 4 stages, 16 micro-batches"] == pytest.approx(100 * 3 / 19)


def test_no_note_says_that_every_micro_batch_gathers():
    notes = study("cs336-4d").notes
    assert not [note for note in notes if "every micro-batch gathers the weights again" in note]
    (staged,) = [note for note in notes if "gathered for the first of them until the last" in note]
    assert "m times the batch" in staged
