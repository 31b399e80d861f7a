"""One steady-state step: from the end of an optimizer's step to the end of its next one.

A program that makes no optimizer, and updates its parameters itself, has a step from the end of a backward to that of
the next.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import optimizer as hooks

from estimator.scenario.breakdown import MemoryKind
from runners.program.evaluation import Evaluation
from runners.program.recording import Finished, Recording
from runners.program.tensors import local

BY_HAND = "the program makes no optimizer of torch: a step is from the end of a backward to the end of the next"


class Steps:
    """Counts the steps of the first optimizer that steps; the last of ``count`` is what the recording keeps.

    Where a program evaluates its model within that one, as many do after their first step, it is the next.
    """

    def __init__(self, recording: Recording, count: int) -> None:
        self.recording = recording
        self.count = count
        self.done = 0
        self._later = True
        self._leader: Any = None
        self._optimizers = self._passes = 0
        self._trained: dict[int, torch.Tensor] = {}
        self._hooks: list[Any] = []
        self.at_end: Callable[[], None] = lambda: None
        self._evaluation = Evaluation(self._is_dropped, recording.assume)

    def install(self) -> None:
        """Watch every optimizer from now on."""
        self._hooks = [
            hooks.register_optimizer_step_pre_hook(self._before),
            hooks.register_optimizer_step_post_hook(self._after),
        ]
        self.recording.at_backward = self._after_backward
        self._evaluation.install()
        kind: Any = hooks.Optimizer
        begin = kind.__init__

        @functools.wraps(begin)
        def begun(*given: Any, **named: Any) -> None:
            self._optimizers += 1
            begin(*given, **named)

        kind.__init__ = begun

    def _is_dropped(self) -> bool:
        """Whether what runs now stands before the step that is recorded: as far as is known."""
        ahead = self.done < self.count - 1 or (self._later and self.recording.modules.evaluated)
        return self._optimizers > 0 and ahead

    def _before(self, optimizer: torch.optim.Optimizer, given: Any, named: Any) -> tuple[Any, Any]:
        recording = self.recording
        recording.optimizer += 1
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        # one without a gradient is left as it is: an optimizer may hold what a wrapper has replaced since
        self._trained |= {id(p): p for p in parameters if p.requires_grad and p.grad is not None}
        for parameter in parameters:
            weight = recording.weight(parameter)
            recording.storages.mark_of(weight, local(parameter), MemoryKind.PARAMETERS)
            if parameter.grad is not None:
                recording.storages.mark_of(weight, local(parameter.grad), MemoryKind.GRADIENTS)
        return tuple(map(self._closure, given)), {name: self._closure(value) for name, value in named.items()}

    def _closure(self, argument: Any) -> Any:
        """A closure that an optimizer is given computes the loss: what runs in it is no work of the optimizer's."""
        if isinstance(argument, (torch.Tensor, torch.optim.Optimizer)) or not callable(argument):
            return argument

        def outside() -> Any:
            self.recording.optimizer -= 1
            try:
                return argument()
            finally:
                self.recording.optimizer += 1

        return outside

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        recording = self.recording
        recording.optimizer -= 1
        for parameter, state in optimizer.state.items():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    recording.storages.mark_of(recording.weight(parameter), local(value), MemoryKind.OPTIMIZER)
        if recording.optimizer:  # one that another steps, as ZeroRedundancyOptimizer does with its own
            return
        if self._leader is None:
            self._leader = optimizer
        if optimizer is self._leader and not recording.ends:
            self._ended()

    def _after_backward(self) -> None:
        """Where nobody has made an optimizer, backward passes count, but for the first, which may prepare something."""
        recording = self.recording
        if self._optimizers or recording.ends:
            return
        self._passes += 1
        if self._passes == 1:
            return
        recording.by_hand = True
        recording.assume(BY_HAND)
        for parameter in (p for root in recording.roots for p in root.parameters()):
            if parameter.grad is not None:
                recording.storages.mark_of(recording.weight(parameter), local(parameter.grad), MemoryKind.GRADIENTS)
        self._ended()

    def _ended(self) -> None:
        recording = self.recording
        self.done += 1
        if self.done == self.count and recording.modules.evaluated and self._later:
            self._later = False
            self.count += 1
        if self.done == self.count:
            recording.ends = True
            if not recording.backward:  # the engine, which runs optimizers in the backward, takes no exception
                raise Finished
        if self.done == self.count - 1:
            if not gc.isenabled():
                # What is imported and built stays to the end: the collector need not look through it, now or later.
                gc.collect()
                gc.freeze()
                gc.enable()
            recording.restart()

    def parameters(self) -> tuple[int, int]:
        """Count the elements of what is trained or frozen in modules that are trained; and of what is trained alone.

        That is what optimizers step, or gets a gradient; averaged copies and modules without any such do not count.
        Where an optimizer steps copies, or this rank's part of them, in place of the model's (DeepSpeed's ZeRO), the
        model's count.
        """
        roots = self.recording.roots
        trained: dict[int, torch.Tensor] = {id(p): p for root in roots for p in root.parameters() if p.requires_grad}
        if self._trained:
            stepped = {key: p for key, p in trained.items() if p.grad is not None or key in self._trained}
            if stepped:
                trained = stepped | self._trained
            else:
                ran = self.recording.modules.differentiated
                trained = {id(p): p for root in ran for p in root.parameters() if p.requires_grad} or self._trained
        ours = [root for root in roots if any(id(p) in trained for p in root.parameters())]
        found = {id(p): p for root in ours for p in root.parameters() if not p.requires_grad} | trained
        flat = list(_flat(roots))
        for one in flat:
            for part in (one, *(one._params or ())):  # parts of this rank, where the program sees its own parameters
                found.pop(id(part), None)
                trained.pop(id(part), None)
        whole = sum(map(_elements, found.values())) + sum(sum(one._numels) for one in flat)
        every = sum(map(_elements, trained.values())) + sum(sum(one._numels) for one in flat if one.requires_grad)
        ours_of_it = self._trained or ({} if flat else trained)  # Megatron-LM steps copies that want no gradient
        held = sum(local(p).numel() for p in ours_of_it.values())
        if 0 < held < every:
            self.recording.assume(f"of {every:,} trained parameters this rank's optimizer updates {held:,}")
        return whole, every


def _elements(parameter: torch.Tensor) -> int:
    """Elements on all ranks together; of a parameter that DeepSpeed's ZeRO-3 has put away it tells by itself."""
    split = getattr(parameter, "tensor_model_parallel", False)
    return int(getattr(parameter, "ds_numel", None) or parameter.numel()) * (_tensor_parallel_ranks() if split else 1)


def _tensor_parallel_ranks() -> int:
    """Ranks among which Megatron-LM splits a parameter that says so by ``tensor_model_parallel``."""
    groups = sys.modules.get("megatron.core.parallel_state")
    return 1 if groups is None else int(groups.get_tensor_model_parallel_world_size())


def _flat(roots: list[Any]) -> Iterator[Any]:
    """Flat parameters of FullyShardedDataParallel, each of which knows what it holds on all ranks together."""
    handles = {id(m._handle): m._handle for root in roots for m in root.modules() if hasattr(m, "_handle")}
    for handle in handles.values():
        flat = getattr(handle, "flat_param", None)
        if flat is not None:
            yield flat
