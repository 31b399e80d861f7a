"""Kernels that a program launches itself, of Triton or CUDA C: they write to what they are given, so nothing runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from runners.program.recorder import is_on_device, leaves

if TYPE_CHECKING:
    from runners.program.recording import Recording

_JIT = "triton.runtime.jit"
_TUNER = "triton.runtime.autotuner"


class _OnImport(MetaPathFinder):
    """Changes a module once it is imported: importing Triton for a program that has none would cost it 0.2 s."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find what is to be changed by the other finders, once."""
        change = self._changes.pop(name, None)
        spec = None if change is None else importlib.util.find_spec(name)
        if change is None or spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def install(recording: Recording) -> None:
    """Record launches instead of compiling them, for the rest of the process."""

    def launched(kernel: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> None:
        tensors = [one for one in leaves((args, kwargs)) if is_on_device(one)]
        if tensors and not warmup:
            recording.dispatches += 1
            # which of them it writes is not known: each passes once
            recording.record("kernel", f"triton::{kernel.fn.__name__}", tensors, ())

    def untuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        return tuner.fn.run(*args, **kwargs)

    class Compiled:
        """What ``torch.cuda._compile_kernel`` gives: CUDA C that is compiled while the program runs."""

        def __init__(self, source: str, kernel_name: str, *_: Any, **__: Any) -> None:
            self._name = f"nvrtc::{kernel_name}"

        def __call__(self, grid: Any = None, block: Any = None, args: Any = (), *_: Any, **__: Any) -> None:
            tensors = [one for one in leaves(args or ()) if is_on_device(one)]
            if tensors:
                recording.dispatches += 1
                recording.record("kernel", self._name, tensors, ())

        def set_shared_memory_config(self, _: int) -> None: ...

    cuda: Any = torch.cuda
    cuda._compile_kernel = Compiled
    changes: dict[str, Callable[[Any], None]] = {
        _JIT: lambda module: setattr(module.JITFunction, "run", launched),
        _TUNER: lambda module: setattr(module.Autotuner, "run", untuned),
    }
    for name in [name for name in changes if name in sys.modules]:
        changes.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _OnImport(changes))
