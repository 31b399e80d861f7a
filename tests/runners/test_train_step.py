"""The one training step: in which order it goes, and that it trains."""

from __future__ import annotations

import pytest
import torch

from runners.ranks import Ranks
from runners.train_step import one_step, prepare
from tests.runners.examples import scenario


@pytest.mark.parametrize("precision", ["fp32", "fp16-amp", "bf16-amp", "bf16"])
def test_steps_learn_the_same_batch(precision):
    trainer = prepare(scenario(training={"precision": precision}), Ranks(), seed=0)
    for group in trainer.optimizer.param_groups:
        group["lr"] = 3e-3
    losses = []
    for _ in range(12):
        one_step(trainer, lambda phase: None)
        losses.append(float(trainer.loss))
    assert losses[-1] < losses[0] - 0.2


def test_phases_come_in_order_for_every_micro_batch_and_gradients_are_gone_after():
    trainer = prepare(scenario(training={"global_batch": 6}), Ranks(), seed=0)
    seen: list[str] = []
    one_step(trainer, seen.append)
    assert seen == ["forward", "backward"] * 3 + ["optimizer"]
    assert trainer.phase == "optimizer"
    assert all(parameter.grad is None for parameter in trainer.module.parameters())


def test_micro_batches_add_up_to_the_whole_batch():
    whole = prepare(scenario(plan={"micro_batch": 4}, training={"global_batch": 4}), Ranks(), seed=0)
    parts = prepare(scenario(plan={"micro_batch": 2}, training={"global_batch": 4}), Ranks(), seed=0)
    tokens, targets = whole.batches[0]
    parts.batches = [(tokens[:2], targets[:2]), (tokens[2:], targets[2:])]
    gradients: list[list[torch.Tensor]] = []
    for trainer in (whole, parts):
        kept: list[torch.Tensor] = []

        def keep(phase: str, trainer=trainer, kept=kept) -> None:
            if phase == "backward":
                kept[:] = [parameter.grad.clone() for parameter in trainer.module.parameters()]

        one_step(trainer, keep)
        gradients.append(kept)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_seeds_decide_parameters_and_data():
    first, same, other = (prepare(scenario(), Ranks(), seed) for seed in (0, 0, 1))
    weights = [next(iter(trainer.module.parameters())) for trainer in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(first.batches[0][0], same.batches[0][0])
