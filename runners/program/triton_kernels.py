"""Kernels that a program launches itself, of Triton or CUDA C: they write to what they are given, so nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from runners.program.tensors import is_on_device, leaves
from runners.program.unimported import once_imported

if TYPE_CHECKING:
    from runners.program.recording import Recording

_JIT = "triton.runtime.jit"
_TUNER = "triton.runtime.autotuner"


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
    once_imported(_JIT, lambda module: setattr(module.JITFunction, "run", launched))
    once_imported(_TUNER, lambda module: setattr(module.Autotuner, "run", untuned))
