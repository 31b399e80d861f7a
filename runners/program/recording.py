"""What was recorded: calls with their signatures, phases, modules, streams and waits; and the op list made of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.weak import WeakTensorKeyDictionary

from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Weight
from estimator.scenario.problems import Problem
from runners.program import varying
from runners.program.modules import ModulePaths
from runners.program.pinned import Pinned
from runners.program.storages import Storages
from runners.program.tensors import local


class Finished(BaseException):
    """The step was recorded: the program ends here. No Exception, so that none of its handlers takes it."""


class Recording:
    """The calls of the present step, and where in the program it is.

    ``steps``: how many run, of which the last is kept; ``drops``: calls are not recorded, as nobody will have them.
    """

    def __init__(self, steps: int = 2) -> None:
        self.steps = steps
        self.calls: list[Call] = []
        self.storages = Storages(lambda: len(self.calls))
        self.pinned = Pinned()
        self.modules = ModulePaths(self._at_root)
        self.streams = ["default"]
        self.stream = 0
        self.groups: list[tuple[int, ...]] = []
        self.assumptions: dict[str, None] = {}
        self._doubts: dict[tuple[str, str, str], int] = {}
        self.roots: list[nn.Module] = []
        self._weight_of: MutableMapping[torch.Tensor, int] = WeakTensorKeyDictionary()
        self._weights: list[Weight] = []
        self.dispatches = self.dtensor = self.graphs = 0
        self.breaks: list[int] = []
        """Numbers of autograd's first node after each break of the compiled region that ran last."""
        self.cast_backward: torch.dtype | None = None
        """The type of the autocast that the region ran under: its backward is compiled under the same."""
        self.bare = 0
        self.step = 0
        self.ends = self.drops = False
        self.by_hand = False
        self.world_size = 0
        """Ranks of the process group that the program made, 0 where it made none."""
        self.at_backward: Callable[[], None] = lambda: None
        self.optimizer = 0
        self.recomputing = 0
        self.split_trains = False
        self.backward: list[int] = []
        self.sizes_read: set[int] = set()
        self._last = {0: NONE}
        self._before: tuple[Any, Any, Any, Any] = ((), (), (), ())
        self._signatures: dict[Any, int] = {}
        self._made: list[Signature] = []
        self._operands: dict[Any, Operand] = {}

    # where the program is

    def phase(self, inputs: Sequence[torch.Tensor]) -> str:
        """Name the phase that an op with these inputs runs in."""
        if self.optimizer:
            return Phase.OPTIMIZER
        if self.backward:
            return Phase.BACKWARD
        # below a distributed tensor that trains are parts of it that do not say so
        trains = torch.is_grad_enabled() and (self.split_trains or any(tensor.requires_grad for tensor in inputs))
        if self.by_hand and not trains and inputs and self.storages.kind_of(inputs[0]) == MemoryKind.PARAMETERS:
            return Phase.FORWARD if self.modules.depth else Phase.OPTIMIZER
        return Phase.FORWARD if trains or self.modules.depth else ""

    def backward_begins(self) -> None:
        """An autograd graph task starts, perhaps within another."""
        if not self.backward:
            self.storages.backward_begins()
        self.backward.append(threading.get_ident())

    def backward_ends(self) -> None:
        """The innermost graph task is done."""
        self.backward.pop()
        if not self.backward:
            self.at_backward()

    def restart(self) -> None:
        """A step begins: what was recorded until now is dropped."""
        self.drops = False
        self.step += 1
        self._before = self._found()
        self.calls.clear()
        self._doubts.clear()
        self.storages.restart()
        self.modules.restart()
        self._last = dict.fromkeys(self._last, NONE)
        self.dispatches = self.dtensor = self.graphs = 0
        self._signatures.clear()
        self._made.clear()
        self.sizes_read.clear()

    # what happens

    def record(
        self,
        kind: str,
        op: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        arguments: tuple[tuple[str, Any], ...] = (),
        stream: int | None = None,
    ) -> int:
        """Append a kernel or a collective; return its index."""
        if self.drops:
            return self.drop()
        where = tuple(map(self._seen, inputs))
        found = tuple(map(self._seen, outputs))
        key = (op, where, found, arguments)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._signatures[key] = len(self._made)
            self._made.append(
                Signature(
                    op=op,
                    inputs=tuple(map(self._operand, where)),
                    outputs=tuple(map(self._operand, found)),
                    arguments={name: _plain(value) for name, value in arguments},
                )
            )
        module, compiled = self._module()
        stream = self.stream if stream is None else stream
        call = Call(
            kind=kind,
            signature=signature,
            phase=self.phase(inputs),
            module=module,
            stream=stream,
            dispatches=0 if self.bare else max(self.dispatches, 1),
            dtensor=self.dtensor,
            graphs=self.graphs,
            recomputed=self.recomputing > 0,
            compiled=compiled or self.modules.compiled > 0,
            varies=max(varying.of(inputs), default=0),
        )
        return self._append(call)

    def drop(self) -> int:
        """What runs now is no call of a list that anybody will have; return no index."""
        self.dispatches = self.dtensor = self.graphs = 0
        return NONE

    def is_compiled(self) -> bool:
        """Whether what runs now stands in a compiled region, or is the gradient of what does."""
        return self._module()[1] or self.modules.compiled > 0

    @contextmanager
    def below_python(self) -> Iterator[None]:
        """What runs within is launched by C++, without autograd."""
        self.bare += 1
        try:
            yield
        finally:
            self.bare -= 1

    def wait(self, stream: int, earlier: int) -> None:
        """A stream waits for an earlier call; nothing to say where that was before the step or on the stream itself."""
        if earlier == NONE or self.calls[earlier].stream == stream:
            return
        self._append(Call(kind="wait", phase=self.phase(()), stream=stream, dispatches=0, waits_for=earlier))

    def sync(self, earlier: int = NONE) -> None:
        """The host waits for an earlier call, or for all."""
        call = Call(
            kind="sync",
            phase=self.phase(()),
            module=self._module()[0],
            stream=self.stream,
            dispatches=self.dispatches,
            waits_for=earlier,
        )
        self._append(call)

    def last_on(self, stream: int) -> int:
        """Index of the last call on a stream, NONE where the step has none."""
        return self._last.get(stream, NONE)

    def new_stream(self, name: str) -> int:
        """Return the index of a stream that is added."""
        self.streams.append(name)
        return len(self.streams) - 1

    def group(self, ranks: Sequence[int]) -> int:
        """Return the index of a process group's ranks."""
        key = tuple(ranks)
        if key not in self.groups:
            self.groups.append(key)
        return self.groups.index(key)

    def weight(self, parameter: torch.Tensor) -> int:
        """Return the index of a parameter among the weights, which it is added to where it is new."""
        found = self._weight_of.get(parameter)
        if found is None:
            found = self._weight_of[parameter] = len(self._weights)
            part = local(parameter)
            one = Weight(
                name=self.modules.parameters.get(parameter, ""),
                shape=tuple(part.shape),
                dtype=_plain(part.dtype),
                trains=parameter.requires_grad,
            )
            self._weights.append(one)
        return found

    def assume(self, text: str) -> None:
        """State what was assumed, once."""
        self.assumptions.setdefault(text)

    def doubt(self, op: str, message: str, remedy: str) -> None:
        """Count in the present step what an op's time depends on and a trace does not know."""
        key = (op, message, remedy)
        self._doubts[key] = self._doubts.get(key, 0) + 1

    def op_list(self, *, before: bool = False, **about: Any) -> OpList:
        """Return what the step did, or what was done before it began; ``about``: the fields that are no tables."""
        recorded, made, storages, problems = self._found() if not before else self._before
        used = sorted({call.module for call in recorded if call.module != NONE})
        place = {module: index for index, module in enumerate(used)}
        calls = tuple(
            call if call.module == NONE or call.module == place[call.module] else _moved(call, place[call.module])
            for call in recorded
        )
        return OpList(
            source="trace",
            calls=calls,
            signatures=tuple(made),
            storages=storages,
            modules=tuple(self.modules.names[module] for module in used),
            streams=tuple(self.streams),
            groups=tuple(self.groups),
            weights=tuple(self._weights),
            assumptions=tuple(self.assumptions),
            problems=problems,
            **about,
        )

    def _found(self) -> tuple[Any, Any, Any, Any]:
        problems = tuple(
            Problem(field=op, message=message if times == 1 else f"{message} ({times} times)", remedy=remedy)
            for (op, message, remedy), times in self._doubts.items()
        )
        return tuple(self.calls), tuple(self._made), self.storages.listed(), problems

    def _append(self, call: Call) -> int:
        if self.ends:  # what a program does while it is taken down is no part of a step
            return self._last.get(call.stream, NONE)
        if self.drops:
            return self.drop()
        index = len(self.calls)
        self.calls.append(call)
        self._last[call.stream] = index
        self.dispatches = self.dtensor = 0
        self.graphs -= call.graphs  # a wait takes none
        return index

    def _module(self) -> tuple[int, bool]:
        if self.modules.depth:
            return self.modules.current, False
        if self.backward:
            node = torch._C._current_autograd_node()
            if node is not None:
                return self.modules.of_node(node, self.backward[-1])
        return NONE, False

    def _seen(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        return tuple(tensor.shape), tensor.dtype, None if tensor.is_contiguous() else tensor.stride()

    def _operand(self, seen: tuple[Any, ...]) -> Operand:
        found = self._operands.get(seen)
        if found is None:
            found = Operand(shape=seen[0], dtype=_plain(seen[1]), strides=seen[2])
            self._operands[seen] = found
        return found

    def _at_root(self, root: nn.Module) -> None:
        self.roots.append(root)
        for parameter in root.parameters():
            if isinstance(parameter, UninitializedParameter) or torch._C._functorch.is_functorch_wrapped_tensor(
                parameter
            ):
                continue  # a lazy layer's, which the first batch shapes; a stand-in, as torch.func gives them
            self.storages.mark_of(self.weight(parameter), local(parameter), MemoryKind.PARAMETERS)
        # by the class: Megatron's DistributedDataParallel has a list by that name
        self.storages.mark(map(local, nn.Module.buffers(root)), MemoryKind.PARAMETERS)


def _moved(call: Call, module: int) -> Call:
    values: Mapping[str, Any] = {name: getattr(call, name) for name in Call.__slots__}
    return Call(**{**values, "module": module})


def _plain(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value
