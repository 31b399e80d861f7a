"""Gradients of one tensor are added up in place where autograd's engine would."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runners.program.accumulation import counts_alone, in_place


class Asked(TorchDispatchMode):
    """Keeps what is said of each sum."""

    def __init__(self):
        super().__init__()
        self.alone = counts_alone()
        self.said = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # as the recorder: without this a frame stands between

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.take(func, args, kwargs or {})

    def take(self, func, args, kwargs):
        if func is torch.ops.aten.add.Tensor:
            self.said.append(in_place(args, self.alone))
        return func(*args, **kwargs)


class Summed(torch.autograd.Function):
    """Adds in its own backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient + gradient * 2


def twice(y):
    return torch.stack([y.tanh(), y.sin()])


def shared(y):
    return (y + y) * 3


def views(y):
    """The first gradient is a piece of a tensor; its sum with the second is nobody else's."""
    return torch.stack([torch.cat([y, y.sin()]), torch.cat([y.cos(), y])])


def own(y):
    return Summed.apply(y) * 2


@pytest.mark.parametrize(
    ("program", "said"), [(twice, [True]), (shared, [False]), (views, [False, True, True]), (own, [False])]
)
def test_only_the_engine_adds_in_place_and_only_to_what_nobody_else_holds(program, said):
    x = torch.ones(3, requires_grad=True)
    loss = program(x * 2).sum()
    with Asked() as asked:
        loss.backward()
    assert asked.said == said
