"""One process alone; what several share is tested where real ones run (benchmarks/test_step.py)."""

from __future__ import annotations

import pytest
import torch

from estimator.scenario.problems import InputProblems
from runners.ranks import Ranks, gather, join, leave, world_size_from_environment
from tests.forks import run_in_fork
from tests.runners import leaving_ranks
from tests.runners.examples import ROOT


def test_one_process_is_all_there_is():
    ranks = join("cpu")
    assert ranks == Ranks(rank=0, world_size=1, device="cpu")
    assert not ranks.cuda
    assert gather(ranks, [1.0, 2.0]) == [[1.0, 2.0]]
    leave(ranks)
    assert world_size_from_environment() == 1


def test_auto_takes_a_gpu_only_where_there_is_one():
    assert join("auto").cuda == torch.cuda.is_available()


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1000")
    with pytest.raises(InputProblems, match=r"device: process 1000 .* choose device cpu"):
        join("cuda")


def test_a_step_ends_while_a_collective_of_its_group_still_runs():
    """Its module's reducer holds the group, whose thread needs the interpreter to let go of the collective's tensor."""
    done = run_in_fork(leaving_ranks.main, (), ROOT)
    assert (done.returncode, done.stdout.count("gone")) == (0, 2), done.stderr
