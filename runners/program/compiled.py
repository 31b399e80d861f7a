"""``torch.compile`` where there is no device to compile for: the program runs eagerly, and its calls are marked."""

from __future__ import annotations

import bisect
import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as trees

from runners.program import ddp, unimported
from runners.program.devices import DEVICE
from runners.program.recording import Recording

STATED = "compiled regions are recorded as eager would run them and marked: kernels of neighbours may fuse"


def install(recording: Recording) -> None:
    """Replace the compiler for the rest of the process."""
    anywhere: Any = torch
    kind = _module_kind(recording)

    def compile_(model: Any = None, **options: Any) -> Any:
        if model is None:
            return functools.partial(compile_, **options)
        recording.assume(STATED)
        return kind(model) if isinstance(model, nn.Module) else marked(model, recording)

    def in_place(self: nn.Module, *_: Any, **__: Any) -> None:
        recording.assume(STATED)
        self._compiled_call_impl = marked(self._call_impl, recording, self)

    anywhere.compile = compile_
    anywhere.jit.trace = _as_it_is
    nn.Module.compile = in_place  # type: ignore[method-assign]
    _break_at_logging(recording)
    unimported.leave_alone()


def _break_at_logging(recording: Recording) -> None:
    """A logger's method ends a graph, as torch's compiler does not follow it: what comes next is another graph."""
    kind: Any = logging.Logger
    look = kind.__getattribute__

    def attribute(self: Any, name: str) -> Any:
        found = look(self, name)
        if recording.modules.compiled and callable(found) and not look(self, "name").startswith("torch"):
            number = torch._C._autograd._get_sequence_nr()
            if recording.breaks[-1:] != [number]:  # one after another without an op between are one
                recording.breaks.append(number)
                recording.graphs += 1
        return found

    kind.__getattribute__ = attribute


def _as_it_is(function: Any, *_: Any, **__: Any) -> Any:
    """What ``torch.jit.trace`` gives: its checks compare values, and what it gives runs the same kernels."""
    return function


def marked(function: Callable[..., Any], recording: Recording, module: nn.Module | None = None) -> Callable[..., Any]:
    """Return the function, a module's own where that is given, whose calls are marked."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with region(recording, module):
            result = function(*args, **kwargs)
        return _together(result, recording.breaks)

    return run


class _Outputs(torch.autograd.Function):
    """What a compiled graph returns is of one node, which takes zeros for gradients of what the loss does not need."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Autograd holds what it gave a node until the node has run: here the whole graph, taken to end with the pass.
        held = list(gradients)
        torch.autograd.Variable._execution_engine.queue_callback(held.clear)
        return gradients


_joined: Callable[..., tuple[torch.Tensor, ...]] = _Outputs.apply


def _together(result: Any, breaks: list[int]) -> Any:
    """Return the result with its differentiable tensors as outputs of one graph, or of those that ``breaks`` parted."""
    leaves, shape = trees.tree_flatten(result)
    graphs: dict[int, list[int]] = {}
    for at, one in enumerate(leaves):
        if isinstance(one, torch.Tensor) and one.grad_fn is not None:
            graphs.setdefault(bisect.bisect(breaks, one.grad_fn._sequence_nr()), []).append(at)
    several = [found for found in graphs.values() if len(found) > 1]
    if not several:
        return result
    for found in several:
        for at, one in zip(found, _joined(*(leaves[at] for at in found)), strict=True):
            leaves[at] = one
    return trees.tree_unflatten(leaves, shape)


_FLAG = "_is_compiling_flag"
"""What a program asks the compiler, and gets a yes within. Libraries then take other ways: transformers, one that reads
no values, and so builds each mask."""


class region:  # noqa: N801  (a context, as torch.no_grad)
    """What runs within is compiled."""

    def __init__(self, recording: Recording, module: nn.Module | None = None) -> None:
        self._recording, self._modules, self._module = recording, recording.modules, module

    def __enter__(self) -> None:
        if not self._modules.compiled:  # a region within another is part of its graph
            self._recording.breaks.clear()
            self._recording.cast_backward = (
                torch.get_autocast_dtype(DEVICE) if torch.is_autocast_enabled(DEVICE) else None
            )
            self._recording.graphs += 1 if self._module is None else ddp.graphs_of(self._module)
        self._enter(1)

    def __exit__(self, *_: Any) -> None:
        self._enter(-1)

    def _enter(self, more: int) -> None:
        self._modules.compiled += more
        setattr(torch.compiler, _FLAG, self._modules.compiled > 0)
        self._modules.boundary()


def _module_kind(recording: Recording) -> type[nn.Module]:
    class OptimizedModule(nn.Module):
        """Stands for the module that it runs, as torch's own does, ``_orig_mod`` included."""

        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self._orig_mod = module

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            with region(recording, self._orig_mod):
                result = self._orig_mod(*args, **kwargs)
            return _together(result, recording.breaks)

        def __getattr__(self, name: str) -> Any:
            if name == "_orig_mod":
                return self._modules["_orig_mod"]
            return getattr(self._orig_mod, name)

        def train(self, mode: bool = True) -> Any:
            self._orig_mod.train(mode)
            self.training = mode
            return self

    return OptimizedModule
