"""``make accuracy``: its figures by hand, what it calls worse, and that the committed ones hold."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from benchmarks.ablations import FITTED, TERMS, _scaled, ablated, held_out_constants, predicted_s
from benchmarks.accuracy import DOCS, FIGURES, README, figures, readme_table, within, worsened
from benchmarks.causes import causes
from benchmarks.measured_sets import BUNDLED, REFERENCE, Scored, cases, measured_peak_bytes, read, sets
from benchmarks.residuals import by_chance, by_source, fitted, held_out
from estimator.cost.efficiency import efficiencies
from estimator.estimate.residual import KERNELS, LINKS, STRUCTURE, UNMET, UNRUN, peak_width, residuals, width
from estimator.scenario import catalog
from estimator.validation.accuracy import accuracy
from runners.job import read_measurement
from tests.javascript import call_each


def one(time: float | None, memory: float | None = None, *, covered: bool = True, kind: str = "one device") -> Scored:
    high = 1.2 if covered else 1.01
    return Scored(
        hardware="h", model="m", time=time, memory=memory, low=1 / high, high=high, kind=kind, peers={"other": 40.0}
    )


def test_figures_by_hand():
    found = figures([one(10.0, covered=True), one(-20.0, covered=False), one(None, 3.0)], skipped=1)
    assert (found["n"], found["skipped"], found["predicted_share"]) == (3, 1, 75.0)
    assert (found["time_n"], found["time_mape"], found["time_bias"]) == (2, 15.0, -5.0)
    assert (found["memory_n"], found["memory_median"], found["covered"]) == (1, 3.0, 50.0)
    assert found["other (published)_median"] == 40.0
    assert "naive_mape" not in found


@pytest.mark.parametrize(
    ("now", "bad"),
    [
        ({"time_mape": 10.4, "covered": 78.0}, []),
        ({"time_mape": 10.6, "covered": 78.0}, ["time_mape"]),
        ({"time_mape": 5.0, "covered": 70.0}, ["covered"]),
        ({"covered": 80.0}, ["time_mape"]),
    ],
)
def test_worse_by_more_than_a_twentieth_fails(now, bad):
    said = list(worsened({"a": {"time_mape": 10.0, "covered": 78.0}, "b": {"time_mape": 1.0}}, {"a": now}))
    assert [words for words in bad if not any(words in line for line in said)] == []
    assert len(said) == len(bad)


def test_a_folder_gives_its_tables_of_measured_runs(tmp_path):
    (tmp_path / "runs.csv").write_text("hardware,global_batch,measured_step_time_s\n")
    (tmp_path / "kernels.csv").write_text("gpu,op,seconds\n")
    assert [name for name, _ in sets([tmp_path])] == [*BUNDLED, "runs"]


def test_the_committed_figures_hold_for_published_rows_and_stand_in_the_docs():
    known = json.loads(FIGURES.read_text())
    assert BUNDLED.keys() <= known.keys()
    name = "published, bundled"
    assert list(worsened(known, {name: figures(*read(BUNDLED[name]))})) == []
    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in known if f"\n| {name} |" not in text] == []
    assert "\n".join(readme_table(known)) in README.read_text(encoding="utf-8")


def simulated(spread: float, count: int, rng: np.random.Generator, *, kind: str = "split", **more) -> list[Scored]:
    """Steps of one source, whose own level of error is as uncertain as its steps are among themselves."""
    level = rng.normal(0.0, spread / 2)
    ratios = np.exp(rng.normal(level, spread / 2, count))
    return [admitting_structure(one(100 * (1 / ratio - 1), kind=kind), **more) for ratio in ratios]


def admitting_structure(step: Scored, **more) -> Scored:
    """A step whose efficiencies are known well, whatever law stands in the catalogue."""
    low, high = (math.exp(width(STRUCTURE, step.kind, residuals().time, up=up)) for up in (False, True))
    return replace(step, low=1 / low, high=high, **more)


def test_intervals_hold_four_of_five_steps_of_sources_that_they_never_met():
    rng = np.random.default_rng(15)
    by_set = {f"{number}": simulated(0.1, 30, rng, hardware=f"h{number // 2}") for number in range(10)}
    by_set |= {f"host {number}": simulated(0.25, 15, rng, kind="split, host binds") for number in range(6)}
    # One source of many rows that are far off sets the width of no other.
    by_set["large and wrong"] = simulated(2.0, 200, rng)
    inside = {name: [held.time for held in ones] for name, ones in held_out(by_set).items()}
    for names in ([f"{number}" for number in range(10)], [f"host {number}" for number in range(6)]):
        held = [held for name in names for held in inside[name]]
        assert 0.72 < sum(map(bool, held)) / len(held) < 0.92
    assert sum(map(bool, inside["large and wrong"])) < 0.3 * 200


def test_what_a_word_and_a_chip_that_was_not_met_add_is_learned_across_places():
    rng = np.random.default_rng(3)
    by_set = {f"{number}": simulated(0.1, 20, rng) for number in range(6)}
    by_set |= {f"e{number}": simulated(0.3, 20, rng, kind="split, experts") for number in range(4)}
    by_set |= {f"u{number}": simulated(0.3, 20, rng, hardware=f"own of {number}") for number in range(4)}
    words = fitted(by_source(by_set)).time.words
    held = [held.time for name, ones in held_out(by_set).items() if name.startswith("u") for held in ones]
    assert 0.65 < sum(map(bool, held)) / len(held) < 0.92, "of a chip that only the source left out has"
    assert 2 < words["experts"] < 4
    assert 2 < words[UNMET] / words[LINKS] < 5, "the others are of a chip that several sources measured so"
    assert words["host near"] == 1


def test_steps_that_are_little_but_kernels_are_known_better_where_several_sources_met_them():
    rng = np.random.default_rng(6)
    by_set = {f"{number}": simulated(0.2, 20, rng) for number in range(6)}
    by_set |= {f"k{number}": simulated(0.08, 20, rng, kind="one device") for number in range(4)}
    by_set |= {
        f"own {number}": simulated(0.2, 20, rng, kind="one device", hardware=f"h{number}") for number in range(5)
    }
    known = fitted(by_source(by_set))
    assert known.alike[KERNELS] == {"h"}
    assert 0.3 < known.time.words[KERNELS] < 0.7
    inside = held_out(by_set)
    for whose in ("k", "own"):
        held = [held.time for name, ones in inside.items() if name.startswith(whose) for held in ones]
        assert 0.7 < sum(map(bool, held)) / len(held) < 0.92, "what one source alone met is as wide as all else"
    without = fitted(by_source({name: ones for name, ones in by_set.items() if name in ("0", "k1")}))
    assert (without.alike[KERNELS], without.time.words[KERNELS]) == (frozenset(), 1.0)


def test_an_end_is_not_drawn_in_by_a_source_that_errs_to_one_side_alone():
    # All predicted too short: that a kind's steps were never shorter does not say that they cannot be.
    rng = np.random.default_rng(4)
    by_set = {f"{number}": simulated(0.1, 20, rng) for number in range(6)}
    by_set["c"] = [admitting_structure(one(-20.0, kind="sharded"))] * 40
    known = fitted(by_source(by_set)).time
    low, high = (width(STRUCTURE, "sharded", known, up=up) for up in (False, True))
    assert 0.05 < low <= high < 2.5 * low


def test_peaks_of_frameworks_that_are_not_run_widen_no_interval_of_those_that_are():
    rng = np.random.default_rng(5)

    def peaks(spread: float, kind: str) -> list[Scored]:
        far = peak_width(1e9, kind)
        ends = {"memory_low": math.exp(-far), "memory_high": math.exp(far), "memory_bytes": 1e9, "memory_kind": kind}
        return [replace(one(None, 100 * math.expm1(error)), **ends) for error in rng.normal(0.0, spread, 60)]

    by_set = {f"{number}": peaks(0.003, "") for number in range(4)}
    by_set |= {f"other {number}": peaks(0.02, UNRUN) for number in range(4)}
    for names in ([f"{number}" for number in range(4)], [f"other {number}" for number in range(4)]):
        held = [held.memory for name in names for held in held_out(by_set)[name]]
        assert 0.72 < sum(map(bool, held)) / len(held) < 0.88
    assert 4 < fitted(by_source(by_set)).memory.words[UNRUN] < 9


def test_links_are_met_by_plans_that_several_sources_measured_under_no_recipe():
    rng = np.random.default_rng(8)
    by_set = {f"{number}": simulated(0.2, 20, rng, kind="split, host binds") for number in range(6)}
    by_set |= {f"l{number}": simulated(0.08, 20, rng, kind="split") for number in range(4)}
    by_set |= {f"t{number}": simulated(0.2, 20, rng, kind="tuned cluster", hardware="t") for number in range(4)}
    known = fitted(by_source(by_set))
    assert known.alike == {KERNELS: frozenset(), LINKS: {"h"}}
    narrow, wide = (width(STRUCTURE, kind, known.time, up=True) for kind in (f"split, {LINKS}", "split, host binds"))
    assert 0.25 < narrow / wide < 0.6


def test_a_measured_peak_has_the_workspaces_that_steps_before_had_left_and_is_of_a_program_that_runs_now():
    again, first = (REFERENCE / "h200_plans" / name / "fsdp-small-2.json" for name in ("again/2", "2"))
    other_host = REFERENCE / "h200_host" / "2" / "fsdp-small-2.json"
    peaks = [measured_peak_bytes(path, read_measurement(path), 2 * 2**25) for path in (first, other_host)]
    assert peaks[1] == read_measurement(other_host).memory.peak_bytes + 2**26
    assert peaks[0] == pytest.approx(peaks[1], abs=512), "the first series had not run another step before"
    assert measured_peak_bytes(again, read_measurement(again), 2**26) == pytest.approx(peaks[0], rel=1e-3)
    left_more = REFERENCE / "h200_plans" / "2" / "tp-2.json"
    measured = read_measurement(left_more)
    assert measured_peak_bytes(left_more, measured, 2**26) == measured.memory.peak_bytes + 2**26
    mended = [REFERENCE / folder / "zero1-2.json" for folder in ("h200_plans/2", "h200_plans/again/2")]
    assert [measured_peak_bytes(path, read_measurement(path), 2**26) > 0 for path in mended] == [False, True]


def test_what_earlier_rows_of_a_table_had_left_is_no_part_of_a_rows_peak():
    scored, _ = read([REFERENCE / "h200" / "step-modes.json"])
    errors = [abs(one.memory) for one in scored if one.memory is not None]
    assert len(errors) == 8
    assert max(errors) < 0.1, "rows after CUDA graphs found 0.2 to 0.6 GB held"


def test_rows_of_a_project_are_one_source_in_whatever_tables_they_stand():
    rows = [replace(one(1.0), source="a/project"), replace(one(2.0), source="another")]
    found = by_source(
        {"table": rows, "bundled, rows of it": rows[:1], "ours, one": [one(3.0)], "ours, two": [one(4.0)]}
    )
    assert {name: len(ones) for name, ones in found.items()} == {"a/project": 2, "another": 1, "ours": 2}


@pytest.mark.parametrize(
    ("inside", "of", "chance"), [(14, 14, True), (31, 31, False), (16, 28, True), (10, 28, False), (36, 38, True)]
)
def test_a_share_outside_what_is_asked_may_be_chance_in_a_small_set(inside, of, chance):
    assert by_chance(inside, of) is chance
    say = within({"held_out": 100 * inside / of, "held_out_n": of}, "held_out")
    assert say == ("by chance" if chance else "no")
    assert within({"held_out": 80.0, "held_out_n": of}, "held_out") == "yes"


def test_the_share_of_peaks_that_their_interval_holds():
    peaks = [replace(one(None, error), memory_low=0.95, memory_high=1.1) for error in (-5.0, 0.0, 4.0, 12.0)]
    assert [peak.memory_covered for peak in peaks] == [True, True, True, False]
    assert figures([*peaks, one(3.0)], skipped=0)["memory_covered"] == 75.0


def test_each_term_is_worth_something_somewhere_and_stands_in_the_docs():
    every = {"h200 data parallel and pipelines": 8, "h200 steps drawn, one GPU": 8, "published, bundled": 3}
    found = {name: cases(BUNDLED[name])[::each] for name, each in every.items()}
    steps = [case for ones in found.values() for case in ones]
    plain = [predicted_s(case) for case in steps]
    text = DOCS.read_text(encoding="utf-8")
    for term in TERMS:
        without = [predicted_s(case, term) for case in steps]
        moved = max(abs(one / other - 1) for one, other in zip(without, plain, strict=True) if one == one)
        assert moved > 1e-3 or term.name.startswith("rows gone over"), term.name
        assert f"| {term.name} |" in text
    assert len(ablated(found)) == len(TERMS) + 3


def test_a_constant_that_its_own_set_wants_otherwise_is_chosen_by_the_others():
    steps = cases(BUNDLED["h200 steps, first day"])[-5:]
    slow = [replace(case, measured_s=predicted_s(case) * 1.3) for case in steps]
    right = [replace(case, measured_s=predicted_s(case)) for case in steps]
    lines = held_out_constants({"slow": slow, "right": right})
    cells = dict(zip(("set", "shipped", "source", "model"), lines[-1].strip("| ").split(" | "), strict=True))
    assert cells["shipped"] == "0.0"
    assert float(cells["source"].strip("*")) > 1, "only slow steps are left to choose by"


@pytest.mark.parametrize("constant", [one for one in FITTED if one.families])
def test_a_fitted_constant_is_scaled_on_every_chip_that_ships_it_and_in_their_calibrations(constant):
    for key in (entry.key for entry in catalog.entries("chips")):
        one = catalog.chip(key)
        e = efficiencies(one.efficiency)
        calibrated = replace(e, name="a calibration", device=key)
        hopper = one.efficiency in ("hopper", "h100", "h100-sxm", "h20", "gh200")
        for found in (e, calibrated) if hopper else (e,):
            scaled = _scaled(tuple(0.85 if other is constant else 1.0 for other in FITTED))(found)
            moved = [name for name in constant.names if getattr(scaled, name) != getattr(found, name)]
            expected = [name for name in constant.names if getattr(found, name)]
            assert moved == (expected if hopper else []), key


def test_causes_part_a_sets_error_by_what_binds_and_pair_the_days():
    def step(name: str, error: float, *, waits: float, measured_s: float, precision: str = "fp32") -> Scored:
        return replace(one(error), step=name, waits_frac=waits, measured_s=measured_s, precision=precision)

    first = [step(f"d{i}", 1.0, waits=0.05, measured_s=1.0) for i in range(4)] + [
        step(f"h{i}", -9.0, waits=0.5, measured_s=1.0, precision="bf16") for i in range(4)
    ]
    second = [replace(each, measured_s=1.21) for each in first[4:]]
    lines = causes({"h200 steps, first day": first, "h200 steps, second day": second})
    told = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("| h200")]
    day = "h200 steps, first day"
    assert (day, "the device", "all", "4", "1.0 %", "1.0 %", "1.0 %", "1.0 %", "10 %") in told
    assert (day, "the host", "all", "4", "9.0 %", "9.0 %", "9.0 %", "-9.0 %", "90 %") in told
    assert ("h200 steps", "the host", "4", "21.0 %", "21.0 %", "10.0 %", "10.0 %") in told, (
        "between 1 and 1.21 lies 1.1"
    )
    assert not any(cells[:2] == ("h200 steps", "the device") for cells in told), "measured on one day alone"


def test_a_probed_series_says_what_its_host_moved_between_probes_and_steps():
    def steps(*errors_pct: float) -> list[Scored]:
        found = enumerate(errors_pct)
        return [replace(one(error), step=str(index), waits_frac=0.05 if index == 0 else 0.5) for index, error in found]

    # A host 25 % slower beside the last two steps than in its probes, which bind it and are right at that pace.
    lines = causes({"s, by its probes": steps(1.0, -20.0, -20.0), "s, by its probes at its pace": steps(1.0, 0.0, 0.0)})
    cells = lines[-1].strip("| ").split(" | ")
    assert cells == ["s", "1", "1.0 / 1.0 %", "1.0 / 1.0 %", "2", "20.0 / 20.0 %", "0.0 / 0.0 %",
                     "3", "20.0 / 20.0 %", "0.0 / 1.0 %", "25.0 / 25.0 %"]  # fmt: skip


def test_every_set_has_a_label_of_its_own_in_the_chart_of_intervals():
    drawn = [one for one in json.loads(msgspec.json.encode(accuracy().sets)) if one["held_out"] is not None]
    given = {"sets": drawn, "asked_frac": 0.8, "chosen": "", "colour": True}
    figures_of = call_each(
        "figures/accuracy", "coverageFigure", [[{**given, "narrow": narrow}] for narrow in (False, True)]
    )
    for figure in figures_of:
        axis = figure["layout"]["yaxis"]
        first = ""
        for label, one in zip(axis["ticktext"], drawn, strict=True):
            name = label.replace("<br>", " ").replace("- ", "-").replace("_ ", "_")
            if name.startswith("… "):  # goes on as the one above that has its name in full
                assert one["name"].startswith(first)
                assert one["name"][len(first) :].lstrip(", ") == name[2:], "nothing is cut"
            else:
                assert one["name"] == name, "nothing is cut"
                first = name
        told = [label for label in axis["ticktext"] if label.startswith("…")]
        assert len(told) > 0.4 * len(drawn), "most sets are others' steps, predicted otherwise"
        rows = [high - low for high, low in itertools.pairwise(axis["tickvals"])]
        assert min(rows) >= 19, "no name lies on another"
        assert axis["tickvals"] == sorted(axis["tickvals"], reverse=True)
        assert axis["range"][0] < axis["tickvals"][-1] < axis["tickvals"][0] < axis["range"][1]


def test_words_of_a_kind_that_nobody_calls_so_are_said():
    says = call_each(
        "glossary", "wordsOfKind", [["sharded, host near, chip not met"], ["x, by its probes at its pace"], ["sharded"]]
    )
    assert [len(one.splitlines()) for one in says] == [2, 2, 0]
    assert says[0].startswith("Host near: ")


def test_every_word_that_a_kind_is_made_of_is_said():
    kinds = {one.kind for found in accuracy().sets for one in found.points}
    used = {word for kind in kinds for word in kind.split(", ")}
    (said,) = call_each("glossary", "wordsOf", [[[*kinds]]])
    assert {one["name"] for one in said} == used
    assert all(one["says"].endswith(".") for one in said)
