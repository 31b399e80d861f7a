"""Functions: what a program says of "cuda" and what torch answers, rewritten as its functions are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _device as devices
from torch.utils._python_dispatch import _disable_current_modes

from runners.program import chip, moved, placeholders, tensor_types, values
from runners.program.devices import DEVICE, inward, inward_named
from runners.program.recording import Recording
from runners.program.tensors import is_on_device


def on_device(tensor: torch.Tensor) -> bool:
    """Whether a tensor, or the local part of one that is distributed, lies on the fake device."""
    return is_on_device(tensor) or (type(tensor) is not FakeTensor and tensor.device.type in (DEVICE, "cuda"))


def on_host(recording: Recording, tensor: torch.Tensor) -> torch.Tensor:
    """Return what is known of a fake tensor, else placeholders; from the device it is one copy, awaited."""
    host = tensor.detach().cpu()
    return placeholders.filled(recording, host) if type(host) is FakeTensor else host


def _read(numbers: Any) -> Any:
    """Numbers of nested lists, of which some are tensors that are read one by one."""
    if isinstance(numbers, torch.Tensor):
        return numbers.tolist()
    return [_read(one) for one in numbers] if isinstance(numbers, (list, tuple)) else numbers


class Cuda(TorchFunctionMode):
    """Rewrites what the program says of devices, and what torch answers."""

    def __init__(self, device: chip.Device, recording: Recording) -> None:
        super().__init__()
        self._special = _special(device, recording)
        self._recording = recording

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function with "cuda" named as torch knows it here."""
        self._recording.split_trains = False  # until a distributed tensor of this function says so
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs or {})
        return func(*inward(args), **(inward_named(kwargs) if kwargs else {}))


