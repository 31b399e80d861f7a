"""The route: "cuda" is a device that torch's PrivateUse1 slot holds, whose tensors are fake.

CPU builds of torch refuse tensors that are called cuda, but let a Python backend take that slot. So a function mode
rewrites "cuda" on the way in and the slot's name on the way out; below it, ops run on shapes alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.optim.optimizer as optimizers
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.parallel import scatter_gather
from torch.utils import backend_registration
from torch.utils import checkpoint as checkpointing
from torch.utils.data._utils.pin_memory import pin_memory

from estimator.scenario.problems import InputProblems, Problem
from runners.program import (
    attention,
    autocast,
    chip,
    compiled,
    composites,
    files,
    flex,
    recurrent,
    tensor_types,
    unimported,
)
from runners.program.devices import DEVICE, inward_named, known
from runners.program.functions import Cuda, on_device, on_host
from runners.program.moved import become
from runners.program.recorder import Recorder
from runners.program.recording import Finished, Recording

_HERE = torch.device("cpu")

LOADS = "what its data loader reads, decodes and augments has no time here: a step that waits for it takes longer"


class Route:
    """All that makes this process run CUDA programs on shapes; it is for good: such a process does nothing else."""

    def __init__(self, device: chip.Device, recording: Recording) -> None:
        self.device = device
        self.recording = recording
        _register()
        _keep_rules()
        unimported.keep_compiler_out()
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.casts = autocast.CastCache()
        self.recorder = Recorder(recording, self.fakes, device.capability)
        self.functions = Cuda(device, recording)
        self._libraries = [
            *autocast.install(DEVICE, self.casts, on_device),
            attention.install(device.capability),
            composites.install(),
            recurrent.install(DEVICE, self.casts.cast),
        ]

    def install(self) -> None:
        """Patch torch where modes do not reach."""
        chip.install(self.device)
        tensor_types.install()
        _patch_devices(self)
        _patch_autocast(self.casts)
        _patch_parameters(self)
        _patch_backward(self)
        _patch_checkpointing(self)
        _patch_storages(self)
        compiled.install(self.recording)
        attention.install_causal_bias(self.device.capability)
        flex.install(self.recording)
        files.install(self.recording, self.fakes)

    def _modes(self) -> list[Any]:
        return [self.recorder, self.functions]

    def __enter__(self) -> Route:
        for mode in self._modes():
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes()):
            mode.__exit__(*error)


def _register() -> None:
    class Module:
        """``torch.headroom``, which C++ and the checkpointing ask: as torch.cuda."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch.cuda, name)

        def device_count(self) -> int:
            return 1

        def current_device(self) -> int:
            return 0

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.float16, torch.bfloat16, torch.float32]

        def _is_in_bad_fork(self) -> bool:
            return False

        def manual_seed_all(self, seed: int) -> None:
            return None

    backend_registration._setup_privateuseone_for_python_backend(rename=DEVICE, backend_module=Module())


def _keep_rules() -> None:
    """Each dispatch asks for a rule of its op for a mode, three calls deep: keep the tables before C++ takes it up."""
    registry: Any = torch._library.simple_registry
    rules = getattr(registry.singleton.find("aten::mm"), "torch_dispatch_rules", None)
    if not (hasattr(registry, "find_torch_dispatch_rule") and isinstance(getattr(rules, "_data", None), dict)):
        return  # a torch that keeps them otherwise looks them up itself
    tables: dict[int, Any] = {}
    ops: list[Any] = []  # so that none takes the identity of one that is gone

    def rule(op: Any, mode: type) -> Any:
        table = tables.get(id(op))
        if table is None:
            ops.append(op)
            table = tables[id(op)] = registry.singleton.find(op.__qualname__).torch_dispatch_rules._data
        return table.get(mode)

    registry.find_torch_dispatch_rule = rule


class _Scatter:
    """DataParallel's way to its devices, of which there is one here."""

    @staticmethod
    def apply(devices: list[int], sizes: Any, dim: int, tensor: torch.Tensor) -> tuple[torch.Tensor]:
        if len(devices) > 1:
            message, remedy = "spreads a batch over several devices", "Give it one, or use DistributedDataParallel."
            raise InputProblems([Problem(field="DataParallel", message=message, remedy=remedy)])
        return (tensor.to(torch.device("cuda", devices[0]), non_blocking=True),)


