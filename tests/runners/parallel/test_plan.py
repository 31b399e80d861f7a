"""Every plan that ``step`` measures trains what one process would: gradients of each parameter, and losses."""

from __future__ import annotations

import json
import statistics

import pytest

from runners.parallel.stages import blocks_of
from tests.forks import run_in_fork
from tests.runners.examples import ROOT
from tests.runners.parallel.plans import EIGHT, FOUR, PLANS, TWO
from tests.runners.parallel.ranks import main

TOLERANCE = 1e-4
"""Of a parameter's largest gradient: sums run in another order."""


def found_by(folder, ranks: int, names: list[str]) -> dict[str, list[dict]]:
    """What each rank found of each plan, all in one group of processes."""
    done = run_in_fork(main, (str(ranks), str(folder), *names), ROOT, 280)
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert len(documents) == ranks, done.stderr[-2000:]
    return {name: [document.get(name, {"error": "not reached"}) for document in documents] for name in names}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return found_by(tmp_path_factory.mktemp("two"), 2, list(TWO))


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return found_by(tmp_path_factory.mktemp("four"), 4, list(FOUR))


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return found_by(tmp_path_factory.mktemp("eight"), 8, list(EIGHT))


def check(name: str, ranks: list[dict]) -> None:
    for rank in ranks:
        assert "error" not in rank, rank["error"]
        assert rank["difference"] < TOLERANCE, rank["parameter"]
        assert rank["count"] > 0
        if "pp" not in PLANS[name]["plan"]:  # torch's stages keep what they returned last
            assert not rank["kept"], "tensors of a step outlive it"
    losses = [rank["loss"] for rank in ranks if rank["loss"] is not None]
    if PLANS[name].get("batches", 1) == 1 or "pp" in PLANS[name]["plan"]:
        assert statistics.fmean(losses) == pytest.approx(ranks[0]["expected_loss"], rel=1e-5)


@pytest.mark.parametrize("name", TWO)
def test_two_ranks_train_what_one_process_would(name, two):
    check(name, two[name])


@pytest.mark.parametrize("name", FOUR)
def test_four_ranks_train_what_one_process_would(name, four):
    check(name, four[name])


@pytest.mark.parametrize("name", EIGHT)
def test_eight_ranks_train_what_one_process_would(name, eight):
    check(name, eight[name])


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [(8, 4, [2, 2, 2, 2]), (7, 4, [2, 2, 2, 1]), (6, 4, [1, 2, 2, 1]), (5, 4, [1, 2, 1, 1]), (3, 2, [2, 1])],
)
def test_blocks_that_do_not_divide_go_short_at_the_ends_first(layers, stages, expected):
    dealt = [blocks_of(stage, stages, layers) for stage in range(stages)]
    assert [len(blocks) for blocks in dealt] == expected
    assert [index for blocks in dealt for index in blocks] == list(range(layers))
