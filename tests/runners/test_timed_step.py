"""Steps one by one, from idle to idle."""

from __future__ import annotations

import pytest

from runners.ranks import Ranks
from runners.timed_step import samples_by_rank, timed_step, timed_steps
from runners.train_step import prepare
from tests.runners.examples import scenario


@pytest.fixture(scope="module")
def trainer():
    return prepare(scenario(training={"global_batch": 4}), Ranks(), seed=0)


def test_a_step_is_its_phases(trainer):
    sample = timed_step(trainer)
    assert set(sample) == {"step", "forward", "backward", "optimizer"}
    assert sample["forward"] + sample["backward"] + sample["optimizer"] == pytest.approx(sample["step"])


def test_progress_is_told_at_the_beginning_and_the_end(trainer):
    told = []
    samples = timed_steps(trainer, "measure", range(2, 5), 7, lambda *words: told.append(words))
    assert len(samples) == 3
    assert told[0] == ("measure", 2, 7)
    assert told[-1] == ("measure", 5, 7, samples[-1]["step"])
    assert samples_by_rank(trainer.ranks, samples) == [samples]
