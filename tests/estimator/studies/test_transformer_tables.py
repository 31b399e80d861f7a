"""Tables of a transformer block: all 454 printed figures, what each correction changes, and the grids."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies import study
from estimator.studies.study import printed_figures
from tests.estimator.studies import reference

REFERENCE = reference.rows("transformer-tables")
CORRECTED = {"mode": "corrected"}


def figures(**overrides):
    return {(one.group, one.name): one for one in study("transformer-tables", overrides).figures}


def value(found, group, name):
    return found[group, name].value


def test_all_454_printed_figures():
    assert len(REFERENCE) == 454
    cells = [row for row in REFERENCE if not row["group"].endswith(" sums")]
    assert len(cells) == (5 + 9) * 31
    found = figures()
    for row in REFERENCE:
        figure = found[row["group"], row["name"]]
        text = row["printed"]
        if isinstance(figure.value, str):
            assert figure.value == text, row
        elif row["group"].endswith(" sums") and row["name"].startswith("frac"):
            assert figure.value == pytest.approx(float(text), abs=1e-15), row
        else:
            assert f"{figure.value:.6f}" == f"{float(text):.6f}", row
        assert figure.agrees
        assert figure.unit == row["unit"], row


def test_the_figures_shown_as_printed_are_those_of_the_tables():
    assert printed_figures("transformer-tables") == {(row["group"], row["name"]): row["printed"] for row in REFERENCE}
    printed = [one for one in study("transformer-tables").figures if one.printed is not None]
    assert len(printed) == 454


def test_other_inputs_are_not_called_printed():
    assert all(one.printed is None for one in study("transformer-tables", {"depth": 48}).figures)
    assert all(one.printed is None for one in study("transformer-tables", CORRECTED).figures)


def test_all_ten_defects_are_listed_with_what_they_change():
    found = figures()
    groups = {group for group, _ in found if group.startswith("correction ")}
    assert groups == {f"correction {number}" for number in range(1, 11)}
    for number in (1, 5, 6, 9, 10):
        changes = [name for group, name in found if group == f"correction {number}" and name.endswith("change")]
        assert not changes, number
    # volumes are V·(m − 1)/m, and half the bandwidth is for one direction: 3/4 and 2 times the printed time
    printed = value(found, "MLP sums", "t_comm_bwd")
    assert value(found, "correction 2", "MLP t_comm_bwd, change") == pytest.approx(-printed / 4)
    assert value(found, "correction 3", "MLP t_comm_bwd, change") == pytest.approx(printed)
    corrected = value(found, "SA sums, corrected", "t_comm_fwd")
    norm = value(found, "SA layer_norm_2", "t_comm_fwd") * 96
    assert corrected == pytest.approx(1.5 * (value(found, "SA sums", "t_comm_fwd") - norm))
    # the norm that attention loses is the one that the MLP gets
    for name in ("weights_mem", "t_total_fwd", "flops_fwd"):
        gained = value(found, "correction 4", f"MLP {name}, change")
        assert gained > 0
        assert value(found, "correction 4", f"SA {name}, change") == pytest.approx(-gained)
    # what a reduce-scatter adds up: (m − 1)/m·b·l·e, once in each pass of each table
    adds = 96 * 2048 * 12288 * 3 / 4 / 1e12
    for table in ("MLP", "SA"):
        for phase in ("fwd", "bwd"):
            changed = value(found, "correction 7", f"{table} flops_{phase}, change")
            assert changed == pytest.approx(adds, rel=1e-6)
    assert value(found, "correction 8", "MLP t_comm_bwd, change") == pytest.approx(printed / 2)
    assert value(found, "correction 8", "MLP activation_buffer, change") == pytest.approx(-96 * 0.050331648 * 3 / 4)


def test_the_corrected_tables_put_rows_where_they_belong():
    found = figures(**CORRECTED)
    layers = [figure.value for (_, name), figure in found.items() if name == "layer"]
    assert layers == [
        "layer_norm_2", "fc1", "act", "dpr1", "fc2", "dpr2",
        "layer_norm_1", "qkv_proj", "logits", "softmax", "dropout_softmax", "attend", "v_proj", "dropout",
    ]  # fmt: skip
    assert value(found, "MLP fc2", "comm_bwd_type") == "allgather"
    assert value(found, "MLP dpr2", "comm_bwd_type") == "none"
    assert value(found, "MLP fc1", "comm_bwd_type") == "reducescatter+allgather"
    assert value(found, "MLP act", "comm_topology") == "none"
    assert value(found, "MLP act", "t_comm_fwd") == 0


PER_LAYER = [
    # b, ranks, kind, depth, forward GB, backward GB: four linears, gathered inputs kept
    (1, 4, "1d", 1, 0.151, 0.151), (1, 4, "2d", 1, 0.994, 1.988),
    (1, 64, "1d", 1, 0.198, 0.198), (1, 64, "2d", 1, 0.435, 0.870), (1, 64, "2.5d", 4, 0.696, 1.732),
    (1, 64, "3d", 1, 0.208, 0.208),
    (64, 16, "1d", 1, 12.08, 12.08), (64, 16, "2d", 1, 4.91, 9.81), (64, 16, "2.5d", 4, 2.32, 5.99),
    (64, 64, "1d", 1, 12.68, 12.68), (64, 64, "2d", 1, 2.86, 5.73), (64, 64, "2.5d", 4, 1.74, 3.81),
    (64, 64, "3d", 1, 2.59, 2.59),
]  # fmt: skip


@pytest.mark.parametrize(("b", "ranks", "kind", "depth", "forward", "backward"), PER_LAYER)
def test_volumes_of_the_linears_by_kind(b, ranks, kind, depth, forward, backward):
    found = figures(**CORRECTED, b=b, m=ranks, h=64, tp_kind=kind, tp_depth=depth)
    label = kind if kind != "2.5d" else f"2.5d, depth {depth}"
    group = f"one layer, corrected, {label}, {ranks} ranks"
    digits = 2 if b == 64 else 3
    assert round(value(found, group, "volume of the four linears, forward"), digits) == forward
    assert round(value(found, group, "volume of the four linears, backward"), digits) == backward


def test_2d_beats_1d_only_with_many_tokens():
    group = "tokens from which a grid moves less than 1D, MLP"
    assert value(figures(m=64, h=64), group, "2d") == pytest.approx(1.14 * 12_288, rel=0.005)
    assert value(figures(m=4), group, "2d") == "never"


@pytest.mark.parametrize(("kind", "m", "depth"), [("2d", 16, 1), ("2.5d", 16, 4), ("3d", 8, 1)])
def test_grids_fill_the_tables_and_share_out_the_whole(kind, m, depth):
    grid = figures(**CORRECTED, b=16, h=96, m=m, tp_kind=kind, tp_depth=depth)
    alone = figures(**CORRECTED, b=16, h=96, m=1)
    for table, layer in (("MLP", "fc1"), ("MLP", "act"), ("SA", "softmax"), ("SA", "attend"), ("SA", "v_proj")):
        for name in ("flops_fwd", "flops_bwd"):
            whole = value(alone, f"{table} {layer}", name)
            assert m * value(grid, f"{table} {layer}", name) == pytest.approx(whole, rel=1e-3), (layer, name)
    copies = depth if kind == "2.5d" else 1
    whole = value(alone, "MLP fc1", "weights_mem")
    assert m / copies * value(grid, "MLP fc1", "weights_mem") == pytest.approx(whole, rel=1e-3)  # but for biases
    assert value(grid, "MLP fc1", "t_comm_fwd") > 0
    # whole sequences on every row: attention itself exchanges nothing
    assert value(grid, "SA logits", "comm_fwd_type") == "none"
    assert value(figures(**CORRECTED, b=1, m=m, tp_kind=kind, tp_depth=depth), "SA logits", "comm_fwd") > 0


def test_one_rank_exchanges_nothing_and_latency_adds_up():
    for mode in ("printed", "corrected"):
        found = figures(mode=mode, m=1)
        assert value(found, "MLP sums", "t_comm_fwd") == 0
        assert value(found, "SA sums", "t_comm_bwd") == 0
    slow = figures(**CORRECTED, latency_s=1e-5)
    # norm: 3 messages, fc2: 3, each way of 96 layers
    added = value(slow, "MLP sums", "t_comm_fwd") - value(figures(**CORRECTED), "MLP sums", "t_comm_fwd")
    assert added == pytest.approx(96 * 6 * 0.01)


@pytest.mark.parametrize(("overrides", "field", "said"), [
    ({"tp_kind": "2d"}, "tp_kind", "the reference leaves 2d empty"),
    ({"m": 5}, "f", "is not a multiple of m = 5"),
    ({"m": 8, "tp_kind": "2d", "mode": "corrected"}, "m", "m = 8 is not q²"),
    ({"m": 8, "tp_kind": "2.5d", "mode": "corrected"}, "tp_depth", "tp_depth·q²"),
    ({"h": 100}, "e", "is not a multiple of h = 100"),
    ({"b": 3, "m": 4, "tp_kind": "2d", "mode": "corrected"}, "b", "do not divide one another"),
])  # fmt: skip
def test_what_cannot_be_laid_out_is_refused_by_name(overrides, field, said):
    with pytest.raises(InputProblems) as caught:
        study("transformer-tables", overrides)
    problems = {one.field: one for one in caught.value.problems}
    assert field in problems
    assert said in problems[field].message