def _special(device: chip.Device, recording: Recording) -> dict[Any, Callable[[Any, Any, Any], Any]]:
    tensor: Any = torch.Tensor

    def told(func: Any, args: Any, kwargs: Any) -> Any:
        found = func(*args, **kwargs)
        return device.told if found.type == DEVICE else found

    def is_cuda(func: Any, args: Any, kwargs: Any) -> bool:
        return on_device(args[0])

    def cuda(func: Any, args: Any, kwargs: Any) -> Any:
        given = [*args[1:], kwargs.get("device")]
        blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
        assert len(given) >= 1
        return args[0].to(torch.device(DEVICE, 0), non_blocking=bool(blocking))

    def itself(func: Any, args: Any, kwargs: Any) -> Any:
        return args[0]

    def pin(func: Any, args: Any, kwargs: Any) -> Any:
        recording.pinned.add(args[0])
        return args[0]

    def is_pinned(func: Any, args: Any, kwargs: Any) -> bool:
        return recording.pinned.has(args[0])

    def built(func: Any, args: Any, kwargs: Any) -> Any:
        target = inward_named(kwargs).get("device")
        rest = {name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")}
        gradient = rest.pop("requires_grad", False)
        if isinstance(args[0] if args else None, torch.Tensor):
            source = args[0]
            made = source.detach().clone() if func is torch.tensor else source
            target = source.device if target is None and func is torch.tensor else target
            made = made.to(**({"dtype": rest["dtype"]} if rest.get("dtype") else {}))
        else:
            try:
                made = func(*args, device="cpu", **rest)
            except NotImplementedError:  # some of the numbers lie on the device
                made = func(_read(args[0]), *args[1:], device="cpu", **rest)
            target = devices.CURRENT_DEVICE if target is None else target
        target = torch.device(target) if isinstance(target, str) else target
        if target is not None and target.type != made.device.type:
            made = made.to(target)
        return made.requires_grad_() if gradient else made

    def new_tensor(func: Any, args: Any, kwargs: Any) -> Any:
        target = inward_named(kwargs).get("device") or args[0].device
        gradient = kwargs.get("requires_grad", False)
        made = torch.tensor(args[1], dtype=kwargs.get("dtype") or args[0].dtype).to(target)
        return made.requires_grad_() if gradient else made

    def as_array(func: Any, args: Any, kwargs: Any) -> Any:
        if type(args[0]) is FakeTensor:
            return func(on_host(recording, args[0]), *args[1:], **kwargs)
        return func(*args, **kwargs)

    def number(func: Any, args: Any, kwargs: Any) -> Any:
        return 0 if type(args[0]) is FakeTensor else func(*args, **kwargs)

    def index(func: Any, args: Any, kwargs: Any) -> int:
        return device.index if on_device(args[0]) else -1

    def kind(func: Any, args: Any, kwargs: Any) -> Any:
        wanted = tensor_types.named(args[1]) if len(args) > 1 else None
        if wanted is not None:
            return args[0].to(torch.device(DEVICE, 0), wanted)
        if len(args) == 1 and not kwargs and is_on_device(args[0]):
            return func(torch.empty(0, dtype=args[0].dtype)).replace("torch.", "torch.cuda.")
        return func(*inward(args), **kwargs)

    def copied(func: Any, args: Any, kwargs: Any) -> Any:
        source = args[0]
        if type(source) is not FakeTensor:
            return func(*args, **kwargs)
        memo = args[1]
        if id(source) not in memo:
            with torch.no_grad():
                made = source.detach().clone()
            if isinstance(source, nn.Parameter):
                made = nn.Parameter(made, source.requires_grad)
            else:
                made.requires_grad_(source.requires_grad)
            memo[id(source)] = made
        return memo[id(source)]

    def all_true(func: Any, args: Any, kwargs: Any) -> Any:
        return placeholders.tell(func(*args, **kwargs), True)

    def finite(func: Any, args: Any, kwargs: Any) -> Any:
        made = all_true(func, args, kwargs)
        if type(made) is FakeTensor:
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                values.give(made, torch.ones((), dtype=torch.bool).expand(made.shape))
        return made

    def formatted(func: Any, args: Any, kwargs: Any) -> str:
        if type(args[0]) is FakeTensor and args[0].dim() == 0:
            return format(args[0].item(), *args[1:])
        return str(func(*args, **kwargs))

    def indexed(func: Any, args: Any, kwargs: Any) -> Any:
        index = args[1]
        if isinstance(index, list):
            index = torch.tensor(index)
        elif isinstance(index, tuple) and any(isinstance(one, list) for one in index):
            index = tuple(torch.tensor(one) if isinstance(one, list) else one for one in index)
        return func(args[0], index, *args[2:])

    def one_hot(func: Any, args: Any, kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        if type(made) is FakeTensor:
            made.density = 1.0 / max(made.shape[-1], 1)  # type: ignore[attr-defined]
        return made

    def ctc_loss(func: Any, args: Any, kwargs: Any) -> Any:
        to = next((one.device for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)), None)

        def sent(one: Any) -> Any:  # lengths that lie on the host, as CUDA sends them before it divides
            return one.to(to) if isinstance(one, torch.Tensor) else one

        return func(*map(sent, args), **{name: sent(one) for name, one in kwargs.items()})

    def set_data(func: Any, args: Any, kwargs: Any) -> None:
        if not moved.set_data(*args):
            func(*args)

    def named(func: Any, args: Any, kwargs: Any) -> torch.device:
        if len(args) == 1 and type(args[0]) is int and not kwargs:  # a number alone is an accelerator's
            return torch.device("cuda", args[0])
        return torch.device(*args, **kwargs)

    def no(func: Any, args: Any, kwargs: Any) -> bool:
        return False

    found: dict[Any, Callable[[Any, Any, Any], Any]] = {
        tensor.device.__get__: told,
        tensor.is_cuda.__get__: is_cuda,
        tensor.cuda: cuda,
        tensor.pin_memory: pin,
        tensor.share_memory_: itself,
        tensor.is_pinned: is_pinned,
        tensor.new_tensor: new_tensor,
        tensor.numpy: as_array,
        tensor.__array__: as_array,
        tensor.__format__: formatted,
        tensor.data_ptr: number,
        tensor.get_device: index,
        tensor.type: kind,
        tensor.data.__set__: set_data,
        tensor.__deepcopy__: copied,
        tensor.all: all_true,
        tensor._is_all_true: all_true,
        torch._is_all_true: all_true,
        torch.all: all_true,
        torch.isfinite: finite,
        tensor.isfinite: finite,
        torch.allclose: all_true,
        tensor.__getitem__: indexed,
        tensor.__setitem__: indexed,
        torch.nn.functional.one_hot: one_hot,
        torch.ctc_loss: ctc_loss,
        torch.nn.functional.ctc_loss: ctc_loss,
        torch.device: named,
        torch.tensor: built,
        torch.as_tensor: built,
        torch.asarray: built,
    }
    return found
