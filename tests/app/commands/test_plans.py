"""Plans in a terminal: what is one line, what stands above the table, and how wide it gets."""

from __future__ import annotations

import pytest

from app.commands.files import WIDTH
from app.commands.plans import HEADS, grouped, plans_text, written
from estimator.search.sweep import Found


def found(step_s: float, peak_bytes: float, ties: int = 0, **plan) -> Found:
    return Found(
        ties=ties,
        scenario={"plan": plan},
        step_time_s=step_s,
        interval_s=(step_s, step_s),
        peak_bytes=peak_bytes,
        reserved_bytes=peak_bytes,
        capacity_bytes=141e9,
        cost_chip_s=8 * step_s,
        tokens_per_s=1000 / step_s,
        mfu=0.4,
    )


NEAR = [
    found(1.0, 50e9, dp=4, tp=2, schedule="1f1b"),
    found(1.0009, 50.04e9, dp=4, tp=2, schedule="1f1b", placement="dp-tp-cp-pp"),
    found(1.002, 50e9, dp=2, tp=4, schedule="1f1b"),
    found(1.0025, 50.01e9, dp=2, tp=4, schedule="1f1b", offload="optimizer"),
    found(1.0, 40e9, dp=4, tp=2, schedule="1f1b", recompute="full"),
]


def test_plans_alike_in_time_and_memory_stand_behind_the_first_of_them():
    groups = grouped(NEAR)
    assert [(group.first, group.others) for group in groups] == [
        (NEAR[0], (NEAR[1],)),
        (NEAR[2], (NEAR[3],)),
        (NEAR[4], ()),
    ]
    assert [group.first for group in grouped(NEAR[:1])] == NEAR[:1]


def test_a_line_says_how_many_more_there_are_and_in_what_they_differ():
    lines = plans_text(NEAR, wide=False).splitlines()
    assert lines == [
        "  in every line: schedule=1f1b  offload=none  placement=tp-dp",
        "  dp  tp  recomp  step time    MFU  memory",
        "   4   2    none        1 s  40.0%   50 GB",
        "      and 1 more within 0.1 %, with other placement",
        "   2   4    none        1 s  40.0%   50 GB",
        "      and 1 more within 0.1 %, with other offload",
        "   4   2    full        1 s  40.0%   40 GB",
    ]


def test_a_single_plan_stands_above_its_figures():
    assert plans_text(NEAR[:1], wide=False).splitlines() == [
        "  plan: dp=4  tp=2  schedule=1f1b",
        "  step time    MFU  memory",
        "        1 s  40.0%   50 GB",
    ]


def test_plans_that_tie_with_one_are_counted_behind_it():
    head, tied, alone = plans_text([found(1.0, 50e9, ties=3, dp=8), found(2.0, 40e9, dp=8)], wide=False).splitlines()[
        1:
    ]
    assert head.split() == ["step", "time", "MFU", "memory", "ties"]
    assert tied.endswith("  50 GB    +3")
    assert alone.endswith("  40 GB")


def test_wide_shows_every_field_and_figure_by_its_name():
    head, *lines = plans_text(NEAR, wide=True).splitlines()
    for name in ("dp", "tp", "schedule", "recompute", "offload", "placement", "tokens/s", "chip-seconds"):
        assert name in head.split()
    assert "1f1b" in lines[0]
    assert "  8" in lines[0]


VARIED = {
    "dp": (1, 1024), "tp": (1, 1024), "tp_kind": ("1d", "2.5d"), "tp_depth": (1, 16),
    "sequence_parallel": (True, False), "cp": (1, 64), "cp_kind": ("ring", "all-gather"), "pp": (1, 64),
    "virtual_stages": (1, 16),
    "schedule": ("1f1b", "zero-bubble-v"), "sharding": ("ddp", "zero3"), "shard_ranks": (0, 8), "micro_batch": (1, 16),
    "recompute": ("none", "selective"), "placement": ("tp-cp-dp-pp", "pp-dp-cp-tp"),
}  # fmt: skip


@pytest.mark.parametrize("fields", range(1, len(VARIED) + 1))
def test_no_line_is_longer_than_a_terminal_and_nothing_is_lost_without_a_word(fields):
    varied = dict(list(VARIED.items())[:fields])
    plans = [found(1.0 + at, 50e9, **{name: values[at] for name, values in varied.items()}) for at in (0, 1)]
    text = plans_text(plans, wide=False)
    assert max(map(len, text.splitlines())) <= WIDTH
    *above, head, _, _ = text.splitlines()
    said, _, left_out = " ".join(line.strip() for line in above).partition("for want of room only with --wide: ")
    explained = dict(pair.split(": ") for pair in said.strip().split(", ") if pair)
    for name in varied:
        short = HEADS.get(name, name)
        assert (short in head.split()) != (name in left_out.split(", ")), name
        assert name.startswith(short) or name in left_out or explained[short] == name


def test_a_placement_is_written_by_the_axes_that_have_several_ranks():
    assert written({"dp": 2, "tp": 2})["placement"] == "tp-dp"
    assert written({"dp": 2, "tp": 2, "placement": "dp-tp-cp-pp"})["placement"] == "dp-tp"
    assert written({"dp": 8})["placement"] == ""
    assert written({})["sequence_parallel"] == "false"
