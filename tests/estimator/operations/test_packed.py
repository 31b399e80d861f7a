"""What a checkpointed region packs: as many tensors as autograd saves in the blocks that the runners build."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.host_blocks import small
from estimator.estimate.assemble import effective, rank_of
from estimator.scenario import catalog
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model.training import autocast, batch, loss_of
from runners.model.transformer import build
from tests.estimator.examples import flawless, scenario

FAMILIES = ("llama3.2-1b", "qwen3-0.6b", "gpt2", "mpt-125m", "nemotron4-15b")
E = flawless()


def saved_by_autograd(key: str, training: Training, layers: int) -> int:
    """Tensors that hooks see in a forward of so many blocks."""
    model, plan = small(catalog.model(key), layers), Plan(micro_batch=2)
    module = build(model, training, plan, "cpu")
    tokens, targets = batch(model, training, plan, "cpu")
    seen: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast(training, "cpu"):
        loss_of(module, tokens, targets)
    return len(seen)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
@pytest.mark.parametrize("key", FAMILIES)
def test_a_block_packs_what_autograd_saves_of_it(key, precision, attention):
    training = Training(seq_len=16, global_batch=2, precision=precision, attention=attention)
    saved = saved_by_autograd(key, training, 2) - saved_by_autograd(key, training, 1)
    of = replace(
        scenario(), model=small(catalog.model(key), 2), training=training, plan=Plan(micro_batch=2, recompute="full")
    )
    assert float(rank_of(effective(of), E).blocks[0].packed) == saved
