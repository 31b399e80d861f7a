"""Parameters of a program that splits them itself: counted on all ranks together."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from torch import nn

from runners.program.recording import Recording
from runners.program.steps import Steps


def test_parameters_that_megatron_splits_count_on_all_its_ranks(monkeypatch):
    """A layer split in four beside a norm that every rank has whole, by the names that Megatron-LM gives."""
    groups = SimpleNamespace(get_tensor_model_parallel_world_size=lambda: 4)
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", groups)
    module = nn.Sequential(nn.Linear(8, 16, bias=False), nn.LayerNorm(16, bias=False))
    module[0].weight.tensor_model_parallel = True
    module[1].weight.tensor_model_parallel = False
    recording = Recording()
    recording.roots.append(module)
    steps = Steps(recording, 2)
    copies = [parameter.detach().float() for parameter in module.parameters()]
    steps._before(torch.optim.SGD(copies), (), {})
    recording.modules.differentiated.add(module)
    assert steps.parameters() == (4 * 8 * 16 + 16,) * 2
    assert list(recording.assumptions) == ["of 528 trained parameters this rank's optimizer updates 144"]
