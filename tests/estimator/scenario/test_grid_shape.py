"""Which degrees make a grid, and what is said of those that do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario.grid_shape import grid_fits, grid_of, grid_problems


@given(st.integers(1, 300), st.integers(1, 16))
def test_every_square_and_cube_is_found(q, d):
    assert (grid_of("2d", q**2), grid_of("2.5d", d * q**2, d), grid_of("3d", q**3)) == (q, q, q)
    assert grid_fits("2d", q**2)
    assert grid_fits("2.5d", d * q**2, d)
    assert grid_fits("3d", q**3)
    assert grid_of("1d", q) == 1
    assert grid_problems("2.5d", d * q**2, d) == []


def test_arrays_are_judged_element_by_element():
    tp = np.array([1, 2, 4, 8, 16, 27, 64])
    assert grid_fits("2d", tp).tolist() == [True, False, True, False, True, False, True]
    assert grid_fits("3d", tp).tolist() == [True, False, False, True, False, True, True]
    assert grid_fits("2.5d", tp, np.full(7, 2)).tolist() == [False, True, False, True, False, False, False]
    assert grid_of("2d", tp[grid_fits("2d", tp)]).tolist() == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("kind", "tp", "depth", "field", "remedy"),
    [
        ("2d", 8, 1, "plan.tp", "Choose tp 4 or 9."),
        ("3d", 9, 1, "plan.tp", "Choose tp 8 or 27."),
        ("2.5d", 8, 1, "plan.tp_depth", "Choose tp_depth 2."),
        ("2.5d", 32, 4, "plan.tp_depth", "Choose tp_depth 2 or 8."),
        ("2.5d", 6, 2, "plan.tp", "Choose tp 2 or 8."),
        ("2d", 4, 2, "plan.tp_depth", "Set tp_depth to 1."),
        ("1d", 8, 2, "plan.tp_depth", "Set tp_depth to 1, or tp_kind to 2.5d."),
        ("3d", 8, 2, "plan.tp_depth", "Set tp_depth to 1, or tp_kind to 2.5d."),
        ("2d", 8, 2, "plan.tp_depth", "Set tp_kind to 2.5d."),
        ("2d", 12, 2, "plan.tp_depth", "Set tp_depth to 1 and tp to 9 or 16."),
        ("2.5d", 1, 2, "plan.tp_depth", "Choose tp_depth 1."),
    ],
)
def test_a_degree_that_makes_no_grid_names_the_nearest_that_do(kind, tp, depth, field, remedy):
    (problem,) = grid_problems(kind, tp, depth)
    assert (problem.field, problem.remedy) == (field, remedy)


@given(st.sampled_from(["2d", "2.5d", "3d"]), st.integers(1, 400), st.integers(1, 9))
def test_remedies_work(kind, tp, depth):
    depth = depth if kind == "2.5d" else 1
    for problem in grid_problems(kind, tp, depth):
        for word in problem.remedy.replace(".", "").split():
            if word.isdigit() and problem.field == "plan.tp":
                assert grid_fits(kind, int(word), depth)
            elif word.isdigit():
                assert grid_fits(kind, tp, int(word))


def test_a_named_depth_fits_the_model_too():
    # 9 = 1·3², but a side of 3 does not divide 32 heads: no depth helps, another degree does.
    (problem,) = grid_problems("2.5d", 9, 2, **MODEL)
    assert (problem.field, problem.remedy) == ("plan.tp", "Choose tp 8 or 32.")
    # 18 = 2·3² is a grid, which 32 heads do not fit on.
    (problem,) = grid_problems("2d", 18, 2, **MODEL)
    assert problem.remedy == "Set tp_depth to 1 and tp to 16 or 64."
    # 64 = 1·8² = 4·4² = 16·2²; 3 sequences are split over none of 8, 16 and 32 parts, so all are named.
    (problem,) = grid_problems("2.5d", 64, 2, micro_batch=3, **MODEL)
    assert problem.remedy == "Choose tp_depth 1, 4 or 16."
    (problem,) = grid_problems("2.5d", 64, 2, micro_batch=8, **MODEL | {"seq_len": 6})
    assert problem.remedy == "Choose tp_depth 1 or 4."


MODEL = {"heads": 32, "kv_heads": 8, "hidden": 4096, "ffn": 14_336, "seq_len": 4096}


def test_a_model_that_fits_has_no_problems():
    assert grid_problems("2d", 16, 1, micro_batch=1, **MODEL) == []
    assert grid_problems("2.5d", 8, 2, micro_batch=2, **MODEL) == []
    assert grid_problems("3d", 64, 1, micro_batch=16, **MODEL) == []
    assert grid_problems("1d", 6, 1, micro_batch=5, **MODEL) == []
    assert grid_problems("2d", 1, 1, micro_batch=5, **MODEL) == []


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"heads": 30}, "plan.tp", "heads = 30"),
        ({"hidden": 4098}, "plan.tp", "hidden = 4098"),
        ({"ffn": 1001}, "plan.tp", "ffn = 1001"),
        ({"kv_heads": 6}, "plan.tp", "6 key/value heads"),
        ({"micro_batch": 3}, "plan.micro_batch", "3 sequences"),
        ({"micro_batch": 2, "seq_len": 4095}, "training.seq_len", "4095"),
    ],
)
def test_each_misfit_is_named_by_its_field(change, field, said):
    (problem,) = grid_problems("2d", 16, 1, **({"micro_batch": 1} | MODEL | change))
    assert problem.field == field
    assert said in problem.message


def test_the_named_micro_batches_fit():
    (problem,) = grid_problems("2d", 16, 1, micro_batch=6)
    assert problem.remedy == "Choose micro_batch 4 or 8."
    assert grid_problems("2d", 16, 1, micro_batch=4) == grid_problems("2d", 16, 1, micro_batch=8) == []


def test_depth_splits_the_tokens_even_where_the_side_is_one():
    (problem,) = grid_problems("2.5d", 4, 4, micro_batch=3, **MODEL)
    assert problem.remedy == "Choose micro_batch 2 or 4."
    assert grid_problems("2.5d", 4, 4, micro_batch=8, **MODEL) == []


def test_3d_splits_the_widths_by_the_square_of_its_side():
    (problem,) = grid_problems("3d", 27, 1, heads=36, hidden=33 * 64, ffn=9 * 1024)
    assert "9 parts of the grid do not divide hidden = 2112" in problem.message
    assert "tp = 8 (q = 2)" in problem.remedy


def test_a_smaller_grid_is_named_only_where_all_sizes_fit_on_it():
    (problem,) = grid_problems("2d", 36, 1, heads=33, hidden=6 * 64, ffn=6 * 1024)
    assert "tp = 9 (q = 3)" in problem.remedy
    (problem,) = grid_problems("2d", 16, 1, heads=33, hidden=64, ffn=1024)
    assert problem.remedy == "Set tp to 1, or tp_kind to 1d."
