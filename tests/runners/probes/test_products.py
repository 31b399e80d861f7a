"""Ladders of products: in which order they are climbed."""

from __future__ import annotations

from collections import Counter

from runners.probes.products import GEMM_SHAPES, LAYOUTS, gemms


def test_a_part_of_the_ladder_has_all_precisions_and_layouts_of_sizes_far_apart():
    first = list(gemms(cuda=True, small=False))[:28]
    of = Counter(probe.precision for probe in first)
    assert min(of[precision] for precision in ("bf16", "tf32", "fp32")) >= 7
    assert {probe.columns["layout"] for probe in first if probe.precision == "tf32"} == set(LAYOUTS)
    assert max(probe.flops for probe in first) > 1000 * min(probe.flops for probe in first)


def test_the_whole_ladder_has_each_of_them_once():
    every = [(probe.precision, *probe.columns.values()) for probe in gemms(cuda=True, small=False)]
    assert len(every) == len(set(every))
    assert sum(one[0] == "bf16" for one in every) == len(set(GEMM_SHAPES)) * len(LAYOUTS)
