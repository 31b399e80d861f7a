"""Modules of torch that take long to import: what stands for its compiler, and what is changed once others come."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch

COMPILER = "torch._dynamo"
ALONE = (f"{COMPILER}.config", f"{COMPILER}._trace_wrapped_higher_order_op")
"""Modules of the compiler that want nothing of it: what torch's fake tensors and transformers' masks import."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes modules once they have run; loads the compiler before a module of it that wants it."""

    def __init__(self) -> None:
        self.then: dict[str, Callable[[Any], None]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how a module is loaded, None where that is no matter of this finder's."""
        if name.startswith(f"{COMPILER}.") and name not in ALONE and _is_kept_out():
            _wanted()
            if name in sys.modules:
                return importlib.machinery.ModuleSpec(name, self)
        then = self.then.pop(name, None)
        found = None if then is None else importlib.machinery.PathFinder.find_spec(name, path, target)
        if then is None or found is None or found.loader is None:
            return None
        loader: Any = found.loader
        run = loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            then(module)

        loader.exec_module = run_and_change
        return found

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module, which ran with the compiler."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run."""


_finder = _Finder()


def once_imported(name: str, then: Callable[[Any], None]) -> None:
    """Change a module: now where it was imported, else when it is."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.then[name] = then


class _Compiler(ModuleType):
    """Stands where torch has its compiler until somebody asks for more than torch itself does at every step."""

    @staticmethod
    def graph_break(msg: str = "") -> None: ...

    @staticmethod
    def is_compiling() -> bool:
        return torch.compiler.is_compiling()

    @staticmethod
    def disable(function: Any = None, *_: Any, **__: Any) -> Any:
        return _itself(function)

    @staticmethod
    def allow_in_graph(function: Any) -> Any:
        return function

    @staticmethod
    def assume_constant_result(function: Any) -> Any:
        return function

    @staticmethod
    def mark_static_address(tensor: Any, guard: bool = False) -> None: ...

    @staticmethod
    def reset() -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who looks through all modules wants none of it
            raise AttributeError(name)
        return getattr(_wanted(), name)


def _is_kept_out() -> bool:
    return isinstance(sys.modules.get(COMPILER), _Compiler)


def _wanted() -> Any:
    """Import the compiler."""
    if _is_kept_out():
        del sys.modules[COMPILER]
    return importlib.import_module(COMPILER)


def keep_compiler_out() -> None:
    """Let torch's compiler, which takes as long to import as torch itself, wait until a program asks for it."""
    found = importlib.machinery.PathFinder.find_spec(COMPILER, torch.__path__)
    if COMPILER in sys.modules:
        _finish(sys.modules[COMPILER])
        return
    if found is None:
        return
    anywhere: Any = torch
    anywhere._dynamo = sys.modules[COMPILER] = _Compiler(COMPILER)
    anywhere._dynamo.__path__ = found.submodule_search_locations
    once_imported(COMPILER, _finish)
    # It wants each of torch's functions once, and several of torch.cuda's are one here; nothing goes by its rules.
    once_imported(f"{COMPILER}.trace_rules", lambda rules: setattr(rules, "get_torch_obj_rule_map", _no_rules))


def _finish(compiler: Any) -> None:
    compiler.disable = _itself
    compiler.reset = _nothing  # it would forget CUDA graphs, of which a build without CUDA knows nothing
    for name in ALONE:
        if name in sys.modules:
            setattr(compiler, name.rpartition(".")[2], sys.modules[name])


@functools.lru_cache
def _no_rules() -> dict[Any, Any]:
    return {}


def leave_alone() -> None:
    """What torch keeps from its compiler (optimizers, checkpointing, DTensor) is called as it is.

    Each such function would import the compiler at its first call, and pass through it at every later one.
    """
    anywhere: Any = torch
    wrapper = anywhere._disable_dynamo(leave_alone).__code__
    for one in gc.get_referrers(wrapper):
        if isinstance(one, FunctionType) and one.__code__ is wrapper:
            kept = dict(zip(wrapper.co_freevars, one.__closure__ or (), strict=True))["fn"].cell_contents
            kept.__dynamo_disable = kept
    for where in (anywhere, anywhere._compile):
        where._disable_dynamo = _itself
    anywhere.compiler.disable = _itself
    anywhere.compiler.cudagraph_mark_step_begin = _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _itself(function: Any = None, *_: Any, **__: Any) -> Any:
    """Return the function, or to a decorator's options one that does."""
    return _itself if function is None else function
