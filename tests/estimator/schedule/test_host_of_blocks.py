"""What blocks take of a host: six families, in turns on H100 hosts (benchmarks/host_blocks.py), beside their price."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.host_blocks import SEQ_LEN, blocks, small
from estimator.cost.efficiency import Efficiencies, efficiencies
from estimator.estimate.assemble import effective, rank_of
from estimator.scenario import catalog
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from estimator.schedule.micro_batch import part_of
from tests.estimator.examples import scenario

REFERENCE = Path(__file__).parents[2] / "reference"
E = efficiencies("hopper")


def ratios(name: str, e: Efficiencies, **chosen: str) -> Iterator[float]:
    """Priced over measured seconds of the host, forward and backward of a block together, for each kind."""
    for one in blocks(json.loads((REFERENCE / name).read_text(encoding="utf-8"))["rows"]):
        if any(one[key] != value for key, value in chosen.items()):
            continue
        training = Training(seq_len=SEQ_LEN, global_batch=2, precision=one["precision"], attention=one["attention"])
        of = effective(replace(
            scenario(), model=small(catalog.model(one["model"]), 2), training=training,
            plan=Plan(micro_batch=2, recompute=one["recompute"]),
        ))  # fmt: skip
        part = part_of(rank_of(of, e).blocks[0], [], of.training, e)
        measured = one["forward"]["seconds"] + one["backward"]["seconds"]
        yield float(part.host_forward_s + part.host_backward_s) / measured


def spread(e: Efficiencies) -> float:
    return statistics.stdev(math.log(one) for one in ratios("h100_blocks.json", e))


def test_blocks_of_all_kinds_take_their_host_what_their_kernels_and_views_do():
    assert len(list(ratios("h100_blocks.json", E))) == 36
    assert spread(E) < 0.04
    assert spread(replace(E, host_view_frac=1.0)) > 0.045, "views cost less than what launches a kernel"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_what_is_recomputed_costs_the_host_its_ops_again_and_what_keeps_them(recompute, attention):
    name = "h100_blocks_recomputed.json"
    plain, again = (
        statistics.fmean(ratios(name, E, recompute=one, attention=attention)) for one in ("none", recompute)
    )
    assert again == pytest.approx(plain, rel=0.06)