def _patch_devices(route: Route) -> None:
    fake: Any = FakeTensor
    inner = fake.device.fget

    def device(self: Any) -> Any:
        found = inner(self)
        if found.type == DEVICE and torch._C._len_torch_function_stack() and not _functions_disabled():
            return route.device.told
        return found

    fake.device = property(device, fake.device.fset)
    fake.tolist = lambda self: on_host(route.recording, self).tolist()
    anywhere: Any = torch
    set_default = anywhere.set_default_device
    anywhere.set_default_device = lambda value: set_default(known(value))
    # By this name libraries tell a fake tensor, and then take ways of their own; torch itself has the class elsewhere.
    subclasses: Any = torch._subclasses
    subclasses.FakeTensor = _Nothing
    foreach: Any = torch.utils._foreach_utils
    foreach._foreach_supported_types.append(FakeTensor)
    optimizer: Any = optimizers
    optimizer._foreach_supported_types.append(FakeTensor)
    for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
        listed = [*getattr(foreach, name)(), "cuda", DEVICE]
        for where in (foreach, optimizer):
            setattr(where, name, functools.partial(list, listed))
    dataloader = torch.utils.data.DataLoader
    begin = dataloader.__init__

    @functools.wraps(begin)
    def without_workers(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        names = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory")
        more = ("drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")
        kwargs = {**dict(zip(names + more, args, strict=False)), **kwargs}
        for name in ("multiprocessing_context", "worker_init_fn", "prefetch_factor", "persistent_workers", "timeout"):
            kwargs.pop(name, None)
        self._asked_for_workers = bool(kwargs.get("num_workers"))
        kwargs.update(num_workers=0)
        begin(self, dataset, **kwargs)

    iterate = dataloader.__iter__
    iterator: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    following = iterator.__next__

    def batches(self: Any) -> Any:
        pins = self.pin_memory
        self.pin_memory = False
        made: Any = iterate(self)
        self.pin_memory = made._pins = pins
        made._elsewhere = getattr(self, "_asked_for_workers", False)
        return made

    def batch(self: Any) -> Any:
        # What workers do costs the program's own process nothing.
        route.recording.assume(LOADS)
        before = route.recording.dispatches
        found = following(self)
        if getattr(self, "_pins", False):
            found = pin_memory(found)  # type: ignore[no-untyped-call]
        if getattr(self, "_elsewhere", False):
            route.recording.dispatches = before
        return found

    dataloader.__init__ = without_workers  # type: ignore[method-assign]
    dataloader.__iter__ = batches  # type: ignore[method-assign]
    iterator.__next__ = batch
    anywhere.Generator = _generator()
    anywhere.Tensor.record_stream = lambda self, stream: None  # torch's own wants a stream of C++
    parallel: Any = scatter_gather
    parallel.Scatter = _Scatter
    wrap = anywhere.Tensor._make_wrapper_subclass

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrap(*args, **inward_named(kwargs))

    anywhere.Tensor._make_wrapper_subclass = staticmethod(wrapped)


class _Nothing:
    """What no tensor is."""


def _generator() -> Any:
    base: Any = torch._C.Generator

    class Generator(base):  # type: ignore[misc]
        """A generator of the host, whatever device was asked for: nothing is drawn."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, device="cpu")

    return Generator


_functions_disabled = torch._C._is_torch_function_all_disabled


def _patch_autocast(casts: autocast.CastCache) -> None:
    anywhere: Any = torch

    def renamed(name: str) -> None:
        inner = getattr(torch, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return inner(*(DEVICE if value == "cuda" else value for value in args), **kwargs)

        setattr(anywhere, name, call)

    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        renamed(name)
    enabled, enable = anywhere.is_autocast_enabled, anywhere.set_autocast_enabled
    anywhere.is_autocast_enabled = lambda *args: enabled(*(args or (DEVICE,)))
    anywhere.set_autocast_enabled = lambda *args: enable(*(args if len(args) == 2 else (DEVICE, *args)))
    anywhere.get_autocast_gpu_dtype = lambda: anywhere.get_autocast_dtype(DEVICE)
    anywhere.set_autocast_gpu_dtype = lambda dtype: anywhere.set_autocast_dtype(DEVICE, dtype)
    anywhere.set_autocast_dtype(DEVICE, torch.float16)
    clear = anywhere.clear_autocast_cache

    def cleared() -> None:
        casts.clear()
        clear()

    anywhere.clear_autocast_cache = cleared
    anywhere._C._is_autocast_available = _also_cuda(anywhere._C._is_autocast_available)
    anywhere.amp.is_autocast_available = anywhere._C._is_autocast_available
    anywhere.amp.autocast_mode.is_autocast_available = anywhere._C._is_autocast_available


def _also_cuda(inner: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda name: inner("cpu" if name == "cuda" else name)


def _patch_parameters(route: Route) -> None:
    """Parameters are fake from birth, and keep their identity as modules move them."""
    parameter: Any = nn.Parameter
    make = parameter.__new__

    def made(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) is torch.Tensor and data.device.type == "cpu":
            with torch._C.DisableTorchFunction(), route.fakes:
                data = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device=_HERE)
        return make(cls, data, requires_grad)

    parameter.__new__ = staticmethod(made)
    fake: Any = FakeTensor
    of_mode = fake.__new__

    def again(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """A parameter by the class of another, as libraries that load weights make it: ``type(old)(new)``."""
        if "fake_mode" in kwargs or (args and isinstance(args[0], FakeTensorMode)):
            return of_mode(cls, *args, **kwargs)
        return made(nn.Parameter, *args, **kwargs)

    fake.__new__ = staticmethod(again)
    module: Any = nn.Module
    inner = module._apply

    @functools.wraps(inner)
    def apply(self: Any, fn: Any, recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(fn)
        plain = {}
        for name, value in self._parameters.items():
            if value is None or type(value) is not FakeTensor:
                continue
            with torch.no_grad():
                become(value, fn(value))
                if type(value.grad) is FakeTensor:
                    value.grad = fn(value.grad)
            plain[name] = value
        rest = {name: value for name, value in self._parameters.items() if name not in plain}
        order = list(self._parameters)
        self._parameters = rest
        try:
            inner(self, fn, recurse=False)
        finally:
            together = {**self._parameters, **plain}
            self._parameters = {name: together[name] for name in order}
        return self

    module._apply = apply


def _cast_as(dtype: torch.dtype | None) -> Any:
    """The autocast under which a compiler traced the backward of its regions, which is that of their forward."""
    return nullcontext() if dtype is None else torch.autocast(DEVICE, dtype=dtype)


def _patch_backward(route: Route) -> None:
    graph: Any = torch.autograd.graph
    inner = graph._engine_run_backward
    recording = route.recording

    def run(*args: Any, **kwargs: Any) -> Any:
        """The engine calls back into the program (recomputation, hooks), where "cuda" means the device as well."""
        recording.backward_begins()
        try:
            # in this thread: exceptions, as checkpointing's early stop, cannot leave one of the fake device's own
            with route.functions, torch.autograd.set_multithreading_enabled(False), _cast_as(recording.cast_backward):
                return inner(*args, **kwargs)
        finally:
            recording.backward_ends()
            if recording.ends and not recording.backward:
                raise Finished

    graph._engine_run_backward = run
    autograd: Any = torch.autograd
    autograd._engine_run_backward = run


def _patch_checkpointing(route: Route) -> None:
    """What runs again in a backward is marked; what it compares of tensors leaves out the device's two names."""
    recording = route.recording
    anywhere: Any = checkpointing

    def shape_and_type(tensor: torch.Tensor) -> dict[str, Any]:
        return {"shape": tensor.shape, "dtype": tensor.dtype}

    anywhere._allowed_determinism_checks_to_fns[anywhere._DEFAULT_DETERMINISM_MODE] = shape_and_type
    hook = anywhere._recomputation_hook
    enter, leave = hook.__enter__, hook.__exit__

    def entered(self: Any) -> Any:
        recording.recomputing += 1
        return enter(self)

    def left(self: Any, *error: Any) -> Any:
        recording.recomputing -= 1
        return leave(self, *error)

    hook.__enter__, hook.__exit__ = entered, left
    reentrant = anywhere.CheckpointFunction
    begin, again = reentrant.forward, reentrant.backward

    def forward(ctx: Any, run_function: Any, *args: Any) -> Any:
        def run(*inner: Any) -> Any:
            if not recording.backward:
                return run_function(*inner)
            recording.recomputing += 1
            try:
                return run_function(*inner)
            finally:
                recording.recomputing -= 1

        return begin(ctx, run, *args)

    reentrant.forward, reentrant.backward = staticmethod(forward), staticmethod(again)


def _patch_storages(route: Route) -> None:
    storage: Any = torch.UntypedStorage
    inner = storage.resize_
    storages = route.recording.storages

    @functools.wraps(inner)
    def resize(self: Any, size: int) -> Any:
        storages.resized(self, int(size))
        return inner(self, size)

    storage.resize_ = resize
