"""Which module an op belongs to: the running one in the forward, the forward's own in the backward."""

from __future__ import annotations

import bisect
import re
import threading
import weakref
from collections.abc import Callable, MutableMapping, MutableSet
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.utils.weak import WeakTensorKeyDictionary

from estimator.scenario.op_list import NONE

_WRAPPERS = re.compile(r"(^|\.)(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.|$)")


class ModulePaths:
    """Paths as ``named_modules`` gives them, of each root that the program calls; the root itself by its class.

    An autograd node remembers its sequence number, which is counted per thread as nodes are made; so the runs of
    numbers that each module's forward made tell the module of a backward op.
    """

    def __init__(self, at_root: Callable[[nn.Module], None]) -> None:
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._of: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._of_parameter: MutableMapping[torch.Tensor, int] = WeakTensorKeyDictionary()
        self.parameters: MutableMapping[torch.Tensor, str] = WeakTensorKeyDictionary()
        """Paths of parameters, as ``named_parameters`` gives them."""
        self._stack: list[int] = []
        self._at_root = at_root
        self._starts: dict[int, list[int]] = {}
        self._modules: dict[int, list[tuple[int, bool]]] = {}
        self.compiled = 0
        self.evaluated = False
        self.differentiated: MutableSet[nn.Module] = weakref.WeakSet()
        """Modules that the program called while gradients were asked for."""
        self._hooks: list[Any] = []

    def install(self) -> None:
        """Watch every module's forward from now on."""
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def remove(self) -> None:
        """Stop watching."""
        for hook in self._hooks:
            hook.remove()

    @property
    def current(self) -> int:
        """Index of the running module's name, or NONE."""
        return self._stack[-1] if self._stack else NONE

    @property
    def depth(self) -> int:
        """How many modules are running, one in the other."""
        return len(self._stack)

    def of_node(self, node: Any, thread: int) -> tuple[int, bool]:
        """Module, and whether it was compiled, of the forward op that made an autograd node in a thread."""
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self._of_parameter.get(variable, NONE), False
        starts = self._starts.get(thread)
        at = bisect.bisect_right(starts, node._sequence_nr()) - 1 if starts else -1
        return self._modules[thread][at] if at >= 0 else (NONE, False)

    def boundary(self) -> None:
        """Nodes that are made from here on belong to what runs now."""
        thread = threading.get_ident()
        starts = self._starts.setdefault(thread, [])
        modules = self._modules.setdefault(thread, [])
        number = torch._C._autograd._get_sequence_nr()
        entry = (self.current, self.compiled > 0)
        if starts and starts[-1] == number:
            modules[-1] = entry
        else:
            starts.append(number)
            modules.append(entry)

    def restart(self) -> None:
        """A step begins: its nodes are new, and nothing was evaluated."""
        self.evaluated = False
        for thread in self._starts:
            del self._starts[thread][:-1]
            del self._modules[thread][:-1]

    def name(self, path: str) -> int:
        """Return the index of a path, which is added where it is new."""
        found = self._index.get(path)
        if found is None:
            found = self._index[path] = len(self.names)
            self.names.append(path)
        return found

    def _take(self, root: nn.Module) -> None:
        top = type(root).__name__
        wrapped = isinstance(root, nn.parallel.DistributedDataParallel)
        for path, module in root.named_modules():
            clean = _WRAPPERS.sub("", path).lstrip(".")
            if wrapped:
                clean = clean.removeprefix("module").removeprefix(".")
            index = self.name(clean or top)
            self._of.setdefault(module, index)
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    self._of_parameter.setdefault(parameter, index)
                    self.parameters.setdefault(parameter, f"{clean}.{name}".lstrip("."))
        self._at_root(root)

    def _enter(self, module: nn.Module, _: Any) -> None:
        if module not in self._of:
            self._take(module)
        if not self._stack:
            if torch.is_grad_enabled():
                self.differentiated.add(module)
            elif not module.training:
                self.evaluated = True
        self._stack.append(self._of[module])
        self.boundary()

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if self._stack:
            self._stack.pop()
        self.boundary()
